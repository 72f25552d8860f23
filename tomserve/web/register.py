"""The register: a line for each run below the folder of runs, found quickly also where there are hundreds.

The run folders are the truth. What was read from them is kept in ``runs/.web/register.db`` and read again where a file
has changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tomserve.content.places import run_name, runs_root
from tomserve.errors import ConfigError, NoSuchRunError
from tomserve.runs.manifest import Manifest
from tomserve.runs.progress import held
from tomserve.runs.runfolder import run_path, runs_below
from tomserve.web import cards
from tomserve.web.cards import Card
from tomserve.web.people import Person


@dataclass(frozen=True, slots=True)
class Line:
    """What a list says of a run.

    name: such as ``pilot/first``. folder: where it is. kind: ``answers`` or ``measured``, "" where it only waits in the
    queue. benchmark, model, strategies: what was asked; "" and () where unknown. made: when, in UTC. complete: whether
    all of it was asked. running: whether some process works on it now. rows: lines of its journal. size: bytes of its
    folder. broken: why it cannot be read, "" where it can. card: owner, notes, tags and the place in the queue.
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


class Register:
    """All runs below the folder of runs, as a person may see them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def lines(self, person: Person) -> list[Line]:
        """A line for each run that the person may see, the newest first."""
        found = [line for line in self._read() if person.may_see(line.card.owner, private=line.card.private)]
        return sorted(
            found,
            key=lambda line: (line.made or (line.card.job.submitted if line.card.job else ""), line.name),
            reverse=True,
        )

    def line(self, name: str, person: Person) -> Line:
        """The line of one run. Raises NoSuchRunError."""
        for line in self._read():
            if line.name == name and person.may_see(line.card.owner, private=line.card.private):
                return line
        raise NoSuchRunError(f"there is no run {name!r}")

    def folder_of(self, name: str, person: Person) -> Path:
        """The folder of a run that the person may see; never one outside the folder of runs. Raises NoSuchRunError."""
        return self.line(name, person).folder

    def rebuild(self) -> int:
        """Forget everything and read all run folders again; returns how many there are."""
        return len(list(self._read()))

    def _read(self) -> Iterator[Line]:
        for folder in runs_below(runs_root()):
            yield _line(folder)


def _line(folder: Path) -> Line:
    name = run_name(folder)
    try:
        manifest, card = Manifest.read(folder), cards.read(folder)
    except ConfigError as error:
        return Line(name, folder, broken=str(error))
    if manifest is None:
        return Line(name, folder, card=card)
    record = manifest.to_dict()
    return Line(
        name,
        folder,
        kind=str(record.get("kind") or "answers"),
        benchmark=str(record.get("benchmark") or ""),
        model=str(record.get("model") or ""),
        strategies=tuple(record.get("strategies") or ()),
        study=str(record.get("study") or ""),
        made=str(record.get("created") or ""),
        complete=bool(record.get("complete")),
        running=held(folder),
        card=card,
    )


def safe_path(name: str) -> Path:
    """The folder of a run by its name alone; never a path. Raises NoSuchRunError for what is no name."""
    if name.startswith(("/", ".", "~")):
        raise NoSuchRunError(f"there is no run {name!r}")
    try:
        return run_path(name)
    except ConfigError as error:
        raise NoSuchRunError(str(error)) from None
