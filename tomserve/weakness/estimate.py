"""What a search has found: each cell on fresh questions, with intervals that hold for all reported cells at once."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from tomserve.items.item import factor_text
from tomserve.stats.distributions import normal_quantile
from tomserve.stats.proportions import newcombe, wilson
from tomserve.weakness.design import Cell, describe_cell, parse_cell
from tomserve.weakness.model import Cells, fit
from tomserve.weakness.rounds import CELL, CONFIRMED, PART, RANDOM, SEARCH, TWIN

LEVEL, POWER = 0.95, 0.8

Record = dict[str, Any]


def level_rows(scores: pl.DataFrame, factors: Mapping[str, str]) -> pl.DataFrame:
    """The scores with the level of each factor as text; a missing factor has the level "none"."""
    absent = [pl.lit("none").alias(name) for name in factors if name not in scores.columns]
    there = [
        pl.col(name).map_elements(factor_text, return_dtype=pl.String, skip_nulls=False)
        for name in factors
        if name in scores.columns
    ]
    return scores.with_columns(*there, *absent, pl.col("correct").fill_null(False))


def inside(rows: pl.DataFrame, cell: Cell) -> pl.Series:
    """Which rows of `level_rows` lie in a cell."""
    return rows.select(pl.all_horizontal([pl.col(name) == level for name, level in cell])).to_series()


def estimate_cells(rows: pl.DataFrame, factors: Mapping[str, str], rules: Sequence[str]) -> list[Record]:
    """A record for each reported cell of one model and strategy, the weakest first. rows: of `level_rows`. rules: the
    columns of the shortcut baselines."""
    return sorted(_cell_records(rows, factors, rules), key=lambda row: (row["confirmed"], row["cell"]))


def _cell_records(rows: pl.DataFrame, factors: Mapping[str, str], rules: Sequence[str]) -> Iterator[Record]:
    parts = {name: rows.filter(pl.col(PART) == name) for name in (SEARCH, CONFIRMED, RANDOM, TWIN)}
    names = sorted(parts[CONFIRMED][CELL].unique())
    names = [name for name in names if (cell := parse_cell(name)) and all(one in rows.columns for one, _ in cell)]
    level = 1 - (1 - LEVEL) / max(1, len(names))
    searched_levels = parts[SEARCH].select(*factors).rows(named=True)
    looked = max(len(names), len(Cells.of(searched_levels).names) if searched_levels else 0)
    for name in names:
        cell = parse_cell(name)
        drawn = {part: parts[part].filter(pl.col(CELL) == name) for part in (CONFIRMED, TWIN)}
        lies = inside(parts[RANDOM], cell)
        elsewhere, searched = parts[RANDOM].filter(~lies), parts[SEARCH].filter(inside(parts[SEARCH], cell))
        own = drawn[CONFIRMED]
        right, right_elsewhere = (int(some["correct"].sum()) for some in (own, elsewhere))
        found = wilson(right, own.height, level)
        apart = newcombe(right, own.height, right_elsewhere, elsewhere.height, level)
        best = max(((float(own[rule].fill_null(False).mean()), rule) for rule in rules), default=(None, None))  # type: ignore[arg-type]
        others, guessing = mean(elsewhere), guess_difference(own, elsewhere)
        weak = apart.high < min(0.0, guessing)
        yield {
            "cell": name,
            "where": describe_cell(cell, factors),
            "weak": weak,
            "searched": mean(searched),
            "searched_questions": searched.height,
            "confirmed": found.estimate,
            "ci_low": found.low,
            "ci_high": found.high,
            "questions": own.height,
            "elsewhere": others,
            "elsewhere_questions": elsewhere.height,
            "difference": apart.estimate,
            "diff_low": apart.low,
            "diff_high": apart.high,
            "guess_difference": guessing,
            "twin": mean(drawn[TWIN]),
            "twins": drawn[TWIN].height,
            "best_rule": None if best[1] is None else best[1].removeprefix("rule_").replace("_", " "),
            "best_rule_accuracy": best[0],
            "share": mean(lies.to_frame("correct")),
            "asked": rows.height,
            "random_needed": count_random(found.estimate, others, mean(lies.to_frame("correct")), looked)
            if weak
            else None,
        }


def mean(rows: pl.DataFrame) -> float | None:
    """The share right; None without rows."""
    return None if rows.is_empty() else float(rows["correct"].mean())  # type: ignore[arg-type]


def guess_difference(own: pl.DataFrame, elsewhere: pl.DataFrame) -> float:
    """The difference that blind guesses bring about by themselves: how much less often questions of a cell (`own`) are
    right by whoever knows the answers to as many as elsewhere and guesses the rest; 0 where the chances are unknown."""
    if own.is_empty() or elsewhere.is_empty() or "floor_guess" not in own.columns:
        return 0.0
    chances = [some["floor_guess"].mean() for some in (own, elsewhere)]
    here, there = (one if isinstance(one, float) else math.nan for one in chances)
    if math.isnan(here - there) or there >= 1:
        return 0.0
    known = max(((mean(elsewhere) or 0.0) - there) / (1 - there), 0.0)
    return (here - there) * (1 - known)


def count_random(low: float, high: float | None, share: float | None, looked: int) -> int | None:
    """How many questions drawn at random would find with a power of 80% that a cell of that share of them is right less
    often, tested at 5% over all the cells that were looked at; None where the cell turned up in no random draw.

    >>> count_random(0.5, 0.8, 0.05, 300)
    1219
    """
    if high is None or not share or share >= 1 or low >= high:
        return None
    z = normal_quantile(1 - (1 - LEVEL) / (2 * looked)) + normal_quantile(POWER)
    return math.ceil(z * z * (low * (1 - low) / share + high * (1 - high) / (1 - share)) / (high - low) ** 2)


def estimate_surface(rows: pl.DataFrame, factors: Mapping[str, str], cell: Cell) -> Iterator[Record]:
    """The expected accuracy over two factors, of the answers to the search: those of the cell, of one factor that and
    the one with the widest spread beside it. rows: of `level_rows`."""
    searched = rows.filter(pl.col(PART) == SEARCH)
    if searched.is_empty():
        return
    cells = Cells.of(searched.select(*factors).rows(named=True), rarest=0.005)
    if not cells.names:
        return
    asked, right = cells.count(np.arange(searched.height), searched["correct"].cast(pl.Int8).to_numpy())
    found = fit(cells, asked, right, (int(searched["correct"].sum()) + 1) / (searched.height + 2)).mean
    named = [name for name, _ in cell]
    if len(named) == 1:
        spread: dict[str, float] = {}
        for name in factors:
            values = [float(found[at]) for at, one in enumerate(cells.names) if len(one) == 1 and one[0][0] == name]
            if name != named[0] and len(values) > 1:
                spread[name] = max(values) - min(values)
        named += [max(spread, key=lambda one: spread[one])] if spread else []
    for at, one in enumerate(cells.names):
        if len(one) == 2 and {name for name, _ in one} == set(named):
            levels = dict(one)
            yield {
                "factor": named[0],
                "level": levels[named[0]],
                "other": named[1],
                "other_level": levels[named[1]],
                "expected": float(found[at]),
                "questions": int(asked[at]),
            }
