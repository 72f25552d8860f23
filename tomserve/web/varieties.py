"""The variants that can be made of an item, made by a process of its own, as a benchmark may read all its records."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tomserve import benchmarks, stability
from tomserve.content import bounded, digest, files
from tomserve.errors import ConfigError, TomserveError
from tomserve.items import Item
from tomserve.stability import Dropped
from tomserve.web import itemlist
from tomserve.web.beside import Work, run

MODULE = "tomserve.web.varieties"


class Variant(NamedTuple):
    """A variant that can be made of an item, or why not. kind: its name. changes: what it changes. item: None where it
    cannot be made; reason: why."""

    kind: str
    changes: str
    item: Item | None
    reason: str = ""


def work(index: Path, name: str) -> Work:
    """The work that makes the variants of the item of that id in an index of items."""
    called = digest(index.name.encode(), name.encode()).removeprefix("sha256:")
    return Work(MODULE, index.with_name(f"variants-{called}.json"), (str(index), name))


def make(path: Path, arguments: Sequence[str]) -> None:
    """Write the variants of the item that the arguments name. Raises OSError where the file cannot be written."""
    index, name = arguments
    made = variants(itemlist.one(Path(index), name).item)
    lines = [
        [one.kind, one.changes, None if one.item is None else one.item.to_json().decode(), one.reason] for one in made
    ]
    with files.replacing(path) as file:
        file.write(orjson.dumps(lines))


def read(path: Path) -> tuple[Variant, ...]:
    """The variants in a file. Raises ConfigError where it holds none."""
    lines: Any = bounded.json(path, "delete it, and it is made anew")
    try:
        return tuple(
            Variant(kind, changes, None if line is None else Item.from_json(line), reason)
            for kind, changes, line, reason in lines
        )
    except (TypeError, ValueError):
        raise ConfigError(f"{path}: holds no variants; delete it, and it is made anew") from None


def variants(item: Item) -> tuple[Variant, ...]:
    """The variants of an item; none of one that is a variant itself."""
    if item.base is not None:
        return ()
    benchmark = benchmarks.known(item.benchmark) or benchmarks.get(benchmarks.ANYBODYS)
    made = []
    for kind in stability.KINDS:
        if kind is stability.AGAIN:
            continue
        try:
            found = next(iter(stability.variants([item], [kind], benchmarks.retelling(benchmark))), None)
        except TomserveError as error:
            found = Dropped(item.id, kind, str(error))
        if isinstance(found, Dropped):
            made.append(Variant(kind.name, kind.changes, None, found.reason))
        elif found is not None:
            made.append(Variant(kind.name, kind.changes, found))
    return tuple(made)


if __name__ == "__main__":
    sys.exit(run(make, sys.argv[1:]))
