"""How far a run is: once, or as a stream of events until it has ended."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent

from tomserve.web import streaming
from tomserve.web.api.common import Found
from tomserve.web.schemas import ProgressTold
from tomserve.web.workbench import workbench

router = APIRouter()

STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events of which each holds what `progress` tells, sent when that has changed, at most one a "
        "second; the last one is called `end`.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


@router.get("/progress/{name:path}")
def progress(line: Found) -> ProgressTold:
    """How far a run is, with its last answers and the end of its log, whoever started it."""
    return ProgressTold.of(streaming.Follower(line.folder, line.name).look())


@router.get("/events/{name:path}", response_class=EventSourceResponse, responses=STREAM)
async def events(line: Found, request: Request) -> AsyncIterator[ServerSentEvent]:
    """The same as server-sent events, until the run has ended."""
    ending = workbench(request).ending
    async for seen in streaming.events(line.folder, line.name, ending=ending):
        yield ServerSentEvent(data=ProgressTold.of(seen).model_dump(mode="json"), event="progress", retry=2000)
    if not ending.is_set():
        yield ServerSentEvent(raw_data="ended", event="end")
