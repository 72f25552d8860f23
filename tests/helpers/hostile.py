"""A server below HTTP that says the same hostile thing to every request, and counts what it could say."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Self

import orjson

Saying = Callable[[], Iterable[bytes]]


class Hostile:
    """Says `saying()` after each request, piece by piece, until the client has gone. sent: the bytes that went out.
    heard: the heads of the requests."""

    def __init__(self, saying: Saying) -> None:
        self.saying, self.sent, self.heard = saying, 0, list[bytes]()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._socket.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, ValueError):
            while (head := _request(connection)) is not None:
                self.heard.append(head)
                for piece in self.saying():
                    connection.sendall(piece)
                    self.sent += len(piece)


def _request(connection: socket.socket) -> bytes | None:
    """Read one request; its head, or None where the client has gone."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (piece := connection.recv(65536)):
            return None
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
    while lengths and len(body) < int(lengths[0]):
        body += connection.recv(65536)
    return head


def response(body: bytes, *headers: str, code: int = 200) -> bytes:
    """A response with a body of known length."""
    lines = [
        f"HTTP/1.1 {code} Some",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *headers,
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + body


ANSWER = orjson.dumps(
    {
        "data": [{"id": "tiny"}],
        "version": "1",
        "count": 3,
        "choices": [{"message": {"content": "tea"}, "finish_reason": "stop"}],
    }
)
"""What answers every question that a client may have."""


def _slowly(pieces: Iterable[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        time.sleep(0.02)
        yield piece


def _chunks() -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    yield from itertools.repeat(b"10000\r\n" + b" " * 65536 + b"\r\n")


def _packed(times: int) -> bytes:
    body = b" " * 100_000_000 + ANSWER
    for _ in range(times):
        body = gzip.compress(body, 1)
    return body


def _drip(head: bytes, letter: bytes) -> Saying:
    return lambda: itertools.chain([head], _slowly(itertools.repeat(letter)))


def _forever(head: bytes, piece: bytes) -> Saying:
    return lambda: itertools.chain([head], itertools.repeat(piece))


def _once(body: bytes, *headers: str, code: int = 200) -> Saying:
    return lambda: [response(body, *headers, code=code)]


START = b"HTTP/1.1 200 OK\r\n"
DEEP = b'{"data":%b,"version":%b,"count":%b,"choices":%b}'
PACKED = _packed(1)

SAYINGS: dict[str, Saying] = {
    "a head that drips": _drip(START + b"X-Drip: ", b"a"),
    "a body that drips": _drip(START + b"Content-Length: 1000000\r\n\r\n", b" "),
    "a body without a length that drips": _drip(START + b"\r\n", b" "),
    "HTTP 100 without end": _forever(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    "HTTP 103 that drips": _drip(b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"),
    "another protocol": lambda: [b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", ANSWER],
    "headers without end": _forever(START, b"X-More: " + b"a" * 1000 + b"\r\n"),
    "a header without end": _forever(START + b"X-Long: ", b"a" * 1000),
    "too many headers": lambda: [START, b"X: y\r\n" * 100_000, b"Content-Length: %d\r\n\r\n" % len(ANSWER), ANSWER],
    "a body without end": _forever(START + b"\r\n", b" " * 65536),
    "chunks without end": _chunks,
    "an enormous length": _forever(START + b"Content-Length: 99999999999\r\n\r\n", b" " * 65536),
    "a length that is none": lambda: [START + b"Content-Length: -5\r\n\r\n", ANSWER],
    "a bomb": lambda: [response(PACKED, "Content-Encoding: gzip")],
    "a bomb in chunks": lambda: [
        START + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"%x\r\n%b\r\n0\r\n\r\n" % (len(PACKED), PACKED),
    ],
    "a bomb in a bomb": lambda: [response(gzip.compress(PACKED), "Content-Encoding: gzip, gzip")],
    "brotli, unasked": _once(ANSWER, "Content-Encoding: br"),
    "zstandard, unasked": _once(ANSWER, "Content-Encoding: zstd"),
    "half of gzip": _once(gzip.compress(ANSWER)[:-9], "Content-Encoding: gzip"),
    "JSON of 1,020 levels": _once(DEEP % ((b"[" * 1020 + b"]" * 1020,) * 4)),
    "JSON of a million levels": _once(DEEP % ((b"[" * 1_000_000,) * 4)),
    "half a surrogate pair": _once(ANSWER.replace(b'"1"', b'"\\ud800"').replace(b'"t', b'"\\udc00')),
    "a number beyond all bounds": _once(ANSWER.replace(b"3", b"1e999")),
    "NaN": _once(ANSWER.replace(b"3", b"NaN")),
    "no HTTP": lambda: [b"SSH-2.0-OpenSSH_9.2\r\n"],
    "nothing": lambda: _slowly(itertools.repeat(b"", 500)),
}
"""What no client may believe, by name; none of it is an answer."""
