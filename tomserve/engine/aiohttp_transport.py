"""A transport that sends requests by aiohttp (`--transport aiohttp`): the one that is used where httptools cannot be
installed, and the one to compare with where a server and `tomserve.engine.httptools_transport` do not get along."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import yarl

from tomserve.engine.network import certificates, proxy_for, tls_advice
from tomserve.engine.transport import (
    MAX_BODY,
    SHORTLY,
    UNENCODED,
    Deadlines,
    Reply,
    Timeouts,
    parse_retry_after,
    read_body,
    read_reply,
)
from tomserve.status import CONNECTION, MALFORMED, TIMEOUT


class AiohttpTransport:
    """Sends requests by aiohttp, over connections to OpenAI-compatible endpoints that stay open between requests.

    api_key: sent as a bearer token in the header, and nowhere else. timeouts: in seconds (see Timeouts).
    """

    def __init__(self, api_key: str | None = None, timeouts: Timeouts | None = None) -> None:
        timeouts = timeouts or Timeouts()
        self._deadlines = Deadlines(timeouts.total, api_key)
        self._headers = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": UNENCODED}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._urls: dict[str, yarl.URL] = {}
        self._ways: dict[str, dict[str, Any]] = {}
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),  # the runner limits how many requests are in flight
            timeout=aiohttp.ClientTimeout(
                total=None,  # the deadlines end what takes too long
                sock_connect=timeouts.connect,
                sock_read=timeouts.stall if timeouts.stall < timeouts.total else None,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )

    async def send(self, endpoint: str, body: bytes) -> Reply:
        """POST a chat completion to ``<endpoint>/chat/completions`` and return the reply; raises only if cancelled."""
        return await self._deadlines.reply(self._send(endpoint, body))

    async def _send(self, endpoint: str, body: bytes) -> Reply:
        """Send the body of a request; every failure is a status of the reply."""
        try:
            if (url := self._urls.get(endpoint)) is None:
                url = self._urls[endpoint] = yarl.URL(f"{endpoint}/chat/completions")
            response = await self._session.post(url, data=body, **self._way(endpoint))
            try:
                raw = await _read_body(response)
            finally:
                response.release()
            reply = read_reply(response.status, raw) if raw is not None else Reply(MALFORMED, error="huge body")
            if response.status != 200:
                reply.retry_after = parse_retry_after(response.headers.get("Retry-After"))
            return reply
        except aiohttp.ClientConnectorSSLError as error:
            return Reply(CONNECTION, error=f"TLS failed ({error}); {tls_advice(error)}", reached=False)
        except aiohttp.ClientConnectorCertificateError as error:
            return Reply(
                CONNECTION, error=f"TLS failed ({error}); {tls_advice(error.certificate_error)}", reached=False
            )
        except (aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError, aiohttp.ConnectionTimeoutError) as error:
            return Reply(CONNECTION, error=f"{type(error).__name__}: {error}", reached=False)
        except TimeoutError:
            return Reply(TIMEOUT, error="no complete reply in time")
        except (aiohttp.ClientError, OSError) as error:
            return Reply(CONNECTION, error=f"{type(error).__name__}: {error}")
        except ValueError as error:
            return Reply(MALFORMED, error=str(error))

    def _way(self, endpoint: str) -> dict[str, Any]:
        """How requests go to an endpoint: through which proxy, trusting which certificates, and to no other address."""
        if (way := self._ways.get(endpoint)) is None:
            # The key is no header of the session: aiohttp sends those to the proxy, too.
            way = self._ways[endpoint] = {"allow_redirects": False, "headers": dict(self._headers)}
            if endpoint.startswith("https:"):
                way["ssl"] = certificates()
            if (proxy := proxy_for(endpoint)) is not None:
                way["proxy"] = proxy.url
                login = {"Proxy-Authorization": proxy.login} if proxy.login else {}
                if "ssl" in way:  # then the proxy must have its login, and the server must not
                    way["proxy_headers"] = login
                else:
                    way["headers"] |= login
        return way

    async def alive(self, endpoint: str) -> bool:
        """Whether the endpoint answers a request for its models within two seconds."""
        try:
            timeout = aiohttp.ClientTimeout(total=SHORTLY)
            async with self._session.get(f"{endpoint}/models", timeout=timeout, **self._way(endpoint)) as response:
                return response.status < 500
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False

    async def metrics(self, endpoint: str) -> bytes | None:
        """The page at ``/metrics`` beside ``/v1``, or None where it does not come within two seconds."""
        try:
            url = f"{endpoint.removesuffix('/v1')}/metrics"
            timeout = aiohttp.ClientTimeout(total=SHORTLY)
            async with self._session.get(url, timeout=timeout, **self._way(endpoint)) as response:
                return await _read_body(response) if response.status == 200 else None
        except (aiohttp.ClientError, OSError, ValueError):
            return None

    async def close(self) -> None:
        """Close all connections."""
        self._deadlines.close()
        await self._session.close()
        await asyncio.sleep(0)


async def _read_body(response: aiohttp.ClientResponse) -> bytes | None:
    """The body of a response, read as `read_body` does; of one that says that it is too long, nothing is read."""
    if (response.content_length or 0) > MAX_BODY:
        return None
    return await read_body(response.content.iter_any(), response.headers.get("Content-Encoding", ""))
