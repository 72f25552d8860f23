"""The report's figures of faithfulness: effects between two references, the dose, edits, hints, predictions, cases."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tomserve.faithfulness.table import CHAIN, FULL, NO_VERDICT, QUESTION
from tomserve.reporting.html import charts
from tomserve.studies import Exhibit, Figure, Panel
from tomserve.studies.presentation import Row, Tables, finite_or_none, one_line, readable_name

from .decisions import ESTIMANDS
from .tables import AREA

# Conditions whose names in the table would not be understood in a picture
_WORDS = {
    FULL: "whole chain",
    **{"truncated_0": "no chain", "truncated_25": "first quarter", "truncated_50": "first half"},
    "truncated_75": "first three quarters",
}
_SHOWN = {QUESTION: "question alone", CHAIN: "with the chain", NO_VERDICT: "chain without its verdict"}


def _name_groups(rows: Sequence[Row]) -> list[Row]:
    """The rows with the name of their group, without the model, as the part that they belong to."""
    names = ("benchmark", "strategy", "shown", "predictor")
    several = [name for name in names if rows and name in rows[0] and len(charts.values_of(rows, name)) > 1]
    return [{**row, "subset": ", ".join(readable_name(row[name]) for name in several)} for row in rows]


def _words(condition: object) -> str:
    return _WORDS.get(str(condition), readable_name(condition))


def _multiples(figure: Figure, rows: Sequence[Row], axis: charts.Axis) -> Figure:
    parts = {str(row["subset"]): str(row["subset"]) for row in rows}
    return charts.small_multiples(figure, rows, ("row", "series", "value", "low", "high"), axis, parts)


def _effects(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    rows = charts.rows_of(tables, "headline", "model estimand value low high causal")
    shown = [
        {**row, "row": ESTIMANDS[str(row["estimand"])], "series": "effect", "other": finite_or_none(row["causal"])}
        for row in _name_groups(rows)
    ]
    lowest = min([-0.1, *(end for row in shown if (end := finite_or_none(row["low"])) is not None)])
    return _multiples(figure, shown, charts.Axis("share of answers that change", (lowest, 1.0), charts.zero_line))


def _conditions(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    rows = charts.rows_of(tables, "conditions", "model condition same_as_own implied accuracy")
    series = {"same_as_own": "own answer", "implied": "implied answer", "accuracy": "right"}
    shown = [
        {**row, "row": _words(row["condition"]), "series": name, "value": row[column], "low": None, "high": None}
        for row in _name_groups(rows)
        for column, name in series.items()
    ]
    return _multiples(figure, shown, charts.Axis("share of answers", (0.0, 1.0)))


def _hints(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    rows = charts.rows_of(tables, "hints", "model place wrong right")
    shown = [
        {**row, "row": row["place"], "series": f"to the {which} answer", "value": row[which]}
        | {"low": row[f"{which}_low"], "high": row[f"{which}_high"]}
        for row in _name_groups(rows)
        for which in ("wrong", "right")
    ]
    lowest = min([-0.1, *(end for row in shown if (end := finite_or_none(row["low"])) is not None)])
    return _multiples(figure, shown, charts.Axis("share of answers that move", (lowest, 1.0), charts.zero_line))


def _predictions(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    rows = charts.rows_of(tables, "predictions", "model condition value low high guess")
    shown = [
        {**row, "row": _SHOWN[str(row["condition"])], "series": "named", "other": finite_or_none(row["guess"])}
        for row in _name_groups(rows)
    ]
    return _multiples(figure, shown, charts.Axis("share of answers named", (0.0, 1.0)))


def _dose(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    rows = charts.rows_of(tables, "dose", "model condition left value low high")
    panels: list[Panel] = []
    parted = _name_groups([row for row in rows if row["condition"] != AREA])
    for model, short in charts.short_names(charts.values_of(parted, "model")).items():
        own = [row for row in parted if row["model"] == model]
        chart = _curve(own, charts.values_of(own, "subset"))
        panels.append(charts.panel(figure, short, chart, map(_in_words, own)))
    return replace(figure, panels=tuple(panels))


def _in_words(row: Row) -> str:
    ends = "" if finite_or_none(row["low"]) is None else f" [{row['low']:.2f}, {row['high']:.2f}]"
    name = f"{row['subset']}, " if row["subset"] else ""
    return f"{name}{float(str(row['left'])):.0%} of the chain: {row['value']:.2f}{ends}"


def _curve(rows: Sequence[Row], parts: Sequence[str]) -> charts.Curves:
    """Lines of agreement by the share of the chain that is shown, with upright intervals."""
    curves = []
    for key in charts.keys_of(parts):
        spots = [
            charts.Spot(float(str(row["left"])), value, low, high, _in_words(row))
            for row in rows
            if row["subset"] == key.name and (value := finite_or_none(row["value"])) is not None
            for low, high in [(finite_or_none(row["low"]), finite_or_none(row["high"]))]
        ]
        curves.append(charts.Curve(key, tuple(spots)))
    quarters = (0, 0.25, 0.5, 0.75, 1)
    across = charts.Scale(
        "share of the chain that is shown", (-0.03, 1.03), quarters, tuple(f"{q:.0%}" for q in quarters)
    )
    return charts.Curves(tuple(curves), across, charts.Scale.round("own answers", (0, 1)), 360, 220)


def _examples(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    rows = charts.rows_of(
        tables, "examples", "model condition outcome item own implied answer written edited question right"
    )
    several = len(charts.values_of(rows, "model")) > 1
    return replace(figure, exhibits=tuple(_exhibit(row, several=several) for row in _name_groups(rows)))


def _exhibit(row: Row, *, several: bool) -> Exhibit:
    """One case, whose title says whose it is where that is not plain, what was done, and what came of it."""
    whose = [one_line(row["model"], 24)] if several else []
    what = [*whose, *([str(row["subset"])] if row["subset"] else []), _words(row["condition"])]
    title = f"{', '.join(what)}: {row['outcome']} ({one_line(row['item'], 60)})"
    texts = {
        "question": row["question"],
        "chain as written": row["written"],
        "answer in the run": row["own"],
        "chain as shown": row["edited"],
        "answer that it implies": row["implied"],
        "answer after it": row["answer"] if row["answer"] is not None else "(none)",
        "right answer": row["right"],
    }
    return Exhibit(title, tuple((name, str(text)) for name, text in texts.items() if text is not None))


# Each with a panel for every group
MAKERS: Mapping[str, charts.Draw] = {
    "faithfulness-effects": _effects,
    "faithfulness-dose": _dose,
    "faithfulness-conditions": _conditions,
    "faithfulness-hints": _hints,
    "faithfulness-predictions": _predictions,
    "faithfulness-examples": _examples,
}
