"""Where a recommended method misses its target, between what it lies instead, and why it is recommended all the same.

docs/explanation/statistics.md holds the same table; `python bench/coverage.py --exceptions` prints it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from _tally import Key


@dataclass(frozen=True)
class Named:
    """A method that misses its target in a part of the design.

    section, kind, method: as figures are named; `where`: a regular expression that the whole part of the design has to
    match. low, high: between what the figure lies instead. reason: a whole sentence for the docs.
    """

    section: str
    kind: str
    method: str
    where: str
    low: float
    high: float
    reason: str

    def names(self, key: Key) -> bool:
        """Whether it is about this figure."""
        same = (key.section, key.kind, key.method) == (self.section, self.kind, self.method)
        return same and re.fullmatch(self.where, key.where) is not None


EXCEPTIONS: tuple[Named, ...] = ()


def exception_for(key: Key) -> Named | None:
    """The exception that is named for a figure, if any."""
    return next((one for one in EXCEPTIONS if one.names(key)), None)


def markdown() -> str:
    """The exceptions as the table of the docs."""
    rows = ["| what | method | where | between | why it is recommended all the same |", "|---|---|---|---|---|"]
    for one in EXCEPTIONS:
        place = "everywhere" if one.where == ".*" else one.where.replace(".*", "…").replace("|", "\\|")
        bounds = f"{one.low:.2f} and {one.high:.2f}".replace("0.", ".")
        rows.append(f"| {one.section}: {one.kind} | {one.method} | {place} | {bounds} | {one.reason} |")
    return "\n".join(rows)
