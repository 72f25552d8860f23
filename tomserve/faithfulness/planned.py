"""What a measurement is going to ask, written to a file before anything is asked: a later session asks the same.

Edits depend on how the server counts tokens and on what a rewriter said, so that they are made once and kept, a line
for each edit, hint and prediction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from tomserve.content import files
from tomserve.engine.request import Identity
from tomserve.errors import ConfigError, JournalError
from tomserve.faithfulness.table import EDIT, HINT, LEFT_OUT, PREDICTION

FILE, HOW = "planned.jsonl", "how.json"
"""The files of a run's folder of work: the plan, and how the server holds replies that are begun."""

_FIELDS = {"item": str, "strategy": str, "kind": str, "condition": str}
"""What every line has to have, with its type."""


@dataclass(frozen=True)
class Planned:
    """One question of a measurement, or an edit that could not be made.

    item, strategy: of the chain. kind, condition, shown, implied, reason: as in the table. edited: the chain as it is
    shown; for a prediction what the predicting model is shown of it. status: LEFT_OUT where it could not be made.
    """

    item: str
    strategy: str
    kind: str
    condition: str
    shown: str | None = None
    implied: str | None = None
    edited: str | None = None
    status: str | None = None
    reason: str | None = None

    @property
    def asked(self) -> bool:
        """Whether it is asked at all."""
        return self.status != LEFT_OUT

    @property
    def name(self) -> str:
        """What its questions are called in the journal, in the place of a strategy's name."""
        return ".".join(filter(None, (self.strategy, self.kind, self.condition, self.shown)))

    @property
    def identity(self) -> Identity:
        """The identity of its first request."""
        return Identity(self.item, self.name, 0)


def write(path: Path, planned: Iterable[Planned]) -> None:
    """Write the plan in one step. Raises JournalError where the file cannot be written."""
    lines = (
        orjson.dumps({name: value for name, value in asdict(one).items() if value is not None}) + b"\n"
        for one in planned
    )
    _write(path, lines)


def write_how(path: Path, held_by: str | None) -> None:
    """Keep how the server holds replies that are begun (see tomserve.faithfulness.reaching). Raises JournalError."""
    _write(path, [orjson.dumps({"held_by": held_by})])


def read_how(path: Path) -> str | None:
    """What `write_how` kept. Raises ConfigError where it cannot be read."""
    try:
        found = files.read_json(path, "use --run NEW to begin anew")["held_by"]
    except (OSError, KeyError, TypeError, IndexError):
        found = 0
    if found is not None and not isinstance(found, str):
        raise ConfigError(f"{path}: does not say how replies were held; use --run NEW to begin anew")
    return found


def _write(path: Path, lines: Iterable[bytes]) -> None:
    try:
        with files.replace_file(path) as file:
            file.writelines(lines)
    except OSError as error:
        raise JournalError(f"{path}: cannot be written ({error.strerror}); free space and resume") from None


def read(path: Path) -> list[Planned]:
    """The plan in a file. Raises ConfigError by file and line where it is none."""
    return list(_lines(path))


def _lines(path: Path) -> Iterator[Planned]:
    way_out = "use --run NEW to begin anew"
    try:
        with files.open_for_reading(path) as file:
            for number, line in enumerate(files.read_lines(file, path), 1):
                try:
                    row: Any = orjson.loads(line)
                    wrong = [name for name, kind in _FIELDS.items() if type(row.get(name)) is not kind]
                    wrong += [name for name, value in row.items() if not isinstance(value, str)]
                    wrong += ["kind"] if row.get("kind") not in (EDIT, HINT, PREDICTION) else []
                    if wrong:
                        raise ConfigError(f"{path}:{number}: field {wrong[0]!r} is not as planned; {way_out}")
                    yield Planned(**row)
                except (orjson.JSONDecodeError, AttributeError, TypeError):
                    raise ConfigError(f"{path}:{number}: not a planned question; {way_out}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); {way_out}") from None
