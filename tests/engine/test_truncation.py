"""Prompts that a server cuts off without a word are found by its numbers of tokens, and said wherever numbers are."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from aiohttp import web

from tests.conftest import Endpoint, completion, fill, make_item
from tomserve.engine.prompt_tokens import Truncation
from tomserve.items import write_items


@pytest.mark.parametrize(
    ("prompts", "cut"),
    [
        (((26_000, 2050), (56_000, 2050)), 2),  # too many characters a token
        (((9_000, 2050), (10_000, 2050), (12_000, 2050), (8_000, 1_900)), 3),  # plausible, but the same for all
        (((9_000, 2050), (9_100, 2050), (9_200, 2050)), 0),  # by accident
        (((9_000, 2050), (12_000, 2050), (12_100, 2051)), 0),
        (((3_000, 10), (2_000, 10), (1_000, 10)), 0),  # too short for any context
        (((26_000, None), (56_000, 0)), 0),
    ],
)
def test_what_the_numbers_of_tokens_show(prompts: Sequence[tuple[int, int | None]], cut: int) -> None:
    seen = Truncation()
    for size, tokens in prompts:
        seen.add("a" * size, tokens)
    assert (seen.found() or {"prompts": 0})["prompts"] == cut


def test_doubts_are_said_before_the_run_at_its_end_and_later(endpoint: Endpoint, cli, tmp_path: Path) -> None:
    long = ["It rains and the neighbours talk about the harbour." for _ in range(400)]
    write_items(tmp_path / "items.jsonl", [make_item(n, story=[*long, f"{n} falls."], gold=None) for n in range(3)])
    endpoint.max_model_len = None

    def script(body: dict, number: int) -> web.Response:
        text = fill(body["response_format"]["json_schema"]["schema"]) if "response_format" in body else "Hi"
        return web.json_response(completion(text, body["model"], finish="budget"))

    endpoint.script = script
    done = cli(
        "eval", "--base-url", endpoint.url, "--benchmark", "items", "--path", tmp_path / "items.jsonl", "--run", "r"
    )
    cut, strange = "the server cuts prompts off: it counted 10 tokens in", "ended for a reason that is not known"
    assert f"warning: {cut} 1 prompt of 2" in done.err + done.out
    for said in (done.err, cli("analyze", "r").err):
        assert strange in said
        assert cut in said
