"""The programming interface of the workbench, ``/api/v1``: one module for each group of routes, each with a `router`.

Its routes are thin: they call the functions that the pages call. What they take and give is described in
tomserve.web.schemas, and as an OpenAPI document at ``/api/openapi.json``.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, FastAPI, Security
from fastapi.security import APIKeyCookie, HTTPBearer

from tomserve.web.api.boards import router as board_router
from tomserve.web.api.experiments import router as experiment_router
from tomserve.web.api.following import router as progress_router
from tomserve.web.api.items import router as item_router
from tomserve.web.api.machines import router as server_router
from tomserve.web.api.results import router as result_router
from tomserve.web.api.runs import router as run_router
from tomserve.web.api.tokens import router as token_router
from tomserve.web.api.well import router as health_router
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
    413: "What was sent is too long.",
    414: "The address is too long.",
    422: "A value is wrong; the sentence names it.",
}

REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Refusal, "description": why} for status, why in WHY.items()
}

GROUPS = (
    (experiment_router, "experiments"),
    (progress_router, "experiments"),
    (run_router, "runs"),
    (result_router, "results"),
    (board_router, "results"),
    (item_router, "items"),
    (server_router, "workbench"),
    (token_router, "tokens"),
)
"""The routers, and under which word the OpenAPI document lists their routes."""


class Described(FastAPI):
    """An application whose OpenAPI document says of refusals what they are: JSON, also where a route gives a file."""

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document."""
        if self.openapi_schema is None:
            refusal = {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}}
            for methods in super().openapi()["paths"].values():
                for operation in methods.values():
                    for status, answer in operation["responses"].items():
                        if int(status) >= 400:
                            answer["content"] = refusal
        return super().openapi()


router = APIRouter(prefix="/api/v1", responses=REFUSALS)
router.include_router(health_router, tags=["workbench"])
for group, tag in GROUPS:
    router.include_router(group, tags=[tag], dependencies=[Security(_bearer), Security(_cookie)])
