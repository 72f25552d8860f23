"""The default transport: requests are written by hand, responses read by httptools.

Whatever a server sends that nobody asked for closes the connection, so that it is never taken for the next answer.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections import deque
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast
from urllib.parse import SplitResult, urlsplit

import aiohappyeyeballs
import httptools

from tomserve.engine import rate_limits
from tomserve.engine.addresses import MOVED, explain_redirect, follow, root_of, url_of
from tomserve.engine.network import Proxy, certificates, proxy_for, tls_advice
from tomserve.engine.redact import Redactor, clean_text, cut_words
from tomserve.engine.replies import read_reply
from tomserve.engine.transport import (
    MAX_BODY,
    MAX_HEAD,
    OVERHEAD,
    SHORTLY,
    Reply,
    Timeouts,
    decompress,
    is_alive,
    note_limits,
    reply_in_time,
    secret_headers,
    secret_values,
)
from tomserve.status import CONNECTION, MALFORMED, http

_NO_BODY = (204, 304)
_LIMITS = frozenset(name.encode() for name in rate_limits.HEADERS)
_HEEDED = frozenset((b"content-length", b"transfer-encoding", b"content-encoding", b"location")) | _LIMITS


class Response(NamedTuple):
    code: int
    body: bytes | None  # None where it is too long to be read
    limits: dict[str, str] | None = None  # the headers that announce rate limits, if there are any
    unreadable: str | None = None  # the way of compression by which the body could not be read
    location: str | None = None  # the header


class Connection(asyncio.Protocol):
    """A connection, as the protocol of an asyncio transport. most: bytes of a body that are read at most."""

    __slots__ = (
        "_body", "_code", "_encoding", "_headed", "_length", "_limits", "_location", "_loop", "_parser", "_read",
        "_size", "_surplus", "_transport", "_until_end", "_waiting", "idle_since", "most",
    )  # fmt: skip

    def __init__(self, most: int) -> None:
        self.most = most
        self.idle_since = 0.0
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Response] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._surplus = False
        self._reset()

    def _reset(self) -> None:
        self._code, self._read, self._size = 0, 0, 0
        self._headed, self._until_end = False, True
        self._length: int | None = None
        self._encoding = b""
        self._limits: dict[str, str] | None = None
        self._location: str | None = None
        self._body: list[bytes] = []

    @property
    def usable(self) -> bool:
        """Whether another request can be sent: the last response is complete, and the server said no word since."""
        transport = self._transport
        return transport is not None and self._waiting is None and not self._surplus and not transport.is_closing()

    async def request(self, data: bytes) -> Response:
        """Send the bytes of a request and return the response. Raises ConnectionError where the connection ended, or
        what came was no HTTP; the connection is closed then."""
        assert self._transport is not None
        self._reset()
        self._waiting = waiting = self._loop.create_future()
        self._transport.write(data)
        try:
            response: Response = await waiting
            return response
        except BaseException:
            self.close()
            raise
        finally:
            self._waiting = None

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
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
        if (lower := name.lower()) not in _HEEDED:
            return
        if lower == b"content-length":
            self._length, self._until_end = int(value) if value.isdigit() else None, False
        elif lower == b"transfer-encoding":
            self._until_end = not value.lower().rstrip().endswith(b"chunked")
        elif lower == b"content-encoding":
            self._encoding = value.strip().lower()
        elif lower == b"location":
            self._location = value.decode("latin-1")
        else:
            self._limits = {**(self._limits or {}), lower.decode(): value.decode("latin-1")}

    def on_headers_complete(self) -> None:
        if self._waiting is None or self._waiting.done():  # of a second response to one request
            self._surplus = True
            return
        self._code, self._headed = self._parser.get_status_code(), True
        if (self._length or 0) > self.most:
            self._answer(None)

    def on_body(self, data: bytes) -> None:
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
        if self._waiting is None or self._waiting.done():
            self._surplus = True

    def _answer(self, body: bytes | None) -> None:
        if self._waiting is None or self._waiting.done():
            return
        unreadable = None
        if body is None:
            self._surplus = True  # its rest is not read
        elif self._encoding:
            try:
                body = decompress(body, self._encoding, self.most)
            except ValueError as error:
                unreadable = str(error)
        self._waiting.set_result(Response(self._code, body, self._limits, unreadable, self._location))

    def _fail(self, error: Exception) -> None:
        self._surplus = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)


KEPT_IDLE = 15.0  # seconds for which a connection is kept open without a request
NAMES_KEPT = 10.0  # seconds for which the addresses of a host are kept before its name is looked up again
ATTEMPT = 0.25
"""Seconds after which the next address of a host is tried beside one that has not answered yet (RFC 8305)."""

_OK = 200


@dataclass(slots=True)
class Site:
    """What requests to one scheme, host and port share."""

    host: str
    port: int
    secure: bool  # whether by TLS
    head: bytes  # the headers that every request has
    proxy: Proxy | None = None  # what is connected to in its place
    absolute: bytes = b""  # what stands before the path in a request; empty unless a proxy reads it
    # connections that wait for a request, the one used last at the end
    free: deque[Connection] = field(default_factory=deque)
    addresses: list[Any] = field(default_factory=list)  # of what is connected to, looked up at `looked`
    looked: float = 0.0

    @classmethod
    def of(cls, url: SplitResult, secret: Mapping[str, str]) -> Site:
        """That of a URL. secret: the headers by which it knows who asks."""
        host = url.netloc
        lines = [f"Host: {host}", "Accept: application/json", "Accept-Encoding: identity", "User-Agent: tomserve"]
        lines += [f"{name}: {value}" for name, value in secret.items()]
        secure, proxy = url.scheme == "https", proxy_for(url.geturl())
        absolute = b"" if proxy is None or secure else f"{url.scheme}://{host}".encode()
        lines += [f"Proxy-Authorization: {proxy.login}"] if absolute and proxy is not None and proxy.login else []
        if any(mark in line for line in lines for mark in "\r\n"):
            raise ValueError("a host, an API key or a header holds a line break")
        head = "".join(f"{line}\r\n" for line in lines).encode()
        return cls(url.hostname or "", _port(url), secure, head, proxy, absolute)

    @property
    def peer(self) -> tuple[str, int]:
        """The host and port that are connected to: its own, or those of the proxy."""
        return (self.host, self.port) if self.proxy is None else (self.proxy.host, self.proxy.port)

    @property
    def description(self) -> str:
        own = f"{self.host}:{self.port}"
        return own if self.proxy is None else f"{own} through the proxy {self.proxy.url}"

    def idle(self, now: float) -> Connection | None:
        """A connection that can be used again, or None. now: monotonic seconds."""
        while self.free:
            connection = self.free.pop()
            if connection.usable and now - connection.idle_since < KEPT_IDLE:
                return connection
            connection.close()
        return None

    def keep(self, connection: Connection) -> None:
        if connection.usable:
            connection.idle_since = time.monotonic()
            self.free.append(connection)
        else:
            connection.close()


class HttptoolsTransport:
    """Sends requests to OpenAI-compatible endpoints; each method does what `tomserve.engine.transport.Transport` says.

    api_key: sent as a bearer token in the header, and nowhere else. timeouts: in seconds (see Timeouts). headers: sent
    with every request, as secret as the key.
    """

    def __init__(
        self, api_key: str | None = None, timeouts: Timeouts | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        self._secret = secret_headers(api_key, headers)
        self._timeouts = timeouts or Timeouts()
        self._mask = Redactor(*secret_values(api_key, headers))
        self._sites: dict[tuple[str, str, int], Site] = {}
        self._posts: dict[str, tuple[Site, bytes]] = {}

    def send(self, endpoint: str, body: bytes) -> Coroutine[Any, Any, Reply]:
        return reply_in_time(self._send(endpoint, body), self._timeouts.total, self._mask)

    async def _send(self, endpoint: str, body: bytes, moved: str | None = None) -> Reply:
        """The reply of an endpoint. moved: the address to which it has sent the request on."""
        if moved is None and endpoint not in self._posts:
            self._posts[endpoint] = self._post(url_of(endpoint, "/chat/completions"))
        site, head = self._posts[endpoint] if moved is None else self._post(moved)
        connection = site.idle(time.monotonic())
        if connection is None:
            try:
                connection = await self._connect(site)
            except OSError as error:
                return Reply(CONNECTION, error=str(error), reached=False)
        try:
            response = await connection.request(b"%b%d\r\n\r\n%b" % (head, len(body), body))
        except OSError as error:
            return Reply(CONNECTION, error=str(error))
        site.keep(connection)
        if response.code in MOVED:
            url = moved or url_of(endpoint, "/chat/completions")
            if moved is None and (there := follow(url, response.location)) is not None:
                return await self._send(endpoint, body, there)
            return Reply(http(response.code), error=explain_redirect(url, response.location))
        return _reply(response)

    def _post(self, address: str) -> tuple[Site, bytes]:
        """Where a question is sent to, and how the request begins, up to the length of its body."""
        url = urlsplit(address)
        site = self._site(url)
        line = b"POST %b%b HTTP/1.1\r\n" % (site.absolute, _target(url))
        return site, line + site.head + b"Content-Type: application/json\r\nContent-Length: "

    async def alive(self, endpoint: str) -> bool:
        response = await self._get(url_of(endpoint, "/models"))
        return response is not None and is_alive(response.code)

    async def metrics(self, endpoint: str) -> bytes | None:
        response = await self._get(url_of(root_of(endpoint), "/metrics"))
        return response.body if response is not None and response.code == _OK and not response.unreadable else None

    async def close(self) -> None:
        for site in self._sites.values():
            while site.free:
                site.free.pop().close()
        await asyncio.sleep(0)

    async def _get(self, address: str) -> Response | None:
        url = urlsplit(address)
        site = self._site(url)
        try:
            async with asyncio.timeout(SHORTLY):
                connection = site.idle(time.monotonic()) or await self._connect(site)
                response = await connection.request(
                    b"GET %b%b HTTP/1.1\r\n%b\r\n" % (site.absolute, _target(url), site.head)
                )
        except OSError:  # TimeoutError is one
            return None
        site.keep(connection)
        return response

    def _site(self, url: SplitResult) -> Site:
        where = (url.scheme, url.hostname or "", _port(url))
        if where not in self._sites:
            self._sites[where] = Site.of(url, self._secret)
        return self._sites[where]

    async def _connect(self, site: Site) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._timeouts.connect):
                found = await aiohappyeyeballs.start_connection(
                    await self._addresses(site), happy_eyeballs_delay=ATTEMPT, interleave=1, loop=loop
                )
                found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                secured: dict[str, Any] = {}
                if site.secure:
                    secured = {"ssl": certificates(), "server_hostname": site.host}
                try:
                    if site.secure and site.proxy is not None:
                        await open_tunnel(found, site.host, site.port, site.proxy.login)
                    _, connection = await loop.create_connection(lambda: Connection(MAX_BODY), sock=found, **secured)
                except BaseException:
                    found.close()
                    raise
                return connection
        except TimeoutError:
            raise OSError(f"cannot connect to {site.description} within {self._timeouts.connect:g} s") from None
        except ssl.SSLError as error:
            raise OSError(f"cannot connect to {site.description}: TLS failed ({error}); {tls_advice(error)}") from None
        except OSError as error:
            raise OSError(f"cannot connect to {site.description}: {error}") from None

    async def _addresses(self, site: Site) -> list[Any]:
        now = time.monotonic()
        if not site.addresses or now - site.looked > NAMES_KEPT:
            loop = asyncio.get_running_loop()
            site.addresses = await loop.getaddrinfo(*site.peer, type=socket.SOCK_STREAM)
            site.looked = now
        return site.addresses


def _target(url: SplitResult) -> bytes:
    """The path and the query of an address."""
    return f"{url.path}?{url.query}".encode() if url.query else url.path.encode()


def _port(url: SplitResult) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


async def open_tunnel(connected: socket.socket, host: str, port: int, login: str | None) -> None:
    """Have a connected proxy hand on everything to a host. login: the header Proxy-Authorization, if the proxy wants
    one. Raises OSError where it does not."""
    loop = asyncio.get_running_loop()
    where = f"{f'[{host}]' if ':' in host else host}:{port}"
    asked = f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n"
    asked += f"Proxy-Authorization: {login}\r\n" if login else ""
    await loop.sock_sendall(connected, f"{asked}\r\n".encode())
    said = b""
    while not said.endswith(b"\r\n\r\n"):
        # A byte at a time, so that nothing is taken that the host says after the proxy.
        piece = await loop.sock_recv(connected, 1)
        if not piece or len(said) > MAX_HEAD:
            raise OSError("the proxy did not answer by HTTP")
        said += piece
    status = said.split(b"\r\n", 1)[0].decode("latin-1")
    version, _, code = status.partition(" ")
    if not version.startswith("HTTP/1.") or not code.startswith("2"):
        raise OSError(f"the proxy does not let tomserve through ({clean_text(cut_words(status, 60), 60)})")


def _reply(response: Response) -> Reply:
    if response.unreadable is not None:
        reply = Reply(MALFORMED, error=f"the body cannot be read: it claims to be encoded as {response.unreadable!r}")
    elif response.body is None:
        reply = Reply(MALFORMED, error="huge body")
    else:
        reply = read_reply(response.code, response.body)
    # A refusal may say in its own words how long to wait.
    return reply if response.limits is None and response.code == _OK else note_limits(reply, response.limits or {})
