"""The stories of a dataset of perturbed tasks as a reader sees them, each sentence with what it leaves possible.

    tomserve dataset show perturbed C1 late_label false_belief

After every sentence stand the labels that the asked person may believe in, and those that may be so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tomserve.benchmarks.findings import Findings
from tomserve.errors import ConfigError, one_of
from tomserve.items import Item

PLACE = ("stage", "class", "version")
"""What the user names, in this order."""


def shown(items: Iterable[Item], where: Sequence[str]) -> Findings:
    """Every story once, with the labels as they were written: a heading, the question about the belief with its
    choices, and a line for each sentence.

    items: of either edition; both questions of a story are needed. where: a stage, or a stage and a class, or these and
    a version (in the first edition: a scenario); empty for all stories. Raises ConfigError for a name that is not
    there, and for more than three.
    """
    if len(where) > len(PLACE):
        raise ConfigError(f"{where[len(PLACE)]!r}: expected at most a stage, a class and a version")
    stories: dict[tuple[str, ...], dict[str, Item]] = {}
    for item in items:
        if item.factors.get("swapped") is False:
            stories.setdefault(_place(item), {})[str(item.factors["question_kind"])] = item
    for depth, wanted in enumerate(where):
        known = list(dict.fromkeys(place[depth] for place in stories))
        stories = {place: story for place, story in stories.items() if place[depth] == wanted}
        if not stories:
            raise ConfigError(one_of(PLACE[depth], wanted, known))
    sections = {
        _heading(place, story["belief"]): tuple(_lines(story))
        for place, story in stories.items()
        if {"belief", "reality"} <= set(story)
    }
    return Findings(sections=sections)


def _place(item: Item) -> tuple[str, ...]:
    factors = item.factors
    return str(factors["stage"]), str(factors["perturbation"]), str(factors.get("version", factors["scenario"]))


def _heading(place: tuple[str, ...], item: Item) -> str:
    factors = item.factors
    told = [str(one) for one in (factors.get("ground") or factors["scenario"], factors.get("belief_role")) if one]
    if factors.get("twin"):
        told.append(f"twin of {factors['twin']}")
    return f"{'/'.join(place)} ({'; '.join(told)}; asked: {factors['asked']}; answer: {item.answer})"


def _lines(story: dict[str, Item]) -> Iterable[str]:
    belief, reality = story["belief"], story["reality"]
    sets = [item.gold.sets if item.gold is not None else None for item in (belief, reality)]
    yield f"{belief.question} ({', '.join(belief.choices)})"
    for number, sentence in enumerate(belief.story):
        possible = [", ".join(one[number]) if one is not None else "?" for one in sets]
        yield f"{number + 1:2d}. {sentence}  [belief: {possible[0]}; reality: {possible[1]}]"
