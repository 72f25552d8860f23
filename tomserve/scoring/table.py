"""Score tables: made from a run folder (or what another tool answered), kept beside the run, read and written.

One row an identity, always re-creatable from the folder alone, the same bytes every time. Rows are scored in the order
of their items and written in parts, so that a million of them need no more memory than some thousand.

>>> scores_of(Path("runs/perturbed-reference")).select("strategy", "correct").head()           # doctest: +SKIP
"""

from __future__ import annotations

import contextlib
import gc
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import polars as pl

from tomserve import benchmarks
from tomserve.content import files
from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.items.automaton import Automaton
from tomserve.runs import kept
from tomserve.runs.runfolder import existing_run
from tomserve.scoring.score import COLUMNS, ITEM_COLUMNS, item_fields, score_row
from tomserve.scoring.sources import NOISE, ItemFile, NoiseFile, ResponseFile

TABLES = (".parquet", ".jsonl", ".csv")
"""Suffixes of score tables."""

PART = 10_000
"""Rows scored before they are written."""

Note = Callable[[str], None]
Answered = tuple[Item, Mapping[str, Any], Sequence[Automaton], Sequence[tuple[int, Mapping[str, Any]]]]
"""An item, its response, the rationales of other questions about its story, replies to the same request."""


def named_gold(columns: Collection[str]) -> pl.Expr | None:
    """Which answers counted, of a score table with these columns: `gold` or, where generated items have none,
    "tracked:" and the semantics of their answers. None where nothing says."""
    named = [pl.col("gold").cast(pl.String)] if "gold" in columns else []
    if "semantics" in columns:
        named.append(pl.lit("tracked:") + pl.col("semantics").cast(pl.String))
    return pl.coalesce(named).alias("gold") if named else None


class Scored(NamedTuple):
    """A run's score table and what it was made from (see tomserve.runs.kept)."""

    table: pl.DataFrame
    record: kept.Record


def score_run(folder: Path, *, items: Path | None = None, note: Note | None = None) -> pl.DataFrame:
    """Score a run. items: a JSONL file to score against instead of the run's own. note: told what was not read.

    Raises ConfigError where the folder is no run or its items are broken.
    """
    with tempfile.TemporaryDirectory() as scratch:
        return _scored_into(Path(scratch) / kept.TABLE, folder, items=items, note=note).table


def write_run(folder: Path, path: Path, *, items: Path | None = None, note: Note | None = None) -> kept.Sources:
    """Score a run into that Parquet file; returns what was read. Raises ConfigError as score_run does, OSError where
    the file cannot be written."""
    asked = kept.Sources.asked(folder)
    journal = folder / kept.JOURNAL
    if not journal.exists():
        _table(asked.run, (), (), {}).write_parquet(path)
        return asked
    known = ItemFile(items or folder / kept.ITEMS)
    noise = folder / NOISE
    again = NoiseFile(noise, known, asked.model) if noise.exists() else None
    found = ResponseFile(journal, known, asked.model)
    write_scored(known, found, path, run=asked.run, chains=asked.chains, note=note, again=again)
    return asked.read(file.file for file in (found, known, again) if file is not None)


def _scored_into(path: Path, folder: Path, *, items: Path | None = None, note: Note | None = None) -> Scored:
    sources = write_run(folder, path, items=items, note=note)
    table = path.read_bytes()
    return Scored(pl.read_parquet(table), sources.record(table))


def write_scored(
    items: ItemFile,
    responses: ResponseFile,
    path: Path,
    *,
    run: str,
    chains: Collection[str] | None = None,
    note: Note | None = None,
    again: NoiseFile | None = None,
) -> None:
    """Score every row into a Parquet file, part by part.

    chains: strategies whose replies are to hold a belief chain; there a missing chain scores 0, elsewhere it is null.
    again: what was answered when some of it was asked again; it is compared, not scored.
    """
    for file in (responses, again):
        if note is not None and file is not None and file.problems:
            note(str(file.problems))
    factors = _kinds(items.factors, items.benchmarks)
    rows = responses.rows()
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".scoring-") as scratch:
        parts: list[Path] = []
        while chunk := list(islice(rows, PART)):
            answered = (
                (items.item(place), row, items.others(place), again.again(place, row["strategy"]) if again else ())
                for place, row in chunk
            )
            with _uncollected():
                frame = _table(run, answered, chains or (), factors)
            if len(chunk) == len(responses):  # one part is the whole
                frame.write_parquet(path)
                return
            parts.append(Path(scratch) / f"{len(parts):06d}.parquet")
            frame.write_parquet(parts[-1], compression="lz4")
        if parts:
            pl.scan_parquet(parts).sink_parquet(path, row_group_size=PART, maintain_order=True)
        else:
            _table(run, (), (), factors).write_parquet(path)


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
    run: str, model: str, answered: Iterable[tuple[Item, Mapping[str, Any]]], chains: Collection[str] = ()
) -> pl.DataFrame:
    """Score table of (item, response row) pairs; every factor of the items is a column."""
    pairs: list[Answered] = [(item, {"model": model, **row}, (), ()) for item, row in answered]
    factors: dict[str, set[type]] = {}
    for item, *_ in pairs:
        for name, value in item.factors.items():
            factors.setdefault(name, set()).add(type(value))
    return _table(run, pairs, chains, _kinds(factors, {item.benchmark for item, *_ in pairs}))


def _kinds(factors: Mapping[str, set[type]], names: Collection[str]) -> dict[str, type[pl.DataType]]:
    """Column types of these factors, and of what these benchmarks add to them."""
    added = {name: {kind} for name, kind in benchmarks.score_kinds(names).items()}
    return {name: _kind(kinds) for name, kinds in {**factors, **added}.items()}


def _kind(kinds: set[type]) -> type[pl.DataType]:
    """The column type of a factor that holds values of these types; text where they have nothing in common."""
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
    factors: Mapping[str, Any],
) -> pl.DataFrame:
    """What belongs to an item is built once an item, and gathered: half of the columns, most of the work."""
    places: dict[str, int] = {}
    fields: list[dict[str, Any]] = []
    place_of: list[int] = []
    records: list[dict[str, Any]] = []
    for item, row, others, again in answered:
        place = places.setdefault(item.id, len(fields))
        if place == len(fields):
            fields.append(item_fields(item))
        place_of.append(place)
        records.append(score_row(run, row["model"], item, row, row["strategy"] in chains, others, again))
    own = {name: kind for name, kind in COLUMNS.items() if name in ITEM_COLUMNS} | dict(factors)
    per_item = _frame(([field.get(name) for field in fields] for name in own), own)
    rest = {name: kind for name, kind in COLUMNS.items() if name not in ITEM_COLUMNS}
    per_row = _frame(zip(*map(itemgetter(*rest), records), strict=True) if records else [()] * len(rest), rest)
    per_item = per_item[pl.Series(place_of, dtype=pl.UInt32)]
    return pl.concat([per_row, per_item], how="horizontal").select(*COLUMNS, *factors)


def _frame(by_column: Iterable[Sequence[Any]], schema: Mapping[str, Any]) -> pl.DataFrame:
    columns = {}
    for (name, kind), values in zip(schema.items(), by_column, strict=True):
        if isinstance(kind, pl.List):  # far quicker than a list of lists; no label has a control character
            joined = [None if value is None else _SEPARATOR.join(map(str, value)) for value in values]
            columns[name] = pl.Series(name, joined, dtype=pl.String).str.split(_SEPARATOR).cast(kind)
        elif kind == pl.String and name not in COLUMNS:
            columns[name] = pl.Series(name, [_as_text(value) for value in values], dtype=kind)
        else:
            columns[name] = pl.Series(name, values, dtype=kind)
    return pl.DataFrame(columns)


_SEPARATOR = "\x1f"


def _as_text(value: Any) -> str | None:
    """The value of a factor that holds texts and others, as JSON writes it: true, 2, 0.5."""
    return value if value is None or type(value) is str else orjson.dumps(value).decode()


def scores_of(folder: Path, *, fresh: bool = False, note: Note | None = None) -> pl.DataFrame:
    """The run's scores: those kept in ``scores.parquet`` where ``scores.json`` beside it proves that this user's
    tomserve made them, as it is now, of what lies in the folder now; else, or where `fresh`, made again and kept.

    note: told what was not read. Raises ConfigError as score_run does.
    """
    return scored(folder, fresh=fresh, note=note).table


def scored(folder: Path, *, fresh: bool = False, note: Note | None = None) -> Scored:
    """The scores as scores_of gives them, with what they were made from."""
    path = folder / kept.TABLE
    if not fresh and (found := kept.believed(path)) is not None:
        table, record = found
        return Scored(pl.read_parquet(table), record)
    try:
        with files.replacing(path) as file:
            made = _scored_into(Path(file.name), folder, note=note)
    except OSError:  # a read-only folder can still be looked at
        with tempfile.TemporaryDirectory() as scratch:
            return _scored_into(Path(scratch) / path.name, folder, note=note)
    kept.keep(path, made.record)
    return made


def load_scores(source: str | None, *, note: Note | None = None) -> pl.DataFrame:
    """Scores of a run (name, path, or None for the newest), or a score table (.parquet, .jsonl, .csv)."""
    if source is None or not source.endswith(TABLES):
        return scores_of(existing_run(source), note=note)
    path = Path(source).expanduser()
    if not path.is_file():
        raise ConfigError(f"{path}: no such file" if not path.exists() else f"{path}: is no file")
    try:
        if path.suffix == ".parquet":
            frame = pl.read_parquet(path, glob=False)
        elif path.suffix == ".jsonl":
            frame = pl.read_ndjson(path, infer_schema_length=None)
        else:
            text = {
                name: pl.String for name, kind in COLUMNS.items() if kind == pl.Boolean or isinstance(kind, pl.List)
            }
            frame = pl.read_csv(path, infer_schema_length=None, schema_overrides={**COLUMNS, **text}, glob=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:120]
        raise ConfigError(f"{path}: not a {path.suffix[1:]} table ({reason})") from None
    return typed(frame, str(path))


def typed(frame: pl.DataFrame, path: str) -> pl.DataFrame:
    """A score table with its columns in order and of their types, whatever format they came in.

    Raises ConfigError by file, column and value for what does not fit: true and false may be text or 1 and 0.
    """
    known = [name for name in COLUMNS if name in frame.columns]  # JSON does not keep an order
    if not known:
        shown = ", ".join(frame.columns[:8]) or "none"
        raise ConfigError(
            f"{path}: not a score table: found columns {shown[:200]}; expected model, strategy, item, status, correct "
            "and the study's factors (CSV: separated by commas)"
        )
    if frame.is_empty():
        raise ConfigError(f"{path}: holds no rows")
    labels = [name for name, kind in frame.schema.items() if kind in (pl.Categorical, pl.Enum)]
    frame = frame.with_columns(pl.col(name).cast(pl.String) for name in labels)
    for name in known:
        kind = COLUMNS[name]
        if kind == pl.Boolean:
            frame = frame.with_columns(_truth(frame, name, path))
            continue
        column = (
            pl.col(name).str.json_decode(kind) if isinstance(kind, pl.List) and path.endswith(".csv") else pl.col(name)
        )
        try:
            frame = frame.with_columns(column.cast(kind))
        except pl.exceptions.PolarsError:
            found = frame.schema[name]
            raise ConfigError(f"{path}: column {name!r} is {found} and cannot be read as {kind}") from None
    return frame.select(*known, pl.exclude(*known))


_TRUTH = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


def _truth(frame: pl.DataFrame, name: str, path: str) -> pl.Series:
    """A column of true and false; anything but these, 1, 0 and nothing is refused."""
    column = frame[name]
    if column.dtype in (pl.Boolean, pl.Null):
        return column.cast(pl.Boolean)
    if column.dtype.is_float():
        column = column.fill_nan(None)
    text = column.cast(pl.String).str.to_lowercase()
    found = text.replace_strict(_TRUTH, default=None, return_dtype=pl.Boolean).alias(name)
    strange = text.is_not_null() & (text != "") & found.is_null()
    if strange.any():
        at = int(strange.arg_max() or 0)
        item = frame["item"][at] if "item" in frame.columns else at + 1
        raise ConfigError(f"{path}: item {item!r}: {name} is {frame[name][at]!r}; expected true or false (or 1, 0)")
    return found


def write_scores(scores: pl.DataFrame, path: Path) -> None:
    """Write a score table by its suffix: .parquet, .jsonl or .csv (lists as JSON text). Raises ConfigError."""
    lists = [name for name, kind in scores.schema.items() if isinstance(kind, pl.List)]
    as_text = (
        pl.col(name).map_elements(lambda values: orjson.dumps(values.to_list()).decode(), pl.String) for name in lists
    )
    if path.suffix not in TABLES:
        raise ConfigError(f"{path}: unknown kind of table; known: {', '.join(TABLES)}")
    try:
        with files.replacing(path) as file:
            if path.suffix == ".parquet":
                scores.write_parquet(file.name)
            elif path.suffix == ".jsonl":
                scores.write_ndjson(file.name)
            else:  # an interface, not a sheet to look at: nothing is escaped, so that it reads back as it was
                scores.with_columns(as_text).write_csv(file.name)
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:120]
        raise ConfigError(f"{path}: cannot be written ({reason})") from None
