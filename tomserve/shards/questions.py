"""The items of several runs as one file, sorted by their ids as the items of every run are."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from tomserve.content import files
from tomserve.content.compact_index import FirstPlaces
from tomserve.content.files import one_line, open_for_reading
from tomserve.errors import ConfigError, RunMismatchError
from tomserve.items import line_id


class Gathered(NamedTuple):
    """The items of several runs. ids: their ids, numbered in order. shared: how many of them several files hold."""

    ids: FirstPlaces
    shared: int


def gather(paths: Sequence[Path], out: IO[bytes]) -> Gathered:
    """Write the items of several files to one, each once; the files are read side by side, line by line.

    Raises ConfigError, by file and line, for a line that is no item or does not follow the one before it, and
    RunMismatchError where two files hold different items of one id.
    """
    ids, shared, before = FirstPlaces(), 0, None
    for key, which, number, line in heapq.merge(*(_lines(path, which) for which, path in enumerate(paths))):
        if before is not None and before[0] == key:
            shared += before[1] != which
            if before[3] != line:
                raise RunMismatchError(
                    f"{paths[which]}:{number}: item {one_line(key.decode())[:100]!r} is another one than in "
                    f"{paths[before[1]]}:{before[2]}; merge only runs that ask the same items"
                )
            continue
        ids.add(key.decode(), len(ids))
        out.write(line)
        before = (key, which, number, line)
    return Gathered(ids, shared)


def _lines(path: Path, which: int) -> Iterator[tuple[bytes, int, int, bytes]]:
    """The items of a file: the bytes of the id, the number of the file, that of the line, and the line."""
    last = b""
    try:
        with open_for_reading(path) as file:
            for number, line in enumerate(files.read_lines(file, path), 1):
                name = line_id(path, number, line).encode()
                if name <= last and number > 1:
                    raise ConfigError(
                        f"{path}:{number}: item {one_line(name.decode())[:100]!r} does not come after the one before "
                        "it; expected items sorted by id, each once, as tomserve writes them, so restore the file"
                    )
                last = name
                yield name, which, number, line if line.endswith(b"\n") else line + b"\n"
    except FileNotFoundError:
        return  # nothing was asked of that run yet
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
