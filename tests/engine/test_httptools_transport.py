"""The transport of httptools: what HTTP allows is read, and what nobody asked for is nobody's answer."""

import asyncio
import gzip
import itertools
import zlib
from collections.abc import Callable

import pytest

from tests.helpers.hostile import ANSWER, Hostile, chunked, completion, response
from tomserve.engine import httptools_transport, transports
from tomserve.engine.httptools_transport import HttptoolsTransport
from tomserve.engine.transport import MAX_BODY, Reply, Timeouts, decompress
from tomserve.status import CONNECTION, MALFORMED, OK, TIMEOUT

OTHER = response(completion("salt"))
BODY = b'{"messages":[]}'
START = b"HTTP/1.1 200 OK\r\n"


def packed(body: bytes, kind: str) -> bytes:
    return response(body, f"Content-Encoding: {kind}")


def answering(*answers: bytes, close: bool = False, late: bytes = b"") -> Hostile:
    every = itertools.chain(answers, itertools.repeat(answers[-1]))
    return Hostile(lambda: [next(every), *([lambda connection: connection.shutdown(1)] if close else [])], late)


def ask(
    url: str, count: int = 1, *, until: Callable[[], bool] = lambda: True, key: str | None = None, **timeouts: float
) -> list[Reply]:
    async def go() -> list[Reply]:
        transport = HttptoolsTransport(key, Timeouts(**{"connect": 30, "total": 30, **timeouts}))
        found = []
        for _ in range(count):
            found.append(await transport.send(url, BODY))
            while not until():  # noqa: ASYNC110 - what is waited for is done by another thread
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.01)
        await transport.close()
        return found

    return transports.run_loop(go())


READ = {
    "a length": response(ANSWER),
    "an offer to change the protocol": response(ANSWER, "Upgrade: h2,h2c", "Connection: Upgrade"),
    "chunks": chunked(ANSWER, 7),
    "chunks with a trailer": chunked(ANSWER, 50, b"X-After: 1\r\n"),
    "after a note to go on": b"HTTP/1.1 100 Continue\r\n\r\n" + b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + response(ANSWER),
    "gzip, though nobody asked for it": packed(gzip.compress(ANSWER), "gzip"),
    "deflate": packed(zlib.compress(ANSWER), "deflate"),
    "deflate without its header": packed(zlib.compress(ANSWER)[2:-4], "deflate"),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_what_http_allows_is_read_and_the_connection_used_again(name: str) -> None:
    with answering(READ[name]) as server:
        assert [(reply.status, reply.text) for reply in ask(server.url, 3)] == [(OK, "tea")] * 3
    assert server.connections == 1


ONCE = {
    "a body that ends with the connection": (START + b"\r\n" + ANSWER, True),
    "a connection that is to end": (response(ANSWER, "Connection: close"), False),
    "HTTP 1.0": (response(ANSWER).replace(b"HTTP/1.1", b"HTTP/1.0"), False),
    "a second answer": (response(ANSWER) + OTHER, False),
    "rubbish after it": (response(ANSWER) + b"rubbish", False),
    "half an answer after it": (response(ANSWER) + START + b"Content-", False),
}


@pytest.mark.parametrize("name", ONCE)
def test_a_connection_that_cannot_be_trusted_is_not_used_again(name: str) -> None:
    answer, close = ONCE[name]
    with answering(answer, close=close) as server:
        assert [reply.text for reply in ask(server.url, 3)] == ["tea"] * 3
    assert server.connections == 3


def test_what_comes_before_it_is_asked_for_is_nobodys() -> None:
    with answering(response(ANSWER), late=OTHER) as server:
        replies = ask(server.url, 2, until=lambda: server.sent >= len(response(ANSWER) + OTHER))
        assert [reply.text for reply in replies] == ["tea"] * 2
    assert server.connections == 2


LONG = b" " * (MAX_BODY + 1)
BROKEN = {
    "two lengths": (response(ANSWER, "Content-Length: 3"), CONNECTION),
    "a length and chunks": (chunked(ANSWER, 9).replace(b"\r\n", b"\r\nContent-Length: 9\r\n", 1), CONNECTION),
    "a chunk that is none": (START + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + ANSWER, CONNECTION),
    "a trailer without end": (chunked(ANSWER, 99, b"X-1: %b\r\n" % (b"y" * 1000) * 40_000), MALFORMED),
    "too long, as it says itself": (START + b"Content-Length: %d\r\n\r\n[" % len(LONG), MALFORMED),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_said_and_costs_the_next_question_nothing(name: str) -> None:
    answer, status = BROKEN[name]
    with answering(answer, response(ANSWER)) as server:
        first, second = ask(server.url, 2)
    assert first.status == status, first
    assert first.reached
    assert first.error
    assert (second.status, second.text) == (OK, "tea")


def test_a_server_that_falls_silent_is_a_timeout() -> None:
    with answering(START + b"Content-Length: %d\r\n\r\n" % (len(ANSWER) + 5) + ANSWER) as server:
        (reply,) = ask(server.url, total=0.2)
    assert (reply.status, reply.reached) == (TIMEOUT, True)


def test_a_request_says_who_asks_and_nothing_more() -> None:
    with answering(response(ANSWER)) as server:
        ask(server.url, key="sk-secret")
    head = server.heard[0].decode().splitlines()
    host = server.url.split("/")[2]
    assert head == [
        *("POST /v1/chat/completions HTTP/1.1", f"Host: {host}", "Accept: application/json"),
        *("Accept-Encoding: identity", "User-Agent: tomserve", "Authorization: Bearer sk-secret"),
        *("Content-Type: application/json", f"Content-Length: {len(BODY)}"),
    ]


def test_a_key_with_a_line_break_is_never_sent() -> None:
    with answering(response(ANSWER)) as server, pytest.raises(ValueError, match="line break"):
        ask(server.url, key="sk\r\nX-Evil: 1")
    assert not server.heard


def test_connections_that_wait_too_long_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(httptools_transport, "KEPT_IDLE", 0.0)
    with answering(response(ANSWER)) as server:
        assert [reply.status for reply in ask(server.url, 2)] == [OK, OK]
    assert server.connections == 2


def test_cancelled_requests_close_their_connections() -> None:
    with answering(response(ANSWER)) as server:

        async def go() -> Reply:
            transport = HttptoolsTransport()
            slow = asyncio.create_task(transport.send(server.url, BODY))
            await asyncio.sleep(0)
            slow.cancel()
            with pytest.raises(asyncio.CancelledError):
                await slow
            found = await transport.send(server.url, BODY)
            await transport.close()
            return found

        assert transports.run_loop(go()).status == OK


def test_a_body_that_unpacks_to_the_limit_is_read() -> None:
    assert decompress(gzip.compress(b"x" * 100), b"gzip", 100) == b"x" * 100
    assert decompress(gzip.compress(b"x" * 101), b"gzip", 100) is None
