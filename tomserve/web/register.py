"""The register: a line for each run below the folder of runs, found quickly also where there are hundreds.

The run folders are the truth. What was read from them is kept in ``runs/.web/register.db`` and read again where a file
has changed. No link is followed, so that nothing outside of the folder of runs is ever shown.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pydantic

from tomserve.content.paths import absolute_runs_root
from tomserve.errors import ConfigError, NoSuchRunError
from tomserve.runs import journal as runs_journal
from tomserve.runs.manifest import Manifest
from tomserve.runs.progress import is_locked
from tomserve.runs.runfolder import JOURNAL
from tomserve.scoring.table import MEASURED
from tomserve.web import cards
from tomserve.web.cards import Card
from tomserve.web.memory import Counted, Memory, Stamp
from tomserve.web.people import Person
from tomserve.workflows import evaluate

MANIFEST = "manifest.json"
READ = (MANIFEST, cards.FILE, evaluate.EXPERIMENT_FILE)
"""The files of a run that a line is made of."""

LONGEST = 300
"""Characters of a text that a line holds at most."""

DEEPEST = 12
"""Folders within folders in which runs are looked for."""

SETTLED = 50_000_000
"""Nanoseconds after which a file that was changed twice cannot look as if it was changed once."""


@dataclass(frozen=True, slots=True)
class Line:
    """What a list says of a run.

    name: such as ``pilot/first``. folder: its one path from ``/``. kind: ``answers`` or ``measured``, "" where it only
    waits in the queue. benchmark, model, strategies: what was asked; "" and () where unknown. made: when, in UTC.
    complete: whether all of it was asked. running: whether some process works on it now. rows: lines of its journal; of
    a journal of gigabytes about so many, until they have been counted. size: bytes of the files in its folder. broken:
    why it cannot be read, "" where it can. card: owner, notes, tags and the place in the queue. of: the run that it
    measures, "" for none.
    """

    name: str
    folder: Path
    kind: str = ""
    benchmark: str = ""
    model: str = ""
    strategies: tuple[str, ...] = ()
    study: str = ""
    made: str = ""
    complete: bool = False
    running: bool = False
    rows: int = 0
    size: int = 0
    broken: str = ""
    card: Card = field(default_factory=Card)
    of: str = ""


class Register:
    """All runs below the folder of runs, as a person may see them. Any thread may use it, and several processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._memory = Memory(folder / "register.db")

    def lines(self, person: Person) -> list[Line]:
        """A line for each run that the person may see, the newest first."""
        return [line for line in self.every() if person.may_see(line.card.owner, private=line.card.private)]

    def every(self) -> list[Line]:
        """A line for each run, whoever may see it, the newest first."""
        with self._memory.batch():
            found = {line.name: line for line in map(self._line, _folders(absolute_runs_root()))}
            self._memory.forget(found)
        return sorted((_inherited(line, found.get(line.of)) for line in found.values()), key=_age, reverse=True)

    def line(self, name: str, person: Person) -> Line:
        """The line of one run. Raises NoSuchRunError."""
        with self._memory.batch():
            line = self._line(_Found(safe_path(name), name))
            if line.of:
                with contextlib.suppress(NoSuchRunError):
                    line = _inherited(line, self._line(_Found(safe_path(line.of), line.of)))
        if not person.may_see(line.card.owner, private=line.card.private):
            raise no_such_run(name)
        return line

    def folder_of(self, name: str, person: Person) -> Path:
        """The folder of a run that the person may see; never one outside the folder of runs. Raises NoSuchRunError."""
        return self.line(name, person).folder

    def rebuild(self) -> int:
        """Forget everything and read all run folders again; returns how many there are."""
        self._memory.clear()
        return len(self.every())

    def _line(self, found: _Found) -> Line:
        """The line of a run: what is remembered where its files are the same as then."""
        files = found.files()
        stamp = Stamp(tuple((name, *files[name]) for name in READ if name in files))
        known = self._memory.recall(found.name, stamp)
        if known is None:
            known = _facts(found.folder)
            newest = max((part[-1] for part in stamp.parts), default=0)
            if time.time_ns() - newest > SETTLED:
                self._memory.keep(found.name, stamp, known)
        try:
            return self._made(found, files, known)
        except (TypeError, KeyError, pydantic.ValidationError):  # what is remembered was written by something else
            return self._made(found, files, _facts(found.folder))

    def _made(self, found: _Found, files: dict[str, tuple[int, int, int, int]], known: dict[str, Any]) -> Line:
        """A line from what its files tell, and how they look now."""
        journal = files.get(JOURNAL)
        counted = Counted() if journal is None else self._memory.count(found.name, found.folder / JOURNAL, journal)
        return Line(
            name=found.name,
            folder=found.folder,
            running=".lock" in files and is_locked(found.folder),
            rows=counted.about(journal[1]) if journal else runs_journal.count_packed_lines(found.folder),
            size=sum(file[1] for file in files.values()),
            card=Card.model_validate(known["card"]),
            **{**known["line"], "strategies": tuple(known["line"]["strategies"])},
        )


@dataclass(frozen=True, slots=True)
class _Found:
    """The folder of a run, and its name."""

    folder: Path
    name: str

    def files(self) -> dict[str, tuple[int, int, int, int]]:
        """Its files by their names: inode, size, and the times of the last change of content and of the file."""
        found = {}
        try:
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    status = entry.stat(follow_symlinks=False)
                    found[entry.name] = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        except OSError:
            pass
        return found


def _folders(root: Path, above: str = "", depth: int = 0) -> Iterator[_Found]:
    """The folders of all runs, and of experiments that only wait. Links, hidden folders, and names that cannot be shown
    are passed over."""
    try:
        with os.scandir(root) as entries:
            inside = [one for one in entries if one.is_dir(follow_symlinks=False) and _is_part(one.name)]
    except OSError:
        return
    for entry in inside:
        folder, name = root / entry.name, f"{above}{entry.name}"
        if is_run(folder):
            yield _Found(folder, name)
        elif depth < DEEPEST:
            yield from _folders(folder, f"{name}/", depth + 1)


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a run, or of an experiment that waits."""
    return os.path.lexists(folder / MANIFEST) or os.path.lexists(folder / cards.FILE)


def _is_part(part: str) -> bool:
    """Whether a part of a run's name is one that can be shown and is no way out of the folder."""
    return bool(part) and not part.startswith((".", "~")) and part.isprintable() and "\\" not in part


def safe_path(name: str) -> Path:
    """The folder of a run by its name alone, which is no path and leads through no link: its one path from ``/``.

    Whoever reads the run afterwards is given this path and not the name, which other readers may take for another
    run's. Raises NoSuchRunError.
    """
    parts, folder = name.split("/"), absolute_runs_root()
    if len(name) > 1000 or len(parts) > DEEPEST + 1 or not all(map(_is_part, parts)):
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


def _facts(folder: Path) -> dict[str, Any]:
    """What a line says that the files of READ tell, as JSON can hold it."""
    card = Card()
    line: dict[str, Any] = {"strategies": ()}
    try:
        card = cards.read(folder)
        if (folder / MANIFEST).exists():
            line = _of_manifest(Manifest.read(folder))
        elif (folder / evaluate.EXPERIMENT_FILE).exists():
            line = _of_experiment(evaluate.read_experiment(folder / evaluate.EXPERIMENT_FILE))
    except (ConfigError, OSError) as error:
        line = {"strategies": (), "broken": str(error).replace(f"{folder}/", "")[:LONGEST]}
    return {"card": card.model_dump(mode="json", by_alias=True), "line": line}


def _of_manifest(manifest: Manifest | None) -> dict[str, Any]:
    record = manifest.to_dict() if manifest is not None else {}
    kind = str(record.get("kind") or "answers")
    settings = record.get("settings") if kind == MEASURED else None
    of = settings.get("of") if isinstance(settings, dict) else None
    return {
        **{name: str(record.get(name) or "")[:LONGEST] for name in ("benchmark", "model", "study")},
        "kind": kind,
        "strategies": [str(one)[:LONGEST] for one in list(record.get("strategies") or ())[:100]],
        "made": str(record.get("created") or "")[:LONGEST],
        "complete": bool(record.get("complete")),
        "of": of[:LONGEST] if isinstance(of, str) else "",
    }


def _of_experiment(experiment: evaluate.Experiment) -> dict[str, Any]:
    return {
        "benchmark": (experiment.benchmark or "")[:LONGEST],
        "model": (experiment.model or "")[:LONGEST],
        "strategies": [one[:LONGEST] for one in experiment.strategy[:100]],
    }


def _inherited(line: Line, of: Line | None) -> Line:
    """The line of a measurement, which belongs to whom the run belongs that it measures, whatever its own card says,
    and is private where that is."""
    if of is None or of.name == line.name:
        return line
    owned = {"owner": of.card.owner or line.card.owner, "private": of.card.private or line.card.private}
    return replace(line, card=line.card.model_copy(update=owned))


def _age(line: Line) -> tuple[str, str]:
    return line.made or (line.card.job.submitted if line.card.job else ""), line.name
