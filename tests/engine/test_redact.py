"""No key that a server sends back stands in a row, a message or a log, in whatever spelling it comes."""

import asyncio
import base64
import html
import json
import re
from pathlib import Path
from urllib.parse import quote

import orjson
import pytest
from aiohttp import web

from tests.conftest import Endpoint, completion
from tests.helpers.asking import page, request
from tests.helpers.hostile import Hostile, sent
from tomserve.engine.redact import LEAST, LONGEST_ERROR, Redactor, clean_text
from tomserve.engine.replies import read_reply
from tomserve.engine.transport import Reply, decompress, redact_reply
from tomserve.engine.transports import TRANSPORTS
from tomserve.errors import ServerError
from tomserve.serving.probe import send_request

KEY = "sk-Ab/9+\"'<\\&7 zE=x"
"""A key that every way to write it down writes in another way."""
PLAIN = "sk-0123456789"

SPELLINGS = {
    "as it is": str,
    "in a URL": lambda key: quote(key, safe=""),
    "in a URL, in small letters": lambda key: re.sub("%..", lambda code: code[0].lower(), quote(key, safe="")),
    "in a path": quote,
    "in JSON": lambda key: json.dumps(key)[1:-1],
    "in JSON with escaped slashes": lambda key: json.dumps(key)[1:-1].replace("/", "\\/"),
    "in Python": repr,
    "in HTML": html.escape,
    "in base64": lambda key: base64.b64encode(key.encode()).decode(),
    "in base64 after Bearer": lambda key: base64.b64encode(f"Bearer {key}".encode()).decode(),
    "in base64 after a name": lambda key: base64.b64encode(f"me:{key}".encode()).decode(),
    "in base64 within JSON": lambda key: base64.b64encode(f'{{"k":"a{key}"}}'.encode()).decode(),
    "in base64 for URLs": lambda key: base64.urlsafe_b64encode(f"Bearer {key}".encode()).decode(),
}


@pytest.mark.parametrize("key", [KEY, PLAIN])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_key_is_found_in_every_spelling(spelling: str, key: str) -> None:
    written = SPELLINGS[spelling](key)
    said = Redactor(key)(f"you sent {written}, did you?")
    assert "***" in said
    assert written not in said
    left = said.removeprefix("you sent ").removesuffix(", did you?").replace("***", "")
    if "base64" in spelling:
        assert len(left) <= len(written) - len(key) * 4 // 3 + 4, "what is left are the ends, which tell of two letters"
    else:
        assert left in ("", "''")


def test_a_short_key_eats_no_answers() -> None:
    """Servers without a key are given one such as EMPTY, x or none."""
    for key in ("x", "EMPTY", "none", "a" * (LEAST - 1), "", None):
        mask = Redactor(key)
        text = f"the {key} box is EMPTY, and none of it is an x"
        assert mask(text) is text
    text = "nothing of it"
    assert Redactor(PLAIN)(text) is text
    assert Redactor(PLAIN, "second-key-1")(f"{PLAIN} second-key-1") == "*** ***"


def test_every_field_of_a_reply_is_masked_before_it_is_cut() -> None:
    for field in ("text", "reasoning", "finish_reason", "model", "error"):
        limit = 10**6 if field in ("text", "reasoning") else 200 if field != "error" else LONGEST_ERROR
        for before in range(limit - 30, limit + 3) if limit < 10**6 else (0, 1000):
            reply = Reply("ok", **{field: "a" * before + PLAIN + "b" * 600})
            redact_reply(reply, Redactor(PLAIN))
            found = getattr(reply, field)
            assert not any(PLAIN[:length] in found for length in range(4, len(PLAIN) + 1)), (field, before)
            assert len(found) <= max(limit, before + 603)
            assert reply.masked
    for body, limit, blanks in (("<html><title>{}", 300, "a "), ("{{{}", 2000, "  "), ('data: "{}"\n\n', 200, "a ")):
        for before in range(limit - 30, limit + 3):
            reply = read_reply(200, body.format((blanks * before)[: before - 1] + f" {PLAIN} " * 2).encode())
            redact_reply(reply, Redactor(PLAIN))
            assert not any(PLAIN[:length] in reply.error for length in range(4, len(PLAIN) + 1)), (body, before)
    with pytest.raises(ValueError, match=f"{PLAIN}$"):
        decompress(b"x", b"a" * 35 + PLAIN.encode(), 9)
    pieces = Reply("ok", tokens=[("sk-01234", -1.0), ("56789", -2.0)])
    redact_reply(pieces, Redactor(PLAIN))
    assert pieces.tokens is None
    clean = Reply("ok", "tea", "hm", "stop", model="tiny", tokens=[("tea", None)])
    redact_reply(clean, Redactor(PLAIN))
    assert clean == Reply("ok", "tea", "hm", "stop", model="tiny", tokens=[("tea", None)])


def test_data_keep_their_form() -> None:
    mask = Redactor("12345678")
    assert mask.redact_json({"a 12345678": ["x12345678y", 1, None]}) == {"a ***": ["x***y", 1, None]}
    assert mask.redact_json({"count": 12345678}) is None
    assert mask.redact_json(orjson.loads(b"[" * 900 + b"]" * 900)) is None
    assert mask.redact_json({"count": 5}) == {"count": 5}
    assert clean_text("a\x1b[2J\nb", 4) == "a\N{REPLACEMENT CHARACTER}[2"


@pytest.mark.parametrize("name", TRANSPORTS)
def test_no_transport_hands_the_key_on(name: str, endpoint: Endpoint) -> None:
    message = {"content": f"a {PLAIN} b", "reasoning": f"Bearer {PLAIN}", "role": "assistant"}
    choice = {"index": 0, "message": message, "finish_reason": f"stop {PLAIN}"}
    endpoint.script = lambda body, n: (
        web.json_response({"choices": [choice], "model": PLAIN})
        if n == 1
        else page(400, json.dumps({"error": {"message": f"{'x' * 490}{PLAIN}"}}))
    )

    first, second = asyncio.run(sent(name, endpoint.url, times=2, key=PLAIN, body=request(0).body))
    assert (first.text, first.reasoning, first.finish_reason) == ("a *** b", "Bearer ***", "stop ***")
    assert (first.model, first.masked) == ("***", True)
    assert second.error == "x" * 490 + "***"
    assert second.masked


def test_a_run_keeps_nowhere_what_was_sent_back_and_says_so(endpoint, cli, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("TOMSERVE_API_KEY", PLAIN)
    endpoint.version, endpoint.root = f"1.0+{PLAIN}", f"/models/{PLAIN}"

    def script(body, n):
        echoed = completion(f'{{"answer": "{PLAIN}"}}', reasoning=f"they sent {quote(PLAIN)}")
        return None if n % 2 or body.get("preflight") else web.json_response(echoed)

    endpoint.script = script
    done = cli("eval", "--base-url", endpoint.url, "--limit", 4, "--strategy", "vanilla", "--run", "r")
    assert done.code == 1, "two answers cannot be read"
    assert "sent the API key back in 2 of 4 replies" in done.out
    shown = cli("report", "r")
    for path in (tmp_path / "runs/r").rglob("*"):
        assert not path.is_file() or PLAIN.encode() not in path.read_bytes(), path
    assert PLAIN not in done.out + done.err + shown.out + shown.err
    rows = [orjson.loads(line) for line in (tmp_path / "runs/r/responses.jsonl").read_bytes().splitlines()]
    assert sorted(row.get("key_masked", False) for row in rows) == [False, False, True, True]


def test_an_answer_that_is_no_http_is_quoted_without_the_key() -> None:
    with Hostile(lambda: [f"{PLAIN} is no status\r\n\r\n".encode()]) as server:
        with pytest.raises(ServerError, match=r"\*\*\* is no status") as raised:
            send_request("GET", server.url, key=PLAIN)
        assert PLAIN not in str(raised.value)
