"""The scores of a run: computed from its folder, kept in the user's cache, and exported as ``scores.parquet``.

A table is kept under a digest of what it was made from: the bytes of the run's files, what the manifest says of its
strategies, and the code that scores. The copy in the folder is never read, except that of a measured run, whose table
is returned as it was measured (see tomserve.runs.measurement). The same files give the same bytes every time. A
benchmark that a user declared in a file of his own is scored by its own metrics only where that file was given, since
nothing in a run folder is ever run as code.

>>> scores_of(Path("runs/perturbed-2-reference")).select("strategy", "correct").head()           # doctest: +SKIP
"""

import io
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import polars as pl

from tomserve import benchmarks
from tomserve.content import cache, files
from tomserve.content.files import changed_error, digest_bytes
from tomserve.content.paths import run_name
from tomserve.errors import ConfigError
from tomserve.runs import journal, measurement, runfolder
from tomserve.runs.manifest import Manifest
from tomserve.runs.runfolder import Record, find_run
from tomserve.scoring import grades, version
from tomserve.scoring.grades import GradeFiles, GraderChoices
from tomserve.scoring.responses import NOISE, ItemFile, NoiseFile, Problems, ResponseFile
from tomserve.scoring.table import TABLES, Note, empty_table, read_table, unknown_statuses, write_score_table


class ScoredRun(NamedTuple):
    """A run's score table, what it was made from, by file which lines could not be read (Problems.as_json), and whether
    its folder holds the table."""

    table: pl.DataFrame
    record: Record
    unread: Mapping[str, Any] = {}
    exported: bool = True


class RunReplies(NamedTuple):
    """The replies of a run, its items, and what else its scores are made from (a Record without files and table)."""

    sources: dict[str, Any]
    items: ItemFile
    responses: ResponseFile


def _describe(folder: Path) -> dict[str, Any]:
    runfolder.check_files(folder)
    manifest = Manifest.load(folder)
    benchmark = benchmarks.find(manifest.benchmark)
    strategies = sorted(manifest.strategies.items())
    return {
        "schema": 1,
        "run": run_name(folder),
        "model": manifest.model,
        "chains": [name for name, strategy in strategies if strategy.chain],
        "turns": {name: strategy.turns for name, strategy in strategies if strategy.turns != 1},
        "lettered": [name for name, strategy in strategies if strategy.lettered],
        "benchmark_file": benchmark.digest if benchmark is not None else None,
        "scorer": version.SCORER,
    }


def _place(sources: Mapping[str, Any]) -> Path:
    """Where the table of these sources is kept."""
    named = {name: value for name, value in sources.items() if name not in ("benchmark_file", "table")}
    return cache.place("scores", orjson.dumps(named, option=orjson.OPT_SORT_KEYS))


def _find_kept(folder: Path) -> tuple[dict[str, Any], bytes] | None:
    """What is kept of the table of a run as its files are now: its head (`record`, `unread`, `own`: the
    benchmarks in its items that are not built in) and its bytes."""
    sources = _describe(folder)
    try:
        # of a reader's files only where one is in use
        read = (grades.JOURNAL, grades.RECORD) if (folder / grades.RECORD).exists() else ()
        own = [runfolder.JOURNAL] if journal.has_journal(folder) else []
        names = [*own, *(name for name in (runfolder.ITEMS, NOISE, *read) if (folder / name).exists())]
        measured = {name: journal.measure_file(folder / name) for name in names}
    except OSError:
        return None
    described = {name: {"bytes": size, "digest": digest} for name, (size, digest) in measured.items()}
    if (file := cache.find(place := _place({**sources, "files": described}))) is None:
        return None
    with file:
        line, table = file.readline(), file.read()
    try:
        head = orjson.loads(line)
        if _place(head["record"]) != place or digest_bytes(table) != head["record"]["table"]:
            return None
    except (orjson.JSONDecodeError, TypeError, KeyError, AttributeError):
        return None  # as a disk may leave it
    before: Mapping[str, str | None] = head.get("own", {})
    now = _own_files(before)  # where a file is not at hand, what it gave before stays
    same = all(now[name] in (None, digest) for name, digest in before.items())
    return (head, table) if same and sources["benchmark_file"] in (None, head["record"]["benchmark_file"]) else None


def _own_files(names: Iterable[str]) -> dict[str, str | None]:
    """Of the benchmarks of these names those that are not built in, with the digests of their files that are at
    hand."""
    own = {name: benchmarks.find(name) for name in names if name not in benchmarks.modules()}
    return {name: None if found is None else found.digest for name, found in own.items()}


def load_replies(folder: Path, items: Path | None = None) -> RunReplies | None:
    """The replies of a run as they are scored; None where nothing was asked yet. items: a JSONL file of items to score
    against instead of the run's own. Raises ConfigError as `score_run` does."""
    measurement.refuse_measured(folder, "has no replies to read", "`tomserve report RUN` shows what was measured")
    sources, path = _describe(folder), journal.journal_path(folder)
    if not path.exists():
        return None
    questions = ItemFile(items or folder / runfolder.ITEMS)
    responses = ResponseFile(path, questions, sources["model"], talking=sources["turns"])
    if responses.graded and Manifest.load(folder).foreign is None:
        raise ConfigError(
            f"{path}: replies have marks of another tool (graded), and the manifest names none; bring "
            "that tool's files in by `tomserve import`"
        )
    return RunReplies(sources, questions, responses)


def load_reader_choices(folder: Path) -> GraderChoices | None:
    """The choices of the model that reads for this run what the rules cannot; None where the rules alone read."""
    place = GradeFiles.of_run(folder)
    return GraderChoices(place) if place.record.exists() else None


def _score(path: Path, folder: Path, items: Path | None = None, note: Note | None = None) -> dict[str, Any]:
    """Score a run into a Parquet file; returns its head as `_find_kept` does."""
    measurement.refuse_measured(folder, "cannot be scored again")
    replies = load_replies(folder, items)
    if replies is None:
        sources = {**_describe(folder), "files": {}}
        empty_table(sources["run"]).write_parquet(path)
        return {"record": {**sources, "table": digest_bytes(files.read_bytes(path))}, "unread": {}}
    sources, questions, responses = replies
    noise = folder / NOISE
    again = NoiseFile(noise, questions, sources["model"], talking=sources["turns"]) if noise.exists() else None
    unread = {file.problems.path.name: file.problems.as_json() for file in (responses, again) if file is not None}
    _tell(folder, sources["benchmark_file"], unread, note)
    reader = load_reader_choices(folder)
    write_score_table(
        questions,
        responses,
        path,
        run=sources["run"],
        chains=sources["chains"],
        lettered=sources["lettered"],
        noise=again,
        rules=benchmarks.scoring_of,
        reader=reader,
    )
    read = [one.file for one in (responses, questions, again) if one is not None]
    for file in (read := [*read, *(reader.files if reader is not None else ())]):
        if not file.is_unchanged():  # the table would mix two states of it
            raise changed_error(file.path)
    described = {file.path.name: {"bytes": file.size, "digest": file.digest} for file in read}
    record = {**sources, "files": described, "table": digest_bytes(files.read_bytes(path))}
    return {"record": record, "unread": unread, "own": _own_files(questions.benchmarks)}


def score_run(folder: Path, *, items: Path | None = None, note: Note | None = None) -> pl.DataFrame:
    """Score a run without keeping the table. items: a JSONL file of items to score against instead of the run's own.
    note: called with a sentence on each file that could not be read as a whole. Raises ConfigError where the folder is
    no run or a measured one, or its items are broken."""
    with files.temporary_folder() as scratch:
        _score(scratch / runfolder.TABLE, folder, items, note)
        return files.scan_parquet(scratch / runfolder.TABLE).collect()


def _tell(folder: Path, benchmark_file: str | None, unread: Mapping[str, Any], note: Note | None) -> None:
    """Say in one line for each file which of its lines could not be read, and where the benchmark's file is missing."""
    if note is None:
        return
    for name, counted in unread.items():
        if counted:
            note(str(Problems.from_json(folder / name, counted)))
    manifest = Manifest.read(folder)
    if benchmark_file is not None or manifest is None or manifest.benchmark_file is None:
        return
    if benchmarks.find(manifest.benchmark) is None:
        file = str(manifest.benchmark_file.get("name"))
        file = file if re.fullmatch(r"[\w.-]{1,100}\.py", file) else "FILE.py"  # it may come from somebody else
        note(
            f"{folder}: scored with the standard metrics alone, as the file of its benchmark {manifest.benchmark!r} is "
            f"not at hand; for the benchmark's own run `tomserve score RUN --benchmark {file}`"
        )


def load_scored_run(folder: Path, *, note: Note | None = None, again: bool = False) -> ScoredRun:
    """The scores of a run and what they were made from, computed only where they are not kept; exported to its folder
    where that can be written. note: called with a sentence on each file that could not be read as a whole; again: also
    where nothing has to be scored. Raises ConfigError as `score_run` does; for a measured run only where its table is
    not the one that was measured."""
    if (manifest := measurement.measured_manifest(folder)) is not None:
        return ScoredRun(*measurement.read_measurement(folder, manifest))
    if (kept := _find_kept(folder)) is not None:
        head, table = kept
        if again:
            _tell(folder, head["record"]["benchmark_file"], head["unread"], note)
    else:
        with files.temporary_folder() as scratch:
            head = _score(scratch / runfolder.TABLE, folder, note=note)
            table = files.read_bytes(scratch / runfolder.TABLE)
        cache.keep(_place(head["record"]), orjson.dumps(head, option=orjson.OPT_APPEND_NEWLINE), table)
    exported = True
    try:
        _export(folder, head, table)
    except OSError:  # a read-only folder
        exported = False
    return ScoredRun(pl.read_parquet(io.BytesIO(table)), head["record"], head["unread"], exported)


def _export(folder: Path, head: Mapping[str, Any], table: bytes) -> None:
    path = folder / runfolder.TABLE
    if not path.exists() or files.digest_file(path)[1] != head["record"]["table"]:
        files.replace_bytes(path, table)


def export_scores(folder: Path) -> bool:
    """Make ``scores.parquet`` in a run's folder that of its files as they are, where its scores are kept. Returns
    whether they are. Raises ConfigError where the folder is no run, OSError where the file cannot be written."""
    if (kept := _find_kept(folder)) is not None:
        _export(folder, *kept)
    return kept is not None


def scores_of(folder: Path, *, note: Note | None = None) -> pl.DataFrame:
    """The scores of a run; arguments and errors: see `load_scored_run`."""
    return load_scored_run(folder, note=note).table


def read_current_record(folder: Path) -> Record | None:
    """What the scores of a run were made from, where they are kept; None where they have to be made. Raises ConfigError
    where the folder is no run, or its measured table is not the one that was measured."""
    if (manifest := measurement.measured_manifest(folder)) is not None:
        return measurement.read_table_bytes(folder, manifest)[1]
    kept = _find_kept(folder)
    return None if kept is None else kept[0]["record"]


def kept_scores(folder: Path) -> pl.DataFrame | None:
    """The scores of a run as its files are now, where they are kept; None where they have to be made. Raises
    ConfigError where the folder is no run."""
    kept = _find_kept(folder)
    return None if kept is None else pl.read_parquet(io.BytesIO(kept[1]))


def load_scores(source: str | None, *, note: Note | None = None) -> pl.DataFrame:
    """The scores of a run (name or path; None for the newest), or of a .parquet, .jsonl or .csv file. note: called with
    a sentence on each thing that could not be read. Raises ConfigError where there is no such source."""
    if source is None or not source.endswith(TABLES):
        folder = find_run(source)
        scores, source = scores_of(folder, note=note), str(folder)
    else:
        scores = read_table(source)
    if note is not None and (strange := unknown_statuses(scores)) is not None:
        note(f"{source}: {strange}")
    return scores
