"""Tables held against what they were: every column of every table by its digest, in tests/data/golden/tables/.

`RENEW_GOLDEN=1 pytest FILE` writes the files anew; what has changed is then read in the difference of the commit."""

import math
import os
import re
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from tests.conftest import ROOT

FOLDER = ROOT / "tests/data/golden/tables"


def check(name: str, tables: Mapping[str, pl.DataFrame], **texts: Iterable[object]) -> None:
    """Hold tables, and texts that belong to them, against the file of that name; the error names every column that
    differs."""
    lines = {table: (f"{frame.height} rows", *columns(frame)) for table, frame in tables.items()}
    lines |= {f"({name})": (_digest(shorten_numbers(str(one)) for one in text),) for name, text in texts.items()}
    path = FOLDER / f"{name}.txt"
    if os.environ.get("RENEW_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{table}: {'; '.join(cells)}\n" for table, cells in lines.items()))
    golden = dict(line.split(": ", 1) for line in path.read_text().splitlines())
    assert list(lines) == list(golden), f"{path.name} has other tables"
    differ = {table: sorted({*cells} ^ {*golden[table].split("; ")}) for table, cells in lines.items()}
    assert not any(differ.values()), {table: cells for table, cells in differ.items() if cells}
    assert [golden[table].split("; ") for table in lines] == [list(cells) for cells in lines.values()], "column order"


def columns(frame: pl.DataFrame) -> list[str]:
    """The names of all columns with the digests of what they hold."""
    return [f"{values.name} {_digest(map(_text, values.to_list()))}" for values in frame.iter_columns()]


def _text(value: Any) -> str:
    """Numbers by five digits, so that machines agree on them."""
    if not isinstance(value, float):
        return str(value)
    return _shorten(value, 5) if math.isfinite(value) else str(value)


NUMBER = re.compile(r"-?\d+(?:\.\d{7,}(?:e-?\d+)?|(?:\.\d+)?e-\d+)")


def shorten_numbers(text: str) -> str:
    """The text with six digits of each number of more: the last ones follow from the CPU, for which libraries have
    functions of their own."""
    return NUMBER.sub(lambda match: _shorten(float(match[0]), 6), text)


def _shorten(value: float, digits: int) -> str:
    """A number by so many digits; one that lies between two of these goes up on every machine."""
    return "0" if abs(value) < 1e-9 else f"{value * (1 + 1e-8):.{digits}g}"


def _digest(texts: Iterable[str]) -> str:
    return f"{zlib.crc32(chr(10).join(texts).encode()) & 0xFFFF:04x}"
