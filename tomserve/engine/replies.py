"""Reads the body of a response to a chat completion, whatever a server sends, as a Reply."""

import contextlib
import html
import json
import math
import re
from typing import Any

import orjson

from tomserve.engine.error_objects import UNVALIDATED, error_status, failed_generation
from tomserve.engine.prompt_tokens import read_prompt_logprobs
from tomserve.engine.redact import cut_words
from tomserve.engine.transport import Reply
from tomserve.status import LENGTH, MALFORMED, OK, REFUSAL, finished, http

MOST_TOKENS = 2**40  # A number of tokens that is as large as this cannot be right


def read_reply(code: int, raw: bytes) -> Reply:
    """Read an HTTP status code and the body of a response as a Reply. It raises nothing, whatever the body holds."""
    try:
        data = orjson.loads(raw)
    except ValueError:
        try:
            data = _read_strange(raw)
        except ValueError as error:
            begun = raw.lstrip(_BLANK)
            foreign = bool(begun) and not begun.startswith((b"{", b"[", *_EVENTS))  # else it was broken off
            return Reply(http(code) if code != 200 else MALFORMED, error=str(error), foreign=foreign)
    return _read_completion(data) if code == 200 else _read_error(code, data)


def _read_completion(data: Any) -> Reply:
    """The reply that the data of a chat completion make."""
    try:
        choice = data["choices"][0]
        message = choice["message"]
        text, finish = message.get("content"), choice.get("finish_reason")
        reasoning, refusal = message.get("reasoning"), message.get("refusal")
        if type(reasoning) is not str or not reasoning:
            reasoning = message.get("reasoning_content")
            if type(reasoning) is not str or not reasoning:
                strange = "thinking" in message or "reasoning_details" in message
                reasoning = _thoughts(message) if strange else None
        if type(text) is not str or not text:
            text, reasoning = _odd_text(message, text, reasoning)
    except (TypeError, KeyError, IndexError, AttributeError):
        inner = _unwrap(data)
        return _read_error(200, data) if inner is None else _read_completion(inner)
    finish, refusal = _text(finish), _text(refusal)
    reply = Reply(OK, None, reasoning, finish, _usage(data), _text(data.get("model")) or None)
    if "provider" in data or "system_fingerprint" in data:
        reply.provider, reply.fingerprint = _text(data.get("provider")), _text(data.get("system_fingerprint"))
    if data.get("prompt_logprobs"):
        reply.tokens, reply.skipped = read_prompt_logprobs(data["prompt_logprobs"])
    ended = OK if finish == "stop" else finished(finish)
    if refusal or ended == REFUSAL:
        reply.status, reply.text = REFUSAL, _text(text) or refusal or ""
        if not refusal:
            reply.error = f"held back by the server (finish_reason {finish!r})"
    elif ended == MALFORMED and isinstance(told := choice.get("error"), dict):  # as OpenRouter says it
        return _read_error(200, told)
    elif ended == MALFORMED:
        reply.status, reply.error = MALFORMED, f"the server broke the reply off (finish_reason {finish!r})"
    elif isinstance(text, str):
        reply.text, reply.status = text, ended
    elif ended == LENGTH or reasoning:  # all tokens went into thinking, or a parser took the answer for a part of it
        reply.text, reply.status = "", ended
    else:
        reply.status, reply.error, reply.lasting = MALFORMED, "the message has no text content", True
    return reply


def _read_error(code: int, data: Any) -> Reply:
    """The reply that an error makes, which came with that HTTP status."""
    words = error_text(data)
    if (written := failed_generation(data)) is not None:
        if written.strip():
            return Reply(OK, written, finish_reason=UNVALIDATED)
        return Reply(MALFORMED, error=words, lasting=True)
    status = error_status(code, data, words)
    if status == MALFORMED:
        return Reply(MALFORMED, error=f"not a chat completion: {words}", lasting=True)
    return Reply(status, "" if status == REFUSAL else None, error=words)


def _unwrap(data: Any) -> dict[str, Any] | None:
    """A chat completion that some gateways send as the `data` of another object, or with the `delta` of a stream for
    its message; None where there is none."""
    with contextlib.suppress(TypeError, KeyError, IndexError):
        if "choices" not in data and data["data"]["choices"][0]["message"]:
            return dict(data["data"])
        choice = data["choices"][0]
        if "message" not in choice and isinstance(choice["delta"], dict):
            return {**data, "choices": [{**choice, "message": choice["delta"]}]}
    return None


_BLANK = b"\xef\xbb\xbf \t\r\n"
_EVENTS = (b"data:", b"event:", b"id:", b"retry:", b":")  # how lines of server-sent events begin
_HALF = re.compile("[\ud800-\udfff]")
LONGEST_PAGE = 300  # characters that are told of a page
_TITLE = re.compile(r"<title[^>]{0,200}>([^<]+)", re.IGNORECASE)


def _read_strange(raw: bytes) -> Any:
    """The data of a body that the fast reader refuses and other clients read; ValueError says what it is instead."""
    body = raw.lstrip(_BLANK)
    if body.startswith(_EVENTS):
        return _join_events(body)
    if (page := describe_page(body)) is not None:
        raise ValueError(page)
    return read_json(raw)


def describe_page(body: bytes) -> str | None:
    """What to say of a page of HTML in place of JSON; None of anything else."""
    if not body.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html")):
        return None
    page = cut_words(body[:80_000].decode("utf-8", "replace"), 19_000)
    title = _TITLE.search(page)
    said = html.unescape(title[1] if title else re.sub("<[^<>]*>", " ", page))
    return f"a page of HTML, as a proxy or a login sends it: {cut_words(' '.join(said.split()), LONGEST_PAGE)!r}"


def read_json(raw: bytes) -> Any:
    """The data of a JSON text. After a byte order mark, with NaN and Infinity (None here), or with half a surrogate
    pair (U+FFFD here) it is read, too. Raises ValueError for all else."""
    with contextlib.suppress(ValueError):
        return orjson.loads(raw)
    try:
        data = json.loads(raw, parse_constant=lambda _: None, parse_float=_finite)
        return orjson.loads(_HALF.sub("\N{REPLACEMENT CHARACTER}", json.dumps(data, ensure_ascii=False)))
    except (ValueError, RecursionError):
        raise ValueError(f"not JSON: {cut_words(raw[:9000].decode('utf-8', 'replace'), 2000)!r}") from None


def _finite(digits: str) -> float | None:
    return number if math.isfinite(number := float(digits)) else None


_JOINED = ("content", "reasoning", "reasoning_content", "thinking", "refusal")
_KEPT = ("model", "provider", "system_fingerprint", "usage")


def _join_events(body: bytes) -> dict[str, Any]:
    """A stream of chunks, sent although nobody asked for one, as a chat completion; the error that one of them tells,
    where one does. Raises ValueError where a chunk cannot be read, or the stream has no end."""
    whole: dict[str, Any] = {}
    said: dict[str, list[Any]] = {}
    called: dict[Any, list[str]] = {}
    finish, ended = None, False
    for line in body.splitlines():
        if not line.startswith(b"data:") or not (piece := line[5:].strip()):
            continue
        if piece == b"[DONE]":
            ended = True
            break
        chunk = read_json(piece)
        if not isinstance(chunk, dict):
            raise ValueError(f"a stream of events, one of which is {cut_words(error_text(chunk), 200)}")
        if chunk.get("error"):
            return chunk
        whole |= {name: chunk[name] for name in _KEPT if chunk.get(name)}
        choices = chunk.get("choices")
        for place, choice in enumerate(choices if isinstance(choices, list) else ()):
            if isinstance(choice, dict) and choice.get("index", place) == 0:
                finish = choice.get("finish_reason") or finish
                _add_delta(said, called, choice.get("delta") or choice.get("message"))
    if finish is None and not ended:
        raise ValueError("a stream of events that broke off")
    message: dict[str, Any] = {name: _join_pieces(pieces) for name, pieces in said.items()}
    message["tool_calls"] = [{"function": {"arguments": "".join(pieces)}} for pieces in called.values()]
    return {**whole, "choices": [{"message": message, "finish_reason": finish}]}


def _add_delta(said: dict[str, list[Any]], called: dict[Any, list[str]], delta: Any) -> None:
    if not isinstance(delta, dict):
        return
    for name in (*_JOINED, "reasoning_details"):
        if value := delta.get(name):
            said.setdefault(name, []).append(value)
    calls = delta.get("tool_calls")
    for call in [*(calls if isinstance(calls, list) else ()), {"function": delta.get("function_call")}]:
        if isinstance(call, dict) and isinstance(call.get("function"), dict):
            arguments = _text(call["function"].get("arguments"))
            called.setdefault(str(call.get("index")), []).append(arguments or "")


def _join_pieces(pieces: list[Any]) -> Any:
    """Pieces of a text as one; where some are lists of parts, all parts in one list."""
    if all(type(piece) is str for piece in pieces):
        return "".join(pieces)
    return [part for piece in pieces for part in (piece if isinstance(piece, list) else [piece])]


def _odd_text(message: dict[str, Any], content: Any, reasoning: str | None) -> tuple[str | None, str | None]:
    """The text and the reasoning of a message whose content is no text or an empty one: a list of parts, an object, or
    nothing, where the answer stands in the arguments of its only call of a tool."""
    if isinstance(content, dict):
        kind = content.get("type")
        if kind not in (*_TEXTS, *_THOUGHTS):
            return orjson.dumps(content).decode(), reasoning
        content = [content]
    if isinstance(content, list):
        return _join_parts(content, _TEXTS), reasoning or _join_parts(content, _THOUGHTS)
    return _arguments(message) or _text(content), reasoning


def _arguments(message: dict[str, Any]) -> str | None:
    calls = message.get("tool_calls")
    called = [call.get("function") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    found = [one.get("arguments") for one in (*called, message.get("function_call")) if isinstance(one, dict)]
    texts = {orjson.dumps(one).decode() if isinstance(one, dict) else _text(one) for one in found}
    return texts.pop() if len(texts) == 1 else None


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
        elif type(part) is str and kinds is _TEXTS:
            found.append(part)
    return "".join(found) if found else None


def _thoughts(message: dict[str, Any]) -> str | None:
    """The thinking that a message holds as `thinking`, or as OpenRouter's list of details."""
    if thinking := _text(message.get("thinking")):
        return thinking
    if not isinstance(details := message.get("reasoning_details"), list):
        return None
    found = (one.get("text") or one.get("summary") for one in details if isinstance(one, dict))
    return "".join(text for text in found if type(text) is str) or None


def error_text(data: Any) -> str:
    """The message of an error object, on one line, with its code: that of OpenAI's or FastAPI's style, with what the
    provider behind a gateway said; or the object as it is."""
    code = raw = None
    if isinstance(data, list) and len(data) == 1:
        data = data[0]
    if isinstance(data, dict):
        inner = data.get("error", data.get("detail", data.get("message", data)))
        if isinstance(inner, dict):
            behind = inner.get("metadata")
            code, raw = inner.get("code"), behind.get("raw") if isinstance(behind, dict) else None
            inner = inner.get("message", inner)
        data = _detail(inner) if isinstance(inner, list) else inner
    try:
        text = " ".join((data if isinstance(data, str) else repr(data)).split())
    except RecursionError:
        return "data that is nested too deeply"
    text += f": {' '.join(raw.split())}" if isinstance(raw, str) and raw not in text else ""
    return f"{text} ({code})" if isinstance(code, str) and not code.isdigit() and code not in text else text


def _detail(entries: list[Any]) -> Any:
    """FastAPI's list of what is wrong in a request, in words; any other list as it is.

    >>> _detail([{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}])
    'body.seed: Extra inputs are not permitted'
    """
    said = [one.get("msg") if isinstance(one, dict) else None for one in entries]
    if not entries or not all(type(one) is str for one in said):
        return entries
    lists = [place if isinstance(place := one.get("loc"), list) else [] for one in entries]
    named = [".".join(str(part) for part in place if isinstance(part, str | int)) if place else "" for place in lists]
    return "; ".join(f"{place}: {text}" if place else str(text) for place, text in zip(named, said, strict=True))


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
    if type(prompt) is str or type(completion) is str:
        prompt, completion, cached = _number(prompt), _number(completion), _number(cached)
    reported = {"prompt": prompt, "completion": completion, "cached": cached}
    counts = {name: count for name, count in reported.items() if type(count) is int and 0 <= count < MOST_TOKENS}
    if counts.get("cached", 0) > counts.get("prompt", 0):
        del counts["cached"]
    if isinstance(spent := usage.get("completion_tokens_details"), dict):
        thought = _number(spent.get("reasoning_tokens"))
        if type(thought) is int and 0 <= thought <= counts.get("completion", 0):
            counts["reasoning"] = thought
    return counts


def _number(value: Any) -> Any:
    """The number that a text of at most 12 digits stands for; anything else as it is."""
    plain = type(value) is str and value.isascii() and value.isdigit() and len(value) <= 12
    return int(value) if plain else value
