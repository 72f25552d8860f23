"""Read files that may come from somebody else, within bounds: small files of JSON as a whole, others line by line.

A file of a run folder may be a hole of a terabyte, which takes no room on the disk and all of the memory; or a line
without an end. What is longer than any file or line of tomserve is refused by name before it is held in memory.

>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     path = Path(folder) / "rows.jsonl"
...     _ = path.write_bytes(b"one\\ntwo")
...     with path.open("rb") as file:
...         list(lines(file, path))
[b'one\\n', b'two']
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

import orjson

from tomserve.content import files
from tomserve.errors import ConfigError

LONGEST = 1 << 26
"""The most bytes of a line, and of a file of JSON. A reply of a hundred thousand tokens has half a megabyte."""

HOLE = 1 << 30
"""A file of fewer bytes is read even where it is a hole. A file system that compresses keeps text in a tenth."""


def lines(file: IO[bytes], path: Path) -> Iterator[bytes]:
    """The lines of an open file, with their ends.

    path: for messages. Raises ConfigError by file and line for one that is longer than LONGEST.
    """
    for number, line in enumerate(iter(partial(file.readline, LONGEST + 1), b""), 1):
        if len(line) > LONGEST:
            raise too_long(path, number)
        yield line


def too_long(path: Path, number: int) -> ConfigError:
    """The error for a line that is longer than LONGEST."""
    return ConfigError(
        f"{path}:{number}: this line has more than {LONGEST >> 20} MB; expected one JSON object on each line, so "
        "restore the file"
    )


def refuse_hole(path: Path) -> None:
    """Raise ConfigError for a long file of which almost nothing was ever written, so that reading it takes for ever."""
    try:
        status = path.lstat()
    except OSError:
        return
    if status.st_size > HOLE and status.st_blocks * 512 * 100 < status.st_size:
        raise ConfigError(
            f"{path}: is {status.st_size >> 20:,} MB long, of which {status.st_blocks * 512 >> 10:,} kB were ever "
            "written; restore the file"
        )


def json(path: Path, way_out: str) -> Any:
    """What a small file of JSON holds.

    way_out: what to do about a broken one. Raises ConfigError by file and line where it is no JSON, too long, or a
    link, a pipe or the like; FileNotFoundError where it is missing, and OSError where it cannot be read.
    """
    with files.reading(path) as file:
        text = file.read(LONGEST + 1)
    if len(text) > LONGEST:
        raise ConfigError(f"{path}: has more than {LONGEST >> 20} MB; expected a small file of JSON; {way_out}")
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"{path}:{error.lineno}: not JSON ({error.msg}); {way_out}") from None
