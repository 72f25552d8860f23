"""The report's figures of nested beliefs (Hi-ToM): by order and length, twins, and where simple rules fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
from markupsafe import Markup

from tomserve.reporting.html.charts import Cell, Line, beside, finite, heat
from tomserve.reporting.html.panels import (
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

_MEASURES = {"accuracy": "right at this order", "joint": "right at this and all lower asked orders"}
TITLES = {
    "heat": "Accuracy by order and length",
    "perturbing": "What lies do to matched twins",
    "controls": "Where copying would do, and where not",
}
"""Of the figures that this study has instead of those of other studies."""
_RULES = {
    "first_order": "first-order answer",
    "lower_order": "a lower order's answer",
    "reality": "reality",
    "joint_witness": "last seen together",
}
_RELEVANCE = {"all": "all questions", "true": "tells matter"}


def by_order_and_length(tables: Tables, chance: Mapping[str, float]) -> Figure:
    """A panel for each model, kind of story and measure: a heat map a strategy, chapters down, orders across."""
    caption = (
        "Share of right answers, one row a number of chapters, one column an order of belief (0: reality). Being right "
        "at all asked orders up to this one falls with order by itself; the table has what independent orders would "
        "give."
    )
    figure = Figure("heat", TITLES["heat"], caption, ("joint_accuracy",), wide=True)
    keys = "model strategy deception length order"
    rows = rows_of(tables, "joint_accuracy", f"{keys} accuracy joint", keys)
    models = unique(order(rows, "model"))
    parted = [row for row in rows if row["deception"] != "overall"]
    panels: list[Panel] = []
    for model, shown in models.items():
        for kind in order(parted or rows, "deception"):
            part = [row for row in rows if row["model"] == model and row["deception"] == kind]
            stories = "all stories" if kind == "overall" else f"{kind} deception"
            for measure, words in _MEASURES.items():
                title = ", ".join((*([shown] if len(models) > 1 else []), stories, words))
                if any(finite(row[measure]) is not None for row in part):
                    at = chance.get("all") if measure == "accuracy" else None
                    panels.append(Panel(title, _maps(part, measure, title, f"heat-{len(panels)}", at)))
    return with_panels(figure, panels)


def _maps(rows: Sequence[Row], measure: str, title: str, prefix: str, chance: float | None) -> Markup:
    lengths = sorted({_length(row) for row in rows}, key=lambda name: (name.startswith("all"), len(name), name))
    orders = sorted({str(row["order"]) for row in rows}, key=lambda name: (len(name), name))
    maps: list[alt.LayerChart] = []
    told: list[Cell] = []
    for strategy in order(rows, "strategy"):
        cells = []
        for row in rows:
            if row["strategy"] == strategy and (value := finite(row[measure])) is not None:
                down, across = _length(row), str(row["order"])
                cells.append(Cell(down, across, value, f"{said(strategy)}, {down}, order {across}: {value:.2f}"))
        told += cells
        if cells:
            maps.append(heat(cells, lengths, orders, said(strategy), chance=chance, names=not maps))
    return draw(beside(maps), f"Heat map, {title}. " + "; ".join(cell.told for cell in told) + ".", prefix)


def _length(row: Row) -> str:
    length = str(row["length"])
    return "all lengths" if length == "all" else f"{length} chapter{'' if length == '1' else 's'}"


def named(rows: Sequence[Row]) -> list[Row]:
    """Rows whose kind of story is said in full: with deception."""
    return [
        {**row, "deception": f"{row['deception']} deception"} if row.get("deception") in ("with", "without") else row
        for row in rows
    ]


def twins(tables: Tables) -> Figure:
    """The effect of lines that lie or tell the truth on matched twins, all questions and those where tells matter."""
    caption = (
        "Share right on stories with these lines minus the share on their matched twins, with 95% intervals. Deceptive "
        "against filler, where tells matter, is the contrast to read: as many lines, and they decide the answer."
    )
    figure = Figure("perturbing", TITLES["perturbing"], caption, ("twins",))
    needed = "model strategy treatment control tell_relevant order risk_difference rd_low rd_high"
    if tables["twins"].is_empty():
        return Figure(figure.name, figure.title, "", (), missing="Not drawn: these stories have no matched twins.")
    data: list[Row] = []
    for row in rows_of(tables, "twins", needed):
        if row["order"] == "all" and (relevant := _RELEVANCE.get(str(row["tell_relevant"]))):
            data.append({**row, "subset": "", "contrast": f"{row['treatment']} − {row['control']}, {relevant}"})
    columns = ("contrast", "strategy", "risk_difference", "rd_low", "rd_high")
    return small_multiples(figure, data, columns, (-1, 1), lambda s: [Line(0, "")], "difference from the twin")


def by_rule(tables: Tables, lines: Sequence[Line]) -> Figure:
    """Accuracy where the answer is that of a rule which nests nothing, and where it is not."""
    caption = (
        "Share right where the right answer is also that of a rule that nests nothing, and where it is not, with 95% "
        "intervals. Who copies the first-order answer, reality or what the asked agents last saw together is right in "
        "the former and wrong in the latter."
    )
    figure = Figure("controls", TITLES["controls"], caption, ("lower_order_match",))
    data: list[Row] = []
    for row in rows_of(tables, "lower_order_match", "model strategy rule order matches accuracy"):
        if row["order"] == "all":
            cell = f"{_RULES.get(str(row['rule']), row['rule'])}: {'yes' if row['matches'] else 'no'}"
            value = row["accuracy"] if row.get("estimate") is None else row["estimate"]  # what the interval is about
            data.append({**row, "subset": "", "cell": cell, "value": value})
    columns = ("cell", "strategy", "value", "ci_low", "ci_high")
    return small_multiples(figure, data, columns, (0, 1), lambda s: lines, "share right")
