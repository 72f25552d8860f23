"""Make score tables from items and responses (tomserve.scoring.tablefile reads and writes them in several formats).

A table has one row for each item, strategy and model, and is the same to the byte every time. Rows are scored in the
order of their items and written in parts, so that a million of them need no more memory than a few thousand. What a
benchmark adds is handed in as rules (see tomserve.scoring.metric); tomserve.runs.scores knows the files of a run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from tomserve.content import temporary
from tomserve.items import Item
from tomserve.scoring.choices import Choices
from tomserve.scoring.frames import Answered, Columns, frame
from tomserve.scoring.graded import FIELD, GRADED
from tomserve.scoring.metric import Rules, plain
from tomserve.scoring.parts import Work, written
from tomserve.scoring.samples import sample_of
from tomserve.scoring.score import PARTIAL
from tomserve.scoring.sources import ItemFile, NoiseFile, ResponseFile

TABLES = (".parquet", ".jsonl", ".csv")
"""The suffixes of files that can hold a score table."""

PART = 10_000
"""How many rows are scored before they are written."""

Note = Callable[[str], None]
"""A function that is told, in one line, what could not be read."""


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
    columns = Columns.of(items.factors, items.benchmarks, rules, responses.sampled, responses.of_people)
    columns = columns.beside(items.original) if items.varied else columns
    if responses.foreign and len(responses.places) < len(items.ids):
        columns = replace(columns, items={**columns.items, **PARTIAL}, given=len(items.ids))
    columns = replace(columns, grades=GRADED) if responses.graded else columns
    if again is not None:
        for compared in (responses, again):
            compared.key_by_first_turn(again.places)
    work = Work(run, items, responses, responses.ordered(), chains, lettered, columns, again, reader)
    count = len(work.order.starts) - 1
    with _told_by_polars(path):
        if count <= PART:
            work.frame(0, count).write_parquet(path)
            return
        with temporary.folder(path.parent) as scratch:
            _put_together(written(work, scratch, _ranges(count)), path)


def write_grown(before: pl.DataFrame, more: pl.DataFrame, path: Path) -> None:
    """Write the score table of a run that has grown, with the bytes that scoring all of it would write.

    before: the table of the rows that the run had, each of which alone is the reply to its question. more: the table of
    those that came since, with the same columns; where a question is in both, the later row counts. path: the file to
    write. Raises OSError where it cannot be written.
    """
    key = ["item", "model", "strategy"]
    scores = pl.concat([before.join(more.select(key), on=key, how="anti"), more]).sort(key).rechunk()
    with _told_by_polars(path):
        if scores.height <= PART:
            scores.write_parquet(path)
            return
        with temporary.folder(path.parent) as scratch:
            parts = [scratch / f"{first:012d}.parquet" for first, _ in _ranges(scores.height)]
            for part, (first, last) in zip(parts, _ranges(scores.height), strict=True):
                scores[first:last].write_parquet(part, compression="lz4")
            _put_together(parts, path)


def _ranges(count: int) -> list[tuple[int, int]]:
    return [(first, min(first + PART, count)) for first in range(0, count, PART)]


def _put_together(parts: list[Path], path: Path) -> None:
    pl.scan_parquet(parts).sink_parquet(path, row_group_size=PART, maintain_order=True)


def tell(note: Note | None, *files: ResponseFile | None) -> None:
    """Say in one line for each file which of its lines could not be read; say nothing where all of them could."""
    for file in files:
        if note is not None and file is not None and file.problems:
            note(str(file.problems))


def empty(run: str) -> pl.DataFrame:
    """The score table of a run in which nothing was answered."""
    return frame(run, (), (), (), Columns.of({}, (), plain))


@contextlib.contextmanager
def _told_by_polars(path: Path) -> Iterator[None]:
    """Raise OSError where Polars cannot write a file; of a full disk it tells by an error of its own."""
    try:
        yield
    except pl.exceptions.ComputeError as error:
        raise OSError(f"{path}: cannot be written ({' '.join(str(error).split())[:120]})") from error


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
    columns = Columns.of(factors, {item.benchmark for item, *_ in pairs}, rules, sampled)
    if any(type(row.get(FIELD)) is dict for _, row in rows):
        columns = replace(columns, grades=GRADED)
    if any(item.base is not None for item, *_ in pairs):
        known = {item.id: item for item, *_ in pairs}
        columns = columns.beside(lambda item: known.get(item.base) if item.base is not None else None)
    return frame(run, pairs, chains, lettered, columns)
