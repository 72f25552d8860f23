"""The verdicts of the study of BigToM: whether both beliefs of a template are followed, and what false ones cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from tomserve.studies import baselines
from tomserve.studies.showing import BAD, GOOD, OPEN, Card, Context, Tables, Verdict
from tomserve.studies.verdicts import EFFECT, by_model, holds, lead, reasoning_helps
from tomserve.studies.words import percent, points, readable, sign

PLAIN = ("vanilla", "bigtom_0shot")
"""Strategies that ask for the answer alone."""

DESIRE = "backward_desire"
"""The task that is not usable, and on which no verdict rests."""


def verdicts(tables: Tables, context: Context) -> Sequence[Verdict]:
    """For each model: its shares beside chance and the best rule, whether both beliefs of a template are followed, what
    a false belief costs, and whether step-by-step reasoning helps.

    tables: by name. context: what a guesser scores.
    """
    found = []
    for model, own in by_model(tables):
        rules = own[baselines.TABLE].filter(condition="all") if holds(own, baselines.TABLE, "condition") else None
        cards = [*_both(own), *_harder(own)]
        if holds(own, "prompting_effects", EFFECT):
            reasoned = own["prompting_effects"].filter(~pl.col("treatment").is_in(PLAIN))
            cards += [reasoning_helps(reasoned)] if reasoned.height else []
        found.append(Verdict(model, lead(own["accuracy"], context.chance.get("all"), rules), tuple(cards)))
    return found


def _usual(own: dict[str, pl.DataFrame], name: str) -> pl.DataFrame:
    """The rows of a table that the paper reports: of usable tasks, without the initial belief where that was asked."""
    rows = own.get(name, pl.DataFrame())
    if rows.is_empty():
        return rows
    rows = rows.filter(pl.col("task") != DESIRE)
    without = rows.filter(init_belief=0)
    return without if without.height else rows


def _task(row: dict[str, object]) -> str:
    said = ", with the first belief told" if row["init_belief"] else ""
    return f"{readable(row['strategy'])}, {readable(row['task'])}{said}"


_BOTH = {
    frozenset({1}): ("Yes, more often than by chance", GOOD),
    frozenset({-1}): ("No: more seldom than two blind guesses are", BAD),
    frozenset({0}): ("Not shown: no more often than two blind guesses are, as far as can be seen", OPEN),
    frozenset({-1, 0}): ("Not shown: nowhere more often than two blind guesses are", OPEN),
}
"""The verdict by where all intervals lie: above chance (1), below it (-1), or holding it (0)."""


def _both(own: dict[str, pl.DataFrame]) -> Iterator[Card]:
    """Whether templates are right with both beliefs, more often than two blind guesses are."""
    grounds, places = [], set[int]()
    for row in _usual(own, "joint").iter_rows(named=True):
        low, high, chance = row["joint_low"], row["joint_high"], row["chance"]
        places.add(1 if low > chance else -1 if high < chance else 0)
        grounds.append(
            (
                _task(row),
                f"{percent(row['joint'])} of {row['templates']:,} templates right with both, 95% interval "
                f"{percent(low)} to {percent(high)}; two blind guesses: {percent(chance)}; true beliefs "
                f"{percent(row['true_belief'])}, false ones {percent(row['false_belief'])} right.",
            )
        )
    if not grounds:
        return
    verdict, tone = _BOTH.get(frozenset(places), ("It depends on the task or the strategy", OPEN))
    remark = (
        "A template counts only if its question is right where the person noticed the event, and where she did not. "
        "Whoever always answers with the state after the event, or always with the one before it, has no template "
        "right, though half of all questions."
    )
    yield Card("Are the true and the false belief of a template both followed?", verdict, tone, tuple(grounds), remark)


_HARDER = {
    frozenset({-1}): ("Yes: it answers with what is so more readily than with what is believed", BAD),
    frozenset({1}): ("No, true ones are: it leans to the state before the event", BAD),
    frozenset({0}): ("No difference can be seen", OPEN),
    frozenset({-1, 0}): ("In some tasks or strategies", OPEN),
    frozenset({1, 0}): ("No; in some tasks or strategies true ones are", OPEN),
}
"""The verdict by the signs of all differences, false minus true."""


def _harder(own: dict[str, pl.DataFrame]) -> Iterator[Card]:
    """Whether false beliefs are right less often than true ones, in the same templates."""
    frame = _usual(own, "false_minus_true")
    if frame.is_empty():
        return
    signs = [sign(row) for row in frame.iter_rows(named=True)]
    grounds = tuple((_task(row), f"{points(row)}.") for row in frame.iter_rows(named=True))
    verdict, tone = _HARDER.get(frozenset(signs), ("It depends on the task or the strategy", OPEN))
    remark = (
        "The share right where the belief is false minus the share right where it is true, in the same templates, with "
        "the 95% interval over templates. A clear difference in either direction is a leaning to one state of the "
        "world, whatever the person noticed."
    )
    yield Card("Are false beliefs harder than true ones?", verdict, tone, grounds, remark)
