"""Queue: what waits and what runs, in order, and what can be done about it."""

from __future__ import annotations

from collections import defaultdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from tomserve.web import acting, overview, rendering
from tomserve.web.access import Reader, Runner
from tomserve.web.cards import ENDED, State
from tomserve.web.overview import Row
from tomserve.web.people import Person
from tomserve.web.workbench import workbench

router = APIRouter(include_in_schema=False)

ENDED_SHOWN = 20
"""So many of the experiments that have ended last are listed."""

Action = Literal["pause", "resume", "cancel", "retry", "first", "up", "down", "last"]


@router.get("/queue")
def queue(request: Request, person: Reader) -> HTMLResponse:
    """The page of the queue."""
    return rendering.page(request, "queue.html.j2", **_shown(request, person))


@router.get("/parts/queue")
def lists(request: Request, person: Reader) -> HTMLResponse:
    """The lists of that page, which fetch themselves."""
    return rendering.page(request, "queue/lists.html.j2", **_shown(request, person))


@router.post("/queue/{action}/{name:path}")
def act(
    action: Action, name: str, request: Request, person: Runner, back: Annotated[str, Form(max_length=1000)] = "/queue"
) -> RedirectResponse:
    """Do something with a run in the queue, and go back to the page that the button stands on."""
    known = workbench(request).queue
    if action in ("first", "up", "down", "last"):
        known.move(name, person, action)
    else:
        {"pause": known.pause, "resume": known.resume, "cancel": known.cancel, "retry": known.retry}[action](
            name, person
        )
    return RedirectResponse(back if back.startswith("/") and not back.startswith(("//", "/\\")) else "/queue", 303)


def _shown(request: Request, person: Person) -> dict[str, Any]:
    rows = [overview.row_of(line) for line in workbench(request).queue.lines(person)]
    told = {row.line.name: row.line.card.job for row in rows if row.line.card.job is not None}
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if told[row.line.name].state not in ENDED:
            groups[told[row.line.name].group].append(row)
    ended = [row for row in rows if told[row.line.name].state in ENDED]
    counts = {state: sum(job.state is state for job in told.values()) for state in State}
    return {
        "groups": dict(sorted(groups.items())),
        "ended": ended[:ENDED_SHOWN],
        "counts": {state.value: count for state, count in counts.items() if count and state not in ENDED},
        "progress_of": {row.line.name: seen for row, seen in overview.running(rows) if seen},
        "actions": {row.line.name: acting.actions(row.line.card, person) for row in rows},
        "movable": {
            row.line.name
            for row in rows
            if told[row.line.name].state in acting.MOVABLE and person.may_change(row.line.card.owner)
        },
        "moves": acting.MOVES,
    }
