"""A metric: columns of the score table, declared once together with the function that fills them.

>>> import polars as pl
>>> doubt = Metric({"metric_doubts": pl.Int64}, lambda item, reading: {"metric_doubts": reading.text.count("maybe")})
>>> doubt.compute(None, Reading(None, None, text="maybe tea, maybe salt"))
{'metric_doubts': 2}

The standard set is in tomserve.scoring.standard; a benchmark adds its own in its field `metrics`. The column types of
the score table, which names factors may not have, and what a study finds follow from these declarations.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tomserve.errors import ConfigError, ContentError, TomserveError
from tomserve.items import RESERVED, RESERVED_BEGINNINGS, Item
from tomserve.scoring.answers import Reading

Kind = pl.DataType | type[pl.DataType]
"""The type of a column, as Polars names it: ``pl.Float64``, ``pl.List(pl.String)``."""

BEGINNING = "metric_"
"""How columns begin that a benchmark's metrics compute from replies. Any table, also a CSV file, tells by it which of
its columns are metrics, without the file that declared them."""

NO_REPLY = Reading(None, None)
"""What a metric of items is given as a reading: nothing was answered."""


@dataclass(frozen=True)
class Metric:
    """Some columns of the score table and the function that computes them.

    columns: name -> Polars type, in the order in which they stand in the table. compute: given the item and the reading
    of one reply (see tomserve.scoring.answers.Reading) it returns values by column; one left out is null. of_item: the
    values belong to the item, whatever was answered, so that they are computed once an item, with NO_REPLY.
    """

    columns: Mapping[str, Kind]
    compute: Callable[[Item, Reading], Mapping[str, Any]]
    of_item: bool = False


@dataclass(frozen=True)
class Scoring:
    """What a benchmark adds to the scoring of its items.

    metrics: computed beside the standard ones. lettered: whether the choices are offered by letter, so that a reply may
    name one by its letter.
    """

    metrics: tuple[Metric, ...] = ()
    lettered: bool = False

    def __post_init__(self) -> None:
        for metric in self.metrics:
            _check(metric)


PLAIN = Scoring()
"""For items of benchmarks that nobody knows: the standard metrics alone."""

Rules = Callable[[str], Scoring]
"""From the name of a benchmark to what it adds; PLAIN for a name that is unknown."""


def plain(name: str) -> Scoring:
    """The rules where only the standard metrics are wanted, whatever the benchmark is called."""
    del name
    return PLAIN


def columns_of(metrics: Iterable[Metric]) -> dict[str, Kind]:
    """All columns of these metrics with their types. Raises ConfigError where two give one column different types."""
    found: dict[str, Kind] = {}
    for metric in metrics:
        for name, kind in metric.columns.items():
            if found.setdefault(name, kind) != kind:
                raise ConfigError(f"metrics: column {name!r} is declared as {found[name]} and as {kind}; rename one")
    return found


def computed(metric: Metric, item: Item, reading: Reading) -> Mapping[str, Any]:
    """What a benchmark's metric gives for one item and reply. It may be anybody's code, so that its mistakes are told
    as such: raises ContentError by file and line of the function that failed, ConfigError for a column that was not
    declared."""
    try:
        found = metric.compute(item, reading)
    except TomserveError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)[1:]
        own = [frame for frame in frames if frame.filename == frames[0].filename]
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        where = Path(own[-1].filename) if own else Path("metric")
        line = own[-1].lineno if own else None
        names = ", ".join(metric.columns)
        raise ContentError(
            f"the metric of {names} failed for item {item.id!r} ({reason})", path=where, line=line
        ) from None
    if not isinstance(found, Mapping):
        raise ConfigError(
            f"metrics: item {item.id!r}: found {found!r:.60}; expected a dict of {', '.join(metric.columns)}"
        )
    if strange := [name for name in found if name not in metric.columns]:
        raise ConfigError(
            f"metrics: item {item.id!r}: column {strange[0]!r} was not declared; declared: {', '.join(metric.columns)}"
        )
    return found


def _check(metric: Metric) -> None:
    """Raises ConfigError for a column of a benchmark whose name has another meaning, or that no study would find."""
    if not metric.columns:
        raise ConfigError("metrics: a metric declares no columns; expected e.g. {'metric_words': pl.Int64}")
    for name in metric.columns:
        if metric.of_item:
            taken = name in RESERVED or name.startswith(RESERVED_BEGINNINGS)
            if taken:
                raise ConfigError(f"metrics: column {name!r} of items has a name of the score table; rename it")
        elif not name.startswith(BEGINNING) or name == BEGINNING:
            raise ConfigError(
                f"metrics: column {name!r} of replies must begin with {BEGINNING!r}, by which studies find it"
            )
