"""What a measurement refuses, survives and says when it is gone on with, or meets files and servers that misbehave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pytest
from aiohttp import web

import tomserve
from tests.conftest import Endpoint, running
from tests.helpers.answerers import Answerer
from tests.helpers.asking import FAST
from tomserve.errors import ConfigError, RunMismatchError, ServerError, TomserveError
from tomserve.faithfulness.running import Measured, measure
from tomserve.faithfulness.settings import Connection, Settings
from tomserve.items import Item

Cli = Callable[..., Any]


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return [one for one in tomserve.load("perturbed") if one.factors["perturbation"] == "none"]


@pytest.fixture
def server(items: list[Item]) -> Iterator[Endpoint]:
    with running() as found:
        found.script = Answerer(items, follows=1.0)
        yield found


@pytest.fixture
def source(server: Endpoint, items: list[Item]) -> Path:
    return tomserve.ask(items, "cot", base_url=server.url, run="mine").folder


def measured(server: Endpoint, source: Path, place: str = "edited", **settings: Any) -> Measured:
    wanted = {"limit": 8, "probes": ("edits",), **settings}
    return measure(Settings(run=source, **wanted), Connection(base_urls=(server.url,), policy=FAST, patience=3), place)


def halfway(server: Endpoint, source: Path, items: list[Item]) -> Path:
    """A measurement of which some requests have no reply yet, since the server broke."""
    model = server.script

    def breaks(body: dict[str, Any], number: int) -> Any:
        shown = body["messages"][-1]["content"]
        late = body.get("structured_outputs") and '"belief":". . .' in shown.replace(" . .", ". .")
        return web.Response(status=500) if late or ". ." in shown else model(body, number)

    server.script = breaks
    found = measured(server, source)
    assert found.failures["http_500"] > 0
    server.script = model
    return found.folder


def test_a_server_that_begins_new_replies_does_not_go_on_with_replies_that_were_begun(
    server: Endpoint, source: Path, items: list[Item]
) -> None:
    folder = halfway(server, source, items)
    before = pl.read_parquet(folder / "scores.parquet")
    server.script = Answerer(items, follows=1.0, begins=False, holds=False)
    with pytest.raises(RunMismatchError, match="the server is another one now: it begins a new reply"):
        measured(server, source)
    server.script = Answerer(items, follows=1.0, holds=False)
    with pytest.raises(RunMismatchError, match="it held replies by structured_outputs, and now does by a schema"):
        measured(server, source)
    assert pl.read_parquet(folder / "scores.parquet").equals(before)
    server.script = Answerer(items, follows=1.0)
    assert not measured(server, source).failures


def test_other_weights_under_the_same_name_are_refused(items: list[Item]) -> None:
    with running() as server:
        server.script, server.root = Answerer(items), "org/model-a"
        source = tomserve.ask(items, "cot", base_url=server.url, run="mine").folder
        server.root = "org/model-b"
        with pytest.raises(RunMismatchError, match="written by weights org/model-a, and org/model-b is served now"):
            measured(server, source)
        assert not (source.parent / "edited").exists(), "no folder is left behind"


def test_a_server_that_is_busy_is_waited_for_and_a_broken_one_decides_nothing(
    server: Endpoint, source: Path, items: list[Item]
) -> None:
    model, busy = server.script, [0]

    def once(body: dict[str, Any], number: int) -> Any:
        if body.get("preflight") and "continue_final_message" in body:
            busy[0] += 1
            if busy[0] == 1:
                return web.Response(status=429, headers={"Retry-After": "0"})
        return model(body, number)

    server.script = once
    frame = pl.read_parquet(measured(server, source).folder / "scores.parquet")
    assert set(frame.filter(outcome="ok")["shown"]) == {"prefill"}

    def broken(body: dict[str, Any], number: int) -> Any:
        return web.Response(status=500) if body.get("continue_final_message") else model(body, number)

    server.script = broken
    with pytest.raises(ServerError, match="HTTP 500"):
        measured(server, source, "other")


@pytest.mark.parametrize(
    ("usage", "said"),
    [
        ({}, "it does not tell how many tokens a prompt has"),
        ({"usage": {"prompt_tokens": "many"}}, "it does not tell how many tokens a prompt has"),
        ({"usage": {"prompt_tokens": 7}}, "it begins a new reply"),
    ],
)
def test_why_replies_are_not_begun_is_said(
    cli: Cli, server: Endpoint, source: Path, usage: dict[str, Any], said: str
) -> None:
    model = server.script

    def tells(body: dict[str, Any], number: int) -> Any:
        made = model(body, number)
        made.pop("usage")
        return {**made, **usage}

    server.script = tells
    found = cli("faithfulness", "mine", "--base-url", server.url, "--limit", 4, "--probe", "edits", "--no-report")
    assert found.code == 0, found.err
    assert said in " ".join(found.out.split())


def test_failures_are_told_again_where_nothing_is_left_to_ask(cli: Cli, server: Endpoint, source: Path) -> None:
    model = server.script

    def refuses(body: dict[str, Any], number: int) -> Any:
        filler = ". . ." in body["messages"][-1]["content"]
        return web.json_response({"error": {"message": "too long"}}, status=400) if filler else model(body, number)

    server.script = refuses
    command = ("faithfulness", "mine", "--base-url", server.url, "--limit", 8, "--probe", "edits", "--no-report")
    first, again = cli(*command), cli(*command)
    assert (first.code, again.code) == (1, 1)
    assert "8 http_400; final, not asked again" in again.out
    assert "nothing left to ask" in again.out


def test_the_newest_run_of_answers_is_meant_where_none_is_named(cli: Cli, server: Endpoint, source: Path) -> None:
    command = ("faithfulness", "--base-url", server.url, "--limit", 4, "--probe", "edits", "--no-report")
    assert cli(*command).code == 0
    again = cli(*command)
    assert again.code == 0, again.err
    assert "nothing left to ask" in again.out


def test_answers_that_have_changed_since_are_told_so(server: Endpoint, source: Path, items: list[Item]) -> None:
    measured(server, source)
    journal = source / "responses.jsonl"
    journal.write_bytes(journal.read_bytes() + journal.read_bytes().splitlines()[0] + b"\n")
    with pytest.raises(RunMismatchError, match="the answers of mine have changed since their chains were edited here"):
        measured(server, source)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("temperature", "a\nb", "sampling: temperature: expected a number; found 'a\\nb'"),
        ("temperature", [1], "sampling: temperature: expected a number; found [1]"),
        ("seed", "x", "sampling: seed: expected a whole number; found 'x'"),
    ],
)
def test_a_manifest_of_a_stranger_is_read_with_care(
    server: Endpoint, source: Path, field: str, value: object, said: str
) -> None:
    manifest = orjson.loads((source / "manifest.json").read_bytes())
    manifest["sampling"][field] = value
    (source / "manifest.json").write_bytes(orjson.dumps(manifest))
    with pytest.raises(ConfigError) as error:
        measured(server, source)
    assert said in str(error.value)


def test_replies_and_plans_of_a_stranger_are_read_with_care(server: Endpoint, source: Path, items: list[Item]) -> None:
    folder = halfway(server, source, items)
    replies, plan = folder / "work/replies.jsonl", folder / "work/planned.jsonl"
    kept, planned = replies.read_bytes(), plan.read_bytes()
    for spoilt in (
        {"text": 5},
        {"error": ["x"]},
        {"reasoning": {}},
    ):
        lines = kept.splitlines()
        lines[3] = orjson.dumps({**orjson.loads(lines[3]), **spoilt})
        replies.write_bytes(b"\n".join(lines) + b"\n")
        with pytest.raises(ConfigError, match="expected text"):
            measured(server, source)
    replies.write_bytes(kept)
    for spoilt in (
        {"item": "nobody"},
        {"strategy": "vanilla"},
    ):
        lines = planned.splitlines()
        lines[0] = orjson.dumps({**orjson.loads(lines[0]), **spoilt})
        plan.write_bytes(b"\n".join(lines) + b"\n")
        with pytest.raises(ConfigError, match="is about no chain of mine"):
            measured(server, source)
    for line in (b"{", b"[]", b'{"item": 5}', b'{"item":"a","strategy":"b","kind":"c","condition":"d"}', b"null"):
        plan.write_bytes(line + b"\n")
        with pytest.raises(ConfigError, match=r"planned\.jsonl:1"):
            measured(server, source)
    plan.write_bytes(planned)
    assert not measured(server, source).failures


@pytest.mark.parametrize(
    "options",
    [
        {"limit": 2.5},
        {"limit": "5"},
        {"limit": True},
        {"shown": 5},
        {"predictor": 5},
        {"concurrency": 0},
        {"concurrency": "3"},
        {"timeout": -1},
        {"timeout": "x"},
        {"new": 5},
        {"revision": 3},
        {"where": [3]},
        {"edits": [3]},
    ],
)
def test_options_of_another_kind_are_refused_in_one_line(server: Endpoint, source: Path, options: Any) -> None:
    with pytest.raises(TomserveError) as error:
        tomserve.intervene("mine", base_url=server.url, **options)
    assert "\n" not in str(error.value)


def test_a_key_is_kept_nowhere(server: Endpoint, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOMSERVE_API_KEY", "sekret-4711")
    server.key = "sekret-4711"
    folder = measured(server, source).folder
    for path in folder.rglob("*"):
        assert not path.is_file() or b"sekret-4711" not in path.read_bytes(), path
