"""The standard metrics, which are computed for every benchmark: of the answer, of the chain of beliefs, floors, and
what simple rules answer.

A *floor* is what a chain or a guess scores that knows nothing of the story. To add a metric, add a Metric to STANDARD;
its columns then appear in every table of scores.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import polars as pl

from tomserve.items import UNKNOWN, Gold, Item
from tomserve.items.automaton import Automaton
from tomserve.scoring.answers import Reading
from tomserve.scoring.chains import score_chain
from tomserve.scoring.direct import Compared, Stated, compared
from tomserve.scoring.metric import Metric
from tomserve.scoring.rules import GENERIC
from tomserve.scoring.sentences import MISSING, judge

FLOORS = ("first", "answer", UNKNOWN)
"""Chains that know nothing of the story and repeat one label, as often as the model wrote a belief: the first gold
belief, the right answer, or "unknown". What they score, a model gets for nothing."""

FLOOR_METRICS = ("lcs", "lcps", "transitions", "sentence_accuracy")
"""The metrics of a chain that are computed for the floors as well."""


def _answer(item: Item, reading: Reading) -> dict[str, Any]:
    return {
        "status": reading.status,
        "parse": reading.parse,
        "reason": reading.reason,
        "answer": reading.answer,
        "correct": reading.answer == item.answer,
    }


ANSWER = Metric(
    {
        "status": pl.String,
        "parse": pl.String,
        "reason": pl.String,
        "answer": pl.String,
        "correct": pl.Boolean,
    },
    _answer,
)
"""The metric of the answer: what it is, how it was read or why it could not be, and whether it is right."""


def _chain(item: Item, reading: Reading) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if reading.chain is not None:
        last = reading.chain[-1][1]
        found["chain"] = [label for _, label in reading.chain]
        found["chain_length"] = len(reading.chain)
        found["answer_matches_last"] = None if reading.answer is None else reading.answer == last
        found["chain_last_correct"] = last == item.answer
    elif reading.chain_reason is not None:
        found["chain_reason"] = reading.chain_reason
    elif not reading.chain_asked:
        return found
    if reading.stated is not None:
        found["chain_sentences"] = [number for number, _ in reading.stated]
    if item.gold is not None:
        found.update(_against(_asked(item, reading), reading))
    return found


CHAIN = Metric(
    {
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
    },
    _chain,
)
"""The metrics of the chain of beliefs, compared with the gold rationale. All are null where no chain was asked for and
none was given; a chain that was asked for and could not be read is not proper and scores 0."""


class _Asked:
    """An item with a gold rationale, and what is known of the replies to it: models repeat themselves.

    item: the item. others: the compiled rationales of other questions about its story. gold: its own. unknown: whether
    it offers "unknown".
    """

    def __init__(self, item: Item, others: tuple[Automaton, ...]) -> None:
        assert item.gold is not None
        self.item, self.others, self.gold = item, others, automaton(item.gold)
        self.unknown = UNKNOWN in item.choices
        self._compared: dict[tuple[Stated, bool], Compared] = {}
        self._floors: dict[int, dict[str, float | None]] = {}

    def compared(self, stated: Stated, readable: bool) -> Compared:
        """The metrics of what a reply says (see tomserve.scoring.direct); equal chains are compared once."""
        if (found := self._compared.get((stated, readable))) is None:
            if len(self._compared) >= _REPEATED:
                self._compared.clear()
            found = self._compared[stated, readable] = compared(self.gold, stated, readable, self.others)
        return found

    def floors(self, length: int) -> dict[str, float | None]:
        """The floors of a chain of that length, by column."""
        if (found := self._floors.get(length)) is None:
            found = self._floors[length] = _floors_of(self.gold, self.item.answer, self.unknown, length)
        return found


_REPEATED = 4096
"""How many chains are kept of one item, so that an item that is asked very often needs no more memory."""

_last: _Asked | None = None


def _asked(item: Item, reading: Reading) -> _Asked:
    """The item with what is known of it, of which only the last is kept: rows are scored in the order of their items,
    so that what repeats itself comes soon, and looking up a rationale takes about as long as comparing a chain."""
    global _last
    if (found := _last) is None or found.item is not item or found.others is not reading.others:
        _last = found = _Asked(item, reading.others)
    return found


def _against(asked: _Asked, reading: Reading) -> dict[str, Any]:
    """The chain metrics of a reading against the gold rationale of an item, by column."""
    readable = reading.chain is not None
    score, path, judgement = asked.compared(reading.stated or (), readable)
    kind, place = None, judgement.first_break
    if not score.proper:
        # A chain that cannot be read breaks where it names what is no label, else at no sentence in particular.
        if not readable and "out_of_vocabulary" in judgement.verdicts:
            place = judgement.verdicts.index("out_of_vocabulary")
        elif not readable:
            place = None
        kind = MISSING if place is None else judgement.verdicts[place]
    return {
        "chain_proper": score.proper,
        "chain_lcs": score.lcs,
        "chain_lcps": score.lcps,
        "chain_transitions": score.transitions,
        "chain_transitions_distinct": score.transitions_distinct,
        "chain_path_proper": path,
        "chain_sentence_accuracy": judgement.accuracy if readable else 0.0,
        "chain_change_f1": judgement.change_f1 if readable else 0.0,
        "chain_length": len(reading.chain or ()),
        "chain_verdicts": list(judgement.verdicts) if reading.stated else None,
        "chain_break": place + 1 if kind is not None and place is not None else None,
        "chain_break_kind": kind,
    }


@lru_cache(maxsize=8192)
def automaton(gold: Gold) -> Automaton:
    """The compiled gold rationale; equal ones are compiled once."""
    return gold.automaton()


def _floors(item: Item, reading: Reading) -> dict[str, float | None]:
    """A precision depends on how long a chain is, so that a floor is as long as the chain that it stands beside."""
    if item.gold is None:
        return {}
    asked = _asked(item, reading)
    return asked.floors(len(reading.chain) if reading.chain else len(asked.gold.labels))


FLOOR = Metric({f"floor_{floor}_{metric}": pl.Float64 for floor in FLOORS for metric in FLOOR_METRICS}, _floors)
"""The metrics of the floors: what the chains of FLOORS score against the item's gold. They are null without gold, and
those of "unknown" where that is no label of the item."""


@lru_cache(maxsize=8192)
def _floors_of(gold: Automaton, answer: str, unknown: bool, length: int) -> dict[str, float | None]:
    first = max(sorted(gold.labels[0]), key=lambda label: score_chain(gold, [label] * length).lcs)
    found: dict[str, float | None] = {}
    for floor, label in zip(FLOORS, (first, answer, UNKNOWN if unknown else None), strict=True):
        if label is None:
            continue
        score = score_chain(gold, [label] * length)
        accuracy = judge(gold, [(1, label)]).accuracy  # without further beliefs it holds to the end
        values = (score.lcs, score.lcps, score.transitions, accuracy)
        found |= {f"floor_{floor}_{metric}": value for metric, value in zip(FLOOR_METRICS, values, strict=True)}
    return found


def _ruled(item: Item, reading: Reading) -> dict[str, bool | None]:
    del reading  # what a rule answers does not depend on a reply
    if not item.choices:
        return {}  # rules choose among choices
    right = item.answer
    return {column: None if (label := answer(item)) is None else label == right for column, answer in _RULES}


_RULES = tuple((rule.column, rule.answer) for rule in GENERIC)

RULED = Metric({rule.column: pl.Boolean for rule in GENERIC}, _ruled, of_item=True)
"""The metrics of the rules that need nothing but the item (see tomserve.scoring.rules): whether the answer of each is
right, and null where it says nothing of the item."""


def _guessed(item: Item, reading: Reading) -> dict[str, float | None]:
    del reading  # what a guess scores does not depend on a reply
    return {} if not item.choices else {"floor_guess": 1 / len(item.choices)}


GUESSED = Metric({"floor_guess": pl.Float64}, _guessed, of_item=True)
"""The share right of somebody who picks one of the item's choices blindly, from 0 to 1: the chance that a study
corrects an accuracy for, since items of one table may offer different numbers of choices."""

STANDARD = (ANSWER, CHAIN, FLOOR, RULED, GUESSED)
"""The metrics of every score table, in the order of their columns."""
