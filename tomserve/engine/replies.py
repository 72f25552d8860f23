"""Reads the body of a response to a chat completion, whatever a server sends, as a Reply."""

from __future__ import annotations

from typing import Any

import orjson

from tomserve.engine.prompt_tokens import read_prompt_logprobs
from tomserve.engine.transport import Reply
from tomserve.status import LENGTH, MALFORMED, OK, REFUSAL, finished, http

MOST_TOKENS = 2**40  # A number of tokens that is as large as this cannot be right


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
        text, finish = message.get("content"), choice.get("finish_reason")
        reasoning, refusal = message.get("reasoning"), message.get("refusal")
        if type(reasoning) is not str or not reasoning:
            reasoning = _text(message.get("reasoning_content"))
        if isinstance(text, list):
            reasoning, text = reasoning or _join_parts(text, _THOUGHTS), _join_parts(text, _TEXTS)
    except (TypeError, KeyError, IndexError, AttributeError):
        return Reply(MALFORMED, error=f"not a chat completion: {error_text(data)}")
    finish, refusal = _text(finish), _text(refusal)
    reply = Reply(OK, None, reasoning, finish, _usage(data), _text(data.get("model")) or None)
    if data.get("prompt_logprobs"):
        reply.tokens, reply.skipped = read_prompt_logprobs(data["prompt_logprobs"])
    ended = OK if finish == "stop" else finished(finish)
    if refusal or ended == REFUSAL:
        reply.status, reply.text = REFUSAL, _text(text) or refusal or ""
    elif ended == MALFORMED:
        reply.status, reply.error = MALFORMED, f"the server broke the reply off (finish_reason {finish!r})"
    elif isinstance(text, str):
        reply.text, reply.status = text, ended
    elif ended == LENGTH or reasoning:  # all tokens went into thinking, or a parser took the answer for a part of it
        reply.text, reply.status = "", ended
    else:
        reply.status, reply.error = MALFORMED, "the message has no text content"
    return reply


_TEXTS, _THOUGHTS = ("text", "output_text"), ("thinking", "reasoning")
"""The types of the parts of a message that are its text, and its thinking."""


def _join_parts(parts: list[Any], kinds: tuple[str, ...]) -> str | None:
    """The parts of a message of these types as one text, None where there is none; each is a text, or a list of them.

    >>> _join_parts([{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}], _THOUGHTS)
    'Hm.'
    """
    found: list[str] = []
    for part in parts:
        kind = part.get("type") if isinstance(part, dict) else None
        if type(kind) is str and kind in kinds:
            held = part.get(kind, part.get("text"))
            inner = held if type(held) is list else [held]
            texts = (one.get("text") if isinstance(one, dict) else one for one in inner)
            found += [one for one in texts if type(one) is str]
    return "".join(found) if found else None


def error_text(data: Any) -> str:
    """The message of an error object, on one line: that of OpenAI's or FastAPI's style, or the object as it is."""
    if isinstance(data, dict):
        inner = data.get("error", data.get("detail", data.get("message", data)))
        data = inner.get("message", inner) if isinstance(inner, dict) else inner
    try:
        return " ".join((data if isinstance(data, str) else repr(data)).split())
    except RecursionError:
        return "data that is nested too deeply"


def _text(value: Any) -> str | None:
    """The value if it is text, else None: a server may send anything, and only text goes into a row."""
    return value if type(value) is str else None


def _usage(data: dict[str, Any]) -> dict[str, int] | None:
    """The numbers of tokens that a response reports, without those that cannot be right; None where it reports none."""
    usage = data.get("usage")
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details")
    cached: Any = details.get("cached_tokens") if isinstance(details, dict) else None
    prompt: Any = usage.get("prompt_tokens")
    completion: Any = usage.get("completion_tokens")
    reported = {"prompt": prompt, "completion": completion, "cached": cached}
    counts = {name: count for name, count in reported.items() if type(count) is int and 0 <= count < MOST_TOKENS}
    if counts.get("cached", 0) > counts.get("prompt", 0):
        del counts["cached"]
    return counts
