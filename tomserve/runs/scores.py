"""The scores of a run: computed from its folder, kept there in ``scores.parquet``, and computed again when out of date.

The folder alone is enough to compute the table again, with the same bytes every time. The only exceptions are a
measured run, whose table is returned as it was measured (see tomserve.runs.measured), and a benchmark that a user
declared in a file of his own: its own metrics need that file (see tomserve.benchmarks.get), because nothing in a run
folder is ever run as code.

>>> scores_of(Path("runs/perturbed-2-reference")).select("strategy", "correct").head()           # doctest: +SKIP
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import polars as pl

from tomserve import benchmarks
from tomserve.content import files, temporary
from tomserve.content.files import FileMark
from tomserve.runs import grown, kept, measured, packed
from tomserve.runs.manifest import Manifest
from tomserve.runs.runfolder import existing_run
from tomserve.scoring.grades import GradeFiles, GraderChoices
from tomserve.scoring.responses import NOISE, ItemFile, NoiseFile, Problems, ResponseFile
from tomserve.scoring.table import (
    TABLES,
    Note,
    empty_table,
    extend_score_table,
    read_table,
    unknown_statuses,
    write_score_table,
)


class Scored(NamedTuple):
    """A run's score table, and the record of what it was made from (see tomserve.runs.kept)."""

    table: pl.DataFrame
    record: kept.Record


class Replies(NamedTuple):
    """The replies of a run, its items, and what else its scores are made from."""

    asked: kept.Sources
    items: ItemFile
    responses: ResponseFile


def replies_of(folder: Path, items: Path | None = None, after: FileMark | None = None) -> Replies | None:
    """The replies of a run as they are scored; None where nothing was asked yet.

    folder: the run's folder. items: a JSONL file of items to score against instead of the run's own. after: the mark in
    the journal behind which replies are read, None for all. Raises ConfigError as `score_run` does, and for a measured
    run.
    """
    measured.refuse(folder, *_NO_REPLIES)
    asked, journal = kept.Sources.asked(folder), packed.journal(folder)
    if not journal.exists():
        return None
    questions = ItemFile(items or folder / kept.ITEMS)
    return Replies(asked, questions, ResponseFile(journal, questions, asked.model, talking=asked.turns, after=after))


_NO_REPLIES = ("has no replies to read", "`tomserve report RUN` shows what was measured")


def reader_of(folder: Path) -> GraderChoices | None:
    """The choices of the model that reads for this run what the rules cannot; None where the rules alone read."""
    place = GradeFiles.of_run(folder)
    return GraderChoices(place) if place.record.exists() else None


def score_run(folder: Path, *, items: Path | None = None, note: Note | None = None) -> pl.DataFrame:
    """Score a run without keeping the table.

    folder: the run's folder. items: a JSONL file of items to score against instead of the run's own.
    note: called with a sentence on each thing that could not be read.

    Returns a table with one row for each item and strategy. Raises ConfigError where the folder is no run or a measured
    one, or its items are broken.
    """
    with temporary.folder() as scratch:
        return _scored_into(scratch / kept.TABLE, folder, items=items, note=note).table


_NOT_SCORED = "cannot be scored again"


def write_run(
    folder: Path,
    path: Path,
    *,
    items: Path | None = None,
    note: Note | None = None,
    before: grown.Before | None = None,
) -> kept.Sources:
    """Score a run into a Parquet file.

    folder: the run's folder. path: the file to write.
    items: a JSONL file of items to score against instead of the run's own.
    note: called with a sentence on each thing that could not be read. before: the run's table before it has grown; then
    only what is new is scored, if that is possible.

    Returns what the table was made from. Raises ConfigError as `score_run` does, OSError where the file cannot be
    written.
    """
    measured.refuse(folder, _NOT_SCORED)
    replies = replies_of(folder, items, before.mark if before is not None else None)
    if before is not None and replies is not None and not replies.responses.alone:
        before, replies = None, replies_of(folder, items)
    if replies is None:
        asked = kept.Sources.asked(folder)
        empty_table(asked.run).write_parquet(path)
        return asked
    asked, questions, responses = replies
    noise = folder / NOISE
    again = NoiseFile(noise, questions, asked.model, talking=asked.turns) if noise.exists() else None
    rows = grown.rows_of(responses, before)
    _tell(note, grown.unread_of(folder, rows), again.problems if again is not None else None)
    if note is not None and (missing := _not_at_hand(Manifest.read(folder))):
        note(f"{folder}: {missing}")
    reader = reader_of(folder)
    write_score_table(
        questions,
        responses,
        path,
        run=asked.run,
        chains=asked.chains,
        lettered=asked.lettered,
        again=again,
        rules=benchmarks.scoring_of,
        reader=reader,
    )
    if before is not None:
        extend_score_table(before.table, pl.read_parquet(path.read_bytes()), path)
    read = [file.file for file in (responses, questions, again) if file is not None]
    asked = asked.read([*read, *(reader.files if reader is not None else ())])
    return replace(asked, rows=None if again is not None else rows)


def _tell(note: Note | None, *problems: Problems | None) -> None:
    """Say in one line for each file which of its lines could not be read; say nothing where all of them could."""
    for found in problems:
        if note is not None and found:
            note(str(found))


def _scored_into(
    path: Path,
    folder: Path,
    *,
    items: Path | None = None,
    note: Note | None = None,
    before: grown.Before | None = None,
) -> Scored:
    sources = write_run(folder, path, items=items, note=note, before=before)
    table = path.read_bytes()
    return Scored(pl.read_parquet(table), sources.record(table))


def _not_at_hand(manifest: Manifest | None) -> str | None:
    """The sentence for a run whose benchmark is declared in a file that was not given; else None."""
    if manifest is None or manifest.benchmark_file is None or benchmarks.find(manifest.benchmark) is not None:
        return None
    name, file = manifest.benchmark, str(manifest.benchmark_file.get("name"))
    file = file if re.fullmatch(r"[\w.-]{1,100}\.py", file) else "FILE.py"  # the manifest may come from somebody else
    return (
        f"scored with the standard metrics alone, as the file of its benchmark {name!r} is not at hand; for the "
        f"benchmark's own run `tomserve score RUN --benchmark {file}`"
    )


def scores_of(folder: Path, *, fresh: bool = False, note: Note | None = None) -> pl.DataFrame:
    """The scores of a run, computed only where that is needed.

    The table kept in ``scores.parquet`` is used if ``scores.json`` beside it proves that the same version of tomserve
    of the same user made it from exactly the files that the folder holds now. Otherwise the scores are computed again,
    and kept.

    folder: the run's folder. fresh: whether to compute them again in any case.
    note: called with a sentence on each thing that could not be read. Raises ConfigError as `score_run` does; for a
    measured run only where its table is not the one that was measured, or is to be made afresh.
    """
    return scored(folder, fresh=fresh, note=note).table


def scored(folder: Path, *, fresh: bool = False, note: Note | None = None) -> Scored:
    """The same scores as `scores_of` returns, with the record of what they were made from.

    Where a table is kept and the run has only grown since, only what is new is scored (see tomserve.runs.grown).
    """
    path = folder / kept.TABLE
    if (manifest := measured.manifest_of(folder)) is not None:
        if fresh:
            measured.refuse(folder, _NOT_SCORED)
        return Scored(*measured.read(folder, manifest))
    if not fresh and (usable := kept.believed(path)) is not None:
        table, record = usable
        return Scored(pl.read_parquet(table), record)
    before = None if fresh else grown.before_growth(path)
    try:
        with files.replace_file(path) as file:
            made = _scored_into(Path(file.name), folder, note=note, before=before)
    except OSError:  # the scores of a read-only folder can still be computed, only not kept
        with temporary.folder() as scratch:
            return _scored_into(scratch / path.name, folder, note=note)
    kept.keep(path, made.record)
    return made


def current_scores(folder: Path, *, note: Note | None = None) -> pl.DataFrame:
    """The scores of a run as `scores_of` gives them, where all that could not be read is told again even if nothing has
    to be scored.

    folder: the run's folder. note: called with a sentence on each thing that could not be read. Raises ConfigError as
    `score_run` does.
    """
    found = kept.believed(folder / kept.TABLE)
    if found is None or (rows := found[1].get("rows")) is None:
        return scores_of(folder, fresh=found is not None, note=note)
    _tell(note, grown.unread_of(folder, rows))
    if note is not None and "benchmark_file" not in found[1] and (missing := _not_at_hand(Manifest.read(folder))):
        note(f"{folder}: {missing}")
    return pl.read_parquet(found[0])


def usable(folder: Path) -> kept.Record | None:
    """The record of a run's kept table where that table can be used as it is; None where it has to be made again.

    Raises ConfigError where the folder is no run, or its measured table is not the one that was measured.
    """
    if (manifest := measured.manifest_of(folder)) is not None:
        return measured.stored(folder, manifest)[1]
    found = kept.believed(folder / kept.TABLE)
    return None if found is None else found[1]


def load_scores(source: str | None, *, note: Note | None = None) -> pl.DataFrame:
    """The scores of a run, or of a file with a score table.

    source: a run's name or path, or a .parquet, .jsonl or .csv file; None for the newest run.
    note: called with a sentence on each thing that could not be read. Raises ConfigError where there is no such source.
    """
    if source is None or not source.endswith(TABLES):
        folder = existing_run(source)
        return _noted(scores_of(folder, note=note), str(folder), note)
    return _noted(read_table(source), source, note)


def _noted(scores: pl.DataFrame, source: str, note: Note | None) -> pl.DataFrame:
    """The scores as they are, after `note` was told which of their statuses are unknown, if any."""
    if note is not None and (strange := unknown_statuses(scores)) is not None:
        note(f"{source}: {strange}")
    return scores
