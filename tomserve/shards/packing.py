"""Packs the journal of a finished run into ``responses.parquet``, and unpacks it: the same bytes come back.

A packed run is read and scored as any other (see tomserve.runs.journal).

>>> pack(Path("runs/mine")).ratio                                                                 # doctest: +SKIP
8.2
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from polars.io.plugins import register_io_source

from tomserve.content import files
from tomserve.content.files import FileSnapshot, changed_error
from tomserve.errors import ConfigError, ConflictError, JournalError
from tomserve.runs.journal import (
    JOURNAL,
    LINE,
    MARK,
    PACKED,
    PackedHeader,
    is_packed,
    parse_row,
    read_chunks,
    restore_journal,
)
from tomserve.runs.manifest import Manifest
from tomserve.runs.progress import Listener, SilentListener, Stop
from tomserve.runs.runfolder import RunFolder
from tomserve.shards.joining import Pace, whole

SCHEMA = {
    **dict.fromkeys(("item", "strategy"), pl.String),
    **{"turn": pl.Int64, "sample": pl.Int64},
    **dict.fromkeys(("key", "status", "time"), pl.String),
    LINE: pl.Binary,
}
"""The columns of a packed file."""

GROUP, GROUP_BYTES = 20_000, 1 << 24
"""A group of rows has at most so many rows, and about so many bytes: that much is held in memory at a time."""


@dataclass(frozen=True)
class Packed:
    """What a packing did. path: of the file that the run has now. rows: of the journal. plain, packed: how many bytes
    the two forms have. seconds: how long it took."""

    path: Path
    rows: int
    plain: int
    packed: int
    seconds: float

    @property
    def ratio(self) -> float:
        """How many times smaller the packed form is."""
        return self.plain / max(self.packed, 1)


def pack(
    folder: Path, listener: Listener | None = None, stop: Stop | None = None, *, unfinished: bool = False
) -> Packed:
    """Pack a run's journal, and remove it once it was read back from what was written.

    folder: the run's folder, which is locked meanwhile. listener: told how far it is [nobody]. stop: ends it early,
    which leaves the run as it was. unfinished: whether a run may be packed that has no answers to some of its
    questions.

    Raises ConflictError for a run that is not complete, ConfigError, by file and line, for one that holds something
    else than rows, MachineError where it is in use, and JournalError where there is no room.
    """
    began, listener, stop = time.monotonic(), listener or SilentListener(), stop or Stop()
    with RunFolder(folder):
        _check(folder, unfinished=unfinished)
        path, packed = folder / JOURNAL, folder / PACKED
        try:
            about = _described(path)
            pace = Pace(f"packing {path}", about.bytes, listener.message, stop.check)
            with files.replace_file(packed) as file:
                _write(path, Path(file.name), about, pace)
                for _ in read_chunks(Path(file.name)):
                    stop.check()
            path.unlink()
            files.sync_folder(folder)
            return Packed(packed, about.lines, about.bytes, packed.stat().st_size, time.monotonic() - began)
        except (OSError, pl.exceptions.PolarsError) as error:
            reason = " ".join(str(error).split())[:120]
            raise JournalError(
                f"{packed}: cannot be written ({reason}); the run is as it was, so free space and repeat the command"
            ) from None


def _check(folder: Path, *, unfinished: bool) -> None:
    """Raise ConfigError where there is nothing to pack, and ConflictError where the run is not complete."""
    manifest = Manifest.read(folder)
    if manifest is None:
        raise ConfigError(f"{folder}: no run there (manifest.json is missing)")
    if is_packed(folder):
        raise ConflictError(f"{folder}: is packed already; `tomserve unpack` brings its journal back")
    if not (folder / JOURNAL).exists():
        raise ConfigError(f"{folder}: has no journal to pack")
    if not manifest.complete and not unfinished:
        raise ConflictError(
            f"{folder}: is not complete, so that rows may still be added; finish it by the command that began it, or "
            "pack it by --unfinished"
        )


def _described(path: Path) -> PackedHeader:
    """What the file is to say of the journal. Raises ConfigError where the journal ends in half a line."""
    found, size, lines = hashlib.sha256(), whole(path), 0
    if size != path.stat().st_size:
        raise ConfigError(
            f"{path}: ends in half a line, as a killed process leaves it; repeat the command that made the run, which "
            "puts that right, then pack it"
        )
    for piece in FileSnapshot(path).chunks():
        found.update(piece)
        lines += piece.count(b"\n")
    return PackedHeader(bytes=size, lines=lines, digest=f"sha256:{found.hexdigest()}")


def _write(path: Path, out: Path, about: PackedHeader, pace: Pace) -> None:
    """Write the journal at `path` to a Parquet file, group by group. Raises ConfigError for a line that is no row."""
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


def _batches(path: Path, group: int, pace: Pace) -> Iterator[pl.DataFrame]:
    """The rows of a journal as tables of so many rows."""
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


def unpack(folder: Path, say: Callable[[str], None] = lambda text: None) -> Path:
    """Unpack a run's journal in its place, and return its path. say: is told that it is done.

    Raises ConflictError where it is not packed, MachineError where the run is in use, and as `packed.restore` does.
    """
    with RunFolder(folder):
        if not restore_journal(folder, say):
            raise ConflictError(f"{folder}: is not packed, so there is nothing to unpack")
    return folder / JOURNAL
