"""One connection to a server: it carries one request after the other, and never two at once.

httptools (the parser of Node.js) reads what comes back. Whatever a server sends that nobody asked for, such as a second
answer to one request, closes the connection, so that it can never be taken for the answer to the next request.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple, cast

import httptools

from tomserve.engine.bounded import MAX_HEAD, OVERHEAD, decompressed

_NO_BODY = (204, 304)
_HEEDED = frozenset((b"content-length", b"transfer-encoding", b"content-encoding", b"retry-after"))


class Response(NamedTuple):
    """The status code of a response, its body (None where that is too long to be read), its header Retry-After, and in
    which way a body is compressed that could not be decompressed."""

    code: int
    body: bytes | None
    retry_after: str | None = None
    unreadable: str | None = None


class Connection(asyncio.Protocol):
    """A connection, as the protocol of an asyncio transport.

    most: bytes of a body that are read at most. stall: seconds between two pieces of a response at most; None for no
    limit of its own.
    """

    __slots__ = (
        "_body", "_code", "_encoding", "_headed", "_length", "_loop", "_parser", "_read", "_retry_after",
        "_size", "_stall", "_stalled", "_surplus", "_transport", "_until_end", "_waiting", "idle_since", "most",
    )  # fmt: skip

    def __init__(self, most: int, stall: float | None = None) -> None:
        self.most, self._stall = most, stall
        self.idle_since = 0.0
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Response] | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._surplus = False
        self._reset()

    def _reset(self) -> None:
        """Forget the response before."""
        self._code, self._read, self._size = 0, 0, 0
        self._headed, self._until_end = False, True
        self._length: int | None = None
        self._encoding = b""
        self._retry_after: str | None = None
        self._body: list[bytes] = []

    @property
    def usable(self) -> bool:
        """Whether another request can be sent: the last response is complete, and the server said no word since."""
        transport = self._transport
        return transport is not None and self._waiting is None and not self._surplus and not transport.is_closing()

    async def ask(self, request: bytes) -> Response:
        """Send the bytes of a request and return the response.

        Raises ConnectionError where the connection ended, or what came was no HTTP, before the response was complete,
        TimeoutError where the server fell silent, and asyncio.CancelledError. The connection is closed then.
        """
        assert self._transport is not None
        self._reset()
        self._waiting = waiting = self._loop.create_future()
        self._transport.write(request)
        self._wait_for_more()
        try:
            response: Response = await waiting
            return response
        except BaseException:
            self.close()
            raise
        finally:
            self._waiting = None
            if self._stalled is not None:
                self._stalled.cancel()

    def close(self) -> None:
        """Close the connection at once, whatever is under way."""
        if self._transport is not None:
            self._transport.abort()

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Read a piece of what the server sends."""
        if self._waiting is None or self._waiting.done():
            self._surplus = True
            self.close()
            return
        self._read += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(ConnectionError("the server changed to another protocol"))
        except httptools.HttpParserError as error:
            if not self._waiting.done():
                self._fail(ConnectionError(f"not HTTP: {error}"))
            self._surplus = True
        else:
            if not self._headed and self._read > MAX_HEAD:
                self._fail(ConnectionError("the headers have no end"))
            elif self._read > MAX_HEAD + OVERHEAD * self.most:
                self._answer(None)
        if self._surplus:
            self.close()
        elif self._stalled is not None:
            self._wait_for_more()

    def connection_lost(self, error: Exception | None) -> None:
        """The connection has ended, which ends a body of unknown length, and is an error for any other."""
        if self._waiting is None or self._waiting.done():
            return
        if error is None and self._headed and self._until_end:
            self._surplus = True
            self.on_message_complete()
            return
        where = "in the middle of a response" if self._headed else "without a response"
        self._fail(ConnectionError(f"the server ended the connection {where}" + (f" ({error})" if error else "")))

    # What the parser calls.

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header of the response, or one after a body in chunks."""
        if (lower := name.lower()) not in _HEEDED:
            return
        if lower == b"content-length":
            self._length, self._until_end = int(value) if value.isdigit() else None, False
        elif lower == b"transfer-encoding":
            self._until_end = not value.lower().rstrip().endswith(b"chunked")
        elif lower == b"content-encoding":
            self._encoding = value.strip().lower()
        elif lower == b"retry-after":
            self._retry_after = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """All headers are there."""
        if self._waiting is None or self._waiting.done():  # of a second response to one request
            self._surplus = True
            return
        self._code, self._headed = self._parser.get_status_code(), True
        if (self._length or 0) > self.most:
            self._answer(None)

    def on_body(self, data: bytes) -> None:
        """A piece of the body."""
        self._size += len(data)
        if self._size <= self.most:
            self._body.append(data)
        else:
            self._answer(None)

    def on_message_complete(self) -> None:
        """The response is complete; one that only says to wait (100 to 199) is followed by another."""
        if 100 <= self._code < 200:
            read = self._read
            self._reset()
            self._read = read  # all that is said before the body has one limit, else it might never end
        elif self._waiting is not None and not self._waiting.done():
            if not self._parser.should_keep_alive():
                self._surplus = True
            self._answer(b"".join(self._body) if self._code not in _NO_BODY else b"")

    def on_message_begin(self) -> None:
        """A response begins: the one that is waited for, or one too many."""
        if self._waiting is None or self._waiting.done():
            self._surplus = True

    def _answer(self, body: bytes | None) -> None:
        """Hand over the response to whoever waits for it."""
        if self._waiting is None or self._waiting.done():
            return
        unreadable = None
        if body is None:
            self._surplus = True  # its rest is not read
        elif self._encoding:
            try:
                body = decompressed(body, self._encoding, self.most)
            except ValueError as error:
                unreadable = str(error)
        self._waiting.set_result(Response(self._code, body, self._retry_after, unreadable))

    def _fail(self, error: Exception) -> None:
        self._surplus = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)

    def _wait_for_more(self) -> None:
        if self._stall is None:
            return
        if self._stalled is not None:
            self._stalled.cancel()
        self._stalled = self._loop.call_later(self._stall, self._fail, TimeoutError())
