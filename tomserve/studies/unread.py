"""Replies that could not be read: the column `unread` beside an accuracy in the terminal, and the replies themselves.

>>> shares = pl.DataFrame({"class": ["all"] * 2, "strategy": ["a", "b"], "unread": [0, 7]})
>>> with_unread(pl.DataFrame({"class": ["all"], "a": [".50"], "b": [".10"]}), shares, "class")["unread"].to_list()
['0 / 7']
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import polars as pl

from tomserve.scoring.responses import ItemFile, ResponseFile
from tomserve.scoring.score import sample_of
from tomserve.studies.rows import answered, unreadable, with_columns

ABOUT = (
    "unread: replies that could not be read, which count as wrong, so that a low share may say how the model writes "
    "rather than what it knows; `tomserve runs RUN --unread` lists them."
)
"""What a reader of the column must know."""


def with_unread(cells: pl.DataFrame, shares: pl.DataFrame, key: str) -> pl.DataFrame:
    """A table of cells for the terminal with a further column, unread: the replies of each row that could not be read,
    for each strategy in turn where their numbers differ.

    cells: a row for each value of the column `key`. shares: rows of accuracy with that column and `unread`. The table
    stays as it is where every reply was read, or where nobody counted.
    """
    if "unread" not in shares.columns or not shares["unread"].sum():
        return cells
    records = [
        {key: name, "unread": _each(part["unread"].to_list())}
        for (name,), part in shares.group_by([key], maintain_order=True)
    ]
    return cells.join(pl.DataFrame(records), on=key, how="left", maintain_order="left")


def _each(counts: Sequence[int | None]) -> str:
    """The counts of the strategies: once where all are alike."""
    shown = [str(count or 0) for count in counts]
    return " / ".join(shown if len(set(shown)) > 1 else shown[:1])


class Unread(NamedTuple):
    """A reply that could not be read, as a score table names it.

    item, strategy, model: whose reply it is. status: "invalid", or "length" for one that was cut off. reason: why no
    answer was found. sample: which of several replies to one question the score describes, from 0. text: the reply;
    None where only its score is at hand.
    """

    item: str
    strategy: str
    model: str
    status: str
    reason: str
    sample: int = 0
    text: str | None = None


class Listed(NamedTuple):
    """The first replies of a source that could not be read. unread: how many there are in all. replies: how many
    replies came, be they readable or not."""

    shown: list[Unread]
    unread: int
    replies: int


_NAMES = ("item", "strategy", "model", "status", "reason")
_TYPES = {**dict.fromkeys(_NAMES, pl.String), "sample": pl.Int64, "answer": pl.String, "correct": pl.Boolean}


def listed(
    scores: pl.DataFrame, count: int, known: ItemFile | None = None, found: ResponseFile | None = None
) -> Listed:
    """The first replies of a score table that could not be read, at most `count`.

    scores: the table. known, found: the items and the responses that it was made from, where they are at hand, so that
    the texts can be told.
    """
    rows = with_columns(scores.lazy(), _TYPES)
    table = rows.select(*_NAMES, "sample", unread=unreadable(), came=answered() | unreadable()).collect()
    unread = table.filter("unread")
    first = unread.head(count).select(*_NAMES, "sample")
    empty: dict[str, Any] = {**dict.fromkeys(_NAMES, ""), "sample": 0}
    shown = [
        Unread(**{name: empty[name] if value is None else value for name, value in row.items()})
        for row in first.iter_rows(named=True)
    ]
    if known is not None and found is not None:
        texts = dict(_texts(known, found, shown))
        shown = [one._replace(text=texts.get((*one[:3], one.sample))) for one in shown]
    return Listed(shown, unread.height, int(table["came"].sum()))


def _texts(
    known: ItemFile, found: ResponseFile, wanted: Sequence[Unread]
) -> Iterator[tuple[tuple[str, str, str, int], str]]:
    """The texts of the replies to these items, each with its item, strategy, model and sample."""
    places = {place for one in wanted if (place := known.place(one.item)) is not None}
    for place, row in found.rows(places):
        yield (known.ids[place], row["strategy"], row["model"], sample_of(row)), row.get("text") or ""
