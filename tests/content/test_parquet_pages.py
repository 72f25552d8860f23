"""What a stranger's Parquet file makes its reader hold is known before it is read, whatever its end says."""

import io
from base64 import b64decode, b64encode
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tomserve.content import files, parquet_pages
from tomserve.content.parquet_pages import _follow, _slot, add_up, check_end
from tomserve.errors import ConfigError

LONG = pl.Series("item", ["x" * 100_000])


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (LONG.new_from_index(0, 50), "texts of 5,000,000 bytes"),
        (LONG.new_from_index(0, 50).implode(), "texts of 5,000,000 bytes"),
        (LONG.new_from_index(0, 50).cast(pl.Categorical), "texts of 5,000,000 bytes"),
        (pl.Series("noise", [[0] * 2_000_000]), "2,000,000 values"),
        (pl.Series("noise", [[[0]]]), "is List\\(List"),
        (pl.Series("noise", ["x" * 10_000_000]), "10,000,\\d+ bytes"),
        (pl.Series("day", [2**31 - 1], pl.Int32).cast(pl.Date), "holds a date before the year 1 or after"),
        (pl.Series("days", [[0]], pl.List(pl.Int32)).cast(pl.List(pl.Date)), "is List\\(Date"),
    ],
    ids=["repeated", "listed", "labels", "list", "nested", "packed", "late", "dates"],
)
def test_a_short_file_with_a_long_column_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: pl.Series, said: str
) -> None:
    monkeypatch.setattr(files, "FREE", 1000)
    monkeypatch.setattr(files, "ROOM", 1000)
    pq.write_table(column.to_frame().to_arrow(), tmp_path / "table.parquet", compression="zstd")
    with pytest.raises(ConfigError, match=f"table.parquet: .*{said}"):
        files.read_foreign_parquet(tmp_path / "table.parquet")


def test_days_that_stand_for_ever_or_never_are_read(tmp_path: Path) -> None:
    table = pl.DataFrame({"ends": [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59), None]})
    table.write_parquet(tmp_path / "table.parquet")
    assert files.read_foreign_parquet(tmp_path / "table.parquet").equals(table)
    table.with_columns(pl.col("ends").dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo")).write_parquet(
        tmp_path / "table.parquet"
    )
    with pytest.raises(ConfigError, match="after 9999"):  # as Python could not show it
        files.read_foreign_parquet(tmp_path / "table.parquet")


def written(table: pa.Table | None = None, **options: Any) -> bytes:
    table = pa.table({"n": range(9000), "l": [[1, 2]] * 9000}) if table is None else table
    pq.write_table(table, file := io.BytesIO(), **options)
    return file.getvalue()


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_the_values_of_lists_are_counted_one_by_one(version: str) -> None:
    assert add_up(written(data_page_version=version)).values == 9000 + 18000


def test_what_polars_would_read_otherwise_is_refused() -> None:
    good = written()
    mistyped = good[:4] + bytes([good[4] & 0xF0 | 8]) + good[5:]  # the kind of the first page is said to be a text
    delta = written(use_dictionary=False, column_encoding={"n": "DELTA_BINARY_PACKED", "l.list.element": "PLAIN"})
    shared = good[:100] + good[-8000:]  # where the columns had to lie over each other
    for held, said in ((mistyped, "another kind"), (delta, "delta"), (shared, "more bytes than the file")):
        with pytest.raises(ValueError, match=said):
            add_up(held)


def test_an_end_by_which_polars_would_end_or_fill_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    kind: pa.DataType = pa.string()
    for _ in range(30):
        kind = pa.struct({"x": kind})
    deep = written(pa.table({"x": pa.array([], kind)}))
    wide = written(pa.table({name: [1] for name in ("x" * 500, "a", "b", "c")}))
    check_end(wide)
    encoded = pq.ParquetFile(io.BytesIO(wide)).metadata.metadata[b"ARROW:schema"]
    arrow = bytearray(b64decode(encoded))
    names = _follow(arrow, _slot(arrow, _follow(arrow, _slot(arrow, _follow(arrow, 8), 2)), 1))
    for at in range(names + 8, names + 20, 4):  # each column is the first one, with its long name
        arrow[at : at + 4] = (_follow(arrow, names + 4) - at).to_bytes(4, "little")
    shared = wide.replace(encoded, b64encode(arrow))
    said_of = pa.field("a", pa.int8(), metadata={"k": "v" * 500})
    told = written(
        pa.table([[1]] * 3, pa.schema([said_of, *(pa.field(n, pa.int8(), metadata={"k": ""}) for n in "bc")]))
    )
    encoded = pq.ParquetFile(io.BytesIO(told)).metadata.metadata[b"ARROW:schema"]
    arrow = bytearray(b64decode(encoded))
    names = _follow(arrow, _slot(arrow, _follow(arrow, _slot(arrow, _follow(arrow, 8), 2)), 1))
    first, *others = (_slot(arrow, _follow(arrow, names + at), 6) for at in (4, 8, 12))
    for at in others:  # what is told of each column is what is told of the first one
        arrow[at : at + 4] = (_follow(arrow, first) - at).to_bytes(4, "little")
    repeated = told.replace(encoded, b64encode(arrow))
    monkeypatch.setattr(parquet_pages, "TEXTS", 0)
    monkeypatch.setattr(parquet_pages, "TIMES", 1)
    for held, said in ((deep, "within more than"), (shared, "stands for more"), (repeated, "stands for more")):
        with pytest.raises(ValueError, match=said):
            check_end(held)


def test_equal_texts_that_polars_writes_once_are_no_attack() -> None:
    same = pl.Series([[]], dtype=pl.List(pl.Enum([f"category {number}" for number in range(1000)])))
    pl.DataFrame(dict.fromkeys("abc", same)).write_parquet(file := io.BytesIO())
    check_end(file.getvalue())
