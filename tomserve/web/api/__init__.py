"""The programming interface of the workbench, ``/api/v1``: one module for each group of routes, each with a `router`.

Its routes are thin: they call the functions that the pages call. What they take and give is described in
tomserve.web.schemas, and as an OpenAPI document at ``/api/openapi.json``.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Security
from fastapi.security import APIKeyCookie, HTTPBearer

from tomserve.web.api import runs, tokens, well
from tomserve.web.schemas import Refusal

TITLE = "tomserve workbench"

DESCRIPTION = """
Start experiments, follow them, and fetch what they found out. The pages of the workbench use the same functions.

A program sends `Authorization: Bearer TOKEN`: the token of the address that `tomserve web` prints, or where people sign
in (`--auth`) one of its user (`POST /api/v1/tokens`). A run that you may not see is answered like one that does not
exist. Every refusal is a JSON object with one sentence, `error`.
"""

_bearer = HTTPBearer(auto_error=False, description="The token of the printed address, or one of a user.")
_cookie = APIKeyCookie(name="tomserve_PORT", auto_error=False, description="What a browser holds that was let in.")

WHY = {
    400: "It cannot be understood.",
    401: "Nobody is signed in, or the token is wrong.",
    403: "The person may not do this.",
    404: "There is no such thing, or none that the person may see.",
    409: "It cannot be done now, in the state in which things are.",
    413: "It is too long.",
    422: "A value is wrong; the sentence names it.",
}

REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Refusal, "description": why} for status, why in WHY.items()
}

router = APIRouter(prefix="/api/v1", responses=REFUSALS)
router.include_router(well.router, tags=["workbench"])
for module, tag in ((runs, "runs"), (tokens, "tokens")):
    router.include_router(module.router, tags=[tag], dependencies=[Security(_bearer), Security(_cookie)])
