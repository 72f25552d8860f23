"""Figures of a report: the study's own, or default figures that can be drawn of any scores and any tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from tomserve import studies
from tomserve.reporting.html import measurement
from tomserve.reporting.html.charts import (
    Axis,
    Line,
    chance_lines,
    draw_figure,
    short_names,
    small_multiples,
    values_of,
    zero_line,
)
from tomserve.reporting.html.sources import Source, load_sources
from tomserve.scoring.metrics import BEGINNING
from tomserve.scoring.table import COLUMNS
from tomserve.studies import breakdowns
from tomserve.studies.answer_rows import (
    ORIGINAL,
    REQUIRED,
    count_questions,
    name_apart,
    originals,
    prepare_rows,
    split_by,
    split_scores,
)
from tomserve.studies.baselines import EFFECTIVE
from tomserve.studies.breakdowns import inner_names
from tomserve.studies.contrasts import share
from tomserve.studies.phrases import PHRASES
from tomserve.studies.presentation import Figure, Row, Section, capitalize_first, readable_name

SHARES = Section("breaks", "How much is right?", "How much is right")
EFFECTS = Section("helps", "What makes a difference?", "What makes a difference")

ASKED = Section("factors", "By factor", "By factor")

COUNTED = ", which counts stories or tasks, not questions."
PLAINLY = " (Wilson's), which counts clusters (stories, tasks), not questions."
EFFECTIVELY = f", {PHRASES['about_effective']}"  # what an interval counts, as the end of a sentence

# What a figure of each kind of table by factors shows, by the column that tells the kinds apart
CAPTIONS = dict(
    zip(
        breakdowns.AFTER,
        (
            "Each point is the share of right answers to the questions with this value (of crossed factors, with these "
            f"values), each line its 95% interval{COUNTED} Failures count as wrong.",
            "Each point is a strategy's share right minus that of the strategy that asks for the answer alone, on the "
            "same questions with this value, each line its 95% interval. Right of the line at zero more is right. Many "
            "tests stand here, which are not adjusted for that.",
            "Each point is the share right of the questions with one value minus that of those with another, each line "
            "its 95% interval; within the same stories or tasks where these hold both values. Right of the line at "
            "zero more is right. Many tests stand here, which are not adjusted for that.",
        ),
        strict=True,
    )
)

ROWS = 48  # the most rows of a figure by factors
FEW = 12  # the most values that a factor may have to be drawn
FACTORS = 8  # the most factors that are drawn; those that come first are

# The column that tells effects of one model apart: the first of these that the table has
NAMED = ("strategy", "treatment")


def _lines(chance: Mapping[str, float], part: str) -> list[Line]:
    """The lines of chance and of one half; none where nothing is offered to choose from, so that half is no mark."""
    return chance_lines(chance, part) if chance else []


def _accuracy(tables: Mapping[str, pl.DataFrame], chance: Mapping[str, float]) -> Iterator[Figure]:
    frame = tables.get("accuracy", pl.DataFrame())
    if not {"model", "strategy", "accuracy", "ci_low", "ci_high"} <= set(frame.columns) or frame.is_empty():
        return
    rows = frame.unique(["model", "strategy"], keep="first", maintain_order=True)
    estimated = "estimate" in rows.columns and rows["estimate"].is_not_null().any()
    names = short_names(values_of(rows.to_dicts(), "model"))
    figure = Figure(
        "accuracy",
        "Accuracy with its uncertainty",
        SHARES,
        "Each point is the share of right answers of a strategy, each line its 95% interval, which covers the "
        f"true share 19 times out of 20.{' Chance is what a blind guess scores.' if chance else ''}",
        ("accuracy",),
        lead=1,
    )
    value = "estimate" if estimated else "accuracy"  # what the interval is about
    axis = Axis("share right", (0, 1), lambda part: _lines(chance, part))
    data = rows.drop("subset", strict=False).to_dicts()
    down = "strategy"
    if len(names) > 1:  # side by side in one picture
        down, data = "name", [{**row, "name": names[str(row["model"])], "model": ""} for row in data]
    yield _drawn_points(figure, data, (down, "strategy", value, "ci_low", "ci_high"), axis)


def _by_factor(
    scores: pl.DataFrame,
    factors: Sequence[str],
    chance: Mapping[str, float],
    values: Mapping[str, Sequence[str]],
    *,
    effective: bool,
) -> Iterator[Figure]:
    few = [name for name in factors if 1 < scores[name].drop_nulls().n_unique() <= FEW][:FACTORS]
    apart = inner_names(few)
    every = scores.lazy().with_columns(pl.col(name).cast(pl.String).alias(own) for name, own in apart.items())
    variants = (ORIGINAL,) if ORIGINAL in scores.columns else ()
    rows = prepare_rows(name_apart(every, ("cluster",)), (*REQUIRED, *variants, *apart.values())).collect()
    axis = Axis("share right", (0, 1), lambda part: _lines(chance, part))
    for place, name in enumerate(few):
        figure = Figure(
            f"factor-{place}",
            f"Accuracy by {readable_name(name)}",
            SHARES,
            "Each point is the share of right answers to the questions with this value, each line its 95% interval"
            f"{EFFECTIVELY if effective else PLAINLY} Failures count as wrong.",
        )
        there = scores[name].drop_nulls().unique(maintain_order=True)
        there = (there.sort() if there.dtype.is_numeric() else there).cast(pl.String)
        counted = rows if name == "variant" else originals(rows)  # as by factors in tables
        data = list(_shares(counted, apart[name], [*values.get(name, ()), *there], effective=effective))
        yield _drawn_points(figure, data, (apart[name], "strategy", "accuracy", "ci_low", "ci_high"), axis)


def _shares(rows: pl.DataFrame, factor: str, order: Sequence[str], *, effective: bool) -> Iterator[Row]:
    """The shares by the values of a factor in this order. factor: its column, which is called like no other. effective:
    whether intervals count effective numbers of answers."""
    sums_up = studies.contrasts.sums_of_answers
    by_value = pl.col(factor).cast(pl.Enum([*dict.fromkeys(order)]))
    placed = rows.drop_nulls(factor).sort("model", by_value, maintain_order=True)
    for key, part in split_by(placed, ("model", "strategy", factor), sort=False):
        yield {**key, **(studies.contrasts.effective_share_of_sums(sums_up(part)) if effective else share(part))}


def by_factors(tables: Mapping[str, pl.DataFrame], intervals: str = "recommended") -> Iterator[Figure]:
    """A figure for each table by factors that the reader asked for: of shares, of effects and of differences. One of
    more than ROWS rows is not drawn. tables: by name, as tomserve.studies.breakdowns makes them. intervals: the way to
    count."""
    for place, (name, frame) in enumerate(tables.items()):
        title, shown, _ = breakdowns.factor_excerpt(name, frame)
        after = next(one for one in breakdowns.AFTER if one in shown.columns)
        keys = shown.columns[: shown.columns.index(after)]
        own = [key for key in keys if key not in ("model", "strategy", "treatment")]
        compared = ["compared_with"] if "compared_with" in shown.columns else []
        data: list[Row] = [{**row, "down": _row(row, own, compared)} for row in frame.to_dicts()]
        series = "treatment" if "treatment" in frame.columns else "strategy"
        if series == "treatment" and len(only := frame[series].unique()) == 1:  # of several, a legend tells
            title = f"{title} ({readable_name(only[0])})"
        caption = CAPTIONS[after]
        if intervals == EFFECTIVE:
            caption = caption.replace(COUNTED, EFFECTIVELY)
        figure = Figure(f"by-{place}", capitalize_first(title), ASKED, caption, (name,))
        if (rows := len({one["down"] for one in data})) > ROWS:
            said = f"Not drawn: its {rows} rows are too many for a figure. The table has them."
            yield replace(figure, missing=said)
            continue
        if "accuracy" in frame.columns:
            figure, data = studies.baselines.mark_best_rule(figure, data)
            columns = ("down", series, "estimate" if "estimate" in frame.columns else "accuracy", "ci_low", "ci_high")
            yield _drawn_points(figure, data, columns, Axis("share right", (0, 1)))
        else:
            columns = ("down", series, "risk_difference", "rd_low", "rd_high")
            first = 1 if series == "treatment" else 0
            yield _drawn_points(figure, data, columns, Axis("difference", (-1, 1), zero_line, first=first))


def _row(row: Row, own: Sequence[str], compared: Sequence[str]) -> str:
    """The name of a row: the values of its factors and, of a difference, what it is compared with."""
    values = [str(row[key]) for key in own]
    if compared:  # the factor that is compared stands last
        values[-1] = f"{values[-1]} minus {row[compared[0]]}"
    return ", ".join(values)


def _effects(tables: Mapping[str, pl.DataFrame]) -> Iterator[Figure]:
    for place, (name, frame) in enumerate(tables.items()):
        if not {"model", "risk_difference", "rd_low", "rd_high"} <= set(frame.columns) or frame.is_empty():
            continue
        series = next((column for column in NAMED if column in frame.columns), None)
        figure = Figure(
            f"effects-{place}",
            readable_name(name).capitalize(),
            EFFECTS,
            "Each point is a difference between two shares of right answers, each line its 95% interval. Right of the "
            "line at zero more is right.",
            (name,),
        )
        down = _down(frame, series)
        data: list[Row] = [
            {**row, "subset": "", "down": ", ".join(readable_name(row[one]) for one in down) or readable_name(name)}
            for row in frame.to_dicts()
        ]
        columns = ("down", series or "down", "risk_difference", "rd_low", "rd_high")
        yield _drawn_points(figure, data, columns, Axis("difference", (-1, 1), zero_line, first=1))


def _down(frame: pl.DataFrame, series: str | None) -> list[str]:
    """The columns of text before the effect that tell its rows apart, beside the model and the series."""
    before = frame.columns[: frame.columns.index("risk_difference")]
    texts = [name for name in before if frame.schema[name] == pl.String and name not in ("model", series)]
    varied = [name for name in texts if frame[name].n_unique() > 1]
    return varied or ([series] if series else [])


def _drawn_points(figure: Figure, rows: Sequence[Row], columns: tuple[str, str, str, str, str], axis: Axis) -> Figure:
    return draw_figure(figure, lambda: small_multiples(figure, rows, columns, axis))


def figures(
    runs: Sequence[str | None],
    intervals: str | None = None,
    labels: Sequence[str] = (),
    study: str | None = None,
    *,
    by: Sequence[str] = (),
) -> tuple[Sequence[Figure], list[Path]]:
    """The figures of the report, and the files and folders that they are made from; the parameters are those of
    write_report."""
    sources, scores = load_sources(runs, labels, None)
    analysis = studies.compute(scores, study, intervals, by, named=common_study(sources))
    read = source_paths(sources)
    given = measurement.split_sources(sources)[0]
    if not analysis.study.answers or not given:
        return (analysis.study.figures or (lambda tables, context: ()))(analysis.tables, studies.Context({})), read
    _, scores, outlined, chance = read_answers(given, scores, analysis.study)
    return figures_of(scores, analysis, studies.Context(chance.shares), list(outlined.factors)), read


def read_answers(
    sources: Sequence[Source], scores: pl.DataFrame, study: studies.Study
) -> tuple[list[Source], pl.DataFrame, ItemOutlines, studies.Chance]:
    """The sources and scores without measurements, the outlines of their items, all of which were read, and chance."""
    scores = split_scores(scores).answers
    sources = [replace(source, scores=source.scores.select(scores.columns)) for source in sources]
    outlined = ItemOutlines(sources, scores)
    whole = all(source.folder is not None for source in sources)
    # What was offered to choose from is not in a score table.
    chance = _find_chance(study, outlined, originals(scores)) if whole else study.chance(())
    for _ in outlined:  # a study need not look at all items, but their factors and canaries are needed
        pass
    return sources, scores, outlined, chance


APART = "not one number, as not all were asked the same questions"  # what is said of a chance that is none for all
ALIKE = 0.01  # by so much the chances of different questions may differ and be one


def _find_chance(study: studies.Study, outlined: Iterable[studies.ItemOutline], rows: pl.DataFrame) -> studies.Chance:
    """What a guesser gets right of the questions, however many variants each has; nothing of parts in which models or
    strategies that were asked different ones differ. rows: of the questions."""
    own = frozenset(rows["item"])
    if count_questions(rows) > len(own):  # questions of several benchmarks are called alike
        return studies.Chance({}, APART)
    asked = (one for one in outlined if one.item in own)
    arms = rows.select("model", "strategy", "item").unique().partition_by("model", "strategy", maintain_order=True)
    if all(part.height == len(own) for part in arms):
        return study.chance(asked)
    held = {one.item: one for one in asked}
    whole = study.chance(held.values())
    each = [study.chance(held[name] for name in part["item"] if name in held).shares for part in arms]
    same = {part: share for part, share in whole.shares.items()
            if all(abs(one.get(part, share) - share) <= ALIKE for one in each)}  # fmt: skip
    return whole if same == whole.shares else studies.Chance(same, APART)


def common_study(sources: Sequence[Source]) -> str | None:
    """The study that all of these name, if they are measured runs."""
    return studies.study_of_manifests(source.manifest for source in sources)


def source_paths(sources: Sequence[Source]) -> list[Path]:
    """The folders and files that the report is made from."""
    return [one for source in sources for one in (source.folder, source.file) if one is not None]


class ItemOutlines:
    """The items that were asked, each once, as they are read, so that a million of them are never held together. Once
    all have been read, `factors` has the names of their factors, `canaries` their canaries, and `chained` says whether
    any of them has a belief chain."""

    def __init__(self, sources: Sequence[Source], scores: pl.DataFrame) -> None:
        self.factors: dict[str, None] = {}
        self.canaries: set[str] = set()
        self.chained = False
        self._left = set(scores["item"].unique())
        self._items = self._read(sources)

    def __iter__(self) -> Iterator[studies.ItemOutline]:
        return self._items

    def _read(self, sources: Sequence[Source]) -> Iterator[studies.ItemOutline]:
        for source in sources:
            if source.folder is None:
                own = (name for name in source.scores.columns if name not in COLUMNS)
                self.factors |= dict.fromkeys(name for name in own if not name.startswith((BEGINNING, "rule_")))
            for asked, canary, chained in source.outlines():
                self.factors |= dict.fromkeys(asked.factors)
                if asked.item in self._left:
                    self._left.discard(asked.item)
                    self.canaries |= {canary} if canary else set()
                    self.chained |= chained
                    yield asked


def figures_of(
    scores: pl.DataFrame, analysis: studies.Analysis, context: studies.Context, factors: Sequence[str]
) -> Sequence[Figure]:
    """The study's own figures, or where it has none those that can be drawn of any study: accuracy by strategy and by
    each factor of few values, whose values stand in the order that the study or else the benchmark says, and every
    table of paired effects; then those of variants."""
    beside = analysis.variant_analysis
    more = [
        *by_factors({name: analysis.tables[name] for name in analysis.by}, analysis.intervals),
        *(figures_of(scores, beside, context, factors) if beside is not None else ()),
    ]
    if analysis.study.figures is not None:
        return [*analysis.study.figures(analysis.tables, context), *more]
    tables = {name: frame for name, frame in analysis.tables.items() if name not in analysis.by}
    known = [name for name in factors if name in scores.columns]
    order = {**studies.load_study(studies.default_study(scores)).values, **analysis.study.values}
    own = originals(scores) if not analysis.study.variants else scores
    split = _by_factor(own, known, context.chance, order, effective=analysis.intervals == EFFECTIVE)
    return [*_accuracy(tables, context.chance), *split, *_effects(tables), *more]
