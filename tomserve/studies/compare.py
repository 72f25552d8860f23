"""`tomserve compare`: two runs, or two strategies, on the same questions: paired differences, flips both ways, and what
else differs.

    tomserve compare perturbed-base perturbed-tuned
    tomserve compare perturbed-base --strategies vanilla,cot

The second, B, is compared with the first, A: a positive difference means that B is right more often. Items that only
one of them was asked are refused, unless the caller asks for what both were asked (`common`); what is left out is then
counted. Items that were made of others, such as those of a fresh edition, are compared with these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import polars as pl

from tomserve.errors import ConfigError, one_of
from tomserve.runs.measurement import refuse_measured
from tomserve.runs.runfolder import find_run, read_manifest
from tomserve.runs.scores import load_scores
from tomserve.scoring.table import TABLES, Note
from tomserve.studies import changes as changing
from tomserve.studies import compared_by, gaps, people
from tomserve.studies import margins as against
from tomserve.studies import valued as grading
from tomserve.studies.checking import check
from tomserve.studies.contrasts import Record, contrast, pair
from tomserve.studies.differing import differences
from tomserve.studies.families import adjusted
from tomserve.studies.loading import default_study, load_study, measured_studies
from tomserve.studies.matching import matched
from tomserve.studies.noise import line
from tomserve.studies.rows import REQUIRED, originals, prepared

CLASS = "perturbation"
"""The factor whose values are the classes of questions."""


_NOT_COMPARED = (
    "cannot be compared question by question",
    "`tomserve analyze RUN RUN` sets measured runs side by side",
)
"""Why a measured run cannot be compared, and what to do instead."""


class Side(NamedTuple):
    """One side of a comparison: its source (a run or a score table) and its strategy; None for all that both have."""

    source: str
    strategy: str | None = None

    def __str__(self) -> str:
        return self.source if self.strategy is None else f"{self.source} by {self.strategy}"


@dataclass(frozen=True)
class Comparison:
    """What two runs, or two strategies, differ in.

    `a`, `b`: the two sides. `effects`: a row for each strategy and class of questions, all questions last. `flips`:
    items that one side has right and the other wrong. `differences`: fields of the manifests that differ, as (name, in
    A, in B). `left_out`: how many answers of A and of B the other lacks. `noise`: the noise floor in words, None where
    neither side measured it. `lacking`: sentences on answers that could not be read, failed or were not asked for.
    `caption`: where one side tells the questions of the other anew, what a gap between them means; else None.
    `people`: where a side are people, the same differences with every person's answer counted
    (tomserve.studies.people). `changes`: flips and changed answers as shares (tomserve.studies.changes); `margins`:
    tests against a margin, where one was named (tomserve.studies.margins); `values`: grades that are more than right or
    wrong (tomserve.studies.valued). `by`: by name a table of differences for each factor that was asked for
    (tomserve.studies.compared_by).
    """

    effects: pl.DataFrame
    flips: pl.DataFrame
    differences: list[tuple[str, str, str]]
    left_out: tuple[int, int]
    noise: str | None
    a: Side
    b: Side
    lacking: tuple[str, ...]
    caption: str | None = None
    people: pl.DataFrame = field(default_factory=pl.DataFrame)
    changes: pl.DataFrame = field(default_factory=pl.DataFrame)
    margins: pl.DataFrame = field(default_factory=pl.DataFrame)
    values: pl.DataFrame = field(default_factory=pl.DataFrame)
    by: Mapping[str, pl.DataFrame] = field(default_factory=dict)


def compare(
    first: str,
    second: str | None = None,
    *,
    strategies: tuple[str, str] | None = None,
    common: bool = False,
    margin: float | None = None,
    by: Sequence[str] = (),
    note: Note | None = None,
) -> Comparison:
    """Compare two runs, two strategies, or both, on the questions that both were asked.

    first, second: names or paths of runs, or files of score tables; a positive difference means that the second is
    right more often. Without a second, two strategies of the first are compared. strategies: the strategy of the first
    and that of the second. Without them the strategies that both have are compared with themselves; two runs that have
    none in common, and one each, are compared by these. common: leave out what only one of them was asked, rather than
    refuse. margin: the largest difference that does not matter, a share; then it is tested whether the second is not
    worse by as much. by: factors of the questions, such as "kind" or, crossed, "kind,order", whose values are compared
    one by one. note: told which lines could not be read. Raises ConfigError where their questions differ and `common`
    is not set, where it is not clear which strategies to compare, and for a factor that the questions do not have.
    """
    against.check_margin(margin)
    for source in dict.fromkeys((first, second or first)):
        if not source.endswith(TABLES):
            refuse_measured(find_run(source), *_NOT_COMPARED)
    scores = [load_scores(first, note=note)]
    scores.append(scores[0] if second in (None, first) else load_scores(second, note=note))
    sources = (first, first if second is None else second)
    for source, table in zip(sources, scores, strict=True):
        if measured_studies(table):
            raise ConfigError(f"{source}: holds a measurement and no answers, so that it {'; '.join(_NOT_COMPARED)}")
    a, b = sides = _sides(sources, scores, strategies, second is None)
    tables, caption = matched([originals(table) for table in scores], sources)
    factors, questions = compared_by.factors_of(tables, by)
    rows = [_rows(side, table) for side, table in zip(sides, tables, strict=True)]
    keys = ["item", "strategy"]
    left_out = _left_out(sides, rows, keys, common)
    pairs = pair(rows[1], rows[0], keys)
    if pairs.is_empty():
        raise ConfigError(f"{a} and {b} have no question in common")
    classes = _classes(scores[0], pairs)
    effects = compared_by.framed(list(_effects(pairs, classes)))
    doubts = compared_by.doubts(pairs, tables, questions, factors)
    found, lacking = _differences(a, b), (*_lacking(sources, scores), *doubts)
    grades = grading.valued(pairs, tables, (a.strategy, b.strategy))
    counted = people.compared(_of_side(a, tables[0]), _of_side(b, tables[1]), pairs, classes)
    return Comparison(
        effects,
        _flips(pairs, rows[0]),
        found,
        left_out,
        _noise(scores),
        a,
        b,
        lacking,
        caption,
        counted,
        changing.changes(pairs, rows[0]),
        pl.DataFrame() if margin is None else against.margins(pairs, margin, grades),
        grading.table(grades),
        compared_by.effects_by(pairs, questions, factors) if factors else {},
    )


def _sides(
    sources: tuple[str, str], scores: Sequence[pl.DataFrame], strategies: tuple[str, str] | None, alone: bool
) -> tuple[Side, Side]:
    """The two sides. Raises ConfigError for an unknown strategy, and where it is not clear what to compare."""
    for table in scores:
        check(table, REQUIRED, {})
    known = [sorted(table["strategy"].unique()) for table in scores]
    if strategies is not None:
        for source, names, wanted in zip(sources, known, strategies, strict=True):
            if wanted not in names:
                raise ConfigError(f"--strategies: {source}: {one_of('strategy', wanted, names)}")
        if sources[0] == sources[1] and strategies[0] == strategies[1]:
            raise ConfigError(f"--strategies: {strategies[0]!r} is given twice; name two different strategies")
        return Side(sources[0], strategies[0]), Side(sources[1], strategies[1])
    if alone:
        raise ConfigError(
            f"compare needs a second run, or two strategies of {sources[0]} by --strategies A,B; it has "
            f"{', '.join(known[0])}"
        )
    if set(known[0]) & set(known[1]):
        return Side(sources[0]), Side(sources[1])
    if len(known[0]) == len(known[1]) == 1:
        return Side(sources[0], known[0][0]), Side(sources[1], known[1][0])
    raise ConfigError(
        f"{sources[0]} (strategies {', '.join(known[0])}) and {sources[1]} ({', '.join(known[1])}) have no strategy in "
        "common; say by --strategies A,B which to compare"
    )


def _rows(side: Side, scores: pl.DataFrame) -> pl.DataFrame:
    """The rows of a side; of a chosen strategy the name is left out, since that of the other side is another."""
    if scores["model"].n_unique() > 1:
        models = ", ".join(sorted(scores["model"].unique()))
        raise ConfigError(f"{side.source}: holds several models ({models}); compare runs")
    if side.strategy is not None:
        scores = scores.filter(pl.col("strategy") == side.strategy).with_columns(strategy=pl.lit(""))
    wanted = dict.fromkeys(("answer", "cluster", "stage", CLASS), pl.String)
    return prepared(scores.lazy(), REQUIRED, wanted).collect()


def _of_side(side: Side, scores: pl.DataFrame) -> pl.DataFrame:
    """The answers of a side as the score table has them."""
    return scores if side.strategy is None else scores.filter(pl.col("strategy") == side.strategy)


def _left_out(
    sides: tuple[Side, Side], rows: Sequence[pl.DataFrame], keys: Sequence[str], common: bool
) -> tuple[int, int]:
    """How many answers of each side the other lacks. Raises ConfigError where there are some, unless `common`."""
    only = rows[0].join(rows[1], on=keys, how="anti"), rows[1].join(rows[0], on=keys, how="anti")
    counts = only[0].height, only[1].height
    if any(counts) and not common:
        item, strategy = only[0 if counts[0] else 1].sort(keys).select("item", "strategy").row(0)
        first = f"item {item!r}" + (f", strategy {strategy!r}" if strategy else "")
        raise ConfigError(
            f"{sides[0]} and {sides[1]} were not asked the same: {counts[0]} and {counts[1]} answers have no partner "
            f"(first: {first}); --common compares what both were asked"
        )
    return counts


def _classes(scores: pl.DataFrame, pairs: pl.DataFrame) -> list[str]:
    """The classes of the questions in the order in which the benchmark's study names them; others, and those of other
    benchmarks, in the order of the score table."""
    has = CLASS in scores.columns
    found = scores[CLASS].drop_nulls().cast(pl.String).unique(maintain_order=True).to_list() if has else []
    named = load_study(default_study(scores)).values.get(CLASS, ())
    there = set(pairs[CLASS].drop_nulls())
    return [name for name in dict.fromkeys((*named, *found, *sorted(there))) if name in there]


def _effects(pairs: pl.DataFrame, classes: Sequence[str]) -> Iterator[Record]:
    """The effects of each strategy: by class where the items have one, with what testing them together adds, then over
    all questions. Where all items have a stage, the intervals are for stages not yet written."""
    for (strategy,), part in pairs.group_by(["strategy"], maintain_order=True):
        staged = "stage" if part["stage"].null_count() == 0 else None
        key = {"strategy": strategy}
        named = {name: one for (name,), one in part.group_by([CLASS])}
        records = [{**key, CLASS: name, **contrast(named[name], staged)} for name in classes if name in named]
        overall = {**key, CLASS: "overall", **contrast(part, staged)}
        unit = "stage" if staged else "task"
        yield from adjusted([*records, overall], classes, words=compared_by.WORDS, unit=unit)


def _flips(pairs: pl.DataFrame, first: pl.DataFrame) -> pl.DataFrame:
    """The items that only one of the two has right, with both answers: "gained" where it is B, "lost" where it is A."""
    before = first.select("item", "strategy", pl.col("answer").alias("answer_a"), pl.col("status").alias("status_a"))
    flipped = pairs.filter(pl.col("correct") != pl.col("control")).join(before, on=["item", "strategy"], how="left")
    return flipped.select(
        "strategy",
        pl.when("correct").then(pl.lit("gained")).otherwise(pl.lit("lost")).alias("flip"),
        CLASS,
        "item",
        "answer_a",
        pl.col("answer").alias("answer_b"),
        "status_a",
        pl.col("status").alias("status_b"),
    ).sort("strategy", "flip", "item")


def _differences(a: Side, b: Side) -> list[tuple[str, str, str]]:
    """What else differs between the runs; where their strategies are compared, not that each has its own."""
    if a.source == b.source or a.source.endswith(TABLES) or b.source.endswith(TABLES):
        return []
    found = differences(*(read_manifest(find_run(side.source)) or {} for side in (a, b)))
    chosen = {f"strategies.{side.strategy}" for side in (a, b) if side.strategy is not None}
    return [(one.name, one.a, one.b) for one in found if one.name not in chosen]


def _lacking(sources: Sequence[str], scores: Sequence[pl.DataFrame]) -> tuple[str, ...]:
    said: dict[str, None] = {}
    for source, table in zip(sources, scores, strict=True):
        place = source if source.endswith(TABLES) else find_run(source)
        said |= dict.fromkeys(gaps.sentences(gaps.of_source(place, table)))
    return tuple(said)


def _noise(scores: Sequence[pl.DataFrame]) -> str | None:
    """How often the servers answered the same request differently, as far as the runs have measured it."""
    lines = {name: line(table) for name, table in zip("AB", scores, strict=True)}
    measured_lines = [f"{name}: {text.partition(': ')[2]}" for name, text in lines.items() if text]
    return "; ".join(measured_lines) or None
