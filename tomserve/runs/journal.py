"""The journal ``responses.jsonl``: append-only, one unbuffered write a row, readable after any crash.

A row that was written is never lost by kill -9 (it is in the kernel's cache) and, by an fsync at least once a second,
by a power cut older than that. Rows are never changed: of two rows of one identity the later wins.

    >>> with Journal(folder / "responses.jsonl") as journal:           # doctest: +SKIP
    ...     journal.append({"item": "a", "strategy": "cot", "turn": 0, "key": "k", "status": "ok"})
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from tomserve.content import files
from tomserve.engine.request import Identity
from tomserve.engine.transport import LONGEST_NAME
from tomserve.errors import ConfigError, JournalError
from tomserve.runs.index import Index, Seen, short
from tomserve.status import ANSWERS, FINAL, SPOKEN

Row = dict[str, Any]
MODELS = 64
"""Different names of models that are kept of a file; nobody reads more."""
_NEEDED = ("item", "strategy", "turn", "key", "status")


def read_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """(byte offset, row) of every complete line. A torn last line is left out.

    Raises ConfigError naming the line for anything that is not a row: somebody edited the file; and where `path` is a
    link, a pipe or the like.
    """
    offset = 0
    try:
        with files.reading(path) as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    return
                yield offset, _parse(path, number, line)
                offset += len(line)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None


def _parse(path: Path, number: int, line: bytes) -> Row:
    way_out = "repair or delete that line, or start over with --run NEW"
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"{path}:{number}: not JSON ({error.msg}); {way_out}") from None
    missing = [name for name in _NEEDED if name not in row] if isinstance(row, dict) else ["all of them"]
    if missing:
        raise ConfigError(f"{path}:{number}: not a response row (field {missing[0]!r} is missing); {way_out}")
    kinds = {"item": str, "strategy": str, "turn": int, "key": str, "status": str}
    wrong = [name for name, kind in kinds.items() if type(row[name]) is not kind]
    if wrong or not row["status"]:
        name = wrong[0] if wrong else "status"
        raise ConfigError(f"{path}:{number}: not a response row (field {name!r} is {row[name]!r:.40}); {way_out}")
    return dict(row)


def identity_of(row: Row) -> Identity:
    """The identity a row answers."""
    return Identity(row["item"], row["strategy"], row["turn"])


class Journal:
    """Open for appending. `final`: identities never to be asked again, in few bytes each; `asked`: strategies that
    have any row; `failed`: status of the identities whose last row is no answer; `models`: which models the answers
    that were there on opening say they come from (field `served_model`), as far as they say, and at most MODELS.

    marks: fields that every row is to carry. Rows of the file that carry others belong to another journal in the same
    file, and are neither counted nor reused here.
    """

    def __init__(self, path: Path, marks: Mapping[str, Any] | None = None) -> None:
        self.path = path
        self._marks = dict(marks or {})
        self.final = Seen()
        self.asked: set[str] = set()
        self.failed: dict[Identity, str] = {}
        self.models: set[str] = set()
        self.torn: Path | None = None
        self._offsets = Index(32, 64)
        self._size = 0
        for offset, row in read_rows(path):
            if all(row.get(name) == value for name, value in self._marks.items()):
                self._index(row, offset)
                self._note_model(row)
        self._move_torn_line()
        try:
            self._file = files.opened(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        except OSError as error:
            raise ConfigError(
                f"{path}: cannot be written ({error.strerror}); choose another place by TOMSERVE_RUNS"
            ) from None
        self._size = os.fstat(self._file).st_size
        self._synced = self._size

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _index(self, row: Row, offset: int) -> None:
        identity, status = identity_of(row), row["status"]
        self.asked.add(identity.strategy)
        if status not in ANSWERS:
            self.failed[identity] = status
        elif self.failed:
            self.failed.pop(identity, None)
        if status in FINAL:
            self.final.add(identity)
            if not row.get("reused"):  # the row that it repeats is already there
                self._offsets.add(short(row["key"]), offset)

    def _note_model(self, row: Row) -> None:
        name = row.get("served_model")
        if type(name) is str and name and row["status"] in SPOKEN and len(self.models) < MODELS:
            self.models.add(name[:LONGEST_NAME])

    def _move_torn_line(self) -> None:
        """A crash can leave half a line at the end; keep it beside, so that the next append starts a line."""
        try:
            with os.fdopen(files.opened(self.path, os.O_RDWR), "r+b") as file:
                data_end = file.seek(0, os.SEEK_END)
                start = data_end
                while start > 0:
                    step = min(65536, start)
                    file.seek(start - step)
                    at = file.read(step).rfind(b"\n")
                    if at >= 0:
                        start = start - step + at + 1
                        break
                    start -= step
                if start == data_end:
                    return
                file.seek(start)
                torn = file.read()
                with files.created(self.path.with_name(f"{self.path.stem}.torn-{int(time.time())}.txt")) as kept:
                    kept.write(torn)
                self.torn = Path(kept.name)
                file.truncate(start)
                os.fsync(file.fileno())
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be written ({error.strerror})") from None

    def find(self, key: str) -> Row | None:
        """The first final row of that key, read back from the file."""
        found = (self._read(offset) for offset in sorted(self._offsets.get(short(key))))
        return next((row for row in found if row["key"] == key), None)

    def _read(self, offset: int) -> Row:
        line = b""
        while not line.endswith(b"\n"):
            piece = os.pread(self._file, 65536, offset + len(line))
            end = piece.find(b"\n")
            line += piece if end < 0 else piece[: end + 1]
        return dict(orjson.loads(line))

    def append(self, row: Row) -> None:
        """Write one row in one call. Raises JournalError (disk full, folder gone); no half line stays behind."""
        line = orjson.dumps({"schema": 1, **row, **self._marks}, option=orjson.OPT_APPEND_NEWLINE)
        try:
            if os.write(self._file, line) != len(line):
                raise OSError("short write: is the disk full?")
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size)
            reason = error.strerror or str(error)
            raise JournalError(f"{self.path}: cannot be written any more ({reason}); free space and resume") from None
        self._index(row, self._size)
        self._size += len(line)

    def sync(self) -> None:
        """Force what was written to the disk; cheap where nothing is new."""
        if self._synced != self._size:
            size = self._size
            try:
                os.fsync(self._file)
            except OSError as error:
                raise JournalError(f"{self.path}: cannot be written any more ({error.strerror})") from None
            self._synced = size

    def close(self) -> None:
        """Sync and close; safe to call twice."""
        if self._file >= 0:
            try:
                self.sync()
            finally:
                os.close(self._file)
                self._file = -1
