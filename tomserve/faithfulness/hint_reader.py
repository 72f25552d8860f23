"""A second model as judge of whether chains of thought speak of a hint, and what that judge is worth.

Rules miss admissions in words of their own. A judge reads the chain of every answer that followed a wrong hint. Beside
them, without knowing it, it reads chains of known truth: those of ``prompts/hints/chains.yaml``, which were written by
hand to speak of a hint or not to (its recall), and the model's own chains of the run, before which no hint stood (its
false alarms).
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import polars as pl

from tomserve import content
from tomserve.content.validation import load_yaml
from tomserve.faithfulness.second_models import name_shown
from tomserve.faithfulness.source_run import Chain
from tomserve.faithfulness.table import HINT, LABELS, NEUTRAL, NO, PLACES, READING, WRONG, YES
from tomserve.items import Item
from tomserve.runs.cost import Figure
from tomserve.runs.grader import excerpt

STRATEGY = "hint_reader"
"""The strategy whose prompt is sent (see prompts/hint_reader)."""

HAND_WRITTEN = "hand-written"
"""How the names of chains begin that were written by hand."""

OWN_CHAINS = 100
"""So many chains without a hint are read for each kind of hint, at most."""


class ChainToRead(NamedTuple):
    """A chain, as a row of the table without the answer, and what the judge is shown of it."""

    row: Mapping[str, Any]
    shown: Item


@cache
def hand_written() -> Mapping[str, Any]:
    """The chains of known truth: ``questions`` and ``hinted`` by story, and by part the chains of each wrong hint,
    which admit it (``admits``) or do not (``silent``): pairs of a story and a text."""
    found: Mapping[str, Any] = load_yaml(content.require("prompts/hints/chains.yaml"))[0]
    return found


def hand_written_chains(condition: str) -> Iterator[tuple[str, str, str]]:
    """The story, the text and the truth (YES or NO) of every chain about that hint."""
    for part in hand_written().values():
        for kind, chains in (part.get(condition) or {}).items():
            for story, text in chains:
                yield story, text, YES if kind == "admits" else NO


def chains_to_read(table: pl.DataFrame) -> list[ChainToRead]:
    """What a judge reads of a measured table: the chains in prose of answers that followed a wrong hint and were others
    in the run; own chains without a hint, up to OWN_CHAINS for each kind of hint; and all that were written by hand."""
    found: list[ChainToRead] = []
    hinted = table.filter(pl.col("kind") == HINT, pl.col("admits").is_not_null())
    for _, rows in hinted.group_by("benchmark", "asked_by", maintain_order=True):
        for place in PLACES:
            found += _of_place(rows.filter(pl.col("condition") == f"{place}_{WRONG}"), place)
    return found


def _of_place(rows: pl.DataFrame, place: str) -> Iterator[ChainToRead]:
    wrong = f"{place}_{WRONG}"
    followed = rows.filter(
        pl.col("answer") == pl.col("implied"), pl.col("own").is_null() | (pl.col("own") != pl.col("implied"))
    )
    for row in followed.iter_rows(named=True):
        yield _to_read(row, wrong, None, row["edited"], row["question"], row["implied"])
    for row in rows.head(OWN_CHAINS).iter_rows(named=True):
        yield _to_read(row, f"{place}_{NEUTRAL}", NO, row["written"], row["question"], row["implied"])
    if rows.height:
        first = {**rows.row(0, named=True), "cluster": HAND_WRITTEN, "unit": HAND_WRITTEN}
        known = hand_written()
        for number, (story, text, truth) in enumerate(hand_written_chains(wrong), 1):
            named = {**first, "item": f"{HAND_WRITTEN}/{number}"}
            yield _to_read(named, wrong, truth, text, known["questions"][story], known["hinted"][story])


def _to_read(
    row: Mapping[str, Any], condition: str, truth: str | None, text: str, question: str, label: str
) -> ChainToRead:
    kept = {name: row[name] for name in ("run", "model", "benchmark", "item", "cluster", "unit", "asked_by", "form")}
    made = {**kept, "kind": READING, "condition": condition, "right": truth, "choices": 2, "edited": text}
    story, factors = excerpt(text), {"hint": condition.partition("_")[0], "label": label}
    name = name_shown(story, question, *factors.values())  # so that equal ones are asked once
    shown = Item(id=name, story=story, question=question, choices=(YES, NO), answer=NO, factors=factors)
    return ChainToRead({**made, "question": question}, shown)


def count_readings(chains: Sequence[Chain]) -> Figure:
    """How many chains a judge reads at most. chains: those that are edited."""
    prose = [chain for chain in chains if chain.written.form != LABELS]
    known = sum(1 for place in PLACES for _ in hand_written_chains(f"{place}_{WRONG}")) if prose else 0
    most = known + len(PLACES) * (len(prose) + min(OWN_CHAINS, len(prose)))
    why = f"{known:,} written by hand, and as many of this model as follow a hint, and without one"
    return Figure("chains read for hints", most, "requests", f"at most {most:,}", why, ("--reader", "--limit"))
