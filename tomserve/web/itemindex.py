"""The items of a benchmark in two files, made once by a process of its own, so that any page of them is there at once.

A file of lines holds the items; a table beside it tells of each where its line begins, and what people filter by.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from tomserve import benchmarks
from tomserve.content import digest, files
from tomserve.content.find import roots
from tomserve.errors import ConfigError
from tomserve.items import Item, read_items
from tomserve.scoring.scorer import SCORER
from tomserve.web.beside import Work, run

MODULE = "tomserve.web.itemindex"
FACTOR = "factor:"
"""How the columns of factors begin."""

MOST = 5_000_000
"""How many items are indexed at most."""


def lines_of(index: Path) -> Path:
    """The file of the items' lines that belongs to a table."""
    return index.with_suffix(".jsonl")


def work(cache: Path, benchmark: str, gold: str, file: Path | None) -> Work:
    """The work that makes the index of a benchmark's items, or of those in a file.

    benchmark: its name, "" where only the file is read, which then holds items of any. The index is named by the code
    that reads items and by the state of the files that they may come from.
    """
    state = [[str(path), *_state(path)] for path in _sources(benchmark, file)]
    name = digest(orjson.dumps([SCORER, benchmark, gold, str(file or ""), state])).removeprefix("sha256:")
    return Work(MODULE, cache / f"items-{name}.parquet", (benchmark, gold, str(file or "")))


def _sources(benchmark: str, file: Path | None) -> Iterator[Path]:
    """The files that items may come from: all data of the content folders, and the one that is named."""
    if file is not None:
        yield file
        yield from sorted(file.rglob("*"))[:10_000] if file.is_dir() else ()
    if benchmark:
        for root in roots():
            yield from sorted((root / "dataset").rglob("*"))


def _state(path: Path) -> tuple[int, ...]:
    try:
        status = path.lstat()
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def make(path: Path, arguments: Sequence[str]) -> None:
    """Write the index of the items that the arguments name. Raises ConfigError where they cannot be read, OSError where
    the files cannot be written."""
    benchmark, gold, file = arguments
    source: Iterable[Item]
    if benchmark:
        source = benchmarks.get(benchmark).items(Path(file) if file else None, gold or None, benchmarks.ALL)
    else:
        source = read_items(Path(file))
    columns: dict[str, list[Any]] = {name: [] for name in ("id", "benchmark", "cluster", "question", "story", "base")}
    factors: dict[str, dict[int, str]] = {}
    begins = array("Q")
    with files.replacing(lines_of(path)) as lines:
        at = 0
        for number, item in enumerate(source):
            if number >= MOST:
                raise ConfigError(f"there are more than {MOST:,} items; give a file of fewer")
            line = item.to_json() + b"\n"
            lines.write(line)
            begins.append(at)
            at += len(line)
            told = (item.id, item.benchmark, item.cluster, item.question, " ".join(item.story), item.base)
            for name, value in zip(columns, told, strict=True):
                columns[name].append(value)
            for name, factor in item.factors.items():
                factors.setdefault(name, {})[number] = written(factor)
    count = len(begins)
    made = pl.DataFrame({**columns, "begin": list(begins)}, schema=_SCHEMA).with_columns(
        pl.Series(f"{FACTOR}{name}", [values.get(place) for place in range(count)], dtype=pl.String)
        for name, values in factors.items()
    )
    with files.replacing(path) as file_:
        made.write_parquet(file_, compression="lz4", row_group_size=10_000)


_SCHEMA = {**dict.fromkeys(("id", "benchmark", "cluster", "question", "story", "base"), pl.String), "begin": pl.UInt64}


def written(value: object) -> str:
    """A factor's value as conditions write it."""
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


if __name__ == "__main__":
    sys.exit(run(make, sys.argv[1:]))
