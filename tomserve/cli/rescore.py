"""The command `tomserve score`: score runs from their folders alone, or the replies that another tool collected."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from tomserve import benchmarks
from tomserve.benchmarks import Benchmark
from tomserve.content import files
from tomserve.errors import ConfigError, one_of
from tomserve.items import Item, items_digest, write_items
from tomserve.runs.runfolder import existing_run, read_manifest
from tomserve.runs.scores import load_scores, score_run, scores_of
from tomserve.scoring.outcomes import unknown_statuses
from tomserve.scoring.sources import ItemFile, ResponseFile
from tomserve.scoring.table import TABLES, named_gold, tell, write_scored
from tomserve.scoring.tablefile import write_scores
from tomserve.studies import combining, gaps, noise


def warn(message: str) -> None:
    """Print a warning on standard error: as one line, or in a terminal as lines of its width under a coloured word."""
    # The message may quote a stranger's file, so it must not be able to control the terminal.
    line = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in message)
    if not sys.stderr.isatty():
        print(f"warning: {line}", file=sys.stderr)
        return
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True, highlight=False).print(Text.assemble(("warning: ", "bold yellow"), line))


def warn_gaps(source: str | Path, scores: pl.DataFrame) -> None:
    """Warn of what is lacking: replies that could not be read, failures, answers not asked for, a mere sample.

    source: a run's folder, or the file of a score table. scores: what was loaded from it.
    """
    for said in gaps.sentences(gaps.of_source(source, scores)):
        warn(said)


def load_all(runs: Sequence[str | None]) -> pl.DataFrame:
    """The scores of runs and score tables in one table, after warnings of what is lacking of each, and of runs that
    are counted as one model."""
    frames, manifests = [], {}
    for run in runs:
        source = run if run is not None and run.endswith(TABLES) else existing_run(run)
        frames.append(load_scores(None if run is None else str(run), note=warn))
        warn_gaps(source, frames[-1])
        if isinstance(source, Path):
            manifests[source.resolve().name] = read_manifest(source) or {}
    scores = combining.combined(frames)
    for said in combining.as_one(scores, manifests):
        warn(said)
    return scores


def own(runs: Sequence[str | None], out: Path | None, gold: str = "run", benchmark: str | None = None) -> None:
    """Score runs against the items they asked, or (`gold` "current") against today's dataset. benchmark: the file that
    declares their benchmark, where it is none of tomserve's; nothing that a run folder names is run as code.

    Raises ConfigError where a run is of another benchmark than the file's.
    """
    given = benchmarks.get(benchmark) if benchmark is not None else None
    if gold not in ("run", "current"):
        raise ConfigError(one_of("gold", gold, ("run", "current")))
    if gold == "current" and out is None:
        raise ConfigError("--gold current writes no scores.parquet, which is the run's own; say where by --out FILE")
    if out is not None:
        _check_suffix(out)
    frames = []
    for run in runs:
        folder = existing_run(run)
        if given is not None:
            _check_benchmark(folder, given)
        _check_apart(out, folder / "items.jsonl", folder / "responses.jsonl", folder / "manifest.json")
        frames.append(_against_current(folder) if gold == "current" else scores_of(folder, fresh=True, note=warn))
        warn_gaps(folder, frames[-1])
        if (strange := unknown_statuses(frames[-1])) is not None:
            warn(f"{folder}: {strange}")
        right = frames[-1]["correct"].sum()
        kept = ", scores.parquet written" if gold == "run" else ""
        print(f"{folder}: {frames[-1].height} rows scored, {right} correct{kept}")
        if (floor := noise.line(frames[-1])) is not None:
            print(floor)
    if out is not None:
        write_scores(combining.combined(frames), out)
        print(f"written: {out}")


def _check_benchmark(folder: Path, given: Benchmark) -> None:
    asked = (read_manifest(folder) or {}).get("benchmark")
    if asked != given.name:
        raise ConfigError(f"--benchmark: {folder} asked the benchmark {asked!r}, {given.file} declares {given.name!r}")


def _against_current(folder: Path) -> pl.DataFrame:
    manifest = read_manifest(folder) or {}
    name, labels = str(manifest.get("benchmark", "")), manifest.get("benchmark_gold")
    if manifest.get("benchmark_file") and benchmarks.known(name) is None:
        raise ConfigError(f"{folder}: its benchmark {name!r} was declared in a file; give it by --benchmark FILE.py")
    current = list(benchmarks.load(name, _dataset(folder, manifest.get("benchmark_path")), labels))
    digest = items_digest(current)
    same = "the same" if digest == manifest.get("benchmark_digest") else f"the run's was {manifest['benchmark_digest']}"
    print(f"{folder}: scored against today's {manifest['benchmark']} ({digest}; {same})")
    with tempfile.TemporaryDirectory() as scratch:
        return score_run(folder, items=_as_file(current, Path(scratch)), note=warn)


def _dataset(folder: Path, given: Any) -> Path | None:
    """Where a manifest says that the dataset lay. Raises ConfigError for what could be read without an end."""
    if not given:
        return None
    if not isinstance(given, str) or (Path(given).exists() and not (Path(given).is_file() or Path(given).is_dir())):
        raise ConfigError(f"{folder / 'manifest.json'}: benchmark_path: {given!r:.200} is no file and no folder")
    return Path(given)


def _as_file(items: Sequence[Item], folder: Path) -> Path:
    path = folder / "items.jsonl"
    write_items(path, items)
    return path


def foreign(
    responses: Path,
    items: Path | None,
    benchmark: str | None,
    path: Path | None,
    out: Path | None,
    model: str | None,
    runs: Sequence[str],
    gold: str | None = None,
) -> None:
    """Score a JSONL of responses against a JSONL of items, or a benchmark (with answers `gold`), into a table."""
    if runs:
        raise ConfigError(f"give runs ({runs[0]}) or --responses, not both")
    if (items is None) == (benchmark is None):
        raise ConfigError("--responses needs either --items FILE or --benchmark NAME")
    for option, given in (("--path", path), ("--gold", gold)):
        if given is not None and benchmark is None:
            raise ConfigError(f"{option} belongs to --benchmark")
    if out is None:
        raise ConfigError("--responses needs --out FILE (.parquet, .csv or .jsonl)")
    _check_suffix(out)
    _check_apart(out, responses, items, path)
    with tempfile.TemporaryDirectory() as scratch:
        known = ItemFile(items or _as_file(list(benchmarks.load(str(benchmark), path, gold)), Path(scratch)))
        found = ResponseFile(responses, known, model or responses.stem, foreign=True)
        tell(warn, found)
        if found.repeated:
            warn(f"{responses}: {found.repeated} lines answer an item again; of each the last one counts")
        table = out if out.suffix == ".parquet" else Path(scratch) / "scores.parquet"
        try:
            with files.replacing(table) as file:
                write_scored(known, found, Path(file.name), run=responses.stem, rules=benchmarks.scoring)
        except OSError as error:
            raise ConfigError(f"{out}: cannot be written ({error.strerror})") from None
        if table != out:
            write_scores(pl.read_parquet(table), out)
        scores = pl.scan_parquet(table)
        if (strange := unknown_statuses(scores.select("status").collect())) is not None:
            warn(f"{responses}: {strange}")
        warn_gaps(out, scores.select("run", "model", "strategy", "item", "status", "answer", "correct").collect())
        rows, right = scores.select(pl.len(), pl.col("correct").sum()).collect().row(0)
        scorer = _scorer(scores)
    print(f"{responses}: {rows} rows scored, {right} correct\n{scorer}\nwritten: {out}")


def _scorer(scores: pl.LazyFrame) -> str:
    """Two facts in one line: how the replies were read and, where there are several sets of answers, which counted."""
    read = scores.group_by("parse").len().sort("len", "parse", descending=[True, False]).collect()
    listed = ", ".join(f"{parse or 'not at all'} {count}" for parse, count in read.iter_rows())
    golds: list[str] = []
    if (named := named_gold(scores.collect_schema().names())) is not None:
        golds = scores.select(named.unique().sort()).drop_nulls().collect()["gold"].to_list()
    return f"replies read as: {listed}" + (f"; compared with gold: {', '.join(golds)}" if golds else "")


def _check_apart(out: Path | None, *inputs: Path | None) -> None:
    for given in inputs:
        if out is not None and given is not None and out.resolve() == given.resolve():
            raise ConfigError(f"--out {out} would overwrite what is to be scored; choose another file")


def _check_suffix(path: Path) -> None:
    if path.suffix not in TABLES:
        raise ConfigError(f"{path}: unknown kind of table; known: {', '.join(TABLES)}")
