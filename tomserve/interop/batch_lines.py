"""The lines of OpenAI batch files: a request as a line, and a line of results as a reply.

OpenAI's Batch API, `vllm run-batch` and other queues take a file with a request on each line, and give back files with
a result on each line, in any order. Both sides of a line name the request by its `custom_id`, which here is the
request's key: it says nothing about the item, and has 32 of the 64 characters that hosted queues allow.

>>> from tomserve.engine.request import Identity
>>> asked = Request(Identity("a", "cot", 0), "0f", b'{"messages":[]}')
>>> request_line(asked)
b'{"custom_id":"0f","method":"POST","url":"/v1/chat/completions","body":{"messages":[]}}\\n'
>>> reply_in({"custom_id": "0f", "response": None, "error": {"code": "batch_expired"}}).status
'timeout'
"""

from __future__ import annotations

from typing import Any

import orjson

from tomserve.engine.request import Request
from tomserve.engine.transport import Reply, error_text, read_reply
from tomserve.status import CONNECTION, MALFORMED, TIMEOUT, http

URL = "/v1/chat/completions"
"""The path that every request of a batch file names."""

ENDPOINT = "batch"
"""What stands as the endpoint in rows whose replies came from a batch file."""

EXPIRED = "batch_expired"
CANCELLED = "batch_cancelled"

_STATUSES = {EXPIRED: TIMEOUT, "request_timeout": TIMEOUT, CANCELLED: CONNECTION}
"""The status of a request that the queue did not ask, by the code of its error; all of them may be asked again."""


def request_line(request: Request) -> bytes:
    """The line of a file of requests, with exactly the body that our own client sends."""
    about = orjson.dumps({"custom_id": request.key, "method": "POST", "url": URL})
    return b'%b,"body":%b}\n' % (about[:-1], request.body)


def custom_id(data: Any) -> str | None:
    """The `custom_id` of what a line of results holds; None where that is no result."""
    if not isinstance(data, dict) or not ("response" in data or "error" in data):
        return None
    name = data.get("custom_id")
    return name if isinstance(name, str) else None


def is_request(data: Any) -> bool:
    """Whether what a line holds is a request rather than a result."""
    return isinstance(data, dict) and "body" in data and "response" not in data


def reply_in(data: dict[str, Any]) -> Reply:
    """The reply that a line of results holds. It raises nothing, whatever the line holds.

    A reply of the server, whatever its status, is read as one that our own client has got. Where there is none, the
    code of the error tells the status. An error without a body, as vLLM writes it, has its words beside the response.
    """
    response, error = data.get("response"), data.get("error")
    if not isinstance(response, dict):
        code = error.get("code") if isinstance(error, dict) else None
        status = _STATUSES.get(code, CONNECTION) if isinstance(code, str) else CONNECTION
        return Reply(status, error=_said(error) or "the batch holds neither a reply nor an error")
    code, body = response.get("status_code", 200), response.get("body")
    if type(code) is not int or not 100 <= code <= 999:
        return Reply(MALFORMED, error=f"status_code is {code!r:.40}; expected the number of an HTTP status")
    if body is None:
        return Reply(http(code) if code != 200 else MALFORMED, error=_said(error) or "the result holds no body")
    try:
        return read_reply(code, orjson.dumps(body))
    except (TypeError, orjson.JSONEncodeError):  # nested more deeply than any reply
        return Reply(MALFORMED, error="the body cannot be read as a reply")


def _said(error: Any) -> str:
    """What an error says, with its code where it has one that is a text."""
    if not error:
        return ""
    code = error.get("code") if isinstance(error, dict) else None
    text = error_text(error)
    return f"{code}: {text}" if isinstance(code, str) and code not in text else text
