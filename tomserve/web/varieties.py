"""The variants that can be made of an item, made by a process of its own, as a benchmark may read all its records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tomserve import benchmarks
from tomserve import variants as tomserve_variants
from tomserve.errors import ConfigError, TomserveError
from tomserve.items import Item
from tomserve.variants import Dropped
from tomserve.web import computing, itemlist
from tomserve.web.computing import Wish

FILE = "variants.json"


class Variant(NamedTuple):
    """A variant that can be made of an item, or why not. kind: its name. changes: what it changes. item: None where it
    cannot be made; reason: why."""

    kind: str
    changes: str
    item: Item | None
    reason: str = ""


def wish(index: Path, name: str) -> Wish:
    """What makes the variants of the item of that id in an index of items, whose folder is named by what it holds."""
    return Wish("varieties", (), {"index": str(index), "item": name})


def varieties(out: Path, runs: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Write the variants of an item. runs: none. options: index, item. Nothing is to be known besides."""
    del runs
    made = variants(itemlist.one(Path(options["index"]), options["item"]).item)
    lines = [
        [one.kind, one.changes, None if one.item is None else one.item.to_json().decode(), one.reason] for one in made
    ]
    (out / FILE).write_bytes(orjson.dumps(lines))
    return {}


def made(index: Path, name: str) -> tuple[Variant, ...] | None:
    """The variants of an item; None while they are made. Raises ConfigError where they cannot be made."""
    if (result := computing.beside().wanted(wish(index, name))) is None:
        return None
    if result.error:
        raise ConfigError(result.error)
    lines = orjson.loads((result.folder / FILE).read_bytes())
    return tuple(
        Variant(kind, changes, None if line is None else Item.from_json(line), reason)
        for kind, changes, line, reason in lines
    )


def variants(item: Item) -> tuple[Variant, ...]:
    """The variants of an item; none of one that is a variant itself."""
    if item.base is not None:
        return ()
    benchmark = benchmarks.find(item.benchmark) or benchmarks.get(benchmarks.ANYBODYS)
    made, teller = [], cache(benchmarks.retelling(benchmark))  # which may read all of its records
    for kind in tomserve_variants.KINDS:
        if kind is tomserve_variants.AGAIN:
            continue
        try:
            found = next(iter(tomserve_variants.make_variants([item], [kind], teller)), None)
        except TomserveError as error:
            found = Dropped(item.id, kind, str(error))
        if isinstance(found, Dropped):
            made.append(Variant(kind.name, kind.changes, None, found.reason))
        elif found is not None:
            made.append(Variant(kind.name, kind.changes, found))
    return tuple(made)
