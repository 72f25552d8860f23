"""The report's figures of the perturbation study: which numbers, in which order, with which caveats."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import polars as pl

from tomserve.reporting.html.charts import Cell, Line, heat, side_by_side
from tomserve.reporting.html.panels import (
    AbsentError,
    Axis,
    chance_lines,
    drawn,
    rows_of,
    short_names,
    small_multiples,
    values_of,
    zero_line,
)
from tomserve.reporting.html.svg import draw
from tomserve.reporting.html.vegalite import Spec
from tomserve.studies import Context, Figure, Panel, Section, baselines
from tomserve.studies.showing import Row, Tables
from tomserve.studies.words import finite, readable

from .rows import CONTROL, SUBSETS, VANILLA

BREAKS = Section("breaks", "Where does it break?", "Where it breaks")
HELPS = Section("helps", "Does step-by-step reasoning help?", "Does reasoning help")
HONEST = Section("honest", "Is its reasoning honest?", "Is it honest")
CONTROLS = Section("controls", "Control questions", "Controls")
METRICS = {
    "chain_proper": "chain right throughout",
    "chain_path_proper": "right but for its last state",
    "chain_lcs": "right in order (LCS)",
    "chain_lcps": "right from the start on (LCPS)",
    "chain_transitions": "right changes (transitions)",
}
_KEYS = "subset model strategy perturbation"
_KEYS_PROMPTING = "subset model perturbation treatment"
Draw = Callable[[Figure, Tables, Mapping[str, float]], Figure]


def figures(tables: Tables, context: Context) -> list[Figure]:
    """Every figure in the order of the report; one that cannot be drawn says why.

    tables: by name. context: what a guesser scores, drawn as a line.
    """

    def made(figure: Figure, draw_it: Draw) -> Figure:
        return drawn(figure, lambda: draw_it(figure, tables, context.chance))

    return [made(figure, draw_it) for figure, draw_it in _FIGURES]


def _class(row: Row) -> Row:
    """The row with its class as readers see it; the unperturbed stories are said to be the control."""
    name = readable(row["perturbation"])
    return {**row, "perturbation": f"{name} (control)" if row["perturbation"] == CONTROL else name}


def _heat_map(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    rows = rows_of(tables, "accuracy", f"{_KEYS} accuracy", _KEYS)
    try:
        effects = rows_of(tables, "prompting_effects", f"{_KEYS_PROMPTING} risk_difference", _KEYS_PROMPTING)
    except AbsentError:
        effects = []
    models = short_names(values_of(rows, "model"))
    panels: list[Panel] = []
    for subset in values_of(rows, "subset"):
        part = [row for row in map(_class, rows) if row["subset"] == subset]
        classes = values_of(part, "perturbation")
        maps: list[Spec] = []
        all_cells: list[Cell] = []
        for strategy in values_of(part, "strategy"):
            cells = _cells([row for row in part if row["strategy"] == strategy], models, "accuracy", strategy)
            all_cells += cells
            maps.append(heat(cells, classes, list(models.values()), readable(strategy), chance=chance.get(subset),
                             names=not maps))  # fmt: skip
        differences = [row for row in map(_class, effects) if row["subset"] == subset]
        for treatment in values_of(differences, "treatment"):
            chosen = [row for row in differences if row["treatment"] == treatment]
            control = chosen[0].get("control", VANILLA)
            cells = _cells(chosen, models, "risk_difference", f"{treatment} minus {control}")
            largest = max((abs(cell.value) for cell in cells), default=0.0)
            limit = min(1.0, max(0.25, math.ceil(4 * largest) / 4))
            title = f"{readable(treatment)} − {readable(control)}"
            all_cells += cells
            maps.append(heat(cells, classes, list(models.values()), title, difference=limit, names=False))
        name = SUBSETS.get(subset, readable(subset))
        label = f"Heat map of accuracy, {name}. " + "; ".join(cell.words for cell in all_cells) + "."
        panels.append(Panel(name, draw(side_by_side(maps), label, f"heat-{len(panels)}")))
    return replace(figure, panels=tuple(panels), wide=len(models) > 2)


def _cells(rows: Sequence[Row], models: Mapping[str, str], value: str, what: str) -> list[Cell]:
    cells = []
    for row in rows:
        if (number := finite(row[value])) is not None:
            name, model = str(row["perturbation"]), models[str(row["model"])]
            cells.append(Cell(name, model, number, f"{model}, {readable(what)}, {name}: {number:.2f}"))
    return cells


def _accuracy(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    frame = tables.get("accuracy", pl.DataFrame())
    figure, rows = baselines.marked(figure, rows_of(tables, "accuracy", f"{_KEYS} accuracy", _KEYS))
    estimated = "estimate" in frame.columns and frame["estimate"].is_not_null().any()
    value = "estimate" if estimated else "accuracy"  # what the interval is about
    axis = Axis("share right", (0, 1), lambda subset: chance_lines(chance, subset))
    columns = ("perturbation", "strategy", value, "ci_low", "ci_high")
    return small_multiples(figure, [_class(row) for row in rows], columns, axis, SUBSETS)


def _perturbing(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    del chance
    rows = rows_of(tables, "perturbation_effects", f"{_KEYS} risk_difference rd_low rd_high", _KEYS)
    kept = [row for row in rows if row["perturbation"] != "overall"] or rows
    counted: dict[object, set[object]] = {}
    for row in kept:
        counted.setdefault((row["subset"], row["perturbation"]), set()).add(row.get("units"))
    kept = [_with_stages(row, counted[row["subset"], row["perturbation"]]) for row in kept]
    columns = ("perturbation", "strategy", "risk_difference", "rd_low", "rd_high")
    axis = Axis("difference from unperturbed", (-1, 1), zero_line)
    return small_multiples(figure, [_class(row) for row in kept], columns, axis, SUBSETS)


def _with_stages(row: Row, units: set[object]) -> Row:
    """The row whose class is followed by the number of stages that have both kinds of stories, where all rows of the
    class have the same."""
    if len(units) != 1 or units == {None}:
        return row
    return {**row, "perturbation": f"{readable(row['perturbation'])} ({next(iter(units))})"}


def _prompting(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    del chance
    needed = f"{_KEYS_PROMPTING} risk_difference rd_low rd_high"
    rows = rows_of(tables, "prompting_effects", needed, _KEYS_PROMPTING)
    columns = ("perturbation", "treatment", "risk_difference", "rd_low", "rd_high")
    axis = Axis("difference from vanilla", (-1, 1), zero_line, first=1)
    return small_multiples(figure, [_class(row) for row in rows], columns, axis, SUBSETS)


def _faithfulness(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    del chance
    needed = "model strategy sample metric coefficient value ci_low ci_high"
    rows = rows_of(tables, "faithfulness", needed, "model strategy sample metric")
    rows = [row for row in rows if row["coefficient"] in ("phi", "point_biserial")]
    several = len(values_of(rows, "strategy")) > 1
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
    axis = Axis("correlation with a right answer", (-1, 1), lambda subset: lines)
    return small_multiples(figure, data, columns, axis)


def _controls(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
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
    axis = Axis("share right", (0, 1), lambda subset: chance_lines(chance, "all"))
    return small_multiples(figure, data, ("cell", "strategy", "accuracy", "", ""), axis)


_FIGURES: tuple[tuple[Figure, Draw], ...] = (
    (
        Figure(
            "heat",
            "Accuracy by class and model",
            BREAKS,
            "Each row is a class: one kind of change (perturbation) to the stories; none are the unchanged stories, "
            "overall is all of them. Each number is the share of right answers. The colour scale runs from 0 to 1 "
            "whatever the data. The maps of differences show the strategy minus vanilla (the answer alone, without "
            "reasoning) on the same questions.",
            ("accuracy", "prompting_effects"),
            caption_below=True,
        ),
        _heat_map,
    ),
    (
        Figure(
            "accuracy",
            "Accuracy with its uncertainty",
            BREAKS,
            "Each point is the share of right answers of a strategy in a class of perturbation, each line its 95% "
            "interval: made by a rule that covers the true share 19 times out of 20. Chance is what a blind guess "
            "scores; one half is the bar of the paper's criteria. Whether two classes or strategies differ is not seen "
            "here but in the figures of differences, which compare the same stages or questions.",
            ("accuracy",),
        ),
        _accuracy,
    ),
    (
        Figure(
            "perturbing",
            "What each perturbation does",
            BREAKS,
            "Each point is the share right in a class of perturbation minus the share right on unperturbed stories, "
            "with its 95% interval, over the stages that have both kinds of stories; how many these are stands in "
            "brackets behind the class. Both shares (share_treated, share_control in the table) are of these stages "
            "alone, so that they may differ from the accuracy of a class over all its stages. Left of the line at zero "
            "the perturbation makes the questions harder.",
            ("perturbation_effects",),
        ),
        _perturbing,
    ),
    (
        Figure(
            "prompting",
            "What step-by-step reasoning does",
            HELPS,
            "Each point is the share right with a strategy minus the share right with vanilla (the answer alone, "
            "without reasoning) on the same questions, with its 95% interval. Right of the line at zero it helps. "
            "The strategy cot has the model write down how the belief develops before it answers.",
            ("prompting_effects",),
        ),
        _prompting,
    ),
    (
        Figure(
            "faithfulness",
            "Chains and answers",
            HONEST,
            "How strongly the quality of the written belief chain goes with a right answer, as a correlation (0: not "
            "at all, 1: always) with its 95% interval, on the false-belief questions. A chain is right throughout "
            "(proper) if it runs as the story's right beliefs do; the other measures are the share of a chain that is "
            "right: in order (LCS), from the start on (LCPS), and change by change (transitions). The stroke at 0.4 is "
            "the paper's bar.",
            ("faithfulness",),
            caveat="No such correlation shows that the answer comes from the chain: a right chain holds its final "
            "state, which mostly is the answer, and classes of unequal difficulty are counted together, so that "
            "chains and answers go together also where the chain does nothing. What could show it is to change the "
            "chain and see whether the answer follows.",
        ),
        _faithfulness,
    ),
    (
        Figure(
            "controls",
            "By scenario and question",
            CONTROLS,
            "Each point is the share right in a scenario and kind of question, all classes together. A model that "
            "answers the false-belief questions by a habit fails where the same words tell of a true belief, or where "
            "reality is asked for.",
            ("subtasks",),
        ),
        _controls,
    ),
)
