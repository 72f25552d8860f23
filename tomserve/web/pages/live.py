"""Live: a run while it goes on, by server-sent events; whoever started it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent

from tomserve.errors import ConfigError
from tomserve.status import ANSWERS
from tomserve.web import acting, cards, rendering, streaming
from tomserve.web.access import Reader
from tomserve.web.people import Person
from tomserve.web.register import Line
from tomserve.web.streaming import Seen
from tomserve.web.workbench import workbench

router = APIRouter(include_in_schema=False)

RETRY = 2000
"""Milliseconds after which a browser that has lost the connection tries again."""

LONGEST = 600.0
"""Seconds after which a stream ends: the browser connects again, and is let in only if it may still see the run."""

PARTS = ("now", "actions", "answers", "log", "said")
"""The parts of the page; each is sent where it has changed, and put in its place."""


def line_of(name: str, request: Request, person: Reader) -> Line:
    """The line of the run that the address names. Raises NoSuchRunError before anything is sent."""
    return workbench(request).register.line(name, person)


Found = Annotated[Line, Depends(line_of)]


@router.get("/live/{name:path}")
def live(line: Found, request: Request, person: Reader) -> HTMLResponse:
    """The page of a run that goes on, or waits, or has ended."""
    seen = streaming.Follower(line.folder, line.name, line.rows).look()
    facts = (
        ("Model", line.model),
        ("Benchmark", line.benchmark),
        ("Strategies", ", ".join(line.strategies)),
        ("Owner", line.card.owner),
    )
    return rendering.page(request, "live.html.j2", facts=facts, **_shown(request, seen, line, person))


@router.get("/events/{name:path}", response_class=EventSourceResponse)
async def events(line: Found, request: Request, person: Reader) -> AsyncIterator[ServerSentEvent]:
    """The parts of that page as they change, as fragments of HTML, until the run has ended."""
    known = workbench(request)
    before: dict[str, str] = {}
    until = time.monotonic() + LONGEST
    async for seen in streaming.events(line.folder, line.name, ending=known.ending):
        shown = await run_in_threadpool(_shown, request, seen, line, person)
        for part in PARTS:
            html = rendering.text(request, f"live/{part}.html.j2", **shown).strip()
            if before.get(part) != html:
                before[part] = html
                yield ServerSentEvent(raw_data=html, event=part, retry=RETRY)
        if time.monotonic() > until:
            return
    if not known.ending.is_set():  # otherwise the browser connects again once there is a server
        yield ServerSentEvent(raw_data="ended", event="end")


def _shown(request: Request, seen: Seen, line: Line, person: Person) -> dict[str, Any]:
    try:
        card = cards.read(line.folder)
    except ConfigError:
        card = line.card
    return {
        "seen": seen,
        "measuring": _measuring(request, seen, person),
        "queued": card.job is not None,
        "actions": acting.actions(card, person),
        "readable": ANSWERS,
    }


def _measuring(request: Request, seen: Seen, person: Person) -> list[str]:
    """The measurements of this run that go on now, as its faithfulness is measured once all of it was answered."""
    if not seen.following or seen.progress is None or seen.progress.running:
        return []
    lines = workbench(request).register.lines(person)
    return [one.name for one in lines if one.of == seen.name and one.running]
