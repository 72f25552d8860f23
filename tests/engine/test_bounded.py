"""Every way to ask a server something is bounded alike: the three transports, and what is asked before a run."""

from __future__ import annotations

import asyncio
import gzip
import threading
from pathlib import Path

import orjson
import pytest

from tests.helpers.hostile import ANSWER, SAYINGS, Hostile, response
from tomserve.engine import exchange
from tomserve.engine.bounded import MAX_BODY
from tomserve.engine.transport import Reply, Timeouts, read_reply
from tomserve.engine.transports import TRANSPORTS, transport
from tomserve.errors import ServerError
from tomserve.serving.probe import Probe, healthy
from tomserve.serving.target import told_by
from tomserve.status import CONNECTION, MALFORMED, TIMEOUT

KEY = "sk-0123456789"
BODY = b'{"model":"tiny","messages":[{"role":"user","content":"hi"}],"max_tokens":1}'
SHORT = Timeouts(connect=1, stall=1, total=1)
BUFFERS = 32 * 2**20
"""Bytes that may lie between a client that reads no more and a server that still writes."""


def sent_by(name: str, url: str, times: int = 1) -> Reply:
    async def go() -> Reply:
        client = transport(name, KEY, SHORT)
        try:
            for _ in range(times):
                reply = await client.send(url, BODY)
            assert await client.alive(url) in (True, False)
            page = await client.metrics(url)
            assert page is None or len(page) <= MAX_BODY
            return reply
        finally:
            await client.close()

    return asyncio.run(go())


@pytest.mark.parametrize("saying", SAYINGS)
@pytest.mark.parametrize("name", TRANSPORTS)
def test_no_transport_takes_it_for_an_answer_or_reads_without_end(name: str, saying: str) -> None:
    with Hostile(SAYINGS[saying]) as server:
        reply = sent_by(name, server.url)
    assert reply.status in (MALFORMED, CONNECTION, TIMEOUT, "http_101"), reply
    assert reply.error
    assert "\n" not in reply.error
    assert server.sent < 3 * (3 * MAX_BODY + BUFFERS)


@pytest.mark.parametrize("saying", SAYINGS)
def test_what_is_asked_before_a_run_is_bounded(saying: str) -> None:
    with Hostile(SAYINGS[saying]) as server, Probe(server.url, KEY, timeout=1.0) as probe:
        for ask in (probe.models, lambda: probe.check_fields("tiny", "s", {"prompt_logprobs": 1})):
            with pytest.raises(ServerError) as error:
                ask()
            assert "\n" not in str(error.value)
            assert str(error.value).isprintable()
            assert len(str(error.value)) < 1000
        assert probe.version() is None
        assert probe.tokens("tiny", [{"role": "user", "content": "hi"}]) is None
        assert healthy(server.url.removesuffix("/v1"), 1.0) in (True, False)
    assert server.sent < 5 * (3 * exchange.MOST + BUFFERS)


@pytest.mark.parametrize("name", TRANSPORTS)
def test_the_answers_that_the_table_spoils_are_good_ones(name: str) -> None:
    """Also compressed, which nobody asked for."""
    for said in (response(ANSWER), response(gzip.compress(ANSWER), "Content-Encoding: gzip")):
        with Hostile(lambda said=said: [said]) as server:
            assert sent_by(name, server.url, 2).text == "tea"
            assert b"accept-encoding: identity" in server.heard[0].lower()
            with Probe(server.url, KEY) as probe:
                assert probe.models() == [{"id": "tiny"}]
                assert (probe.version(), probe.tokens("tiny", [])) == ("1", 3)


@pytest.mark.parametrize("name", TRANSPORTS)
def test_no_redirect_is_followed(name: str) -> None:
    with Hostile(lambda: [response(ANSWER)]) as other:
        away = response(b"", f"Location: {other.url}/chat/completions", code=307)
        with Hostile(lambda: [away]) as server:
            assert sent_by(name, server.url).status == "http_307"
            with Probe(server.url, KEY) as probe:
                with pytest.raises(ServerError, match="HTTP 307"):
                    probe.models()
                assert probe.version() is None
            assert not healthy(server.url.removesuffix("/v1"), 1.0)
    assert other.heard == []


def test_a_name_that_nobody_looks_up_takes_no_longer_than_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def look(*_: object, **__: object) -> list[object]:
        over.wait(60)
        return []

    monkeypatch.setattr("socket.getaddrinfo", look)
    with Probe("http://a.invalid:8000/v1", KEY, timeout=0.2) as probe, pytest.raises(ServerError, match="in time"):
        probe.models()
    over.set()


@pytest.mark.parametrize(
    ("models", "said"),
    [
        ([{"id": "x" * 2**20}], "not an OpenAI-compatible endpoint"),
        ([{"id": "a\x1b[2J"}], "not an OpenAI-compatible endpoint"),
        ([{"id": f"m{n}"} for n in range(200_000)], "serves several models"),
        ([{"id": f"m{n}"} for n in range(2_000_000)], "longer than 4 MiB"),
        ([{"id": KEY}], "name holds the API key"),
    ],
    ids=["a long name", "an escape sequence", "very many", "millions", "the key"],
)
def test_lists_of_models_that_nobody_has(models: list[dict[str, str]], said: str) -> None:
    raw = response(orjson.dumps({"data": models}))
    with Hostile(lambda: [raw]) as server, Probe(server.url, KEY) as probe:
        with pytest.raises(ServerError, match=said) as error:
            probe.choose([])
        with pytest.raises(ServerError) as other:
            probe.choose(["mm"])
    for text in (str(error.value), str(other.value)):
        assert len(text) < 1000
        assert text.isprintable()
        assert KEY not in text


def test_what_a_server_says_of_itself_is_cut_and_inert() -> None:
    body = b'{"data":[{"id":"tiny","root":"/%b/\\u001b[31m%b","max_model_len":1%b}],"version":"\\u0007%b%b"}'
    raw = response(body % (KEY.encode(), b"r" * 2**20, b"0" * 30, KEY.encode(), b"v" * 2**20))
    with Hostile(lambda: [raw]) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOMSERVE_API_KEY", KEY)
        told = told_by(server.url, [None])
    assert told["root"].startswith("/***/\N{REPLACEMENT CHARACTER}[31mrrr")
    assert told["engine_version"].startswith("\N{REPLACEMENT CHARACTER}***vvv")
    assert len(told["root"]) <= 1000
    assert len(told["engine_version"]) <= 300
    assert told["max_model_len"] is None


@pytest.mark.parametrize("levels", [10, 300, 900, 1015, 1023, 1024, 100_000])
@pytest.mark.parametrize("around", [b"%b", b'{"error":%b}', b'{"choices":%b}', b'{"choices":[{"message":%b}]}'])
@pytest.mark.parametrize("code", [200, 400])
def test_nothing_that_nests_deeply_raises(levels: int, around: bytes, code: int) -> None:
    reply = read_reply(code, around % (b"[" * levels + b"]" * levels))
    assert reply.status == ("http_400" if code == 400 else MALFORMED)


def test_a_command_says_it_in_one_line(cli, tmp_path: Path) -> None:
    for saying in ("a head that drips", "HTTP 103 that drips", "a bomb", "half a surrogate pair"):
        with Hostile(SAYINGS[saying]) as server:
            done = cli("eval", "--base-url", server.url, "--limit", 1, "--timeout", 1)
        assert done.code == 2, saying
        assert done.err.count("\n") == 1, done.err
