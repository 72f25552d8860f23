"""The scores of a run: made from its folder, kept beside it in ``scores.parquet``, and made again where that is out of
date.

Always re-creatable from the folder alone, the same bytes every time; only the metrics of a benchmark that lies in a
file of its own need that file (see tomserve.benchmarks.get), as nothing of a run folder is ever run as code.

>>> scores_of(Path("runs/perturbed-reference")).select("strategy", "correct").head()           # doctest: +SKIP
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from tomserve import benchmarks
from tomserve.errors import ConfigError
from tomserve.runs.runfolder import existing_run, read_manifest
from tomserve.scoring.score import COLUMNS
from tomserve.scoring.sources import NOISE, ItemFile, NoiseFile, ResponseFile
from tomserve.scoring.table import TABLES, Note, empty, read_table, tell, write_scored


def score_run(folder: Path, *, items: Path | None = None, note: Note | None = None) -> pl.DataFrame:
    """Score a run. items: a JSONL file to score against instead of the run's own. note: told what was not read.

    Raises ConfigError where the folder is no run or its items are broken.
    """
    with tempfile.TemporaryDirectory() as scratch:
        return pl.read_parquet(write_run(folder, Path(scratch) / "scores.parquet", items=items, note=note))


def write_run(folder: Path, path: Path, *, items: Path | None = None, note: Note | None = None) -> Path:
    """Score a run into that Parquet file. Raises ConfigError as score_run does, OSError where it cannot be written."""
    manifest = read_manifest(folder)
    if manifest is None:
        raise ConfigError(f"{folder}: no run there (manifest.json is missing)")
    chains = {name for name, spec in manifest["strategies"].items() if spec.get("chain")}
    journal = folder / "responses.jsonl"
    run, model = folder.resolve().name, manifest["model"]
    if not journal.exists():
        empty(run).write_parquet(path)
        return path
    known = ItemFile(items or folder / "items.jsonl")
    noise = folder / NOISE
    again = NoiseFile(noise, known, model) if noise.exists() else None
    responses = ResponseFile(journal, known, model)
    tell(note, responses, again)
    if note is not None and (missing := _not_at_hand(manifest)):
        note(f"{folder}: {missing}")
    write_scored(known, responses, path, run=run, chains=chains, again=again, rules=benchmarks.scoring)
    return path


def _not_at_hand(manifest: Mapping[str, Any]) -> str | None:
    """What to say where the run's benchmark is a file that this process was not given; None where nothing is
    missing."""
    name, file = manifest["benchmark"], manifest.get("benchmark_file")
    if file is None or benchmarks.known(name) is not None:
        return None
    shown = file.get("name") if isinstance(file, dict) else None
    return (
        f"scored with the standard metrics alone, as the file of its benchmark {name!r} is not at hand; for the "
        f"benchmark's own run `tomserve score RUN --benchmark {shown or 'FILE.py'}`"
    )


def scores_of(folder: Path, *, fresh: bool = False, note: Note | None = None) -> pl.DataFrame:
    """The run's scores: ``scores.parquet`` where it is newer than what it was made from, else made again."""
    path = folder / "scores.parquet"
    again = (folder / NOISE).exists()
    sources = [folder / name for name in ("responses.jsonl", "items.jsonl", "manifest.json", *([NOISE] * again))]
    if not fresh and path.exists():
        made = path.stat().st_mtime_ns
        if all(source.exists() and source.stat().st_mtime_ns < made for source in sources):
            with contextlib.suppress(OSError, pl.exceptions.PolarsError):  # a broken table is made again
                kept = pl.read_parquet(path, glob=False)
                same = kept.columns[: len(COLUMNS)] == list(COLUMNS)  # else another version of tomserve made it
                if same and (again or kept["noise_compared"].null_count() == kept.height):  # else noise.jsonl is gone
                    return kept
    partial = path.with_suffix(".part")
    try:
        write_run(folder, partial, note=note).replace(path)
    except OSError:  # a read-only folder can still be looked at
        partial.unlink(missing_ok=True)
        return score_run(folder, note=note)
    return pl.read_parquet(path, glob=False)


def load_scores(source: str | None, *, note: Note | None = None) -> pl.DataFrame:
    """Scores of a run (name, path, or None for the newest), or a score table (.parquet, .jsonl, .csv). note: told what
    was not read. Raises ConfigError where there is neither."""
    if source is None or not source.endswith(TABLES):
        return scores_of(existing_run(source), note=note)
    return read_table(source)
