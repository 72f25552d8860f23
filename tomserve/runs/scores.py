"""The scores of a run: made from its folder, kept beside it in ``scores.parquet``, and made again where that is out of
date.

Always re-creatable from the folder alone, the same bytes every time; only the metrics of a benchmark that lies in a
file of its own need that file (see tomserve.benchmarks.get), as nothing of a run folder is ever run as code.

>>> scores_of(Path("runs/perturbed-reference")).select("strategy", "correct").head()           # doctest: +SKIP
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import NamedTuple

import polars as pl

from tomserve import benchmarks
from tomserve.content import files
from tomserve.runs import kept
from tomserve.runs.manifest import Manifest
from tomserve.runs.runfolder import existing_run
from tomserve.scoring.outcomes import unknown_statuses
from tomserve.scoring.sources import NOISE, ItemFile, NoiseFile, ResponseFile
from tomserve.scoring.table import TABLES, Note, empty, tell, write_scored
from tomserve.scoring.tablefile import read_table


class Scored(NamedTuple):
    """A run's score table and what it was made from (see tomserve.runs.kept)."""

    table: pl.DataFrame
    record: kept.Record


def score_run(folder: Path, *, items: Path | None = None, note: Note | None = None) -> pl.DataFrame:
    """Score a run. items: a JSONL file to score against instead of the run's own. note: told what was not read.

    Raises ConfigError where the folder is no run or its items are broken.
    """
    with tempfile.TemporaryDirectory() as scratch:
        return _scored_into(Path(scratch) / kept.TABLE, folder, items=items, note=note).table


def write_run(folder: Path, path: Path, *, items: Path | None = None, note: Note | None = None) -> kept.Sources:
    """Score a run into that Parquet file; returns what was read. Raises ConfigError as score_run does, OSError where
    the file cannot be written."""
    asked = kept.Sources.asked(folder)
    journal = folder / kept.JOURNAL
    if not journal.exists():
        empty(asked.run).write_parquet(path)
        return asked
    known = ItemFile(items or folder / kept.ITEMS)
    noise = folder / NOISE
    again = NoiseFile(noise, known, asked.model) if noise.exists() else None
    found = ResponseFile(journal, known, asked.model, turns=asked.turns)
    tell(note, found, again)
    if note is not None and (missing := _not_at_hand(Manifest.read(folder))):
        note(f"{folder}: {missing}")
    write_scored(known, found, path, run=asked.run, chains=asked.chains, again=again, rules=benchmarks.scoring)
    return asked.read(file.file for file in (found, known, again) if file is not None)


def _scored_into(path: Path, folder: Path, *, items: Path | None = None, note: Note | None = None) -> Scored:
    sources = write_run(folder, path, items=items, note=note)
    table = path.read_bytes()
    return Scored(pl.read_parquet(table), sources.record(table))


def _not_at_hand(manifest: Manifest | None) -> str | None:
    """What to say where the run's benchmark is a file that this process was not given; None where nothing is
    missing."""
    if manifest is None or manifest.benchmark_file is None or benchmarks.known(manifest.benchmark) is not None:
        return None
    name, shown = manifest.benchmark, str(manifest.benchmark_file.get("name"))
    shown = shown if re.fullmatch(r"[\w.-]{1,100}\.py", shown) else "FILE.py"  # a manifest may come from anybody
    return (
        f"scored with the standard metrics alone, as the file of its benchmark {name!r} is not at hand; for the "
        f"benchmark's own run `tomserve score RUN --benchmark {shown}`"
    )


def scores_of(folder: Path, *, fresh: bool = False, note: Note | None = None) -> pl.DataFrame:
    """The run's scores: those kept in ``scores.parquet`` where ``scores.json`` beside it proves that this user's
    tomserve made them, as it is now, of what lies in the folder now; else, or where `fresh`, made again and kept.

    note: told what was not read. Raises ConfigError as score_run does.
    """
    return scored(folder, fresh=fresh, note=note).table


def scored(folder: Path, *, fresh: bool = False, note: Note | None = None) -> Scored:
    """The scores as scores_of gives them, with what they were made from."""
    path = folder / kept.TABLE
    if not fresh and (found := kept.believed(path)) is not None:
        table, record = found
        return Scored(pl.read_parquet(table), record)
    try:
        with files.replacing(path) as file:
            made = _scored_into(Path(file.name), folder, note=note)
    except OSError:  # a read-only folder can still be looked at
        with tempfile.TemporaryDirectory() as scratch:
            return _scored_into(Path(scratch) / path.name, folder, note=note)
    kept.keep(path, made.record)
    return made


def load_scores(source: str | None, *, note: Note | None = None) -> pl.DataFrame:
    """Scores of a run (name, path, or None for the newest), or a score table (.parquet, .jsonl, .csv). note: told what
    was not read. Raises ConfigError where there is neither."""
    if source is None or not source.endswith(TABLES):
        folder = existing_run(source)
        return _noted(scores_of(folder, note=note), str(folder), note)
    return _noted(read_table(source), source, note)


def _noted(scores: pl.DataFrame, source: str, note: Note | None) -> pl.DataFrame:
    """The scores, once it has been said which of their statuses nobody knows."""
    if note is not None and (strange := unknown_statuses(scores)) is not None:
        note(f"{source}: {strange}")
    return scores
