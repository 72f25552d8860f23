"""A server below HTTP that says the same hostile thing to every request, and counts what it could say."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

import orjson

from tomserve.engine.transport import Reply, Timeouts
from tomserve.engine.transports import make_transport

Piece = bytes | Callable[[socket.socket], object]
"""Bytes to send, or something to do with the connection."""
Saying = Callable[[], Iterable[Piece]]

KEY = "sk-0123456789"
START = b"HTTP/1.1 200 OK\r\n"
DEEP = b'{"data":%b,"version":%b,"count":%b,"choices":%b}'
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


def once(body: bytes, *headers: str, code: int = 200) -> Saying:
    return lambda: [response(body, *headers, code=code)]
