"""The report's figures of BigToM: right answers by task and condition, and templates right with both beliefs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tomserve.reporting.html.charts import Line
from tomserve.reporting.html.panels import Axis, chance_lines, drawn, rows_of, small_multiples
from tomserve.studies import Context, Figure, Section
from tomserve.studies.showing import Row, Tables
from tomserve.studies.words import readable

SECTION = Section("beliefs", "Whose belief is followed?", "Whose belief")
CONDITIONS = Figure(
    "conditions",
    "Right answers by task and condition",
    SECTION,
    "Each point is the share of right answers, its line the 95% interval over templates. With a true belief the person "
    "noticed the event, with a false one not; in a control something happens that changes nothing. Whoever answers "
    "with what is so has true beliefs and controls right and false beliefs wrong.",
    ("conditions",),
)
JOINT = Figure(
    "joint",
    "Templates right with both beliefs",
    SECTION,
    "Each point is the share of templates of which the question with the true belief and the one with the false belief "
    "are both right, its line the 95% interval. Two blind guesses have a quarter; whoever always gives the same state "
    "has none.",
    ("joint",),
)
_ORDER = ("true_belief", "false_belief", "control", "true_control", "false_control", "no_event")


def figures(tables: Tables, context: Context) -> list[Figure]:
    """Both figures, the second where there are templates with both beliefs; one that cannot be drawn says why.

    tables: by name. context: what a guesser scores, drawn as a line.
    """
    found = [drawn(CONDITIONS, lambda: _conditions(tables, context.chance))]
    return [*found, drawn(JOINT, lambda: _joint(tables))] if "joint" in tables else found


def _conditions(tables: Tables, chance: Mapping[str, float]) -> Figure:
    """Without the best rule's share, because in a single condition one state of the world is always right."""
    rows = rows_of(tables, "conditions", "model strategy task condition init_belief accuracy ci_low ci_high")
    ordered = sorted(rows, key=lambda row: (row["init_belief"], row["task"], _place(row)))
    named = [{**row, "named": f"{_named(row)}, {readable(row['condition'])}"} for row in ordered]
    axis = Axis("share right", (0, 1), lambda part: chance_lines(chance, part))
    return small_multiples(CONDITIONS, named, ("named", "strategy", "accuracy", "ci_low", "ci_high"), axis)


def _joint(tables: Tables) -> Figure:
    rows = rows_of(tables, "joint", "model strategy task init_belief joint joint_low joint_high chance")
    axis = Axis("share of templates", (0, 1), _guesses)
    named = [{**row, "named": _named(row)} for row in sorted(rows, key=lambda row: (row["init_belief"], row["task"]))]
    return small_multiples(JOINT, named, ("named", "strategy", "joint", "joint_low", "joint_high"), axis)


def _guesses(part: str) -> Sequence[Line]:
    del part
    return [Line(0.25, "two guesses 0.25", (5, 3))]


def _named(row: Row) -> str:
    """The task, and whether the story tells the first belief."""
    return f"{readable(row['task'])}{', first belief told' if row['init_belief'] else ''}"


def _place(row: Row) -> int:
    return _ORDER.index(str(row["condition"])) if row["condition"] in _ORDER else len(_ORDER)
