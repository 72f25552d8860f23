"""Items to look at: those of a benchmark, of a file among the content, or of a run, in pages and one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tomserve import benchmarks
from tomserve.content.paths import roots
from tomserve.errors import ConfigError, one_of
from tomserve.items import EVERY, Item
from tomserve.web import computing, itemindex
from tomserve.web.itemindex import FACTOR, lines_of
from tomserve.web.people import Person
from tomserve.web.register import Register

SIZE = 50
"""How many items a page has."""

VALUES = 24
"""A factor with more values is a name rather than a condition, and no list to choose from."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where items come from. benchmark: its name, "" for a run or a file alone. gold: which set of right answers
    counts. path: a file or folder below a content folder that the benchmark reads, such as dataset/mine.jsonl. run: the
    name of a run whose own items are looked at."""

    benchmark: str = ""
    gold: str = ""
    path: str = ""
    run: str = ""


@dataclass(frozen=True, slots=True)
class Wish:
    """Which items are wanted. where: conditions factor=value. text: what id, story or question holds, whatever the size
    of letters. page: from 1."""

    where: tuple[str, ...] = ()
    text: str = ""
    page: int = 1


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of items. items: those of the page. total: how many there are; matched: how many of them are wanted.
    pages: how many pages these take. factors: the values of each factor that has few, in their order. names: all
    factors."""

    items: tuple[Item, ...]
    total: int
    matched: int
    page: int
    pages: int
    factors: dict[str, tuple[str, ...]]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """One item, its place among those that are wanted (from 1), how many these are, and the ids beside it."""

    item: Item
    place: int
    matched: int
    before: str | None
    after: str | None


def index(source: Source, register: Register, person: Person) -> Path | None:
    """The index of the items of a source; None where it is being made.

    Raises ConfigError where there is no such source, or its items cannot be read; NoSuchRunError for a run that the
    person may not see.
    """
    if source.run:
        file = register.line(source.run, person).folder / "items.jsonl"
        wish = itemindex.wish("", "", file.absolute())
    else:
        if source.benchmark not in benchmarks.names():
            raise ConfigError(one_of("benchmark", source.benchmark, benchmarks.names()))
        path = content_path(source.path) if source.path else None
        wish = itemindex.wish(source.benchmark, source.gold, path)
    if (found := computing.beside().wanted(wish)) is None:
        return None
    if found.error:
        raise ConfigError(found.error)
    return found.folder / itemindex.TABLE


def content_path(text: str) -> Path:
    """The file or folder of data with that path below a content folder; no link leads out of it. Raises ConfigError for
    any other."""
    for root in roots():
        folder = (root / "dataset").resolve()
        path = (root / text).resolve()
        if path.is_relative_to(folder) and path.exists():
            return path
    raise ConfigError(
        f"{text}: is no file below dataset/ of the content folders; put the file there, or ask it by "
        "`tomserve eval` and look at the items of that run"
    )


def listed(found: Path, wish: Wish) -> Listing:
    """A page of the items in an index. Raises ConfigError for a condition of another form and for an unknown factor."""
    table = pl.scan_parquet(found)
    columns = table.collect_schema().names()
    names = tuple(name.removeprefix(FACTOR) for name in columns if name.startswith(FACTOR))
    total = int(table.select(pl.len()).collect().item())
    places = _places(table, wish, names)
    pages = max(1, -(-len(places) // SIZE))
    page = min(max(1, wish.page), pages)
    shown = places[SIZE * (page - 1) : SIZE * page]
    counted = table.select(pl.col(f"{FACTOR}{name}").drop_nulls().unique().implode() for name in names).collect()
    factors = {
        name: tuple(sorted(values, key=_natural))
        for name in names
        if 1 < len(values := counted[f"{FACTOR}{name}"][0].to_list()) <= VALUES
    }
    return Listing(_items(found, table, shown), total, len(places), page, pages, factors, names)


def _natural(value: str) -> tuple[float, str]:
    return (float(value), "") if value.isdecimal() else (float("inf"), value)


def one(found: Path, name: str, wish: Wish | None = None) -> Found:
    """The item of that id, among those that are wanted where it is one of them. Raises ConfigError where there is none,
    and as `listed` does."""
    table = pl.scan_parquet(found)
    columns = table.collect_schema().names()
    names = tuple(column.removeprefix(FACTOR) for column in columns if column.startswith(FACTOR))
    here = table.with_row_index("place").filter(pl.col("id") == name).select("place").collect()
    if here.is_empty():
        raise ConfigError(f"there is no item {name!r:.320} here")
    own = int(here["place"][0])
    places = _places(table, wish or Wish(), names)
    at = places.index(own) if own in places else None
    if at is None:
        return Found(_items(found, table, [own])[0], 0, len(places), None, None)
    around = [places[at - 1] if at else None, places[at + 1] if at + 1 < len(places) else None]
    ids = [None if place is None else str(table.slice(place, 1).select("id").collect().item()) for place in around]
    return Found(_items(found, table, [own])[0], at + 1, len(places), *ids)


def _places(table: pl.LazyFrame, wish: Wish, names: Sequence[str]) -> list[int]:
    """The places of the items that are wanted, in their order."""
    chosen = table.with_row_index("place")
    for condition in wish.where:
        if condition == EVERY or not condition.strip():
            continue
        name, equals, value = condition.partition("=")
        if not equals:
            raise ConfigError(f"{condition!r:.200}: expected factor=value, or {EVERY} for every item")
        if name not in names:
            raise ConfigError(one_of("factor", name, names))
        values = [value, *(() if ", " in value else value.split(","))]
        chosen = chosen.filter(pl.col(f"{FACTOR}{name}").is_in(values))
    if wish.text:
        wanted = wish.text.lower()
        held = [
            pl.col(name).str.to_lowercase().str.contains(wanted, literal=True) for name in ("id", "question", "story")
        ]
        chosen = chosen.filter(pl.any_horizontal(held))
    return [int(place) for place in chosen.select("place").collect()["place"]]


def _items(found: Path, table: pl.LazyFrame, places: Sequence[int]) -> tuple[Item, ...]:
    """The items at these places."""
    if not places:
        return ()
    begins = table.select("begin").collect()["begin"].gather(list(places)).to_list()
    items = []
    with lines_of(found).open("rb") as file:
        for begin in begins:
            file.seek(begin)
            items.append(Item.from_json(file.readline()))
    return tuple(items)
