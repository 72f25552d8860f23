"""Runs of the forced choice: what they keep, how they go on, and how they end where a server lacks log-probabilities."""

from typing import Any

import orjson
import pytest
from aiohttp import web

import tomserve
from tests.conftest import Endpoint, completion, make_item
from tomserve.errors import ServerError
from tomserve.runs.journal import read_rows

ITEMS = [make_item(number) for number in range(3)]
LIKELY = {"tea": -2.0, "salt": -0.5, "unknown": -3.0}


def weighing(body: dict[str, Any], number: int) -> dict[str, Any]:
    """The scripted reply of a server that knows how likely each option is."""
    option = body["messages"][-1]["content"]
    tokens = [("?", -1.0), (option, LIKELY.get(option, -1.0))]
    told = [{str(place): {"logprob": value, "decoded_token": text}} for place, (text, value) in enumerate(tokens)]
    return {**completion("."), "prompt_logprobs": [None, *told]}


def weighed(endpoint: Endpoint, **options: Any) -> tomserve.Run:
    return tomserve.ask(ITEMS, "forced_choice", base_url=endpoint.url, run="f", **options)


def test_the_likeliest_option_is_scored_and_its_tokens_are_kept(endpoint: Endpoint) -> None:
    endpoint.script = weighing
    run = weighed(endpoint)
    found = [row for _, row in read_rows(run.folder / "responses.jsonl")]
    assert len(found) == len(endpoint.requests) == 9
    closing = [row for row in found if "closes" in row]
    assert [(row["closes"], row["conclusion"]) for row in closing] == [(3, '{"answer": "salt"}')] * 3
    assert all(row["tokens"][0] == ["", None] and row["tokens_skipped"] == 0 for row in found)
    assert run.scores().select("answer", "parse", "status").unique().rows() == [("salt", "json", "ok")]
    assert run.manifest.complete


def test_a_resumed_run_weighs_the_options_that_it_has_and_asks_for_the_others(endpoint: Endpoint) -> None:
    endpoint.script = weighing
    journal = weighed(endpoint, concurrency=1).folder / "responses.jsonl"
    before = weighed(endpoint).scores()
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:5]))  # one conversation, and two of the three options of the next
    endpoint.requests.clear()
    assert weighed(endpoint).scores().equals(before)
    assert len(endpoint.requests) == 4


@pytest.mark.parametrize("refused", [True, False])
def test_a_server_without_log_probabilities_is_asked_nothing(endpoint: Endpoint, cli: Any, refused: bool) -> None:
    def lacking(body: dict[str, Any], number: int) -> web.StreamResponse | dict[str, Any]:
        if refused and "prompt_logprobs" in body:
            text = {"error": {"message": "Unrecognized request argument supplied: prompt_logprobs"}}
            return web.Response(status=400, body=orjson.dumps(text), content_type="application/json")
        return completion(".")

    endpoint.script = lacking
    done = cli("eval", "--base-url", endpoint.url, "--strategy", "forced_choice", "--limit", "2", "--run", "f")
    said = "Unrecognized request argument" if refused else "sends no log-probabilities of the prompt"
    assert done.code == 2
    (line,) = done.err.splitlines()
    assert said in line
    assert "'forced_choice'" in line
    assert "Traceback" not in done.err
    assert not endpoint.requests


def test_one_that_stops_sending_them_later_ends_the_run_and_keeps_what_came(endpoint: Endpoint) -> None:
    endpoint.script = lambda body, number: weighing(body, number) if number != 5 else completion(".")
    with pytest.raises(ServerError, match="sends no log-probabilities of the prompt"):
        weighed(endpoint, concurrency=1)
    rows = [row for _, row in read_rows(tomserve.Run.open("f").folder / "responses.jsonl")]
    assert len(rows) == 6
