"""``scores.json``: what ``scores.parquet`` beside it was made from, so that a table is kept just as long as it holds.

A kept table is believed where this user's own tomserve made it (see tomserve.content.seal), by the same code, from what
lies in the folder now, byte for byte. File times say nothing: copying sets them, and editing can leave them. Only what
scoring reads of the manifest counts, since every session writes the manifest anew.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

import tomserve
from tomserve import benchmarks, content
from tomserve.content import seal
from tomserve.errors import ConfigError
from tomserve.runs.manifest import Manifest
from tomserve.runs.runfolder import check_files
from tomserve.scoring.pinned import PinnedFile, changed, digest_of, measured
from tomserve.scoring.sources import NOISE

TABLE = "scores.parquet"

JOURNAL, ITEMS = "responses.jsonl", "items.jsonl"

FILES = (JOURNAL, ITEMS, NOISE)
"""Files of a run folder that are scored, as far as they are there."""

Record = Mapping[str, Any]
"""What a table was made from, as JSON holds it: fields of Sources, `scorer`, and `table`, the table's own digest."""

_CODE = ("items", "scoring", "benchmarks")
"""What decides over a score, below the package."""


def _scorer() -> str:
    package = Path(tomserve.__file__).parent
    versions = f"tomserve {tomserve.__version__}, polars {pl.__version__}, Unicode {unicodedata.unidata_version}"
    return f"{versions}, {content.code_digest(package / name for name in _CODE)}"


SCORER = _scorer()
"""Versions and code that make scores. Taken on import, when the code is loaded: a long run is scored by the code with
which it began, whatever has been edited or installed since."""


@dataclass(frozen=True, slots=True)
class Sources:
    """What a run is scored from: the folder's name (a column of the table), of the manifest the model, the strategies
    that ask for a chain and how many turns those of several have, and by name the files, each with its `bytes` and
    `digest`. benchmark_file: digest of the file that declares the run's benchmark, where this process was given it;
    None for what is built in, and where only the standard metrics are computed."""

    run: str
    model: str
    chains: tuple[str, ...]
    turns: Mapping[str, int]
    files: Mapping[str, Mapping[str, Any]]
    benchmark_file: str | None = None

    @classmethod
    def asked(cls, folder: Path) -> Sources:
        """Those of a run without its files. Raises ConfigError where the folder is no run."""
        check_files(folder)
        manifest = Manifest.read(folder)
        if manifest is None:
            raise ConfigError(f"{folder}: no run there (manifest.json is missing)")
        chains = sorted(name for name, strategy in manifest.strategies.items() if strategy.chain)
        turns = {name: strategy.turns for name, strategy in manifest.strategies.items() if strategy.turns > 1}
        benchmark = benchmarks.known(manifest.benchmark)
        digest = benchmark.digest if benchmark is not None else None
        return cls(folder.resolve().name, manifest.model, tuple(chains), turns, {}, digest)

    def having(self, files: Iterable[tuple[str, int, str]]) -> Sources:
        """These with files, each given as name, length in bytes, digest."""
        found = {name: {"bytes": size, "digest": digest} for name, size, digest in files}
        return replace(self, files=found)

    def read(self, files: Iterable[PinnedFile]) -> Sources:
        """These with the files that were scored. Raises ConfigError where one was changed in the meantime, so that
        what was made of it is of no state that it ever had."""
        files = list(files)
        for file in files:
            if not file.unchanged():
                raise changed(file.path)
        return self.having((file.path.name, file.size, file.digest) for file in files)

    def record(self, table: bytes) -> Record:
        """What is kept of a table, given as the bytes of its file."""
        made = {"schema": 1, **asdict(self), "chains": list(self.chains), "scorer": SCORER, "table": digest_of(table)}
        if self.benchmark_file is None:
            del made["benchmark_file"]
        return made


def believed(path: Path) -> tuple[bytes, Record] | None:
    """The kept table at that path of a run folder, as bytes, with its record; None where it has to be made again.

    Where the file of the run's benchmark is not at hand, a table that was made with it is still the best there is.
    Reads the table and the sources once. Raises ConfigError where the folder is no run.
    """
    folder = path.parent
    asked = Sources.asked(folder)
    if (kept := seal.kept(_beside(path))) is None:
        return None
    try:
        table = path.read_bytes()
        present = [name for name in FILES if (folder / name).exists()]
        now = asked.having((name, *measured(folder / name)) for name in present).record(table)
        if asked.benchmark_file is None and isinstance(made_with := kept.get("benchmark_file"), str):
            now = {**now, "benchmark_file": made_with}
    except OSError:
        return None
    return (table, now) if kept == now else None


def keep(path: Path, record: Record) -> None:
    """Write the record of the table at that path, as far as that is possible (see seal.keep)."""
    seal.keep(_beside(path), record)


def _beside(path: Path) -> Path:
    return path.with_suffix(".json")
