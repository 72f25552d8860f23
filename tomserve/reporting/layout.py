"""How a study's long table is laid out on paper: classes down, models and strategies across."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Layout:
    """One printed table for each value of `by`; a row for each value of `rows`, a column for each pair of `columns`.

    A cell is `value` with the bounds `interval`. The best (highest) of a row is bold, what is above `above` underlined.
    """

    value: str
    interval: tuple[str, str]
    rows: str = "perturbation"
    columns: tuple[str, str] = ("model", "strategy")
    by: str = "subset"
    above: float | None = None
