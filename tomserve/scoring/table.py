"""Make score tables from items and responses (tomserve.scoring.tablefile reads and writes them in several formats).

A table has one row for each item, strategy and model, and is the same to the byte every time. Rows are scored in the
order of their items and written in parts, so that a million of them need no more memory than a few thousand. What a
benchmark adds is handed in as rules (see tomserve.scoring.metric); tomserve.runs.scores knows the files of a run.
"""

from __future__ import annotations

import contextlib
import gc
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from tomserve.scoring import originals
from tomserve.scoring.choices import Choices
from tomserve.scoring.metric import Kind, Metric, Rules, columns_of, plain
from tomserve.scoring.samples import PEOPLE, SAMPLED, grouped, majority, people_fields, sample_fields, sample_of
from tomserve.scoring.score import COLUMNS, ITEM_COLUMNS, PARTIAL, item_fields, noise_fields, score_row
from tomserve.scoring.sources import ItemFile, NoiseFile, ResponseFile

TABLES = (".parquet", ".jsonl", ".csv")
"""The suffixes of files that can hold a score table."""

PART = 10_000
"""How many rows are scored before they are written."""

Note = Callable[[str], None]
"""A function that is told, in one line, what could not be read."""

Answered = tuple[Item, Sequence[Mapping[str, Any]], Sequence[Automaton], Sequence[tuple[int, Mapping[str, Any]]]]
"""An item, its response (or the responses of its samples), the compiled rationales of other questions about its story,
and the replies that came when it was asked again, each with the number of requests in flight."""


def named_gold(columns: Collection[str]) -> pl.Expr | None:
    """Which set of right answers counted, as an expression over a score table with these columns.

    It is the factor `gold` or, for generated items, "tracked:" with their factor `semantics`; None without either.
    """
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
    lettered: Collection[str] = (),
    again: NoiseFile | None = None,
    rules: Rules = plain,
    reader: Choices | None = None,
) -> None:
    """Score every response into a Parquet file, part by part.

    items, responses: the files to read. path: the file to write. run: the run's name. chains: the strategies that ask
    for a chain of beliefs; there a missing chain scores 0, elsewhere it is null. lettered: the strategies that show the
    choices as A, B, C. again: the replies of the noise check, which are compared and not scored. rules: what the
    benchmarks of the items add. reader: the choices of a model that has read what the rules could not. Raises
    ConfigError or ContentError where a metric of a benchmark fails, OSError where the file cannot be written.
    """
    columns = _Columns.of(items.factors, items.benchmarks, rules, responses.sampled, responses.of_people)
    columns = columns.beside(items.original) if items.varied else columns
    if responses.foreign and len(responses.places) < len(items.ids):
        columns = replace(columns, items={**columns.items, **PARTIAL}, given=len(items.ids))
    if again is not None:
        for compared in (responses, again):
            compared.key_by_first_turn(again.places)
    questions = grouped(responses.rows())
    with _told_by_polars(path), tempfile.TemporaryDirectory(dir=path.parent, prefix=".scoring-") as scratch:
        parts: list[Path] = []
        while chunk := list(islice(questions, PART)):
            answered = (
                (items.item(place), rows, items.others(place), again.again(place, rows[0]["strategy"]) if again else ())
                for place, rows in chunk
            )
            with _uncollected():
                frame = _table(run, answered, chains, lettered, columns, reader)
            if sum(len(rows) for _, rows in chunk) == len(responses):  # all rows fit into one part
                frame.write_parquet(path)
                return
            parts.append(Path(scratch) / f"{len(parts):06d}.parquet")
            frame.write_parquet(parts[-1], compression="lz4")
        if parts:
            pl.scan_parquet(parts).sink_parquet(path, row_group_size=PART, maintain_order=True)
        else:
            _table(run, (), (), (), columns).write_parquet(path)


def tell(note: Note | None, *files: ResponseFile | None) -> None:
    """Say in one line for each file which of its lines could not be read; say nothing where all of them could."""
    for file in files:
        if note is not None and file is not None and file.problems:
            note(str(file.problems))


def empty(run: str) -> pl.DataFrame:
    """The score table of a run in which nothing was answered."""
    return _table(run, (), (), (), _Columns.of({}, (), plain))


@contextlib.contextmanager
def _told_by_polars(path: Path) -> Iterator[None]:
    """Raise OSError where Polars cannot write a file; of a full disk it tells by an error of its own."""
    try:
        yield
    except pl.exceptions.ComputeError as error:
        raise OSError(f"{path}: cannot be written ({' '.join(str(error).split())[:120]})") from error


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
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


def table(
    run: str,
    model: str,
    answered: Iterable[tuple[Item, Mapping[str, Any]]],
    chains: Collection[str] = (),
    rules: Rules = plain,
    lettered: Collection[str] = (),
) -> pl.DataFrame:
    """Score pairs of an item and its response into a table in memory; samples of one question become one row.

    run, model: their names. answered: the pairs; a response has `strategy`, `status` and `text`, and a `sample` from 1
    on where it is a further sample of a question. chains: the strategies that ask for a chain of beliefs. rules: what
    the benchmarks of the items add. lettered: the strategies that show the choices as A, B, C. Every factor of the
    items becomes a column. Raises ConfigError or ContentError where a metric of a benchmark fails.
    """
    questions: dict[tuple[str, Any, Any, int], tuple[Item, list[Mapping[str, Any]]]] = {}
    factors: dict[str, set[type]] = {}
    rows = [(item, {"model": model, **row}) for item, row in answered]
    sampled = any(map(sample_of, (row for _, row in rows)))
    for number, (item, row) in enumerate(rows):
        one = (item.id, row["model"], row["strategy"], 0 if sampled else number)
        questions.setdefault(one, (item, []))[1].append(row)
        for name, value in item.factors.items():
            factors.setdefault(name, set()).add(type(value))
    pairs: list[Answered] = [(item, sorted(found, key=sample_of), (), ()) for item, found in questions.values()]
    columns = _Columns.of(factors, {item.benchmark for item, *_ in pairs}, rules, sampled)
    if any(item.base is not None for item, *_ in pairs):
        known = {item.id: item for item, *_ in pairs}
        columns = columns.beside(lambda item: known.get(item.base) if item.base is not None else None)
    return _table(run, pairs, chains, lettered, columns)


@dataclass(frozen=True)
class _Columns:
    """The columns of a table besides the standard ones, with their types.

    factors: the factors of the items. items: what their benchmarks compute once for each item. replies: what they
    compute from each reply. rules: what each benchmark adds. samples: those of questions that were asked several times.
    original: gives the original of a variant, where some items are variants; None where none is. given: how many
    questions there were, where another tool answered some of them; else None.
    """

    factors: Mapping[str, Kind]
    items: Mapping[str, Kind]
    replies: Mapping[str, Kind]
    rules: Rules
    samples: Mapping[str, Kind]
    original: originals.Original | None = None
    given: int | None = None

    def beside(self, original: originals.Original) -> _Columns:
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
    ) -> _Columns:
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


def _table(
    run: str,
    answered: Iterable[Answered],
    chains: Collection[str],
    lettered: Collection[str],
    columns: _Columns,
    reader: Choices | None = None,
) -> pl.DataFrame:
    """The score table. Columns that belong to the item are half of all and most of the work, so they are computed once
    for each item and then repeated for its rows."""
    places: dict[str, int] = {}
    fields: list[dict[str, Any]] = []
    place_of: list[int] = []
    records: list[dict[str, Any]] = []
    rules = cache(columns.rules)
    for item, rows, others, again in answered:
        scoring = rules(item.benchmark)
        if rows[0]["strategy"] in lettered and not scoring.lettered:
            scoring = replace(scoring, lettered=True)
        place = places.setdefault(item.id, len(fields))
        original = columns.original(item) if columns.original is not None else None
        if place == len(fields):
            fields.append({**item_fields(item, scoring), **dict.fromkeys(PARTIAL, columns.given)})
            if columns.original is not None:
                fields[-1].update(originals.item_fields(item, original, scoring))
        place_of.append(place)
        chain = rows[0]["strategy"] in chains
        scored = [score_row(run, row["model"], item, row, chain, others, scoring, reader=reader) for row in rows]
        chosen = majority(scored) if len(scored) > 1 else 0
        row, record = rows[chosen], scored[chosen]
        if again:
            same = [(level, other) for level, other in again if sample_of(other) == sample_of(row)]
            record.update(noise_fields(item, row, same, scoring.lettered))
        if columns.original is not None:
            record.update(originals.reply_fields(item, original, record["answer"]))
        if columns.samples:
            record.update(sample_fields(scored, [sample_of(one) for one in rows], chosen))
            record.update(people_fields(scored, rows))
        records.append(record)
    own = {name: kind for name, kind in COLUMNS.items() if name in ITEM_COLUMNS} | {**columns.factors, **columns.items}
    per_item = _frame(([field.get(name) for field in fields] for name in own), own)
    rest = {name: kind for name, kind in COLUMNS.items() if name not in ITEM_COLUMNS}
    per_row = _frame(zip(*map(itemgetter(*rest), records), strict=True) if records else [()] * len(rest), rest)
    more = {**columns.samples, **columns.replies}
    computed = _frame(([record.get(name) for record in records] for name in more), more)
    per_item = per_item[pl.Series(place_of, dtype=pl.UInt32)]
    wide = pl.concat([per_row, computed, per_item], how="horizontal")
    return wide.select(*COLUMNS, *columns.samples, *columns.factors, *columns.items, *columns.replies)


def _frame(by_column: Iterable[Sequence[Any]], schema: Mapping[str, Any]) -> pl.DataFrame:
    """A table of these columns, given as sequences in the order of `schema` (name -> Polars type)."""
    columns = {}
    for (name, kind), values in zip(schema.items(), by_column, strict=True):
        if isinstance(kind, pl.List):  # much quicker than a list of lists, and no label holds the separator
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
    """A column that a benchmark's metric or a factor fills. Raises ConfigError for a value that is not of its type."""
    try:
        return pl.Series(name, values, dtype=kind)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        types = sorted({type(value).__name__ for value in values if value is not None})
        raise ConfigError(f"score table: column {name!r} is {kind}; found values of type {', '.join(types)}") from None


def _as_text(value: Any) -> str | None:
    """The value of a factor whose values are of several types, as JSON writes it (true, 2, 0.5); a text is kept."""
    return value if value is None or type(value) is str else orjson.dumps(value).decode()
