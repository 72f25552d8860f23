"""A server below HTTP that says the same hostile thing to every request, and counts what it could say."""

import contextlib
import gzip
import itertools
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import orjson

from tomserve.engine.transport import MAX_BODY, Reply, Timeouts
from tomserve.engine.transports import make_transport
from tomserve.status import CONNECTION, LENGTH, MALFORMED, OK, REFUSAL, TIMEOUT

Piece = bytes | Callable[[socket.socket], object]
"""Bytes to send, or something to do with the connection."""
Saying = Callable[[], Iterable[Piece]]

KEY = "sk-0123456789"
BODY = b'{"model":"tiny","messages":[{"role":"user","content":"hi"}],"max_tokens":1}'


async def sent(
    name: str, url: str, timeouts: Timeouts | None = None, *, times: int = 1, key: str = KEY, body: bytes = BODY
) -> list[Reply]:
    """What the transport of that name makes of the replies to so many requests, one after the other."""
    client = make_transport(name, key, timeouts or Timeouts(connect=30, total=60))
    try:
        return [await client.send(url, body) for _ in range(times)]
    finally:
        await client.close()


class Hostile:
    """Says `saying()` after each request, piece by piece, until the client has gone. sent: the bytes that went out.
    heard: the heads of the requests. connections: how many there were. late: said a moment after each answer."""

    def __init__(self, saying: Saying, late: bytes = b"") -> None:
        self.saying, self.late, self.sent, self.connections, self.heard = saying, late, 0, 0, list[bytes]()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)  # so that accept ends before the next server is given its number
        self._accepting.join()
        self._socket.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self.connections += 1
                threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, ValueError):
            self.serve(connection)

    def head(self, connection: socket.socket) -> bytes | None:
        """Read one request and keep its head; None where the client has gone."""
        if (head := _request(connection)) is not None:
            self.heard.append(head)
        return head

    def serve(self, connection: socket.socket) -> None:
        while self.head(connection) is not None:
            for piece in self.saying():
                if callable(piece):
                    piece(connection)
                else:
                    connection.sendall(piece)
                    self.sent += len(piece)
            if self.late:
                time.sleep(0.05)
                connection.sendall(self.late)
                self.sent += len(self.late)


class Answering(Hostile):
    """Says what `answer` makes of the head of each request."""

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        super().__init__(lambda: [])
        self.answer = answer

    def serve(self, connection: socket.socket) -> None:
        while (head := self.head(connection)) is not None:
            connection.sendall(self.answer(head))


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
        f"HTTP/1.1 {code} Some", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers, "", "",
    ]  # fmt: skip
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


def completion(text: str | None, finish: str = "stop", **message: object) -> bytes:
    choice = {"message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
    return orjson.dumps({"choices": [choice]})


def chunked(body: bytes, size: int, trailer: bytes = b"") -> bytes:
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    whole = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return START + b"Transfer-Encoding: chunked\r\n\r\n" + whole + b"0\r\n" + trailer + b"\r\n"


def _slowly(pieces: Iterable[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        time.sleep(0.02)
        yield piece


def _drip(head: bytes, letter: bytes) -> Saying:
    return lambda: itertools.chain([head], _slowly(itertools.repeat(letter)))


def _forever(head: bytes, piece: bytes) -> Saying:
    return lambda: itertools.chain([head], itertools.repeat(piece))


def once(body: bytes, *headers: str, code: int = 200) -> Saying:
    return lambda: [response(body, *headers, code=code)]


def _reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def _close(connection: socket.socket) -> None:
    connection.shutdown(socket.SHUT_WR)


@dataclass(frozen=True)
class Behaviour:
    """status: of a transport's reply; None for one of those that say that there was no answer. waits: whether it says
    too little for ever, so that only the time limit ends it."""

    saying: Saying
    status: str | None = None
    waits: bool = False


START = b"HTTP/1.1 200 OK\r\n"
HALF = START + b"Content-Length: %d\r\n\r\n" % len(ANSWER) + ANSWER[:20]
DEEP = b'{"data":%b,"version":%b,"count":%b,"choices":%b}'
PACKED = gzip.compress(b" " * (MAX_BODY + 2**20) + ANSWER, 1)

NO_ANSWER: dict[str, Behaviour] = {
    "a head that drips": Behaviour(_drip(START + b"X-Drip: ", b"a"), TIMEOUT, True),
    "a body that drips": Behaviour(_drip(START + b"Content-Length: 1000000\r\n\r\n", b" "), TIMEOUT, True),
    "a body without a length that drips": Behaviour(_drip(START + b"\r\n", b" "), TIMEOUT, True),
    "HTTP 103 that drips": Behaviour(_drip(b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"), TIMEOUT, True),
    "nothing": Behaviour(lambda: _slowly(itertools.repeat(b"", 500)), TIMEOUT, True),
    "nothing after half a body": Behaviour(lambda: [HALF, *_slowly(itertools.repeat(b"", 500))], TIMEOUT, True),
    "HTTP 100 without end": Behaviour(_forever(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100), waits=True),
    "another protocol": Behaviour(lambda: [b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", ANSWER]),
    "headers without end": Behaviour(_forever(START, b"X-More: " + b"a" * 1000 + b"\r\n"), CONNECTION),
    "a header without end": Behaviour(_forever(START + b"X-Long: ", b"a" * 1000), CONNECTION),
    "too many headers": Behaviour(lambda: [START, b"X: y\r\n" * 100_000, b"Content-Length: %d\r\n\r\n" % len(ANSWER), ANSWER], CONNECTION),
    "a body without end": Behaviour(_forever(START + b"\r\n", b" " * 65536), MALFORMED),
    "chunks without end": Behaviour(
        _forever(START + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b" " * 65536 + b"\r\n"), MALFORMED
    ),
    "an enormous length": Behaviour(_forever(START + b"Content-Length: 99999999999\r\n\r\n", b" " * 65536), MALFORMED),
    "a length that is none": Behaviour(lambda: [START + b"Content-Length: -5\r\n\r\n", ANSWER]),
    "a bomb": Behaviour(once(PACKED, "Content-Encoding: gzip"), MALFORMED),
    "a bomb in chunks": Behaviour(lambda: [chunked(PACKED, 2**20).replace(START, START + b"Content-Encoding: gzip\r\n", 1)], MALFORMED),
    "a bomb in a bomb": Behaviour(once(gzip.compress(PACKED), "Content-Encoding: gzip, gzip"), MALFORMED),
    "brotli, unasked": Behaviour(once(ANSWER, "Content-Encoding: br"), MALFORMED),
    "not compressed as it says": Behaviour(once(ANSWER, "Content-Encoding: gzip"), MALFORMED),
    "half of gzip": Behaviour(once(gzip.compress(ANSWER)[:-9], "Content-Encoding: gzip"), MALFORMED),
    "JSON of 1,020 levels": Behaviour(once(DEEP % ((b"[" * 1020 + b"]" * 1020,) * 4)), MALFORMED),
    "JSON of a million levels": Behaviour(once(DEEP % ((b"[" * 1_000_000,) * 4)), MALFORMED),
    "invalid UTF-8": Behaviour(once(ANSWER.replace(b"t", b"t\xff\xfe")), MALFORMED),
    "no HTTP": Behaviour(lambda: [b"SSH-2.0-OpenSSH_9.2\r\n", _close], CONNECTION),
    "reset before an answer": Behaviour(lambda: [_reset], CONNECTION),
    "reset in mid-body": Behaviour(lambda: [HALF, _reset], CONNECTION),
    "closed without an answer": Behaviour(lambda: [_close], CONNECTION),
    "half-closed in mid-body": Behaviour(lambda: [HALF, _close], CONNECTION),
}  # fmt: skip
"""What no client may believe, by name; none of it is an answer."""

ANSWERED: dict[str, Behaviour] = {
    "half a surrogate pair": Behaviour(once(ANSWER.replace(b'"1"', b'"\\ud800"')), OK),
    "a number beyond all bounds": Behaviour(once(ANSWER.replace(b"3", b"1e999")), OK),
    "NaN": Behaviour(once(ANSWER.replace(b"3", b"NaN")), OK),
    "a byte order mark": Behaviour(once(b"\xef\xbb\xbf" + ANSWER), OK),
    "the answer": Behaviour(once(ANSWER), OK),
    "as plain text": Behaviour(lambda: [response(ANSWER).replace(b"application/json", b"text/plain")], OK),
    "compressed, unasked": Behaviour(once(gzip.compress(ANSWER), "Content-Encoding: gzip"), OK),
    "a proxy's page": Behaviour(once(b"<html>Bad Gateway</html>", code=502), "http_502"),
    "an error": Behaviour(once(b'{"error": {"message": "engine"}}', code=500), "http_500"),
    "a redirect": Behaviour(once(b"", "Location: http://127.0.0.1:1/", code=302), "http_302"),
    "busy": Behaviour(once(b"{}", "Retry-After: 7", code=429), "http_429"),
    **{f"HTTP {code}": Behaviour(once(b"{}", code=code), f"http_{code}") for code in (400, 404, 422, 503)},
    "a page": Behaviour(once(b"<html>hi</html>"), MALFORMED),
    "truncated JSON": Behaviour(once(b'{"choices": [{"mess'), MALFORMED),
    "no choices": Behaviour(once(b'{"choices": []}'), MALFORMED),
    "no content": Behaviour(once(completion(None)), MALFORMED),
    "JSON of the wrong type": Behaviour(once(b"[1, 2]"), MALFORMED),
    "cut off": Behaviour(once(completion("half", "length")), LENGTH),
    "a refusal": Behaviour(once(completion(None, refusal="no")), REFUSAL),
}
"""What a server may well answer, good and bad."""
