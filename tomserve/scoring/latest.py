"""Which rows of a file count, for millions of rows in a few bytes each: of each question the latest row, in the order
of a score table.

A row is known by its key, an integer of the place of its item and the number of its arm (model, strategy, sample), and
by its value, an integer of its rank among the rows of one key and of its offset in the file.

>>> latest, repeated = Latest.of(array("Q", [key_of(1, 0), key_of(0, 0), key_of(1, 0)]), array("Q", [0, 70, 150]))
>>> [(place_of(key), value) for key, value in zip(latest.keys, latest.values)], repeated
([(0, 70), (1, 150)], 1)
>>> latest.find(key_of(1, 0)), latest.find(key_of(7, 0))
(150, None)
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Sequence
from typing import NamedTuple

import polars as pl

ARMS = 20
"""How many bits of a key are the number of its arm; the others are the place of its item."""

OFFSET = 48
"""How many bits of a value are the row's offset in its file; the others are its rank."""


def key_of(place: int, arm: int) -> int:
    """The key of a row: of the item at that place, by the arm of that number."""
    return place << ARMS | arm


def place_of(key: int) -> int:
    """The place of the item of a key."""
    return key >> ARMS


def offset_of(value: int) -> int:
    """The offset of the row in its file."""
    return value & ((1 << OFFSET) - 1)


class Ordered(NamedTuple):
    """Rows in the order of a score table.

    keys, values: those of the rows. starts: where in them each question begins, whose rows are its samples, and at last
    their number.
    """

    keys: array[int]
    values: array[int]
    starts: array[int]


class Latest(NamedTuple):
    """The rows that count: their keys, each once and ascending, and the value of each."""

    keys: array[int]
    values: array[int]

    @classmethod
    def of(cls, keys: array[int], values: array[int]) -> tuple[Latest, int]:
        """The row with the highest value of each key; and how many rows came after one of the same key whose rank was
        the same and the highest until then. keys, values: those of all rows, in the order of the file."""
        rows = pl.DataFrame({"key": pl.Series(keys, dtype=pl.UInt64), "value": pl.Series(values, dtype=pl.UInt64)})
        keys, values = array("Q"), array("Q")
        if rows["key"].n_unique() == rows.height:
            return cls(*_arrays(rows.sort("key"), "key", "value")), 0
        rows = rows.sort("key", maintain_order=True)
        rank = pl.col("value") // (1 << OFFSET)
        again = rows.select((rank == rank.cum_max().shift(1).over("key")).sum()).item()
        latest = rows.group_by("key").agg(pl.col("value").max()).sort("key")
        return cls(*_arrays(latest, "key", "value")), again

    def find(self, key: int) -> int | None:
        """The value of a key, None where there is none."""
        at = bisect_left(self.keys, key)
        return self.values[at] if at < len(self.keys) and self.keys[at] == key else None

    def places(self) -> set[int]:
        """The places of the items that have a row."""
        return set((pl.Series(self.keys, dtype=pl.UInt64) // (1 << ARMS)).unique().to_list())

    def ordered(
        self, items: Sequence[int], arms: Sequence[int], questions: Sequence[int], places: Collection[int] | None = None
    ) -> Ordered:
        """The rows in the order of their items and arms.

        items: the rank of the item at each place. arms: the rank of each arm. questions: for each arm the number of
        its question, which arms that differ in the sample alone have in common. places: the places of the items whose
        rows are wanted; None for all.
        """
        rows = pl.DataFrame(
            {"key": pl.Series(self.keys, dtype=pl.UInt64), "value": pl.Series(self.values, dtype=pl.UInt64)}
        )
        rows = rows.with_columns(place=pl.col("key") // (1 << ARMS), arm=pl.col("key") % (1 << ARMS))
        if places is not None:
            rows = rows.filter(pl.col("place").is_in(pl.Series(list(places), dtype=pl.UInt64).implode()))
        rank, turn, question = (pl.Series(found, dtype=pl.UInt64) for found in (items, arms, questions))
        rows = rows.with_columns(rank=rank.gather(rows["place"]), turn=turn.gather(rows["arm"]))
        rows = rows.with_columns(question=question.gather(rows["arm"])).sort("rank", "turn")
        new = (pl.col("rank") != pl.col("rank").shift(1)) | (pl.col("question") != pl.col("question").shift(1))
        starts = rows.select(new.fill_null(True).arg_true().cast(pl.UInt32))["rank"].to_list()
        keys, values = _arrays(rows, "key", "value")
        return Ordered(keys, values, array("I", (*starts, rows.height)))


def _arrays(rows: pl.DataFrame, *columns: str) -> list[array[int]]:
    return [array("Q", rows[column].to_list()) for column in columns]
