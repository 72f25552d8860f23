"""The card of a run: what the workbench knows of it besides what it asked, kept in the run's folder.

``workbench.json`` says whose run it is, who may see it, notes and tags, and where it stands in the queue. An experiment
that waits in the queue has a folder that holds nothing but its card and ``experiment.yaml``.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import orjson
import pydantic

from tomserve.content import files
from tomserve.content.paths import runs_root
from tomserve.content.validation import validation_error
from tomserve.runs.runfolder import CARD

FILE = CARD
LONGEST_NOTE = 20_000
"""Characters that notes may have."""


class State(StrEnum):
    """Where an experiment stands."""

    QUEUED = "queued"
    PAUSED = "paused"
    WAITING = "waiting"
    """Its turn has come, and its server does not answer yet."""
    RUNNING = "running"
    STOPPING = "stopping"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = (State.DONE, State.FAILED, State.CANCELLED)


class Job(pydantic.BaseModel):
    """The place of an experiment in the queue.

    order: the smallest is run first. group: experiments of the same group run one after the other, as they share a
    server or the GPUs of this machine. turn: how often it was put into the queue; an older entry of the queue is void.
    said: why it waits or what it failed by, in one line. submitted, began, ended: times in UTC, ISO 8601. wanted: what
    becomes of it once it has stopped, None while nobody wants it to stop. deaths: how often in a row it ended by what
    nobody wanted, and got no further; rows: bytes of its journal when it last began. seal: proves that this workbench
    has queued the experiment (see tomserve.web.sealing).
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    state: State = State.QUEUED
    order: float = 0.0
    group: str = ""
    turn: int = 0
    said: str = ""
    submitted: str = ""
    began: str | None = None
    ended: str | None = None
    exit_code: int | None = None
    wanted: State | None = None
    deaths: int = 0
    rows: int = 0
    seal: str = ""

    @property
    def active(self) -> bool:
        """Whether it is still to be run, or runs."""
        return self.state not in ENDED

    @property
    def runs(self) -> bool:
        """Whether a process asks it, as far as the card knows."""
        return self.state in (State.RUNNING, State.STOPPING)


class Card(pydantic.BaseModel):
    """What ``workbench.json`` holds. owner: who started the run, "" for nobody in particular. job: None for a run that
    was never in the queue."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    schema_: Annotated[int, pydantic.Field(alias="schema")] = 1
    owner: Annotated[str, pydantic.Field(max_length=64)] = ""
    private: bool = False
    notes: Annotated[str, pydantic.Field(max_length=LONGEST_NOTE)] = ""
    tags: tuple[Annotated[str, pydantic.Field(min_length=1, max_length=40)], ...] = ()
    job: Job | None = None

    @property
    def runs(self) -> bool:
        """Whether a process asks the run for the queue, as far as the card knows."""
        return self.job is not None and self.job.runs


def read(folder: Path) -> Card:
    """The card of a run; an empty one where it has none. Raises ConfigError where the file is no card."""
    path = folder / FILE
    if not path.exists():
        return Card()
    found = files.read_json(path, "delete it to go on without")
    try:
        return Card.model_validate(found)
    except pydantic.ValidationError as error:
        raise validation_error(error, found, Card, path, "delete it to go on without") from None


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """Let nobody else change a card meanwhile, in this process or another one. Raises OSError."""
    place = runs_root() / ".web"
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(place / "cards.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def change(folder: Path, changed: Callable[[Card], Card]) -> Card:
    """Replace a card by what a function makes of it, while nobody else changes one; returns the new card.

    changed: given the card; the same object says that nothing is to be written, and what it raises leaves the card as
    it was. Raises ConfigError and OSError as `read` and `write` do.
    """
    with locked():
        before = read(folder)
        after = changed(before)
        if after is not before:
            write(folder, after)
        return after


def write(folder: Path, card: Card) -> None:
    """Replace the card of a run in one step. Raises OSError, and ConfigError where something else has its name."""
    folder.mkdir(parents=True, exist_ok=True)
    with files.replace_file(folder / FILE) as file:
        file.write(orjson.dumps(card.model_dump(mode="json", by_alias=True), option=orjson.OPT_INDENT_2) + b"\n")
