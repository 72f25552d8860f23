"""What a request is answered that cannot be done: a sentence, as a page, a part of one, or JSON."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from markupsafe import escape
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, Response

from tomserve import errors
from tomserve.content.text import sanitize, say
from tomserve.engine.redact import Redactor
from tomserve.errors import TomserveError
from tomserve.serving import keys
from tomserve.web.rendering import page

API = "/api/"

HEADINGS = {
    400: "This request cannot be understood",
    401: "Who are you?",
    403: "You may not do this",
    404: "There is nothing here",
    405: "This cannot be done here",
    409: "This cannot be done now",
    408: "This took too long",
    413: "This is too long",
    414: "This address is too long",
    421: "This is the address of something else",
    422: "This cannot be done",
    429: "Wait a little",
    500: "Something went wrong",
    503: "Too much at once",
}

STATUSES: tuple[tuple[type[TomserveError], int], ...] = (
    (errors.NoSuchRunError, 404),
    (errors.NotAllowedError, 403),
    (errors.ConflictError, 409),
    (errors.RunMismatchError, 409),
    (errors.ConfigError, 422),
    (TomserveError, 409),  # this machine, a server or a disk does not do its part now
)
"""The HTTP status for each kind of our errors, the narrower kinds first."""

WENT_WRONG = "an unexpected error; whoever keeps this workbench finds it in what `tomserve web` printed"


def status_of(error: TomserveError) -> int:
    """The HTTP status for an error of ours."""
    return next(status for kind, status in STATUSES if isinstance(error, kind))


def refused(request: Request, status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    """The answer to a request that cannot be done, in the form that it asks for."""
    if request.url.path.startswith(API):
        return JSONResponse({"error": sanitize(sentence)}, status, headers=headers)
    if request.headers.get("hx-request"):
        return HTMLResponse(f'<p class="notice bad" role="alert">{escape(sanitize(sentence))}</p>', status, headers)
    heading = HEADINGS.get(status, HEADINGS[400])
    response = page(request, "refused.html.j2", status=status, heading=heading, sentence=sentence)
    response.headers.update(headers or {})
    return response


def broken(request: Request, error: Exception, secrets: tuple[str, ...]) -> Response:
    """The answer where something unexpected happened, of which nothing is told but to whoever keeps the workbench.

    secrets: what is replaced by *** in the traceback, besides the keys of the environment.
    """
    told = "".join(traceback.format_exception(error))
    say(
        Redactor(*keys.all_keys(), *secrets)(f"{request.method} {request.url.path}: an unexpected error\n{told}"),
        error=True,
    )
    try:
        return refused(request, 500, WENT_WRONG)
    except Exception:  # the page itself may be what is broken
        return Response(f"{WENT_WRONG}\n", 500, media_type="text/plain")


def install(app: FastAPI) -> None:
    """Have an application answer errors of ours, of FastAPI's and of Starlette's in this way."""
    app.add_exception_handler(TomserveError, _ours)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(RequestValidationError, _of_a_field)


def _ours(request: Request, error: Exception) -> Response:
    assert isinstance(error, TomserveError)
    return refused(request, status_of(error), str(error))


def _of_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said = {404: "there is no such page", 405: f"{request.method} is not possible here"}
    detail = str(error.detail)
    plain = detail in ("Not Found", "Method Not Allowed")
    return refused(request, error.status_code, said.get(error.status_code, detail) if plain else detail, error.headers)


def _of_a_field(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return refused(request, 422, "; ".join(_field(one) for one in error.errors()[:3]))


def _field(error: Any) -> str:
    where = ".".join(str(part) for part in error.get("loc", ())[1:]) or str((error.get("loc") or ("request",))[0])
    return f"{where}: {str(error.get('msg', 'is wrong'))[:300]}"
