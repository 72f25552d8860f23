"""The verdicts of the study of DynToM: whether changes are followed, and by more than finding words again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from tomserve.studies import baselines
from tomserve.studies.showing import BAD, GOOD, OPEN, Card, Context, Tables, Verdict
from tomserve.studies.verdicts import EFFECT, by_model, holds, lead, reasoning_helps
from tomserve.studies.words import interval, percent, readable

_NEEDED = "strategy form accuracy chance best_rule best_rule_accuracy"


def verdicts(tables: Tables, context: Context) -> Sequence[Verdict]:
    """For each model: its shares beside chance and the best rule, whether changes are told by more than their words,
    and whether step-by-step reasoning helps.

    tables: by name. context: what a guesser scores.
    """
    found = []
    for model, own in by_model(tables):
        rules = own[baselines.TABLE].filter(form="all") if holds(own, baselines.TABLE, "form") else None
        cards = [*_follows(own)]
        effects = own.get("prompting_effects", pl.DataFrame())
        if holds(own, "prompting_effects", EFFECT):
            cards.append(reasoning_helps(effects))
        found.append(Verdict(model, lead(own["accuracy"], context.chance.get("all"), rules), tuple(cards)))
    return found


_ANSWERS: dict[int | None, tuple[str, str]] = {
    1: ("Yes, more than its words give away", GOOD),
    -1: ("No: finding its words again has more right", BAD),
    0: ("Not shown: its words give away as much", OPEN),
    None: ("Not tested: no interval beside the words' share", OPEN),
}


def _follows(own: dict[str, pl.DataFrame]) -> Iterator[Card]:
    """Whether changes are told better than by the best rule that follows nobody's mind."""
    if not holds(own, "forms", _NEEDED):
        return
    grounds, places = [], set[int | None]()
    ends = own.get("changes", pl.DataFrame())
    for row in own["forms"].filter(form="whether").iter_rows(named=True):
        if not (beside := baselines.compared(row)):
            continue
        places.add(baselines.place(row))
        text = f"{percent(row['accuracy'])}{interval(row)} right, {beside}; a blind guess has {percent(row['chance'])}"
        both = ends.filter(strategy=row["strategy"], ends_right=2) if ends.height else ends
        if both.height:
            text += f"; where it has the states before and after right: {percent(both['accuracy'][0])}"
        grounds.append((readable(row["strategy"]), f"{text}."))
    if not grounds:
        return
    verdict, tone = _ANSWERS[places.pop()] if len(places) == 1 else ("It depends on the strategy", OPEN)
    remark = (
        "Read off the questions whether a state changes from one scene to the next, and from what to what. Their "
        'options name states of other scenes, so that the scenes\' own words tell which one fits, and "No" is never '
        "right. Whoever is not clearly above the rule has shown nothing that the words do not give away."
    )
    yield Card("Is a change of mind followed?", verdict, tone, tuple(grounds), remark)
