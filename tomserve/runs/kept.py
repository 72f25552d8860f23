"""The record ``scores.json`` of what ``scores.parquet`` beside it was made from, so that an outdated table is noticed.

A kept table is used again only where tomserve made it for the same user (see tomserve.content.signatures), with the same
code, from files that are byte for byte those that the folder holds now. The times of files prove nothing, since copying
changes them and editing need not. Of the manifest only the fields that scoring reads count, because every session
writes the manifest anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tomserve import benchmarks
from tomserve.content import signatures
from tomserve.content.files import FileSnapshot, changed_error, digest_bytes
from tomserve.content.paths import run_name
from tomserve.errors import ConfigError
from tomserve.runs import packed
from tomserve.runs.manifest import Manifest
from tomserve.runs.runfolder import check_files
from tomserve.scoring import grades, version
from tomserve.scoring.responses import NOISE

TABLE = "scores.parquet"
"""The file that keeps a run's score table."""

JOURNAL, ITEMS = packed.JOURNAL, "items.jsonl"
"""The files of a run folder that hold its rows and its items."""

FILES = (JOURNAL, ITEMS, NOISE)
"""Files of a run folder that scores are made from, if they exist."""


def sources_in(folder: Path) -> list[str]:
    """The names of the files in a run folder that its scores are made from: those of FILES that exist and, where a
    reader is in use, its journal and its record (see tomserve.scoring.grades)."""
    read = (grades.JOURNAL, grades.RECORD) if (folder / grades.RECORD).exists() else ()
    there = (name for name in (*FILES, *read) if (folder / name).exists() or name == JOURNAL)
    return [name for name in there if name != JOURNAL or packed.has_journal(folder)]


Record = Mapping[str, Any]
"""What a table was made from, as JSON holds it: the fields of Sources, `version` (see tomserve.scoring.version), and
`table`, the digest of the table's file."""

_CODE, SCORER = version.CODE, version.SCORER


@dataclass(frozen=True, slots=True)
class Sources:
    """What the scores of a run are made from.

    run: the run's name, which is a column of the table.
    model: the model's id.
    chains: the strategies whose replies are asked to hold a belief chain.
    turns: the number of turns of each strategy that has not exactly one, 0 where a program decides.
    files: the files by their names, each with its `bytes` (length) and `digest`.
    benchmark_file: the digest of the file that declares the run's benchmark, where this process was given that file;
    None for a built-in benchmark, and where only the standard metrics are computed.
    lettered: the strategies that show the choices as A, B, C.
    rows: what is known of the journal's rows (see tomserve.runs.grown); None where nothing is.
    """

    run: str
    model: str
    chains: tuple[str, ...]
    turns: Mapping[str, int]
    files: Mapping[str, Mapping[str, Any]]
    benchmark_file: str | None = None
    lettered: tuple[str, ...] = ()
    rows: Mapping[str, Any] | None = None

    @classmethod
    def asked(cls, folder: Path) -> Sources:
        """The sources of a run, still without its files. Raises ConfigError where the folder is no run."""
        check_files(folder)
        manifest = Manifest.read(folder)
        if manifest is None:
            raise ConfigError(f"{folder}: no run there (manifest.json is missing)")
        chains = sorted(name for name, strategy in manifest.strategies.items() if strategy.chain)
        turns = {name: strategy.turns for name, strategy in manifest.strategies.items() if strategy.turns != 1}
        benchmark = benchmarks.find(manifest.benchmark)
        digest = benchmark.digest if benchmark is not None else None
        lettered = sorted(name for name, strategy in manifest.strategies.items() if strategy.lettered)
        return cls(run_name(folder), manifest.model, tuple(chains), turns, {}, digest, tuple(lettered))

    def having(self, files: Iterable[tuple[str, int, str]]) -> Sources:
        """The same sources with files, each given as (name, length in bytes, digest)."""
        described = {name: {"bytes": size, "digest": digest} for name, size, digest in files}
        return replace(self, files=described)

    def read(self, files: Iterable[FileSnapshot]) -> Sources:
        """The same sources with the files that were scored.

        Raises ConfigError where a file was changed while it was read, because the table then mixes two states of it.
        """
        files = list(files)
        for file in files:
            if not file.unchanged():
                raise changed_error(file.path)
        return self.having((file.path.name, file.size, file.digest) for file in files)

    def record(self, table: bytes) -> Record:
        """The record of a table; table: the bytes of its file."""
        made = {
            "schema": 1,
            **asdict(self),
            "chains": list(self.chains),
            "scorer": SCORER,
            "table": digest_bytes(table),
        }
        if self.benchmark_file is None:
            del made["benchmark_file"]
        if self.rows is None:
            del made["rows"]
        made["lettered"] = list(self.lettered)
        if not self.lettered:
            del made["lettered"]
        return made


def believed(path: Path) -> tuple[bytes, Record] | None:
    """The kept table at that path of a run folder, as the bytes of its file, with its record; None where the table has
    to be made again.

    Where the run's benchmark is declared in a file that this process was not given, a table that was made with that
    file is used, since it could not be made again now. Raises ConfigError where the folder is no run.
    """
    folder = path.parent
    asked = Sources.asked(folder)
    if (kept := recorded(path)) is None:
        return None
    try:
        there, was = sources_in(folder), kept.get("files")
        if was and any(packed.size_of(folder / name) != was.get(name, {}).get("bytes") for name in there):
            return None  # what has grown need not be read to know it
        table = path.read_bytes()
        found = asked.having((name, *packed.measure(folder / name)) for name in there)
        now = replace(found, rows=kept.get("rows")).record(table)
        if asked.benchmark_file is None and isinstance(made_with := kept.get("benchmark_file"), str):
            now = {**now, "benchmark_file": made_with}
    except OSError:
        return None
    return (table, now) if kept == now else None


def recorded(path: Path) -> dict[str, Any] | None:
    """The record of the table at that path, whether that holds or not; None where this user's tomserve wrote none."""
    return signatures.read_record(_beside(path))


def keep(path: Path, record: Record) -> None:
    """Write the record of the table at that path, if the folder can be written (see seal.keep)."""
    signatures.write_record(_beside(path), record)


def _beside(path: Path) -> Path:
    """The file that holds the record of the table at that path."""
    return path.with_suffix(".json")
