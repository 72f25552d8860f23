"""Scoring and loading for the commands that read runs: runs, shards and tables, foreign replies, and --reader.

What asks a model is imported where one is asked, since every command that reads scores comes by here.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from tomserve import benchmarks
from tomserve.cli.options import console
from tomserve.cli.output import tell_unread, warn, warn_gaps
from tomserve.content import files, output_path
from tomserve.content.paths import PARTS_ENDING, run_name, run_place
from tomserve.content.text import say
from tomserve.content.validation import is_own_dataset
from tomserve.errors import ConfigError, one_of
from tomserve.items import Item, write_items
from tomserve.runs import measurement
from tomserve.runs.item_store import ItemStore
from tomserve.runs.runfolder import find_run, read_manifest
from tomserve.runs.scores import load_replies, load_scored_run, load_scores, score_run, scores_of
from tomserve.scoring.grades import GradeFiles, GraderChoices
from tomserve.scoring.responses import ItemFile, ResponseFile
from tomserve.scoring.score import PARTIAL
from tomserve.scoring.table import (
    TABLES,
    gold_column,
    report_problems,
    unknown_statuses,
    write_score_table,
    write_scores,
)
from tomserve.studies import Analysis, comparison, compute, missing_data, noise, relabel, study_of_manifests
from tomserve.studies.analysis import compute_files
from tomserve.studies.comparability import unlike_notes
from tomserve.studies.missing_data import UnreadReplies

if TYPE_CHECKING:
    from tomserve.distributed.shards import Partitions, ScoredParts
    from tomserve.runs.grader import Reader


NONE = "none"
"""What --reader is given to go back to the rules alone."""


@dataclass(frozen=True)
class ReaderOptions:
    """What the user wants of a reader, a model that reads what the rules cannot."""

    given: str | None = None  # its address or name, NONE to use none any more, None where nothing was said
    model: str | None = None  # which of the models at the address
    sample: int | None = None  # how many replies that the rules have read it reads, too
    own: bool = False  # whether it may be the evaluated model

    def prepare(self, place: GradeFiles) -> None:
        """Go back to the rules alone where the user wants that. place: where the reader's choices are kept."""
        if self.given == NONE:
            from tomserve.runs import grader

            if grader.forget_reader(place):
                say(f"reader: not used any more; its choices stay in {place.journal}")

    def found(self) -> Reader | None:
        """The reader; None where none is wanted. Raises ConfigError for options that belong to --reader."""
        if self.given is not None and self.given != NONE:
            from tomserve.runs import grader
            from tomserve.serving.probe import WaitPolicy

            return grader.find_reader(self.given, self.model, WaitPolicy(note=lambda text: say(text, error=True)))
        if self.model is not None or self.sample is not None or self.own:
            raise ConfigError(
                "--reader-model, --reader-sample and --reader-may-be-evaluated-model belong to --reader URL or MODEL"
            )
        return None

    def read(self, found: Reader, what: Path | tuple[ItemFile, ResponseFile], place: GradeFiles) -> int:
        """Have the reader read what the rules cannot read, of a run or of another tool's replies, and say what came of
        it. Returns 1 where it did not reply about some of it, else 0."""
        from tomserve.cli import interrupts
        from tomserve.reporting.progress import RunScreen
        from tomserve.runs import grader

        drive, screen = interrupts.ask_with_signals, RunScreen(console())
        size = grader.SAMPLE if self.sample is None else self.sample
        if isinstance(what, Path):
            outcome = grader.read_run(what, found, sample=size, own=self.own, listener=screen, drive=drive)
        else:
            survey = grader.Survey(*what, benchmarks.scoring_of, size)
            outcome = grader.read_replies(grader.ReadingJob(found, survey, place, screen, own=self.own), drive)
        for line in outcome.lines():
            say(line)
        return int(bool(outcome.failures))


NO_READER = ReaderOptions()


def find_parts(run: str | None) -> Path | None:
    """The folder of the parts of an evaluation that a RUN on the command line names; None for everything else."""
    if run is None or run.endswith(TABLES) or _is_plain(run):
        return None
    from tomserve.distributed.shards import parts_folder

    return parts_folder(run)


def find_table_files(run: str) -> Partitions | None:
    """The tables of a RUN on the command line that is a folder or a pattern of files; None for everything else."""
    if _is_plain(run):
        return None
    from tomserve.distributed.shards import find_tables

    return find_tables(run)


def _is_plain(run: str) -> bool:
    """Whether this can only be a run or a single table, for which nothing about parts is imported: that takes long."""
    path = Path(run).expanduser()
    if run.endswith(TABLES):
        return path.exists() or not set(run) & set("*?[")
    return (path / "manifest.json").exists() or not (path.is_dir() or Path(run).name.endswith(PARTS_ENDING))


def find_tables(run: str | None) -> Partitions | None:
    """The score tables of a RUN on the command line that lie in many files; None for a run or a single table.

    Parts of an evaluation that are not scored yet, or whose table is outdated, are scored first. Raises ConfigError
    where nothing is left to read.
    """
    if run is None:
        return None
    if (folder := find_parts(run)) is None:
        return find_table_files(run)
    from tomserve.distributed.shards import find_part_tables

    return find_part_tables(folder, score_missing(folder).there)


def score_missing(folder: Path) -> ScoredParts:
    """Score the parts of an evaluation that are not scored yet, with a line of progress where that takes a while. Warns
    of parts that have no answers and of those that cannot be scored."""
    from tomserve.distributed.shards import score_parts
    from tomserve.reporting.progress import ScoringBar

    with ScoringBar() as screen:
        done = score_parts(folder, note=warn, done=screen.done)
    for number, reason in sorted(done.broken.items()):
        warn(f"part {number}: {reason}")
    if done.waiting:
        numbers = ", ".join(map(str, done.waiting[:10])) + (", ..." if len(done.waiting) > 10 else "")
        total = len(done.there) + len(done.waiting) + len(done.broken)
        warn(
            f"{folder}: {len(done.waiting)} of {total} parts hold no answers yet (part {numbers}); "
            f"`tomserve work {folder.name.removesuffix(PARTS_ENDING)}` asks them"
        )
    return done


def score_and_tell(folder: Path) -> tuple[int, list[missing_data.Gaps]]:
    """Score the parts of an evaluation, and say what became of them.

    Returns the exit code, 1 where a part could not be scored, and what is lacking of the parts that were.
    """
    from tomserve.distributed.shards import find_part_tables

    done = score_missing(folder)
    lacking: list[missing_data.Gaps] = []
    if done.there:
        tables = find_part_tables(folder, done.there)
        rows, right = tables.scan().select(pl.len(), pl.col("correct").sum()).collect(engine="streaming").row(0)
        lacking = warn_lacking(tables)
        current = f", {len(done.current)} of them were scored before" if done.current else ""
        counted = f"{rows} answers, {right} correct; written: scores.parquet of each"
        say(f"{folder}: {len(done.there)} parts scored{current}: {counted}")
    return int(bool(done.broken)), lacking


def warn_lacking(tables: Partitions) -> list[missing_data.Gaps]:
    """Warn of what is lacking of score tables in many files, which are read one after the other; returns it."""
    lacking = missing_data.gaps_of_tables(tables.source, (tables.scan([path]) for path in tables.files))
    if tables.folder is not None:
        lacking = [_of_parts(gap, tables.folder) for gap in lacking]
    for said in missing_data.gap_sentences(lacking):
        warn(said)
    return lacking


def _of_parts(gap: missing_data.Gaps, folder: Path) -> missing_data.Gaps:
    """What is lacking of parts, whose record says how many answers there are to be."""
    from tomserve.distributed.shards import Shards

    shards = Shards.read(folder)
    wanted = sum(part.items for part in shards.parts) * len(shards.strategies)
    if gap.answered < wanted:
        name = folder.name.removesuffix(PARTS_ENDING)
        warn(
            f"{folder} is incomplete: {wanted - gap.answered:,} of {wanted:,} answers have not been asked yet, and "
            f"the results so far may not be representative. `tomserve work {name}` asks them."
        )
    return replace(gap, wanted=None)


class LoadedScores(NamedTuple):
    """The scores of several runs and score tables in one table, and what is lacking of each of them; where all of them
    are measured runs, also the study that they name."""

    scores: pl.DataFrame
    lacking: list[missing_data.Gaps]
    named: str | None


def load_sources(runs: Sequence[str | None], labels: Sequence[str] = ()) -> LoadedScores:
    """The scores of runs and score tables in one table, after warnings of what is lacking of each, of runs that are
    counted as one model, and of those that may not stand beside others. labels: texts RUN=NAME that rename models."""
    frames, manifests, lacking = [], {}, []
    for run in runs:
        if (tables := find_tables(run)) is not None:
            with tables.name_damaged():
                frames.append(tables.scan().collect(engine="streaming"))
            lacking += warn_lacking(tables)
            continue
        source = run if run is not None and run.endswith(TABLES) else find_run(run)
        frames.append(load_scores(None if run is None else str(run), note=warn))
        lacking += warn_gaps(source, frames[-1])
        if isinstance(source, Path):
            if (name := run_name(source)) in manifests:  # another run is called so, too
                name = run_place(source)
                frames[-1] = frames[-1].with_columns(run=pl.lit(name))
            manifests[name] = read_manifest(source) or {}
    scores = relabel(comparison.combine_scores(frames), labels)
    for said in (*comparison.same_model_notes(scores, manifests), *unlike_notes(scores, manifests)):
        warn(said)
    return LoadedScores(
        scores, lacking, study_of_manifests(manifests.values()) if len(manifests) == len(runs) else None
    )


def analyze_sources(
    runs: Sequence[str | None], study: str | None, intervals: str | None, by: Sequence[str], labels: Sequence[str]
) -> tuple[Analysis, list[missing_data.Gaps]]:
    """What a study says of runs and score tables, after warnings of what is lacking of each; and what is lacking.

    A single source that lies in many files is counted file by file (see tomserve.studies.analysis).
    """
    if len(runs) == 1 and not labels and (tables := find_tables(runs[0])) is not None:
        with tables.name_damaged():
            lacking = warn_lacking(tables)
            files = [tables.scan([path]) for path in tables.files]
            return compute_files(files, study, intervals, by, note=warn), lacking
    scores, lacking, named = load_sources(runs, labels)
    if scores.is_empty():
        raise ConfigError(
            f"{', '.join(map(str, runs)) if runs != (None,) else 'the newest run'}: nothing was answered yet"
        )
    return compute(scores, study, intervals, by, named=named), lacking


def list_inputs(runs: Sequence[str | None]) -> list[Path]:
    """The folders of these runs, and the files of these score tables, which must not be overwritten."""
    read: list[Path] = []
    for run in runs:
        if (folder := find_parts(run)) is not None:
            read += (folder, *sorted(one for one in folder.iterdir() if one.is_dir()))
        elif run is not None and (tables := find_table_files(run)) is not None:
            read += tables.files
        else:
            read.append(Path(run) if run is not None and run.endswith(TABLES) else find_run(run))
    return read


def load_answers(source: str) -> pl.DataFrame:
    """The scores of a run or a score table. Raises ConfigError where it holds a measurement and no answers."""
    if not source.endswith(TABLES):
        measurement.refuse_measured(find_run(source), "says nothing of how answers spread", "give a run of answers")
    return load_scores(source, note=warn)


def score_runs(
    runs: Sequence[str | None],
    out: Path | None,
    gold: str = "run",
    benchmark: str | None = None,
    wishes: ReaderOptions = NO_READER,
    path: Path | None = None,
) -> int:
    """Score runs against the items they asked, or (`gold` "current") against today's dataset. benchmark: the file that
    declares their benchmark, where it is none of tomserve's; nothing that a run folder names is run as code.

    wishes: who reads what the rules cannot. path: the file or folder of today's dataset. Returns the exit code: 1 where
    the reader did not reply about a reply, else as tell_unread. Raises ConfigError where a run is of another benchmark
    than the file's.
    """
    given = benchmarks.get(benchmark) if benchmark is not None else None
    if gold not in ("run", "current"):
        raise ConfigError(one_of("gold", gold, ("run", "current")))
    if gold != "current" and path is not None:
        raise ConfigError("--path belongs to --responses FILE or --gold current")
    if gold == "current" and out is None:
        raise ConfigError("--gold current writes no scores.parquet, which is the run's own; say where by --out FILE")
    if out is not None:
        _check_suffix(out)
        output_path.check_output(out, *list_inputs(runs))
    frames, lacking, code, reader = [], [], 0, wishes.found()
    for run in runs:
        if (folder_of_parts := find_parts(run)) is not None:
            if gold == "current" or reader is not None:
                raise ConfigError(f"{run}: --gold current and --reader work on one run; `tomserve merge` makes it")
            broken, gaps_of_parts = score_and_tell(folder_of_parts)
            code |= broken
            lacking += gaps_of_parts
            if out is not None and (tables := find_tables(run)) is not None:
                frames.append(tables.scan().collect(engine="streaming"))
            continue
        folder = find_run(run)
        measurement.refuse_measured(folder, "cannot be scored again")
        if given is not None and (asked := (read_manifest(folder) or {}).get("benchmark")) != given.name:
            raise ConfigError(
                f"--benchmark: {folder} asked the benchmark {asked!r}, {given.file} declares {given.name!r}"
            )
        wishes.prepare(place := GradeFiles.of_run(folder))
        if reader is not None:
            code |= wishes.read(reader, folder, place)
        scored = None if gold == "current" else load_scored_run(folder, note=warn, again=True)
        frames.append(_against_current(folder, path) if scored is None else scored.table)
        lacking += warn_gaps(folder, frames[-1])
        if (strange := unknown_statuses(frames[-1])) is not None:
            warn(f"{folder}: {strange}")
        right = frames[-1]["correct"].sum()
        kept = ""
        if scored is not None:
            kept = f"; written: {folder / 'scores.parquet'}" if scored.exported else "; its folder is read-only"
        say(f"{folder}: {frames[-1].height} answers scored, {right} correct{kept}")
        if (floor := noise.noise_line(frames[-1])) is not None:
            say(floor)
    if out is not None:
        write_scores(comparison.combine_scores(frames), out)
        say(f"written: {out}")
    return code | tell_unread(lacking)


def _against_current(folder: Path, path: Path | None) -> pl.DataFrame:
    manifest = read_manifest(folder) or {}
    name, labels = str(manifest.get("benchmark", "")), manifest.get("benchmark_gold")
    if (benchmark := benchmarks.find(name)) is None:  # a name of the run's own choice could be the path of a program
        raise ConfigError(
            f"{folder}: its benchmark {name!r:.80} is none of tomserve's; was it declared in a file, give it by "
            "--benchmark FILE.py"
        )
    path = path or _dataset(folder, manifest.get("benchmark_path"))
    current = ItemStore(benchmark.items(path, labels, benchmarks.ALL))
    digest = current.digest()
    was = manifest.get("benchmark_digest")
    same = "the same" if digest == was else f"the run's was {was or 'not recorded'}"
    say(f"{folder}: scored against today's {name} ({digest}; {same})")
    with files.temporary_folder() as scratch:
        return score_run(folder, items=_as_file(current, scratch), note=warn)


def _dataset(folder: Path, given: Any) -> Path | None:
    """Where a manifest says that the dataset lay. Raises ConfigError for what this user has never named."""
    if not given:
        return None
    if not isinstance(given, str) or not is_own_dataset(given):
        raise ConfigError(
            f"{folder / 'manifest.json'}: benchmark_path: names {given!r:.200}, which you have not given to a command "
            "here; a stranger's manifest opens no file, so give it by --path"
        )
    return Path(given).expanduser()


def _as_file(items: Iterable[Item], folder: Path) -> Path:
    path = folder / "items.jsonl"
    write_items(path, items)  # as they are read: many items need not be in memory together
    return path


def score_file(
    responses: Path,
    items: Path | None,
    benchmark: str | None,
    path: Path | None,
    out: Path | None,
    model: str | None,
    runs: Sequence[str],
    gold: str | None = None,
    wishes: ReaderOptions = NO_READER,
) -> int:
    """Score a JSONL of responses against a JSONL of items, or a benchmark (with answers `gold`), into a table.

    wishes: who reads what the rules cannot. Returns the exit code, as `score_runs` does.
    """
    if runs:
        raise ConfigError(f"give runs ({runs[0]}) or --responses, not both")
    _check_asked("--responses", items, benchmark, path, gold)
    if out is None:
        raise ConfigError("--responses needs --out FILE (.parquet, .csv or .jsonl)")
    _check_suffix(out)
    output_path.check_output(out, responses, items, path)
    place, reader, code = GradeFiles.next_to(out), wishes.found(), 0
    with files.temporary_folder() as scratch:
        known = _known(items, benchmark, path, gold, scratch)
        found = ResponseFile(responses, known, model or responses.stem, foreign=True)
        report_problems(warn, found)
        if found.repeated:
            warn(f"{responses}: {found.repeated} lines answer an item again; of each the last one counts")
        wishes.prepare(place)
        if reader is not None:
            code = wishes.read(reader, (known, found), place)
        choices = GraderChoices(place) if place.record.exists() else None
        table = scratch / "scores.parquet"
        try:
            write_score_table(known, found, table, run=responses.stem, rules=benchmarks.scoring_of, reader=choices)
            if out.suffix == ".parquet":
                with (
                    output_path.open_output(out, responses, items, path) as file,
                    files.open_for_reading(table) as source,
                ):
                    shutil.copyfileobj(source, file, 1 << 20)
        except OSError as error:
            raise ConfigError(f"{out}: cannot be written ({error.strerror or error})") from None
        if out.suffix != ".parquet":
            write_scores(files.scan_parquet(table).collect(), out)
        scores = files.scan_parquet(table)
        if (strange := unknown_statuses(scores.select("status").collect())) is not None:
            warn(f"{responses}: {strange}")
        named = ("--items", items) if items is not None else ("--benchmark", benchmark)
        given = " ".join(
            map(missing_data.shell_argument, (responses, *map(str, named), *(("--path", path) if path else ())))
        )
        there = [name for name in _COUNTED if name in scores.collect_schema().names()]
        lacking = warn_gaps(out, scores.select(there).collect(), given)
        rows, right = scores.select(pl.len(), pl.col("correct").sum()).collect().row(0)
        scorer = _scorer(scores)
    say(f"{responses}: {rows} answers scored, {right} correct\n{scorer}\nwritten: {out}")
    return code | tell_unread(lacking)


_COUNTED = ("run", "model", "strategy", "item", "status", "parse", "reason", "answer", "correct", *PARTIAL)
"""The columns of a score table that tell what is lacking."""


def _check_asked(
    what: str, items: Path | None, benchmark: str | None, path: Path | None, gold: str | None = None
) -> None:
    """Raise ConfigError unless it is said what a file of replies answers. what: the file, as the user knows it."""
    if (items is None) == (benchmark is None):
        raise ConfigError(f"{what} needs either --items FILE or --benchmark NAME")
    for option, given in (("--path", path), ("--gold", gold)):
        if given is not None and benchmark is None:
            raise ConfigError(f"{option} belongs to --benchmark")


def _known(items: Path | None, benchmark: str | None, path: Path | None, gold: str | None, scratch: Path) -> ItemFile:
    """The items that a file of replies answers; those of a benchmark are written to the folder `scratch` first."""
    return ItemFile(items or _as_file(benchmarks.load(str(benchmark), path, gold, benchmarks.ALL), scratch))


def list_unread(
    source: str | None, count: int, items: Path | None, benchmark: str | None, path: Path | None
) -> tuple[str, UnreadReplies]:
    """The replies of a run, a score table or a file of replies that could not be read, at most `count`, and the name
    of that source.

    source: None for the newest run. items, benchmark, path: what a file of replies answers; None for other sources.
    """
    if items is not None or benchmark is not None:
        if source is None:
            raise ConfigError("--items and --benchmark say what a file of replies answers; name that file")
        _check_asked(source, items, benchmark, path)
        return source, _unread_of(Path(source), items, benchmark, path, count)
    if path is not None:
        raise ConfigError("--path belongs to --benchmark")
    if source is not None and source.endswith(TABLES):
        return source, missing_data.list_unread(load_scores(source, note=warn), count)
    folder = find_run(source)
    scores, replies = scores_of(folder, note=warn), load_replies(folder)
    return str(folder), missing_data.list_unread(
        scores, count, *((replies.items, replies.responses) if replies else ())
    )


def list_failed(source: str | None, count: int) -> tuple[str, UnreadReplies, list[str]]:
    """The name of a run (None for the newest) or score table, its first requests that failed, at most `count`, and why
    requests failed."""
    if source is not None and source.endswith(TABLES):
        name, scores, folder = source, load_scores(source, note=warn), None
    else:
        folder = find_run(source)
        name, scores = str(folder), scores_of(folder, note=warn)
    gaps = missing_data.gaps_of_scores(scores, folder, name)
    return name, missing_data.list_failed(scores, count), [said for gap in gaps for said in gap.failure_sentences()]


def _unread_of(
    responses: Path, items: Path | None, benchmark: str | None, path: Path | None, count: int
) -> UnreadReplies:
    """The replies of another tool's file that could not be read."""
    with files.temporary_folder() as scratch:
        known = _known(items, benchmark, path, None, scratch)
        found = ResponseFile(responses, known, responses.stem, foreign=True)
        report_problems(warn, found)
        table = scratch / "scores.parquet"
        write_score_table(known, found, table, run=responses.stem, rules=benchmarks.scoring_of)
        return missing_data.list_unread(files.scan_parquet(table).collect(), count, known, found)


def _scorer(scores: pl.LazyFrame) -> str:
    """Two facts in one line: how the replies were read and, where there are several sets of answers, which counted."""
    read = scores.group_by("parse").len().sort("len", "parse", descending=[True, False]).collect()
    listed = ", ".join(f"{parse or 'not at all'} {count}" for parse, count in read.iter_rows())
    golds: list[str] = []
    if (named := gold_column(scores.collect_schema().names())) is not None:
        golds = scores.select(named.unique().sort()).drop_nulls().collect()["gold"].to_list()
    return f"replies read as: {listed}" + (f"; compared with gold: {', '.join(golds)}" if golds else "")


def _check_suffix(path: Path) -> None:
    if path.suffix not in TABLES:
        raise ConfigError(f"{path}: unknown kind of table; known: {', '.join(TABLES)}")
