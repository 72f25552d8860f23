"""Score one response: the standard metrics, those of its benchmark, and how it differs when it is asked again.

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
from tomserve.scoring import graded
from tomserve.scoring.answers import Reading, read
from tomserve.scoring.choices import PARSE, Choices
from tomserve.scoring.labels import Lettered
from tomserve.scoring.lettering import choices_of
from tomserve.scoring.metric import NO_REPLY, PLAIN, Kind, Scoring, columns_of, computed, ruled
from tomserve.scoring.standard import STANDARD
from tomserve.scoring.thoughts import CUT
from tomserve.status import ANSWERS, INVALID, OK, inert

COLUMNS: dict[str, Kind] = {
    **dict.fromkeys(("run", "model", "benchmark", "item", "cluster", "strategy"), pl.String),
    **columns_of(STANDARD),
    **{f"noise_{name}": pl.List(pl.Int64) for name in ("compared", "failed", "text", "answer", "chain", "correct")},
}
"""Columns of the score table before the design factors: what identifies a row, the standard metrics, and the columns of
the noise check, which begin with noise_. Each of these lists numbers of requests in flight at which the question was
asked again: noise_compared where a reply came, noise_failed where none came, and the others where the text, the answer,
the chain, or whether the answer is right differed from the scored reply. Where none did, they are null."""

PARTIAL: dict[str, Kind] = {"questions_given": pl.Int64}
"""The column that a score table has only where another tool's replies answer some of the questions: how many questions
there were to be answered, the same in every row."""

ITEM_COLUMNS = frozenset(("benchmark", "item", "cluster", *columns_of(metric for metric in STANDARD if metric.of_item)))
"""The columns whose values belong to the item, whatever was answered."""

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
    *,
    reader: Choices | None = None,
) -> dict[str, Any]:
    """The values of one row of the score table, without those of `item_fields` and `noise_fields`.

    run, model: their names. item: the question. row: the response, with `strategy`, `status` and `text`. chain_asked:
    whether the strategy asked for a chain of beliefs; then a missing one scores 0. others: the compiled rationales of
    other questions about the same story, which tell whether a wrong belief is another person's. scoring: what the
    item's benchmark adds. reader: the choices of a model that has read what the rules could not. Raises ConfigError or
    ContentError where a metric of the benchmark fails.
    """
    reading = reading_of(item, row, scoring.lettered)
    status = inert(row["status"])
    if reader is not None and unread(row, reading) and (choice := reader.choice(item, row)):
        reading = reading._replace(parse=PARSE, answer=choice, reason=None)
    grade = graded.grade_of(row) if row["status"] in ANSWERS else None
    if grade is not None and grade.counts:
        reason = grade.unread or (None if grade.correct is not None else "not graded by the tool that asked")
        reading = reading._replace(parse=None if reason else graded.PARSE, answer=grade.answer, reason=reason)
        status = INVALID if reason else status
    elif reading.answer is None and status == OK:
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
        reading.offered,
    )
    scored: dict[str, Any] = {**_NOTHING, "run": run, "model": model, "strategy": row["strategy"]}
    for compute in _OF_REPLIES:
        scored.update(compute(item, reading))
    if grade is not None and grade.counts:
        scored["correct"] = bool(grade.correct)
    if scoring.metrics and row["status"] in ANSWERS:
        for metric in scoring.metrics:
            if not metric.of_item:
                scored.update(computed(metric, item, reading))
    return scored


def unread(row: Mapping[str, Any], reading: Reading) -> bool:
    """Whether a response is a whole reply in which the rules found no answer: what a model may then read. A reply to an
    open question is not, nor one whose grade by another tool counts."""
    if row["status"] != OK or reading.answer is not None or reading is OPEN:
        return False
    return (grade := graded.grade_of(row)) is None or not grade.counts


def reading_of(item: Item, row: Mapping[str, Any], lettered: bool) -> Reading:
    """What the text of a response says; nothing where its status is that of a failure."""
    if row["status"] not in ANSWERS:
        return NO_REPLY
    if not item.choices:
        return OPEN
    text, whole = row.get("text") or "", row["status"] == OK
    if row.get("reasoning") and not text.strip():
        return Reading(None, None, ONLY_THOUGHTS if whole else CUT)
    choices = choices_of(item, row, lettered)
    found = read(text, choices, len(item.story), item.question, whole)
    return found._replace(offered=choices.offered) if isinstance(choices, Lettered) else found


ONLY_THOUGHTS = "the reply has no text: the server put everything into its reasoning"
"""Why a whole reply says nothing: its tokens were spent on thinking, or the server's parser took the answer for a part
of it."""

OPEN = Reading(None, None, "an open question, which only the tool that asked it can read")
"""What our rules read of a reply to an open question: nothing."""


def noise_fields(
    item: Item, row: Mapping[str, Any], again: Sequence[tuple[int, Mapping[str, Any]]], lettered: bool = False
) -> dict[str, list[int]]:
    """The columns noise_: where replies to the same request differ from the response that is scored.

    again: these replies, each with the number of requests in flight when it was asked. A reply that was copied from an
    equal prompt's is left out, and so is a reply to another request. lettered: as in Scoring.
    """
    if row["status"] not in ANSWERS:
        return {}
    reading = reading_of(item, row, lettered)
    found: dict[str, list[int]] = {}
    for level, other in again:
        if other.get("key") != row.get("key") or other.get("reused"):
            continue
        if other["status"] not in ANSWERS:
            found.setdefault("noise_failed", []).append(level)
            continue
        second = reading_of(item, other, lettered)
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
    """The values of the columns that belong to the item, whatever was answered.

    They are its names, what chains that know nothing of the story would score, which simple rules answer it right, its
    design factors, and what its benchmark adds.
    """
    fields: dict[str, Any] = {"benchmark": item.benchmark, "item": item.id, "cluster": item.cluster}
    for compute in _OF_ITEMS:
        fields.update(compute(item, NO_REPLY))
    fields.update(item.factors)
    for metric in scoring.metrics:
        if metric.of_item:
            fields.update(computed(metric, item, NO_REPLY))
    fields.update(ruled(scoring.rules, item))
    return fields
