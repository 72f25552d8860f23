"""A transport that sends requests by the openai SDK (`--transport openai`), for hosted providers that expect its
client.

The SDK's own retries are switched off: the runner's policy decides when to ask again, so that journal and statuses are
the same as with the aiohttp transport. The SDK costs some milliseconds of CPU time a request, which does not matter
where a provider takes seconds to answer.
"""

from __future__ import annotations

import importlib
from typing import Any

import orjson

from tomserve.engine.deadlines import Deadlines
from tomserve.engine.transport import MAX_BODY, Reply, Timeouts, read_reply, retry_after
from tomserve.errors import MachineError
from tomserve.status import CONNECTION, MALFORMED, TIMEOUT


class OpenAITransport:
    """Sends requests by the openai SDK; each method does what `tomserve.engine.transport.Transport` says.

    api_key: sent as a bearer token. timeouts: in seconds (see Timeouts).
    Raises MachineError where the package openai is not installed.
    """

    def __init__(self, api_key: str | None = None, timeouts: Timeouts | None = None) -> None:
        try:
            import openai
        except ImportError:
            raise MachineError("--transport openai needs the package openai: pip install openai") from None
        self._openai = openai
        # The SDK has changed its HTTP library before, and the errors to catch are those of the library that it uses.
        bases = (kind.__module__.partition(".")[0] for kind in openai.DefaultAsyncHttpxClient.__mro__)
        self._http: Any = importlib.import_module(next(name for name in bases if name.startswith("httpx")))
        self._timeouts = timeouts or Timeouts()
        self._deadlines = Deadlines(self._timeouts.total, api_key)
        self._key = api_key
        self._clients: dict[str, Any] = {}

    def _client(self, endpoint: str) -> Any:
        """The SDK's client for an endpoint, made on first use."""
        if endpoint not in self._clients:
            limits = self._http.Limits(max_connections=None, max_keepalive_connections=None)
            timeout = self._openai.Timeout(self._timeouts.stall, connect=self._timeouts.connect)
            self._clients[endpoint] = self._openai.AsyncOpenAI(
                base_url=endpoint,
                api_key=self._key or "none",
                max_retries=0,
                timeout=timeout,
                http_client=self._http.AsyncClient(limits=limits, timeout=timeout, follow_redirects=False),
            )
        return self._clients[endpoint]

    async def send(self, endpoint: str, body: bytes) -> Reply:
        """Send one chat completion and return its reply; every failure is a status of the reply."""
        return await self._deadlines.reply(self._exchange(endpoint, orjson.loads(body)))

    async def _exchange(self, endpoint: str, body: dict[str, Any]) -> Reply:
        """Send a request by the SDK, and turn its response, or the error that it raises, into a reply."""
        create = self._client(endpoint).chat.completions.with_streaming_response.create
        parameters = ("model", "messages", "temperature", "seed", "max_tokens", "response_format")
        named = {name: body.pop(name) for name in parameters if name in body}
        try:
            # Streamed, so that a body without end can be cut off; read as bytes rather than by the SDK's own parser,
            # so that `read_reply` judges the replies of both transports.
            async with create(**named, extra_body=body or None) as response:
                return await self._read(response.http_response, response.http_response.status_code)
        except self._openai.APIStatusError as error:
            reply = await self._read(error.response, error.status_code)
            reply.retry_after = retry_after(error.response.headers.get("Retry-After"))
            return reply
        except self._openai.APITimeoutError as error:
            reached = not isinstance(error.__cause__, self._http.ConnectTimeout)
            return Reply(TIMEOUT if reached else CONNECTION, error="no complete reply in time", reached=reached)
        except self._openai.APIConnectionError as error:
            cause = error.__cause__ or error
            reached = not isinstance(cause, self._http.ConnectError)
            return Reply(CONNECTION, error=f"{type(cause).__name__}: {cause}", reached=reached)
        except self._http.TimeoutException:
            return Reply(TIMEOUT, error="no complete reply in time")
        except (self._http.HTTPError, OSError) as error:
            return Reply(CONNECTION, error=f"{type(error).__name__}: {error}")

    async def _read(self, response: Any, code: int) -> Reply:
        """Read the body of a response, of at most MAX_BODY bytes, as a reply."""
        if response.is_closed or response.is_stream_consumed:
            return read_reply(code, response.content)
        pieces, size = [], 0
        async for piece in response.aiter_bytes():
            size += len(piece)
            if size > MAX_BODY:
                return Reply(MALFORMED, error="huge body")
            pieces.append(piece)
        return read_reply(code, b"".join(pieces))

    async def alive(self, endpoint: str) -> bool:
        """Whether the endpoint lists its models within two seconds."""
        try:
            await self._client(endpoint).models.list(timeout=2.0)
        except self._openai.APIStatusError as error:
            return bool(error.status_code < 500)
        except (self._openai.OpenAIError, self._http.HTTPError, OSError):
            return False
        return True

    async def metrics(self, endpoint: str) -> bytes | None:
        """Always None: hosted providers offer no page of metrics."""
        del endpoint
        return None

    async def close(self) -> None:
        """Close the connections to all endpoints."""
        self._deadlines.close()
        for client in self._clients.values():
            await client.close()
