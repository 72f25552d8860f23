"""The commands of the groups `export` and `import`: Inspect, lm-eval, Every Eval Ever, CSV, JSON lines, batch, hub,
artefact.

    tomserve export inspect mine --out logs
    tomserve import csv answers.csv --model my-model --map text=reply --map correct=mark
    tomserve export batch --benchmark perturbed --model gpt-4o-mini --run mine --out asked.jsonl
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tomserve.cli.evaluate import ConfigOption, make_options
from tomserve.cli.options import (
    ByOption,
    IntervalsOption,
    LabelOption,
    OwnBenchmarkOption,
    OwnStrategyOption,
    PathOption,
    Questions,
    QuietOption,
    Sampling,
    StudyOption,
    VariantsOption,
    console,
    with_groups,
)
from tomserve.content.output_path import parse_file, parse_folder
from tomserve.content.paths import run_argument
from tomserve.content.text import count_noun, say
from tomserve.errors import ConfigError, one_of

if TYPE_CHECKING:
    from tomserve.interop.batch import ExportResult, ImportResult
    from tomserve.interop.importer import ImportedRun, ImportOptions, ImportSummary
    from tomserve.interop.samples import Source
    from tomserve.interop.scored_replies import ScoredReplies
    from tomserve.reporting.progress import RunScreen


ExportRunArgument = Annotated[
    str | None, typer.Argument(metavar="[RUN]", help="Name or path of a run. Default: the newest.")
]
OutOption = Annotated[Path, typer.Option(parser=parse_folder, help="Folder to write the files to.")]
ExportStrategyOption = Annotated[list[str] | None, typer.Option(help="Only this way of asking. Repeatable.")]


def export_inspect(
    out: OutOption, run: ExportRunArgument = None, strategy: ExportStrategyOption = None, quiet: QuietOption = False
) -> None:
    """Write a run as logs of Inspect, one for each strategy.

    Inspect's viewer, its functions and `inspect score` read them. A failure is wrong there, too.
    """
    from tomserve.content.paths import export_name
    from tomserve.interop.inspect_export import export_log

    replies, screen = _replies(run, strategy, quiet)
    out.mkdir(parents=True, exist_ok=True)
    for one in replies.strategies:
        path = out / f"{export_name(replies.folder, one)}.eval"
        say(f"written: {path}, {export_log(replies, one, path, screen):,} samples")


def export_lm_eval(
    out: OutOption, run: ExportRunArgument = None, strategy: ExportStrategyOption = None, quiet: QuietOption = False
) -> None:
    """Write a run as lm-eval's --log_samples does: samples_<task>_<date>.jsonl and results_<date>.json, in a folder of
    the model's name.

    Each strategy is a task of its own.
    """
    from tomserve.interop.lm_eval_files import export_samples

    replies, screen = _replies(run, strategy, quiet)
    for path in export_samples(replies, out, screen):
        say(f"written: {path}")


def export_every_eval_ever(
    out: OutOption,
    run: ExportRunArgument = None,
    strategy: ExportStrategyOption = None,
    organization: Annotated[str, typer.Option(help="Who evaluates, as the files say it.")] = "unknown",
    relationship: Annotated[
        str, typer.Option(help="How that stands to who made the model: first_party, third_party, collaborative, other.")
    ] = "third_party",
    developer: Annotated[
        str | None,
        typer.Option(help="Who made the model, such as openai, where its name does not say so as ORG/MODEL does."),
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Write a run in the schema of Every Eval Ever, which leaderboards share: accuracy with its uncertainty, and every
    reply.

    The files lie in data/<benchmark>/<developer>/<model>/, as its own checks ask for.
    """
    from tomserve.cli.output import warn
    from tomserve.interop.every_eval_ever import RELATIONSHIPS, UNKNOWN, Evaluation

    if relationship not in RELATIONSHIPS:
        raise ConfigError(f"--relationship: {one_of('relationship', relationship, RELATIONSHIPS)}")
    if developer is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}", developer):
        raise ConfigError(f"--developer: found {developer!r:.60}; expected letters, digits, '.', '_' and '-'")
    replies, screen = _replies(run, strategy, quiet)
    made = [Evaluation(replies, one, organization, relationship, developer) for one in replies.strategies]
    if any(one.model.startswith(f"{UNKNOWN}/") for one in made):
        warn(
            f"nothing says who made the model {replies.manifest.model!r:.80}, so that its files lie in the folder "
            f"'{UNKNOWN}', which leaderboards may refuse; say it by --developer NAME"
        )
    written = [path for one in made for path in one.write(out, screen) or ()]
    if not written:
        raise ConfigError(f"{replies.folder}: nothing was answered yet")
    for path in written:
        say(f"written: {path}")


def _replies(run: str | None, strategies: list[str] | None, quiet: bool) -> tuple[ScoredReplies, RunScreen]:
    from tomserve.cli.output import warn
    from tomserve.interop.scored_replies import ScoredReplies
    from tomserve.reporting.progress import RunScreen
    from tomserve.runs.runfolder import find_run

    return ScoredReplies(find_run(run), strategies or None, warn), RunScreen(console(), quiet=quiet)


RunsArgument = Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", help="Names or paths of runs.")]


def export_hub(
    out: Annotated[Path, typer.Option(parser=parse_folder, help="Folder to write.")],
    runs: RunsArgument = None,
    benchmark: Annotated[
        str | None, typer.Option(help="Benchmark whose questions are written. Default: those that the runs asked.")
    ] = None,
    path: PathOption = None,
    licence: Annotated[
        str | None,
        typer.Option(
            "--license",
            metavar="ID",
            help="Identifier of the data's licence, such as mit; needed where the data are not tomserve's own.",
        ),
    ] = None,
    terms: Annotated[Path | None, typer.Option("--license-file", help="The text of that licence.")] = None,
    title: Annotated[str | None, typer.Option("--title", help="What the dataset is called.")] = None,
    language: Annotated[
        list[str] | None, typer.Option(help="Code of the data's language, such as en. Repeatable.")
    ] = None,
    url: Annotated[str | None, typer.Option(help="Where the dataset will be, for the Croissant metadata.")] = None,
    date: Annotated[str | None, typer.Option(help="The day of publication, as 2026-11-30, for the same.")] = None,
) -> None:
    """Write questions, and answers where runs are given, for a dataset hub: Parquet, card, licence, Croissant metadata.

    Nothing is uploaded.
    """
    from tomserve.cli.output import warn
    from tomserve.interop import hub
    from tomserve.interop.scored_replies import ScoredReplies
    from tomserve.runs.runfolder import find_run

    if benchmark is None and not runs:
        raise ConfigError("name runs, or a benchmark by --benchmark NAME")
    if benchmark is None and path is not None:
        raise ConfigError("--path is the file of a benchmark; name that by --benchmark NAME")
    _check_words(language or (), url, date)
    replies = [ScoredReplies(find_run(run), None, warn) for run in runs or ()]
    names = hub.name_runs(replies)
    held = [hub.run_holding(name, one.manifest) for name, one in zip(names, replies, strict=True)]
    if benchmark is not None:
        held.append(hub.benchmark_holding(benchmark, path))
    others = list(dict.fromkeys(one.others for one in held if one.others))
    if others and licence is None:
        raise ConfigError(
            f"{'; '.join(others)}; say under which licence these data may be shared by --license ID, such as mit, or "
            "`--license other` with --license-file FILE"
        )
    for said in others:
        warn(f"{said}; be sure that you may share them under {licence}")
    identifier = hub.OWN if licence is None else hub.licence_id(licence)
    if identifier == "other" and terms is None:
        raise ConfigError("--license other: no text of that licence; name its file by --license-file")
    text = hub.read_terms(terms) if terms is not None else None
    if not others and (text is not None or identifier != hub.OWN):
        raise ConfigError(
            f"the questions come with tomserve under {hub.OWN}, which nobody else can change; leave --license out"
        )
    items = (
        hub.collect_run_items(replies) if benchmark is None else hub.collect_benchmark_items(benchmark, path, replies)
    )
    asked = sorted({one.benchmark for one in held})
    named = ", ".join(asked)
    made = hub.Dataset(
        title=title or f"{named} ({len(items):,} questions)",
        licence=identifier,
        terms=text or (hub.state_terms(identifier, named) if others else hub.own_terms()),
        source=hub.describe_data(asked, names, others),
        own=not others,
        items=items,
        replies=tuple(zip(names, replies, strict=True)),
        papers=hub.list_papers(asked),
        languages=language or (() if others else ("en",)),
        url=url,
        date=date,
        benchmark=hub.are_own_benchmarks(asked),
    )
    for file in hub.write_dataset(made, out, [one.folder for one in replies]):
        say(f"written: {file}")


def _check_words(languages: list[str] | tuple[str, ...], url: str | None, date: str | None) -> None:
    """Raise ConfigError for what would not be understood as a language, an address or a date."""
    import datetime

    for language in languages:
        if not re.fullmatch(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})?", language):
            raise ConfigError(f"--language: found {language!r:.60}; expected a code such as en or zh")
    if url is not None and not re.fullmatch(r"https?://[\w.-]+(:\d+)?(/[^\s\"<>]*)?", url):
        raise ConfigError(f"--url: found {url!r:.80}; expected an address such as https://example.org/data")
    if date is not None:
        try:
            datetime.date.fromisoformat(date)
        except ValueError:
            raise ConfigError(f"--date: found {date!r:.60}; expected a day such as 2026-11-30") from None


def export_artefact(
    out: Annotated[Path, typer.Option(parser=parse_file, help="Zip file to write.")],
    runs: RunsArgument = None,
    study: StudyOption = None,
    intervals: IntervalsOption = None,
    by: ByOption = None,
    label: LabelOption = None,
    title: Annotated[str, typer.Option("--title", help="What the artefact is called.")] = "Artefact",
    wheel: Annotated[
        Path | None, typer.Option(help="tomserve's wheel to put in, so that nobody has to look for it (make release).")
    ] = None,
) -> None:
    """Write what reviewers ask for: runs, tables, figures, report, versions, digests, and a program that checks all of
    it and computes the tables again, offline.
    """
    from tomserve.cli.output import warn
    from tomserve.interop import artefact

    if not runs:
        raise ConfigError("name the runs that the artefact is to hold")
    wish = artefact.ArtefactOptions(runs, study, intervals, by or (), label or [], title, wheel)
    members = artefact.write_artefact(wish, out, warn)
    say(f"written: {out}, {len(members):,} files; `python recompute.py --here` in it computes the tables again")


FilesArgument = Annotated[list[Path], typer.Argument(metavar="FILE", help="Files, or folders of them.")]
ImportRunOption = Annotated[str | None, typer.Option(help="Name of the run. Default: <task>-<model>.")]
ImportModelOption = Annotated[
    str | None, typer.Option(help="Only the replies of this model; for files that name none, who answered.")
]
TaskOption = Annotated[
    str | None, typer.Option(help="Only the replies to this task; for files that name none, what it is called.")
]
ImportStrategyOption = Annotated[
    str | None, typer.Option(help="What the way of asking is called. Default: as the file says, or imported.")
]
MatchOption = Annotated[
    str | None,
    typer.Option(
        "--benchmark",
        help="The benchmark whose questions were asked, none to take them as they are. Default: it is found out.",
    ),
]
AsOption = Annotated[
    str | None,
    typer.Option("--as", metavar="NAME", help="Take all tasks together under this name, with the factor task."),
]
ScorerOption = Annotated[
    str | None, typer.Option(help="Whose grade counts, where replies have several. Default: the first.")
]
ThresholdOption = Annotated[
    float | None, typer.Option(help="From which value on a grade that is a number counts as right. Default: from 1 on.")
]
CountsOption = Annotated[
    str | None,
    typer.Option(
        help="Whose reading of the replies counts: tomserve or tool. Default: tomserve for questions of one of its "
        "benchmarks, tool for all others."
    ),
]
FactorOption = Annotated[
    list[str] | None,
    typer.Option(
        help="What the file tells of questions that becomes a factor. Default: all that has 2 to 100 values, which "
        "recur. Repeatable."
    ),
]
ClusterOption = Annotated[
    str | None, typer.Option(help="What the file tells that says which questions belong together, such as a text.")
]
MapOption = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="FIELD=COLUMN",
        help="What a column means; FIELD is id, text (the reply), asked, story, question, choices, target, correct, "
        "score, answer, model, strategy, task, repeat, cluster, status or item. Repeatable.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Replies:
    """The options that say which replies are read, and what they are called."""

    run: ImportRunOption = None
    model: ImportModelOption = None
    task: TaskOption = None
    strategy: ImportStrategyOption = None
    benchmark: MatchOption = None
    path: PathOption = None
    together: AsOption = None


@dataclass(frozen=True, kw_only=True)
class Marks:
    """The options that say whose reading of the replies counts, and what else a file tells of questions."""

    threshold: ThresholdOption = None
    counts: CountsOption = None
    factor: FactorOption = None
    cluster: ClusterOption = None


@with_groups
def import_inspect(
    *, logs: FilesArgument, replies: Replies, scorer: ScorerOption = None, marks: Marks, quiet: QuietOption = False
) -> int:
    """Read logs of Inspect (.eval, .json) into runs.

    Each task of each model becomes a run, which score, analyze, compare, report and the workbench take like any other.
    The exit code is 1 where samples could not be read.
    """
    from tomserve.interop.inspect_reader import InspectLog

    options = _import_options(replies, marks, scorer)
    named, found = _import_files(logs, (".eval", ".json"))
    return _import_sources([InspectLog(one) for one in named], options, found, quiet)


@with_groups
def import_lm_eval(
    *, samples: FilesArgument, replies: Replies, scorer: ScorerOption = None, marks: Marks, quiet: QuietOption = False
) -> int:
    """Read what lm-eval wrote by --log_samples (samples_<task>_<date>.jsonl) into runs.

    The results_<date>.json beside a file says which model answered. The exit code is 1 where samples could not be read.
    """
    from tomserve.interop.lm_eval_files import LmEvalSamples

    options = _import_options(replies, marks, scorer)
    named, found = _import_files(samples, (".jsonl",), "samples_")
    return _import_sources([LmEvalSamples(one, replies.model, scorer) for one in named], options, found, quiet)


@with_groups
def import_csv(
    *, files: FilesArgument, columns: MapOption = None, replies: Replies, marks: Marks, quiet: QuietOption = False
) -> int:
    """Read a spreadsheet, a row for each reply, into runs.

    Columns that are called like a field need no --map. The exit code is 1 where rows could not be read.
    """
    return _import_mapped("csv", files, columns, replies, marks, quiet)


@with_groups
def import_jsonl(
    *, files: FilesArgument, columns: MapOption = None, replies: Replies, marks: Marks, quiet: QuietOption = False
) -> int:
    """Read JSON lines, an object for each reply, into runs.

    Fields that are called like ours need no --map. The exit code is 1 where lines could not be read.
    """
    return _import_mapped("jsonl", files, columns, replies, marks, quiet)


def _import_options(replies: Replies, marks: Marks, scorer: str | None = None) -> ImportOptions:
    from tomserve.interop.importer import ImportOptions

    known: dict[str | None, Literal["tomserve", "tool"] | None] = {None: None, "tomserve": "tomserve", "tool": "tool"}
    if marks.counts not in known:
        raise ConfigError(f"--counts: {one_of('reading', str(marks.counts), ('tomserve', 'tool'))}")
    return ImportOptions(
        **vars(replies), scorer=scorer, threshold=marks.threshold, counts=known[marks.counts],
        factors=tuple(marks.factor or ()), cluster=marks.cluster,
    )  # fmt: skip


def _import_files(given: Sequence[Path], endings: tuple[str, ...], beginning: str = "") -> tuple[list[Path], set[Path]]:
    """The files that are named, and in folders those with these endings, sorted by name; and which of them nobody
    named."""
    named: list[Path] = []
    found: set[Path] = set()
    for one in given:
        if not one.is_dir():
            named.append(one)
            continue
        inside = [path for path in sorted(one.rglob(f"{beginning}*")) if path.suffix in endings and not path.is_dir()]
        if not inside:
            what = f"begins with {beginning} and ends in" if beginning else "ends in"
            raise ConfigError(f"{one}: no file in this folder {what} {' or '.join(endings)}")
        named += inside
        found |= set(inside)
    return list(dict.fromkeys(named)), found - {one for one in given if not one.is_dir()}


def _import_mapped(
    kind: Literal["csv", "jsonl"],
    files: Sequence[Path],
    columns: list[str] | None,
    replies: Replies,
    marks: Marks,
    quiet: bool,
) -> int:
    from tomserve.interop.csv_reader import MappedFile

    options = _import_options(replace(replies, task=None), marks)  # which says what a file that names no task is about
    named, found = _import_files(files, (f".{kind}",))
    sources = [MappedFile(one, kind, columns or (), replies.model, replies.task) for one in named]
    return _import_sources(sources, options, found, quiet)


def _import_sources(sources: Sequence[Source], wish: ImportOptions, found: Collection[Path], quiet: bool) -> int:
    from tomserve.interop.importer import import_replies
    from tomserve.reporting.progress import RunScreen

    return _show_runs(import_replies(sources, wish, RunScreen(console(), quiet=quiet), found))


MOST_UNREAD = 10
"""So many files of which nothing could be read are named."""

MOST_NAMES = 8
"""So many grades are named that do not count, and so many facts that are no factors."""


def _show_runs(brought: ImportSummary) -> int:
    """Print what was made and what was left out; returns the exit code."""
    for made in brought.runs:
        _show_run(made)
    for reason, (count, place) in brought.left_out.items():
        where = f"as it {reason} ({place})" if count == 1 else f"as each {reason} (first: {place})"
        say(f"warning: {count:,} left out, {where}", error=True)
    for reason in brought.unread[:MOST_UNREAD]:
        say(f"warning: left out: {reason}", error=True)
    if (more := len(brought.unread) - MOST_UNREAD) > 0:
        say(f"warning: {count_noun(more, 'more file')} left out", error=True)
    if brought.other:
        say(f"{_reply_count(brought.other)} of other models or tasks left out")
    first, *others = brought.runs
    same = [made for made in others if made.benchmark == first.benchmark]
    if len(brought.runs) == 2 and same:
        say(f"next: tomserve compare {run_argument(first.folder)} {run_argument(same[0].folder)}")
    else:
        say(f"next: tomserve analyze {run_argument(first.folder)}")
    return 1 if brought.left_out or brought.unread else 0


def _show_run(made: ImportedRun) -> None:
    from tomserve.interop.samples import LEVELS

    what = f"{_reply_count(made.replies)} to {count_noun(made.items, 'question')}"
    if 0 < made.clusters < made.items:
        what += f" in {count_noun(made.clusters, 'cluster')}"
    say(f"{made.folder}: {what}" + ("" if made.fresh else "; was there before, and is unchanged"))
    if made.matched:
        say(f"  questions: items of {made.benchmark}, found by their texts")
    else:
        factors = ", ".join(made.factors) or "none"
        say(f"  questions: taken as they are, as benchmark {made.benchmark}; factors: {factors}")
        if made.passed_over:
            say(f"  left out as factors, as each has more than {LEVELS} values: {_passed_over(made)}")
    say(f"  reading that counts: {_reading(made)}")
    if told := made.agreement.line("the tool's grade"):
        say(f"  {told}")
    if made.others:
        say(f"  left out: {_more(made.others)} of another reply to the same question")
    for text in _warnings(made):
        say(f"warning: {made.folder}: {text}", error=True)


def _passed_over(made: ImportedRun) -> str:
    """The facts that are no factors because they have too many values, and what to do."""
    names = [f"{name!r:.60}" for name in made.passed_over]
    more = [f"{len(names) - MOST_NAMES:,} more"] if len(names) > MOST_NAMES else []
    way_out = "--factor NAME takes one, and then only what is named so"
    return f"{', '.join([*names[:MOST_NAMES], *more])}; {way_out}"


def _reading(made: ImportedRun) -> str:
    """Whose reading counts, which of the other tool's grades were taken, and how to take others."""
    names, others = ([f"{name!r:.100}" for name in given] for given in (made.grades, made.other_grades))
    grade = " ".join(["the other tool's", "grades" if len(names) > 1 else "grade", " and ".join(names)]).strip()
    text = grade
    if made.counts == "tomserve":
        text = f"tomserve's; {grade} {'stand' if len(names) > 1 else 'stands'} beside" if names else "tomserve's"
    if not others:
        return text
    more = [f"{len(others) - MOST_NAMES} more"] if len(others) > MOST_NAMES else []
    return f"{text} (also there: {', '.join([*others[:MOST_NAMES], *more])}; --scorer NAME chooses)"


def _warnings(made: ImportedRun) -> Iterator[str]:
    """What a user should know of a run, each in a sentence."""
    if made.nearly:
        yield made.nearly
    if made.repeated:
        yield f"{_reply_count(made.repeated, 'was', 'were')} replaced by a later one to the same question"
    names = " and ".join(f"{name!r:.100}" for name in made.grades[:MOST_NAMES])
    if told := made.agreement.sentence(f"the tool's grade {names}".strip()):
        yield told
    if made.empty:
        yield (
            f"{made.empty:,} of {_reply_count(made.replies, 'is', 'are')} empty and not right, and "
            f"{_agree(made.empty, 'counts', 'count')} as unread; look whether the tool kept what the model said "
            "(a parser of reasoning, or a budget of tokens that thinking used up, leaves nothing)"
        )
    if made.ungraded:
        as_wrong = f"{_agree(made.ungraded, 'counts', 'count')} as wrong"
        yield f"{_reply_count(made.ungraded, 'has', 'have')} no grade, and {as_wrong}"
    if made.highest > 1 and made.counts == "tool" and made.threshold is None:
        yield (
            f"grades are numbers up to {made.highest:g}, and count as right from 1 on; say from where on they do by "
            "--threshold"
        )
    elif made.between and made.counts == "tool":
        start = 1 if made.threshold is None else made.threshold
        yield (
            f"{count_noun(made.between, 'grade is', 'grades are')} neither 0 nor 1; "
            f"{_agree(made.between, 'it counts', 'they count')} as right from {start:g} on (--threshold)"
        )
    for count, what in ((made.cut, "cut off"), (made.failed, "ended by an error")):
        if count:
            pronoun = _agree(count, "it", "them")
            yield f"{_reply_count(count, 'was', 'were')} {what}, and the tool counts {pronoun} as right"
    if made.differing:
        differing = count_noun(
            made.differing, "right answer in the file is another", "right answers in the file are others"
        )
        yield (f"{differing} than tomserve's (first: item {made.differs_first}); tomserve's count")


def _reply_count(count: int, one: str = "", several: str = "") -> str:
    """A number of replies, and what one of them or several do."""
    return count_noun(count, f"reply {one}".strip(), f"replies {several}".strip())


def _more(count: int) -> str:
    return count_noun(count, "more reply, which shares the grade", "more replies, each of which shares the grade")


def _agree(count: int, one: str, several: str) -> str:
    return one if count == 1 else several


@with_groups
def export_batch(
    *,
    out: Annotated[
        Path,
        typer.Option(
            parser=parse_file, help="File of requests to write, such as asked.jsonl; further ones get a number."
        ),
    ],
    config: ConfigOption = None,
    model: Annotated[
        str | None, typer.Option(help="Name of the model as the queue knows it, or of a preset. It need not be served.")
    ] = None,
    base_url: Annotated[
        list[str] | None,
        typer.Option(help="Address of an endpoint that tells the model's name, where --model does not say it."),
    ] = None,
    questions: Questions,
    run: Annotated[
        str | None, typer.Option(help="Name of the run that takes the results. Default: <benchmark>-<model>.")
    ] = None,
    sampling: Sampling,
    variants: VariantsOption = None,
    per_file: Annotated[int, typer.Option(min=1, help="Most requests in one file; OpenAI takes 50,000.")] = 50_000,
    max_bytes: Annotated[
        int, typer.Option(min=1000, help="Most bytes in one file; OpenAI takes 200 MB.")
    ] = 200_000_000,
    quiet: QuietOption = False,
) -> None:
    """Write the requests of an evaluation to files for a batch queue.

    The files have the form of OpenAI's Batch API, which vLLM's run-batch and other queues read, too. Only what has no
    final reply yet is written, so that the command is repeated after every import: failures are asked again, and so are
    the next turns of a conversation. With nothing but --run and --out, and the paths of your own benchmark and
    strategies, it asks what was exported last.
    """
    from tomserve.interop.batch import export_requests
    from tomserve.reporting.progress import RunScreen

    options, _ = make_options(config, questions, sampling, model=model, base_url=base_url, run=run, variants=variants)
    screen = console()
    _show_exported(
        export_requests(options, out, per_file=per_file, most_bytes=max_bytes, listener=RunScreen(screen, quiet=quiet))
    )


def _show_exported(done: ExportResult) -> None:
    """Print which files were written, and what to do with them."""
    from tomserve.content.paths import run_name

    for file in done.files:
        say(f"written: {file.requests:,} requests, {file.bytes:,} bytes, to {file.path}")
    say(f"run: {done.folder}")
    if not done.files:
        say(f"nothing left to ask: all {done.total:,} questions have their answers")
        return
    say(f"they ask {done.questions:,} of {done.total:,} questions, each strategy and sample counted")
    say("next: hand them to the queue; read what it gives back by")
    say(f"  tomserve import batch RESULTS.jsonl --run {run_name(done.folder)}")
    if done.turns:
        say("some strategies ask again: export once more after the import, until nothing is left")


def import_batch(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Files of results and of errors, in any order, also again.")
    ],
    run: Annotated[str, typer.Option(help="Name of the run that the requests were exported from.")],
    benchmark: OwnBenchmarkOption = None,
    strategy: OwnStrategyOption = None,
    accept_change: Annotated[
        bool,
        typer.Option("--accept-change", help="Go on although replies name another model. It is recorded in the run."),
    ] = False,
    quiet: QuietOption = False,
) -> int:
    """Read the results of a batch queue into a run.

    They become answers as if tomserve had asked itself: the run can be scored, compared, and gone on with. Reading a
    file again changes nothing. The exit code is 1 where a request failed, or a result belongs to no request of the run.
    """
    from tomserve.interop.batch import import_results
    from tomserve.reporting.progress import RunScreen

    done = import_results(
        run, files, benchmark=benchmark, strategies=strategy or (), accept_change=accept_change,
        listener=RunScreen(console(), quiet=quiet),
    )  # fmt: skip
    return _show_imported(done, run)


def _show_imported(done: ImportResult, run: str) -> int:
    """Print what was read and what is left; returns the exit code."""
    from tomserve.status import REFUSAL, listed

    rows = done.added.total()
    say(f"{rows:,} rows added from {done.results:,} results" + (f": {listed(done.added)}" if rows else ""))
    if done.known:
        say(f"{done.known:,} results were there before")
    if done.unknown:
        shown = ", ".join(f"{one:.40}" for one in done.strange) + (", ..." if done.unknown > len(done.strange) else "")
        say(
            f"warning: {done.unknown:,} results belong to no request of this run ({shown}); is it the run that they "
            "were exported from?",
            error=True,
        )
    for path in done.cut_off:
        say(
            f"warning: {path} ends within a line, which was left out; download it again and import it once more",
            error=True,
        )
    say(f"run: {done.folder}")
    if done.left:
        say(
            f"{done.left:,} requests have no answer yet: what is not in a queue still is written by `tomserve export "
            f"batch --run {run} --out NEW.jsonl`"
        )
    else:
        say(f"nothing is left to ask; `tomserve analyze {run}` shows the tables")
    return 1 if done.unknown or done.cut_off or set(done.failures) - {REFUSAL} else 0
