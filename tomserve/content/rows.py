"""Rows of foreign tables, each with the line where it begins: spreadsheets (CSV) with a head, and JSON lines."""

import contextlib
import csv
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import orjson

from tomserve.content import files
from tomserve.errors import ConfigError

Rows = Iterator[tuple[int, dict[str, Any]]]
Leave = Callable[[str, int], None]
"""Is told why a row is not read, and on which line it begins."""

_BOM = b"\xef\xbb\xbf"

_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"x\x01", b"x\x5e", b"x\x9c", b"x\xda")
"""How files begin that gzip, Zstandard or zlib has made."""

_SEPARATOR = re.compile(r"sep=(.)\s*", re.I)


def json_rows(path: Path, lines: Iterator[bytes], leave: Leave) -> Rows:
    """The objects of a file of JSON lines. Raises ConfigError where the first line is no JSON."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = files.load_json(line.removeprefix(_BOM) if number == 1 else line)
        except orjson.JSONDecodeError as error:
            if number == 1:
                raise ConfigError(f"{path}:1: not JSON ({error.msg}); expected a JSON object a line") from None
            leave("is no JSON" if line.endswith(b"\n") else "is torn off at the end of the file", number)
            continue
        if isinstance(row, dict):
            yield number, row
        else:
            leave("is no JSON object", number)


class Sheet:
    """A spreadsheet, whose head names its columns. separator: what stands between fields.

    path: the file. lines: of it; Excel names the separator in a first line such as ``sep=;``. leave: is told which rows
    are left out. Raises ConfigError by file and line where it is not UTF-8.
    """

    def __init__(self, path: Path, lines: Iterator[bytes], leave: Leave) -> None:
        self._path, self._lines, self._leave = path, lines, leave
        self._number = 0
        self._texts = self._decode_lines()
        self._head = next((line for line in self._texts if line.strip()), "")
        if value_of := _SEPARATOR.fullmatch(self._head):
            self._head = next((line for line in self._texts if line.strip()), "")
        if "\0" in self._head:
            raise ConfigError(f"{path}:{self._number}: not UTF-8 (zero bytes, as in UTF-16); save the file as UTF-8")
        self.separator = value_of[1] if value_of else max((",", ";", "\t"), key=self._head.count)

    def _decode_lines(self) -> Iterator[str]:
        for line in self._lines:
            self._number += 1
            try:
                yield line.removeprefix(_BOM if self._number == 1 else b"").decode()
            except UnicodeDecodeError as error:
                what = f"not UTF-8 (byte {error.start + 1} of the line)"
                raise ConfigError(f"{self._path}:{self._number}: {what}; save the file as UTF-8") from None

    def rows(self) -> Rows:
        """The rows by the names in the head. Raises ConfigError by file and line where it is no CSV file, or its head
        is none."""
        with _long_fields():
            rows = csv.reader(chain([self._head], self._texts), delimiter=self.separator, strict=True)
            names: list[str] = []
            while True:
                begin = self._number + 1 if names else max(self._number, 1)
                try:
                    row = next(rows, None)
                except csv.Error as error:
                    raise self._wrong(error, begin) from None
                if row is None:
                    return
                if not names and row:
                    names = _names(self._path, row, self.separator)
                elif names and len(row) == len(names):
                    yield begin, dict(zip(names, row, strict=True))
                elif names and row:
                    self._leave(f"has {len(row)} fields instead of {len(names)}", begin)

    def _wrong(self, error: csv.Error, begin: int) -> ConfigError:
        """The error for what is no row. begin: the line where it begins."""
        where = f"{self._path}:{self._number}"
        if "new-line character" in str(error):  # Python's advice is for those who open files in programs
            return ConfigError(
                f"{where}: a line ends in a carriage return alone, as old programs for the Mac write it; save the file "
                "as CSV with UTF-8"
            )
        return ConfigError(f"{where}: not a CSV file ({error}; the field begins at line {begin} or after it)")


def _names(path: Path, row: Sequence[str], separator: str) -> list[str]:
    """The names of the columns."""
    files.refuse_columns(f"{path}:1", len(row))
    names = [name.strip() for name in row]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"{path}:1: two columns are called {twice[0]!r:.80}; rename one")
    if len(names) < 2:
        shown = {",": "commas", ";": "semicolons", "\t": "tabs"}.get(separator, repr(separator))
        raise ConfigError(f"{path}:1: has one column ({names[0]!r:.80}) between {shown}; expected a head of several")
    return names


@contextlib.contextmanager
def _long_fields() -> Iterator[None]:
    """Let fields of a CSV file be as long as a line may be."""
    before = csv.field_size_limit(min(files.LONGEST_LINE, sys.maxsize))
    try:
        yield
    finally:
        csv.field_size_limit(before)


def check_head(path: Path) -> None:
    """Raise ConfigError for a spreadsheet of too many columns, or one that is compressed: Polars would unpack it to any
    length."""
    with files.open_own(path) as file:
        if file.peek(4).startswith(_COMPRESSED):
            raise ConfigError(f"{path}: is compressed; unpack it first")
        head = next((line for line in files.read_lines(file, path) if line.strip()), b"")
    files.refuse_columns(path, head.count(b",") + 1)


def check_lines(path: Path) -> None:
    """Raise ConfigError for JSON lines that would keep Polars busy: with too many columns, or values within others."""
    names = set[str]()
    with files.open_own(path) as file:
        for number, line in enumerate(files.read_lines(file, path), 1):
            try:
                row = files.load_json(line) if line.strip() else {}
            except orjson.JSONDecodeError as error:
                raise ConfigError(f"{path}:{number}: not JSON ({error.msg}); expected a JSON object a line") from None
            if not isinstance(row, dict):
                continue
            for name, value in row.items():
                if type(value) is dict or (type(value) is list and any(isinstance(one, list | dict) for one in value)):
                    where = f"{path}:{number}: column {name!r:.80}"
                    raise ConfigError(f"{where} holds values within others; expected texts, numbers or true and false")
            names.update(row)
            files.refuse_columns(path, len(names))
