"""How far each part of an evaluation is, as far as can be told without reading any answer.

It follows from the manifest of the part, from its record of progress, and from its lock (tomserve.runs.progress). What
other machines have written lately may not be seen here yet; a part that is opened to be asked knows for certain.

>>> states(Path("runs/mine.parts"))                                                               # doctest: +SKIP
[PartState(number=0, state='complete', done=24, total=24, failures=0, since=None)]
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from tomserve.runs import progress
from tomserve.runs.manifest import Manifest
from tomserve.runs.progress import Progress
from tomserve.shards.record import PartRecord, Shards, part_folder
from tomserve.status import ANSWERS

State = Literal["waiting", "running", "stopped", "failures", "complete"]
"""waiting: nobody has begun to ask the part. running: a process asks it. stopped: its last session ended before
everything was asked. failures: everything was asked, and some requests failed that may be sent again. complete: every
question has its final reply."""


@dataclass(frozen=True)
class PartState:
    """How far a part is.

    number: of the part, from 0. state: see State. done, total: how many of its requests have their final reply, of how
    many; for a conversation these are only known once it is asked. failures: how many requests of its last session
    ended in something else than an answer. seconds_since_progress: since its last sign of life, None where it never
    gave one.
    """

    number: int
    state: State
    done: int
    total: int
    failures: int
    seconds_since_progress: float | None


def states(folder: Path) -> list[PartState]:
    """How far each part in a folder is. Raises ConfigError where its record, or the manifest of a part, is broken."""
    return [state_of(folder, number, part) for number, part in enumerate(Shards.read(folder).parts)]


def state_of(folder: Path, number: int, part: PartRecord) -> PartState:
    """How far one part is. Raises ConfigError where its manifest is broken."""
    place = part_folder(folder, number)
    manifest, told = Manifest.read(place), progress.read_progress(place)
    running = told.running if told is not None else progress.is_locked(place)
    state = _state(manifest, told, part, running=running)
    failures = 0 if told is None else sum(n for status, n in told.statuses.items() if status not in ANSWERS)
    counted = told is not None and told.phase == 1 and told.total >= part.requests
    total = told.total if told is not None and counted else part.requests
    complete = manifest is not None and manifest.complete
    done = total if complete else told.done - failures if told is not None and counted else 0
    return PartState(number, state, max(done, 0), total, failures, None if told is None else _since(told.updated))


def _state(manifest: Manifest | None, told: Progress | None, part: PartRecord, *, running: bool) -> State:
    if running:
        return "running"
    if manifest is None:
        return "waiting"
    ended = told is not None and told.ended is not None and not told.outcome
    if manifest.complete and (ended or not part.again):  # whether its noise check is done, the manifest does not say
        return "complete"
    return "failures" if ended else "stopped"


def _since(moment: str) -> float | None:
    """Seconds since a time in ISO 8601; None where it is none."""
    try:
        then = datetime.fromisoformat(moment)
    except ValueError:
        return None
    return max(0.0, (datetime.now(UTC) - then.replace(tzinfo=then.tzinfo or UTC)).total_seconds())
