"""The journal ``responses.jsonl``: every reply of a run as one line of JSON, readable after any crash.

Rows are only appended, each by one unbuffered write, and never changed: where an identity has several rows, the last
one counts. A row is not lost if the process is killed, because the kernel has it. It is not lost by a power cut either,
once an fsync has put it on the disk, which happens at least once a second.

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
from tomserve.content.compact_index import Index, text_checksum
from tomserve.engine.records import CLOSES, CLOSING
from tomserve.engine.request import Identity
from tomserve.engine.transport import LONGEST_NAME
from tomserve.errors import ConfigError, JournalError
from tomserve.runs.index import Seen
from tomserve.status import ANSWERS, FINAL, SPOKEN

Row = dict[str, Any]
"""One row, with the fields of the data contract Response."""

MODELS = 64
"""How many different names of models are kept of a file at most."""

_KINDS = {"item": str, "strategy": str, "turn": int, "key": str, "status": str}
"""Fields that every row must have, with the types of their values."""

_FURTHER: dict[str, type] = {**CLOSING, "sample": int}
"""Fields that some rows have, with the types of their values."""

_RARE = frozenset(_FURTHER)


def read_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Read the rows of a journal, each with the byte offset of its line. An incomplete last line is left out.

    Raises ConfigError that names the line where it is no row, as somebody may have edited the file, and where `path` is
    a link, a pipe or the like.
    """
    offset = 0
    try:
        with files.open_for_reading(path) as file:
            for number, line in enumerate(files.read_lines(file, path), 1):
                if not line.endswith(b"\n"):
                    return
                yield offset, parse_row(path, number, line)
                offset += len(line)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None


def parse_row(path: Path, number: int, line: bytes) -> Row:
    """The row on one line of a journal. Raises ConfigError that names the line and the field where it is no row."""
    way_out = "repair or delete that line, or start over with --run NEW"
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"{path}:{number}: not JSON ({error.msg}); {way_out}") from None
    if _is_plain(row):
        return row  # type: ignore[no-any-return]  # it has just been looked at
    missing = [name for name in _KINDS if name not in row] if isinstance(row, dict) else ["all of them"]
    if missing:
        raise ConfigError(f"{path}:{number}: not a response row (field {missing[0]!r} is missing); {way_out}")
    wrong = [name for name, kind in _KINDS.items() if type(row[name]) is not kind]
    wrong += [name for name, kind in _FURTHER.items() if row.get(name) is not None and type(row[name]) is not kind]
    if wrong or not row["status"]:
        name = wrong[0] if wrong else "status"
        raise ConfigError(f"{path}:{number}: not a response row (field {name!r} is {row[name]!r:.40}); {way_out}")
    return dict(row)


def _is_plain(row: Any) -> bool:
    """Whether what a line holds is a row as most are: with the fields of every row, and none that is to be looked at
    more closely. It says nothing else than the checks that follow it, but sooner: a resumed run reads all its rows.
    """
    return (
        type(row) is dict
        and type(row.get("item")) is type(row.get("strategy")) is type(row.get("key")) is str
        and type(status := row.get("status")) is str
        and status != ""
        and type(row.get("turn")) is int
        and _RARE.isdisjoint(row)
    )


def identity_of(row: Row) -> Identity:
    """The identity that a row answers."""
    return Identity(row["item"], row["strategy"], row["turn"], row.get("sample") or 0)


class Journal:
    """A journal that is open for appending.

    path: the file; it is made where it does not exist.
    marks: fields that every row of this journal carries. Rows of the file with other values belong to another journal
    in the same file, and are neither counted nor reused here.
    final: the identities that are never asked again.
    closed: the conversations of several turns that have ended, each by the identity of its first turn.
    further: the conversations that have a final row of a later turn than their first and are not closed, each by its
    item, strategy and sample.
    asked: the strategies that have at least one row.
    failed: the status of each identity whose last row is no answer.
    models: the models that earlier answers name (field `served_model`), at most MODELS of them.
    torn: the file to which an incomplete last line was moved; None where there was none.

    Raises ConfigError as `read_rows` does, and where the file cannot be written.
    """

    def __init__(self, path: Path, marks: Mapping[str, Any] | None = None) -> None:
        self.path = path
        self._marks = dict(marks or {})
        self.final, self.closed = Seen(), Seen()
        self.further: set[tuple[str, str, int]] = set()
        self.asked: set[str] = set()
        self.failed: dict[Identity, str] = {}
        self.models: set[str] = set()
        self.torn: Path | None = None
        self._offsets = Index(32, 64)
        self._size = 0
        own = self._marks.items()
        for offset, row in read_rows(path):
            if not own or all(row.get(name) == value for name, value in own):
                self._index(row, offset)
                self._note_model(row)
        self._move_torn_line()
        try:
            there = path.exists()
            self._file = files.open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            if not there:
                files.sync_folder(path.parent)
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
        """Take note of a row that stands at that byte offset of the file."""
        identity, status = identity_of(row), row["status"]
        self.asked.add(identity.strategy)
        if status not in ANSWERS:
            self.failed[identity] = status
        elif self.failed:
            self.failed.pop(identity, None)
        if status in FINAL:
            self.final.add(identity)
            if row.get(CLOSES) is not None:
                self.closed.add(identity._replace(turn=0))
                self.further.discard(identity.question)
            elif identity.turn and identity._replace(turn=0) not in self.closed:
                self.further.add(identity.question)
            if not row.get("reused"):  # a reused row repeats one that has an offset already
                self._offsets.add(text_checksum(row["key"]), offset)

    def _note_model(self, row: Row) -> None:
        name = row.get("served_model")
        if type(name) is str and name and row["status"] in SPOKEN and len(self.models) < MODELS:
            self.models.add(name[:LONGEST_NAME])

    def _move_torn_line(self) -> None:
        """Move half a line that a crash left at the end to a file of its own, so that the next row begins a line."""
        try:
            with os.fdopen(files.open_regular(self.path, os.O_RDWR), "r+b") as file:
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
                with files.create_file(self.path.with_name(f"{self.path.stem}.torn-{int(time.time())}.txt")) as kept:
                    kept.write(torn)
                self.torn = Path(kept.name)
                file.truncate(start)
                os.fsync(file.fileno())
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be written ({error.strerror})") from None

    @property
    def size(self) -> int:
        """How many bytes the file has: it grows with every row."""
        return self._size

    def find(self, key: str) -> Row | None:
        """The first final row of a request with that key, read from the file; None where there is none."""
        if not (offsets := self._offsets.get(text_checksum(key))):
            return None
        rows = (self._read(offset) for offset in sorted(offsets))
        return next((row for row in rows if row["key"] == key), None)

    def _read(self, offset: int) -> Row:
        """The row at that byte offset. Raises JournalError where there is none any more."""
        line = b""
        try:
            while not line.endswith(b"\n"):
                if not (piece := os.pread(self._file, 65536, offset + len(line))):
                    raise self._changed("is shorter than it was")
                end = piece.find(b"\n")
                line += piece if end < 0 else piece[: end + 1]
            row = orjson.loads(line)
        except OSError as error:
            raise JournalError(f"{self.path}: cannot be read any more ({error.strerror})") from None
        except orjson.JSONDecodeError:
            raise self._changed("holds other rows than before") from None
        if not isinstance(row, dict) or not isinstance(row.get("key"), str):
            raise self._changed("holds other rows than before")
        return row

    def _changed(self, what: str) -> JournalError:
        return JournalError(
            f"{self.path}: {what}, as somebody else has changed it while the run went on; see what is left in it, put "
            "back what is missing if you can, and repeat the command"
        )

    def _check_place(self) -> None:
        """Raise JournalError unless the file is still the one at its path, and not shorter than what was written.

        Rows that are written to a file which was removed, or replaced by another one, are lost for everybody else.
        """
        size, about = self._size, os.fstat(self._file)  # in this order, as another thread may be writing
        try:
            there = os.lstat(self.path)
        except OSError as error:
            raise self._changed(f"is not there any more ({error.strerror})") from None
        if not os.path.samestat(about, there):
            raise self._changed("is another file than before")
        if about.st_size < size:
            raise self._changed("is shorter than it was")

    def _line(self, row: Row) -> bytes:
        """A row as a line of the file."""
        if self._marks or "schema" in row:
            return orjson.dumps({"schema": 1, **row, **self._marks}, option=orjson.OPT_APPEND_NEWLINE)
        # The same line, without a copy of the row.
        return b'{"schema":1,' + orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)[1:]

    def append(self, row: Row) -> None:
        """Write one row in one call.

        Raises JournalError where that fails (disk full, folder gone); half a line that was written is then removed. It
        also raises JournalError where somebody has made the file shorter.
        """
        line = self._line(row)
        try:
            if os.write(self._file, line) != len(line):
                raise OSError("short write: is the disk full?")
        except OSError as error:
            with contextlib.suppress(OSError):
                if os.fstat(self._file).st_size > self._size:
                    os.ftruncate(self._file, self._size)
            reason = error.strerror or str(error)
            raise JournalError(f"{self.path}: cannot be written any more ({reason}); free space and resume") from None
        end = os.lseek(self._file, 0, os.SEEK_CUR)  # where the kernel has appended it: the end of the file
        if end < self._size + len(line):
            raise self._changed("is shorter than it was")
        self._index(row, end - len(line))
        self._size = end

    def sync(self) -> None:
        """Force the rows to the disk; does nothing where no row is new.

        Raises JournalError where that fails, and where somebody else has removed, replaced or changed the file.
        """
        if self._synced != self._size:
            size = self._size
            try:
                self._check_place()
                os.fsync(self._file)
            except OSError as error:
                raise JournalError(f"{self.path}: cannot be written any more ({error.strerror})") from None
            self._synced = size

    def close(self) -> None:
        """Force the rows to the disk and close the file; it may be called twice."""
        if self._file >= 0:
            try:
                self.sync()
            finally:
                os.close(self._file)
                self._file = -1
