"""The column `status` of a whole score table. Any text is an outcome; one that tomserve does not know is a failure.

>>> unknown_statuses(pl.DataFrame({"status": ["ok", "http_999"]})) is None
True
"""

from __future__ import annotations

import polars as pl

from tomserve.errors import ConfigError
from tomserve.status import KNOWN, inert, known, unknown


def status_column(frame: pl.DataFrame, path: str) -> pl.Series:
    """The column `status` of a table that came from `path`, with unknown statuses made safe to print.

    Raises ConfigError where the column does not hold text.
    """
    column = frame["status"]
    if column.dtype not in (pl.String, pl.Null):
        raise ConfigError(f"{path}: column 'status' is {column.dtype}; expected text: {KNOWN}")
    column = column.cast(pl.String)
    strange = [status for status in column.unique().drop_nulls() if not known(status)]
    return column.replace(strange, [inert(status) for status in strange]) if strange else column


def unknown_statuses(scores: pl.DataFrame) -> str | None:
    """One sentence about the statuses of a score table that are unknown here and so count as failures, or None."""
    if "status" not in scores.columns:
        return None
    return unknown(scores["status"].drop_nulls().value_counts().iter_rows())


def check_status(scores: pl.DataFrame) -> None:
    """Raise ConfigError where a status is empty or no text. Any other value is an outcome."""
    if scores.schema["status"] not in (pl.String, pl.Categorical, pl.Enum):
        raise ConfigError(f"score table: column 'status' is {scores.schema['status']}; expected text: {KNOWN}")
    empty = scores.filter(pl.col("status").cast(pl.String).fill_null("") == "")
    if empty.height:
        raise ConfigError(f"score table: item {empty['item'][0]!r}: status is empty; expected one of {KNOWN}")
