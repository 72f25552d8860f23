"""The score of one response: what was answered, whether it is right, and everything about its belief chain.

>>> from tomserve.items import Gold, Item
>>> item = Item(id="q", story=["The box holds tea."], question="What is in the box?", choices=["tea", "salt"],
...             answer="tea")
>>> score_row("run", "model", item, {"strategy": "vanilla", "status": "ok", "text": "Answer: tea"})["correct"]
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import polars as pl

from tomserve import benchmarks
from tomserve.items import Gold, Item
from tomserve.items.automaton import Automaton
from tomserve.scoring.answers import Reading, read
from tomserve.scoring.chains import ChainScore, path_proper, score_chain
from tomserve.scoring.labels import Lettered
from tomserve.scoring.sentences import MISSING, Judgement, judge

READABLE = ("ok", "length")
"""Statuses whose text is read; a complete answer in a text that was cut off counts."""

STATUS = r"ok|length|refusal|timeout|connection|malformed|unfinished|invalid|http_[1-5][0-9]{2}"
"""What a status may be, as a regular expression: what the transport saw, or "invalid" where ok text has no answer."""

UNKNOWN = "unknown"

FLOORS = ("first", "answer", UNKNOWN)
"""Chains that know nothing of the story, as long as it: a copied run of the first gold belief, the constant answer,
always unknown. What they score is what a metric gives away."""

FLOOR_METRICS = ("lcs", "lcps", "transitions", "sentence_accuracy")

COLUMNS: dict[str, pl.DataType | type[pl.DataType]] = {
    "run": pl.String,
    "model": pl.String,
    "benchmark": pl.String,
    "item": pl.String,
    "cluster": pl.String,
    "strategy": pl.String,
    "status": pl.String,
    "parse": pl.String,
    "reason": pl.String,
    "answer": pl.String,
    "correct": pl.Boolean,
    "chain": pl.List(pl.String),
    "chain_reason": pl.String,
    "chain_proper": pl.Boolean,
    "chain_lcs": pl.Float64,
    "chain_lcps": pl.Float64,
    "chain_transitions": pl.Float64,
    "chain_transitions_distinct": pl.Float64,
    "chain_sentence_accuracy": pl.Float64,
    "chain_change_f1": pl.Float64,
    "chain_path_proper": pl.Boolean,
    "chain_last_correct": pl.Boolean,
    "chain_length": pl.Int64,
    "answer_matches_last": pl.Boolean,
    "chain_sentences": pl.List(pl.Int64),
    "chain_verdicts": pl.List(pl.String),
    "chain_break": pl.Int64,
    "chain_break_kind": pl.String,
    **{f"floor_{floor}_{metric}": pl.Float64 for floor in FLOORS for metric in FLOOR_METRICS},
    **{f"noise_{name}": pl.List(pl.Int64) for name in ("compared", "failed", "text", "answer", "chain", "correct")},
}
"""Columns of the score table, before the design factors. Those that begin with chain_ are null where no chain was
asked for; a chain that was asked for and could not be read is not proper and scores 0. Those that begin with noise_
list the numbers of requests in flight at which the question was asked again: where the reply can be compared, where
none came, and where its text, its answer, its chain, and whether it is right are not what they were; null for none."""

ITEM_COLUMNS = frozenset(("benchmark", "item", "cluster", *(name for name in COLUMNS if name.startswith("floor_"))))
"""Those that belong to the item, whatever was answered."""

_NOTHING: dict[str, Any] = {name: None for name in COLUMNS if name not in ITEM_COLUMNS}


def score_row(
    run: str,
    model: str,
    item: Item,
    row: Mapping[str, Any],
    chain_asked: bool = False,
    others: Sequence[Automaton] = (),
    again: Sequence[tuple[int, Mapping[str, Any]]] = (),
) -> dict[str, Any]:
    """What one response scores (data contract: Score), without the columns of `item_fields`.

    others: the rationales of other questions about the same story, to tell whose belief a wrong one is. again: replies
    to the same request, each with how many were in flight (see tomserve.runs.reasking).
    """
    status = row["status"]
    reading = _reading(item, row)
    if reading.answer is None and status == "ok":
        status = "invalid"
    scored: dict[str, Any] = {
        **_NOTHING,
        "run": run,
        "model": model,
        "strategy": row["strategy"],
        "status": status,
        "parse": reading.parse,
        "reason": reading.reason or row.get("error"),
        "answer": reading.answer,
        "correct": reading.answer == item.answer,
    }
    if reading.chain is not None:
        last = reading.chain[-1][1]
        scored["chain"] = [label for _, label in reading.chain]
        scored["chain_length"] = len(reading.chain)
        scored["answer_matches_last"] = None if reading.answer is None else reading.answer == last
        scored["chain_last_correct"] = last == item.answer
    scored["chain_reason"] = reading.chain_reason
    if reading.stated is not None:
        scored["chain_sentences"] = [number for number, _ in reading.stated]
    if item.gold is not None and (chain_asked or reading.chain is not None or reading.chain_reason is not None):
        scored.update(_chain_fields(automaton(item.gold), reading, others))
    if again and row["status"] in READABLE:
        scored.update(_noise_fields(item, row, reading, again))
    return scored


def _reading(item: Item, row: Mapping[str, Any]) -> Reading:
    if row["status"] not in READABLE:
        return Reading(None, None)
    choices = Lettered(item.choices) if benchmarks.lettered(item.benchmark) else item.choices
    return read(row.get("text") or "", choices, len(item.story))


def _noise_fields(
    item: Item, row: Mapping[str, Any], reading: Reading, again: Sequence[tuple[int, Mapping[str, Any]]]
) -> dict[str, list[int] | None]:
    """Where the replies to the same request differ. One that repeats another's reply, to an equal prompt, tells nothing
    of its own, and one to another request is none to this."""
    found: dict[str, list[int]] = {}
    for level, other in again:
        if other.get("key") != row.get("key") or other.get("reused"):
            continue
        if other["status"] not in READABLE:
            found.setdefault("failed", []).append(level)
            continue
        second = _reading(item, other)
        changes = {
            "compared": True,
            "text": (other.get("text") or "") != (row.get("text") or ""),
            "answer": second.answer != reading.answer,
            "chain": second.chain != reading.chain,
            "correct": (second.answer == item.answer) != (reading.answer == item.answer),
        }
        for name, changed in changes.items():
            if changed:
                found.setdefault(name, []).append(level)
    return {f"noise_{name}": levels for name, levels in found.items()}


def item_fields(item: Item) -> dict[str, Any]:
    """The columns that belong to the item, whatever was answered: benchmark, cluster, floors, factors, and what its
    benchmark adds."""
    fields: dict[str, Any] = {"benchmark": item.benchmark, "item": item.id, "cluster": item.cluster}
    if item.gold is not None:
        fields.update(_floors(automaton(item.gold), item.answer, UNKNOWN in item.choices))
    return {**fields, **item.factors, **benchmarks.score_columns(item)}


def _chain_fields(gold: Automaton, reading: Reading, others: Sequence[Automaton]) -> dict[str, Any]:
    score, path, judgement = _scored(gold, reading.stated or (), reading.chain is not None, tuple(others))
    kind, place = None, judgement.first_break
    if not score.proper:
        # A chain that cannot be read breaks where it names what is no label, or nowhere in particular.
        unreadable = reading.chain is None
        if unreadable and "out_of_vocabulary" in judgement.verdicts:
            place = judgement.verdicts.index("out_of_vocabulary")
        elif unreadable:
            place = None
        kind = MISSING if place is None else judgement.verdicts[place]
    return {
        "chain_proper": score.proper,
        "chain_lcs": score.lcs,
        "chain_lcps": score.lcps,
        "chain_transitions": score.transitions,
        "chain_transitions_distinct": score.transitions_distinct,
        "chain_path_proper": path,
        "chain_sentence_accuracy": judgement.accuracy if reading.chain is not None else 0.0,
        "chain_change_f1": judgement.change_f1 if reading.chain is not None else 0.0,
        "chain_length": len(reading.chain or ()),
        "chain_verdicts": list(judgement.verdicts) if reading.stated else None,
        "chain_break": place + 1 if kind is not None and place is not None else None,
        "chain_break_kind": kind,
    }


@lru_cache(maxsize=8192)
def automaton(gold: Gold) -> Automaton:
    """The compiled rationale; equal ones are compiled once."""
    return gold.automaton()


@lru_cache(maxsize=65536)
def _scored(
    gold: Automaton, stated: tuple[tuple[int, str | None], ...], readable: bool, others: tuple[Automaton, ...]
) -> tuple[ChainScore, bool, Judgement]:
    """Equal (gold, chain) pairs are computed once: models repeat themselves."""
    chain = [label for _, label in stated if label is not None] if readable else []
    return score_chain(gold, chain), path_proper(gold, chain), judge(gold, stated, others)


@lru_cache(maxsize=8192)
def _floors(gold: Automaton, answer: str, unknown: bool) -> dict[str, float | None]:
    """What knowing nothing scores (see FLOORS); null for "unknown" where that is no label."""
    first = max(sorted(gold.labels[0]), key=lambda label: score_chain(gold, [label] * len(gold.labels)).lcs)
    found: dict[str, float | None] = {}
    for floor, label in zip(FLOORS, (first, answer, UNKNOWN if unknown else None), strict=True):
        for metric in FLOOR_METRICS:
            found[f"floor_{floor}_{metric}"] = None
        if label is not None:
            length = len(gold.labels)
            score = score_chain(gold, [label] * length)
            accuracy = judge(gold, [(t + 1, label) for t in range(length)]).accuracy
            values = (score.lcs, score.lcps, score.transitions, accuracy)
            found.update(
                {f"floor_{floor}_{metric}": value for metric, value in zip(FLOOR_METRICS, values, strict=True)}
            )
    return found
