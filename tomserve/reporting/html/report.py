"""The report of runs: one HTML file from their folders or score tables, as `tomserve report` writes it, and a check
that it is what the run gives.

>>> write_report(["perturbed-2-reference"])                                                       # doctest: +SKIP
PosixPath('runs/perturbed-2-reference/report.html')
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from tomserve._version import __version__
from tomserve.content import files, output_path
from tomserve.engine import adaptations
from tomserve.errors import ConfigError, TomserveError
from tomserve.reporting.html import measurement
from tomserve.reporting.html import page as pages
from tomserve.reporting.html.figures import APART, common_study, figures_of, read_answers, source_paths
from tomserve.reporting.html.item_browser import ANSWERS, pack_browser, sample_items
from tomserve.reporting.html.sources import (
    PAGE,
    RECORD,
    ReportOptions,
    Source,
    find_current_report,
    input_fields,
    load_sources,
    provenance,
    record_report,
)
from tomserve.runs.manifest import make_portable
from tomserve.scoring.table import Note
from tomserve.serving.provenance import describe_flags, list_changes
from tomserve.status import UNANSWERED
from tomserve.studies import Analysis, Chance, Context, compute, noise
from tomserve.studies.answer_rows import count_questions, is_answered, originals
from tomserve.studies.missing_data import Gaps
from tomserve.studies.presentation import capitalize_first
from tomserve.studies.study import study_names

if TYPE_CHECKING:
    from tomserve.runs.verification import Finding


def failure_sentences(scores: pl.DataFrame) -> list[str]:
    """Sentences on how many questions have no answer, by model and strategy, and on strategies that fail unequally
    often, which can look like an effect. What people left open is no failure."""
    left_open = pl.col("status").cast(pl.String).fill_null("") == UNANSWERED
    opened = scores.filter(left_open).group_by("model", "strategy", maintain_order=True).len()
    free = [
        f"{model}, {strategy}: {count:,} left open by everybody who was asked, which is no failure and counts nowhere."
        for model, strategy, count in opened.sort("model", "strategy").iter_rows()
    ]
    return [*_failures_of(scores.filter(~left_open)), *_samples_lost(scores), *free]


def _samples_lost(scores: pl.DataFrame) -> Iterator[str]:
    """Sentences on the samples of questions that hold no answer, where each was asked several times."""
    if not {"samples", "samples_read"} <= set(scores.columns) or "people" in scores.columns:
        return
    sums = scores.group_by("model", "strategy").agg(pl.col("samples", "samples_read").sum()).sort("model", "strategy")
    for model, strategy, asked, read in sums.iter_rows():
        if lost := asked - read:
            said = f"{lost:,} of {asked:,} samples without an answer ({100 * lost / asked:.1f}%)"
            yield f"{model}, {strategy}: {said}; they are wrong, and do not vote for the answer of their question."


def _failures_of(scores: pl.DataFrame) -> list[str]:
    """Sentences on the questions to which an answer was due."""
    counted = (
        scores.with_columns(failed=~is_answered())
        .group_by("model", "strategy", maintain_order=True)
        .agg(pl.len().alias("asked"), pl.col("failed").sum())
        .sort("model", "strategy")
    )
    if not counted["failed"].sum():
        return [f"None: all {scores.height:,} answers could be read."]
    lines = [
        f"{row['model']}, {row['strategy']}: {row['failed']:,} of {row['asked']:,} without an answer "
        f"({100 * row['failed'] / row['asked']:.1f}%)."
        for row in counted.iter_rows(named=True)
        if row["failed"]
    ]
    shares = counted.with_columns(share=pl.col("failed") / pl.col("asked")).group_by("model", maintain_order=True)
    for row in shares.agg((pl.col("share").max() - pl.col("share").min()).alias("gap")).iter_rows(named=True):
        if row["gap"] >= 0.02:
            lines.append(
                f"{row['model']}: strategies differ by {100 * row['gap']:.0f} points in how often they fail, which can "
                "look like an effect of the prompt; read the bounds in the table of failures."
            )
    return lines


def write_report(
    runs: Sequence[str | None] = (None,),
    out: Path | None = None,
    intervals: str | None = None,
    labels: Sequence[str] = (),
    study: str | None = None,
    note: Note | None = None,
    analysis: Analysis | None = None,
    *,
    by: Sequence[str] = (),
) -> Path:
    """Write the report of these runs or score tables (None: the newest run) and return its path.

    out: the file to write; without it `report.html` in the run's folder, `NAME-report.html` beside the table NAME.csv,
    or, for several of them, `report.html` in the current folder. intervals: one of the study's ways to count; None for
    its first. labels: texts RUN=NAME that rename the model of a run. study: a study's name or path; None for the one
    that the benchmark declares. note: called with a line for each reply that could not be read. analysis: what the
    study has made of these runs, where the caller has it already; study, intervals and factors are then those of the
    analysis. by: factors by whose values answers are counted as well (see tomserve.studies.breakdowns). Raises
    ConfigError for a run that cannot be read, and for a file that cannot be written."""
    sources, scores = load_sources(runs or (None,), labels, note)
    whole = analysis or compute(scores, study, intervals, by, named=common_study(sources))
    text = pages.render(_page_content(sources, scores, whole, browser=True))
    path = out or _place(sources)
    with files.refuse_os_errors(path, "cannot be written", "choose another --out"):
        path.parent.mkdir(parents=True, exist_ok=True)
        read = source_paths(sources)
        with files.replace_file(path) if out is None else output_path.open_output(path, *read, own=(PAGE,)) as file:
            file.write(text.encode())
    if out is None and len(sources) == 1 and (analysis is None or analysis.by_default):
        record_report(sources[0], text, ReportOptions(intervals, labels, study, by))
    return path


def _place(sources: Sequence[Source]) -> Path:
    """Where the report lies if nobody says where."""
    if len(sources) > 1:
        return Path(PAGE)
    folder, file = sources[0].folder, sources[0].file
    return folder / PAGE if folder is not None else (file or Path(PAGE)).with_name(f"{(file or Path()).stem}-{PAGE}")


def report_html(
    runs: Sequence[str | None],
    intervals: str | None = None,
    labels: Sequence[str] = (),
    study: str | None = None,
    *,
    by: Sequence[str] = (),
) -> str:
    """The report as HTML text; the parameters are those of write_report."""
    sources, scores = load_sources(runs, labels, None)
    analysis = compute(scores, study, intervals, by, named=common_study(sources))
    return pages.render(_page_content(sources, scores, analysis, browser=True))


def report_panels(
    run: str, study: str | None = None, intervals: str | None = None, by: Sequence[str] = ()
) -> tuple[pages.Page, Analysis]:
    """What the report of one run says, without the items and answers to browse, which take most of its time, and the
    analysis that it says it of. The parameters are those of write_report, which says what is raised."""
    sources, scores = load_sources((run,), (), None)
    analysis = compute(scores, study, intervals, by, named=common_study(sources))
    return _page_content(sources, scores, analysis, browser=False), analysis


Lacking = Sequence[tuple[str, Gaps]]
"""What is lacking of sources, each with its run or file."""


def _page_content(sources: Sequence[Source], scores: pl.DataFrame, analysis: Analysis, *, browser: bool) -> pages.Page:
    """What the page says. browser: whether it holds the items and answers to browse."""
    study, tables = analysis.study, analysis.tables
    given = sources
    sources, measured = measurement.split_sources(given)
    if not study.answers or not sources:
        return measurement.measurement_page(given, analysis)
    sources, scores, outlined, chance = read_answers(sources, scores, study)
    context = Context(chance.shares)
    models = list(scores["model"].unique(maintain_order=True))
    figures = figures_of(scores, analysis, context, list(outlined.factors))  # they are drawn in the meantime
    lead, sections = pages.arrange(figures, len(models))
    data, cut, chosen = _browser(sources, scores, analysis) if browser else ("", None, None)
    lacking = [(source.run, gap) for source in sources for gap in source.gaps()]
    page = pages.Page(
        title=f"{len(models)} models" if len(models) > 3 else ", ".join(models),
        asked=_asked(scores),
        facts=tuple(_facts(sources, scores, analysis, chance, lacking)),
        warnings=(
            *_warnings(sources, scores, lacking),
            *(() if study.together else measurement.doubts(analysis)),  # add_measurements has them else
        ),
        intervals=analysis.intervals,
        verdicts=tuple(analysis.verdicts_with(context)),
        lead=lead,
        sections=sections,
        tables=pages.page_tables(tables, analysis.notes, study.layouts),
        failures=(*failure_sentences(scores), *_causes(lacking)),
        provenance=tuple((source.run, _provenance(source)) for source in sources),
        canaries=tuple(sorted(outlined.canaries)),
        cut=cut,
        chosen=chosen,
        untold=_not_shown(sources),
        browsed=any(source.folder is not None for source in sources),
        data=data,
        terms=frozenset(_terms(scores, chance, chained=outlined.chained)),
    )
    return measurement.add_measurements(page, measured, analysis) if study.together else page


def _terms(scores: pl.DataFrame, chance: Chance, *, chained: bool) -> Iterator[str]:
    """Those of the terms that a page explains which a page of these answers has."""
    if scores["strategy"].str.ends_with("vanilla").any():
        yield "vanilla"
    if chance.shares:
        yield "chance"
    if chained or scores["chain"].is_not_null().any():
        yield "chain"
    if scores.select("model", "strategy", "item").unique()["item"].is_duplicated().any():
        yield "flip"


def _browser(sources: Sequence[Source], scores: pl.DataFrame, analysis: Analysis) -> tuple[str, int | None, str | None]:
    """The data of the item browser, to how many characters its texts are cut, and what it says of its choice."""
    study = analysis.study
    most = ANSWERS * scores.height // sum(source.replies() for source in sources)
    chosen = sample_items(scores, most=max(1, most), versions=study.versions, strata=study.strata)
    told = {"variant": "variant"} if analysis.variant_analysis is not None or study.variants else {}
    copies = pages.copyable_tables(analysis.tables, study.layouts)
    extra = {"tables": copies, "labels": {**study.labels, **told} if study.labels else {}}
    return *pack_browser(sources, extra, study.versions, chosen.items), chosen.said


def _not_shown(sources: Sequence[Source]) -> str | None:
    """What the page cannot show of score tables, and why; None where there are none."""
    files = [source.run for source in sources if source.folder is None]
    if not files:
        return None
    return (
        f"Of {', '.join(files)} there are no stories, no replies and no chance level here, because a score table holds "
        "none of them. Give the run's folder to tomserve report in place of the table, and they are shown."
    )


def _provenance(source: Source) -> list[tuple[str, str]]:
    if source.made_from is None:
        what = f"a score table of {source.scores.height:,} rows; where its answers come from is not recorded in it"
        return [("file", source.run), ("what it is", what)]
    return [*provenance(make_portable(dict(source.manifest))), *input_fields(source.made_from)]


def _asked(scores: pl.DataFrame) -> str:
    """What was asked of whom, in a sentence."""
    benchmarks = ", ".join(sorted(map(str, scores["benchmark"].drop_nulls().unique()))) or "an unknown benchmark"
    names, models = _strategies(scores), scores["model"].n_unique()
    ways = " and ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if len(names) < 5 else f"{len(names)} ways"
    own, every = map(count_questions, (originals(scores), scores))
    what = f"{own:,} question{'s' * (own != 1)} of {benchmarks}"
    what += f" and {every - own:,} variants of them" if every > own else ""
    return f"{f'{models} models, ' if models > 1 else ''}{what}, asked with {ways}: {scores.height:,} answers."


def _strategies(scores: pl.DataFrame) -> list[str]:
    return sorted(scores["strategy"].unique(), key=lambda name: (not name.endswith("vanilla"), name))


def _facts(
    sources: Sequence[Source], scores: pl.DataFrame, analysis: Analysis, chance: Chance, lacking: Lacking
) -> list[tuple[str, str]]:
    benchmarks = ", ".join(sorted(map(str, scores["benchmark"].drop_nulls().unique())))
    own, every = map(count_questions, (originals(scores), scores))
    short = [(run, gap.in_short()) for run, gap in lacking]
    facts = [
        ("benchmark", benchmarks or "unknown"),
        ("questions", f"{own:,}" if own == every else f"{own:,}, and {every - own:,} variants of them"),
        ("strategies", ", ".join(_strategies(scores))),
        ("answers", f"{scores.height:,}"),
        ("complete", short[0][1] if len(short) == 1 else "; ".join(f"{run}: {said}" for run, said in short)),
        ("runs", ", ".join(source.run for source in sources)),
        ("study", f"{analysis.study.name}, {analysis.intervals} intervals"),
    ]
    for source in sources:
        if adapted := adaptations.describe(source.manifest.get("adaptations") or ()):
            facts.append(
                (
                    f"adapted to the server of {source.run}" if len(sources) > 1 else "adapted to the server",
                    "; ".join(adapted),
                )
            )
        if flags := describe_flags(source.manifest.get("server") or {}):
            facts.append((f"server flags of {source.run}" if len(sources) > 1 else "server flags", flags))
    if (floor := noise.noise_line(scores)) is not None:
        facts.append(("noise floor", floor.partition(": ")[2]))
    if "all" in chance.shares:
        facts.append(("chance", f"{chance.shares['all']:.2f} ({chance.meaning})"))
    elif chance.meaning == APART:
        facts.append(("chance", APART))
    return facts


def _causes(lacking: Lacking) -> Iterator[str]:
    """Why questions have no answer."""
    for run, gap in lacking:
        yield from (f"{run}: {said}." if len(lacking) > 1 else f"{said}." for said in gap.cause_sentences())


def _warnings(sources: Sequence[Source], scores: pl.DataFrame, lacking: Lacking) -> Iterator[pages.Alert]:
    """What a reader must know before any number: what is lacking, which runs are one model, which servers changed."""
    for _, gap in lacking:
        for place, said in enumerate(gap.sentences()):
            of_failures = place == 0 and (gap.unread or gap.failed)
            link = ("#failures", "Failures by strategy") if of_failures else ("#provenance", "Provenance")
            yield pages.Alert(capitalize_first(said), link)
    manifests = {source.run: source.manifest for source in sources if source.folder is not None}
    if "run" in scores.columns and scores["run"].n_unique() > 1:
        from tomserve.studies.comparability import unlike_notes  # most reports are of one run
        from tomserve.studies.comparison import same_model_notes

        for said in same_model_notes(scores, manifests):
            yield pages.Alert(capitalize_first(said), ("#provenance", "Provenance"))
        for said in unlike_notes(scores, manifests):
            yield pages.Alert(f"{said}.", ("#provenance", "Provenance"))
    for source in sources:
        for change in list_changes(source.manifest.get("sessions")):
            text = f"Run {source.run} holds answers of more than one server or model. Changed at {change}."
            yield pages.Alert(text, ("#provenance", "Provenance"))


_VERSION = f"tomserve {__version__}".encode()


def check_report(folder: Path) -> Finding | None:
    """What came of comparing the report of a run with the one that is made now; None where it has no report. Raises
    ConfigError where the folder is no run."""
    from tomserve.runs.verification import Finding

    path = folder / PAGE
    if not path.exists():
        return None
    if find_current_report(folder) is not None:
        return Finding("report", True, f"{PAGE} is as tomserve wrote it here, of these scores")
    try:
        with files.open_for_reading(path) as file:
            page = file.read()
        options = _report_options(folder)
        run = f"{folder.absolute()}/"
        made = report_html([run], options.intervals, options.labels, options.study, by=options.by).encode()
    except (OSError, TomserveError) as error:
        return Finding("report", None, f"{PAGE} was not compared: {error}")
    if made == page:
        return Finding("report", True, f"{PAGE} is what the run gives, to the byte")
    if _VERSION not in page:
        return Finding("report", None, f"{PAGE} was not compared, as another version of tomserve made it")
    return Finding("report", False, f"{PAGE} is not what the run gives; `tomserve report` makes it again")


def _report_options(folder: Path) -> ReportOptions:
    """What was asked of the report according to its record, which may be a stranger's: only names are taken from it,
    and nothing that could lead to a file."""
    try:
        found = files.read_json(folder / RECORD, "it is not used")["wishes"]
        options = {name: found.get(name) for name in ("intervals", "labels", "study", "by")}
    except (OSError, ConfigError, TypeError, KeyError, AttributeError):
        return ReportOptions()
    study: Any = options["study"]
    return ReportOptions(
        intervals=options["intervals"] if isinstance(options["intervals"], str) else None,
        labels=_texts(options["labels"]),
        study=study if isinstance(study, str) and study in study_names() else None,
        by=_texts(options["by"]),
    )


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()
