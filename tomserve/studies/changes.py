"""What changed between two runs on the same questions, beside how much each has right.

A run that has as much right as another may have other questions right. *Harmful* flips are questions that only A has
right, *beneficial* ones those that only B has right; *churn* is the share of questions whose answer is another one,
also where both are wrong.

>>> pairs = pl.DataFrame({"strategy": "", "item": ["a", "b", "c"], "cluster": ["a", "b", "c"],
...                       "correct": [True, False, False], "control": [True, True, False], "answer": ["4", "5", "7"]})
>>> found = changes(pairs, pl.DataFrame({"strategy": "", "item": ["a", "b", "c"], "answer": ["4.0", "4", "8"]}))
>>> found.select("change", "changed", "n").rows()[::2]
[('harmful', 1, 3), ('harmful of right', 1, 2), ('churn', 2, 3)]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from tomserve.stats.clustered import designed_share
from tomserve.studies.contrasts import codes

TABLE = "changes"
"""Name of the table."""

HARMFUL, BENEFICIAL, CHURN = "harmful", "beneficial", "churn"
OF_RIGHT, OF_WRONG, BOTH_WRONG = f"{HARMFUL} of right", f"{BENEFICIAL} of wrong", f"{CHURN} both wrong"
"""The values of the column `change`."""

ABOUT = (
    "harmful: only A has the question right; beneficial: only B has it right, both as shares of all questions (n). "
    "harmful of right, beneficial of wrong: the same of the questions that A has right, or wrong. churn: the answer is "
    "another one, also where both are wrong, of the questions whose answers both runs tell; two right answers count as "
    "the same, and so do two that differ in letter case and white space alone. churn both wrong: the same of the "
    "questions that both have wrong. Every question counts once, so that beneficial minus harmful may differ a little "
    "from B minus A, where every cluster counts once. Each interval is 95%: Wilson's for the number of independent "
    "questions whose error the clusters show. Servers that answer the same request differently make flips and churn of "
    "their own: the noise floor says how much."
)
"""What a reader must know of it."""


def changes(pairs: pl.DataFrame, first: pl.DataFrame) -> pl.DataFrame:
    """What changed between the runs: for each strategy a row for every kind of change that there can have been.

    pairs: what contrasts.pair makes, with `strategy` and B's `answer`. first: A's rows, with `item`, `strategy` and
    `answer`.
    """
    before = first.select("item", "strategy", pl.col("answer").alias("answer_a"))
    right, right_before = pl.col("correct"), pl.col("control")
    joined = pairs.join(before, on=["item", "strategy"], how="left", maintain_order="left").with_columns(
        lost=~right & right_before,
        gained=right & ~right_before,
        other=(_same("answer") != _same("answer_a")) & ~(right & right_before),
    )
    rows: list[dict[str, Any]] = []
    for (strategy,), part in joined.group_by(["strategy"], maintain_order=True):
        rows += ({"strategy": strategy, **row} for row in _of(part))
    return pl.DataFrame(rows, infer_schema_length=None)


def _of(part: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """The rows of one strategy."""
    right, right_before = pl.col("correct"), pl.col("control")
    known = part.filter(pl.col("answer").is_not_null() & pl.col("answer_a").is_not_null())
    for change, rows, column in (
        (HARMFUL, part, "lost"),
        (BENEFICIAL, part, "gained"),
        (OF_RIGHT, part.filter(right_before), "lost"),
        (OF_WRONG, part.filter(~right_before), "gained"),
        (CHURN, known, "other"),
        (BOTH_WRONG, known.filter(~right & ~right_before), "other"),
    ):
        if rows.is_empty():
            continue
        found = designed_share(rows[column].cast(pl.Float64).to_numpy(), codes(rows["cluster"]))
        yield {
            **{"change": change, "changed": int(rows[column].sum()), "n": rows.height},
            **{"share": found.estimate, "low": found.low, "high": found.high, "method": found.method},
        }


def _same(name: str) -> pl.Expr:
    """An answer as it is compared: without regard to letter case and white space."""
    return pl.col(name).str.strip_chars().str.to_lowercase().str.replace_all(r"\s+", " ")


def shown(table: pl.DataFrame) -> pl.DataFrame:
    """The table as the terminal shows it."""
    return table.drop("method", *([] if table["strategy"].str.len_chars().max() else ["strategy"]))
