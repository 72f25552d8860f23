"""A synchronous HTTP client for the few requests outside of a run, within limits of time and size.

The time covers all of it: looking up the name, connecting, TLS, every piece of the answer. Redirects are not
followed.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

import httpcore
import orjson

from tomserve.engine.network import certificates, proxy_for, tls_advice
from tomserve.engine.redact import Redactor, clean_text
from tomserve.engine.transport import MAX_HEAD, OVERHEAD, UNENCODED, decompress
from tomserve.errors import ServerError

MOST = 4 * 2**20
"""Bytes of an answer that are read at most; the longest lists of models have about one million."""

CONNECT = 10.0
"""Seconds that looking up a name and connecting may take."""

_PIECE = 2**16

_Headers = dict[bytes | str, bytes | str]


@dataclass(frozen=True, slots=True)
class SyncResponse:
    """What came back: the HTTP status code, the headers by their names in small letters, and the body."""

    status_code: int
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes = b""

    def json(self) -> Any:
        """The body read as JSON. Raises ValueError where it is none, or holds a number or text that cannot be right."""
        return orjson.loads(self.content)

    @property
    def text(self) -> str:
        """The body as text, whatever it is."""
        return self.content.decode("utf-8", "replace")


class SyncClient:
    """A client for one server after the other; as a context manager it closes its connections.

    key: sent as a bearer token, and masked in what errors say. seconds: how long one exchange may take at most.
    """

    def __init__(self, key: str | None = None, seconds: float = 60.0) -> None:
        self.mask = Redactor(key)
        self._headers: _Headers = {"Accept": "application/json", "Accept-Encoding": UNENCODED, "User-Agent": "tomserve"}
        self._headers |= {"Authorization": f"Bearer {key}"} if key else {}
        self._budget = _Budget(seconds)
        self._pools: dict[tuple[str, str], httpcore.ConnectionPool] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pool in self._pools.values():
            pool.close()

    def request(self, method: str, url: str, body: Mapping[str, Any] | None = None, about: str = "") -> SyncResponse:
        """Send a request and return the answer, whatever its status. body: sent as JSON. about: the server as errors
        name it, by default the URL.

        Raises ServerError where no whole answer comes in time and within the limits, ConfigError for a proxy or
        certificates that cannot be used.
        """
        pool, about = self._pool(url), about or url
        content = None if body is None else orjson.dumps(body)
        headers = dict(self._headers)
        if body is not None:
            headers["Content-Type"] = "application/json"
        self._budget.begin()
        try:
            return self._answer(pool, method, url, headers, content)
        except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
            if isinstance(error.__cause__, ssl.SSLError) or "SSL" in str(error):
                raise ServerError(f"{about}: TLS failed ({self._describe(error)}); {tls_advice(error)}") from None
            hint = "start one with `make serve`, or check host and port"
            raise ServerError(f"{about}: no server answers there ({self._describe(error)}); {hint}") from None
        except httpcore.ProxyError as error:
            raise ServerError(f"{about}: the proxy does not let tomserve through ({self._describe(error)})") from None
        except httpcore.TimeoutException:
            hint = "it may be loading or busy: try again later, or raise --timeout"
            raise ServerError(f"{about}: a server is there, but did not answer in time; {hint}") from None
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol, ValueError) as error:
            raise ServerError(
                f"{about}: does not speak HTTP as an OpenAI-compatible server does ({self._describe(error)})"
            ) from None

    def _describe(self, error: BaseException) -> str:
        """What an error says, on one line and without the key."""
        return clean_text(" ".join(self.mask(str(error)).split()), 300) or type(error).__name__

    def _answer(
        self, pool: httpcore.ConnectionPool, method: str, url: str, headers: _Headers, content: bytes | None
    ) -> SyncResponse:
        """The answer to one request. Raises errors of httpcore, and ValueError for what cannot be read."""
        with pool.stream(method, url, headers=headers, content=content) as response:
            if sum(len(name) + len(value) + 4 for name, value in response.headers) > MAX_HEAD:
                raise ValueError("the headers have no end")
            headers_read = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
            pieces, size = [], 0
            for piece in response.iter_stream():
                size += len(piece)
                pieces.append(piece)
                if size > MOST:
                    raise ValueError(_TOO_MUCH)
            encoding = headers_read.get("content-encoding", "")
            try:
                whole = decompress(b"".join(pieces), encoding.encode("latin-1"), MOST)
            except ValueError as error:
                claim = f"its answer claims to be encoded as {str(error)!r}, which was not asked for"
                raise ValueError(claim) from None
            if whole is None:
                raise ValueError(_TOO_MUCH)
            return SyncResponse(response.status, headers_read, whole)

    def _pool(self, url: str) -> httpcore.ConnectionPool:
        """The connections to the server of a URL."""
        parts = urlsplit(url)
        if (where := (parts.scheme, parts.netloc)) not in self._pools:
            proxy = proxy_for(url)
            login: _Headers = {"Proxy-Authorization": proxy.login} if proxy is not None and proxy.login else {}
            self._pools[where] = httpcore.ConnectionPool(
                ssl_context=certificates() if parts.scheme == "https" else None,
                proxy=None if proxy is None else httpcore.Proxy(proxy.url, headers=login),
                network_backend=_Network(self._budget),
            )
        return self._pools[where]


_TOO_MUCH = f"its answer is longer than {MOST // 2**20} MiB"


class _Budget:
    """What is left of the time and the bytes of one exchange."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.begin()

    def begin(self) -> None:
        """A new exchange begins."""
        self._until = time.monotonic() + self._seconds
        self._bytes = 2 * MAX_HEAD + OVERHEAD * MOST

    def left(self, most: float | None = None) -> float:
        """The seconds that are left, at most `most`. Raises ReadTimeout where none are."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout("the time is over")
        return left if most is None else min(left, most)

    def take(self, piece: bytes) -> bytes:
        """The piece that was read. Raises RemoteProtocolError where it is one too many."""
        self._bytes -= len(piece)
        if self._bytes < 0:
            raise httpcore.RemoteProtocolError(_TOO_MUCH)
        return piece


class _Network(httpcore.NetworkBackend):
    """Connects within the budget of an exchange."""

    def __init__(self, budget: _Budget) -> None:
        self._budget = budget

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first address of the host that takes the connection."""
        until = time.monotonic() + self._budget.left(CONNECT)
        error: Exception = httpcore.ConnectError("the name has no address")
        for address in look_up_addresses(host, port, until - time.monotonic()):
            if (left := until - time.monotonic()) <= 0:
                break
            try:
                stream = httpcore.SyncBackend().connect_tcp(address, port, left, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as failed:
                error = failed
                continue
            return _Stream(stream, self._budget)
        raise error


class _Stream(httpcore.NetworkStream):
    """A connection that reads and writes within the budget of an exchange."""

    def __init__(self, stream: httpcore.NetworkStream, budget: _Budget) -> None:
        self._stream, self._budget = stream, budget

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read a piece."""
        return self._budget.take(self._stream.read(max_bytes, self._budget.left()))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write everything, some of it at a time, so that the time is kept."""
        for start in range(0, len(buffer), _PIECE):
            self._stream.write(buffer[start : start + _PIECE], self._budget.left())

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """Go on by TLS."""
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, self._budget.left()), self._budget)

    def get_extra_info(self, info: str) -> Any:
        """What is known of the connection."""
        return self._stream.get_extra_info(info)


def look_up_addresses(host: str, port: int, seconds: float) -> list[str]:
    """The addresses of a host, looked up in at most so many seconds. Raises ConnectError or ConnectTimeout.

    Looking up takes no limit of its own, so a thread does it that nobody waits for any longer.
    """
    found: list[str] = []
    failed: list[OSError | UnicodeError] = []

    def look() -> None:
        try:
            entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found.extend(dict.fromkeys(str(entry[4][0]) for entry in entries))
        except (OSError, UnicodeError) as error:
            failed.append(error)

    with contextlib.suppress(ValueError, OSError):
        socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
        return [host]
    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(seconds)
    if failed:
        raise httpcore.ConnectError(str(failed[0]))
    if not found:
        raise httpcore.ConnectTimeout(f"the name {host} was not looked up in time")
    return found
