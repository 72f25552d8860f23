"""What is shown as the request is byte for byte what an evaluation sends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.conftest import completion, fill, make_item
from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.web.previews import How, preview


@contextmanager
def listening() -> Iterator[tuple[str, list[bytes]]]:
    """An endpoint that keeps the bytes of every question; its address, and these bytes."""
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            known = {"/v1/models": {"data": [{"id": "tiny", "max_model_len": 4096}]}, "/health": {}, "/version": {}}
            self._say(known.get(self.path))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked = orjson.loads(body)
            if self.path == "/tokenize":
                return self._say({"count": 100})
            hello = "response_format" not in asked and asked["messages"][0]["content"] in ("Hello.", "hi")
            if not hello:
                bodies.append(body)
            schema = asked.get("response_format", {}).get("json_schema", {}).get("schema")
            return self._say(completion(fill(schema) if schema else "tea", asked["model"]))

        def _say(self, told: Any) -> None:
            text = orjson.dumps(told)
            self.send_response(404 if told is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", bodies
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


@pytest.mark.parametrize(
    ("how", "options"),
    [
        (How("vanilla", model="tiny"), ()),
        (How("cot", model="tiny"), ()),
        (How("cot", model="tiny", temperature=0.7, seed=5, max_tokens=77), ("--temperature", 0.7, "--seed", 5, "--max-tokens", 77)),
        (How("simtom", model="tiny"), ()),
    ],
)  # fmt: skip
def test_the_body_that_is_shown_is_the_body_that_is_sent(cli: Any, tmp_path: Path, how: How, options: Any) -> None:
    items = [make_item(number) for number in (1, 2, 3)]
    file = tmp_path / "own.jsonl"
    file.write_bytes(b"".join(item.to_json() + b"\n" for item in items))
    with listening() as (address, bodies):
        done = cli("eval", "--benchmark", "items", "--path", file, "--base-url", address, "--strategy", how.strategy,
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
