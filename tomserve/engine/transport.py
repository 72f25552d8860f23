"""One method: send a body to an endpoint, say what came back. Nothing is raised for what a server does wrong.

aiohttp + orjson, because an evaluation client must cost less than the cheapest server: see bench/.
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

from tomserve.status import CONNECTION, FINAL, LENGTH, MALFORMED, OK, REFUSAL, TIMEOUT, http

MAX_BODY = 16 * 2**20  # a larger reply is not a chat completion
LONGEST_NAME = 200  # characters kept of the name that a server gives its model


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds: `connect` to connect, `stall` between two pieces of a reply, `total` from sending to the end."""

    connect: float = 10.0
    stall: float = 600.0
    total: float = 600.0


@dataclass(slots=True)
class Reply:
    """What the transport saw. `status`: one of tomserve.status. `model`: which model the server says that answered.

    reached: whether there was a connection at all; a server that drops connections is there, one that refuses is not.
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

    @property
    def final(self) -> bool:
        """Whether this is the item's last word."""
        return self.status in FINAL


class Transport(Protocol):
    """What the runner needs of a client."""

    async def send(self, endpoint: str, body: bytes) -> Reply:
        """POST a chat completion to ``<endpoint>/chat/completions``; never raises but for cancellation."""
        ...

    async def alive(self, endpoint: str) -> bool:
        """Whether the endpoint answers at all."""
        ...

    async def metrics(self, endpoint: str) -> bytes | None:
        """The page of metrics of the server behind the endpoint, or None where there is none."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


class AiohttpTransport:
    """Keep-alive connections to OpenAI-compatible endpoints. `api_key` is sent as a bearer token and nowhere else."""

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
            connector=aiohttp.TCPConnector(limit=0),  # the runner's workers are the limit
            timeout=aiohttp.ClientTimeout(
                total=None,  # kept by _sweep
                sock_connect=timeouts.connect,
                sock_read=timeouts.stall if timeouts.stall < timeouts.total else None,
            ),
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def send(self, endpoint: str, body: bytes) -> Reply:
        """See Transport."""
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
        """The task that asks, its time to be looked at: one timer for all requests costs less than one for each."""
        task = asyncio.current_task()
        assert task is not None
        self._due[task] = began + self._total
        if self._sweeping is None:
            self._sweep()
        return task

    def _sweep(self) -> None:
        """Cancel what is overdue; `send` makes a timeout of it. The oldest requests stand first."""
        now = time.perf_counter()
        for task, due in self._due.items():
            if due > now:
                break
            if task not in self._overdue:
                self._overdue.add(task)
                task.cancel()
        every = min(0.25, self._total / 20)
        self._sweeping = asyncio.get_running_loop().call_later(every, self._sweep) if self._due else None

    async def alive(self, endpoint: str) -> bool:
        """See Transport: whether it lists its models within two seconds."""
        try:
            async with self._session.get(f"{endpoint}/models", timeout=aiohttp.ClientTimeout(total=2)) as response:
                return response.status < 500
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False

    async def metrics(self, endpoint: str) -> bytes | None:
        """See Transport: ``/metrics`` beside ``/v1``, asked for two seconds."""
        try:
            url = f"{endpoint.removesuffix('/v1')}/metrics"
            timeout = aiohttp.ClientTimeout(total=2)
            async with self._session.get(url, timeout=timeout, allow_redirects=False) as response:
                return await _bounded(response) if response.status == 200 else None
        except (aiohttp.ClientError, OSError, TimeoutError):
            return None

    async def close(self) -> None:
        """See Transport."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        await self._session.close()
        await asyncio.sleep(0)


async def _bounded(response: aiohttp.ClientResponse) -> bytes | None:
    """The body, or None where it exceeds MAX_BODY."""
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
    """Take the key out of what a server says of itself and of an error, and bound both: servers echo what they like."""
    reply.error = masked(reply.error, key)
    if reply.model:
        if key and key in reply.model:
            reply.model = reply.model.replace(key, "***")
        reply.model = reply.model[:LONGEST_NAME]


def masked(error: str | None, key: str | None) -> str | None:
    """One line of bounded length without the key: masked before it is cut, or half a key would be left."""
    if not error:
        return error
    return " ".join((error.replace(key, "***") if key else error).split())[:500]


def retry_after(header: str | None) -> float | None:
    """Retry-After in seconds from now, given as seconds or as an HTTP date; nonsense is None."""
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
    """Classify an HTTP status and body as a Reply. Pure, so that it can be tested on its own."""
    try:
        data = orjson.loads(raw)
    except orjson.JSONDecodeError:
        shown = raw[:2000].decode("utf-8", "replace")
        return Reply(http(code) if code != 200 else MALFORMED, error=f"not JSON: {shown!r}")
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
    """The message of an OpenAI-style, FastAPI-style or other error object, on one line."""
    if isinstance(data, dict):
        inner = data.get("error", data.get("detail", data.get("message", data)))
        data = inner.get("message", inner) if isinstance(inner, dict) else inner
    return " ".join((data if isinstance(data, str) else repr(data)).split())


def _text(value: Any) -> str | None:
    """Servers send what they like; only text goes into a row."""
    return value if isinstance(value, str) else None


def _usage(data: dict[str, Any]) -> dict[str, int] | None:
    usage = data.get("usage")
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    found = {"prompt": usage.get("prompt_tokens"), "completion": usage.get("completion_tokens"), "cached": cached}
    counts = {name: count for name, count in found.items() if type(count) is int and 0 <= count < 2**40}
    if counts.get("cached", 0) > counts.get("prompt", 0):
        del counts["cached"]
    return counts
