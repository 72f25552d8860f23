"""Joins journals that may hold rows of the same questions, and packs a finished journal into ``responses.parquet``.

Rows are copied as they stand, at about 180 bytes of memory a conversation. Unpacking gives the same bytes back.

>>> pack(Path("runs/mine")).path                                                                  # doctest: +SKIP
PosixPath('runs/mine/responses.parquet')
"""

import hashlib
import os
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, NamedTuple

import polars as pl
from polars.io.plugins import register_io_source

from tomserve.content import files
from tomserve.content.files import FileSnapshot, changed_error, one_line
from tomserve.engine.records import CLOSES
from tomserve.errors import ConfigError, ConflictError, JournalError
from tomserve.runs.journal import (
    JOURNAL,
    LINE,
    MARK,
    PACKED,
    PackedHeader,
    Row,
    is_packed,
    parse_row,
    read_chunks,
    refuse_another,
    restore_journal,
)
from tomserve.runs.manifest import Manifest
from tomserve.runs.progress import Listener
from tomserve.runs.runfolder import RunFolder
from tomserve.status import FINAL

SAID_EVERY = 5.0  # seconds between two lines that say how far the joining is
LOOK = 1 << 22  # after so many bytes it is looked whether something is to be said
_NEVER = 1 << 62  # a moment, in milliseconds since 1970, that comes after all others


class PaceReporter:
    """Says now and then how far a long piece of work is, and how long it still takes. what: what is done, in words.
    total: its bytes."""

    def __init__(self, what: str, total: int, say: Callable[[str], None]) -> None:
        self._what, self._total, self._say = what, total, say
        self._began = self._said = time.monotonic()
        self._done = self._looked = self._rows = 0

    def add(self, size: int, rows: int = 1) -> None:
        self._done += size
        self._rows += rows
        if self._done - self._looked < LOOK:
            return
        self._looked = self._done
        if (now := time.monotonic()) - self._said >= SAID_EVERY:
            self._said, seconds = now, now - self._began
            left = max(self._total - self._done, 0) * seconds / self._done
            self._say(
                f"{self._what}: {self._rows:,} rows, {100 * self._done / max(self._total, 1):.0f}% "
                f"({self._rows / seconds:,.0f} rows/s, about {left:,.0f} s to go)"
            )


ARMS = 20  # how many bits of the number of a conversation say who asked; the others are the place of the item


@dataclass
class KnownRows:
    """The questions that rows may answer."""

    ids: dict[str, int]  # of the items, numbered by their places
    talking: dict[str, bool]  # for each strategy whether a question takes a conversation of several requests
    repeats: int = 1  # samples of a question
    levels: bool = False  # whether rows of different `concurrency` are of different conversations: in a noise check
    _arms: dict[tuple[str, int, Any], int] = field(default_factory=dict)

    def key(self, path: Path, number: int, row: Row) -> int:
        """The number of a row's conversation. Raises ConfigError, by file and line, where nobody was to ask that."""
        if (place := self.ids.get(row["item"])) is None:
            raise ConfigError(
                f"{path}:{number}: item {one_line(row['item'])[:100]!r} is none of the items of the runs that are "
                "merged; delete that line, or give the run that it belongs to, too"
            )
        if row["strategy"] not in self.talking:
            raise ConfigError(
                f"{path}:{number}: strategy {one_line(row['strategy'])[:100]!r} is none that the manifests name; "
                "delete that line, or restore manifest.json"
            )
        level = row.get("concurrency") if self.levels else None
        if self.levels and type(level) is not int:
            raise ConfigError(f"{path}:{number}: field 'concurrency' is {level!r:.40}; expected a whole number")
        arm = self._arms.setdefault((row["strategy"], row.get("sample") or 0, level), len(self._arms))
        if arm >> ARMS:
            raise ConfigError(f"{path}:{number}: holds more than {1 << ARMS:,} kinds of samples; restore the file")
        return place << ARMS | arm

    def ends(self, row: Row) -> bool:
        """Whether a row with a final reply ends a conversation that was to be asked."""
        wanted = 0 <= (row.get("sample") or 0) < self.repeats
        return wanted and (not self.talking[row["strategy"]] or row.get(CLOSES) is not None)


@lru_cache(maxsize=64)
def _moment(time: str) -> int:
    """A time of a journal in milliseconds since 1970; what is no time comes last."""
    try:
        return max(int(datetime.fromisoformat(time).timestamp() * 1000), 0)
    except (ValueError, OverflowError):
        return _NEVER


class JournalIndex(NamedTuple):
    """A journal that was read as far as it had whole lines, whoever still writes to it."""

    file: FileSnapshot  # pinned at that length
    keys: pl.Series  # the conversation of each row
    talks: pl.DataFrame  # of each conversation: key, ended, replies and tries (rows), first (reply), mix (of digests)


def read_journal(path: Path, asked: KnownRows, pace: PaceReporter) -> JournalIndex:
    """Read a journal. Raises ConfigError, by file and line, for a line that is no row, or a row that nobody asked."""
    with files.refuse_os_errors(path):
        file = FileSnapshot(path, files.whole_length(path))
    keys, final, ended, times, mixes = array("Q"), array("B"), array("B"), array("q"), array("Q")
    for number, _, line in file.lines():
        row = parse_row(path, number, line)
        keys.append(asked.key(path, number, row))
        final.append(row["status"] in FINAL)
        ended.append(final[-1] and asked.ends(row))
        times.append(_moment(str(row.get("time"))) if final[-1] else _NEVER)
        mixes.append(int.from_bytes(hashlib.blake2b(line, digest_size=8).digest(), "little"))
        pace.add(len(line))
    rows = pl.DataFrame(
        {"key": keys, "final": final, "ended": ended, "time": times, "mix": mixes},
        schema={"key": pl.UInt64, "final": pl.UInt8, "ended": pl.UInt8, "time": pl.Int64, "mix": pl.UInt64},
    )
    at = pl.int_range(pl.len(), dtype=pl.UInt64).over("key")
    talks = rows.with_columns(mix=pl.col("mix") * (at * 2 + 1))  # in another order the same rows mean something else
    talks = talks.group_by("key").agg(
        pl.col("ended").max(),
        replies=pl.col("final").sum().cast(pl.UInt32),
        first=pl.col("time").min(),
        tries=pl.len().cast(pl.UInt32),
        mix=pl.col("mix").sum(),
    )
    return JournalIndex(file, rows["key"], talks)


def join_journals(journals: Sequence[JournalIndex]) -> tuple[list[pl.Series], int]:
    """For each journal the conversations that are taken from another one, and how many conversations have ended.

    Whole conversations are taken, each from one journal: one that was ended comes before one that was not, of these the
    one with more replies, then the one whose first reply is older, then the one with more rows, which was asked again,
    then one by the digest of its rows. So joining again, or in another order, changes nothing.
    """
    if not journals:
        return [], 0
    talks = pl.concat([one.talks.with_columns(source=pl.lit(n, pl.UInt32)) for n, one in enumerate(journals)])
    several = talks.filter(pl.col("key").is_duplicated()) if len(journals) > 1 else talks.clear()
    unfinished = pl.col("ended") == 0
    order = {"key": False, "ended": True, "replies": True, "first": False, "tries": True, "mix": True, "source": False}
    chosen = (
        several.with_columns(pl.when(unfinished).then("replies").otherwise(0).alias("replies"))
        .sort(list(order), descending=list(order.values()))
        .unique("key", keep="first", maintain_order=True)
    )
    lost = several.join(chosen, on=["key", "source"], how="anti")
    ended = int(talks["ended"].sum()) - int(lost["ended"].sum())
    return [lost.filter(pl.col("source") == n)["key"] for n in range(len(journals))], ended


def copy_rows(journals: Sequence[JournalIndex], lost: Sequence[pl.Series], out: IO[bytes], pace: PaceReporter) -> int:
    """Write the rows of journals one journal after the other, without those of the conversations that each lost;
    returns how many were written.

    Raises ConfigError where a journal was changed since it was read, OSError where there is no room.
    """
    rows = 0
    for journal, gone in zip(journals, lost, strict=True):
        file = journal.file
        digest, kept = file.digest, ~journal.keys.is_in(gone.implode())
        for (_, _, line), stays in zip(file.lines(), kept, strict=False):
            if stays:
                out.write(line)
                rows += 1
                pace.add(len(line))
        if file.digest != digest:
            raise changed_error(file.path)
    return rows


SCHEMA = {
    **dict.fromkeys(("item", "strategy"), pl.String),
    **{"turn": pl.Int64, "sample": pl.Int64},
    **dict.fromkeys(("key", "status", "time"), pl.String),
    LINE: pl.Binary,
}
"""The columns of a packed file."""

GROUP, GROUP_BYTES = 20_000, 1 << 24  # rows of a group at most, and about so many bytes: what is held in memory


@dataclass(frozen=True)
class PackResult:
    """What a packing did."""

    path: Path  # of the file that the run has now
    rows: int  # of the journal
    plain: int  # bytes before
    packed: int  # bytes after
    seconds: float


def pack(folder: Path, listener: Listener | None = None, *, unfinished: bool = False) -> PackResult:
    """Pack a run's journal, and remove it once it was read back from what was written.

    folder: the run's folder, which is locked meanwhile; where this is ended early the run stays as it was. unfinished:
    whether a run may be packed that lacks answers. Raises ConflictError for a run that is not complete,
    ConfigError, by file and line, for what is no row, MachineError where it is in use, JournalError for want of room.
    """
    began, listener = time.monotonic(), listener or Listener()
    with RunFolder(folder):
        _check(folder, unfinished=unfinished)
        path, packed = folder / JOURNAL, folder / PACKED
        try:
            about = _describe_journal(path)
            pace = PaceReporter(f"packing {path}", about.bytes, listener.message)
            with files.replace_file(packed) as file:
                _write(path, file, about, pace)
                file.flush()
                deque(read_chunks(Path(file.name)), maxlen=0)
            path.unlink()
            files.sync_folder(folder)
            return PackResult(packed, about.lines, about.bytes, packed.stat().st_size, time.monotonic() - began)
        except (OSError, pl.exceptions.PolarsError) as error:
            reason = " ".join(str(error).split())[:120]
            raise JournalError(
                f"{packed}: cannot be written ({reason}); the run is as it was, so free space and repeat the command"
            ) from None


def _check(folder: Path, *, unfinished: bool) -> None:
    """Raise ConfigError where there is nothing to pack, and ConflictError where the run is not complete."""
    manifest = Manifest.load(folder)
    if is_packed(folder):
        raise ConflictError(f"{folder}: is packed already; `tomserve unpack` brings its journal back")
    if not (folder / JOURNAL).exists():
        raise ConfigError(f"{folder}: has no journal to pack")
    refuse_another(folder)
    if not manifest.complete and not unfinished:
        raise ConflictError(
            f"{folder}: is not complete, so that rows may still be added; finish it by the command that began it, or "
            "pack it by --unfinished"
        )


def _describe_journal(path: Path) -> PackedHeader:
    """The header of the packed file. Raises ConfigError where the journal ends in half a line."""
    if files.whole_length(path) != path.stat().st_size:
        raise ConfigError(
            f"{path}: ends in half a line, as a killed process leaves it; repeat the command that made the run, which "
            "puts that right, then pack it"
        )
    file = FileSnapshot(path)
    deque(file.lines(), maxlen=0)  # which counts them, and takes their digest
    return PackedHeader(bytes=file.size, lines=file.count, digest=file.digest)


def _write(path: Path, out: IO[bytes], about: PackedHeader, pace: PaceReporter) -> None:
    """Write the journal at `path` to a Parquet file, group by group. Raises ConfigError for a line that is no row. out:
    the open file, not its path, by which Polars would make it anew where it fails after the file was removed."""
    group = min(GROUP, max(GROUP_BYTES // max(about.bytes // max(about.lines, 1), 1), 1))
    failed: list[BaseException] = []

    def batches(*_: Any) -> Iterator[pl.DataFrame]:
        try:
            yield from _batches(path, group, pace)
        except BaseException as error:  # Polars would wrap it into an error of its own
            failed.append(error)
            raise

    source = register_io_source(batches, schema=SCHEMA)
    held = {MARK: about.model_dump_json(by_alias=True)}
    try:
        source.sink_parquet(out, compression="zstd", row_group_size=group, statistics=False, metadata=held)
    except BaseException:
        if failed:
            raise failed[0] from None
        raise
    file = FileSnapshot(path)
    if file.size != about.bytes or os.path.getsize(path) != about.bytes:
        raise changed_error(path)


def _batches(path: Path, group: int, pace: PaceReporter) -> Iterator[pl.DataFrame]:
    rows: list[tuple[Any, ...]] = []
    for number, _, line in FileSnapshot(path).lines():
        row = parse_row(path, number, line)
        time = row.get("time")
        sample = row.get("sample") or 0
        about = (row["item"], row["strategy"], row["turn"], sample, row["key"], row["status"])
        rows.append((*about, time if isinstance(time, str) else None, line))
        pace.add(len(line))
        if not all(0 <= place < 2**63 for place in about[2:4]):
            raise ConfigError(f"{path}:{number}: turn or sample is out of range; expected a number from 0 on")
        if len(rows) == group:
            yield _table(rows)
            rows = []
    if rows:
        yield _table(rows)


def _table(rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    columns = zip(SCHEMA.items(), zip(*rows, strict=True), strict=True)
    return pl.DataFrame([pl.Series(name, values, kind) for (name, kind), values in columns])


def unpack(folder: Path) -> Path:
    """Unpack a run's journal in its place, and return its path. Raises ConflictError where it is not packed,
    MachineError where the run is in use, and as `restore_journal` does."""
    with RunFolder(folder):
        if not restore_journal(folder):
            raise ConflictError(f"{folder}: is not packed, so there is nothing to unpack")
    return folder / JOURNAL
