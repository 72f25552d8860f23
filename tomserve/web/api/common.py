"""What the modules of the programming interface share."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends

from tomserve.web.access import Reader
from tomserve.web.register import Line
from tomserve.web.workbench import Workbench, workbench

Bench = Annotated[Workbench, Depends(workbench)]
"""Parameter of a route: the workbench that the request was sent to."""


def line_of(name: str, bench: Bench, person: Reader) -> Line:
    """The line of the run that the address names. Raises NoSuchRunError before anything is done."""
    return bench.register.line(name, person)


Found = Annotated[Line, Depends(line_of)]
"""Parameter of a route whose path holds `{name:path}`: the run, which the person may see."""
