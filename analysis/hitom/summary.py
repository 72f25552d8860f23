"""What the terminal shows of the Hi-ToM study's tables, and what it warns of."""

from __future__ import annotations

import math

import polars as pl
from _hitom_rows import OVERALL

from tomserve.studies.noise import shown as shown_noise


def warnings(found: dict[str, pl.DataFrame]) -> list[str]:
    """What makes the numbers doubtful: stale labels, several sets of them, strategies that differ in what they failed
    on or were asked."""
    said: dict[str, None] = {}
    golds = found["scorer"]["gold"].drop_nulls().unique().sort().to_list()
    if "released" in golds:
        said["gold released: the file's own labels, stale in the VP half; see tomserve dataset audit hitom"] = None
    if len(golds) > 1:
        said[f"answers were compared with several sets of labels: {', '.join(golds)}"] = None
    overall = found["accuracy"].filter(deception=OVERALL)
    asked = {(row["model"], row["strategy"]): row["total"] for row in overall.iter_rows(named=True)}
    effects = found.get("prompting_effects", pl.DataFrame())
    if "prompting_effects" in found:
        for model, strategy, control in (
            overall.filter(pl.col("control").is_not_null() & pl.col("minus_vanilla").is_null())
            .select("model", "strategy", "control")
            .iter_rows()
        ):
            said[f"{model}: {strategy} and {control} were asked no item in common, and are not compared"] = None
    for row in effects.iter_rows(named=True):
        if row["deception"] == OVERALL:
            model, pairs = row["model"], f"{row['treatment']} and {row['control']}"
            most = max(asked.get((model, name), 0) for name in (row["treatment"], row["control"]))
            if row["n"] < most:
                said[f"{model}: {pairs} were asked different items: {row['n']} of {most} compare"] = None
            if row["p_failure"] is not None and row["p_failure"] < 0.05:
                said[f"{model}: {pairs} failed on different items (p {row['p_failure']:.3f}); read the bounds"] = None
    return list(said)


def summary(found: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The tables to print: Table 5, joint accuracy by order, the primary contrast of twins, errors with one cause."""
    with_intervals = "prompting_effects" in found
    cell = pl.format("{}/{} {}", "correct", "total", _shown("accuracy", "ci_low", "ci_high"))
    shown = {}
    accuracy = found["accuracy"]
    for (model,), part in accuracy.group_by(["model"], maintain_order=True):
        wide = part.with_columns(cell.alias("cell")).pivot("strategy", index="deception", values="cell")
        shown[f"{model}: accuracy by deception"] = wide
    if with_intervals and found["prompting_effects"].height:
        effect = _shown("risk_difference", "rd_low", "rd_high").alias("effect [95%]")
        p = pl.col("p_sign_flip").round(3).alias("p")
        shown["prompting effects, paired on the same questions"] = found["prompting_effects"].select(
            "model", "treatment", "control", "deception", effect, p, *shown_noise(found["prompting_effects"])
        )
    joint = found["joint_accuracy"].filter(deception=OVERALL, length="all")
    shown["joint accuracy: all asked orders up to this one right, beside the product of the marginals"] = joint.select(
        "model", "strategy", "order", "stories", "accuracy", "joint", "product", "after_right"
    )
    if found["twins"].height:
        primary = found["twins"].filter(treatment="deceptive", control="filler", order="all")
        effect = _shown("risk_difference", "rd_low", "rd_high").alias("deceptive - filler [95%]")
        columns = ("model", "strategy", "tell_relevant", effect, *shown_noise(primary))
        shown["twins: what lies do, with as many lines"] = primary.select(columns)
    alone = found["errors"].filter(order="all")
    if alone.height:
        shown["errors with one explanation alone, beside a guess among the containers mentioned"] = alone.filter(
            pl.col("alone") > 0
        ).select("model", "strategy", "explanation", "alone", "wrong", "share_alone", "expected_alone")
    return shown


def _shown(value: str, low: str, high: str) -> pl.Expr:
    columns = [pl.col(name).map_elements(_number, pl.String, skip_nulls=False) for name in (value, low, high)]
    interval = pl.when(pl.col(low).is_null()).then(pl.lit("")).otherwise(pl.format(" [{}, {}]", *columns[1:]))
    return pl.concat_str(columns[0], interval)


def _number(value: float | None) -> str:
    return "?" if value is None or not math.isfinite(value) else f"{value:.2f}".replace("0.", ".", 1)
