"""Dashboard: what runs, what waits, what is new, all runs, the servers and the disk."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from tomserve.engine.redact import Redactor
from tomserve.serving import keys
from tomserve.web import overview, rendering
from tomserve.web.access import Reader
from tomserve.web.overview import Filters
from tomserve.web.workbench import workbench

router = APIRouter(include_in_schema=False)


@router.get("/")
def dashboard(request: Request, person: Reader) -> HTMLResponse:
    """The first page. The servers are asked by a request of its own, as a busy one takes its time."""
    shown = overview.overview(workbench(request).register, person, Filters.read(request.query_params))
    return rendering.page(request, "dashboard.html.j2", shown=shown, filters=shown.filters)


@router.get("/parts/now")
def now(request: Request, person: Reader) -> HTMLResponse:
    """The part of the Dashboard that says what runs and what waits, which fetches itself every few seconds."""
    rows = [overview.row_of(line) for line in workbench(request).register.lines(person)]
    return rendering.page(
        request, "dashboard/now.html.j2", running=overview.running(rows), waiting=overview.waiting(rows)
    )


@router.get("/parts/servers")
def servers(request: Request, person: Reader) -> HTMLResponse:
    """The part of the Dashboard that lists the servers which this user started on this machine."""
    mask = Redactor(*keys.all_keys())
    found = [(one, mask(one.said())) for one in overview.SERVERS.seen()]
    return rendering.page(request, "dashboard/servers.html.j2", servers=found)


@router.get("/chosen")
def chosen(person: Reader, run: Annotated[list[str] | None, Query(max_length=20)] = None) -> RedirectResponse:
    """From the runs whose boxes were checked to the page that compares them: the first one with all others."""
    names = list(dict.fromkeys(run or ()))
    told = [("a", names[0])] if names else []
    return RedirectResponse(f"/compare?{urlencode([*told, *(('b', name) for name in names[1:])])}", 303)
