"""A metric: columns of the score table, declared once together with the function that fills them.

>>> import polars as pl
>>> doubt = Metric({"metric_doubts": pl.Int64}, lambda item, reading: {"metric_doubts": reading.text.count("maybe")})
>>> doubt.compute(None, Reading(None, None, text="maybe tea, maybe salt"))
{'metric_doubts': 2}

The standard metrics are in tomserve.scoring.standard; a benchmark adds its own by its field `metrics`. From these
declarations follow the types of the columns, the names that factors may not have, and the columns that a study finds.
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
from tomserve.scoring.rules import GENERIC, Rule

Kind = pl.DataType | type[pl.DataType]
"""The type of a column, as Polars names it, such as ``pl.Float64`` or ``pl.List(pl.String)``."""

BEGINNING = "metric_"
"""With this the names of columns begin that a benchmark's metrics compute from replies. So a table shows which of its
columns are metrics even where the file that declared them is not at hand, as for a CSV file."""

NO_REPLY = Reading(None, None)
"""The reading that a metric of items is given, because its values do not depend on any reply."""


@dataclass(frozen=True)
class Metric:
    """Some columns of the score table and the function that computes them.

    columns: the columns' names and Polars types, in the order of the table. compute: a function of the item and the
    reading of one reply (see tomserve.scoring.answers.Reading) that returns a value for each column; a column that is
    left out is null. of_item: whether the values belong to the item, whatever was answered; then they are computed once
    for each item, with NO_REPLY as the reading.
    """

    columns: Mapping[str, Kind]
    compute: Callable[[Item, Reading], Mapping[str, Any]]
    of_item: bool = False


@dataclass(frozen=True)
class Scoring:
    """What a benchmark adds to the scoring of its items.

    metrics: its metrics, computed after the standard ones. lettered: whether the choices are shown as A, B, C, so that
    a reply may name one by its letter. rules: its rules, which answer without following anybody's belief, in addition
    to those that every benchmark has (see tomserve.scoring.rules). shipped: whether every process of this installation
    finds the same by the name of the benchmark, which is not so for one that a user declared in a file. Raises
    ConfigError for a column whose name cannot be used.
    """

    metrics: tuple[Metric, ...] = ()
    lettered: bool = False
    rules: tuple[Rule, ...] = ()
    shipped: bool = False

    def __post_init__(self) -> None:
        for metric in self.metrics:
            _check(metric)
        taken = {rule.name for rule in GENERIC}
        for rule in self.rules:
            if rule.name in taken:
                raise ConfigError(
                    f"rules: there is a rule {rule.name!r} already; every benchmark has the rules "
                    f"{', '.join(one.name for one in GENERIC)}. Choose another name"
                )
            taken.add(rule.name)


PLAIN = Scoring(shipped=True)
"""The standard metrics alone, for items of an unknown benchmark."""

Rules = Callable[[str], Scoring]
"""A function from the name of a benchmark to what it adds; it gives PLAIN for an unknown name."""


def plain(name: str) -> Scoring:
    """PLAIN for any name: the rules where only the standard metrics are wanted."""
    del name
    return PLAIN


def columns_of(metrics: Iterable[Metric]) -> dict[str, Kind]:
    """All columns of these metrics with their types. Raises ConfigError where two differ about a type."""
    found: dict[str, Kind] = {}
    for metric in metrics:
        for name, kind in metric.columns.items():
            if found.setdefault(name, kind) != kind:
                raise ConfigError(f"metrics: column {name!r} is declared as {found[name]} and as {kind}; rename one")
    return found


def computed(metric: Metric, item: Item, reading: Reading) -> Mapping[str, Any]:
    """The values by column that a benchmark's metric gives for one item and one reply.

    The metric may be a user's own code. Raises ContentError by file and line where it failed, ConfigError where it
    gives a column that it did not declare.
    """
    try:
        found = metric.compute(item, reading)
    except TomserveError:
        raise
    except Exception as error:
        raise _failed(f"the metric of {', '.join(metric.columns)} failed", item, error) from None
    if not isinstance(found, Mapping):
        raise ConfigError(
            f"metrics: item {item.id!r}: found {found!r:.60}; expected a dict of {', '.join(metric.columns)}"
        )
    if strange := [name for name in found if name not in metric.columns]:
        raise ConfigError(
            f"metrics: item {item.id!r}: column {strange[0]!r} was not declared; declared: {', '.join(metric.columns)}"
        )
    return found


def ruled(rules: Iterable[Rule], item: Item) -> dict[str, bool | None]:
    """Whether the answers of a benchmark's rules are right, by column; null for a rule that says nothing of the item.

    A rule may be a user's own code. Raises ContentError by file and line where it failed, ConfigError where it gives a
    label that is no choice of the item.
    """
    found: dict[str, bool | None] = {}
    for rule in rules:
        try:
            label = rule.answer(item)
        except TomserveError:
            raise
        except Exception as error:
            raise _failed(f"the rule {rule.name!r} failed", item, error) from None
        if label is not None and label not in item.choices:
            raise ConfigError(
                f"rules: item {item.id!r}: the rule {rule.name!r} answers {label!r:.60}; expected one of the item's "
                f"choices ({', '.join(item.choices)}), or None where the rule says nothing"
            )
        found[rule.column] = None if label is None else label == item.answer
    return found


def _failed(what: str, item: Item, error: Exception) -> ContentError:
    """The error for a function of a benchmark that failed for an item, by the file and the line of the function."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    own = [frame for frame in frames if frame.filename == frames[0].filename] if frames else []
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    where = Path(own[-1].filename) if own else Path("metric")
    return ContentError(f"{what} for item {item.id!r} ({reason})", path=where, line=own[-1].lineno if own else None)


def _check(metric: Metric) -> None:
    """Raise ConfigError for a column whose name the score table uses otherwise, or which no study would find."""
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
