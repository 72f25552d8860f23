"""The report's figures of nested beliefs (Hi-ToM): by order and length, twins, and where simple rules fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import polars as pl

from tomserve.reporting.html.charts import Cell, heat, side_by_side
from tomserve.reporting.html.panels import (
    Axis,
    chance_lines,
    drawn,
    rows_of,
    short_names,
    small_multiples,
    values_of,
    zero_line,
)
from tomserve.reporting.html.svg import Drawing, draw
from tomserve.reporting.html.vegalite import Spec
from tomserve.studies import Context, Figure, Panel, Section, baselines
from tomserve.studies.showing import Row, Tables
from tomserve.studies.words import finite, readable

from .rows import ALL, OVERALL

BREAKS = Section("breaks", "Where does it break?", "Where it breaks")
HELPS = Section("helps", "Does step-by-step reasoning help?", "Does reasoning help")
CONTROLS = Section("controls", "Control questions", "Controls")
_MEASURES = {"accuracy": "right at this order", "joint": "right at this and all lower asked orders"}
_RULES = {
    "first_order": "first-order answer",
    "lower_order": "a lower order's answer",
    "reality": "reality",
    "joint_witness": "last seen together",
}
_RELEVANCE = {"all": "all questions", "true": "tells matter"}
Draw = Callable[[Figure, Tables, Mapping[str, float]], Figure]


def figures(tables: Tables, context: Context) -> list[Figure]:
    """Every figure in the order of the report; one that cannot be drawn says why.

    tables: by name. context: what a guesser scores, drawn as a line. The effects of prompting are left
    out where they were not computed, as with published intervals.
    """

    def made(figure: Figure, draw_it: Draw) -> Figure:
        return drawn(figure, lambda: draw_it(figure, tables, context.chance))

    kept = [one for one in _FIGURES if one[0].name != "prompting" or "prompting_effects" in tables]
    return [made(figure, draw_it) for figure, draw_it in kept]


def _by_order_and_length(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    """A panel for each model, kind of story and measure: a heat map a strategy, chapters down, orders across."""
    keys = "model strategy deception length order"
    rows = rows_of(tables, "joint_accuracy", f"{keys} accuracy joint", keys)
    models = short_names(values_of(rows, "model"))
    by_kind = [row for row in rows if row["deception"] != OVERALL]
    panels: list[Panel] = []
    for model, short in models.items():
        for kind in values_of(by_kind or rows, "deception"):
            part = [row for row in rows if row["model"] == model and row["deception"] == kind]
            stories = "all stories" if kind == OVERALL else f"{kind} deception"
            for measure, words in _MEASURES.items():
                title = ", ".join((*([short] if len(models) > 1 else []), stories, words))
                if any(finite(row[measure]) is not None for row in part):
                    at = chance.get("all") if measure == "accuracy" else None
                    panels.append(Panel(title, _maps(part, measure, title, f"heat-{len(panels)}", at)))
    return replace(figure, panels=tuple(panels))


def _maps(rows: Sequence[Row], measure: str, title: str, prefix: str, chance: float | None) -> Drawing:
    lengths = sorted({_length(row) for row in rows}, key=lambda name: (name.startswith("all"), len(name), name))
    orders = sorted({str(row["order"]) for row in rows}, key=lambda name: (len(name), name))
    maps: list[Spec] = []
    all_cells: list[Cell] = []
    for strategy in values_of(rows, "strategy"):
        cells = []
        for row in rows:
            if row["strategy"] == strategy and (value := finite(row[measure])) is not None:
                down, across = _length(row), str(row["order"])
                cells.append(Cell(down, across, value, f"{readable(strategy)}, {down}, order {across}: {value:.2f}"))
        all_cells += cells
        if cells:
            maps.append(heat(cells, lengths, orders, readable(strategy), chance=chance, names=not maps))
    label = f"Heat map, {title}. " + "; ".join(cell.words for cell in all_cells) + "."
    return draw(side_by_side(maps), label, prefix)


def _length(row: Row) -> str:
    length = str(row["length"])
    return "all lengths" if length == ALL else f"{length} chapter{'' if length == '1' else 's'}"


def _kind(row: Row) -> Row:
    """The row with its kind of story said in full: with deception."""
    return {**row, "deception": f"{row['deception']} deception"} if row["deception"] in ("with", "without") else row


def _accuracy(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    frame = tables.get("accuracy", pl.DataFrame())
    rows = rows_of(tables, "accuracy", "model strategy deception accuracy", "model deception strategy")
    figure, rows = baselines.marked(figure, rows)
    estimated = "estimate" in frame.columns and frame["estimate"].is_not_null().any()
    value = "estimate" if estimated else "accuracy"  # what the interval is about
    axis = Axis("share right", (0, 1), lambda part: chance_lines(chance, part))
    return small_multiples(figure, [_kind(row) for row in rows], ("deception", "strategy", value, *_INTERVAL), axis)


_INTERVAL = ("ci_low", "ci_high")


def _twins(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    """The effect of lines that lie or tell the truth on matched twins, all questions and those where tells matter."""
    del chance
    needed = "model strategy treatment control tell_relevant order risk_difference rd_low rd_high"
    if tables["twins"].is_empty():
        return replace(figure, missing="Not drawn: these stories have no matched twins.")
    data: list[Row] = []
    for row in rows_of(tables, "twins", needed):
        if row["order"] == ALL and (relevant := _RELEVANCE.get(str(row["tell_relevant"]))):
            data.append({**row, "contrast": f"{row['treatment']} − {row['control']}, {relevant}"})
    columns = ("contrast", "strategy", "risk_difference", "rd_low", "rd_high")
    return small_multiples(figure, data, columns, Axis("difference from the twin", (-1, 1), zero_line))


def _prompting(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    del chance
    keys = "model deception treatment"
    rows = rows_of(tables, "prompting_effects", f"{keys} risk_difference rd_low rd_high", keys)
    columns = ("deception", "treatment", "risk_difference", "rd_low", "rd_high")
    axis = Axis("difference from vanilla", (-1, 1), zero_line, first=1)
    return small_multiples(figure, [_kind(row) for row in rows], columns, axis)


def _by_rule(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    """Accuracy where the answer is that of a rule which nests nothing, and where it is not."""
    data: list[Row] = []
    for row in rows_of(tables, "lower_order_match", "model strategy rule order matches accuracy"):
        if row["order"] == ALL:
            cell = f"{_RULES.get(str(row['rule']), row['rule'])}: {'yes' if row['matches'] else 'no'}"
            value = row["accuracy"] if row.get("estimate") is None else row["estimate"]  # what the interval is about
            data.append({**row, "cell": cell, "value": value})
    axis = Axis("share right", (0, 1), lambda part: chance_lines(chance, "all"))
    return small_multiples(figure, data, ("cell", "strategy", "value", *_INTERVAL), axis)


_FIGURES: tuple[tuple[Figure, Draw], ...] = (
    (
        Figure(
            "heat",
            "Accuracy by order and length",
            BREAKS,
            "Each row is a number of chapters, each column an order of belief (0: reality, 1: what somebody thinks, "
            "2: what somebody thinks that another thinks), each number the share of right answers. Being right at "
            "all asked orders up to this one falls with order by itself; the table has what it would be if the "
            "orders were independent.",
            ("joint_accuracy",),
            wide=True,
            caption_below=True,
        ),
        _by_order_and_length,
    ),
    (
        Figure(
            "accuracy",
            "Accuracy with its uncertainty",
            BREAKS,
            "Each point is the share of right answers of a strategy in a kind of story, each line its 95% interval: "
            "made by a rule that covers the true share 19 times out of 20. Chance is what a blind guess scores.",
            ("accuracy",),
        ),
        _accuracy,
    ),
    (
        Figure(
            "perturbing",
            "What lies do to matched twins",
            BREAKS,
            "Each point is the share right on stories with these lines minus the share on their matched twins, with "
            "its 95% interval. A tell is a line in which somebody says where something is. The comparison to read is "
            "deceptive against filler (lines that say nothing) where tells matter: both have as many lines, and "
            "those of the one decide the answer.",
            ("twins",),
        ),
        _twins,
    ),
    (
        Figure(
            "prompting",
            "What step-by-step reasoning does",
            HELPS,
            "Each point is the share right with a strategy minus the share right with vanilla (the answer alone, "
            "without reasoning) on the same questions, with its 95% interval. Right of the line at zero it helps.",
            ("prompting_effects",),
        ),
        _prompting,
    ),
    (
        Figure(
            "controls",
            "Where copying would do, and where not",
            CONTROLS,
            "Each point is the share right where the right answer is also that of a rule that nests nothing (yes), or "
            "where it is not (no), with its 95% interval. Who copies the first-order answer, reality or what the asked "
            "agents last saw together is right in the former and wrong in the latter.",
            ("lower_order_match",),
        ),
        _by_rule,
    ),
)
