"""Pairs the questions of an edition that was told anew with the questions that they were made from.

An item that was made of another one names it by the factor `base`, which is a column of the score table. Two tables
that share no item are compared by what their items were made from.

>>> released = pl.DataFrame({"item": ["a", "b"]})
>>> fresh = pl.DataFrame({"item": ["a/fresh-7", "b/fresh-7"], "base": ["a", "b"], "fresh": [7, 7]})
>>> tables, caption = matched([released, fresh], ["old", "new"])
>>> tables[1]["item"].to_list(), caption[:33]
(['a', 'b'], "B tells A's questions anew: each ")
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tomserve.errors import ConfigError

BASE = "base"
"""The factor that names the item that an item was made from."""

FRESH = "fresh"
"""The factor of items whose story was told anew: the seed of that edition."""

_MEANING = (
    "A model that has the released stories by heart, and answers from memory, is right less often where they are told "
    "anew. Such a gap is a sign of that and no proof: other names and words can make a story harder or easier by "
    "themselves. A model that cannot have seen either edition shows what they do: tomserve's embedded reference model "
    "is one, since it was trained on neither, so that it has nothing to remember and cannot show a gap from memory. No "
    "gap is no proof of the contrary: a model that has learned how such stories usually end answers both alike."
)


def matched(tables: Sequence[pl.DataFrame], sources: Sequence[str]) -> tuple[list[pl.DataFrame], str | None]:
    """The score tables of A and B with items that pair, and a caption that says how; None where they pair by their ids.

    tables: those of A and of B. sources: what they are called, for messages. Where the two share no item and items of
    one or both name a `base`, that takes the place of the item. Raises ConfigError for a table that has several items
    with one base, since it would not be clear which of them to compare.
    """
    made = [_names(table, BASE) for table in tables]
    shared = set(tables[0]["item"].unique()) & set(tables[1]["item"].unique())
    if shared or not any(made):
        return list(tables), None
    paired = [
        _renamed(table, source) if fresh else table for table, source, fresh in zip(tables, sources, made, strict=True)
    ]
    anew = all(_names(table, FRESH) for table, fresh in zip(tables, made, strict=True) if fresh)
    return paired, _caption(made, anew)


def _names(table: pl.DataFrame, factor: str) -> bool:
    """Whether items of the table have this factor."""
    return factor in table.columns and table[factor].null_count() < table.height


def _renamed(table: pl.DataFrame, source: str) -> pl.DataFrame:
    """The table with each item called by its base."""
    base = pl.coalesce(pl.col(BASE).cast(pl.String), "item")
    several = table.select(base=base, item="item").group_by("base").agg(pl.col("item").unique().sort()).sort("base")
    for name, made in several.filter(pl.col("item").list.len() > 1).iter_rows():
        raise ConfigError(
            f"{source}: the items {made[0]!r} and {made[1]!r} are both made from {name!r}, so that it is not clear "
            "which to compare; give each edition as a run or table of its own"
        )
    return table.with_columns(item=base)


def _caption(made: Sequence[bool], anew: bool) -> str:
    """How the questions pair and, where they were told anew, what a gap means. made: whether those of A and of B were
    made from others."""
    if not anew:
        return "The questions of A and of B were made from the same items, or from one another, and pair by these."
    if all(made):
        return (
            "A and B tell the same questions in two ways, and each question of B is compared with the one of A that "
            "was made from the same item. A difference shows what other names and words do by themselves."
        )
    fresh, released = ("B", "A") if made[1] else ("A", "B")
    return f"{fresh} tells {released}'s questions anew: each is compared with the one that it was made from. {_MEANING}"
