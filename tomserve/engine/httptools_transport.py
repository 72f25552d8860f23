"""The transport that takes the least CPU time: requests written by hand, responses read by httptools (see
tomserve.engine.connection), over connections that stay open between requests."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import aiohappyeyeballs
import yarl

from tomserve.engine.bounded import MAX_HEAD
from tomserve.engine.connection import Connection, Response
from tomserve.engine.deadlines import Deadlines
from tomserve.engine.masking import shown
from tomserve.engine.network import Proxy, certificates, proxy_for, tls_advice
from tomserve.engine.transport import MAX_BODY, Reply, Timeouts, read_reply, retry_after
from tomserve.status import CONNECTION, MALFORMED, TIMEOUT

KEPT_IDLE = 15.0
"""Seconds for which a connection is kept open without a request."""

NAMES_KEPT = 10.0
"""Seconds for which the addresses of a host are kept before its name is looked up again."""

SHORTLY = 2.0
"""Seconds that a question about a server, rather than to its model, may take."""

ATTEMPT = 0.25
"""Seconds after which the next address of a host is tried beside one that has not answered yet (RFC 8305)."""

_OK = 200
_SERVER_FAULT = 500


@dataclass(slots=True)
class Site:
    """What requests to one scheme, host and port share.

    host, port, secure: where it is, and whether by TLS. head: the headers that every request has. proxy: what is
    connected to in its place. absolute: what stands before the path in a request; empty unless a proxy reads it.
    free: connections that wait for a request, the one used last at the end. addresses: those of what is connected to,
    looked up at `looked`.
    """

    host: str
    port: int
    secure: bool
    head: bytes
    proxy: Proxy | None = None
    absolute: bytes = b""
    free: deque[Connection] = field(default_factory=deque)
    addresses: list[Any] = field(default_factory=list)
    looked: float = 0.0

    @classmethod
    def of(cls, url: yarl.URL, key: str | None) -> Site:
        """That of a URL. key: the API key to send."""
        host = url.host_port_subcomponent or ""
        lines = [f"Host: {host}", "Accept: application/json", "Accept-Encoding: identity", "User-Agent: tomserve"]
        lines += [f"Authorization: Bearer {key}"] if key else []
        secure, proxy = url.scheme == "https", proxy_for(str(url))
        absolute = b"" if proxy is None or secure else f"{url.scheme}://{host}".encode()
        lines += [f"Proxy-Authorization: {proxy.login}"] if absolute and proxy is not None and proxy.login else []
        if any(mark in line for line in lines for mark in "\r\n"):
            raise ValueError("a host or an API key holds a line break")
        head = "".join(f"{line}\r\n" for line in lines).encode()
        return cls(url.host or "", url.port or 80, secure, head, proxy, absolute)

    @property
    def reached(self) -> tuple[str, int]:
        """The host and port that are connected to: its own, or those of the proxy."""
        return (self.host, self.port) if self.proxy is None else (self.proxy.host, self.proxy.port)

    @property
    def named(self) -> str:
        """What is connected to, in words."""
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
        """Keep a connection for further requests, or close it where it cannot be used again."""
        if connection.usable:
            connection.idle_since = time.monotonic()
            self.free.append(connection)
        else:
            connection.close()

    def tidy(self, now: float) -> None:
        """Close connections that have waited for too long."""
        while self.free and now - self.free[0].idle_since >= KEPT_IDLE:
            self.free.popleft().close()


class HttptoolsTransport:
    """Sends requests to OpenAI-compatible endpoints; each method does what `tomserve.engine.transport.Transport` says.

    api_key: sent as a bearer token in the header, and nowhere else. timeouts: in seconds (see Timeouts).
    """

    def __init__(self, api_key: str | None = None, timeouts: Timeouts | None = None) -> None:
        self._key = api_key
        self._timeouts = timeouts or Timeouts()
        self._stall = self._timeouts.stall if self._timeouts.stall < self._timeouts.total else None
        self._deadlines = Deadlines(self._timeouts.total, api_key, self._tidy)
        self._sites: dict[tuple[str, str, int | None], Site] = {}
        self._posts: dict[str, tuple[Site, bytes]] = {}

    def send(self, endpoint: str, body: bytes) -> Coroutine[Any, Any, Reply]:
        """POST a chat completion to ``<endpoint>/chat/completions`` and return the reply; raises only if cancelled."""
        return self._deadlines.reply(self._answered(endpoint, body))

    async def _answered(self, endpoint: str, body: bytes) -> Reply:
        """Send the body of a request; every failure is a status of the reply."""
        if (post := self._posts.get(endpoint)) is None:
            post = self._posts[endpoint] = self._post(endpoint)
        site, head = post
        connection = site.idle(time.monotonic())
        if connection is None:
            try:
                connection = await self._connect(site)
            except OSError as error:
                return Reply(CONNECTION, error=str(error), reached=False)
        try:
            response = await connection.ask(b"%b%d\r\n\r\n%b" % (head, len(body), body))
        except TimeoutError:
            return Reply(TIMEOUT, error="no complete reply in time")
        except OSError as error:
            return Reply(CONNECTION, error=str(error))
        site.keep(connection)
        return _reply(response)

    async def alive(self, endpoint: str) -> bool:
        """Whether the endpoint answers a request for its models within two seconds."""
        response = await self._get(f"{endpoint}/models")
        return response is not None and response.code < _SERVER_FAULT

    async def metrics(self, endpoint: str) -> bytes | None:
        """The page at ``/metrics`` beside ``/v1``, or None where it does not come within two seconds."""
        response = await self._get(f"{endpoint.removesuffix('/v1')}/metrics")
        return response.body if response is not None and response.code == _OK and not response.unreadable else None

    async def close(self) -> None:
        """Close all connections."""
        self._deadlines.close()
        for site in self._sites.values():
            while site.free:
                site.free.pop().close()
        await asyncio.sleep(0)

    async def _get(self, address: str) -> Response | None:
        """The response to a GET, or None where none comes in time."""
        url = yarl.URL(address)
        site = self._site(url)
        try:
            async with asyncio.timeout(SHORTLY):
                connection = site.idle(time.monotonic()) or await self._connect(site)
                response = await connection.ask(
                    b"GET %b%b HTTP/1.1\r\n%b\r\n" % (site.absolute, url.raw_path.encode(), site.head)
                )
        except OSError:  # TimeoutError is one
            return None
        site.keep(connection)
        return response

    def _site(self, url: yarl.URL) -> Site:
        where = (url.scheme, url.host or "", url.port)
        if where not in self._sites:
            self._sites[where] = Site.of(url, self._key)
        return self._sites[where]

    def _post(self, endpoint: str) -> tuple[Site, bytes]:
        """The site of an endpoint, and its request up to the length of the body."""
        url = yarl.URL(f"{endpoint}/chat/completions")
        site = self._site(url)
        line = b"POST %b%b HTTP/1.1\r\n" % (site.absolute, url.raw_path.encode())
        return site, line + site.head + b"Content-Type: application/json\r\nContent-Length: "

    async def _connect(self, site: Site) -> Connection:
        """Open a connection. Raises OSError where there is none in time."""
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
                        await tunnelled(found, site.host, site.port, site.proxy.login)
                    _, connection = await loop.create_connection(
                        lambda: Connection(MAX_BODY, self._stall), sock=found, **secured
                    )
                except BaseException:
                    found.close()
                    raise
                return connection
        except TimeoutError:
            raise OSError(f"cannot connect to {site.named} within {self._timeouts.connect:g} s") from None
        except ssl.SSLError as error:
            raise OSError(f"cannot connect to {site.named}: TLS failed ({error}); {tls_advice(error)}") from None
        except OSError as error:
            raise OSError(f"cannot connect to {site.named}: {error}") from None

    async def _addresses(self, site: Site) -> list[Any]:
        """The addresses of the host of a site, looked up where they are not known or old."""
        now = time.monotonic()
        if not site.addresses or now - site.looked > NAMES_KEPT:
            loop = asyncio.get_running_loop()
            site.addresses = await loop.getaddrinfo(*site.reached, type=socket.SOCK_STREAM)
            site.looked = now
        return site.addresses

    def _tidy(self) -> bool:
        """Close connections that have waited for too long; returns whether others still wait."""
        now = time.monotonic()
        for site in self._sites.values():
            site.tidy(now)
        return any(site.free for site in self._sites.values())


async def tunnelled(connected: socket.socket, host: str, port: int, login: str | None) -> None:
    """Have a proxy that is connected to hand on everything to a host. Raises OSError where it does not.

    login: the value of the header Proxy-Authorization, if the proxy wants one.
    """
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
        raise OSError(f"the proxy does not let tomserve through ({shown(status, 60)})")


def _reply(response: Response) -> Reply:
    """A response as a reply."""
    if response.unreadable is not None:
        reply = Reply(MALFORMED, error=f"the body cannot be read: it claims to be encoded as {response.unreadable!r}")
    elif response.body is None:
        reply = Reply(MALFORMED, error="huge body")
    else:
        reply = read_reply(response.code, response.body)
    if response.code != _OK:
        reply.retry_after = retry_after(response.retry_after)
    return reply
