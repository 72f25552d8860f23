"""Accuracy by model and strategy, for any items: the study of benchmarks that have none of their own.

    tomserve analyze items-mymodel --study accuracy

`accuracy`: model, strategy, correct, total, accuracy, ci_low, ci_high. `prompting_effects`: every strategy against
vanilla on the same items. `metrics`: means of what the benchmark computes from replies. recommended: the unit is the
cluster (story, task; an item without one is its own), failures count as wrong; published: items as independent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from tomserve.stats.published import accuracy_interval
from tomserve.studies import metrics
from tomserve.studies.contrasts import contrast, pair, share
from tomserve.studies.noise import shown as shown_noise
from tomserve.studies.study import answered, with_columns

REQUIRED = ("model", "strategy", "item", "status", "correct")
VALUES: dict[str, tuple[str, ...]] = {}
INTERVALS = ("recommended", "published")
VANILLA = "vanilla"


def notes(intervals: str) -> dict[str, str]:
    """One line a table: what its interval means, and for which population."""
    if intervals == "published":
        return {"accuracy": "items as independent: (k + 2)/(n + 4), normal"}
    return {
        "accuracy": "Wilson's interval with n = clusters, for further clusters like these; failures count as wrong",
        "prompting_effects": "paired on the same items, t and sign flips over clusters: this is the test, overlapping "
        "intervals of accuracies are none",
        metrics.TABLE: metrics.NOTE,
    }


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """`accuracy`, and with recommended intervals `prompting_effects` where vanilla was asked."""
    kinds = {"answer": pl.String, "cluster": pl.String}
    rows = (
        with_columns(scores, kinds)
        .with_columns(
            correct=pl.col("correct").fill_null(False) & answered(),
            faulty=~answered(),
            cluster=pl.coalesce("cluster", "item"),
        )
        .sort("model", "strategy", "item")
        .collect()
    )
    arms = rows.group_by(["model", "strategy"], maintain_order=True)
    found = pl.DataFrame([{"model": key[0], "strategy": key[1], **_share(part, intervals)} for key, part in arms])
    if intervals == "published":
        return {"accuracy": found}
    effects = list(_effects(rows))
    computed = metrics.means(rows)
    return {
        "accuracy": found,
        **({"prompting_effects": pl.DataFrame(effects).fill_nan(None)} if effects else {}),
        **({metrics.TABLE: computed} if computed.height else {}),
    }


def _share(rows: pl.DataFrame, intervals: str) -> dict[str, Any]:
    if intervals == "recommended":
        return share(rows)
    correct, total = int(rows["correct"].sum()), rows.height
    low, high = accuracy_interval(correct, total)
    return {"correct": correct, "total": total, "accuracy": correct / total, "ci_low": low, "ci_high": high}


def _effects(rows: pl.DataFrame) -> Iterator[dict[str, Any]]:
    for (model, strategy), treated in rows.group_by(["model", "strategy"], maintain_order=True):
        pairs = pair(treated, rows.filter(model=model, strategy=VANILLA))
        if strategy != VANILLA and pairs.height:
            yield {"model": model, "treatment": strategy, "control": VANILLA, **contrast(pairs)}


def summary(found: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """What the terminal shows of them."""
    shown = {"accuracy": found["accuracy"].select(found["accuracy"].columns[:7])}
    if "prompting_effects" in found:
        effects = [
            "model",
            "treatment",
            "control",
            "risk_difference",
            "rd_low",
            "rd_high",
            "p_sign_flip",
            "gained",
            "lost",
            *shown_noise(found["prompting_effects"]),
        ]
        shown["effects, paired on the same items"] = found["prompting_effects"].select(effects)
    if metrics.TABLE in found:
        shown["metrics of the replies"] = found[metrics.TABLE]
    return shown
