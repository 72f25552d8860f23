"""A batch queue in a few lines: it answers a file of requests, and writes results as OpenAI, or vLLM, writes them."""

import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import orjson

from tests.conftest import completion, fill, free

Body = dict[str, Any]
Answerer = Callable[[str, Body], dict[str, Any]]


def answer(body: Body) -> Body:
    """The completion of a request, which differs from request to request by what is asked alone."""
    if "response_format" not in body:
        return free(body)
    schema = body["response_format"]["json_schema"]["schema"]
    drawn = random.Random(orjson.dumps(body["messages"]))
    return completion(fill(_shuffled(schema, drawn)), body["model"])


def _shuffled(part: Any, drawn: random.Random) -> Any:
    """A schema whose lists of allowed values have another order, so that others of them come first."""
    if isinstance(part, list):
        return [_shuffled(one, drawn) for one in part]
    if not isinstance(part, dict):
        return part
    found = {name: _shuffled(one, drawn) for name, one in part.items()}
    if "enum" in found:
        found["enum"] = drawn.sample(found["enum"], len(found["enum"]))
    return found


def scripted(body: Body, number: int) -> Body | None:
    """The same as the script of an endpoint."""
    return None if body.get("preflight") else answer(body)


def asked(path: Path) -> list[dict[str, Any]]:
    """The requests of a file."""
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def ok(name: str, body: Body) -> dict[str, Any]:
    """The result of a request that was answered."""
    return result(name, 200, answer(body))


def result(name: str, code: int, body: Any, error: Any = None) -> dict[str, Any]:
    """A result with the status and the body of a reply."""
    response = {"status_code": code, "request_id": "r-1", "body": body}
    return {"id": "batch_req_1", "custom_id": name, "response": response, "error": error}


def failed(name: str, code: str) -> dict[str, Any]:
    """A result without a reply."""
    return {"id": "b", "custom_id": name, "response": None, "error": {"code": code, "message": "it was not asked"}}


def answered(requests: Iterable[Path], out: Path, told: Answerer = ok, *, seed: int = 0) -> Path:
    """Answer all requests of these files in any order, and return the file of the results."""
    lines = [orjson.dumps(told(one["custom_id"], one["body"])) + b"\n" for path in requests for one in asked(path)]
    random.Random(seed).shuffle(lines)
    out.write_bytes(b"".join(lines))
    return out
