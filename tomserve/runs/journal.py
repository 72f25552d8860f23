"""The journal of a run, ``responses.jsonl``: every reply is a row, one line of JSON, readable after any crash.

Rows are only appended, each by one unbuffered write, and never changed: where an identity has several rows, the last
one counts. A row is not lost if the process is killed, because the kernel has it. It is not lost by a power cut
either, once an fsync has put it on the disk, which happens at least once a second. A packed journal,
``responses.parquet``, holds every line as it stood; who reads a run asks `journal_path`, who writes to it calls
`restore_journal` first.

    >>> with Journal(folder / "responses.jsonl") as journal:           # doctest: +SKIP
    ...     journal.append({"item": "a", "strategy": "cot", "turn": 0, "key": "k", "status": "ok"})
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import orjson
import polars as pl
import pydantic

from tomserve.content import files
from tomserve.content.compact_index import Index
from tomserve.content.files import digest_file
from tomserve.content.validation import Strict
from tomserve.engine.records import CLOSES, CLOSING
from tomserve.engine.redact import LONGEST_NAME
from tomserve.engine.request import Identity
from tomserve.errors import ConfigError, JournalError, MachineError
from tomserve.status import ANSWERS, FINAL, SPOKEN

Row = dict[str, Any]  # one row, with the fields of the data contract Response
MODELS = 64  # how many different names of models are kept of a file at most

_KINDS = {"item": str, "strategy": str, "turn": int, "key": str, "status": str}
"""Fields that every row must have, with the types of their values."""

_FURTHER: dict[str, type] = {**CLOSING, "sample": int}  # fields that some rows have, with the types of their values

_TYPES = tuple(_KINDS.values())


def read_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Read the rows of a journal, each with the byte offset of its line; an incomplete last line is left out. Raises
    ConfigError by line where it is no row, and where `path` is a link, a pipe or the like."""
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
        row = files.load_json(line)
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"{path}:{number}: not JSON ({error.msg}); {way_out}") from None
    plain = type(row) is dict and tuple(map(type, map(row.get, _KINDS))) == _TYPES
    if plain and row["status"] and _FURTHER.keys().isdisjoint(row):  # most are, and a resumed run reads all its rows
        return row  # type: ignore[no-any-return]
    missing = [name for name in _KINDS if name not in row] if isinstance(row, dict) else ["all of them"]
    if missing:
        raise ConfigError(f"{path}:{number}: not a response row (field {missing[0]!r} is missing); {way_out}")
    wrong = [name for name, kind in _KINDS.items() if type(row[name]) is not kind]
    wrong += [name for name, kind in _FURTHER.items() if row.get(name) is not None and type(row[name]) is not kind]
    if wrong or not row["status"]:
        name = wrong[0] if wrong else "status"
        raise ConfigError(f"{path}:{number}: not a response row (field {name!r} is {row[name]!r:.40}); {way_out}")
    return dict(row)


def row_identity(row: Row) -> Identity:
    """The identity that a row answers."""
    return Identity(row["item"], row["strategy"], row["turn"], row.get("sample") or 0)


class Journal:
    """A journal that is open for appending; it is made where it does not exist. marks: fields that every row of this
    journal carries. Rows of the file with other values belong to another journal in the same file, and are neither
    counted nor reused here. again: tells of each final row without an answer that stands there whether its question is
    open again. Raises ConfigError as `read_rows` does, and where the file cannot be written."""

    def __init__(
        self, path: Path, marks: Mapping[str, Any] | None = None, again: Callable[[Row], bool] = lambda row: False
    ) -> None:
        self.path = path
        self._marks = dict(marks or {})
        self.final = Index()  # the identities that are never asked again, once for each final row
        self.closed = Index()  # the conversations of several turns that have ended, by the identities of first turns
        self.further: set[tuple[str, str, int]] = set()  # open ones with a final row of a later turn
        self.asked: set[str] = set()  # the strategies that have at least one row
        self.failed: dict[Identity, str] = {}  # the status of each identity whose last row is no answer
        self.models: set[str] = set()  # the models that earlier answers name (`served_model`), at most MODELS
        self.torn: Path | None = None  # the file to which an incomplete last line was moved
        self._offsets = Index()
        self._size = 0
        own = self._marks.items()
        for offset, row in read_rows(path):
            if not own or all(row.get(name) == value for name, value in own):
                self._index(row, offset, again)
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

    def _index(self, row: Row, offset: int, again: Callable[[Row], bool] | None = None) -> None:
        """Take note of a row that stands at that byte offset of the file. again: as of the class, for a row that stood
        there before."""
        identity, status = row_identity(row), row["status"]
        self.asked.add(identity.strategy)
        if status not in ANSWERS:
            self.failed[identity] = status
            if again is not None and status in FINAL and again(row):
                return
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
                self._offsets.add(row["key"], offset)

    def _note_model(self, row: Row) -> None:
        name = row.get("served_model")
        if type(name) is str and name and row["status"] in SPOKEN and len(self.models) < MODELS:
            self.models.add(name[:LONGEST_NAME])

    def _move_torn_line(self) -> None:
        """Move half a line that a crash left at the end to a file of its own, so that the next row begins a line."""
        try:
            start = files.whole_length(self.path)
            with os.fdopen(files.open_regular(self.path, os.O_RDWR), "r+b") as file:
                file.seek(start)
                if not (torn := file.read()):
                    return
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
        """The first final row of a request with that key, read from the file, or the first that is an answer where it
        was asked again; None where there is none."""
        rows = (self._read(offset) for offset in sorted(self._offsets.get(key)))
        found = [row for row in rows if row["key"] == key]
        return next((row for row in found if row["status"] in ANSWERS), found[0] if found else None)

    def _read(self, offset: int) -> Row:
        """The row at that byte offset. Raises JournalError where there is none any more."""
        line = b""
        try:
            while not line.endswith(b"\n"):
                if not (piece := os.pread(self._file, 65536, offset + len(line))):
                    raise self._change_error("is shorter than it was")
                end = piece.find(b"\n")
                line += piece if end < 0 else piece[: end + 1]
            row = orjson.loads(line)
        except OSError as error:
            raise JournalError(f"{self.path}: cannot be read any more ({error.strerror})") from None
        except orjson.JSONDecodeError:
            raise self._change_error("holds other rows than before") from None
        if not isinstance(row, dict) or not isinstance(row.get("key"), str):
            raise self._change_error("holds other rows than before")
        return row

    def _change_error(self, what: str) -> JournalError:
        return JournalError(
            f"{self.path}: {what}, as somebody else has changed it while the run went on; see what is left in it, put "
            "back what is missing if you can, and repeat the command"
        )

    def _check_place(self) -> None:
        """Raise JournalError unless the file is still the one at its path, and not shorter than what was written."""
        size, about = self._size, os.fstat(self._file)  # in this order, as another thread may be writing
        try:
            there = os.lstat(self.path)
        except OSError as error:
            raise self._change_error(f"is not there any more ({error.strerror})") from None
        if not os.path.samestat(about, there):
            raise self._change_error("is another file than before")
        if about.st_size < size:
            raise self._change_error("is shorter than it was")

    def append(self, row: Row) -> None:
        """Write one row in one call. Raises JournalError where that fails (disk full, folder gone); half a line that
        was written is then removed. It also raises JournalError where somebody has made the file shorter."""
        line = orjson.dumps({"schema": 1, **row, **self._marks}, option=orjson.OPT_APPEND_NEWLINE)
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
            raise self._change_error("is shorter than it was")
        self._index(row, end - len(line))
        self._size = end

    def sync(self) -> None:
        """Force the rows to the disk; does nothing where no row is new. Raises JournalError where that fails, and where
        somebody else has removed, replaced or changed the file."""
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


JOURNAL, PACKED = "responses.jsonl", "responses.parquet"
"""The names of a run's journal, and of the file that holds it packed."""

MARK = "tomserve_journal"  # the name under which the file's metadata say what it holds, as JSON
LINE = "line"  # the column that holds the lines of the journal, each with its end

BATCH = 5_000  # so many lines are unpacked at a time, or fewer where the file was packed in smaller groups

WAY_OUT = "take the file from where you have the run from, or unpack it with the tomserve that packed it"


class PackedHeader(Strict, strict=True):
    """What a packed file says of the journal that it holds: its length, its number of lines, and its digest."""

    schema_: Annotated[int, pydantic.Field(alias="schema", ge=1, le=1)] = 1
    bytes: Annotated[int, pydantic.Field(ge=0, lt=2**63)]
    lines: Annotated[int, pydantic.Field(ge=0, lt=2**63)]
    digest: Annotated[str, pydantic.Field(pattern=r"^sha256:[0-9a-f]{64}$")]


def is_packed(folder: Path) -> bool:
    """Whether a run's journal is there in its packed form alone."""
    return not os.path.lexists(folder / JOURNAL) and os.path.lexists(folder / PACKED)


def has_journal(folder: Path) -> bool:
    """Whether a run has a journal, packed or not."""
    return os.path.lexists(folder / JOURNAL) or os.path.lexists(folder / PACKED)


def read_packed_header(path: Path) -> PackedHeader:
    """What a packed file says of itself. Raises ConfigError where it is none, or not to be believed."""
    try:
        held = files.read_parquet_metadata(path).get(MARK)
        found = PackedHeader.model_validate(orjson.loads(held if isinstance(held, str) else ""))
    except (*_BROKEN, ValueError) as error:  # what JSON and pydantic raise is one
        raise _packed_error(path, error) from None
    if found.bytes > files.DENSEST * path.stat().st_size:
        raise ConfigError(f"{path}: claims to hold {found.bytes:,} bytes, more than its own size can; {WAY_OUT}")
    return found


_BROKEN = (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException)
"""What Polars raises for a file that is no Parquet file, or a broken one."""


def _packed_error(path: Path, error: BaseException) -> ConfigError:
    reason = files.one_line(" ".join(str(error).split()))[:120]
    return ConfigError(f"{path}: holds no journal that tomserve packed ({reason}); {WAY_OUT}")


def read_chunks(path: Path) -> Iterator[bytes]:
    """The bytes of the journal that a packed file holds, some thousand lines at a time. Raises ConfigError where they
    are not those that were packed, at the latest after the last of them."""
    wanted, found, size = read_packed_header(path), hashlib.sha256(), 0
    try:
        lines = files.scan_foreign_parquet(path).select(pl.col(LINE).cast(pl.Binary))
        for batch in lines.collect_batches(chunk_size=BATCH, maintain_order=True, engine="streaming"):
            held = batch[LINE].drop_nulls()
            more = int(held.bin.size().cast(pl.UInt64).sum())  # equal lines stand in the file, and here, once
            if (size := size + more) > wanted.bytes:
                break
            step = BATCH if more <= files.LONGEST_LINE else 1
            for at in range(0, len(held), step):
                piece = b"".join(held[at : at + step])
                found.update(piece)
                yield piece
    except _BROKEN as error:
        raise _packed_error(path, error) from None
    if size != wanted.bytes or f"sha256:{found.hexdigest()}" != wanted.digest:
        raise ConfigError(f"{path}: does not hold the journal any more that was packed; {WAY_OUT}")


def measure_file(path: Path) -> tuple[int, str]:
    """Length and digest of a file of a run, as `digest_file` gives them; of a packed journal, those of the journal. All
    of it is read. Raises OSError, and ConfigError as `read_chunks` does."""
    if path.name != JOURNAL or not is_packed(path.parent):
        return digest_file(path)
    packed = path.with_name(PACKED)
    for _ in read_chunks(packed):
        pass
    about = read_packed_header(packed)
    return about.bytes, about.digest


def file_size(path: Path) -> int:
    """Length of a file of a run; where it is a journal that is packed, that of the journal. Raises OSError."""
    if path.name != JOURNAL or not is_packed(path.parent):
        return path.stat().st_size
    return read_packed_header(path.with_name(PACKED)).bytes


def count_packed_lines(folder: Path) -> int:
    """How many lines the packed journal of a run has, by what it says of itself; 0 where it has none that is whole."""
    with contextlib.suppress(ConfigError):
        return read_packed_header(folder / PACKED).lines if is_packed(folder) else 0
    return 0


_LOCK = threading.Lock()
_UNPACKED: dict[tuple[int, str, int, int, int], Path] = {}  # the journals that were unpacked, by this process


def journal_path(folder: Path) -> Path:
    """The path from which a run's journal can be read; there need be none yet. That of a packed run is a temporary
    file. Raises ConfigError as `read_chunks` does, and where a packed journal holds more than the one beside it;
    MachineError where there is no room to unpack it."""
    if not is_packed(folder):
        refuse_another(folder, by_length=True)
        return folder / JOURNAL
    packed = folder / PACKED
    files.check_regular(packed)
    with _LOCK:
        with files.refuse_os_errors(packed):
            status = packed.stat()
        key = (os.getpid(), str(packed.resolve()), status.st_ino, status.st_size, status.st_mtime_ns)
        if (found := _UNPACKED.get(key)) is None or not found.exists():
            stack = contextlib.ExitStack()
            atexit.register(lambda: stack.close() if os.getpid() == key[0] else None)
            try:
                found = stack.enter_context(files.temporary_folder()) / JOURNAL
                with open(found, "xb") as file:
                    file.writelines(read_chunks(packed))
            except OSError as error:
                raise MachineError(
                    f"{packed}: cannot be unpacked ({error.strerror}); free space, name another folder by TMPDIR, or "
                    "unpack it in its place (`tomserve unpack RUN`)"
                ) from None
            _UNPACKED[key] = found
        return found


def refuse_another(folder: Path, *, by_length: bool = False) -> None:
    """Raise ConfigError where a run has a packed journal whose rows do not begin the one beside it, as one of them is
    from elsewhere. by_length: whether to compare no more than their lengths."""
    path, packed = folder / JOURNAL, folder / PACKED
    if not (os.path.lexists(path) and os.path.lexists(packed)):
        return
    about = read_packed_header(packed)
    files.check_regular(path)
    with files.refuse_os_errors(path):
        same = path.stat().st_size >= about.bytes if by_length else files.begins_with(path, about.bytes, about.digest)
    if not same:
        raise ConfigError(
            f"{folder}: {PACKED} holds answers that {JOURNAL} beside it lacks; move the one away that is not this run's"
        )


def restore_journal(folder: Path, say: Callable[[str], None] = lambda text: None) -> bool:
    """Unpack the journal of a locked run in its place, as rows are to be added. Returns whether it was packed. Raises
    ConfigError as `read_chunks` does, and where a packed journal is not that of the rows beside it; JournalError where
    there is no room."""
    if not is_packed(folder):
        refuse_another(folder)
        with contextlib.suppress(FileNotFoundError):
            (folder / PACKED).unlink()  # a packing was ended before it had removed the journal, which counts
        return False
    try:
        with files.replace_file(folder / JOURNAL) as file:
            file.writelines(read_chunks(folder / PACKED))
        (folder / PACKED).unlink()
    except OSError as error:
        raise JournalError(
            f"{folder / JOURNAL}: cannot be written ({error.strerror}); free space and repeat the command"
        ) from None
    say(f"{folder / PACKED} was unpacked, as rows are added; `tomserve pack` packs it again")
    return True
