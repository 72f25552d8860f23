"""The transport: sends the body of a request to an endpoint, within limits of time and size, and returns the reply.

Whatever a server does wrong is a status of the reply, never an exception.
"""

import asyncio
import contextlib
import time
import zlib
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tomserve.engine.network import proxy_logins
from tomserve.engine.rate_limits import Room, announced_room, asked_wait
from tomserve.engine.redact import LONGEST_ERROR, LONGEST_NAME, Redactor, clean_text
from tomserve.status import FINAL, SPOKEN, TIMEOUT

MAX_BODY = 16 * 2**20  # bytes of a reply that are read at most, compressed or not: a larger one is no chat completion
MAX_HEAD = 64 * 2**10
"""Bytes of a response before its body that are read at most, those that only say to wait (HTTP 100 to 199) included."""

OVERHEAD = 2
"""A body in chunks may take so many times its own size at most: the rest of the bytes says where the chunks end."""

SHORTLY = 2.0  # seconds that a question about a server, rather than to its model, may take
UNENCODED = "identity"  # the value of Accept-Encoding: nothing that is compressed is asked for
_KNOWN_ENCODINGS = {b"gzip": (31,), b"x-gzip": (31,), b"deflate": (15, -15)}  # what zlib calls each


def decompress(body: bytes, encoding: bytes, most: int) -> bytes | None:
    """A body as it was before it was compressed, or None where that is longer than `most` bytes. Raises ValueError,
    whose text names the encoding, where it is not read or the bytes are not whole."""
    encoding = encoding.strip().lower()
    if encoding in (b"", UNENCODED.encode()) or not body:
        return body
    whole: bytes | None = None
    # What calls itself deflate often lacks zlib's header.
    for way in _KNOWN_ENCODINGS.get(encoding, ()):
        reader = zlib.decompressobj(way)
        with contextlib.suppress(zlib.error):
            whole = reader.decompress(body, most + 1)
            break
    if whole is None or (len(whole) <= most and not reader.eof):
        raise ValueError(encoding.decode("latin-1"))
    return whole if len(whole) <= most else None


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How many seconds each part of an exchange may take."""

    connect: float = 10.0  # to open a connection
    total: float = 600.0  # from sending to the end of the reply


@dataclass(slots=True)
class Reply:
    status: str  # one of those that tomserve.status lists
    text: str | None = None  # the model's answer
    reasoning: str | None = None  # its thinking, where the server returns it apart from the answer
    finish_reason: str | None = None  # why the model ended, as the server says it ("stop", "length", ...)
    # tokens under "prompt", "completion", "cached" and "reasoning", as far as the server reports them
    usage: dict[str, int] | None = None
    model: str | None = None  # the name that the server gives the model that answered
    error: str | None = None  # what went wrong, in one line
    retry_after: float | None = None  # seconds that the server asks to wait before the next request
    room: Room | None = None  # how many further requests the server takes, where it announces that
    foreign: bool = False  # whether it is a page or a text that no chat server can have sent
    lasting: bool = False  # of a malformed one: whether it is whole, so that it will hardly be another the next time
    reached: bool = True  # whether there was a connection at all; a server that drops connections is there
    # seconds by name; "total_s" from sending to the end of the reply
    timings: dict[str, float] = field(default_factory=dict)
    # the last tokens of the prompt with their log-probabilities, where `prompt_logprobs` was asked for
    tokens: list[tuple[str, float | None]] | None = None
    skipped: int = 0  # how many tokens stood before them
    masked: bool = False  # whether the API key stood in it and was replaced by ***
    provider: str | None = None  # who answered behind a router, where that says so
    fingerprint: str | None = None  # what the server calls its present configuration (OpenAI's `system_fingerprint`)

    @property
    def final(self) -> bool:
        return self.status in FINAL


def secret_headers(key: str | None, headers: Mapping[str, str] | None) -> dict[str, str]:
    """The headers by which an endpoint knows who asks: the key as a bearer token, unless another is given, and those of
    the user. None of them may be shown."""
    own = {"Authorization": f"Bearer {key}"} if key else {}
    given = dict(headers or {})
    return given if any(name.lower() == "authorization" for name in given) else {**own, **given}


def secret_values(key: str | None, headers: Mapping[str, str] | None) -> tuple[str, ...]:
    """What may be shown nowhere: the key, and each header of the user, also without what stands before it as Bearer;
    and how proxies on the way are asked."""
    given = [value for whole in (headers or {}).values() for value in (whole, whole.rpartition(" ")[2])]
    return tuple(dict.fromkeys([*([key] if key else []), *given, *proxy_logins()]))


def is_alive(code: int) -> bool:
    """Whether that HTTP status, in answer to a question for the models, comes from a server that works; one that has no
    list of models may say so by 501."""
    return code < 500 or code == 501


class Transport(Protocol):
    """What the runner needs of a client."""

    async def send(self, endpoint: str, body: bytes) -> Reply:
        """POST a chat completion to ``<endpoint>/chat/completions`` and return the reply; raises only if cancelled."""

    async def alive(self, endpoint: str) -> bool:
        """Whether the endpoint answers at all."""

    async def metrics(self, endpoint: str) -> bytes | None:
        """The server's page of Prometheus metrics, or None where it has none."""

    async def close(self) -> None: ...


def redact_reply(reply: Reply, mask: Redactor) -> None:
    """Replace the API key in all that a server said, and note that it stood there; shorten what is shown in one line.
    The key is replaced before anything is cut, else half of it might be left."""
    if mask.looks:
        for name in ("text", "reasoning", "finish_reason", "model", "error", "provider", "fingerprint"):
            if (text := getattr(reply, name)) and (masked := mask(text)) is not text:
                setattr(reply, name, masked)
                reply.masked = True
        if reply.tokens and mask(text := "".join(token for token, _ in reply.tokens)) is not text:
            reply.tokens, reply.masked = None, True
    if (text := reply.finish_reason) and len(text) > LONGEST_NAME:
        reply.finish_reason = text[:LONGEST_NAME]
    if (text := reply.model) and len(text) > LONGEST_NAME:
        reply.model = text[:LONGEST_NAME]
    if text := reply.provider:
        reply.provider = clean_text(text, LONGEST_NAME)
    if text := reply.fingerprint:
        reply.fingerprint = clean_text(text, LONGEST_NAME)
    if text := reply.error:
        reply.error = clean_text(" ".join(text.split()), LONGEST_ERROR)


def note_limits(reply: Reply, headers: Mapping[str, str]) -> Reply:
    """The reply, with what the headers of the response say of rate limits; their names are in lower case."""
    if reply.status in SPOKEN:
        used = (reply.usage or {}).get("prompt", 0) + (reply.usage or {}).get("completion", 0)
        reply.room = announced_room(headers, used)
    else:
        reply.retry_after = asked_wait(headers, reply.error)
    return reply


async def reply_in_time(asking: Coroutine[Any, Any, Reply], seconds: float, mask: Redactor) -> Reply:
    """The reply that `asking` returns, or one with the status timeout where its time is over first. mask: of the API
    key and others that no reply may hold."""
    began = time.perf_counter()
    try:
        async with asyncio.timeout(seconds):
            reply = await asking
    except TimeoutError:
        reply = Reply(TIMEOUT, error="no complete reply in time")
    redact_reply(reply, mask)
    reply.timings["total_s"] = round(time.perf_counter() - began, 6)
    return reply
