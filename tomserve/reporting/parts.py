"""The table of `tomserve status`: how far each part of a divided evaluation is, and what the cluster says of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import polars as pl
from rich.console import Console

from tomserve.content.paths import PARTS_ENDING
from tomserve.content.text import sanitize
from tomserve.distributed import slurm
from tomserve.distributed.cluster import Job, Task
from tomserve.distributed.shards import PartState, part_folder
from tomserve.reporting.terminal import print_table
from tomserve.runs import progress

SHOWN = 60
"""So many parts are listed at most; of more, those that are complete or that wait are only counted."""

ALWAYS = ("part", "state", "done")
"""Columns that are shown also where they say nothing."""

LONGEST = 40
"""Characters of a node's name, or of a cluster's word, that are shown."""


@dataclass(frozen=True)
class Seen:
    """A part with everything that its line tells: rate: rows a second lately; left: seconds; None where unknown."""

    part: PartState
    rate: float | None
    left: float | None
    task: Task | None
    node: str
    begun: int | None


def show(
    folder: Path, found: Sequence[PartState], job: Job | None, tasks: Mapping[int, Task], console: Console
) -> None:
    """Print the parts, a line for all of them, and what the job is.

    folder: of the parts. found: how far they are. job, tasks: what was submitted, and what the cluster says of it.
    """
    seen = [_seen(folder, one, job, tasks.get(one.number)) for one in found]
    listed = seen
    if len(seen) > SHOWN:
        quiet = ("complete", "waiting")
        listed = [one for one in seen if one.part.state not in quiet or _cluster(one) not in ("", "PENDING")][:SHOWN]
        listed = [one for one in listed if one.part.state != "complete"]
    if listed:
        rows = [_cells(one) for one in listed]
        told = [name for name in rows[0] if name in ALWAYS or any(row[name] for row in rows)]
        frame = pl.DataFrame([{name: row[name] for name in told} for row in rows])
        print_table(f"parts of {sanitize(folder.name.removesuffix(PARTS_ENDING))}", frame, console)
    if len(listed) < len(seen):
        console.print(f"{len(seen) - len(listed)} more parts are not listed", highlight=False)
    for line in lines(seen, job):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def lines(seen: Sequence[Seen], job: Job | None) -> list[str]:
    """What is to be said of all parts: how many are how far, when they may be done, and which job asks them."""
    states = Counter(one.part.state for one in seen)
    done, total = sum(one.part.done for one in seen), sum(one.part.total for one in seen)
    rate = sum(one.rate or 0.0 for one in seen)
    said = f"{done:,} of {total:,} requests, {sum(one.part.failures for one in seen):,} failed; parts: "
    said += ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    if rate > 0 and done < total:
        said += f"; {rate:,.1f} a second, about {_time((total - done) / rate)} left at this rate"
    told = [said]
    if job is not None:
        told.append(f"{job.cluster} job {sanitize(job.id)}, submitted at {sanitize(job.time)}")
    for one in seen:
        if one.task is not None and one.task.note and one.task.state not in ("RUNNING", "COMPLETED"):
            told.append(f"part {one.part.number}: {sanitize(one.task.state)}, {sanitize(one.task.note)}")
    if len(told) > SHOWN:
        told[SHOWN:] = [f"and {len(told) - SHOWN} more notes of the cluster"]
    return told


def _seen(folder: Path, part: PartState, job: Job | None, task: Task | None) -> Seen:
    """What is known of a part."""
    record = progress.read_progress(part_folder(folder, part.number)) if part.state == "running" else None
    rate = record.rate if record is not None else None
    left = (part.total - part.done) / rate if rate and part.total >= part.done else None
    began = None
    if job is not None:
        began = slurm.read_starts(folder / slurm.LOGS / f"{part.number:04}.starts", job.id)
    node = task.node if task is not None and task.node else began.node if began is not None else ""
    counted = task.restarts + 1 if task is not None and task.restarts is not None else None
    return Seen(part, rate, left, task, node, counted if counted is not None else began.count if began else None)


def _cluster(one: Seen) -> str:
    return one.task.state if one.task is not None else ""


def _cells(one: Seen) -> dict[str, str]:
    part = one.part
    return {
        "part": f"{part.number:04}",
        "state": part.state,
        "done": f"{part.done}/{part.total}",
        "failed": str(part.failures or ""),
        "rate": "" if one.rate is None else f"{one.rate:.1f}/s",
        "left": "" if one.left is None else _time(one.left),
        "cluster": sanitize(_cluster(one))[:LONGEST],
        "node": sanitize(one.node)[:LONGEST],
        "starts": "" if one.begun is None else str(one.begun),
    }


def _time(seconds: float) -> str:
    """A span of time, such as 1:02:03."""
    return str(timedelta(seconds=round(min(seconds, 1e9))))
