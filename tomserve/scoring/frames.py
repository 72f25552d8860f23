"""Make the rows of a score table from items and responses; tomserve.scoring.table puts them into files."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

import orjson
import polars as pl

from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.items.automaton import Automaton
from tomserve.scoring import originals
from tomserve.scoring.choices import Choices
from tomserve.scoring.graded import FIELD, graded_fields
from tomserve.scoring.lettering import ASKED
from tomserve.scoring.metric import Kind, Metric, Rules, Scoring, columns_of
from tomserve.scoring.samples import PEOPLE, SAMPLED, majority, people_fields, sample_fields, sample_of
from tomserve.scoring.score import COLUMNS, ITEM_COLUMNS, PARTIAL, item_fields, noise_fields, score_row

Answered = tuple[Item, Sequence[Mapping[str, Any]], Sequence[Automaton], Sequence[tuple[int, Mapping[str, Any]]]]
"""An item, its response (or the responses of its samples), the compiled rationales of other questions about its story,
and the replies that came when it was asked again, each with the number of requests in flight."""


@dataclass(frozen=True)
class Columns:
    """The columns of a table besides the standard ones, with their types.

    factors: the factors of the items. items: what their benchmarks compute once for each item. replies: what they
    compute from each reply. rules: what each benchmark adds. samples: those of questions that were asked several times.
    original: gives the original of a variant, where some items are variants; None where none is. given: how many
    questions there were, where another tool answered some of them; else None. grades: those of
    another tool's grades, where some reply has one.
    """

    factors: Mapping[str, Kind]
    items: Mapping[str, Kind]
    replies: Mapping[str, Kind]
    rules: Rules
    samples: Mapping[str, Kind]
    original: originals.Original | None = None
    given: int | None = None
    grades: Mapping[str, Kind] = field(default_factory=dict)

    def beside(self, original: originals.Original) -> Columns:
        """The columns with those of variants. original: gives the original of a variant."""
        items, replies = {**originals.ITEM, **self.items}, {**originals.REPLY, **self.replies}
        return replace(self, items=items, replies=replies, original=original)

    @classmethod
    def of(
        cls,
        factors: Mapping[str, set[type]],
        benchmarks: Collection[str],
        rules: Rules,
        sampled: bool = False,
        people: bool = False,
    ) -> Columns:
        """The columns for items with these factors (each with the types of its values) and these benchmarks.

        Raises ConfigError where a metric's column is also a factor, or where two metrics differ about a column's type.
        """
        metrics: list[Metric] = [metric for name in sorted(benchmarks) for metric in rules(name).metrics]
        columns_of(metrics)
        items, replies = (columns_of(one for one in metrics if one.of_item is whose) for whose in (True, False))
        items |= {rule.column: pl.Boolean for name in sorted(benchmarks) for rule in rules(name).rules}
        if clash := sorted(set(factors) & {*items, *replies}):
            raise ConfigError(f"items: factor {clash[0]!r} has the name of a column of their benchmark; rename it")
        samples = {**(SAMPLED if sampled or people else {}), **(PEOPLE if people else {})}
        return cls({name: _kind(kinds) for name, kinds in factors.items()}, items, replies, rules, samples)


def _kind(kinds: set[type]) -> type[pl.DataType]:
    """The type of a column for a factor whose values have these types; text where no other type holds them all."""
    kinds = kinds - {type(None)}
    if kinds == {bool}:
        return pl.Boolean
    if kinds == {int}:
        return pl.Int64
    return pl.Float64 if kinds and kinds <= {int, float} else pl.String


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Switch the collector of reference cycles off for a while.

    Scored rows hold no cycles, and the collector would walk through all of them again and again, which takes a third of
    the time of scoring.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def frame(
    run: str,
    answered: Iterable[Answered],
    chains: Collection[str],
    lettered: Collection[str],
    columns: Columns,
    reader: Choices | None = None,
) -> pl.DataFrame:
    """The score table. Columns that belong to the item are half of all and most of the work, so they are computed once
    for each item and then repeated for its rows.

    run: the run's name. answered: the items with their responses. chains, lettered: the strategies that ask for a chain
    of beliefs, and those that show the choices as A, B, C. columns: the columns besides the standard ones. reader: the
    choices of a model that has read what the rules could not.
    """
    places: dict[str, int] = {}
    fields: list[dict[str, Any]] = []
    place_of: list[int] = []
    records: list[dict[str, Any]] = []
    replies = _Replies(run, chains, lettered, columns, reader)
    for item, rows, others, again in answered:
        if item is not replies.item:
            replies.turn_to(item, others)
            place = places.setdefault(item.id, len(fields))
            if place == len(fields):
                scoring = replies.scoring(rows[0]["strategy"])
                fields.append({**item_fields(item, scoring), **dict.fromkeys(PARTIAL, columns.given)})
                if columns.original is not None:
                    fields[-1].update(originals.item_fields(item, replies.original, scoring))
        place_of.append(place)
        scored = [replies.scored(row) for row in rows]
        chosen = majority(scored) if len(scored) > 1 else 0
        row, record = rows[chosen], scored[chosen]
        more: dict[str, Any] = {}  # never added to the record itself, which may stand for other replies
        if again:
            same = [(level, other) for level, other in again if sample_of(other) == sample_of(row)]
            more.update(noise_fields(item, row, same, replies.scoring(row["strategy"]).lettered))
        if columns.original is not None:
            more.update(originals.reply_fields(item, replies.original, record["answer"]))
        if columns.samples:
            more.update(sample_fields(scored, [sample_of(one) for one in rows], chosen))
            more.update(people_fields(scored, rows))
        if columns.grades:
            more.update(graded_fields(row, rows))
        records.append({**record, **more} if more else record)
    own = {name: kind for name, kind in COLUMNS.items() if name in ITEM_COLUMNS} | {**columns.factors, **columns.items}
    per_item = _frame(([values.get(name) for values in fields] for name in own), own)
    rest = {name: kind for name, kind in COLUMNS.items() if name not in ITEM_COLUMNS}
    per_row = _frame(zip(*map(itemgetter(*rest), records), strict=True) if records else [()] * len(rest), rest)
    further = {**columns.samples, **columns.grades, **columns.replies}
    computed = _frame(([record.get(name) for record in records] for name in further), further)
    per_item = per_item[pl.Series(place_of, dtype=pl.UInt32)]
    wide = pl.concat([per_row, computed, per_item], how="horizontal")
    return wide.select(*COLUMNS, *columns.samples, *columns.grades, *columns.factors, *columns.items, *columns.replies)


_REPEATED = 4096
"""How many replies are kept of one item, so that an item that is asked very often needs no more memory."""


class _Replies:
    """Scores replies to one item after the other; replies with the same text to the same item are scored once.

    item: the item whose replies are scored now. original: what it is a variant of, None for any other item, and where
    that is not at hand.
    """

    def __init__(
        self,
        run: str,
        chains: Collection[str],
        lettered: Collection[str],
        columns: Columns,
        reader: Choices | None,
    ) -> None:
        self._given = (run, chains, lettered, columns, reader)
        self._scorings: dict[tuple[str, bool], Scoring] = {}
        self._known: dict[Any, dict[str, Any]] = {}
        self.item: Item | None = None
        self.original: Item | None = None
        self._others: Sequence[Automaton] = ()

    def turn_to(self, item: Item, others: Sequence[Automaton]) -> None:
        """From now on score replies to that item. others: as in score_row."""
        original = self._given[3].original
        self.item, self._others = item, others
        self.original = original(item) if original is not None else None
        self._known.clear()

    def scoring(self, strategy: str) -> Scoring:
        """What the benchmark of the item adds, for replies to that strategy."""
        assert self.item is not None
        name, shown = self.item.benchmark, strategy in self._given[2]
        if (found := self._scorings.get((name, shown))) is None:
            found = self._given[3].rules(name)
            found = replace(found, lettered=True) if shown and not found.lettered else found
            self._scorings[name, shown] = found
        return found

    def scored(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The scored row of one reply to the item (see score_row)."""
        assert self.item is not None
        run, chains, _, _, reader = self._given
        strategy, text, error = row["strategy"], row.get("text"), row.get("error")
        odd = (text is not None and type(text) is not str) or (error is not None and type(error) is not str)
        if odd or FIELD in row or ASKED in row:
            key = None  # what may not be hashable; or the row has a grade, or an order of choices, of its own
        else:
            key = (strategy, row["status"], text, error)
            if (known := self._known.get(key)) is not None:
                return {**known, "model": row["model"]}
        found = score_row(
            run,
            row["model"],
            self.item,
            row,
            strategy in chains,
            self._others,
            self.scoring(strategy),
            reader=reader,
        )
        if key is not None:
            if len(self._known) >= _REPEATED:
                self._known.clear()
            self._known[key] = found
        return found


def _frame(by_column: Iterable[Sequence[Any]], schema: Mapping[str, Any]) -> pl.DataFrame:
    """A table of these columns, given as sequences in the order of `schema` (name -> Polars type)."""
    columns = {}
    for (name, kind), values in zip(schema.items(), by_column, strict=True):
        if isinstance(kind, pl.List):  # much quicker than a list of lists, and no label holds the separator
            joined = _joined(values, as_text=kind.inner == pl.String)
            columns[name] = pl.Series(name, joined, dtype=pl.String).str.split(_SEPARATOR).cast(kind)
        elif kind == pl.String and name not in COLUMNS:
            columns[name] = pl.Series(name, [_as_text(value) for value in values], dtype=kind)
        elif name in COLUMNS:
            columns[name] = pl.Series(name, values, dtype=kind)
        else:
            columns[name] = _series(name, values, kind)
    return pl.DataFrame(columns)


_SEPARATOR = "\x1f"


def _joined(values: Sequence[Any], as_text: bool) -> list[str | None]:
    """The entries of each list as one text, None for no list. as_text: whether the entries are texts."""
    if as_text:
        return [None if value is None else _SEPARATOR.join(value) for value in values]
    known: dict[tuple[Any, ...], str] = {}  # most lists of numbers are the same few
    found: list[str | None] = []
    for value in values:
        if value is None:
            found.append(None)
            continue
        if (text := known.get(key := tuple(value))) is None:
            text = known[key] = _SEPARATOR.join(map(str, value))
        found.append(text)
    return found


def _series(name: str, values: Sequence[Any], kind: Kind) -> pl.Series:
    """A column that a benchmark's metric or a factor fills. Raises ConfigError for a value that is not of its type."""
    try:
        return pl.Series(name, values, dtype=kind)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        types = sorted({type(value).__name__ for value in values if value is not None})
        raise ConfigError(f"score table: column {name!r} is {kind}; found values of type {', '.join(types)}") from None


def _as_text(value: Any) -> str | None:
    """The value of a factor whose values are of several types, as JSON writes it (true, 2, 0.5); a text is kept."""
    return value if value is None or type(value) is str else orjson.dumps(value).decode()
