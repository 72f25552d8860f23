"""The perturbation study (arXiv 2602.22072): accuracy by class and strategy, all items and the false-belief subset.

    tomserve analyze perturbed-reference --study perturbed

`accuracy`: subset (all | false_belief), model, strategy, perturbation (a class, or overall), correct, total, accuracy,
ci_low, ci_high. A failed or unreadable answer counts as wrong; classes stand in the order of the paper.
"""

from __future__ import annotations

import polars as pl

from tomserve.stagefile import PERTURBATIONS
from tomserve.stats.published import accuracy_interval

REQUIRED = ("model", "strategy", "item", "status", "correct", "perturbation", "scenario", "question_kind")
VALUES = {"perturbation": PERTURBATIONS, "question_kind": ("reality", "belief")}
INTERVALS = ("published",)
KEYS = ["subset", "model", "strategy", "perturbation"]


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """Every table of the study, by name."""
    del intervals  # the published ones are all there is; the loader refuses others
    false_belief = (pl.col("scenario") == "false_belief") & (pl.col("question_kind") == "belief")
    subsets = [
        scores.with_columns(pl.lit("all").alias("subset")),
        scores.filter(false_belief).with_columns(pl.lit("false_belief").alias("subset")),
    ]
    both = pl.concat(subsets)
    rows = pl.concat([both, both.with_columns(pl.lit("overall").alias("perturbation"))])
    order = {name: place for place, name in enumerate((*PERTURBATIONS, "overall"))}
    counts = (
        rows.group_by(KEYS)
        .agg(pl.col("correct").fill_null(False).sum().cast(pl.Int64), pl.len().cast(pl.Int64).alias("total"))
        .collect()
        .sort(
            "subset",
            "model",
            # vanilla first: it is what the other strategies are compared with
            pl.col("strategy") != "vanilla",
            "strategy",
            pl.col("perturbation").replace_strict(order, return_dtype=pl.Int64),
        )
    )
    bounds = [accuracy_interval(correct, total) for correct, total in counts.select("correct", "total").iter_rows()]
    accuracy = counts.with_columns(
        (pl.col("correct") / pl.col("total")).alias("accuracy"),
        pl.Series("ci_low", [low for low, _ in bounds], pl.Float64),
        pl.Series("ci_high", [high for _, high in bounds], pl.Float64),
    )
    return {"accuracy": accuracy}


def summary(found: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The tables to print: classes down, strategies across, ``k/n share [interval]``; two strategies fit 80 columns."""
    shares = (pl.col(name).map_elements(_share, pl.String) for name in ("accuracy", "ci_low", "ci_high"))
    cell = pl.format("{}/{} {} [{}, {}]", "correct", "total", *shares)
    shown = {}
    titles = {"all": "all questions", "false_belief": "false-belief subset"}
    for (subset, model), part in found["accuracy"].group_by(["subset", "model"], maintain_order=True):
        wide = part.with_columns(cell.alias("cell")).pivot("strategy", index="perturbation", values="cell")
        shown[f"{model}: accuracy, {titles[str(subset)]} (published intervals)"] = wide
    return shown


def _share(value: float) -> str:
    return f"{value:.2f}".removeprefix("0")
