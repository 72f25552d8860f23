"""Read and write score tables as .parquet, .jsonl or .csv files, with their columns in order and of the right types.

>>> read_table("scores.csv").select("strategy", "correct").head()                              # doctest: +SKIP
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import orjson
import polars as pl

from tomserve.content import outputs
from tomserve.errors import ConfigError
from tomserve.scoring import score
from tomserve.scoring.graded import GRADED
from tomserve.scoring.outcomes import status_column
from tomserve.scoring.samples import PEOPLE, SAMPLED
from tomserve.scoring.table import TABLES

COLUMNS = {**score.COLUMNS, **SAMPLED, **PEOPLE, **GRADED, **score.PARTIAL}
"""The columns of every score table, those of one whose questions were asked several times, those of one whose replies
another tool graded, and that of one in which another tool answered some of the questions."""

MEASURED: Literal["measured"] = "measured"
"""The kind of a run that holds a table that was measured inside of a model, and no answers."""


def read_table(source: str) -> pl.DataFrame:
    """The score table in a .parquet, .jsonl or .csv file. Raises ConfigError where the file holds none."""
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
    """A score table with its known columns first, in order and of their types.

    frame: the table as it was read; true and false may also be the texts "true" and "false", or 1 and 0. path: the
    file, for messages. Raises ConfigError by file, column and value for what does not fit.
    """
    known = [name for name in COLUMNS if name in frame.columns]  # JSON lines may have their fields in any order
    if not known:
        shown = ", ".join(frame.columns[:8]) or "none"
        raise ConfigError(
            f"{path}: not a score table: found columns {shown[:200]}; expected model, strategy, item, status, correct "
            "and the study's factors (CSV: separated by commas)"
        )
    if frame.is_empty():
        raise ConfigError(f"{path}: holds no rows")
    check_columns(frame, path)
    labels = [name for name, kind in frame.schema.items() if kind in (pl.Categorical, pl.Enum)]
    frame = frame.with_columns(pl.col(name).cast(pl.String) for name in labels)
    for name in known:
        kind = COLUMNS[name]
        if kind == pl.Boolean:
            frame = frame.with_columns(_truth(frame, name, path))
            continue
        if name == "status":
            frame = frame.with_columns(status_column(frame, path))
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


LONGEST_NAME = 200
"""Most characters of the name of a column."""

UNREADABLE = (pl.Binary, pl.Struct, pl.Object, pl.Array, pl.Duration, pl.Time)
"""Types that no column of tomserve has and that can be neither counted nor shown."""


def check_columns(frame: pl.DataFrame, path: str) -> None:
    """Raise ConfigError by file and column for a table, whoever made it, whose columns could not be chosen by name, or
    hold what cannot be shown."""
    for name, kind in frame.schema.items():
        pattern = name == "*" or (name.startswith("^") and name.endswith("$"))  # where columns are chosen, any of them
        if not name or pattern or len(name) > LONGEST_NAME or not name.isprintable():
            raise ConfigError(
                f"{path}: a column is called {name[:60]!r}; expected 1 to {LONGEST_NAME} printable characters, and no "
                "pattern such as '*' or '^...$'; rename it"
            )
        if isinstance(kind, UNREADABLE):
            raise ConfigError(f"{path}: column {name!r} is {kind!s:.80}; expected texts, numbers or true and false")


_TRUTH = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


def _truth(frame: pl.DataFrame, name: str, path: str) -> pl.Series:
    """A column as true, false or null. Raises ConfigError by item for a value that is none of these, 1 or 0."""
    column = frame[name]
    if column.dtype in (pl.Boolean, pl.Null):
        return column.cast(pl.Boolean)
    if column.dtype.is_float():
        column = column.fill_nan(None)
    try:
        text = column.cast(pl.String).str.to_lowercase()
    except pl.exceptions.PolarsError:
        raise ConfigError(f"{path}: column {name!r} is {column.dtype} and cannot be read as {pl.Boolean}") from None
    found = text.replace_strict(_TRUTH, default=None, return_dtype=pl.Boolean).alias(name)
    strange = text.is_not_null() & (text != "") & found.is_null()
    if strange.any():
        at = int(strange.arg_max() or 0)
        item = frame["item"][at] if "item" in frame.columns else at + 1
        raise ConfigError(f"{path}: item {item!r}: {name} is {frame[name][at]!r}; expected true or false (or 1, 0)")
    return found


def write_scores(scores: pl.DataFrame, path: Path) -> None:
    """Write a score table in the format of the path's suffix: .parquet, .jsonl or .csv (with lists as JSON text).

    Raises ConfigError for another suffix, and where the file cannot be written.
    """
    lists = [name for name, kind in scores.schema.items() if isinstance(kind, pl.List)]
    as_text = (
        pl.col(name).map_elements(lambda values: orjson.dumps(values.to_list()).decode(), pl.String) for name in lists
    )
    if path.suffix not in TABLES:
        raise ConfigError(f"{path}: unknown kind of table; known: {', '.join(TABLES)}")
    try:
        with outputs.writing(path) as file:
            if path.suffix == ".parquet":
                scores.write_parquet(file.name)
            elif path.suffix == ".jsonl":
                scores.write_ndjson(file.name)
            else:  # for programs and not for spreadsheets: nothing is escaped, so that it reads back as it was
                scores.with_columns(as_text).write_csv(file.name)
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:120]
        raise ConfigError(f"{path}: cannot be written ({reason})") from None
