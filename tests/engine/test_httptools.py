"""The transport of httptools against raw sockets: what HTTP allows is read, and what nobody asked for is nobody's answer."""

import asyncio
import gzip
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import orjson
import pytest

from tests.conftest import Endpoint, completion
from tests.helpers.asking import request
from tomserve.engine import aiohttp_transport, httptools_transport, loop, transports
from tomserve.engine.aiohttp_transport import AiohttpTransport
from tomserve.engine.bounded import decompressed
from tomserve.engine.httptools_transport import HttptoolsTransport
from tomserve.engine.transport import MAX_BODY, Reply, Timeouts
from tomserve.status import CONNECTION, MALFORMED, OK, TIMEOUT

GOOD = orjson.dumps(completion('{"answer":"tea"}'))
OTHER = orjson.dumps(completion('{"answer":"salt"}'))
BODY = b'{"messages":[]}'


def response(body: bytes = GOOD, *headers: str, status: str = "200 OK", version: str = "1.1") -> bytes:
    lines = [f"HTTP/{version} {status}", *(headers or (f"Content-Length: {len(body)}",)), "", ""]
    return "\r\n".join(lines).encode() + body


def chunked(body: bytes, size: int, trailer: bytes = b"") -> bytes:
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    whole = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return whole + b"0\r\n" + trailer + b"\r\n"


class Server:
    """Hands each connection to `serve`, with what was asked so far; counts the connections."""

    def __init__(self, serve: Callable[[socket.socket, int], None]) -> None:
        self.serve, self.connections, self.asked = serve, 0, []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/v1"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self.socket.accept()
                self.connections += 1
                threading.Thread(target=self._handle, args=(connection, self.connections), daemon=True).start()

    def _handle(self, connection: socket.socket, number: int) -> None:
        with connection, suppress(OSError):
            self.serve(connection, number)

    def read(self, connection: socket.socket) -> bytes | None:
        """One request; None once the client has closed the connection."""
        data = b""
        while not data.endswith(BODY):
            if not (piece := connection.recv(65536)):
                return None
            data += piece
        self.asked.append(data)
        return data


@contextmanager
def answering(*answers: bytes, close: bool = False, late: bytes = b"") -> Iterator[Server]:
    """A server that answers one request after the other on the same connection, and says `late` a moment after each."""

    def serve(connection: socket.socket, number: int) -> None:
        del number
        while server.read(connection) is not None:
            connection.sendall(answers[min(len(server.asked), len(answers)) - 1])
            if close:
                return
            if late:
                time.sleep(0.1)
                connection.sendall(late)

    server = Server(serve)
    yield server
    server.socket.close()


def ask(url: str, count: int = 1, *, wait: float = 0.0, key: str | None = None, **timeouts: float) -> list[Reply]:
    async def go() -> list[Reply]:
        transport = HttptoolsTransport(key, Timeouts(**{"connect": 2, "stall": 2, "total": 2, **timeouts}))
        found = []
        for _ in range(count):
            found.append(await transport.send(url, BODY))
            await asyncio.sleep(wait)
        await transport.close()
        return found

    return loop.run(go())


READ = {
    "a length": response(),
    "an offer to change the protocol": response(GOOD, f"Content-Length: {len(GOOD)}", "Upgrade: h2,h2c", "Connection: Upgrade"),
    "chunks": response(chunked(GOOD, 7), "Transfer-Encoding: chunked"),
    "chunks with a trailer": response(chunked(GOOD, 50, b"X-After: 1\r\n"), "Transfer-Encoding: chunked"),
    "after a note to go on": b"HTTP/1.1 100 Continue\r\n\r\n" + b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + response(),
    "gzip, though nobody asked for it": response(gzip.compress(GOOD), f"Content-Length: {len(gzip.compress(GOOD))}", "Content-Encoding: gzip"),
    "deflate": response(zlib.compress(GOOD), f"Content-Length: {len(zlib.compress(GOOD))}", "Content-Encoding: deflate"),
    "deflate without its header": response(zlib.compress(GOOD)[2:-4], f"Content-Length: {len(GOOD[:0]) + len(zlib.compress(GOOD)[2:-4])}", "Content-Encoding: deflate"),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_what_http_allows_is_read_and_the_connection_used_again(name: str) -> None:
    with answering(READ[name]) as server:
        replies = ask(server.url, 3)
    assert [(reply.status, reply.text) for reply in replies] == [(OK, '{"answer":"tea"}')] * 3
    assert server.connections == 1


@pytest.mark.parametrize("head", [("Connection: close",), ()])
def test_a_body_may_end_with_the_connection(head: tuple[str, ...]) -> None:
    with answering(response(GOOD, *(head or ("X-Nothing: 1",))), close=True) as server:
        replies = ask(server.url, 2)
    assert [reply.text for reply in replies] == ['{"answer":"tea"}'] * 2
    assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        response(GOOD, f"Content-Length: {len(GOOD)}", "Connection: close"),
        response(version="1.0"),
    ],
)
def test_a_connection_that_is_not_to_stay_is_not_used_again(answer: bytes) -> None:
    with answering(answer) as server:
        assert [reply.status for reply in ask(server.url, 2)] == [OK, OK]
    assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        response() + response(OTHER),
        response() + b"rubbish",
        response() + b"HTTP/1.1 200 OK\r\nContent-",
    ],
)
def test_what_follows_an_answer_is_nobodys(answer: bytes) -> None:
    with answering(answer) as server:
        assert [reply.text for reply in ask(server.url, 3)] == ['{"answer":"tea"}'] * 3
    assert server.connections == 3


def test_what_comes_before_it_is_asked_for_is_nobodys() -> None:
    with answering(response(), late=response(OTHER)) as server:
        assert [reply.text for reply in ask(server.url, 3, wait=0.3)] == ['{"answer":"tea"}'] * 3
    assert server.connections == 3


BROKEN = {
    "another protocol": (b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", CONNECTION),
    "two lengths": (response(GOOD, f"Content-Length: {len(GOOD)}", "Content-Length: 3"), CONNECTION),
    "a length and chunks": (response(chunked(GOOD, 9), "Content-Length: 9", "Transfer-Encoding: chunked"), CONNECTION),
    "a length that is none": (response(GOOD, "Content-Length: -5"), CONNECTION),
    "a chunk that is none": (response(b"zz\r\n" + GOOD, "Transfer-Encoding: chunked"), CONNECTION),
    "headers without end": (b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 700_000, CONNECTION),
    "too long, as it says itself": (response(b"[", f"Content-Length: {MAX_BODY + 1}"), MALFORMED),
    "too long, once unpacked": (
        response(gzip.compress(b" " * (MAX_BODY + 1)), "Content-Encoding: gzip", f"Content-Length: {len(gzip.compress(b' ' * (MAX_BODY + 1)))}"),
        MALFORMED,
    ),
    "not compressed as it says": (response(GOOD, "Content-Encoding: gzip", f"Content-Length: {len(GOOD)}"), MALFORMED),
    "compressed in a way nobody asked for": (response(GOOD, "Content-Encoding: br", f"Content-Length: {len(GOOD)}"), MALFORMED),
    "compressed and cut off": (
        response(gzip.compress(GOOD)[:-9], "Content-Encoding: gzip", f"Content-Length: {len(gzip.compress(GOOD)) - 9}"),
        MALFORMED,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_said_and_costs_the_connection_only_where_it_must(name: str) -> None:
    answer, status = BROKEN[name]
    with answering(answer, response()) as server:
        first, second = ask(server.url, 2)
    assert first.status == status, first
    assert first.reached
    assert first.error
    assert (second.status, second.text) == (OK, '{"answer":"tea"}')


def test_chunks_of_one_byte_are_read_and_endless_ones_end() -> None:
    with answering(response(chunked(GOOD, 1), "Transfer-Encoding: chunked")) as server:
        assert ask(server.url)[0].status == OK
    trailers = b"".join(b"X-%d: %b\r\n" % (number, b"y" * 1000) for number in range(40_000))
    with answering(response(chunked(GOOD, 99, trailers), "Transfer-Encoding: chunked")) as server:
        assert ask(server.url, total=20, stall=20)[0].status == MALFORMED


def test_a_server_that_falls_silent_is_a_timeout_before_the_whole_time_is_over() -> None:
    with answering(response(GOOD, f"Content-Length: {len(GOOD) + 5}")) as server:
        began = time.monotonic()
        (reply,) = ask(server.url, stall=0.3, total=20)
    assert (reply.status, reply.reached) == (TIMEOUT, True)
    assert time.monotonic() - began < 5


def test_a_request_says_who_asks_and_nothing_more() -> None:
    with answering(response()) as server:
        ask(server.url, key="sk-secret")
    head = server.asked[0].split(b"\r\n\r\n")[0].decode().splitlines()
    host = server.url.split("/")[2]
    assert head == [
        *("POST /v1/chat/completions HTTP/1.1", f"Host: {host}", "Accept: application/json"),
        *("Accept-Encoding: identity", "User-Agent: tomserve", "Authorization: Bearer sk-secret"),
        *("Content-Type: application/json", f"Content-Length: {len(BODY)}"),
    ]


def test_a_key_with_a_line_break_is_never_sent() -> None:
    with answering(response()) as server, pytest.raises(ValueError, match="line break"):
        ask(server.url, key="sk\r\nX-Evil: 1")
    assert not server.asked


def test_connections_that_wait_too_long_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(httptools_transport, "KEPT_IDLE", 0.2)
    with answering(response()) as server:
        assert [reply.status for reply in ask(server.url, 2, wait=0.5)] == [OK, OK]
    assert server.connections == 2


def test_a_host_that_does_not_exist_was_never_reached() -> None:
    (reply,) = ask("http://no-such-host.invalid:1/v1")
    assert (reply.status, reply.reached) == (CONNECTION, False)
    assert "no-such-host.invalid:1" in (reply.error or "")


def test_many_at_once_share_no_connection(endpoint: Endpoint) -> None:
    async def go() -> list[Reply]:
        transport = HttptoolsTransport()
        found = await asyncio.gather(*(transport.send(endpoint.url, request(number).body) for number in range(60)))
        assert await transport.alive(endpoint.url)
        assert not await transport.alive("http://127.0.0.1:1/v1")
        assert await transport.metrics("http://127.0.0.1:1/v1") is None
        await transport.close()
        return found

    assert {reply.status for reply in loop.run(go())} == {OK}


def test_cancelled_requests_close_their_connections() -> None:
    with answering(response()) as server:

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

        assert loop.run(go()).status == OK


def test_a_body_that_unpacks_to_the_limit_is_read() -> None:
    assert decompressed(gzip.compress(b"x" * 100), b"gzip", 100) == b"x" * 100
    assert decompressed(gzip.compress(b"x" * 101), b"gzip", 100) is None


def test_the_loop_is_that_of_uvloop_and_without_it_asyncios(monkeypatch: pytest.MonkeyPatch) -> None:
    async def name() -> str:
        return type(asyncio.get_running_loop()).__module__

    assert loop.run(name()).startswith("uvloop")
    monkeypatch.setitem(__import__("sys").modules, "uvloop", None)
    assert loop.run(name()).startswith("asyncio")


def test_the_default_is_httptools_and_aiohttp_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def made() -> tuple[object, ...]:
        found = tuple(transports.transport(name) for name in transports.TRANSPORTS[:2])
        for one in found:
            await one.close()
        return found

    assert tuple(map(type, loop.run(made()))) == (HttptoolsTransport, AiohttpTransport)
    monkeypatch.setitem(__import__("sys").modules, "tomserve.engine.httptools_transport", None)
    assert tuple(map(type, loop.run(made()))) == (aiohttp_transport.AiohttpTransport,) * 2
