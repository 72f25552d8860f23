"""What is shown as the request is byte for byte what an evaluation sends."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.conftest import Endpoint, Outcome, make_item, running
from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.web.items import How, preview


@pytest.mark.parametrize(
    ("how", "options"),
    [
        (How("vanilla", model="tiny"), ()),
        (How("cot", model="tiny", temperature=0.7, seed=5, max_tokens=77), ("--temperature", 0.7, "--seed", 5, "--max-tokens", 77)),
        (How("simtom", model="tiny"), ()),
    ],
)  # fmt: skip
def test_the_body_that_is_shown_is_the_body_that_is_sent(
    cli: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: How, options: Any
) -> None:
    bodies, own = list[bytes](), Endpoint._chat

    async def chat(self: Endpoint, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if b"Hello." not in body:  # what the preflight asks
            bodies.append(body)
        return await own(self, request)

    monkeypatch.setattr(Endpoint, "_chat", chat)
    items = [make_item(number) for number in (1, 2, 3)]
    file = tmp_path / "own.jsonl"
    file.write_bytes(b"".join(item.to_json() + b"\n" for item in items))
    with running() as server:
        done = cli("eval", "--benchmark", "items", "--path", file, "--base-url", server.url, "--strategy", how.strategy,
                   "--run", "sent", *options)  # fmt: skip
    assert done.code == 0, done.err
    shown = [preview(item, how) for item in items]
    for one in shown:
        assert [sent.body for sent in one.sent] == [body for body in bodies if body in {sent.body for sent in one.sent}]
    if not shown[0].more:
        assert sorted(bodies) == sorted(sent.body for one in shown for sent in one.sent)


def test_a_preset_shapes_the_request() -> None:
    item = make_item()
    plain, thinking = (
        preview(item, How("cot", "qwen3-8b", thinking=wanted)).sent[0].fields for wanted in ("off", "on")
    )
    assert plain["model"] == "qwen3-8b"
    assert plain["chat_template_kwargs"] == {"enable_thinking": False}
    assert thinking["max_tokens"] > plain["max_tokens"]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (How("../x"), "unknown strategy"),
        (How("/etc"), "unknown strategy"),
        (How("cot", "/tmp/x.yaml"), "unknown preset"),
        (How("cot", thinking="on"), "no preset tells"),
    ],
)
def test_what_is_not_among_the_content_is_refused(how: How, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        preview(make_item(), how)


def test_an_item_of_an_unknown_benchmark_is_asked_as_any_item() -> None:
    found = preview(Item.model_validate({**make_item().model_dump(), "benchmark": "somebodys"}), How())
    assert found.sent[0].messages[-1]["role"] == "user"
    assert "Jar number 1 holds tea." in found.sent[0].messages[-1]["content"]
