"""Counts what a simulation finds, with Monte-Carlo errors, and says what misses its target."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

ERRORS = 2.5
"""How many Monte-Carlo errors a figure may lie outside its target."""
TARGETS: dict[str, tuple[float, float]] = {
    "coverage": (0.93, 0.97),
    "level": (0.0, 0.05),
    "share": (0.0, 1.0),
    "planned power": (0.75, 0.85),
}
"""The kinds of figures and between what a recommended one has to lie. A share, such as power, has no target."""


@dataclass(frozen=True)
class Key:
    """What a figure is about: section, kind, method, and the part of the design over which it is pooled.

    recommended: whether tables print this method as the one to use, so that it has to meet its target.
    """

    section: str
    kind: str
    method: str
    where: str
    recommended: bool = True


@dataclass
class Cell:
    """Sums over the replications of one cell of the design. A replication counts with the mean of its values, since
    values of one replication depend on each other."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    widths: float = 0.0
    finite: int = 0

    def add(self, value: float, width: float = math.nan) -> None:
        self.count += 1
        self.total += value
        self.squares += value * value
        if math.isfinite(width):
            self.widths += width
            self.finite += 1

    def merge(self, other: Cell) -> None:
        for name in ("count", "total", "squares", "widths", "finite"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def mean(self) -> float:
        return self.total / self.count

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        spread = (self.squares - self.count * self.mean**2) / max(1, self.count - 1)
        return math.sqrt(max(spread, 0.0) / self.count)


@dataclass(frozen=True)
class Figure:
    """A figure pooled over cells of equal weight: its value, Monte-Carlo error, replications, mean width."""

    key: Key
    value: float
    error: float
    replications: int
    width: float
    worst: float
    cells: int

    def misses(self, low: float, high: float) -> bool:
        """Whether the figure lies outside of low to high by more than Monte-Carlo error allows."""
        return self.value + ERRORS * self.error < low or self.value - ERRORS * self.error > high


@dataclass
class Tally:
    """Cells by key and by cell of the design."""

    cells: dict[tuple[Key, str], Cell] = field(default_factory=lambda: defaultdict(Cell))
    _open: dict[tuple[Key, str], list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))

    def interval(self, key: Key, cell: str, bounds: tuple[float, float], true: float) -> None:
        """Note whether an interval covers what is true; one with undefined bounds does not."""
        low, high = bounds
        self._open[key, cell].append((float(low - 1e-9 <= true <= high + 1e-9), high - low))

    def note(self, key: Key, cell: str, value: float) -> None:
        """Note a value from 0 to 1, such as whether a test rejects."""
        self._open[key, cell].append((float(value), math.nan))

    def test(self, key: Key, cell: str, p: float, alpha: float = 0.05) -> None:
        """Note whether a p value rejects; an undefined one does not."""
        self.note(key, cell, p <= alpha)

    def close(self) -> None:
        """End a replication: what was noted since the last end becomes one value for each key and cell."""
        for at, values in self._open.items():
            wide = [width for _, width in values if math.isfinite(width)]
            width = sum(wide) / len(wide) if wide else math.nan
            self.cells[at].add(sum(value for value, _ in values) / len(values), width)
        self._open.clear()

    def merge(self, other: Mapping[tuple[Key, str], Cell]) -> None:
        for at, cell in other.items():
            self.cells[at].merge(cell)

    def figures(self) -> Iterator[Figure]:
        """The figures in the order in which they were first noted, pooled over the cells of their key."""
        by_key: dict[Key, list[Cell]] = defaultdict(list)
        for (key, _), cell in self.cells.items():
            by_key[key].append(cell)
        for key, cells in by_key.items():
            n = sum(cell.count for cell in cells)
            value = sum(cell.mean for cell in cells) / len(cells)
            error = math.sqrt(sum(cell.error**2 for cell in cells)) / len(cells)
            if any(
                cell.count < 5 for cell in cells
            ):  # too few to tell their spread: that of all together is no smaller
                squares = sum(cell.squares for cell in cells) / n
                error = math.sqrt(max(0.0, squares - value * value) / max(1, n - 1))
            # where every replication agrees their spread is zero, although n of them rule out rare events only
            error = max(error, (1.0 if min(value, 1 - value) < 1 / n else 0.3) / n)
            finite = sum(cell.finite for cell in cells)
            width = sum(cell.widths for cell in cells) / finite if finite else math.nan
            means = [cell.mean for cell in cells]
            worst = max(means) if key.kind == "level" else min(means)
            yield Figure(key, value, error, n, width, worst, len(cells))


def agrees(tally: Tally, section: str, found: Mapping[str, Any]) -> None:
    """Note whether the interval of an effect, its p, and the interval of its ratio contradict each other."""
    clear = found["rd_low"] > 0 or found["rd_high"] < 0
    tally.note(Key(section, "level", "p contradicts the interval", "everywhere"), "", clear != (found["p"] <= 0.05))
    low, high = found["rr_low"], found["rr_high"]
    if clear and not math.isnan(found["relative_risk"]):
        holds = not (low > 1 or high < 1)
        tally.note(Key(section, "level", "clear difference beside a ratio that holds 1", "everywhere"), "", holds)


def lines(figures: Iterable[Figure], verdicts: Mapping[Key, str]) -> Iterator[str]:
    """The figures as a table for the terminal, a section and kind after another."""
    section = kind = ""
    for figure in figures:
        key = figure.key
        if (key.section, key.kind) != (section, kind):
            section, kind = key.section, key.kind
            yield f"\n{section}: {kind}"
            yield f"{'method':44s} {'design':36s} {'value':>6s} {'error':>6s} {'worst':>6s} {'width':>6s} {'runs':>6s}"
        name = key.method if key.recommended else f"({key.method})"
        width = f"{figure.width:6.3f}" if math.isfinite(figure.width) else "      "
        mark = verdicts.get(key, "")
        yield (
            f"{name:44s} {key.where:36s} {figure.value:6.3f} {figure.error:6.3f} {figure.worst:6.3f} {width} "
            f"{figure.replications:6d}{'  ' + mark if mark else ''}"
        )


def record(figure: Figure, verdict: str) -> dict[str, Any]:
    """The figure as JSON holds it."""
    key = figure.key
    values = {"value": figure.value, "error": figure.error, "worst": figure.worst, "replications": figure.replications}
    return {
        **{"section": key.section, "kind": key.kind, "method": key.method, "where": key.where},
        **{"recommended": key.recommended, "width": figure.width if math.isfinite(figure.width) else None},
        **values,
        "verdict": verdict,
    }
