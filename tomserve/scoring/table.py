"""Score tables, made from items and responses (tomserve.scoring.tablefile reads and writes them in several formats).

One row an identity, the same bytes every time. Rows are scored in the order of their items and written in parts, so
that a million of them need no more memory than some thousand. Where the files of a run lie is the business of
tomserve.runs.scores; what a benchmark adds is handed in as rules (see tomserve.scoring.metric).
"""

from __future__ import annotations

import contextlib
import gc
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.items.automaton import Automaton
from tomserve.scoring.metric import Kind, Metric, Rules, columns_of, plain
from tomserve.scoring.score import COLUMNS, ITEM_COLUMNS, item_fields, noise_fields, score_row
from tomserve.scoring.sources import ItemFile, NoiseFile, ResponseFile

TABLES = (".parquet", ".jsonl", ".csv")
"""Suffixes of score tables."""

PART = 10_000
"""Rows scored before they are written."""

Note = Callable[[str], None]
"""Told one line about what could not be done."""

Answered = tuple[Item, Mapping[str, Any], Sequence[Automaton], Sequence[tuple[int, Mapping[str, Any]]]]
"""An item, its response, the rationales of other questions about its story, replies to the same request."""


def named_gold(columns: Collection[str]) -> pl.Expr | None:
    """Which answers counted, of a score table with these columns: `gold` or, where generated items have none,
    "tracked:" and the semantics of their answers. None where nothing says."""
    named = [pl.col("gold").cast(pl.String)] if "gold" in columns else []
    if "semantics" in columns:
        named.append(pl.lit("tracked:") + pl.col("semantics").cast(pl.String))
    return pl.coalesce(named).alias("gold") if named else None


def write_scored(
    items: ItemFile,
    responses: ResponseFile,
    path: Path,
    *,
    run: str,
    chains: Collection[str] = (),
    again: NoiseFile | None = None,
    rules: Rules = plain,
) -> None:
    """Score every row into a Parquet file, part by part.

    chains: strategies whose replies are to hold a belief chain; there a missing chain scores 0, elsewhere it is null.
    again: what was answered when some of it was asked again; it is compared, not scored. rules: what the benchmarks of
    the items add. Raises ConfigError for a benchmark's metric that fails, OSError where the file cannot be written.
    """
    columns = _Columns.of(items.factors, items.benchmarks, rules)
    rows = responses.rows()
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".scoring-") as scratch:
        parts: list[Path] = []
        while chunk := list(islice(rows, PART)):
            answered = (
                (items.item(place), row, items.others(place), again.again(place, row["strategy"]) if again else ())
                for place, row in chunk
            )
            with _uncollected():
                frame = _table(run, answered, chains, columns)
            if len(chunk) == len(responses):  # one part is the whole
                frame.write_parquet(path)
                return
            parts.append(Path(scratch) / f"{len(parts):06d}.parquet")
            frame.write_parquet(parts[-1], compression="lz4")
        if parts:
            pl.scan_parquet(parts).sink_parquet(path, row_group_size=PART, maintain_order=True)
        else:
            _table(run, (), (), columns).write_parquet(path)


def tell(note: Note | None, *files: ResponseFile | None) -> None:
    """Say which lines of these files could not be read, a line a file; nothing where all of them could."""
    for file in files:
        if note is not None and file is not None and file.problems:
            note(str(file.problems))


def empty(run: str) -> pl.DataFrame:
    """The score table of a run in which nothing was answered."""
    return _table(run, (), (), _Columns.of({}, (), plain))


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Records hold no cycles, and the cycle collector would walk through all of them again and again (a third of the
    time of scoring)."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def table(
    run: str,
    model: str,
    answered: Iterable[tuple[Item, Mapping[str, Any]]],
    chains: Collection[str] = (),
    rules: Rules = plain,
) -> pl.DataFrame:
    """Score table of (item, response row) pairs; every factor of the items is a column, and what `rules` adds for their
    benchmarks. chains: strategies whose replies are to hold a belief chain. Raises ConfigError for a benchmark's metric
    that fails."""
    pairs: list[Answered] = [(item, {"model": model, **row}, (), ()) for item, row in answered]
    factors: dict[str, set[type]] = {}
    for item, *_ in pairs:
        for name, value in item.factors.items():
            factors.setdefault(name, set()).add(type(value))
    return _table(run, pairs, chains, _Columns.of(factors, {item.benchmark for item, *_ in pairs}, rules))


@dataclass(frozen=True)
class _Columns:
    """Columns beside the standard ones, with their types: the items' factors, what the items' benchmarks compute once
    an item, and what they compute from each reply. rules: how each benchmark is scored."""

    factors: Mapping[str, Kind]
    items: Mapping[str, Kind]
    replies: Mapping[str, Kind]
    rules: Rules

    @classmethod
    def of(cls, factors: Mapping[str, set[type]], benchmarks: Collection[str], rules: Rules) -> _Columns:
        """Those of items with these factors (each with the types of its values) and benchmarks. Raises ConfigError
        where a metric's column is also a factor, or two metrics disagree about a column."""
        metrics: list[Metric] = [metric for name in sorted(benchmarks) for metric in rules(name).metrics]
        columns_of(metrics)
        items, replies = (columns_of(one for one in metrics if one.of_item is whose) for whose in (True, False))
        if clash := sorted(set(factors) & {*items, *replies}):
            raise ConfigError(f"items: factor {clash[0]!r} has the name of a column of their benchmark; rename it")
        return cls({name: _kind(kinds) for name, kinds in factors.items()}, items, replies, rules)


def _kind(kinds: set[type]) -> type[pl.DataType]:
    """The column type of a factor that holds values of these types; text where they have nothing in common."""
    kinds = kinds - {type(None)}
    if kinds == {bool}:
        return pl.Boolean
    if kinds == {int}:
        return pl.Int64
    return pl.Float64 if kinds and kinds <= {int, float} else pl.String


def _table(run: str, answered: Iterable[Answered], chains: Collection[str], columns: _Columns) -> pl.DataFrame:
    """The score table. What belongs to an item is built once an item and gathered: half of the columns, most of the
    work."""
    places: dict[str, int] = {}
    fields: list[dict[str, Any]] = []
    place_of: list[int] = []
    records: list[dict[str, Any]] = []
    rules = cache(columns.rules)
    for item, row, others, again in answered:
        scoring = rules(item.benchmark)
        place = places.setdefault(item.id, len(fields))
        if place == len(fields):
            fields.append(item_fields(item, scoring))
        place_of.append(place)
        record = score_row(run, row["model"], item, row, row["strategy"] in chains, others, scoring)
        if again:
            record.update(noise_fields(item, row, again, scoring.lettered))
        records.append(record)
    own = {name: kind for name, kind in COLUMNS.items() if name in ITEM_COLUMNS} | {**columns.factors, **columns.items}
    per_item = _frame(([field.get(name) for field in fields] for name in own), own)
    rest = {name: kind for name, kind in COLUMNS.items() if name not in ITEM_COLUMNS}
    per_row = _frame(zip(*map(itemgetter(*rest), records), strict=True) if records else [()] * len(rest), rest)
    computed = _frame(([record.get(name) for record in records] for name in columns.replies), columns.replies)
    per_item = per_item[pl.Series(place_of, dtype=pl.UInt32)]
    wide = pl.concat([per_row, computed, per_item], how="horizontal")
    return wide.select(*COLUMNS, *columns.factors, *columns.items, *columns.replies)


def _frame(by_column: Iterable[Sequence[Any]], schema: Mapping[str, Any]) -> pl.DataFrame:
    columns = {}
    for (name, kind), values in zip(schema.items(), by_column, strict=True):
        if isinstance(kind, pl.List):  # far quicker than a list of lists; no label has a control character
            joined = [None if value is None else _SEPARATOR.join(map(str, value)) for value in values]
            columns[name] = pl.Series(name, joined, dtype=pl.String).str.split(_SEPARATOR).cast(kind)
        elif kind == pl.String and name not in COLUMNS:
            columns[name] = pl.Series(name, [_as_text(value) for value in values], dtype=kind)
        elif name in COLUMNS:
            columns[name] = pl.Series(name, values, dtype=kind)
        else:
            columns[name] = _series(name, values, kind)
    return pl.DataFrame(columns)


_SEPARATOR = "\x1f"


def _series(name: str, values: Sequence[Any], kind: Kind) -> pl.Series:
    """A column that anybody's metric or factor fills. Raises ConfigError for a value that is not of its type."""
    try:
        return pl.Series(name, values, dtype=kind)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        types = sorted({type(value).__name__ for value in values if value is not None})
        raise ConfigError(f"score table: column {name!r} is {kind}; found values of type {', '.join(types)}") from None


def _as_text(value: Any) -> str | None:
    """The value of a factor that holds texts and others, as JSON writes it: true, 2, 0.5."""
    return value if value is None or type(value) is str else orjson.dumps(value).decode()
