"""Experiments: put one into the queue, and change what becomes of those that are in it."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, HTTPException, Query
from starlette.responses import Response

from tomserve.web import admitting, planning
from tomserve.web.access import Reader, Runner
from tomserve.web.api.common import COMING, Bench, coming
from tomserve.web.queue import Where
from tomserve.web.schemas import NewExperiment, QueueTold, RunLine, Started
from tomserve.workflows.evaluate import Experiment

router = APIRouter()

PATIENCE = 20.0
"""Seconds for which a plan is waited for before it is said that it is still being computed."""

Action = Literal["pause", "resume", "cancel", "retry", "move"]


@router.post("/experiments", status_code=201)
def start(bench: Bench, person: Runner, wanted: NewExperiment) -> Started:
    """Put an experiment into the queue. Its fields are those of `tomserve eval --config`.

    A run of yours that exists already goes on. Without `run`, a free name is chosen.
    """
    return Started(name=bench.queue.submit(_experiment(wanted), person, wanted.private))


@router.post("/experiments/plan", response_model=planning.Plan, responses=COMING)
def plan(bench: Bench, person: Reader, wanted: NewExperiment) -> planning.Plan | Response:
    """What an experiment would cost, and the smallest effect that it could find. Nothing is asked of any server."""
    experiment = admitting.check(_experiment(wanted), person, bench.register, bench.settings)
    return planning.DESK.foresee(experiment, PATIENCE) or coming()


def _experiment(wanted: NewExperiment) -> Experiment:
    fields = wanted.model_dump(by_alias=True, exclude={"private"}, exclude_unset=True)
    return Experiment.model_validate(fields)


@router.get("/queue")
def queue(bench: Bench, person: Reader) -> QueueTold:
    """What is in the queue: what runs, then what waits in its order, then what has ended, the latest first."""
    return QueueTold(runs=[RunLine.of(line) for line in bench.queue.lines(person)[:1000]])


@router.post("/queue/{action}/{name:path}")
def act(
    bench: Bench,
    person: Runner,
    action: Action,
    name: str,
    where: Annotated[Where | None, Query(description="Only for `move`: to which place.")] = None,
) -> RunLine:
    """Pause, resume, cancel, retry or move an experiment.

    Nothing that was answered is lost by any of them.
    """
    if (action == "move") != (where is not None):
        raise HTTPException(422, "where: goes with move, which needs it: first, up, down or last")
    if where is not None:
        bench.queue.move(name, person, where)
    else:
        getattr(bench.queue, action)(name, person)
    return RunLine.of(bench.register.line(name, person))
