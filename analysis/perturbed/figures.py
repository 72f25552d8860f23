"""The report's figures from a study's tables: which numbers, in which order, with which caveats.

A figure needs only the columns that the study promises; where one is missing the figure says so instead of being drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import altair as alt
import polars as pl

from tomserve.reporting.html import nesting
from tomserve.reporting.html.charts import Cell, Line, beside, finite, heat
from tomserve.reporting.html.panels import (
    SUBSETS,
    AbsentError,
    Figure,
    Panel,
    Row,
    Tables,
    order,
    rows_of,
    said,
    small_multiples,
    unique,
    with_panels,
)
from tomserve.reporting.html.svg import draw

TITLES = {
    "heat": "Accuracy by class and model",
    "accuracy": "Accuracy with its uncertainty",
    "perturbing": "What each perturbation does",
    "prompting": "What step-by-step reasoning does",
    "faithfulness": "Chains and answers",
    "placebo": "Gain with proper and with improper chains",
    "controls": "By scenario and question",
}
METRICS = {
    "chain_proper": "chain proper",
    "chain_path_proper": "path proper, last state aside",
    "chain_lcs": "LCS precision",
    "chain_lcps": "LCPS precision",
    "chain_transitions": "transition precision",
}


def figures(tables: Tables, chance: Mapping[str, float]) -> dict[str, Figure]:
    """Every figure, by name. chance: for each subset the share right of a guesser."""
    return {figure.name: figure for figure in (make(tables, chance) for make in _MAKERS)}


def _heat_map(tables: Tables, chance: Mapping[str, float]) -> Figure:
    if "joint_accuracy" in tables:
        return nesting.by_order_and_length(tables, chance)
    caption = (
        "Share of right answers, one row a class of perturbation. Colour runs from 0 to 1 whatever the data; the "
        "difference is the strategy minus vanilla, on the same questions."
    )
    figure = Figure("heat", TITLES["heat"], caption, ("accuracy", "prompting_effects"))
    rows = rows_of(tables, "accuracy", "subset model strategy perturbation accuracy", _KEYS)
    try:
        effects = rows_of(
            tables, "prompting_effects", "subset model perturbation treatment risk_difference", _KEYS_PROMPTING
        )
    except AbsentError:
        effects = []
    models = unique(order(rows, "model"))
    panels: list[Panel] = []
    for subset in order(rows, "subset"):
        part = [row for row in rows if row["subset"] == subset]
        differences = [row for row in effects if row["subset"] == subset]
        classes = [said(name) for name in order(part, "perturbation")]
        maps: list[alt.LayerChart] = []
        told: list[Cell] = []
        for strategy in order(part, "strategy"):
            cells = _cells([row for row in part if row["strategy"] == strategy], models, "accuracy", strategy)
            told += cells
            maps.append(heat(cells, classes, list(models.values()), said(strategy), chance=chance.get(subset),
                             names=not maps))  # fmt: skip
        for treatment in order(differences, "treatment"):
            chosen = [row for row in differences if row["treatment"] == treatment]
            control = chosen[0].get("control", "vanilla")
            cells = _cells(chosen, models, "risk_difference", f"{treatment} minus {control}")
            largest = max((abs(cell.value) for cell in cells), default=0.0)
            limit = min(1.0, max(0.25, math.ceil(4 * largest) / 4))
            title = f"{said(treatment)} − {said(control)}"
            told += cells
            maps.append(heat(cells, classes, list(models.values()), title, difference=limit, names=False))
        name = SUBSETS.get(subset, said(subset))
        label = f"Heat map of accuracy, {name}. " + "; ".join(cell.told for cell in told) + "."
        panels.append(Panel(name, draw(beside(maps), label, f"heat-{len(panels)}")))
    return with_panels(replace(figure, wide=len(models) > 2), panels)


_KEYS = "subset model strategy perturbation"
_KEYS_PROMPTING = "subset model perturbation treatment"


def _cells(rows: Sequence[Row], models: Mapping[str, str], value: str, what: str) -> list[Cell]:
    found = []
    for row in rows:
        if (number := finite(row[value])) is not None:
            name, model = said(row["perturbation"]), models[str(row["model"])]
            found.append(Cell(name, model, number, f"{model}, {said(what)}, {name}: {number:.2f}"))
    return found


def _accuracy(tables: Tables, chance: Mapping[str, float]) -> Figure:
    caption = "Share of right answers with 95% intervals, by class and strategy."
    figure = Figure("accuracy", TITLES["accuracy"], caption, ("accuracy",))
    frame = tables.get("accuracy", pl.DataFrame())
    row, keys = _down(frame, "strategy", _KEYS)
    rows = rows_of(tables, "accuracy", "model strategy accuracy", keys)
    estimated = "estimate" in frame.columns and frame["estimate"].is_not_null().any()
    value = "estimate" if estimated else "accuracy"  # what the interval is about
    columns = (row, "strategy", value, "ci_low", "ci_high")
    rows = nesting.named(rows)
    return small_multiples(figure, rows, columns, (0, 1), lambda s: _chance(chance, s), "share right")


def _down(frame: pl.DataFrame, series: str, by_class: str) -> tuple[str, str]:
    """What goes down a figure and identifies its rows: classes, else deception, else the series itself."""
    if "perturbation" in frame.columns:
        return "perturbation", by_class
    return ("deception", f"model deception {series}") if "deception" in frame.columns else (series, f"model {series}")


def _chance(chance: Mapping[str, float], subset: str) -> list[Line]:
    at = chance.get(subset, chance.get("all"))
    half = Line(0.5, "half", (2, 3))
    if at is None:
        return [half]
    if abs(at - 0.5) < 0.02:
        return [Line(at, f"chance {at:.2f}, half", (5, 3))]
    return [Line(at, f"chance {at:.2f}", (5, 3), left=at < 0.5), Line(0.5, "half", (2, 3), left=at > 0.5)]


def _zero(subset: str) -> list[Line]:
    del subset
    return [Line(0, "")]


def _perturbing(tables: Tables, chance: Mapping[str, float]) -> Figure:
    if "twins" in tables:
        return nesting.twins(tables)
    caption = (
        "Share right in a class minus the share right on unperturbed stories, with 95% intervals. Left of the line: "
        "the perturbation makes it harder."
    )
    figure = Figure("perturbing", TITLES["perturbing"], caption, ("perturbation_effects",))
    rows = rows_of(tables, "perturbation_effects", f"{_KEYS} risk_difference rd_low rd_high", _KEYS)
    kept = [row for row in rows if row["perturbation"] != "overall"] or rows
    columns = ("perturbation", "strategy", "risk_difference", "rd_low", "rd_high")
    return small_multiples(figure, kept, columns, (-1, 1), _zero, "difference from unperturbed")


def _prompting(tables: Tables, chance: Mapping[str, float]) -> Figure:
    caption = (
        "Share right with the strategy minus the share right with vanilla on the same questions, with 95% intervals. "
        "Right of the line: it helps."
    )
    figure = Figure("prompting", TITLES["prompting"], caption, ("prompting_effects",))
    row, keys = _down(tables.get("prompting_effects", pl.DataFrame()), "treatment", _KEYS_PROMPTING)
    rows = rows_of(tables, "prompting_effects", f"{keys} risk_difference rd_low rd_high", keys)
    rows = nesting.named(rows)
    columns = (row, "treatment", "risk_difference", "rd_low", "rd_high")
    return small_multiples(figure, rows, columns, (-1, 1), _zero, "difference from vanilla", 1)


def _faithfulness(tables: Tables, chance: Mapping[str, float]) -> Figure:
    caption = (
        "Correlation of the quality of the written belief chain with a right answer (false-belief subset), with 95% "
        "intervals. The paper calls a model faithful from 0.4 on, if p is at most 0.05."
    )
    caveat = (
        "Read with care: a proper chain holds its final state, which mostly is the answer, so that phi is high almost "
        "by construction. Classes of unequal difficulty are pooled, which creates correlation of its own."
    )
    figure = Figure("faithfulness", TITLES["faithfulness"], caption, ("faithfulness",), caveat=caveat)
    needed = "model strategy sample metric coefficient value ci_low ci_high"
    rows = rows_of(tables, "faithfulness", needed, "model strategy sample metric")
    rows = [row for row in rows if row["coefficient"] in ("phi", "point_biserial")]
    several = len(order(rows, "strategy")) > 1
    data: list[Row] = [
        {
            **row,
            "subset": "",
            "metric": METRICS.get(str(row["metric"]), row["metric"]),
            "sample": f"{row['strategy']}, {row['sample']}" if several else f"{row['sample']} sample",
        }
        for row in rows
    ]
    columns = ("metric", "sample", "value", "ci_low", "ci_high")
    lines = [Line(0, ""), Line(0.4, "0.4", (5, 3))]
    return small_multiples(figure, data, columns, (-1, 1), lambda s: lines, "correlation with a right answer")


def _placebo(tables: Tables, chance: Mapping[str, float]) -> Figure:
    caption = (
        "Effect of the strategy on accuracy, split by whether its chain was proper (false-belief subset). A "
        "clear gain with improper chains would mean that the words help without being the reasoning."
    )
    caveat = (
        "Descriptive only: whether a chain is proper comes after the treatment. With no effect of the strategy at all "
        "the split alone makes proper chains look like a gain and improper ones like a loss."
    )
    figure = Figure("placebo", TITLES["placebo"], caption, ("placebo",), caveat=caveat)
    needed = "model strategy perturbation chain risk_difference rd_low rd_high"
    rows = rows_of(tables, "placebo", needed, "model strategy perturbation chain")
    several = len(order(rows, "strategy")) > 1
    data: list[Row] = [
        {
            **row,
            "subset": "",
            "chain": f"{row['strategy']}, {row['chain']}" if several else f"{row['chain']} chain",
            "other": row.get("null"),  # what the split alone would give, were chains and answers unrelated
        }
        for row in rows
    ]
    if any(row["other"] is not None for row in data):
        figure = replace(figure, caption=f"{caption} Upright stroke: the effect if chain and answer were unrelated.")
    columns = ("perturbation", "chain", "risk_difference", "rd_low", "rd_high")
    return small_multiples(figure, data, columns, (-1, 1), _zero, "difference from vanilla")


def _controls(tables: Tables, chance: Mapping[str, float]) -> Figure:
    if "lower_order_match" in tables:
        return nesting.by_rule(tables, _chance(chance, "all"))
    caption = (
        "Share right by scenario and question, all classes together. A model that answers the false-belief questions "
        "by a habit fails where the same words tell of a true belief, or where reality is asked for."
    )
    figure = Figure("controls", TITLES["controls"], caption, ("subtasks",))
    rows_of(tables, "subtasks", "model strategy scenario question_kind correct total")
    summed = (
        tables["subtasks"]
        .group_by("model", "strategy", "scenario", "question_kind", maintain_order=True)
        .agg(pl.col("correct").sum(), pl.col("total").sum())
        .sort(pl.col("scenario") != "false_belief", "scenario", "question_kind", maintain_order=True)
        .with_columns(accuracy=pl.col("correct") / pl.col("total"))
        .to_dicts()
    )
    data: list[Row] = [{**row, "cell": f"{row['scenario']}: {row['question_kind']}"} for row in summed]
    columns = ("cell", "strategy", "accuracy", "", "")
    return small_multiples(figure, data, columns, (0, 1), lambda s: _chance(chance, "all"), "share right")


def _or_missing(name: str, make: Callable[[Tables, Mapping[str, float]], Figure]) -> Callable[..., Figure]:
    def made(tables: Tables, chance: Mapping[str, float]) -> Figure:
        titles = {**TITLES, **nesting.TITLES} if "joint_accuracy" in tables else TITLES
        try:
            figure = make(tables, chance)
        except AbsentError as absent:
            return Figure(name, titles[name], "", (), missing=f"Not drawn: {absent}.")
        return (
            figure
            if figure.panels or figure.missing
            else Figure(name, figure.title, "", (), missing="Not drawn: no defined values.")
        )

    return made


_MAKERS = tuple(
    _or_missing(name, make)
    for name, make in (
        ("heat", _heat_map),
        ("accuracy", _accuracy),
        ("perturbing", _perturbing),
        ("prompting", _prompting),
        ("faithfulness", _faithfulness),
        ("placebo", _placebo),
        ("controls", _controls),
    )
)
