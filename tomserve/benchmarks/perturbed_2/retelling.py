"""Variants of the items that are made from stage files (see tomserve.stability): the stage tells the story otherwise,
and the right answer is derived again from its events.

    tomserve eval --variants person,order --model MODEL

>>> retell = retelling(None)                                                         # doctest: +SKIP
>>> retell(item, kinds.PERSON).story[0]                                              # doctest: +SKIP
'On his first day as caretaker Emrys finds a biscuit tin on the top shelf of the lodge.'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from tomserve.benchmarks.perturbed.stagefile import fill
from tomserve.benchmarks.perturbed_2.derive import Layer, Line
from tomserve.benchmarks.perturbed_2.fresh import read_names
from tomserve.benchmarks.perturbed_2.retoldfile import read
from tomserve.benchmarks.perturbed_2.stage import Stage, Story, rationale
from tomserve.benchmarks.perturbed_2.telling import Telling, Told
from tomserve.errors import InapplicableError
from tomserve.items import UNKNOWN, Item
from tomserve.stability import Kind, Retell, kinds, text, variant
from tomserve.stability.making import CHANGES_TRUTH, RECORD

KEPT = 2048
"""How many told stories are kept, since several questions are about each."""


class _Found(NamedTuple):
    """Where an item comes from: the stage's telling, the story, whether it asks for a belief, whether labels are
    exchanged."""

    telling: Telling
    story: Story
    belief: bool
    swapped: bool


class Teller:
    """Tells items of some stages otherwise.

    stages: with the items that were made of each; items that are not among them, or that say something else by the same
    id, are told by rules of text.
    """

    def __init__(self, stages: Iterable[tuple[Telling, Iterable[Item]]]) -> None:
        self._found: dict[str, _Found] = {}
        self._items: dict[str, Item] = {}
        for telling, items in stages:
            stories = {(story.task, story.version): story for story in telling.stage.stories}
            for item in items:
                _, task, version, asked, side = item.id.split("/")
                self._found[item.id] = _Found(telling, stories[task, version], asked == "belief", side == "swapped")
                self._items[item.id] = item
        self._told = lru_cache(KEPT)(_told)
        self._texts = lru_cache(KEPT)(_texts)

    def retell(self, item: Item, kind: Kind) -> Item:
        """The variant of an item. Raises InapplicableError where there is none."""
        own = self._items.get(item.id)
        if own is None or (own.story, own.question, own.choices) != (item.story, item.question, item.choices):
            return text.retell(item, kind)
        found = self._found[item.id]
        told = self._told(found.telling, found.story.task, found.story.version, kind)
        if isinstance(told, str):
            raise InapplicableError(told)
        labels = _labels(found.telling.stage, found.swapped)
        layers = _layers(told.lines, found.belief)
        if len(layers[-1].labels) > 1:
            raise InapplicableError(CHANGES_TRUTH)
        sentences, questions = self._texts(found.telling, told, found.swapped)
        made = variant(
            item,
            kind,
            by=RECORD,
            story=sentences,
            question=questions[found.belief],
            answer=labels[layers[-1].labels[0]],
            gold=rationale(layers, labels) if kind in REGROUPED and _by_events(own, found, labels) else None,
        )
        return made.model_copy(update={"factors": {**made.factors, "asked": told.asked}})


REGROUPED = (kinds.CONDENSED, kinds.ORDER)
"""Kinds whose sentences are fewer or stand in another order, so that the rationale is another one, too."""


def _told(telling: Telling, task: str, version: str, kind: Kind) -> Told | str:
    """The story told otherwise, or why there is none; an error could not be kept."""
    try:
        return telling.told(telling.stage.story(task, version), kind)
    except InapplicableError as reason:
        return str(reason)


def _texts(telling: Telling, told: Told, swapped: bool) -> tuple[tuple[str, ...], tuple[str, str]]:
    """The sentences with their labels, and the questions about reality and about the belief."""
    x, y = (telling.stage.file.labels[symbol] for symbol in ("x", "y"))
    slots = {"x": y, "y": x} if swapped else {"x": x, "y": y}
    reality, belief = (fill(one, slots, told.asked) for one in (told.questions.reality, told.questions.belief))
    return tuple(fill(one, slots, told.asked) for one in told.texts), (reality, belief)


def _labels(stage: Stage, swapped: bool) -> dict[str, str]:
    """The label that each symbol of an event stands for."""
    x, y = (stage.file.labels[symbol].label for symbol in ("x", "y"))
    return {"x": y, "y": x, UNKNOWN: UNKNOWN} if swapped else {"x": x, "y": y, UNKNOWN: UNKNOWN}


def _layers(lines: Sequence[Line], belief: bool) -> list[Layer]:
    return [line.belief if belief else line.world for line in lines]


def _by_events(item: Item, found: _Found, labels: Mapping[str, str]) -> bool:
    """Whether an item's own rationale is what its events give; an author may have written another one."""
    derived = rationale(_layers(found.story.lines, found.belief), labels)
    return item.gold is not None and derived.automaton() == item.gold.automaton()


def retelling(path: Path | None) -> Retell:
    """The function that makes variants of the edition's items.

    path: the user's stage file or folder of them; None, and for a file of items, those of the dataset. Raises
    ConfigError and ContentError for stage files, files of retold sentences and names that cannot be read.
    """
    from tomserve.benchmarks.perturbed_2.benchmark import stages  # it imports this module

    names = read_names().pools()
    own = None if path is not None and path.suffix == ".jsonl" else path
    return Teller((Telling(stage, read(stage), names), stage.items()) for stage in stages(own)).retell
