"""Runs: the list of them, one of them, and its notes, tags and who may see it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from tomserve.runs.runfolder import read_manifest
from tomserve.web import noting
from tomserve.web.access import Reader, Runner
from tomserve.web.api.common import Bench, Found
from tomserve.web.register import Line
from tomserve.web.schemas import Run, RunChange, RunLine, RunPage, RunsWish

router = APIRouter()


@router.get("/runs")
def runs(
    bench: Bench,
    person: Reader,
    wish: Annotated[RunsWish, Query()],
) -> RunPage:
    """The runs that whoever asks may see, the newest first."""
    wanted = {"model": wish.model, "benchmark": wish.benchmark, "kind": wish.kind}
    found = [
        line
        for line in bench.register.lines(person)
        if all(not value or getattr(line, name) == value for name, value in wanted.items())
        and (not wish.tag or wish.tag in line.card.tags)
        and (not wish.state or wish.state in _states(line))
        and wish.text.casefold() in " ".join((line.name, line.model, line.benchmark, line.card.notes)).casefold()
    ]
    shown = found[(wish.page - 1) * wish.size : wish.page * wish.size]
    pages = max(1, -(-len(found) // wish.size))
    return RunPage(total=len(found), page=wish.page, pages=pages, runs=[RunLine.of(line) for line in shown])


def _states(line: Line) -> set[str]:
    """All words that say in which state a run is."""
    found = {str(line.card.job.state)} if line.card.job else set()
    if line.broken:
        return found | {"broken"}
    return found | {"complete" if line.complete else "incomplete"} | ({"running"} if line.running else set())


@router.get("/runs/{name:path}")
def run(line: Found) -> Run:
    """One run, with its manifest."""
    manifest = None if line.broken else read_manifest(line.folder)
    return Run(**RunLine.of(line).model_dump(), manifest=manifest)


@router.patch("/runs/{name:path}")
def change_run(line: Found, person: Runner, change: RunChange) -> RunLine:
    """Change notes and tags of a run, and whether only its owner sees it."""
    return RunLine.of(noting.change(line, person, **change.model_dump()))
