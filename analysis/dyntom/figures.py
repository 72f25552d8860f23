"""The report's figures of DynToM: accuracy by form of question and by state, beside chance and the best rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tomserve.reporting.html.panels import Axis, chance_lines, drawn, rows_of, small_multiples
from tomserve.studies import Context, Figure, Section, baselines
from tomserve.studies.showing import Row, Tables
from tomserve.studies.words import readable

SECTION = Section("states", "What is understood, and what is followed?", "What is followed")
_POINTS = "Each point is the share of right answers, its line the 95% interval over stories."
FORMS = Figure(
    "forms",
    "Right answers by form of question",
    SECTION,
    f"{_POINTS} What is asked of one scene; how asks what one state does to the next within a scene; whether, how "
    "change and why ask about changes between scenes. The upright line of chance is that of all questions; the forms "
    "have 8, 6 or 7, 5, 8 and 16 options.",
    ("forms",),
)
STATES = Figure(
    "states",
    "Right answers by state and task",
    SECTION,
    f"{_POINTS} Understanding asks what a state is, influence what it leads to, transformation how it changes.",
    ("states",),
)
_INTERVAL = ("ci_low", "ci_high")


def figures(tables: Tables, context: Context) -> list[Figure]:
    """Both figures; one that cannot be drawn says why. tables: by name. context: what a guesser scores, drawn as a
    line."""
    return [
        drawn(FORMS, lambda: _drawn(FORMS, _forms(tables), context.chance)),
        drawn(STATES, lambda: _drawn(STATES, _states(tables), context.chance)),
    ]


def _drawn(figure: Figure, rows: Sequence[Row], chance: Mapping[str, float]) -> Figure:
    figure, rows = baselines.marked(figure, rows)
    axis = Axis("share right", (0, 1), lambda part: chance_lines(chance, part))
    return small_multiples(figure, rows, ("named", "strategy", "accuracy", *_INTERVAL), axis)


def _forms(tables: Tables) -> list[Row]:
    order = ("what", "how", "whether", "how_change", "why")
    rows = rows_of(tables, "forms", "model strategy form accuracy ci_low ci_high")
    return [
        {**row, "named": readable(row["form"])}
        for row in sorted(rows, key=lambda row: order.index(row["form"]) if row["form"] in order else len(order))
    ]


def _states(tables: Tables) -> list[Row]:
    rows = rows_of(tables, "states", "model strategy state task accuracy ci_low ci_high")
    return [{**row, "named": f"{row['state']}, {row['task']}"} for row in rows if row["state"] != "all"]
