"""Where a recommended method misses its target, between what it lies instead, and why it is recommended all the same.

docs/explanation/statistics.md shows the table that `python bench/coverage.py --exceptions` prints.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from _tally import Key


@dataclass(frozen=True)
class Named:
    """A method that misses its target in a part of the design.

    section, kind, method: as figures are named. where: a regular expression that the whole part of the design has to
    match; place: the same in words. low, high: between what the figure lies instead. reason: a sentence for the docs.
    """

    section: str
    kind: str
    method: str
    where: str
    place: str
    low: float
    high: float
    reason: str

    def names(self, key: Key) -> bool:
        """Whether it is about this figure."""
        same = (key.section, key.kind, key.method) == (self.section, self.kind, self.method)
        return same and re.fullmatch(self.where, key.where) is not None


FEW_VALUES = "4 stages.*|.*false-belief.*|.*at the edge"
FEW_WORDS = "four stages, two questions a task, or rates near 0 or 1"
COARSE = (
    "Stage differences of few answers take few values, and where they hardly vary the interval is widened by what so "
    "few answers can show; it covers rather too often than too seldom."
)
RARE = "Few answers differ at all, so that a single one decides: the interval follows from how many were compared."

CAUTIOUS = (
    "With few stages or tasks its errors are corrected upwards and its degrees of freedom are the fewest possible."
)

EXCEPTIONS: tuple[Named, ...] = (
    Named(
        *("share of a class", "coverage", "Wilson, n = tasks", ".*false-belief.*", "two questions a task", 0.95, 1.0),
        "Two questions a task say little about how alike a task's questions are, so the task counts once: cautious.",
    ),
    Named("effect of a class", "coverage", "difference, t over stages", FEW_VALUES, FEW_WORDS, 0.93, 1.0, COARSE),
    Named("effect of a class", "coverage", "ratio", FEW_VALUES, FEW_WORDS, 0.93, 1.0, COARSE),
    Named("prompting, by class", "coverage", "difference, t over stages", ".*", "everywhere", 0.93, 1.0, RARE),
    Named("effect of all classes", "coverage", "difference, these stages", ".*", "everywhere", 0.93, 1.0, CAUTIOUS),
    Named("effect of all classes", "coverage", "difference, new stages", "4 .*", "four stages", 0.93, 1.0, CAUTIOUS),
    Named("effect of all classes", "coverage", "ratio", "4 .*", "four stages", 0.93, 1.0, CAUTIOUS),
    Named(
        *("prompting, rare differences", "coverage", "all classes, new stages", ".*", "everywhere", 0.88, 1.0),
        f"{RARE} Where all differences point the same way and are rare in most stages it covers down to .88.",
    ),
    Named(
        *("prompting, rare differences", "coverage", "all classes, these stages", ".*", "everywhere", 0.93, 1.0),
        RARE,
    ),
    Named("prompting, rare differences", "coverage", "one class, new stages", ".*", "everywhere", 0.95, 1.0, RARE),
)


def exception_for(key: Key) -> Named | None:
    """The exception that is named for a figure, if any."""
    return next((one for one in EXCEPTIONS if one.names(key)), None)


def markdown() -> str:
    """The exceptions as the table of the docs."""
    rows = ["| what | method | where | lies in | why it is recommended all the same |", "|---|---|---|---|---|"]
    for one in EXCEPTIONS:
        bounds = " to ".join(f"{bound:.2f}".removeprefix("0") for bound in (one.low, one.high))
        rows.append(f"| {one.section}: {one.kind} | {one.method} | {one.place} | {bounds} | {one.reason} |")
    return "\n".join(rows)
