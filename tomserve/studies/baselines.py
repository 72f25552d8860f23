"""Shortcut baselines: what simple rules score on the very questions that a model was asked.
Beside an accuracy stands the one with the most right answers on the same rows, of several the plainest.

>>> counts = {"rule_first_choice": 3, "said rule_first_choice": 8, "total": 8}
>>> rank_rules(counts, {"rule_first_choice": "constant"})[0]["accuracy"]
0.375
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import polars as pl

from tomserve import benchmarks
from tomserve.scoring.baselines import BEGINNING, GENERIC, KINDS, baseline_name
from tomserve.stats.paper_formulas import accuracy_interval
from tomserve.studies import contrasts
from tomserve.studies.answer_rows import REQUIRED, prepare_rows, split_by, with_columns
from tomserve.studies.contrasts import NEW, Record, share
from tomserve.studies.phrases import PHRASES
from tomserve.studies.presentation import (
    Excerpt,
    Figure,
    Row,
    Tables,
    cell,
    cell_of,
    finite_or_none,
    percent,
    side_of,
    signed_interval,
)

# The best rule's name, kind and share on the same rows; that share with the weights of the interval; and the model's
# share minus it, with its 95% interval over the unit of the accuracy's interval, and p.
RULE_COLUMNS = (
    "best_rule best_rule_kind best_rule_accuracy best_rule_estimate over_rule over_rule_low over_rule_high p_over_rule"
)

KNOWN_COLUMNS = "best_rule best_rule_kind best_rule_accuracy"  # Those of RULE_COLUMNS that need no interval
# The way to count by which a share of answers in clusters has the interval of as many independent answers as have its
# error (tomserve.stats.clustered).
EFFECTIVE = "effective"
ORDER = {kind: place for place, kind in enumerate(KINDS)}


def rank_rules(counts: Mapping[str, Any], kinds: Mapping[str, str]) -> list[Record]:
    """The records of rules, the best first, from the counts `rule_sums`. kinds: by column the rule's kind."""
    total = counts["total"]
    found: list[Record] = [
        {
            **{"rule": baseline_name(column), "kind": kinds[column], "right": counts[column], "total": total},
            **{"accuracy": counts[column] / total, "said": counts[f"said {column}"], "column": column},
        }
        for column in kinds
        if counts[f"said {column}"]
    ]
    return sorted(found, key=lambda one: (-one["right"], ORDER[one["kind"]], one["rule"]))


def pair_with_rule(rows: pl.DataFrame, right: pl.Expr, keys: Sequence[str] = ()) -> pl.DataFrame:
    """Each row beside what a rule has of its question, as contrasts.pair_rows has them. right: whether the rule is
    right, null where it says nothing. keys: further columns that are wanted."""
    return rows.select(
        *("correct", "faulty", "cluster", *keys),
        right.fill_null(False).alias("control"),
        pl.lit(False).alias("control_faulty"),
    )


def rule_columns_of_sums(
    best: Record | None, sums: pl.DataFrame | None, brief: bool, stratum: str | None = None
) -> Record:
    """What `rule_columns` says, from the best of the rules (None where there is none) and the sums of the pairs with it
    (contrasts.sums_of_pairs), which only the interval needs. brief: whether that is left out."""
    names = (KNOWN_COLUMNS if brief else RULE_COLUMNS).split()
    if best is None:
        return dict.fromkeys(names)
    found = [best["rule"], best["kind"], best["accuracy"]]
    if sums is not None:
        effect = contrasts.contrast(sums, stratum)
        found += [effect[name] for name in ("share_control", "risk_difference", "rd_low", "rd_high", "p")]
    known = (None if isinstance(one, float) and not math.isfinite(one) else one for one in found)
    return dict(zip(names, known, strict=sums is not None))


def share_by_intervals(counts: Mapping[str, Any], intervals: str) -> Record:
    """The share of right answers with its interval from counts: `answers`, `right`, `unread` and, but for published
    intervals, `failed` and `clusters`, for effective ones also contrasts.SQUARES."""
    if intervals == EFFECTIVE:
        return contrasts.effective_share_of_counts(counts)
    if intervals == "recommended":
        return contrasts.share_of_counts(counts)
    correct, total = int(counts["right"]), int(counts["answers"])
    low, high = accuracy_interval(correct, total)
    found = {"correct": correct, "total": total, "accuracy": correct / total, "ci_low": low, "ci_high": high}
    return {**found, "unread": int(counts["unread"])}


TABLE = "baselines"  # Name of the table of all rules
ABOUT = PHRASES["about_best_rule"]  # What RULE_COLUMNS mean, for the notes of a table that has them
# The warning where a score table has no rules, as one that an older version made.
MISSING = PHRASES["no_rules"]


class RuleKinds(NamedTuple):
    """The kind of each rule of a score table, by its column."""

    by_column: Mapping[str, str]

    @classmethod
    def of(cls, scores: pl.LazyFrame) -> RuleKinds:
        """The rules of a score table. A rule of a benchmark that this process does not know counts as surface."""
        schema = scores.collect_schema()
        columns = [name for name, kind in schema.items() if name.startswith(BEGINNING) and kind == pl.Boolean]
        if not columns:
            return cls({})
        named = {rule.column: rule.kind for rule in GENERIC}
        if schema.get("benchmark") == pl.String:
            for name in scores.select(pl.col("benchmark").unique().sort()).collect()["benchmark"].drop_nulls():
                known = benchmarks.find(name)
                named |= {rule.column: rule.kind for rule in known.rules} if known is not None else {}
        return cls({column: named.get(column, "surface") for column in columns})

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.by_column)


def count_rules(rows: pl.DataFrame, kinds: RuleKinds) -> list[Record]:
    """How many of these rows each rule has right, the best first, without rules that say nothing of any row; where a
    rule says nothing of a row it has it not right."""
    if not kinds.columns or rows.is_empty():
        return []
    return rank_rules(rows.select(rule_sums(kinds)).row(0, named=True), kinds.by_column)


def rule_sums(kinds: RuleKinds) -> list[pl.Expr]:
    """The number of rows, and by rule how many it has right and of how many it says something."""
    right = [pl.col(name).sum().cast(pl.Int64) for name in kinds.columns]
    said = [pl.col(name).count().cast(pl.Int64).alias(f"said {name}") for name in kinds.columns]
    return [pl.len().cast(pl.Int64).alias("total"), *right, *said]


def rule_records(rows: pl.DataFrame, kinds: RuleKinds, keys: Sequence[str]) -> Iterator[Record]:
    """The records of the table of baselines: for each value of the keys every rule, the best first. Each item counts
    once, whatever it was asked by."""
    read = rows.select(*keys, "item", *kinds.columns)  # what is not read is not copied, either
    once = read.unique([*keys, "item"], keep="first", maintain_order=True)
    counts = once.group_by(keys, maintain_order=True).agg(rule_sums(kinds)) if kinds.columns else once.clear()
    yield from records_of_counts(counts, keys, kinds)


def records_of_counts(counts: pl.DataFrame, keys: Sequence[str], kinds: RuleKinds) -> Iterator[Record]:
    """The records of `rule_records` from the sums `rule_sums` by the keys."""
    for row in counts.iter_rows(named=True):
        for record in rank_rules(row, kinds.by_column):
            del record["column"]
            yield {**{name: row[name] for name in keys}, **record}


def rule_columns(rows: pl.DataFrame, kinds: RuleKinds, interval: bool = True) -> Record:
    """What stands beside the accuracy of these rows of one model and strategy: RULE_COLUMNS, or KNOWN_COLUMNS without
    `interval`, which is over clusters."""
    best, sums = next(iter(count_rules(rows, kinds)), None), None
    if best is not None and interval:
        sums = contrasts.sums_of_pairs(pair_with_rule(rows, pl.col(best["column"])))
    return rule_columns_of_sums(best, sums, not interval)


def sums_with_rules(
    rows: pl.DataFrame, keys: Sequence[str], kinds: RuleKinds, stratum: str | None = None
) -> Iterator[tuple[Record, pl.DataFrame, Record]]:
    """For each combination of values of the keys, in the order of the rows: these by name, the sums of its answers
    (contrasts.sums_of_answers, by the stratum where there is one), and its `rule_columns`. All are counted at once,
    since a query takes longer than the rows of one combination."""
    by = [*keys, *([stratum] if stratum else [])]
    counts = rows.group_by(keys, maintain_order=True).agg(rule_sums(kinds))
    best = [next(iter(rank_rules(row, kinds.by_column)), None) for row in counts.iter_rows(named=True)]
    sums = _partition(contrasts.sums_of_answers(rows, by), keys)
    pairs: dict[tuple[Any, ...], pl.DataFrame] = {}
    if read := sorted({one["column"] for one in best if one is not None}):
        chosen = counts.select(*keys, pl.Series("best", [one and one["column"] for one in best], pl.String))
        beside = rows.select(*by, "cluster", "correct", "faulty", *read).join(
            chosen.drop_nulls("best"), on=list(keys), nulls_equal=True, maintain_order="left"
        )
        right = pl.coalesce(pl.when(pl.col("best") == name).then(name) for name in read)
        pairs = _partition(contrasts.sums_of_pairs(pair_with_rule(beside, right, by), by), keys)
    for key, one in zip(counts.select(keys).iter_rows(), best, strict=True):
        yield dict(zip(keys, key, strict=True)), sums[key], rule_columns_of_sums(one, pairs.get(key), False, stratum)


def _partition(sums: pl.DataFrame, keys: Sequence[str]) -> dict[tuple[Any, ...], pl.DataFrame]:
    """The sums by the values of the keys; Polars would look these up anew in every part."""
    values = sums.select(keys).unique(maintain_order=True).rows()
    return dict(zip(values, sums.partition_by(keys, maintain_order=True), strict=True))


def accuracy(rows: pl.DataFrame, kinds: RuleKinds, intervals: str, *, brief: bool = False) -> Record:
    """The share of right answers of rows of one model and strategy. intervals: "recommended", with the `rule_columns`
    beside it (without the difference if `brief`), or "published", for questions taken as independent."""
    if intervals == "recommended":
        return {**share(rows), **rule_columns(rows, kinds, interval=not brief)}
    counts = {"right": rows["correct"].sum(), "answers": rows.height, "unread": rows["unread"].sum()}
    return share_by_intervals(counts, intervals)


def rows_with_rules(scores: pl.LazyFrame, columns: Mapping[str, Any]) -> tuple[pl.DataFrame, RuleKinds]:
    """The prepared rows of a score table with these further columns, by their types, and with those of its rules."""
    kinds = RuleKinds.of(scores)
    rows = prepare_rows(with_columns(scores, columns), (*REQUIRED, *columns, *kinds.columns))
    return rows.collect(), kinds


def shares_by(
    rows: pl.DataFrame,
    keys: Sequence[str],
    kinds: RuleKinds,
    intervals: str,
    *,
    brief: bool = True,
    chance: bool = False,
) -> Iterator[Record]:
    """The `accuracy` of each model, strategy and value of the keys. chance: whether a column says what a blind guess
    among the choices (column `options`) has right."""
    for key, part in split_by(rows, ("model", "strategy", *keys)):
        if chance:
            key["chance"] = part.select((1 / pl.col("options")).mean()).item()
        yield {**key, **accuracy(part, kinds, intervals, brief=brief)}


def records_by(rows: pl.DataFrame, kinds: RuleKinds, key: str) -> Iterator[Record]:
    """The records of the table of baselines by model, of all questions and then by the values of the key."""
    for frame in (rows.with_columns(pl.lit("all").alias(key)), rows):
        yield from rule_records(frame, kinds, ("model", key))


def place_against_rule(row: Mapping[str, Any]) -> int | None:
    """1 where the accuracy of a row is significantly above its best rule's, -1 below, 0 not told apart; None without an
    interval."""
    return side_of(row.get("over_rule_low"), row.get("over_rule_high"))


_PLACES = {1: "significantly above", 0: "no significant difference from", -1: "significantly below"}


def compare_with_rule(row: Mapping[str, Any]) -> str:
    """How the accuracy of a row compares with its best rule's, as a clause such as: significantly above the baseline
    "always reality" (90%; difference +5 [+1, +9] points). Empty where the row has no rule."""
    if row.get("best_rule") is None or (share := finite_or_none(row.get("best_rule_accuracy"))) is None:
        return ""
    rule = f'the baseline "{row["best_rule"]}" ({percent(share)}'
    if (where := place_against_rule(row)) is None:
        accuracy = finite_or_none(row.get("accuracy"))
        side = "beside" if accuracy is None else "above" if accuracy > share else "below" if accuracy < share else "as"
        return f"{side} {rule})"
    return f"{_PLACES[where]} {rule}; difference {signed_interval(row, 'over_rule')} points{_means(row)})"


def _means(row: Mapping[str, Any]) -> str:
    """The two shares whose difference over_rule is, where the accuracies beside it differ by another number of points:
    the difference counts every unit once, an accuracy every question."""
    accuracy, share, over, rule = (
        finite_or_none(row.get(name)) for name in ("accuracy", "best_rule_accuracy", "over_rule", "best_rule_estimate")
    )
    if accuracy is None or share is None or over is None or rule is None:
        return ""
    if abs((accuracy - share) - over) < 0.005:
        return ""
    unit = "stages" if row.get("target") == NEW else "stories"
    return f", {percent(rule + over)} against {percent(rule)} with {unit} weighted equally"


def best_of_kinds(frame: pl.DataFrame) -> str:
    """A sentence with the best rule of each kind that says something of most questions, from rows of the table of
    baselines of one model and part; empty without."""
    if frame.is_empty() or (frame := frame.filter(pl.col("said") * 2 >= pl.col("total"))).is_empty():
        return ""
    best = frame.unique(["kind"], keep="first", maintain_order=True)
    ranked = sorted(best.iter_rows(named=True), key=lambda row: ORDER.get(row["kind"], len(ORDER)))
    listed = [f'{percent(row["accuracy"])} "{row["rule"]}" ({_SHORT.get(row["kind"], "?")})' for row in ranked]
    return f"Best shortcut baselines: {', '.join(listed)}"


_SHORT = {kind: meaning.partition(":")[0] for kind, meaning in KINDS.items()}


def mark_best_rule(figure: Figure, rows: Sequence[Row]) -> tuple[Figure, list[Row]]:
    """A figure of accuracy and its rows, with the share of the best rule as a mark (column `other`) and caption."""
    made = [{**row, "other": _marked(row)} for row in rows]
    if all(row["other"] is None for row in made):
        return figure, made
    caption = f"{figure.caption} {PHRASES['about_rule_mark']}"
    return replace(figure, caption=caption, tables=(*figure.tables, TABLE)), made


def _marked(row: Row) -> Any:
    """The best rule's share as the figure counts: a mean over stages where the row's estimate is one, else the share of
    questions."""
    return row.get("best_rule_estimate" if row.get("target") == NEW else "best_rule_accuracy")


def with_best_rule(cells: pl.DataFrame, shares: pl.DataFrame, key: str) -> pl.DataFrame:
    """Cells for the terminal with a further column: the share of the best rule in each row, by strategy where it
    differs. shares: rows of accuracy with the column `key` and KNOWN_COLUMNS."""
    if "best_rule" not in shares.columns or shares["best_rule"].is_null().all():
        return cells
    return with_column(cells, shares, key, "baseline", "best_rule_accuracy", cell)


def with_column(
    cells: pl.DataFrame, shares: pl.DataFrame, key: str, name: str, column: str, text: Callable[[Any], str]
) -> pl.DataFrame:
    """The cells with a column `name`: the texts of a column of shares by strategy, or once where all have the same
    value."""
    records = []
    for (value,), part in shares.group_by([key], maintain_order=True):
        found = part[column].to_list()
        records.append({key: value, name: " / ".join(map(text, found if len(set(found)) > 1 else found[:1]))})
    return cells.join(pl.DataFrame(records), on=key, how="left", maintain_order="left")


def excerpts(shares: pl.DataFrame, keys: Sequence[str]) -> list[Excerpt]:
    """For the terminal, by model: each accuracy beside its best rule and their difference with its 95% interval.
    shares: rows of accuracy over all classes, with RULE_COLUMNS or KNOWN_COLUMNS, and `keys`. None where no rule is
    known."""
    if "best_rule" not in shares.columns:
        return []
    found = []
    for (model,), part in shares.drop_nulls("best_rule").group_by(["model"], maintain_order=True):
        paired = "over_rule" in part.columns
        rule = "best_rule_estimate" if paired else "best_rule_accuracy"
        if paired:  # the share whose difference from the rule's is shown
            part = part.with_columns(accuracy=pl.coalesce(pl.col(rule) + pl.col("over_rule"), "accuracy"))
        columns = [
            cell_of("accuracy"),
            pl.col("best_rule").alias("best baseline"),
            cell_of(rule, "its accuracy"),
        ]
        if paired:
            ends = map(cell_of, ("over_rule", "over_rule_low", "over_rule_high"))
            columns += [pl.format("{} [{}, {}]", *ends).alias("difference [95%]")]
        title = f"{model}: accuracy against the best shortcut baseline"
        reading = PHRASES["about_rules_compared" if paired else "about_rules_read"]
        found.append(Excerpt(title, part.select(*keys, *columns), (TABLE,), reading))
    return found


def missing_warnings(tables: Tables) -> list[str]:
    """The warning that nothing can be compared with rules, where tables hold answers and no rules."""
    frame = tables.get(TABLE, pl.DataFrame())
    return [] if "kind" in frame.columns and frame["kind"].is_in(list(KINDS)).any() else [MISSING]


def drop_rule_columns(frame: pl.DataFrame, kinds: RuleKinds) -> pl.DataFrame:
    """Shares without RULE_COLUMNS, where the rules of the score table say nothing of any question, as of open ones."""
    there = [name for name in RULE_COLUMNS.split() if name in frame.columns]
    silent = there and kinds.columns and frame[there[0]].is_null().all()
    return frame.drop(there) if silent else frame


def drop_rule_notes(notes: Mapping[str, str], tables: Tables) -> dict[str, str]:
    """The notes without what RULE_COLUMNS mean, where a table has none of them."""
    first = RULE_COLUMNS.split()[0]
    bare = {name for name in notes if name in tables and first not in tables[name].columns}
    return {name: text.replace(ABOUT, "").strip() if name in bare else text for name, text in notes.items()}


def drop_missing_warnings(warnings: Iterable[str], columns: Iterable[str]) -> tuple[str, ...]:
    """The warnings of a study, each once, without MISSING where the score table has rules after all: then no question
    has choices, which is no reason to doubt a number. columns: those of the score table."""
    ruled_by = any(name.startswith(BEGINNING) for name in columns)
    return tuple(one for one in dict.fromkeys(warnings) if not (ruled_by and one == MISSING))
