"""What the terminal shows of the Hi-ToM study's tables, and what it warns of."""

from __future__ import annotations

import polars as pl

from tomserve.studies import Excerpt, baselines
from tomserve.studies.noise import shown as shown_noise
from tomserve.studies.showing import Tables
from tomserve.studies.unread import ABOUT as ABOUT_UNREAD
from tomserve.studies.unread import with_unread
from tomserve.studies.words import cell, percent, signed, worst

from .rows import ALL, OVERALL


def warnings(tables: Tables) -> list[str]:
    """One line for each reason to doubt the numbers: right answers known to be wrong, several sets of right answers,
    and strategies that were asked different items or failed on different ones."""
    doubts: dict[str, None] = {}
    golds = tables["scorer"]["gold"].drop_nulls().unique().sort().to_list()
    if "released" in golds:
        doubts["gold released: the file's own labels, stale in the VP half; see tomserve dataset audit hitom"] = None
    if len(golds) > 1:
        doubts[f"answers were compared with several sets of labels: {', '.join(golds)}"] = None
    overall = tables["accuracy"].filter(deception=OVERALL)
    asked = {(row["model"], row["strategy"]): row["total"] for row in overall.iter_rows(named=True)}
    effects = tables.get("prompting_effects", pl.DataFrame())
    if "prompting_effects" in tables:
        for model, strategy, control in (
            overall.filter(pl.col("control").is_not_null() & pl.col("minus_vanilla").is_null())
            .select("model", "strategy", "control")
            .iter_rows()
        ):
            doubts[f"{model}: {strategy} and {control} were asked no item in common, and are not compared"] = None
    for row in effects.iter_rows(named=True):
        if row["deception"] == OVERALL:
            model, pairs = row["model"], f"{row['treatment']} and {row['control']}"
            most = max(asked.get((model, name), 0) for name in (row["treatment"], row["control"]))
            if row["n"] < most:
                doubts[f"{model}: {pairs} were asked different items: {row['n']} of {most} compare"] = None
            if row["p_failure"] is not None and row["p_failure"] <= 0.05:
                failed = f"{percent(row['failed_treated'])} against {percent(row['failed_control'])}"
                doubts[
                    f"{model}: {pairs} did not fail equally often ({failed}, p {row['p_failure']:.3f}), so that their "
                    f"difference, {signed(row['risk_difference'])} points, may come from the failures: {worst(row)}"
                ] = None
    return [*doubts, *baselines.missing(tables)]


READINGS = {
    "accuracy": "A cell: right/asked, their share, and its 95% interval where one is known. A row: stories with lines "
    "that lie (with), without, and both (overall). A failure, that is no readable answer, counts as wrong. best rule: "
    "the largest share that one of the simple rules below has right of the same questions.",
    "prompting_effects": "The interval says what to expect of further stories; p is at most .05 exactly where it does "
    "not hold 0. Whether two intervals of the first table overlap says little of this difference.",
    "joint_accuracy": "order: depth of nesting, 0 asks for reality, 1 for what somebody thinks, 2 for what somebody "
    "thinks that another thinks, and so on. accuracy: share right of all questions of the order. joint falls with "
    "order by itself: compare it with product. after_right: share right where the order asked before is right.",
    "twins": "The interval counts families of twins; p is at most .05 exactly where it does not hold 0. tell_relevant: "
    "whether what is said concerns the object asked for; there the comparison was planned, elsewhere it describes.",
    "errors": "alone: wrong answers that this explanation alone fits, of wrong ones; share_alone: their share. It only "
    "describes: what may explain an answer need not have caused it.",
}
"""What a reader of the terminal must know of the columns shown, by table."""


def summary(tables: Tables) -> list[Excerpt]:
    """The tables that the terminal prints: accuracy by deception (the paper's Table 5), effects of prompting, joint
    accuracy by order, the primary comparison of twins, and wrong answers with a single explanation."""
    right = pl.format("{}/{} {}", "correct", "total", _cell("accuracy", "ci_low", "ci_high"))
    excerpts = []
    for (model,), part in tables["accuracy"].group_by(["model"], maintain_order=True):
        wide = part.with_columns(right.alias("cell")).pivot("strategy", index="deception", values="cell")
        wide = with_unread(baselines.with_best(wide, part, "deception"), part, "deception")
        reading = READINGS["accuracy"] + (f" {ABOUT_UNREAD}" if "unread" in wide.columns else "")
        excerpts.append(Excerpt(f"{model}: accuracy by deception", wide, ("accuracy",), reading))
    excerpts += baselines.excerpts(tables["accuracy"].filter(deception=OVERALL), ("strategy",))
    if "prompting_effects" in tables and tables["prompting_effects"].height:
        effect = _cell("risk_difference", "rd_low", "rd_high").alias("difference [95%]")
        frame = tables["prompting_effects"]
        shares = [
            _share(name).alias(arm) for name, arm in (("share_treated", "strategy's"), ("share_control", "control's"))
        ]
        effects = frame.select(
            "model", "treatment", "control", "deception", *shares, effect, pl.col("p").round(3), *shown_noise(frame)
        )
        title = "prompting effects: the strategy's share right minus the control's, on the same questions"
        excerpts.append(Excerpt(title, effects, ("prompting_effects",), READINGS["prompting_effects"]))
    joint = tables["joint_accuracy"].filter(deception=OVERALL, length=ALL)
    columns = ("model", "strategy", "order", "stories", "accuracy", "joint", "product", "after_right")
    title = "joint accuracy: this and all lower asked orders right; product: what it would be were orders independent"
    excerpts.append(Excerpt(title, joint.select(columns), ("joint_accuracy",), READINGS["joint_accuracy"]))
    if tables["twins"].height:
        primary = tables["twins"].filter(treatment="deceptive", control="filler", order=ALL)
        effect = _cell("risk_difference", "rd_low", "rd_high").alias("difference [95%]")
        title = "twins: stories with lines that lie, against stories with as many lines that say nothing"
        shares = [
            _share(name).alias(kind) for name, kind in (("share_treated", "deceptive"), ("share_control", "filler"))
        ]
        p = pl.col("p").round(3)
        frame = primary.select("model", "strategy", "tell_relevant", *shares, effect, p, *shown_noise(primary))
        excerpts.append(Excerpt(title, frame, ("twins",), READINGS["twins"]))
    alone = tables["errors"].filter(pl.col("alone") > 0, order=ALL) if tables["errors"].height else tables["errors"]
    if tables["errors"].height:
        counted = ("model", "strategy", "explanation", "alone", "wrong", "share_alone", "expected_alone")
        title = "wrong answers with one explanation alone; expected_alone: the share a blind wrong guess would have"
        excerpts.append(Excerpt(title, alone.select(counted), ("errors",), READINGS["errors"]))
    return excerpts


def _cell(value: str, low: str, high: str) -> pl.Expr:
    columns = [_share(name) for name in (value, low, high)]
    interval = pl.when(pl.col(low).is_null()).then(pl.lit("")).otherwise(pl.format(" [{}, {}]", *columns[1:]))
    return pl.concat_str(columns[0], interval)


def _share(name: str) -> pl.Expr:
    return pl.col(name).map_elements(cell, pl.String, skip_nulls=False)
