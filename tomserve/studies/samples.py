"""The table `samples` of questions that were asked several times each (`eval --repeats`): by majority, any, all, mean.

>>> scores = pl.DataFrame({"model": ["m"] * 2, "strategy": ["vanilla"] * 2, "item": ["a", "b"], "cluster": ["a", "b"],
...     "correct": [True, False], "samples": [4, 4], "samples_right": [3, 1], "samples_read": [4, 4],
...     "correct_any": [True, True], "correct_all": [False, False], "correct_mean": [0.75, 0.25]})
>>> table(scores).select("measure", "share").rows()
[('majority', 0.5), ('mean', 0.5), ('any', 1.0), ('all', 0.0)]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from tomserve.scoring.score import SAMPLED
from tomserve.stats.clustered import repeated_of_sums

TABLE = "samples"
"""The name of the table."""

MEASURES = {"majority": "correct", "mean": "correct_mean", "any": "correct_any", "all": "correct_all"}
"""What is right of a question that was asked several times, and the column that says so."""

NOTE = (
    "Every question was asked several times with different seeds. majority: the share of questions whose most frequent "
    "answer is right, which is the accuracy of the other tables. mean: the share of all samples that are right, to be "
    "expected of one more sample. any: the share of questions of which at least one sample is right; it rises with the "
    "number of samples, also for guesses. all: the share of which every sample is right. The 95% interval says what to "
    "expect of further stories or tasks like these, sampled anew: its error is that between clusters (stories, tasks), "
    "which holds the chance of the items and that of the samples. It may be narrower than the one of the table "
    "accuracy, which takes all answers of a cluster for equal. unread: samples that hold no readable answer or "
    "failed; they are wrong, and do not vote. A reply that the tool which asked has graded counts as read; where that "
    "tool does not say the answer of one that is right, or of any, the marks of a question's replies vote instead of "
    "the answers, and of right and wrong equally often the earlier one counts."
)


def columns(scores: pl.LazyFrame) -> list[str]:
    """The columns of a score table that this table is made from; none where every question was asked once."""
    there = set(scores.collect_schema().names())
    return [*SAMPLED, *{"people"} & there] if there.issuperset(SAMPLED) else []


class Samples:
    """Sums of samples by cluster, counted file by file (see tomserve.studies.counting)."""

    def __init__(self) -> None:
        self._sums: list[pl.DataFrame] = []
        self._most = 1

    def first(self, rows: pl.DataFrame) -> None:
        """Add the sums of a file's rows; a question that was asked once counts by its one answer."""
        if "people" in rows.columns:  # answers of several people have a table of their own (tomserve.studies.people)
            rows = rows.filter(pl.col("people").is_null())
        if "samples" not in rows.columns:
            return
        self._most = max(self._most, int(rows["samples"].max() or 1))  # type: ignore[arg-type]  # a number
        right = pl.col("correct").cast(pl.Float64)
        shares = [pl.col(name).cast(pl.Float64).fill_null(right).sum().alias(what) for what, name in MEASURES.items()]
        asked = [pl.col(name).fill_null(1).sum().cast(pl.Int64) for name in ("samples", "samples_read")]
        arms = rows.group_by("model", "strategy", "cluster")
        self._sums.append(arms.agg(pl.len().cast(pl.Int64).alias("questions"), *asked, *shares))

    def second(self, rows: pl.DataFrame, spanning: pl.Series) -> None:
        """Everything was counted at the first look."""

    def table(self) -> pl.DataFrame:
        """The table of `table`."""
        if self._most == 1:
            return pl.DataFrame()
        keys = ["model", "strategy", "cluster"]
        whole = pl.concat(self._sums).group_by(keys).agg(pl.all().sum()).sort(keys)
        arms = whole.group_by("model", "strategy", maintain_order=True)
        return pl.DataFrame([record for key, part in arms for record in _records(key, part)])


def table(rows: pl.DataFrame) -> pl.DataFrame:
    """The table, with four rows (see MEASURES) for each model and strategy; empty where nothing was asked twice.

    rows: one row for each question, with `model`, `strategy`, `cluster`, `correct` and the columns of
    tomserve.scoring.score.SAMPLED. Columns: measure, share, ci_low and ci_high (its 95% interval), questions,
    samples (all together), unread (of these), tasks (clusters), method.
    """
    counter = Samples()
    counter.first(rows)
    return counter.table()


def _records(arm: tuple[Any, ...], sums: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """The four rows of one model and strategy, from the sums of its clusters."""
    asked, read = int(sums["samples"].sum()), int(sums["samples_read"].sum())
    for measure in MEASURES:
        found = repeated_of_sums(sums[measure].to_numpy(), sums["questions"].to_numpy())
        yield {
            "model": arm[0],
            "strategy": arm[1],
            "measure": measure,
            "share": found.estimate,
            "ci_low": found.low,
            "ci_high": found.high,
            "questions": int(sums["questions"].sum()),
            "samples": asked,
            "unread": asked - read,
            "tasks": sums.height,
            "method": found.method,
        }
