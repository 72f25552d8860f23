"""Perturbed false-belief tasks (design of arXiv 2602.22072; stories written for tomserve): ``dataset/stages/*.yaml``.

A task has sixteen questions: four scenarios, each with a question about reality and one about a belief, each in an
original version and in one with the two labels exchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tomserve.benchmarks.base import Benchmark, Findings, Say, select_groups
from tomserve.benchmarks.perturbed.baselines import RULES_1
from tomserve.benchmarks.perturbed.stages_1 import load_stages
from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.items.draw import Draw
from tomserve.variants import Retell

PLACE = ("stage", "class", "version")
"""What the user names, in this order."""


def show_stories(items: Iterable[Item], where: Sequence[str]) -> Findings:
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
    sections = {
        _heading(place, story["belief"]): tuple(_lines(story))
        for place, story in select_groups(stories, where, PLACE).items()
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


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """All items of all stages. path: a stage file or a folder of them, None for the dataset's own. gold: not used, as
    there is one set of right answers. Raises ConfigError and ContentError as `load_stages` does."""
    del gold
    for stage in load_stages(path):
        yield from stage.items("perturbed")


def validate(path: Path | None, say: Say) -> Findings:
    """Check the dataset's structure (see tomserve.benchmarks.perturbed.validation_1)."""
    from tomserve.benchmarks.perturbed.validation_1 import validate_stages  # asking needs none of it

    del say
    return validate_stages(load_stages(path))


def audit(path: Path | None, say: Say) -> Findings:
    """Score simple rules on the dataset, and compare its gold with its events (see `validation_1.audit_stages`)."""
    from tomserve.benchmarks.perturbed.validation_1 import audit_stages  # asking needs none of it

    found = load_stages(path)
    say("scoring shortcuts, about 20 s ...")
    return audit_stages(found, own=path is None)


def show(path: Path | None, where: Sequence[str]) -> Findings:
    """Print stories for reading. where: a stage, a class, a scenario; raises ConfigError for one that is not there."""
    return show_stories(load(path), where)


DRAW = Draw(
    over=("stage", "perturbation"),
    whole=("scenario", "swapped"),
    alike=("stage",),
    first="none",
    unit=("story", "stories"),
    group=("task", "tasks"),
)
"""A story is drawn with its two questions. All tasks of a stage get the same scenarios, so that a class is compared
with the unperturbed task of its stage on the same ones."""


def retelling(path: Path | None) -> Retell:
    """What makes variants of the items (see tomserve.benchmarks.perturbed.validation_1)."""
    from tomserve.benchmarks.perturbed.validation_1 import make_retell  # imported here: few runs have variants

    return make_retell(path)


BENCHMARK = Benchmark(
    "perturbed",
    load,
    papers=("The perturbed false-belief tasks (arXiv:2602.22072)",),
    study="perturbed",
    reasoned=("scenario=false_belief", "question_kind=belief"),
    draw=DRAW,
    rules=RULES_1,
    validate=validate,
    audit=audit,
    show=show,
    retelling=retelling,
)
