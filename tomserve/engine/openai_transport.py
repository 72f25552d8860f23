"""A transport that sends requests by the openai SDK (`--transport openai`), for hosted providers that expect its
client; its own retries are off, since the runner decides when to ask again."""

import asyncio
import importlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

import orjson

from tomserve.engine.addresses import MOVED, explain_redirect, follow, url_of
from tomserve.engine.network import certificates, proxy_for, tls_advice
from tomserve.engine.redact import Redactor
from tomserve.engine.replies import read_reply
from tomserve.engine.transport import (
    MAX_BODY,
    MAX_HEAD,
    SHORTLY,
    UNENCODED,
    Reply,
    Timeouts,
    decompress,
    is_alive,
    note_limits,
    reply_in_time,
    secret_headers,
    secret_values,
)
from tomserve.errors import MachineError
from tomserve.status import CONNECTION, MALFORMED, TIMEOUT

_BODY = "body"  # where a response keeps the body that was read

_SENT = frozenset(("accept", "accept-encoding", "connection", "content-length", "content-type", "host")) | {
    "proxy-authorization",
    "user-agent",
}
"""Headers of requests, beside the key and those in which the SDK describes itself (x-stainless-...). It would also send
whatever stands in OPENAI_ORG_ID, OPENAI_PROJECT_ID and OPENAI_CUSTOM_HEADERS, to any endpoint."""

_OF_BODY = (b"content-length", b"content-encoding", b"transfer-encoding")
"""Headers that say how a body is sent, and so do not hold for one that was read."""


class _UnreadError(Exception):
    """A response is beyond the limits, or cannot be read; the text says how."""


class OpenAITransport:
    """Sends requests by the openai SDK, as `Transport` says. Raises MachineError where openai is not installed."""

    def __init__(
        self, api_key: str | None = None, timeouts: Timeouts | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        try:
            import openai
        except ImportError:
            raise MachineError("--transport openai needs the package openai: pip install openai") from None
        self._openai = openai
        # The SDK has changed its HTTP library before, and the errors to catch are those of the library that it uses.
        bases = (kind.__module__.partition(".")[0] for kind in openai.DefaultAsyncHttpxClient.__mro__)
        self._http: Any = importlib.import_module(next(name for name in bases if name.startswith("httpx")))
        self._timeouts = timeouts or Timeouts()
        # The SDK sends no request without a key.
        self._secret = secret_headers(api_key or (None if headers else "none"), headers)
        self._mask = Redactor(*secret_values(api_key, headers))
        self._key = api_key
        self._clients: dict[str, Any] = {}

    def _client(self, endpoint: str) -> Any:
        if endpoint not in self._clients:
            # No connection is used twice: what a server sends beyond a response stays in the library's buffer, and
            # would be taken for the answer to the next question.
            limits = self._http.Limits(max_connections=None, max_keepalive_connections=0)
            timeout = self._openai.Timeout(self._timeouts.total, connect=self._timeouts.connect)
            proxy, secure = proxy_for(endpoint), endpoint.startswith("https:")
            login = {"Proxy-Authorization": proxy.login} if proxy is not None and proxy.login else None
            way = self._http.AsyncHTTPTransport(
                limits=limits,
                trust_env=False,  # the way is chosen here, as for the other transports
                verify=certificates() if secure else False,  # without TLS nothing is verified
                proxy=None if proxy is None else self._http.Proxy(proxy.url, headers=login),
            )
            address, _, query = endpoint.partition("?")
            self._clients[endpoint] = self._openai.AsyncOpenAI(
                base_url=address,
                default_query=dict(parse_qsl(query, keep_blank_values=True)),
                api_key=self._key or "none",
                max_retries=0,
                timeout=timeout,
                default_headers={"Accept-Encoding": UNENCODED},
                http_client=self._http.AsyncClient(
                    transport=self._limit_responses(way), timeout=timeout, follow_redirects=False, trust_env=False
                ),
            )
        return self._clients[endpoint]

    async def send(self, endpoint: str, body: bytes) -> Reply:
        return await reply_in_time(self._exchange(endpoint, orjson.loads(body)), self._timeouts.total, self._mask)

    async def _exchange(self, endpoint: str, body: dict[str, Any]) -> Reply:
        create = self._client(endpoint).chat.completions.with_raw_response.create
        parameters = ("model", "messages", "temperature", "seed", "max_tokens", "response_format")
        named = {name: body.pop(name) for name in parameters if name in body}
        try:
            # `read_reply` judges the replies of all transports, and not the SDK's own parser.
            response = (await create(**named, extra_body=body or None)).http_response
            return note_limits(read_reply(response.status_code, response.extensions[_BODY]), dict(response.headers))
        except self._openai.APIStatusError as error:
            reply = read_reply(error.status_code, error.response.extensions[_BODY])
            if error.status_code in MOVED:
                url = url_of(endpoint, "/chat/completions")
                reply.error = explain_redirect(url, error.response.headers.get("Location"))
            return note_limits(reply, dict(error.response.headers))
        except _UnreadError as error:
            return Reply(MALFORMED, error=str(error))
        except self._openai.APITimeoutError as error:
            reached = not isinstance(error.__cause__, self._http.ConnectTimeout)
            return Reply(TIMEOUT if reached else CONNECTION, error="no complete reply in time", reached=reached)
        except self._openai.APIConnectionError as error:
            cause = error.__cause__ or error
            if isinstance(cause, _UnreadError):
                return Reply(MALFORMED, error=str(cause))
            reached = not isinstance(cause, self._http.ConnectError)
            advice = f"; {tls_advice(cause)}" if "[SSL" in str(cause) else ""
            return Reply(CONNECTION, error=f"{type(cause).__name__}: {cause}{advice}", reached=reached)
        except self._http.TimeoutException:
            return Reply(TIMEOUT, error="no complete reply in time")
        except (self._http.HTTPError, OSError) as error:
            return Reply(CONNECTION, error=f"{type(error).__name__}: {error}")

    def _limit_responses(self, way: Any) -> Any:
        """A transport of the SDK's HTTP library whose responses are read within the limits before anybody has them.

        The SDK would read a refusal to its end, decompress whatever comes, and fail where JSON nests too deeply. So it
        is given an empty object, and the body is kept beside it.
        """
        http, secret = self._http, self._secret

        class Bounded(http.AsyncBaseTransport):  # type: ignore[misc,name-defined]
            async def handle_async_request(self, request: Any) -> Any:
                for name in {name.lower() for name in request.headers} - _SENT:
                    if not name.startswith("x-stainless-"):
                        del request.headers[name]
                request.headers.update(secret)
                response = await self._asked(request)
                there = follow(str(request.url), response.headers.get("Location"))
                if response.status_code in MOVED and there is not None:
                    await response.aclose()
                    kept = {"headers": request.headers, "extensions": request.extensions}
                    again = http.Request(request.method, there, content=await request.aread(), **kept)
                    response = await self._asked(again)
                try:
                    body = await _read_body(response)
                finally:
                    await response.aclose()
                headers = [(name, value) for name, value in response.headers.raw if name.lower() not in _OF_BODY]
                return http.Response(response.status_code, headers=headers, content=b"{}", extensions={_BODY: body})

            async def _asked(self, request: Any) -> Any:
                try:
                    return await way.handle_async_request(request)
                except (http.HTTPError, OSError):
                    raise
                except Exception as error:  # as anyio's AttributeError for a connection that is gone at once
                    raise http.NetworkError(f"{type(error).__name__}: {error}", request=request) from error

            async def aclose(self) -> None:
                await way.aclose()

        return Bounded()

    async def alive(self, endpoint: str) -> bool:
        try:
            async with asyncio.timeout(SHORTLY):  # the SDK's own time limit is one for each piece
                await self._client(endpoint).models.list()
        except self._openai.APIStatusError as error:
            return is_alive(error.status_code)
        except (self._openai.OpenAIError, self._http.HTTPError, _UnreadError, OSError, ValueError):
            return False
        return True

    async def metrics(self, endpoint: str) -> bytes | None:
        """Always None: hosted providers offer no page of metrics."""
        del endpoint
        return None

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()


async def _read_body(response: Any) -> bytes:
    """The body of a response as it was before it was compressed. Raises _UnreadError where it is beyond the limits."""
    if sum(len(name) + len(value) + 4 for name, value in response.headers.raw) > MAX_HEAD:
        raise _UnreadError("the headers have no end")
    raw = bytearray()
    async for piece in response.stream:
        raw += piece
        if len(raw) > MAX_BODY:
            raise _UnreadError("huge body")
    encoding = response.headers.get("Content-Encoding", "").encode()
    try:
        body = decompress(bytes(raw), encoding, MAX_BODY)
    except ValueError as error:
        raise _UnreadError(f"the body cannot be read: it claims to be encoded as {str(error)!r}") from None
    if body is None:
        raise _UnreadError("huge body")
    return body
