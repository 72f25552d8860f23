"""The index of all runs, with the card of each: its owner, notes, tags, and place in the queue.

A card is the file ``workbench.json`` of a run's folder. No link is followed, so that nothing outside of the folder of
runs is ever shown.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import orjson
import pydantic

from tomserve.content import files
from tomserve.content.paths import absolute_runs_root, runs_root
from tomserve.content.validation import Strict, read_record
from tomserve.errors import ConfigError, ConflictError, NoSuchRunError, NotAllowedError
from tomserve.runs.journal import count_packed_lines
from tomserve.runs.manifest import Manifest
from tomserve.runs.progress import Count, is_locked
from tomserve.runs.runfolder import CARD, JOURNAL
from tomserve.web.accounts import Person
from tomserve.workflows import evaluate

AT_ONCE = 1 << 25
"""Bytes of journals that are counted at a time: a page never waits for the rows of a journal of gigabytes."""

PIECE = 1 << 20

CARD_FILE = CARD
LONGEST_NOTE = 20_000  # characters that notes may have
MOST_TAGS = 50  # tags that a run may have: the list of runs offers those of all runs to choose from


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


Words = Annotated[str, pydantic.Field(max_length=1 << 17)]  # twice as many as the file of an experiment may have


class Job(Strict):
    """The place of an experiment in the queue. Experiments of one group run one after the other, as they share a server
    or the GPUs of this machine. Times are in UTC, ISO 8601."""

    state: State = State.QUEUED
    order: Annotated[float, pydantic.Field(ge=-1e300, le=1e300)] = 0.0  # the smallest is run first
    group: Words = ""
    turn: Count = 0  # how often it was put into the queue; an older entry of the queue is void
    said: Words = ""  # why it waits or what it failed by, in one line
    submitted: Words = ""
    began: Words | None = None
    ended: Words | None = None
    exit_code: int | None = None
    wanted: State | None = None  # what becomes of it once it has stopped, None while nobody wants it to stop
    deaths: Count = 0  # how often in a row it ended by what nobody wanted, and got no further
    rows: Count = 0  # bytes of its journal when it last began
    seal: str = ""  # proves that this workbench has queued the experiment (see tomserve.web.queue)

    @property
    def active(self) -> bool:
        """Whether it is still to be run, or runs."""
        return self.state not in ENDED

    @property
    def waits(self) -> bool:
        """Whether it waits for its turn or its server."""
        return self.state in (State.QUEUED, State.WAITING)

    @property
    def runs(self) -> bool:
        """Whether a process asks it, as far as the card knows."""
        return self.state in (State.RUNNING, State.STOPPING)

    def to(self, state: State, said: str = "", **changes: object) -> Job:
        """The job in another state."""
        return self.model_copy(update={"state": state, "said": said, **changes})


class Card(Strict):
    """What ``workbench.json`` holds."""

    schema_: Annotated[int, pydantic.Field(alias="schema")] = 1
    owner: Annotated[str, pydantic.Field(max_length=64)] = ""  # who started the run, "" for nobody in particular
    private: bool = False
    notes: Annotated[str, pydantic.Field(max_length=LONGEST_NOTE)] = ""
    tags: Annotated[
        tuple[Annotated[str, pydantic.Field(min_length=1, max_length=40)], ...], pydantic.Field(max_length=MOST_TAGS)
    ] = ()
    job: Job | None = None  # None for a run that was never in the queue

    @property
    def runs(self) -> bool:
        """Whether a process asks the run for the queue, as far as the card knows."""
        return self.job is not None and self.job.runs


def read_card(folder: Path) -> Card:
    """The card of a run; an empty one where it has none. Raises ConfigError where the file is no card."""
    return read_record(folder / CARD_FILE, Card, "delete it to go on without") or Card()


def change_card(folder: Path, change: Callable[[Card], Card]) -> Card:
    """Replace a card by what a function makes of it, while nobody else changes one; returns the new card.

    change: given the card; the same object says that nothing is to be written, and what it raises leaves the card as
    it was. Raises ConfigError and OSError as `read_card` and `write_card` do.
    """
    with files.lock_file(runs_root() / ".web" / "cards.lock"):
        before = read_card(folder)
        after = change(before)
        if after is not before:
            write_card(folder, after)
        return after


def write_card(folder: Path, card: Card) -> None:
    """Replace the card of a run in one step. Raises OSError, and ConfigError where something else has its name."""
    folder.mkdir(parents=True, exist_ok=True)
    text = orjson.dumps(card.model_dump(mode="json", by_alias=True), option=orjson.OPT_INDENT_2) + b"\n"
    files.replace_bytes(folder / CARD_FILE, text)


MANIFEST = "manifest.json"
READ_FILES = (MANIFEST, CARD_FILE, evaluate.EXPERIMENT_FILE)  # the files of a run that a line is made of
LONGEST = 300  # characters of a text that a line holds at most
LONGEST_NAME = 1000  # characters of the name of a run
DEEPEST = 12  # folders within folders in which runs are looked for
SETTLED = 50_000_000  # nanoseconds after which a file that was changed twice cannot look as if it was changed once


@dataclass(frozen=True, slots=True)
class RunEntry:
    """What a list says of a run.

    What is unknown is "" or ().
    """

    name: str  # such as ``pilot/first``
    folder: Path  # its one path from ``/``
    kind: str = ""  # ``answers`` or ``measured``, "" where it only waits in the queue
    benchmark: str = ""
    model: str = ""
    strategies: tuple[str, ...] = ()
    study: str = ""
    made: str = ""  # when, in UTC
    complete: bool = False  # whether all of it was asked
    running: bool = False  # whether some process works on it now
    rows: int = 0  # lines of its journal; of a journal of gigabytes about so many, until they have been counted
    size: int = 0  # bytes of the files in its folder
    broken: str = ""  # why it cannot be read, "" where it can
    card: Card = field(default_factory=Card)  # owner, notes, tags and the place in the queue
    of: str = ""  # the run that it measures, "" for none

    @property
    def begun(self) -> str:
        """When it was begun, or submitted where it only waits; in UTC."""
        return self.made or (self.card.job.submitted if self.card.job else "")


@dataclass(slots=True)
class _Known:
    stamp: tuple[Any, ...] = ()  # how the files looked that its line is made of
    line: RunEntry | None = None  # what they say
    inode: int = 0  # of the journal, whose lines are counted as far as `bytes`
    bytes: int = 0
    lines: int = 0


class RunIndex:
    """All runs below the folder of runs, as a person may see them. Any thread may use it; what was read is kept in
    memory until its files change."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._lock = threading.RLock()
        self._left = AT_ONCE

    def lines(self, person: Person) -> list[RunEntry]:
        """A line for each run that the person may see, the newest first."""
        return [line for line in self.every() if person.may_see(line.card.owner, private=line.card.private)]

    def every(self) -> list[RunEntry]:
        """A line for each run, whoever may see it, the newest first."""
        with self._lock:
            self._left = AT_ONCE
            found = {name: self._line(name, folder) for name, folder in _folders(absolute_runs_root())}
            self._known = {name: known for name, known in self._known.items() if name in found}
        lines = (_inherit_owner(line, found.get(line.of)) for line in found.values())
        return sorted(lines, key=lambda line: (line.begun, line.name), reverse=True)

    def line(self, name: str, person: Person) -> RunEntry:
        """The line of one run. Raises NoSuchRunError."""
        with self._lock:
            self._left = AT_ONCE
            line = self._line(name, safe_path(name))
            if line.of:
                of = None
                with contextlib.suppress(NoSuchRunError):
                    of = self._line(line.of, safe_path(line.of))
                line = _inherit_owner(line, of)
        if not person.may_see(line.card.owner, private=line.card.private):
            raise no_such_run(name)
        return line

    def _line(self, name: str, folder: Path) -> RunEntry:
        looks = _files(folder)
        stamp = tuple((one, *looks[one]) for one in READ_FILES if one in looks)
        known = self._known.setdefault(name, _Known())
        if known.line is None or known.stamp != stamp:
            known.line = _read_entry(name, folder)
            newest = max((part[-1] for part in stamp), default=0)
            known.stamp = stamp if time.time_ns() - newest > SETTLED else ()
        journal = looks.get(JOURNAL)
        return replace(
            known.line,
            running=".lock" in looks and is_locked(folder),
            rows=count_packed_lines(folder) if journal is None else self._count(known, folder, journal),
            size=sum(file[1] for file in looks.values()),
        )

    def _count(self, known: _Known, folder: Path, journal: Look) -> int:
        """How many lines a journal has, by those that were counted; of what is new, a part is counted at a time."""
        inode, size = journal[:2]
        if known.inode != inode or known.bytes > size:
            known.inode, known.bytes, known.lines = inode, 0, 0
        if known.bytes < size and self._left > 0:
            with contextlib.suppress(OSError, ConfigError), files.open_for_reading(folder / JOURNAL) as file:
                file.seek(known.bytes)
                while self._left > 0 and (piece := file.read(PIECE)):
                    known.bytes += len(piece)
                    known.lines += piece.count(b"\n")
                    self._left -= len(piece)
        return known.lines if known.bytes >= size or not known.bytes else known.lines * size // known.bytes


Look = tuple[int, int, int, int]  # inode, size, and the times of the last change of content and of the file


def _files(folder: Path) -> dict[str, Look]:
    """How the files of a folder look, by their names."""
    found = {}
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            found[entry.name] = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return found


def _folders(root: Path, above: str = "", depth: int = 0) -> Iterator[tuple[str, Path]]:
    """The names and folders of all runs, and of experiments that only wait. Links, hidden folders, and names that
    cannot be shown are passed over."""
    try:
        with os.scandir(root) as entries:
            inside = [one for one in entries if one.is_dir(follow_symlinks=False) and _is_part(one.name)]
    except OSError:
        return
    for entry in inside:
        folder, name = root / entry.name, f"{above}{entry.name}"
        if is_run(folder):
            yield name, folder
        elif depth < DEEPEST:
            yield from _folders(folder, f"{name}/", depth + 1)


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a run, or of an experiment that waits."""
    return os.path.lexists(folder / MANIFEST) or os.path.lexists(folder / CARD_FILE)


def _is_part(part: str) -> bool:
    """Whether a part of a run's name is one that can be shown and is no way out of the folder."""
    return bool(part) and not part.startswith((".", "~")) and part.isprintable() and "\\" not in part


def safe_path(name: str) -> Path:
    """The folder of a run by its name alone, which is no path and leads through no link: its one path from ``/``.

    Whoever reads the run afterwards is given this path and not the name, which other readers may take for another
    run's. Raises NoSuchRunError.
    """
    parts, folder = name.split("/"), absolute_runs_root()
    if len(name) > LONGEST_NAME or len(parts) > DEEPEST + 1 or not all(map(_is_part, parts)):
        raise no_such_run(name)
    for place, part in enumerate(parts, 1):
        folder /= part
        try:
            if folder.is_symlink() or not folder.is_dir() or (place < len(parts) and is_run(folder)):
                raise no_such_run(name)
        except OSError:  # a name that is too long for the system
            raise no_such_run(name) from None
    if not is_run(folder):
        raise no_such_run(name)
    return folder


def no_such_run(name: str) -> NoSuchRunError:
    """The error for a run that is not there, or that a person may not see: the same for both."""
    return NoSuchRunError(f"there is no run {name[:LONGEST]!r}")


def _read_entry(name: str, folder: Path) -> RunEntry:
    card = Card(private=True)  # of a card that cannot be read nobody knows who may see the run
    line: dict[str, Any] = {}
    try:
        card = read_card(folder)
        if (manifest := Manifest.read(folder)) is not None:
            line = _of_manifest(manifest)
        elif (folder / evaluate.EXPERIMENT_FILE).exists():
            line = _of_experiment(evaluate.read_experiment(folder / evaluate.EXPERIMENT_FILE))
    except (ConfigError, OSError) as error:
        line = {"broken": str(error).replace(f"{folder}/", "")[:LONGEST]}
    except Exception as error:  # whatever is in a file of strangers, the list of all runs is shown
        line = {"broken": f"cannot be read ({type(error).__name__})"}
    return RunEntry(name=name, folder=folder, card=card, **line)


def _of_manifest(manifest: Manifest) -> dict[str, Any]:
    of = manifest.settings.get("of") if manifest.measured else None
    return {
        **{name: (getattr(manifest, name) or "")[:LONGEST] for name in ("benchmark", "model", "study")},
        "made": (manifest.created or "")[:LONGEST],
        "kind": manifest.kind,
        "strategies": tuple(one[:LONGEST] for one in list(manifest.strategies)[:100]),
        "complete": manifest.complete,
        "of": of[:LONGEST_NAME] if isinstance(of, str) else "",
    }


def _of_experiment(experiment: evaluate.Experiment) -> dict[str, Any]:
    return {
        "benchmark": (experiment.benchmark or "")[:LONGEST],
        "model": (experiment.model or "")[:LONGEST],
        "strategies": tuple(one[:LONGEST] for one in experiment.strategy[:100]),
    }


def _inherit_owner(line: RunEntry, of: RunEntry | None) -> RunEntry:
    """The line of a measurement, which belongs to whom the run belongs that it measures, whatever its own card says,
    and is private where that is. Where that run is not found, as it was renamed, nobody knows who may see its replies:
    then a card of its own counts, and one without is private. A run of that name that was begun later is another one,
    which somebody else may have called so since."""
    if not line.of or (of is not None and of.name == line.name):
        return line
    if of is None or of.begun > line.begun:
        hidden = line.card.private or not os.path.lexists(line.folder / CARD_FILE)
        return replace(line, card=line.card.model_copy(update={"private": hidden}))
    owned = {"owner": of.card.owner or line.card.owner, "private": of.card.private or line.card.private}
    return replace(line, card=line.card.model_copy(update=owned))


NOBODYS = "the run {!r} belongs to every runner, so that nobody can keep it to themselves"


def change_metadata(
    line: RunEntry,
    person: Person,
    *,
    notes: str | None = None,
    tags: Sequence[str] | None = None,
    private: bool | None = None,
) -> RunEntry:
    """Change the card of a run, and return its line as it is then; what is None stays. A card that is new says what
    was so without one: whose the run is, and whether it is private, as that of a measured run may be.

    Raises NotAllowedError where it is somebody else's, ConflictError where nobody could be kept from seeing it,
    ConfigError where the card is broken, and OSError where it cannot be written.
    """
    if not person.may_change(line.card.owner):
        raise NotAllowedError(f"the run {line.name!r} belongs to {line.card.owner or 'somebody else'}")
    if private and not person.name:
        raise ConflictError("nobody signs in here, so that a run cannot be private; start the workbench with --auth")
    if private and not line.card.owner:
        raise ConflictError(NOBODYS.format(line.name))
    wanted = {"notes": notes, "tags": None if tags is None else tuple(dict.fromkeys(tags)), "private": private}
    changes: dict[str, Any] = {name: value for name, value in wanted.items() if value is not None}

    def change(card: Card) -> Card:
        known = {}
        if not os.path.lexists(line.folder / CARD_FILE):
            known = {"owner": line.card.owner, "private": line.card.private}
        elif not person.may_change(card.owner):  # it was another's when the line was read
            raise NotAllowedError(f"the run {line.name!r} belongs to {card.owner}")
        return card.model_copy(update={**known, **changes}) if changes else card

    return replace(line, card=change_card(line.folder, change))
