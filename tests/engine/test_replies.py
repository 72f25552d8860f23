"""What servers send that is no plain chat completion, and that other clients read."""

import json
import re
from collections.abc import Mapping

import orjson
import pytest

from tomserve.engine.records import build_row
from tomserve.engine.replies import read_reply
from tomserve.engine.request import Identity, Request
from tomserve.status import LENGTH, MALFORMED, OK, REFUSAL

ANSWER = '{"answer":"tea"}'


def whole(content: object = None, **message: object) -> bytes:
    answer = {"message": {"role": "assistant", "content": content, **message}, "finish_reason": "stop"}
    return json.dumps({"choices": [answer, {"message": {"content": "second"}}]}).encode()


def stream(*deltas: Mapping[str, object], end: str = "data: [DONE]\n\n", finish: str | None = "stop") -> bytes:
    chunks = [{"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    other = {"choices": [{"index": 1, "delta": {"content": "second"}}]}
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
    usage = {"choices": [], "usage": {"prompt_tokens": "9", "completion_tokens": 2}}
    lines = [f"event: message\ndata: {json.dumps(one)}\n\n" for one in (*chunks, other, last, usage)]
    return b": waiting\n\n" + "".join(lines).encode() + end.encode()


CALLED = {"name": "answer", "arguments": ANSWER}
THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
PIECES = [{"content": '{"answer":'}, {"content": '"tea"}'}]


@pytest.mark.parametrize(
    ("raw", "text", "reasoning"),
    [
        (stream({"reasoning": "H"}, {"reasoning": "m."}, *PIECES), ANSWER, "Hm."),
        (stream(*PIECES, finish=None), ANSWER, None),
        (b"\xef\xbb\xbf" + stream({"content": [{"type": "text", "text": ANSWER}]}), ANSWER, None),
        (stream(*({"tool_calls": [{"index": 0, "function": {"arguments": part}}]} for part in ANSWER)), ANSWER, None),
        (b"\n\n  \n" + whole(ANSWER), ANSWER, None),
        (b'{"code": 0, "data": %b}' % whole(ANSWER), ANSWER, None),
        (b'{"data": {"deep": %b, %b}' % (b"[" * 300 + b"]" * 300, whole(ANSWER)[1:]), ANSWER, None),
        (whole(ANSWER).replace(b'"message": {"role"', b'"delta": {"role"'), ANSWER, None),
        (whole(tool_calls=[{"function": CALLED}]), ANSWER, None),
        (whole("", tool_calls=[{"function": {"arguments": {"answer": "tea"}}}], reasoning="Hm."), ANSWER, "Hm."),
        (whole({"answer": "tea"}), ANSWER, None),
        (whole({"type": "text", "text": ANSWER}), ANSWER, None),
        (whole([THOUGHT, *({"type": "text", "text": one} for one in ANSWER)]), ANSWER, "Hm."),
        (whole([{"type": "reasoning", "text": "Hm."}, {"type": "text", "text": ANSWER}]), ANSWER, "Hm."),
        (whole(ANSWER, thinking="Hm."), ANSWER, "Hm."),
        (whole(ANSWER, reasoning_details=[{"text": "H"}, {"summary": "m."}, {"data": "gAAA"}, 7]), ANSWER, "Hm."),
        (whole(f"{ANSWER} \ud83d"), f"{ANSWER} \N{REPLACEMENT CHARACTER}", None),
    ],
)
def test_it_is_read(raw: bytes, text: str, reasoning: str | None) -> None:
    reply = read_reply(200, raw)
    assert (reply.status, reply.text, reply.reasoning) == (OK, text, reasoning), reply.error
    orjson.dumps([reply.text, reply.reasoning])


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (whole(tool_calls=[{"function": CALLED}, {"function": {"arguments": "{}"}}]), "no text content"),
        (whole(tool_calls=[7], function_call="tea"), "no text content"),
        (whole([{"type": ["text"], "text": "tea"}, {"type": "text", "text": {}}]), "no text content"),
        (stream(*PIECES, end="", finish=None), "broke off"),
        (b'data: {"choices": [{"delta": {"content": "te', "not JSON"),
        (b'data: {"error": {"message": "engine"}}\n\n', "engine"),
        (b"<!DOCTYPE html><html><head><title>Sign&nbsp;in</title></head>", "a page of HTML.*'Sign in'"),
        (b"<html><title>" + "\u4f59\u989d\u4e0d\u8db3\uff0c".encode() * 100, "a page of HTML.*\u4e0d\u8db3'"),
        (b"\n<html><body><h1>502</h1>Bad gateway</body>", "a page of HTML.*'502 Bad gateway'"),
    ],
)
def test_it_is_told_apart(raw: bytes, said: str) -> None:
    reply = read_reply(200, raw)
    assert reply.status == MALFORMED
    assert re.search(said, reply.error or "")


def test_the_end_and_the_tokens_of_a_stream_are_kept() -> None:
    reply = read_reply(200, stream({"content": "te"}, finish="length"))
    assert (reply.status, reply.usage, reply.model) == (LENGTH, {"prompt": 9, "completion": 2}, "m")


def test_counts_are_kept_unless_they_are_none() -> None:
    for spent, kept in ((3, {"reasoning": 3}), ("3", {"reasoning": 3}), (6, {}), (-1, {}), (None, {})):
        usage = {"completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": spent}}
        reply = read_reply(200, orjson.dumps({**orjson.loads(whole("tea")), "usage": usage}))
        assert reply.usage == {"completion": 5, **kept}
    for count in (True, -1, 2**60, "9 or so", 1.5, None):
        usage = {"prompt_tokens": count, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 5}}
        reply = read_reply(200, orjson.dumps({**orjson.loads(whole("tea")), "usage": usage}))
        assert reply.usage == {"completion": 3}, count


def test_a_row_keeps_who_answered() -> None:
    named = orjson.loads(whole("tea")) | {"provider": "Azure", "system_fingerprint": "fp_1"}
    request = Request(Identity("i", "s", 0), "0" * 32, b"")
    row = build_row(request, read_reply(200, orjson.dumps(named)), "http://h/v1", 1)
    assert (row["provider"], row["system_fingerprint"]) == ("Azure", "fp_1")
    assert not {"provider", "system_fingerprint"} & build_row(request, read_reply(200, whole("tea")), "", 1).keys()


def test_a_filter_is_told_from_a_model_that_declines() -> None:
    held = read_reply(200, whole("Ann").replace(b'"stop"', b'"SAFETY"'))
    declined = read_reply(200, whole(None, refusal="I would rather not"))
    assert (held.status, held.text, held.error) == (REFUSAL, "Ann", "held back by the server (finish_reason 'SAFETY')")
    assert (declined.status, declined.text, declined.error) == (REFUSAL, "I would rather not", None)
