"""The scores of a run: computed from its folder, kept in ``scores.parquet``, and computed again when out of date.

The folder alone is enough to compute the table again, with the same bytes every time. The only exceptions are a
measured run, whose table is returned as it was measured (see tomserve.runs.measurement), and a benchmark that a user
declared in a file of his own, because nothing in a run folder is ever run as code. Where the journal has only grown
since, only the new rows are scored.

>>> scores_of(Path("runs/perturbed-2-reference")).select("strategy", "correct").head()           # doctest: +SKIP
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from tomserve import benchmarks
from tomserve.content import files, temporary
from tomserve.content.files import FileMark, digest_file, find_mark
from tomserve.runs import measurement, runfolder
from tomserve.runs.journal import journal_path
from tomserve.runs.manifest import Manifest
from tomserve.runs.runfolder import find_run
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


class PreviousTable(NamedTuple):
    """The table of a run that has grown since.

    table: the table, which has rows. mark: how far the journal had come. unread: the lines that could not be read, as
    tomserve.scoring.responses.Problems gives them.
    """

    table: pl.DataFrame
    mark: FileMark
    unread: Mapping[str, Any]


def read_row_facts(responses: ResponseFile, before: PreviousTable | None = None) -> dict[str, Any]:
    """What the record of a table says of the journal's rows: how many lines it had, whether each row alone is the reply
    to its question, and which lines could not be read.

    responses: the journal, after it was read. before: what it was read after, None where all of it was read.
    """
    problems = responses.problems if before is None else responses.problems.after(before.unread)
    return {"lines": responses.file.count, "alone": responses.alone, "unread": problems.as_json()}


def list_unread(folder: Path, rows: Mapping[str, Any]) -> Problems:
    """The lines of a run's journal that could not be read. rows: as `read_row_facts` gives them."""
    return Problems(folder / runfolder.JOURNAL).after(rows["unread"])


def find_previous_table(path: Path) -> PreviousTable | None:
    """The table at that path of a run folder, where it can be continued; None where it has to be made again.

    Raises ConfigError where the folder is no run.
    """
    record, folder = runfolder.read_table_record(path), path.parent
    if record is None or not isinstance(rows := record.get("rows"), dict) or not rows["alone"]:
        return None
    files = record["files"]
    there = runfolder.list_score_sources(folder)
    if set(there) != set(files) or NOISE in files or runfolder.JOURNAL not in files:
        return None
    try:
        table = path.read_bytes()
        same = [(name, *digest_file(folder / name)) for name in there if name != runfolder.JOURNAL]
        was = (runfolder.JOURNAL, files[runfolder.JOURNAL]["bytes"], files[runfolder.JOURNAL]["digest"])
        sources = replace(runfolder.ScoreSources.of_run(folder).with_files((*same, was)), rows=rows)
        if sources.record(table) != record:
            return None
        mark = find_mark(journal_path(folder), was[1], rows["lines"], was[2])
    except OSError:
        return None
    scores = None if mark is None else pl.read_parquet(table)
    if mark is None or scores is None or scores.is_empty():
        return None
    return PreviousTable(scores, mark, rows["unread"])


class ScoredRun(NamedTuple):
    """A run's score table, and the record of what it was made from (see tomserve.runs.runfolder)."""

    table: pl.DataFrame
    record: runfolder.Record


class RunReplies(NamedTuple):
    """The replies of a run, its items, and what else its scores are made from."""

    sources: runfolder.ScoreSources
    items: ItemFile
    responses: ResponseFile


def load_replies(folder: Path, items: Path | None = None, after: FileMark | None = None) -> RunReplies | None:
    """The replies of a run as they are scored; None where nothing was asked yet.

    folder: the run's folder. items: a JSONL file of items to score against instead of the run's own. after: the mark in
    the journal behind which replies are read, None for all. Raises ConfigError as `score_run` does, and for a measured
    run.
    """
    measurement.refuse_measured(folder, *_NO_REPLIES)
    sources, journal = runfolder.ScoreSources.of_run(folder), journal_path(folder)
    if not journal.exists():
        return None
    questions = ItemFile(items or folder / runfolder.ITEMS)
    return RunReplies(
        sources, questions, ResponseFile(journal, questions, sources.model, talking=sources.turns, after=after)
    )


_NO_REPLIES = ("has no replies to read", "`tomserve report RUN` shows what was measured")


def load_reader_choices(folder: Path) -> GraderChoices | None:
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
        return _score_into(scratch / runfolder.TABLE, folder, items=items, note=note).table


_NOT_SCORED = "cannot be scored again"


def write_scores(
    folder: Path,
    path: Path,
    *,
    items: Path | None = None,
    note: Note | None = None,
    before: PreviousTable | None = None,
) -> runfolder.ScoreSources:
    """Score a run into a Parquet file.

    folder: the run's folder. path: the file to write.
    items: a JSONL file of items to score against instead of the run's own.
    note: called with a sentence on each thing that could not be read. before: the run's table before it has grown; then
    only what is new is scored, if that is possible.

    Returns what the table was made from. Raises ConfigError as `score_run` does, OSError where the file cannot be
    written.
    """
    measurement.refuse_measured(folder, _NOT_SCORED)
    replies = load_replies(folder, items, before.mark if before is not None else None)
    if before is not None and replies is not None and not replies.responses.alone:
        before, replies = None, load_replies(folder, items)
    if replies is None:
        sources = runfolder.ScoreSources.of_run(folder)
        empty_table(sources.run).write_parquet(path)
        return sources
    sources, questions, responses = replies
    noise = folder / NOISE
    again = NoiseFile(noise, questions, sources.model, talking=sources.turns) if noise.exists() else None
    rows = read_row_facts(responses, before)
    _note_problems(note, list_unread(folder, rows), again.problems if again is not None else None)
    if note is not None and (missing := _missing_benchmark_file(Manifest.read(folder))):
        note(f"{folder}: {missing}")
    reader = load_reader_choices(folder)
    write_score_table(
        questions,
        responses,
        path,
        run=sources.run,
        chains=sources.chains,
        lettered=sources.lettered,
        noise=again,
        rules=benchmarks.scoring_of,
        reader=reader,
    )
    if before is not None:
        extend_score_table(before.table, pl.read_parquet(path.read_bytes()), path)
    read = [file.file for file in (responses, questions, again) if file is not None]
    sources = sources.with_snapshots([*read, *(reader.files if reader is not None else ())])
    return replace(sources, rows=None if again is not None else rows)


def _note_problems(note: Note | None, *problems: Problems | None) -> None:
    """Say in one line for each file which of its lines could not be read; say nothing where all of them could."""
    for found in problems:
        if note is not None and found:
            note(str(found))


def _score_into(
    path: Path,
    folder: Path,
    *,
    items: Path | None = None,
    note: Note | None = None,
    before: PreviousTable | None = None,
) -> ScoredRun:
    sources = write_scores(folder, path, items=items, note=note, before=before)
    table = path.read_bytes()
    return ScoredRun(pl.read_parquet(table), sources.record(table))


def _missing_benchmark_file(manifest: Manifest | None) -> str | None:
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
    return load_scored_run(folder, fresh=fresh, note=note).table


def load_scored_run(folder: Path, *, fresh: bool = False, note: Note | None = None) -> ScoredRun:
    """The same scores as `scores_of` returns, with the record of what they were made from.

    Where a table is kept and the run has only grown since, only what is new is scored (see tomserve.runs.scores).
    """
    path = folder / runfolder.TABLE
    if (manifest := measurement.measured_manifest(folder)) is not None:
        if fresh:
            measurement.refuse_measured(folder, _NOT_SCORED)
        return ScoredRun(*measurement.read_measurement(folder, manifest))
    if not fresh and (usable := runfolder.load_kept_table(path)) is not None:
        table, record = usable
        return ScoredRun(pl.read_parquet(table), record)
    before = None if fresh else find_previous_table(path)
    try:
        with files.replace_file(path) as file:
            made = _score_into(Path(file.name), folder, note=note, before=before)
    except OSError:  # the scores of a read-only folder can still be computed, only not kept
        with temporary.folder() as scratch:
            return _score_into(scratch / path.name, folder, note=note)
    runfolder.keep_table_record(path, made.record)
    return made


def current_scores(folder: Path, *, note: Note | None = None) -> pl.DataFrame:
    """The scores of a run as `scores_of` gives them, where all that could not be read is told again even if nothing has
    to be scored.

    folder: the run's folder. note: called with a sentence on each thing that could not be read. Raises ConfigError as
    `score_run` does.
    """
    found = runfolder.load_kept_table(folder / runfolder.TABLE)
    if found is None or (rows := found[1].get("rows")) is None:
        return scores_of(folder, fresh=found is not None, note=note)
    _note_problems(note, list_unread(folder, rows))
    if (
        note is not None
        and "benchmark_file" not in found[1]
        and (missing := _missing_benchmark_file(Manifest.read(folder)))
    ):
        note(f"{folder}: {missing}")
    return pl.read_parquet(found[0])


def read_current_record(folder: Path) -> runfolder.Record | None:
    """The record of a run's kept table where that table can be used as it is; None where it has to be made again.

    Raises ConfigError where the folder is no run, or its measured table is not the one that was measured.
    """
    if (manifest := measurement.measured_manifest(folder)) is not None:
        return measurement.read_table_bytes(folder, manifest)[1]
    found = runfolder.load_kept_table(folder / runfolder.TABLE)
    return None if found is None else found[1]


def load_scores(source: str | None, *, note: Note | None = None) -> pl.DataFrame:
    """The scores of a run, or of a file with a score table.

    source: a run's name or path, or a .parquet, .jsonl or .csv file; None for the newest run.
    note: called with a sentence on each thing that could not be read. Raises ConfigError where there is no such source.
    """
    if source is None or not source.endswith(TABLES):
        folder = find_run(source)
        return _warn_unknown(scores_of(folder, note=note), str(folder), note)
    return _warn_unknown(read_table(source), source, note)


def _warn_unknown(scores: pl.DataFrame, source: str, note: Note | None) -> pl.DataFrame:
    """The scores as they are, after `note` was told which of their statuses are unknown, if any."""
    if note is not None and (strange := unknown_statuses(scores)) is not None:
        note(f"{source}: {strange}")
    return scores
