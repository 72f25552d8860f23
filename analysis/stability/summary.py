"""What the terminal shows of the study of stability, and what it warns of."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tomserve.studies import Excerpt
from tomserve.studies.showing import Row, Tables
from tomserve.studies.words import cell, finite, percent, readable
from tomserve.variants import AGAIN

HIGH, MOSTLY, HABIT = 0.8, 0.5, 0.9
"""From which S on stable and wrong is worth a warning; below which share of the originals a kind is mostly left out;
above which expected agreement the answers are hardly more than a habit."""

_READING = (
    "T0 is the same prompt among other requests, the noise floor. S: share of pairs of an original and its variant "
    "with the same answer, an unreadable one counting as another, with its 95% interval over stories. kappa: S after "
    "what the habit of naming certain places would give by itself (0: no more than that; ?: all answers are one). The "
    "last column is S minus that of T0, whose interval lies below 0 where more changes than by noise. left: originals "
    "without such a variant."
)
_ACCURACY = (
    "before, after: shares right of the originals and of their variants, over the same stories, and their difference "
    "with its 95% interval. S right, S wrong: S among originals answered right, and among the others. gained, lost: "
    "right answers that only the variant, or only the original, got."
)
_RULES = (
    "What rules that follow nobody's belief keep of their answers in the same pairs: the constant ones, and the best "
    "other. A high S is no evidence of Theory of Mind by itself."
)
_PAPER = (
    "Printed cells of a source whose items and answers are not public; they cannot be computed again. mean: of the "
    "four cells, and whether it rounds to the printed average."
)


def summary(tables: Tables) -> list[Excerpt]:
    """What the terminal prints: stability, what it does to accuracy, the rules beside, and how variants were made."""
    return [excerpt for excerpt in _excerpts(tables) if excerpt.frame.height]


def _excerpts(tables: Tables) -> Iterator[Excerpt]:
    frame = tables.get("stability", pl.DataFrame())
    if "kappa" in frame.columns:
        yield Excerpt("stability: S by kind of variant", _shares(frame), ("stability",), _READING)
        if "difference" in frame.columns:
            kinds = frame.filter(pl.col("difference_low").is_not_null())
            yield Excerpt("what variants do to accuracy", _accuracy(kinds), ("stability",), _ACCURACY)
    elif frame.height:
        interval = pl.format("{} [{}, {}]", _cell("s"), _cell("s_low"), _cell("s_high"))
        shown = pl.when(pl.col("s_low").is_null()).then(_cell("s")).otherwise(interval).alias("S [95%]")
        kept = frame.select("model", "strategy", *_where(frame), _kind(), "pairs", shown, _cell("d").alias("D"))
        yield Excerpt("stability as the source counts", kept, ("stability",))
    if "stability_controls" in tables:
        yield Excerpt("S of simple rules", _rules(tables["stability_controls"]), ("stability_controls",), _RULES)
    if "published_stability" in tables:
        name = "published_stability"
        yield Excerpt("published: table 5 of the source", tables[name], (name,), _PAPER)


def _cell(name: str) -> pl.Expr:
    return pl.col(name).map_elements(cell, pl.String, skip_nulls=False)


def _kind() -> pl.Expr:
    named = pl.when(pl.col("variant").str.starts_with("mean") | (pl.col("short") == "")).then(pl.col("variant"))
    return named.otherwise(pl.format("{} {}", "short", "variant")).alias("kind")


def _where(frame: pl.DataFrame) -> list[str]:
    return ["benchmark"] if frame["benchmark"].n_unique() > 1 else []


def _with(value: str, low: str, high: str, name: str) -> pl.Expr:
    """A number with its interval, and empty where there is no number that could be known."""
    bounds = pl.format("{} [{}, {}]", _cell(value), _cell(low), _cell(high))
    alone = pl.when(pl.col(value).is_null()).then(pl.lit("?")).otherwise(_cell(value))
    return pl.when(pl.col(low).is_null()).then(alone).otherwise(bounds).alias(name)


def _shares(frame: pl.DataFrame) -> pl.DataFrame:
    again = pl.col("variant") == AGAIN.name
    kappa = pl.when(again).then(pl.lit("")).otherwise(_with("kappa", "kappa_low", "kappa_high", "k"))
    columns = [_with("s", "s_low", "s_high", "S [95%]"), kappa.alias("kappa [95%]")]
    if "minus_floor" in frame.columns:
        gap = pl.when(again).then(pl.lit("")).otherwise(_with("minus_floor", "minus_low", "minus_high", "k"))
        columns.append(gap.alias("S - T0 [95%]"))
    left = [pl.col("left_out").alias("left")] if "left_out" in frame.columns else []
    return frame.select("model", "strategy", *_where(frame), _kind(), "pairs", *columns, *left)


def _accuracy(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(
        *("model", "strategy", *_where(frame)),
        _kind(),
        *(_cell(old).alias(new) for old, new in (("accuracy_original", "before"), ("accuracy_variant", "after"))),
        _with("difference", "difference_low", "difference_high", "difference [95%]"),
        *(_cell(old).alias(new) for old, new in (("s_right", "S right"), ("s_wrong", "S wrong"))),
        *("gained", "lost"),
    )


def _rules(frame: pl.DataFrame) -> pl.DataFrame:
    """A row for each constant rule, and for the best other one by the mean over kinds, a column for each kind."""
    where = ["model", *_where(frame)]
    named = frame.with_columns(pl.when(pl.col("short") == "").then("variant").otherwise("short").alias("column"))
    means = named.group_by([*where, "rule", "kind"], maintain_order=True).agg(mean=pl.col("s").mean())
    others = means.filter(pl.col("kind") != "constant").sort("mean", descending=True, maintain_order=True)
    best = others.unique(where, keep="first", maintain_order=True)
    chosen = pl.concat([means.filter(kind="constant"), best]).select(*where, "rule")
    shown = named.join(chosen, on=[*where, "rule"], how="semi").with_columns(_cell("s").alias("cell"))
    wide = shown.pivot("column", index=[*where, "rule", "kind"], values="cell", maintain_order=True)
    kinds = sorted(wide.columns[len(where) + 2 :])
    return wide.sort(*where, pl.col("kind") != "constant", "rule").select(*where, "rule", "kind", *kinds)


def warnings(tables: Tables) -> list[str]:
    """One line for each reason to doubt the numbers: few stories, kinds that are mostly left out, habits, and answers
    that are stable and wrong."""
    frame = tables.get("stability", pl.DataFrame())
    if "kappa" not in frame.columns:
        return []
    doubts: dict[str, None] = {}
    for row in frame.iter_rows(named=True):
        who = f"{row['model']}, {row['strategy']}, {row['variant']}"
        if row["variant"].startswith("mean"):
            continue
        doubts |= dict.fromkeys(f"{who}: {said}" for said in _doubts(row))
    doubts |= dict.fromkeys(_stable_and_wrong(frame))
    if AGAIN.name not in set(frame["variant"]):
        doubts["T0 was not asked (--variants again), so that no S can be compared with what batching alone changes"] = (
            None
        )
    return list(doubts)


def _doubts(row: Row) -> Iterator[str]:
    pairs, left, unpaired = (int(str(row.get(name) or 0)) for name in ("pairs", "left_out", "unpaired"))
    again = row["variant"] == AGAIN.name
    if pairs and row["few_clusters"]:
        few = f"{row['clusters']} stories or tasks" if row["clusters"] != 1 else "one story or task"
        yield f"only {few}; an interval over so few is rough"
    if not again and pairs + unpaired < MOSTLY * (pairs + unpaired + left):
        yield f"{left} of {pairs + unpaired + left} originals have no such variant, so that S is that of the others"
    if unpaired:
        yield f"{unpaired} variants were answered whose originals were not; they are not counted"
    s0 = finite(row.get("s0"))
    if s0 is not None and s0 > HABIT:
        yield (
            f"nearly all answers name one place or {readable('unknown')} (S0 {percent(s0)}), so that S shows a habit "
            "rather than stability"
        )


def _stable_and_wrong(frame: pl.DataFrame) -> Iterator[str]:
    """A line for each model and strategy whose answers mostly survive although they are hardly ever right."""
    if "above_constant" not in frame.columns:  # a table of another tool, which knows no rules
        return
    stable = frame.filter(
        pl.col("variant") != AGAIN.name,
        ~pl.col("variant").str.starts_with("mean"),
        pl.col("s") >= HIGH,
        pl.col("s0").fill_null(0) <= HABIT,
        ~pl.col("above_constant"),
    )
    for (model, strategy), part in stable.group_by(["model", "strategy"], maintain_order=True):
        first = part.row(0, named=True)
        kinds, least = ", ".join(part["variant"]), percent(part["s"].min())
        right, constant = (percent(first[name]) for name in ("accuracy_original", "constant_accuracy"))
        yield (
            f"{model}, {strategy}: stable and wrong: S is {least} or more with {kinds}, but the originals are not "
            f"clearly more often right ({right}) than a rule that always gives one sort of answer ({constant})"
        )
