"""What the modules of the programming interface share."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends
from starlette.responses import JSONResponse, Response

from tomserve.web.access import Reader
from tomserve.web.register import Line
from tomserve.web.schemas import Coming
from tomserve.web.workbench import Workbench, workbench

Bench = Annotated[Workbench, Depends(workbench)]
"""Parameter of a route: the workbench that the request was sent to."""


def line_of(name: str, bench: Bench, person: Reader) -> Line:
    """The line of the run that the address names. Raises NoSuchRunError before anything is done."""
    return bench.register.line(name, person)


Found = Annotated[Line, Depends(line_of)]
"""Parameter of a route whose path holds `{name:path}`: the run, which the person may see."""

COMING: dict[int | str, dict[str, Any]] = {
    202: {
        "model": Coming,
        "description": "It is being computed. Ask for the same again in a second.",
        "content": {"application/json": {}},
    }
}
"""What routes say of results that are computed beside."""


def coming() -> Response:
    """The answer while something is computed beside."""
    return JSONResponse(Coming().model_dump(), 202, headers={"retry-after": "1"})
