"""Pages through the answers of a run, by the index that was made of them (see tomserve.web.answerindex).

>>> page_of(Path("runs/example"), Filters.read({"outcome": "wrong"}))                          # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import polars as pl

from tomserve.errors import ConfigError
from tomserve.web import computing
from tomserve.web.answerindex import ANSWERS, ITEMS, RANK, SEARCHED, SHOWN
from tomserve.web.computing import Result

SIZE = 50
"""Answers on a page."""

MOST_SEARCHED = 200 << 20
"""Bytes of texts that are searched while somebody waits, which takes about a quarter of a second."""

SORTS = {"item": "place", **{name: f"{RANK}{name}" for name in ("strategy", "outcome", "status", "answer")},
         "break": "chain_break", "sample": "sample"}  # fmt: skip
"""What one can sort by, each with its column."""

_PLAIN = ("strategy", "model", "status", "outcome", "chain")
_LONGEST = 300
"""Characters that a filter may have."""

NONE = "(none)"
"""What a filter says for rows without a value."""


@dataclass(frozen=True)
class Filters:
    """Which answers are wanted, and in which order.

    strategy, model, status: names, "" for all. outcome: "right", "wrong", "none" (no answer could be read) or "sample"
    (a further sample, which another one stands for). chain: "proper", "broken", "unread" or "(none)". item: a part of
    the item's id. text: words that the story, the question or the reply holds. factors: values of design factors.
    sort: one of SORTS; down: the other way round. page: from 1.
    """

    strategy: str = ""
    model: str = ""
    status: str = ""
    outcome: str = ""
    chain: str = ""
    item: str = ""
    text: str = ""
    factors: tuple[tuple[str, str], ...] = ()
    sort: str = "item"
    down: bool = False
    page: int = 1

    @classmethod
    def read(cls, given: Mapping[str, str]) -> Filters:
        """The filters of an address; what is no filter is passed over. Factors are called ``f.NAME``."""
        texts = {name: given.get(name, "")[:_LONGEST].strip() for name in (*_PLAIN, "item", "text")}
        factors = tuple(
            (name.removeprefix("f.")[:_LONGEST], value[:_LONGEST])
            for name, value in sorted(given.items())
            if name.startswith("f.") and value
        )
        page = given.get("page", "1")
        return cls(
            **texts,
            factors=factors[:50],
            sort=given.get("sort", "item") if given.get("sort") in SORTS else "item",
            down=given.get("down") == "1",
            page=min(max(int(page), 1), 10**7) if page.isascii() and page.isdigit() and len(page) < 9 else 1,
        )

    def query(self, **changes: Any) -> str:
        """The filters as the query of an address, without those that say nothing; changes: fields with other values."""
        new = replace(self, **changes)
        pairs = [(name, _text(new, name)) for name in (*_PLAIN, "item", "text")]
        pairs += [(f"f.{name}", value) for name, value in new.factors]
        pairs += [("sort", new.sort if new.sort != "item" else ""), ("down", "1" if new.down else "")]
        pairs += [("page", str(new.page) if new.page > 1 else "")]
        return urlencode([(name, value) for name, value in pairs if value])

    @property
    def chosen(self) -> int:
        """How many filters say something."""
        return sum(bool(_text(self, name)) for name in (*_PLAIN, "item", "text")) + len(self.factors)


def _text(filters: Filters, name: str) -> str:
    return str(vars(filters)[name])


@dataclass(frozen=True)
class Page:
    """A page of answers.

    rows: the answers, each with the columns of the index and `shown`, the beginning of the reply. total: how many
    answers the filters leave. page, pages: which of how many. about: what the index says of all (counts by value).
    unsearched: why the texts were not searched, "" where they were or nobody wanted it.
    """

    rows: tuple[Mapping[str, Any], ...]
    total: int
    page: int
    pages: int
    about: Mapping[str, Any] = field(default_factory=dict)
    unsearched: str = ""


def index_of(run: Path) -> Result | None:
    """The index of a run's answers; None while it is made. An error of it is in the result."""
    return computing.wanted("answers", run)


def page_of(run: Path, filters: Filters, size: int = SIZE) -> Page | None:
    """A page of the answers of a run; None while its index is made.

    run: its folder, which the register has found. Raises ConfigError where the run has no answers to page through.
    """
    if (index := index_of(run)) is None:
        return None
    if index.error:
        raise ConfigError(index.error)
    table = opened(index.folder / ANSWERS)
    places, unsearched = _places(table, filters, index)
    pages = max(1, -(-places.len() // size))
    page = min(filters.page, pages)
    chosen = places.slice((page - 1) * size, size)
    rows = _rows(table, chosen.to_list())
    return Page(tuple(rows), places.len(), page, pages, index.facts, unsearched)


def neighbours(run: Path, filters: Filters, place: int) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """The answers before and after the one at that place of the index, among those that the filters leave."""
    index = index_of(run)
    if index is None or index.error:
        return None, None
    table = opened(index.folder / ANSWERS)
    places, _ = _places(table, filters, index)
    at = (places == place).arg_true()
    if not at.len():
        return None, None
    here = int(at[0])
    near = [places[one] if 0 <= one < places.len() else None for one in (here - 1, here + 1)]
    found = {row["place"]: row for row in _rows(table, [one for one in near if one is not None])}
    before, after = (None if one is None else found[one] for one in near)
    return before, after


def opened(path: Path) -> pl.LazyFrame:
    """A table of an index, of which only what is needed is read from the disk."""
    return pl.scan_parquet(path, glob=False)


def _rows(table: pl.LazyFrame, places: Sequence[int]) -> Sequence[Mapping[str, Any]]:
    """The answers at these places of the index, in this order."""
    shown = pl.col("reply").str.slice(0, SHOWN).alias("shown")
    long = (pl.col("reply").str.len_chars() > SHOWN).alias("long")
    left_out = ("reply", *(name for name in table.collect_schema().names() if name.startswith(RANK)))
    found = table.filter(pl.col("place").is_in(list(places))).with_columns(shown, long).drop(left_out).collect()
    rows = {row["place"]: row for row in found.iter_rows(named=True)}
    return [rows[place] for place in places]


def _places(table: pl.LazyFrame, filters: Filters, index: Result) -> tuple[pl.Series, str]:
    """The places of the answers that the filters leave, in order, and why texts were not searched, if they were not."""
    frame, unsearched = _filtered(table, filters, index)
    columns = dict.fromkeys(("place", SORTS[filters.sort]))
    return _ordered(frame.select(*columns), filters).collect()["place"], unsearched


def _ordered(frame: pl.LazyFrame, filters: Filters) -> pl.LazyFrame:
    if filters.sort == "item":
        return frame.reverse() if filters.down else frame
    # The rows stand in the order of their places. To keep it is a quarter of the work of sorting by place as well.
    return frame.sort(SORTS[filters.sort], descending=filters.down, nulls_last=True, maintain_order=True)


def _filtered(frame: pl.LazyFrame, filters: Filters, index: Result) -> tuple[pl.LazyFrame, str]:
    """The rows that the filters leave, and why texts were not searched, if they were not."""
    known = set(frame.collect_schema().names())
    for name in _PLAIN:
        if value := _text(filters, name):
            frame = frame.filter(_is(name, value))
    for name, value in filters.factors:
        column = f"factor:{name}"
        frame = frame.filter(_is(column, value) if column in known else pl.lit(False))
    if filters.item:
        frame = frame.filter(_holds("item", filters.item))
    if not filters.text:
        return frame, ""
    items = opened(index.folder / ITEMS)
    size = int(index.facts.get("characters") or 0) + (index.folder / ITEMS).stat().st_size
    if size > MOST_SEARCHED:
        said = (
            f"The texts of this run have {size >> 20:,} MB, which takes too long to search here, so that the words were"
            " not looked for. The ids of items can be searched."
        )
        return frame, said
    told = items.filter(_holds("words", filters.text)).select("item").collect()["item"]
    return frame.filter(_holds("reply", filters.text) | pl.col("item").is_in(told.implode())), ""


def _is(column: str, value: str) -> pl.Expr:
    return pl.col(column).is_null() if value == NONE else pl.col(column).cast(pl.String) == value


def _holds(column: str, words: str) -> pl.Expr:
    """Whether a column holds these words, whatever the case of their letters from a to z."""
    return pl.col(column).str.contains_any([words], ascii_case_insensitive=True).fill_null(False)


SEARCHES = f"The first {SEARCHED:,} characters of each reply are searched, and all of the stories and questions."
