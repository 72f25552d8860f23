"""What a stranger's Parquet file makes its reader hold is known before it is read, whatever its end says."""

import io
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tomserve.content import files
from tomserve.content.parquet_pages import add_up
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
    ],
    ids=["repeated", "listed", "labels", "list", "nested", "packed"],
)
def test_a_short_file_with_a_long_column_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: pl.Series, said: str
) -> None:
    monkeypatch.setattr(files, "FREE", 1000)
    monkeypatch.setattr(files, "ROOM", 1000)
    pq.write_table(column.to_frame().to_arrow(), tmp_path / "table.parquet", compression="zstd")
    with pytest.raises(ConfigError, match=f"table.parquet: .*{said}"):
        files.read_foreign_parquet(tmp_path / "table.parquet")


def written(**options: Any) -> bytes:
    pq.write_table(pa.table({"n": range(9000), "l": [[1, 2]] * 9000}), file := io.BytesIO(), **options)
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
