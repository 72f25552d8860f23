"""Models that think before they answer: switched by the preset, kept apart from the answer, with room for it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

from tests.conftest import Endpoint, Outcome, completion, fill

Ask = Callable[..., Outcome]


def rows(tmp_path: Path, run: str) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in (tmp_path / "runs" / run / "responses.jsonl").read_bytes().splitlines()]


@pytest.fixture
def ask(endpoint: Endpoint, cli: Ask, items_file: Path) -> Ask:
    """Ask two questions of an endpoint that serves qwen3-8b and thinks when it is told to."""
    endpoint.models, endpoint.max_model_len = ["qwen3-8b"], 16384

    def script(body: dict[str, Any], number: int) -> dict[str, Any] | None:
        if not number:
            return None
        thoughts = "Let me see." if body["chat_template_kwargs"]["enable_thinking"] else None
        text = fill(body["response_format"]["json_schema"]["schema"])
        return completion(text, body["model"], reasoning=thoughts)

    endpoint.script = script
    asked = ("--base-url", endpoint.url, "--benchmark", "items", "--path", items_file, "--limit", 2)
    return lambda *more: cli("eval", *asked, *more)


def test_thinking_is_kept_apart_and_is_another_run_when_off(endpoint: Endpoint, ask: Ask, tmp_path: Path) -> None:
    assert ask().code == 0
    assert endpoint.requests
    for body in endpoint.requests:
        plain = 1024 if "step by step" in body["messages"][0]["content"] else 256
        told = [body[name] for name in ("thinking_token_budget", "max_tokens", "stop")]
        assert told == [4096, plain + 4096, ["<|im_end|>"]]
    found = rows(tmp_path, "items-qwen3-8b")
    assert {(row["reasoning"], row["status"], "Let me" in row["text"]) for row in found} == {
        ("Let me see.", "ok", False)
    }
    endpoint.requests.clear()
    assert ask("--thinking", "off").code == 0
    for body in endpoint.requests:
        assert body["chat_template_kwargs"] == {"enable_thinking": False}
        assert "thinking_token_budget" not in body
        assert body["max_tokens"] <= 1024
    assert {row["reasoning"] for row in rows(tmp_path, "items-qwen3-8b-thinking-off")} == {None}
    mixed = ask("--thinking", "off", "--run", "items-qwen3-8b")
    assert (mixed.code, "sampling" in mixed.err) == (2, True)
    endpoint.requests.clear()
    assert ask("--thinking", "500", "--max-tokens", "100").code == 0
    assert {(body["max_tokens"], body["thinking_token_budget"]) for body in endpoint.requests} == {(600, 500)}


@pytest.mark.parametrize(
    ("model", "thinking", "said"),
    [
        ("gpt-oss-20b", "off", "gpt-oss-20b cannot be kept from thinking"),
        ("qwen3-8b", "maybe", "--thinking 'maybe': expected on, off, or a number of tokens"),
        ("qwen3-8b", "0", "expected on, off, or a number"),
        ("qwen3-8b", "²", "expected on, off, or a number"),
        ("yi-34b", "on", "preset yi-34b has no reasoning: section"),
        ("unheard-of", "off", "no preset tells how unheard-of is switched"),
    ],
)
def test_what_cannot_be_switched(endpoint: Endpoint, ask: Ask, model: str, thinking: str, said: str) -> None:
    endpoint.models = [model]
    done = ask("--thinking", thinking)
    assert (done.code, endpoint.requests) == (2, [])
    assert said in done.err


def test_a_server_without_a_reasoning_parser_is_found_out_first(endpoint: Endpoint, ask: Ask) -> None:
    error = {"message": "thinking_token_budget is set but reasoning_config is not configured."}
    endpoint.script = lambda body, number: web.json_response({"error": error}, status=400)
    done = ask()
    assert (done.code, endpoint.requests) == (2, [])
    assert "add --reasoning-parser to its vLLM, or give --thinking off" in done.err


def test_a_context_without_room_for_thinking(endpoint: Endpoint, ask: Ask) -> None:
    endpoint.max_model_len = 4096
    assert "or lower --max-tokens or --thinking" in ask().err


def test_a_thought_that_fills_the_reply_is_no_answer(endpoint: Endpoint, ask: Ask, tmp_path: Path) -> None:
    endpoint.models = ["gpt-oss-20b"]
    endpoint.script = lambda body, number: (
        completion(None, body["model"], finish="length", reasoning="so ...") if number else None
    )
    assert ask().code == 1  # an outcome, not a failure of transport, but no reply holds an answer
    assert {row["status"] for row in rows(tmp_path, "items-gpt-oss-20b")} == {"length"}
    assert endpoint.requests[0]["reasoning_effort"] == "medium"
    assert "thinking_token_budget" not in endpoint.requests[0]
