"""Makes the table of a measurement from what was planned and what was replied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from tomserve.engine.records import CLOSES, CONCLUSION
from tomserve.faithfulness import hints, showing
from tomserve.faithfulness.asking import Chains
from tomserve.faithfulness.planned import Planned
from tomserve.faithfulness.source import Chain, Source, lettered_in, read_chain, unit_of
from tomserve.faithfulness.table import EDIT, HINT, LABELS, SCHEMA
from tomserve.items import Item
from tomserve.scoring.score import read_response
from tomserve.status import ANSWERS, INVALID, OK, UNFINISHED, inert

Replies = Mapping[tuple[str, str], Mapping[int, Mapping[str, Any]]]
"""The rows of the model's replies by item and planned name, then by turn."""

Predictions = Mapping[tuple[str, str, str], Mapping[str, Any]]
"""The rows of the predicting model by item, strategy and condition."""


def table(
    source: Source, run: str, planned: Sequence[Planned], chains: Chains, replies: Replies, predictions: Predictions,
    predictor: str | None,
) -> pl.DataFrame:  # fmt: skip
    """The table: a row for everything that was planned.

    source: the run whose chains they are. run: the name of the measurement. chains: those that were edited. replies,
    predictions: the rows of the models. predictor: the name of the second model.
    """
    items = {item.id: item for pairs in source.unreadable.values() for item, _ in pairs}
    named = {"run": run, "model": source.manifest.model}

    def rows() -> Iterator[dict[str, Any]]:
        made = _Hinted()
        for one in planned:
            chain = chains.get((one.item, one.strategy))
            if chain is None:
                yield {**named, **_of_item(items[one.item], one)}
                continue
            row = {**named, **_of_item(chain.item, one), **_of_chain(chain)}
            if one.asked and one.kind == EDIT:
                row |= _edited(chain, one, replies.get((one.item, one.name), {}))
            elif one.asked and one.kind == HINT:
                row |= _hinted(chain, one, made.item(chain, one.condition), replies.get((one.item, one.name), {}))
            elif one.asked:
                row |= {
                    "predictor": predictor,
                    **_predicted(chain, predictions.get((one.item, one.strategy, one.condition))),
                }
            yield row

    columns: dict[str, list[Any]] = {name: [] for name in SCHEMA}
    for row in rows():
        for name, values in columns.items():
            values.append(row.get(name))
    return pl.DataFrame(columns, schema=SCHEMA)


def _of_item(item: Item, one: Planned) -> dict[str, Any]:
    """The columns of the question, and of what was planned about it."""
    return {
        **{"benchmark": item.benchmark, "item": item.id, "cluster": item.cluster or item.id, "unit": unit_of(item)},
        **{"asked_by": one.strategy, "kind": one.kind, "condition": one.condition, "shown": one.shown},
        **{"outcome": one.status, "reason": one.reason, "implied": one.implied, "edited": one.edited},
        **{"right": item.answer, "choices": len(item.choices), "question": item.question},
    }


def _of_chain(chain: Chain) -> dict[str, Any]:
    return {"form": chain.written.form, "own": chain.written.own, "written": chain.written.text}


def _answer(row: Mapping[str, Any] | None, answer: str | None, parse: str | None, reason: str | None) -> dict[str, Any]:
    """The columns of an answer. row: its response, None where none came."""
    if row is None:
        return {"outcome": UNFINISHED, "reason": "it was not asked"}
    status = inert(row["status"])
    told = row.get("usage")
    usage = told if isinstance(told, dict) and not row.get("reused") else {}
    return {
        "outcome": INVALID if status == OK and answer is None else status,
        "answer": answer,
        "parse": parse,
        "reason": reason or row.get("error"),
        "tokens": _whole(usage.get("prompt")),
        "cached": _whole(usage.get("cached")),
    }


def _whole(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 2**31 else None


def _edited(chain: Chain, one: Planned, rows: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    row = rows.get(0)
    if row is None or row["status"] not in ANSWERS:
        return _answer(row, None, None, None)
    found = showing.answer_of(chain, str(one.shown), one.edited or "", row)
    return _answer(row, found.answer, found.parse, found.reason)


def _hinted(chain: Chain, one: Planned, item: Item, rows: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """The columns of a whole reply to a prompt with a hint: its answer, its chain, and whether that admits the hint."""
    strategy = chain.strategy
    last = next((row for _, row in sorted(rows.items(), reverse=True) if CLOSES in row), None)
    row = last if strategy.several else rows.get(0)
    if row is None and rows:  # a conversation that a failure ended
        row = rows[max(rows)]
        row = {**row, "status": UNFINISHED if row["status"] in ANSWERS else row["status"]}
    if row is None or row["status"] not in ANSWERS:
        return _answer(row, None, None, None)
    row = {**row, "text": row.get(CONCLUSION, row.get("text")) or "", "usage": (rows.get(0) or {}).get("usage")}
    found = read_response(item, row, lettered_in(item, strategy))
    written = read_chain(item, strategy, rows)
    if isinstance(written, Chain):
        text = written.written.text
        admits = None if written.written.form == LABELS else hints.admits(item, text, one.condition)
    else:
        text, admits = None, None
    return {**_answer(row, found.answer, found.parse, found.reason), "edited": text, "admits": admits}


def _predicted(chain: Chain, row: Mapping[str, Any] | None) -> dict[str, Any]:
    if row is None or row["status"] not in ANSWERS:
        return _answer(row, None, None, None)
    found = read_response(chain.item, row, False)  # choices are offered to it by their words
    return _answer(row, found.answer, found.parse, found.reason)


class _Hinted:
    """The items as hints show them; those of one chain are made once."""

    def __init__(self) -> None:
        self._chain: Chain | None = None
        self._items: dict[str, Item] = {}

    def item(self, chain: Chain, condition: str) -> Item:
        """The item as it was shown with that hint, whose choices may stand in another order."""
        if self._chain is not chain:
            made = hints.hinted(chain.item, chain.strategy.turn, chain.written.own, lettered=chain.lettered)
            self._chain = chain
            self._items = {one.condition: one.item for one in made if isinstance(one, hints.Hinted)}
        return self._items.get(condition, chain.item)
