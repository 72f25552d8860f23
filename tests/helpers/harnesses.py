"""Other harnesses that ask our questions: what a server says to them, and how their requests compare with ours."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from tests.conftest import completion, fill

KINDS = ("right", "wrong", "prose", "nonsense", "cut", "thought", "filtered")
"""How `various` replies, by the content of a request."""


def prompt_of(body: Mapping[str, Any]) -> str:
    """What a request says, as one text."""
    return "\n\n".join(one["content"] for one in body["messages"])


def kind_of(body: Mapping[str, Any]) -> str:
    """How `various` replies to a request: the same however often it is asked."""
    digest = hashlib.sha256(prompt_of(body).encode()).digest()
    return KINDS[digest[0] % len(KINDS)]


def various(body: dict[str, Any], number: int = 0) -> dict[str, Any] | None:
    """Replies of all kinds to requests with a schema: JSON, prose, nonsense, cut off, cut off in mid-thought, held back
    by a filter. It tells the total of tokens, which other clients insist on."""
    del number
    if "response_format" not in body:
        return None
    schema = body["response_format"]["json_schema"]["schema"]
    whole = orjson.loads(fill(schema))
    labels = schema["properties"]["answer"]["enum"]
    kind = kind_of(body)
    finish, text = "stop", orjson.dumps(whole).decode()
    if kind == "wrong":
        text = orjson.dumps({**whole, "answer": labels[-1]}).decode()
    elif kind == "prose":
        text = f"The answer is {labels[0]}."
    elif kind == "nonsense":
        text = "I would rather not say."
    elif kind == "cut":
        finish, text = "length", text[: len(text) // 2]
    elif kind == "thought":
        finish, text = "length", f"<think>It might be {labels[0]}, so the answer is {labels[0]}"
    elif kind == "filtered":
        finish = "content_filter"
    return counted(completion(text, body["model"], finish))


def well_formed(body: dict[str, Any], number: int = 0) -> dict[str, Any]:
    """A reply that takes the first allowed label everywhere, with the total of its tokens."""
    del number
    return counted(completion(fill(body["response_format"]["json_schema"]["schema"]), body["model"], "stop"))


def counted(reply: dict[str, Any]) -> dict[str, Any]:
    """The reply with the total of its tokens."""
    usage = reply["usage"]
    return {**reply, "usage": {**usage, "total_tokens": usage["prompt_tokens"] + usage["completion_tokens"]}}


def asked(bodies: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Requests by what they say, each as JSON with the order of the schema's keys; what is null is left out."""
    return {prompt_of(body): orjson.dumps(_stripped(dict(sorted(body.items())))).decode() for body in bodies}


def _stripped(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _stripped(inner) for name, inner in value.items() if inner is not None}
    return [_stripped(inner) for inner in value] if isinstance(value, list) else value
