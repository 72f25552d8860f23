"""The transport: sends the body of a request to an endpoint and returns the reply.

Whatever a server does wrong is a status of the reply, never an exception. aiohttp and orjson are used because they
take the least CPU time: a client that costs more than the server would be what limits the run (measured in bench/).
"""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

import aiohttp
import orjson
import yarl

from tomserve.engine.logprobs import prompt_tokens
from tomserve.status import CONNECTION, FINAL, LENGTH, MALFORMED, OK, REFUSAL, TIMEOUT, http

MAX_BODY = 16 * 2**20
"""Bytes of a reply that are read at most: a larger one is no chat completion."""

LONGEST_NAME = 200
"""Characters kept of the name that a server gives its model."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How many seconds each part of an exchange may take.

    connect: to open a connection. stall: between two pieces of a reply. total: from sending to the end of the reply.
    """

    connect: float = 10.0
    stall: float = 600.0
    total: float = 600.0


@dataclass(slots=True)
class Reply:
    """What came back for one request.

    status: one of those that tomserve.status lists.
    text: the model's answer. reasoning: its thinking, where the server returns it apart from the answer.
    finish_reason: why the model ended, as the server says it ("stop", "length", ...).
    usage: tokens under "prompt", "completion" and "cached", as far as the server reports them.
    model: the name that the server gives the model that answered.
    error: what went wrong, in one line.
    retry_after: seconds that the server asks to wait before the next request.
    reached: whether there was a connection at all. A server that drops connections is there; one that refuses them
    is not.
    timings: seconds by name; "total_s" from sending to the end of the reply.
    tokens: the last tokens of the prompt, each with its log-probability (None where the server gives none),
    where the request asked for `prompt_logprobs` (see tomserve.engine.logprobs). skipped: how many tokens stood before
    them.
    """

    status: str
    text: str | None = None
    reasoning: str | None = None
    finish_reason: str | None = None
    usage: dict[str, int] | None = None
    model: str | None = None
    error: str | None = None
    retry_after: float | None = None
    reached: bool = True
    timings: dict[str, float] = field(default_factory=dict)
    tokens: list[tuple[str, float | None]] | None = None
    skipped: int = 0

    @property
    def final(self) -> bool:
        """Whether the status is one that is never asked again."""
        return self.status in FINAL


class Transport(Protocol):
    """What the runner needs of a client."""

    async def send(self, endpoint: str, body: bytes) -> Reply:
        """POST a chat completion to ``<endpoint>/chat/completions`` and return the reply; raises only if cancelled."""
        ...

    async def alive(self, endpoint: str) -> bool:
        """Whether the endpoint answers at all."""
        ...

    async def metrics(self, endpoint: str) -> bytes | None:
        """The server's page of Prometheus metrics, or None where it has none."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class AiohttpTransport:
    """Sends requests by aiohttp, over connections to OpenAI-compatible endpoints that stay open between requests.

    api_key: sent as a bearer token in the header, and nowhere else. timeouts: in seconds (see Timeouts).
    """

    def __init__(self, api_key: str | None = None, timeouts: Timeouts | None = None) -> None:
        timeouts = timeouts or Timeouts()
        self._total = timeouts.total
        self._due: dict[asyncio.Task[Any], float] = {}
        self._overdue: set[asyncio.Task[Any]] = set()
        self._sweeping: asyncio.TimerHandle | None = None
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        self._key = api_key
        self._urls: dict[str, yarl.URL] = {}
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),  # the runner limits how many requests are in flight
            timeout=aiohttp.ClientTimeout(
                total=None,  # `_sweep` ends what takes too long
                sock_connect=timeouts.connect,
                sock_read=timeouts.stall if timeouts.stall < timeouts.total else None,
            ),
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def send(self, endpoint: str, body: bytes) -> Reply:
        """POST a chat completion to ``<endpoint>/chat/completions`` and return the reply; raises only if cancelled."""
        began = time.perf_counter()
        task = self._watched(began)
        try:
            if (url := self._urls.get(endpoint)) is None:
                url = self._urls[endpoint] = yarl.URL(f"{endpoint}/chat/completions")
            response = await self._session.post(url, data=body, allow_redirects=False)
            try:
                raw = await _bounded(response)
            finally:
                response.release()
            reply = read_reply(response.status, raw) if raw is not None else Reply(MALFORMED, error="huge body")
            if response.status != 200:
                reply.retry_after = retry_after(response.headers.get("Retry-After"))
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            reply = Reply(CONNECTION, error=f"{type(error).__name__}: {error}", reached=False)
        except TimeoutError:
            reply = Reply(TIMEOUT, error="no complete reply in time")
        except (aiohttp.ClientError, OSError) as error:
            reply = Reply(CONNECTION, error=f"{type(error).__name__}: {error}")
        except asyncio.CancelledError:
            if task not in self._overdue or task.uncancel() > 0:
                raise
            reply = Reply(TIMEOUT, error="no complete reply in time")
        finally:
            del self._due[task]
            self._overdue.discard(task)
        without_key(reply, self._key)
        reply.timings["total_s"] = round(time.perf_counter() - began, 6)
        return reply

    def _watched(self, began: float) -> asyncio.Task[Any]:
        """The current task, which `_sweep` will cancel when its time is over.

        One timer for all requests takes less CPU time than one for each.
        """
        task = asyncio.current_task()
        assert task is not None
        self._due[task] = began + self._total
        if self._sweeping is None:
            self._sweep()
        return task

    def _sweep(self) -> None:
        """Cancel the tasks that are overdue; `send` turns that into the status timeout."""
        now = time.perf_counter()
        for task, due in self._due.items():
            if due > now:  # tasks stand in the order in which they began
                break
            if task not in self._overdue:
                self._overdue.add(task)
                task.cancel()
        every = min(0.25, self._total / 20)
        self._sweeping = asyncio.get_running_loop().call_later(every, self._sweep) if self._due else None

    async def alive(self, endpoint: str) -> bool:
        """Whether the endpoint answers a request for its models within two seconds."""
        try:
            async with self._session.get(f"{endpoint}/models", timeout=aiohttp.ClientTimeout(total=2)) as response:
                return response.status < 500
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False

    async def metrics(self, endpoint: str) -> bytes | None:
        """The page at ``/metrics`` beside ``/v1``, or None where it does not come within two seconds."""
        try:
            url = f"{endpoint.removesuffix('/v1')}/metrics"
            timeout = aiohttp.ClientTimeout(total=2)
            async with self._session.get(url, timeout=timeout, allow_redirects=False) as response:
                return await _bounded(response) if response.status == 200 else None
        except (aiohttp.ClientError, OSError, TimeoutError):
            return None

    async def close(self) -> None:
        """Close all connections."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        await self._session.close()
        await asyncio.sleep(0)


async def _bounded(response: aiohttp.ClientResponse) -> bytes | None:
    """The body of a response, or None where it is longer than MAX_BODY."""
    announced = response.content_length
    if announced is not None and announced <= MAX_BODY and "Content-Encoding" not in response.headers:
        return await response.read()
    if (announced or 0) > MAX_BODY:
        return None
    pieces, size = [], 0
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > MAX_BODY:
            return None
        pieces.append(piece)
    return b"".join(pieces)


def without_key(reply: Reply, key: str | None) -> None:
    """Replace the API key in a reply's error and model name, and shorten both: a server may echo whatever it got."""
    reply.error = masked(reply.error, key)
    if reply.model:
        if key and key in reply.model:
            reply.model = reply.model.replace(key, "***")
        reply.model = reply.model[:LONGEST_NAME]


def masked(error: str | None, key: str | None) -> str | None:
    """The error as one line of at most 500 characters in which the API key is replaced by ***."""
    if not error:
        return error
    # The key is replaced before the text is cut, else half a key might be left at the end.
    return " ".join((error.replace(key, "***") if key else error).split())[:500]


def retry_after(header: str | None) -> float | None:
    """The seconds from now that a Retry-After header (a number or an HTTP date) asks for; None if it is neither."""
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(header).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def read_reply(code: int, raw: bytes) -> Reply:
    """Read an HTTP status code and the body of a response as a Reply. It raises nothing, whatever the body holds."""
    try:
        data = orjson.loads(raw)
    except orjson.JSONDecodeError:
        beginning = raw[:2000].decode("utf-8", "replace")
        return Reply(http(code) if code != 200 else MALFORMED, error=f"not JSON: {beginning!r}")
    if code != 200:
        return Reply(http(code), error=error_text(data))
    try:
        choice = data["choices"][0]
        message = choice["message"]
        text, finish = message.get("content"), _text(choice.get("finish_reason"))
        reasoning = _text(message.get("reasoning")) or _text(message.get("reasoning_content"))
        refusal = _text(message.get("refusal"))
    except (TypeError, KeyError, IndexError, AttributeError):
        return Reply(MALFORMED, error=f"not a chat completion: {error_text(data)}")
    reply = Reply(
        OK, reasoning=reasoning, finish_reason=finish, usage=_usage(data), model=_text(data.get("model")) or None
    )
    if data.get("prompt_logprobs"):
        reply.tokens, reply.skipped = prompt_tokens(data["prompt_logprobs"])
    if refusal or finish == "content_filter":
        reply.status, reply.text = REFUSAL, text or refusal or ""
    elif isinstance(text, str):
        reply.text, reply.status = text, LENGTH if finish == "length" else OK
    elif finish == "length":  # a reasoning model that spent all its tokens on thinking
        reply.text, reply.status = "", LENGTH
    else:
        reply.status, reply.error = MALFORMED, "the message has no text content"
    return reply


def error_text(data: Any) -> str:
    """The message of an error object, on one line: that of OpenAI's or FastAPI's style, or the object as it is."""
    if isinstance(data, dict):
        inner = data.get("error", data.get("detail", data.get("message", data)))
        data = inner.get("message", inner) if isinstance(inner, dict) else inner
    return " ".join((data if isinstance(data, str) else repr(data)).split())


def _text(value: Any) -> str | None:
    """The value if it is text, else None: a server may send anything, and only text goes into a row."""
    return value if isinstance(value, str) else None


def _usage(data: dict[str, Any]) -> dict[str, int] | None:
    """The numbers of tokens that a response reports, without those that cannot be right; None where it reports none."""
    usage = data.get("usage")
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    reported = {"prompt": usage.get("prompt_tokens"), "completion": usage.get("completion_tokens"), "cached": cached}
    counts = {name: count for name, count in reported.items() if type(count) is int and 0 <= count < 2**40}
    if counts.get("cached", 0) > counts.get("prompt", 0):
        del counts["cached"]
    return counts
