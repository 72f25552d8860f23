"""The model servers that run on this machine."""

from __future__ import annotations

from fastapi import APIRouter

from tomserve.content.files import one_line
from tomserve.web import overview
from tomserve.web.access import Reader
from tomserve.web.schemas import Server

router = APIRouter()


@router.get("/servers")
def servers(person: Reader) -> list[Server]:
    """The model servers that `tomserve serve` has started on this machine."""
    del person
    return [
        Server(
            model=one_line(one.record.model), url=one_line(one.record.url), started=one.record.started, state=one.state
        )
        for one in overview.SERVERS.seen()
    ]
