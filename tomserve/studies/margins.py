"""What a comparison of two runs says beside the difference: what changed, how the grades differ, and whether the
difference is smaller than a margin that somebody names.

A run that has as much right as another may have other questions right. *Harmful* flips are questions that only A has
right, *beneficial* ones those that only B has right; *churn* is the share of questions whose answer is another one,
also where both are wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import polars as pl

from tomserve.errors import ConfigError
from tomserve.stats import pairs as of_pairs
from tomserve.stats.effects import Effect
from tomserve.stats.equivalence import VERDICTS, against_margin, needed
from tomserve.stats.paired import mean_interval, t_p
from tomserve.studies import summed
from tomserve.studies.contrasts import share
from tomserve.studies.words import points, readable

CHANGES, MARGINS, VALUES = "changes", "margins", "values"
"""Names of the tables."""

ABOUT_CHANGES = (
    "harmful: the share of all questions that only A has right; beneficial: that only B has right. harmful_of_right "
    "and beneficial_of_wrong: the same of those that A has right, or wrong. churn: the share of questions with "
    "another answer, also where both are wrong, of those (known) whose answers both runs tell; equal but for letter "
    "case and white space counts as the same. Each interval is 95%, Wilson's for the number of clusters. Servers that "
    "answer the same request differently make churn of their own: the noise floor says how much."
)
ABOUT_MARGINS = (
    "Whether B is as good as A, up to the margin, a difference that does not matter. not inferior: the 95% interval "
    "of B minus A lies above -margin (a one-sided test at 2.5%). equivalent: the 90% interval lies between -margin "
    "and margin (two one-sided tests at 5% each, TOST). A difference that is not significant shows neither. needed: "
    "how many clusters like these would show it in 4 of 5 studies if there were no difference. worst_low and "
    "worst_high: the least and greatest difference that failures leave possible. Name the margin before you look."
)
ABOUT_VALUES = (
    "Grades that are more than right or wrong: the mean of each run on the same questions, and their difference, with "
    "95% t intervals over clusters. value_a and value_b are means of the clusters' means, of which the difference is "
    "that of the two."
)


def check_margin(margin: float | None) -> None:
    """Raise ConfigError for a margin that is no share."""
    if margin is not None and not 0 < margin < 1:
        raise ConfigError(f"--margin {margin:g}: expected a share above 0 and below 1, such as 0.02 for two points")


def margins(pairs: pl.DataFrame, margin: float) -> pl.DataFrame:
    """What tests against the margin show, a row for each strategy.

    pairs: what contrasts.pair makes, with `strategy` and, where all questions have one, `stage`.
    """
    rows: list[dict[str, Any]] = []
    for (strategy,), part in pairs.group_by(["strategy"], maintain_order=True):
        staged = ["stage"] if "stage" in part.columns and part["stage"].null_count() == 0 else []
        sums = summed.of_pairs(part, staged)
        units = summed.pair_sums(sums, *staged)

        def interval(level: float, units: of_pairs.PairSums = units, strata: bool = bool(staged)) -> Effect:
            return of_pairs.pairs_effect(units, level, strata=strata)

        found = against_margin(interval, margin)
        record = summed.contrast(sums, *staged)
        one, both = needed(margin, record["sd"] or math.nan)
        rows.append(
            {
                "strategy": strategy,
                "difference": record["risk_difference"],
                **asdict(found),
                "units": record["units"],
                "needed_not_inferior": one,
                "needed_equivalent": both,
                "worst_low": record["worst_low"],
                "worst_high": record["worst_high"],
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None).fill_nan(None)


def told(table: pl.DataFrame) -> Iterator[str]:
    """A sentence for each strategy: what was shown, and what not."""
    for row in table.iter_rows(named=True):
        named = f"{row['strategy']}: " if row["strategy"] else ""
        difference = {"risk_difference": row["difference"], "rd_low": row["low_90"], "rd_high": row["high_90"]}
        clear = row["low"] is not None and (row["low"] > 0 or row["high"] < 0)
        more = "; a difference is clear, but smaller than that" if row["verdict"] == "equivalent" and clear else ""
        wanted = row["needed_not_inferior"]
        few = (
            f". {wanted:,} clusters would show non-inferiority in 4 of 5 studies; there are {row['units']:,}"
            if row["verdict"] == "undecided" and wanted is not None and wanted > row["units"]
            else ""
        )
        yield (
            f"{named}with a margin of {100 * row['margin']:g} points, B is {row['verdict']} ({VERDICTS[row['verdict']]}"
            f"{more}): B minus A is {points(difference)} at 90% confidence{few}."
        )


def changes(pairs: pl.DataFrame, first: pl.DataFrame) -> pl.DataFrame:
    """What changed between the runs, a row for each strategy.

    pairs: as for `margins`, with B's `answer`. first: A's rows, with `item`, `strategy` and `answer`.
    """
    before = first.select("item", "strategy", pl.col("answer").alias("answer_a"))
    joined = pairs.join(before, on=["item", "strategy"], how="left", maintain_order="left").with_columns(
        harmful=~pl.col("correct") & pl.col("control"),
        beneficial=pl.col("correct") & ~pl.col("control"),
        known=pl.col("answer").is_not_null() & pl.col("answer_a").is_not_null(),
        changed=_same("answer") != _same("answer_a"),
    )
    rows = []
    for (strategy,), part in joined.group_by(["strategy"], maintain_order=True):
        known = part.filter("known")
        wrong = known.filter(~pl.col("correct") & ~pl.col("control"))
        rows.append(
            {
                "strategy": strategy,
                "n": part.height,
                **_shares("harmful", part, "harmful"),
                **_shares("beneficial", part, "beneficial"),
                **_shares("harmful_of_right", part.filter("control"), "harmful"),
                **_shares("beneficial_of_wrong", part.filter(~pl.col("control")), "beneficial"),
                "known": known.height,
                **_shares("churn", known, "changed"),
                **_shares("churn_both_wrong", wrong, "changed"),
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None).fill_nan(None)


def _same(name: str) -> pl.Expr:
    """An answer as it is compared: without regard to letter case and white space."""
    return pl.col(name).str.strip_chars().str.to_lowercase().str.replace_all(r"\s+", " ")


def _shares(name: str, rows: pl.DataFrame, of: str) -> dict[str, float]:
    """The share of the rows of which a column is true, with its interval over clusters."""
    found = share(rows.select(pl.col(of).alias("correct"), pl.lit(False).alias("faulty"), "cluster"))
    return {name: found["accuracy"], f"{name}_low": found["ci_low"], f"{name}_high": found["ci_high"]}


def values(scores: Sequence[pl.DataFrame], strategies: Sequence[str | None]) -> pl.DataFrame:
    """The mean grades of two runs and their difference, a row for each strategy; no rows where grades are only right or
    wrong, or a run has none.

    scores: the score tables of A and B. strategies: that of each which is compared, None for all that both have.
    """
    tables = [_valued(table, strategy) for table, strategy in zip(scores, strategies, strict=True)]
    if any(table.is_empty() for table in tables) or not any(
        table["value"].is_in([0.0, 1.0]).not_().any() for table in tables
    ):
        return pl.DataFrame()
    joined = tables[1].join(tables[0], on=["item", "strategy"], suffix="_a")
    rows = []
    for (strategy,), part in joined.group_by(["strategy"], maintain_order=True):
        means = part.group_by("cluster").agg(pl.col("value").mean(), pl.col("value_a").mean()).sort("cluster")
        d = (means["value"] - means["value_a"]).to_numpy()
        found = mean_interval(d, 0.95)
        sides = {
            f"value_{one}": float(means[name].to_numpy().mean()) for one, name in (("a", "value_a"), ("b", "value"))
        }
        ends = {"difference": found.estimate, "low": found.low, "high": found.high, "p": t_p(d)}
        rows.append({"strategy": strategy, **sides, **ends, "n": part.height, "clusters": means.height})
    return pl.DataFrame(rows, infer_schema_length=None).fill_nan(None)


def _valued(scores: pl.DataFrame, strategy: str | None) -> pl.DataFrame:
    """The grades of a run as numbers: item, strategy, cluster, value. A failure has the value 0."""
    if "graded_value" not in scores.columns:
        return pl.DataFrame({"value": []})
    chosen = (
        scores if strategy is None else scores.filter(pl.col("strategy") == strategy).with_columns(strategy=pl.lit(""))
    )
    if chosen["graded_value"].null_count() == chosen.height:
        return pl.DataFrame({"value": []})
    return chosen.select(
        "item",
        "strategy",
        pl.coalesce("cluster", "item").alias("cluster"),
        pl.col("graded_value").fill_null(0.0).alias("value"),
    ).sort("item", "strategy")


def notes(margin: pl.DataFrame, graded: pl.DataFrame) -> dict[str, str]:
    """What a reader must know of the tables that are there, by name."""
    more = {MARGINS: ABOUT_MARGINS} if margin.height else {}
    return {CHANGES: ABOUT_CHANGES, **more, **({VALUES: ABOUT_VALUES} if graded.height else {})}


def shown(table: pl.DataFrame, name: str) -> pl.DataFrame:
    """The columns of a table that the terminal shows. name: of the table."""
    strategy = ["strategy"] if table["strategy"].str.len_chars().max() else []
    if name == MARGINS:
        return table.select(
            *strategy, "margin", "difference", "low_90", "high_90", "p_not_inferior", "p_equivalent", "verdict"
        )
    if name == VALUES:
        return table.select(*strategy, "value_a", "value_b", "difference", "low", "high", "p", "n")
    kinds = ("harmful", "beneficial", "harmful_of_right", "beneficial_of_wrong", "churn", "churn_both_wrong")
    frames = [
        table.select(
            *strategy,
            pl.lit(readable(kind)).alias("change"),
            pl.col(kind).alias("share"),
            pl.col(f"{kind}_low").alias("low"),
            pl.col(f"{kind}_high").alias("high"),
        )
        for kind in kinds
    ]
    return pl.concat(frames, how="vertical_relaxed")
