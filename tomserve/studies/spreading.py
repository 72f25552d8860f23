"""Tells by which factors accuracy differs most, where one share for all questions would hide it."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tomserve.studies import baselines, by
from tomserve.studies.counting import Rows, Tally, take
from tomserve.studies.summed import Record
from tomserve.studies.words import percent

WIDE = 0.3
"""How far apart the shares right of two values of a factor are before a reader of one share for all is told of it."""

TOLD = 3
"""How many factors a reader is told of at most."""


def spread(scores: pl.DataFrame) -> list[str]:
    """A sentence on the factors by whose values accuracy differs most, where one share for all questions would hide it;
    none where no two values differ clearly and by WIDE or more.

    scores: a score table.
    """
    names = [name for name in by.factors(scores) if 1 < scores[name].drop_nulls().n_unique() <= by.MOST]
    rows = by.rows_of(scores.lazy(), names, baselines.Kinds({}))
    return spread_of(lambda: [rows], names)


def spread_of(rows: Rows, names: Sequence[str]) -> list[str]:
    """The sentence of `spread`, counted file by file. rows: as by.rows_of gives them for the names. names: factors."""
    tallies = {name: Tally((own,), baselines.Kinds({})) for name, own in by.inner(names).items()}
    take(rows, list(tallies.values()))
    found: list[tuple[float, str]] = []
    for name, tally in tallies.items():
        arms: dict[tuple[str, str], list[tuple[Record, str]]] = {}
        for (model, strategy, value), one in tally.shares():
            arms.setdefault((model, strategy), []).append((one, by.text_of(value)))
        widest: tuple[float, str] | None = None
        for values in arms.values():
            low, high = (pick(values, key=lambda one: one[0]["accuracy"]) for pick in (min, max))
            gap = high[0]["accuracy"] - low[0]["accuracy"]
            if gap >= WIDE and low[0]["ci_high"] < high[0]["ci_low"] and (widest is None or gap > widest[0]):
                shares = (percent(low[0]["accuracy"]), low[1], percent(high[0]["accuracy"]), high[1])
                widest = gap, "{} (from {} where it is {} to {} where it is {})".format(name, *shares)
        if widest is not None:
            found.append(widest)
    told = [said for _, said in sorted(found, key=lambda one: -one[0])[:TOLD]]
    if not told:
        return []
    return [f"one share for all questions hides how far it differs by {'; '.join(told)}: --by FACTOR shows it"]
