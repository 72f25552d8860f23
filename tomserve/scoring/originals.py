"""Score a variant beside its original: what the answer says in the original's choices, and what simple rules would do.

A variant (tomserve.stability) asks what its original asks, perhaps with other choices in another order. Answers to the
two can only be compared in the same words, so the score table gives both answers as choices of the original.

>>> item = Item(id="q", story=["Tea is in the box."], question="What is in the box?", choices=["tea", "salt"],
...             answer="tea")
>>> told = Item(id="q/object", story=["Rice is in the box."], question="What is in the box?", choices=["rice", "oil"],
...             answer="rice", base="q", meanings=["tea", "salt"])
>>> reply_fields(told, item, "oil")
{'original_answer': 'salt', 'original_place': 1}
>>> item_fields(told, item, Scoring())["original_rules_same"][:2]
['rule_first_choice', 'rule_last_choice']
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from tomserve.items import Item
from tomserve.scoring.metric import Kind, Scoring
from tomserve.scoring.rules import GENERIC

ITEM: dict[str, Kind] = {
    "original_item": pl.String,
    "original_rules_same": pl.List(pl.String),
    "original_rules_other": pl.List(pl.String),
}
"""Columns of the item that a score table has only where some items are variants.

original_item: the id of the original, null for a question that is no variant. original_rules_same,
original_rules_other: the columns of rules that follow nobody's belief and answer the variant as they answer the
original, or otherwise; null for what is no variant."""

REPLY: dict[str, Kind] = {"original_answer": pl.String, "original_place": pl.Int64}
"""Columns of the answer that a score table has only where some items are variants.

original_answer: the answer as the choice of the original that it stands for, null where none was read.
original_place: the place of that choice among the original's, from 0."""

Original = Callable[[Item], Item | None]
"""A function that gives the original of a variant: None for what is no variant, and where it is not at hand."""


def item_fields(item: Item, original: Item | None, scoring: Scoring) -> dict[str, Any]:
    """The columns ITEM. original: the item's original, None where it has none at hand. scoring: what the benchmark of
    the item adds to the rules."""
    fields: dict[str, Any] = {"original_item": item.base}
    if original is None:
        return fields
    same: list[str] = []
    other: list[str] = []
    for rule in (*GENERIC, *scoring.rules):
        before, after = rule.answer(original), rule.answer(item)
        if before is not None and after is not None:
            (same if item.meaning(after) == before else other).append(rule.column)
    return {**fields, "original_rules_same": same or None, "original_rules_other": other or None}


def reply_fields(item: Item, original: Item | None, answer: str | None) -> dict[str, Any]:
    """The columns REPLY. original: the item's original, None where it is no variant or the original is not at hand.
    answer: the answer that was read, None where there is none."""
    if answer is None or (item.base is not None and original is None):
        return {}
    meant = item.meaning(answer)
    choices = (original or item).choices
    return {"original_answer": meant, "original_place": choices.index(meant) if meant in choices else None}
