"""The items of a benchmark in two files, made once by a process of its own, so that any page of them is there at once.

``items.jsonl`` holds the items; ``items.parquet`` tells of each where its line begins, and what people filter by.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from tomserve import benchmarks
from tomserve.content.paths import roots
from tomserve.errors import ConfigError
from tomserve.items import Item, read_items
from tomserve.web.computing import Wish

TABLE = "items.parquet"
FACTOR = "factor:"
"""How the columns of factors begin."""

MOST = 5_000_000
"""How many items are indexed at most."""


def lines_of(index: Path) -> Path:
    """The file of the items' lines that belongs to a table."""
    return index.with_suffix(".jsonl")


def wish(benchmark: str, gold: str, file: Path | None) -> Wish:
    """What makes the index of a benchmark's items, or of those in a file.

    benchmark: its name, "" where only the file is read, which then holds items of any. The content of the files decides
    that items may come from.
    """
    options = {"benchmark": benchmark, "gold": gold, "file": str(file or "")}
    return Wish("items", (), options, sources=tuple(_sources(benchmark, file)))


def _sources(benchmark: str, file: Path | None) -> Iterator[Path]:
    """The files that items may come from: all data of the content folders, and the one that is named."""
    if file is not None:
        yield file
        yield from sorted(file.rglob("*"))[:10_000] if file.is_dir() else ()
    if benchmark:
        for root in roots():
            yield from sorted((root / "dataset").rglob("*"))


def items(out: Path, runs: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Write the index of items. runs: none. options: benchmark, gold, file. Nothing is to be
    known besides.

    Raises ConfigError where the items cannot be read, OSError where the files cannot be written.
    """
    del runs
    benchmark, gold, file = options["benchmark"], options["gold"], options["file"]
    path = out / TABLE
    source: Iterable[Item]
    if benchmark:
        source = benchmarks.get(benchmark).items(Path(file) if file else None, gold or None, benchmarks.ALL)
    else:
        source = read_items(Path(file))
    columns: dict[str, list[Any]] = {name: [] for name in ("id", "benchmark", "cluster", "question", "story", "base")}
    factors: dict[str, dict[int, str]] = {}
    begins = array("Q")
    with lines_of(path).open("wb") as lines:
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
    made.write_parquet(path, compression="lz4", row_group_size=10_000)
    return {}


_SCHEMA = {**dict.fromkeys(("id", "benchmark", "cluster", "question", "story", "base"), pl.String), "begin": pl.UInt64}


def written(value: object) -> str:
    """A factor's value as conditions write it."""
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
