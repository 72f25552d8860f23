"""The verdicts of the study of worlds: whether a model follows minds, and not only words or the world."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from tomserve.studies import baselines
from tomserve.studies.showing import BAD, GOOD, OPEN, Card, Context, Tables, Verdict
from tomserve.studies.verdicts import EFFECT, by_model, holds, lead, reasoning_helps
from tomserve.studies.words import percent, points, readable, sign


def verdicts(tables: Tables, context: Context) -> Sequence[Verdict]:
    """For each model: its shares beside chance and the best rule, whether a belief is followed where it is false, and
    whether step-by-step reasoning helps.

    tables: by name. context: what a guesser scores.
    """
    found = []
    for model, own in by_model(tables):
        rules = own[baselines.TABLE].filter(family="all") if holds(own, baselines.TABLE, "family") else None
        lines = lead(own["accuracy"], context.chance.get("all"), rules)
        effects = own.get("prompting_effects", pl.DataFrame())
        cards = [*_follows(own)]
        if holds(own, "prompting_effects", EFFECT):
            cards.append(reasoning_helps(effects))
        found.append(Verdict(model, lines, tuple(cards)))
    return found


def _follows(own: dict[str, pl.DataFrame]) -> Iterator[Card]:
    """Whether what is right with true beliefs is right with false ones, too."""
    frame = own.get("false_minus_true")
    if frame is None or frame.is_empty():
        return
    signs, grounds = [], []
    joint = own.get("joint", pl.DataFrame())
    for row in frame.iter_rows(named=True):
        signs.append(sign(row))
        text = (
            f"{percent(row['share_treated'])} right where the belief is false, {percent(row['share_control'])} where "
            f"it is true; {points(row)}"
        )
        both = joint.filter(strategy=row["strategy"], family="all") if joint.height else joint
        if both.height:
            text += (
                f"; both tellings right: {percent(both['joint'][0])}, by two blind guesses {percent(both['chance'][0])}"
            )
        grounds.append((readable(row["strategy"]), f"{text}."))
    verdict, tone = "As often as where the belief is true, as far as can be seen", OPEN
    if all(one < 0 for one in signs):
        verdict, tone = "No: less often than where the belief is true", BAD
    elif all(one > 0 for one in signs):
        verdict, tone = "Yes, even more often than where the belief is true", GOOD
    elif any(signs):
        verdict = "It depends on the strategy"
    remark = (
        "Compared are questions of the same worlds about what people believe, intend or do: those about somebody who "
        "believes something false, and those about somebody who believes something true. Whoever answers with what is "
        "really so has the one wrong and the other right."
    )
    yield Card("Is a belief followed where it is false?", verdict, tone, tuple(grounds), remark)
