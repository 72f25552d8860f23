"""The rows of spreadsheets (CSV) and of JSON lines, each with the line where it begins."""

from __future__ import annotations

import contextlib
import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from tomserve.content import bounded
from tomserve.errors import ConfigError

Rows = Iterator[tuple[int, dict[str, Any]]]
Leave = Callable[[str, int], None]
"""Is told why a row is not read, and on which line it begins."""

MOST_COLUMNS = 2000
"""A spreadsheet with more columns is taken for something else."""

_BOM = b"\xef\xbb\xbf"


def json_rows(path: Path, lines: Iterator[bytes], leave: Leave) -> Rows:
    """The objects of a file of JSON lines. Raises ConfigError where the first line is no JSON."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line.removeprefix(_BOM) if number == 1 else line)
        except orjson.JSONDecodeError as error:
            if number == 1:
                raise ConfigError(f"{path}:1: not JSON ({error.msg}); expected a JSON object a line") from None
            leave("is no JSON" if line.endswith(b"\n") else "is torn off at the end of the file", number)
            continue
        if isinstance(row, dict):
            yield number, row
        else:
            leave("is no JSON object", number)


def csv_rows(path: Path, lines: Iterator[bytes], separator: str | None, leave: Leave) -> Rows:
    """The rows of a spreadsheet by the names in its head. separator: what stands between fields, None to find out.
    Raises ConfigError by file and line where it is no CSV file, not UTF-8, or its head is none."""
    number = 0

    def texts() -> Iterator[str]:
        nonlocal number
        for number, line in enumerate(lines, 1):
            try:
                yield line.removeprefix(_BOM if number == 1 else b"").decode()
            except UnicodeDecodeError as error:
                raise ConfigError(
                    f"{path}:{number}: not UTF-8 (byte {error.start + 1} of the line); save the file as UTF-8"
                ) from None

    given = texts()
    head = next((line for line in given if line.strip()), "")
    between = separator or max((",", ";", "\t"), key=head.count)

    def whole() -> Iterator[str]:
        yield head
        yield from given

    with _long_fields():
        rows = csv.reader(whole(), delimiter=between, strict=True)
        names: list[str] = []
        while True:
            begin = number + 1 if names else max(number, 1)
            try:
                row = next(rows, None)
            except csv.Error as error:
                reason = f"{error}; the field begins at line {begin} or after it"
                raise ConfigError(f"{path}:{number}: not a CSV file ({reason})") from None
            if row is None:
                return
            if not names and row:
                names = _names(path, row, between)
            elif names and len(row) == len(names):
                yield begin, dict(zip(names, row, strict=True))
            elif names and row:
                leave(f"has {len(row)} fields instead of {len(names)}", begin)


def _names(path: Path, row: Sequence[str], separator: str) -> list[str]:
    """The names of the columns."""
    names = [name.strip() for name in row]
    if len(names) > MOST_COLUMNS:
        raise ConfigError(f"{path}:1: has {len(names):,} columns; expected at most {MOST_COLUMNS:,}")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"{path}:1: two columns are called {twice[0]!r:.80}; rename one")
    if len(names) < 2:
        shown = {",": "commas", ";": "semicolons", "\t": "tabs"}.get(separator, repr(separator))
        raise ConfigError(f"{path}:1: has one column ({names[0]!r:.80}) between {shown}; expected a head of several")
    return names


@contextlib.contextmanager
def _long_fields() -> Iterator[None]:
    """Let fields of a CSV file be as long as a line may be."""
    before = csv.field_size_limit(min(bounded.LONGEST, sys.maxsize))
    try:
        yield
    finally:
        csv.field_size_limit(before)
