"""The score of one response: its place in the design, the standard metrics, those of its benchmark, and its noise.

>>> from tomserve.items import Gold, Item
>>> item = Item(id="q", story=["The box holds tea."], question="What is in the box?", choices=["tea", "salt"],
...             answer="tea")
>>> score_row("run", "model", item, {"strategy": "vanilla", "status": "ok", "text": "Answer: tea"})["correct"]
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from tomserve.items import Item
from tomserve.items.automaton import Automaton
from tomserve.scoring.answers import Reading, read
from tomserve.scoring.labels import Lettered
from tomserve.scoring.metric import NO_REPLY, PLAIN, Kind, Scoring, columns_of, computed
from tomserve.scoring.standard import STANDARD
from tomserve.status import ANSWERS, INVALID, OK, inert

COLUMNS: dict[str, Kind] = {
    **dict.fromkeys(("run", "model", "benchmark", "item", "cluster", "strategy"), pl.String),
    **columns_of(STANDARD),
    **{f"noise_{name}": pl.List(pl.Int64) for name in ("compared", "failed", "text", "answer", "chain", "correct")},
}
"""Columns of the score table before the design factors: what identifies a row, the standard metrics, and those that
begin with noise_. These list the numbers of requests in flight at which the question was asked again: where the reply
can be compared, where none came, and where its text, its answer, its chain, and whether it is right are not what they
were; null for none."""

ITEM_COLUMNS = frozenset(("benchmark", "item", "cluster", *columns_of(metric for metric in STANDARD if metric.of_item)))
"""Those that belong to the item, whatever was answered."""

_NOTHING: dict[str, Any] = {name: None for name in COLUMNS if name not in ITEM_COLUMNS}
_OF_REPLIES = tuple(metric.compute for metric in STANDARD if not metric.of_item)
_OF_ITEMS = tuple(metric.compute for metric in STANDARD if metric.of_item)


def score_row(
    run: str,
    model: str,
    item: Item,
    row: Mapping[str, Any],
    chain_asked: bool = False,
    others: Sequence[Automaton] = (),
    scoring: Scoring = PLAIN,
) -> dict[str, Any]:
    """What one response scores (data contract: Score), without the columns of `item_fields` and `noise_fields`.

    chain_asked: whether the reply was to hold a belief chain. others: the rationales of other questions about the same
    story, to tell whose belief a wrong one is. scoring: what the item's benchmark adds.
    """
    reading = _reading(item, row, scoring.lettered)
    status = inert(row["status"])
    if reading.answer is None and status == OK:
        status = INVALID
    reading = Reading(
        reading.parse,
        reading.answer,
        reading.reason or row.get("error"),
        reading.chain,
        reading.chain_reason,
        reading.stated,
        status,
        row.get("text") or "",
        chain_asked,
        tuple(others),
    )
    scored: dict[str, Any] = {**_NOTHING, "run": run, "model": model, "strategy": row["strategy"]}
    for compute in _OF_REPLIES:
        scored.update(compute(item, reading))
    if scoring.metrics and row["status"] in ANSWERS:
        for metric in scoring.metrics:
            if not metric.of_item:
                scored.update(computed(metric, item, reading))
    return scored


def _reading(item: Item, row: Mapping[str, Any], lettered: bool) -> Reading:
    if row["status"] not in ANSWERS:
        return NO_REPLY
    return read(row.get("text") or "", Lettered(item.choices) if lettered else item.choices, len(item.story))


def noise_fields(
    item: Item, row: Mapping[str, Any], again: Sequence[tuple[int, Mapping[str, Any]]], lettered: bool = False
) -> dict[str, list[int]]:
    """Where the replies to the same request differ from the response that is scored, as the columns noise_.

    again: these replies, each with how many requests were in flight. One that repeats another's reply, to an equal
    prompt, tells nothing of its own, and one to another request is none to this.
    """
    if row["status"] not in ANSWERS:
        return {}
    reading = _reading(item, row, lettered)
    found: dict[str, list[int]] = {}
    for level, other in again:
        if other.get("key") != row.get("key") or other.get("reused"):
            continue
        if other["status"] not in ANSWERS:
            found.setdefault("noise_failed", []).append(level)
            continue
        second = _reading(item, other, lettered)
        changes = {
            "compared": True,
            "text": (other.get("text") or "") != (row.get("text") or ""),
            "answer": second.answer != reading.answer,
            "chain": second.chain != reading.chain,
            "correct": (second.answer == item.answer) != (reading.answer == item.answer),
        }
        for name, changed in changes.items():
            if changed:
                found.setdefault(f"noise_{name}", []).append(level)
    return found


def item_fields(item: Item, scoring: Scoring = PLAIN) -> dict[str, Any]:
    """The columns that belong to the item, whatever was answered: benchmark, cluster, floors, factors, and what its
    benchmark adds."""
    fields: dict[str, Any] = {"benchmark": item.benchmark, "item": item.id, "cluster": item.cluster}
    for compute in _OF_ITEMS:
        fields.update(compute(item, NO_REPLY))
    fields.update(item.factors)
    for metric in scoring.metrics:
        if metric.of_item:
            fields.update(computed(metric, item, NO_REPLY))
    return fields
