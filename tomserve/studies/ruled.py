"""The best of the rules that follow nobody's belief beside an accuracy, from counts and sums of the same questions.

tomserve.studies.baselines says what these rules are and makes the counts from rows in memory; tomserve.studies.counting
makes them file by file.

>>> counts = {"rule_first_choice": 3, "said rule_first_choice": 8, "total": 8}
>>> ranked(counts, {"rule_first_choice": "constant"})[0]["accuracy"]
0.375
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from tomserve.scoring.baselines import KINDS, baseline_name
from tomserve.stats.paper_formulas import accuracy_interval
from tomserve.studies import summed
from tomserve.studies.summed import Record

COLUMNS = (
    "best_rule best_rule_kind best_rule_accuracy best_rule_estimate over_rule over_rule_low over_rule_high p_over_rule"
)
"""The columns that stand beside an accuracy: the best rule's name, its kind (one of scoring.rules.KINDS) and its share
of right answers on the same rows; the same share with the weights of the interval (see contrasts.contrast); and the
model's share minus that one, with its 95% interval over the unit of the accuracy's interval and the p of that test."""

KNOWN = "best_rule best_rule_kind best_rule_accuracy"
"""Those of COLUMNS that need no interval."""

EFFECTIVE = "effective"
"""The way to count by which a share of answers in clusters has the interval of as many independent answers as have its
error (designed.designed_share)."""

ORDER = {kind: place for place, kind in enumerate(KINDS)}


def ranked(counts: Mapping[str, Any], kinds: Mapping[str, str]) -> list[Record]:
    """The records of baselines.counted from counts: by a rule's column how many rows it has right, by that name with
    "said " before it of how many it says something, and the `total` of the rows. kinds: by column the rule's kind."""
    found: list[Record] = [
        {
            "rule": baseline_name(column),
            "kind": kinds[column],
            "right": counts[column],
            "total": counts["total"],
            "accuracy": counts[column] / counts["total"],
            "said": counts[f"said {column}"],
            "column": column,
        }
        for column in kinds
        if counts[f"said {column}"]
    ]
    return sorted(found, key=lambda one: (-one["right"], ORDER[one["kind"]], one["rule"]))


def pairs_with(rows: pl.DataFrame, column: str, keys: Sequence[str] = ()) -> pl.DataFrame:
    """Each row beside what a rule has of its question, as contrasts.pair has them. column: that of the rule. keys:
    further columns that are wanted."""
    return rows.select(
        *("correct", "faulty", "cluster", *keys),
        pl.col(column).fill_null(False).alias("control"),
        pl.lit(False).alias("control_faulty"),
    )


def beside_of(best: Record | None, sums: pl.DataFrame | None, brief: bool, stratum: str | None = None) -> Record:
    """What baselines.beside says, from the best of the rules (see `ranked`; None where there is none) and the sums of
    the pairs with it (summed.of_pairs), which only the interval needs. brief: whether that is left out."""
    names = (KNOWN if brief else COLUMNS).split()
    if best is None:
        return dict.fromkeys(names)
    found: Record = {
        "best_rule": best["rule"],
        "best_rule_kind": best["kind"],
        "best_rule_accuracy": best["accuracy"],
    }
    if sums is None:
        return found
    effect = summed.contrast(sums, stratum)
    found |= {
        "best_rule_estimate": effect["share_control"],
        "over_rule": effect["risk_difference"],
        "over_rule_low": effect["rd_low"],
        "over_rule_high": effect["rd_high"],
        "p_over_rule": effect["p"],
    }
    return {name: _defined(found[name]) for name in names}


def counted_share(counts: Mapping[str, Any], intervals: str) -> Record:
    """The share of right answers with its interval, as baselines.accuracy has it, from counts: `answers`, `right`,
    `unread` and, but for published intervals, `failed` and the number of `clusters`, for effective ones also
    summed.SQUARES."""
    if intervals == EFFECTIVE:
        return summed.effective_share_of(counts)
    if intervals == "recommended":
        return summed.share_of(counts)
    correct, total = int(counts["right"]), int(counts["answers"])
    low, high = accuracy_interval(correct, total)
    found = {"correct": correct, "total": total, "accuracy": correct / total, "ci_low": low, "ci_high": high}
    return {**found, "unread": int(counts["unread"])}


def _defined(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
