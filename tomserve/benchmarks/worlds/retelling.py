"""Variants of items of worlds, told from the records of their worlds (see tomserve.stability).

The record is changed, the truth computed again by the rules, and the story rendered: with other words for an object or
for the protagonist, in fewer words, in other phrasings, or with sentences in another order. All questions about a story
get the same retold story. An item whose right answer would not be that of its original, choice by choice and with the
exception of the order also after every line, has no variant of that kind.

>>> from tomserve.benchmarks.worlds.families import BY_NAME
>>> from tomserve.benchmarks.worlds.lexicon import built_in
>>> from tomserve.benchmarks.worlds.rendering import items
>>> first = next(items(BY_NAME["transfer"].world(built_in(), "transfer-1-0007", "false_belief"), built_in()))
>>> made = retelling()(first, OBJECT)
>>> made.id, made.answer == first.answer, made.meaning(made.answer) == first.answer
('transfer-1-0007/false_belief/00/object', False, True)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import orjson
from pydantic import ValidationError

from tomserve.benchmarks.worlds.events import Happened
from tomserve.benchmarks.worlds.families import BY_NAME
from tomserve.benchmarks.worlds.lexicon import Lexicon, built_in
from tomserve.benchmarks.worlds.record import Key, Question, World
from tomserve.benchmarks.worlds.rendering import asked, label, sentences
from tomserve.benchmarks.worlds.reordering import reordered
from tomserve.benchmarks.worlds.rewording import condensed, paraphrased, rephrased, with_other_object
from tomserve.benchmarks.worlds.rules import answer, answers, happened
from tomserve.benchmarks.worlds.variants import recast
from tomserve.errors import ContentError, InapplicableError
from tomserve.items import Gold, Item
from tomserve.stability import CONDENSED, OBJECT, ORDER, PARAPHRASE, PERSON, Kind, Retell, variant
from tomserve.stability.making import CHANGES_TRUTH, RECORD

NO_RECORD = "it has no record of its world"
NO_FAMILY = "its world is of a family that nobody knows"
OTHER_WORDS = "its record tells another story than its own"
SAME = "two of its choices would be called the same"
UNSETTLED = "the rules settle no answer after some of its lines"
MOMENT = "it asks about a moment between two sentences that change places"

STORIES = 256
"""So many stories are kept as they are told in one way, for the questions about them that follow."""


@dataclass(frozen=True, slots=True)
class Telling:
    """A story as it is told in one way.

    world: its record, without questions. story: its sentences. happened: what happens in it. places: for each line the
    0-based line of the original.
    """

    world: World
    story: tuple[str, ...]
    happened: Happened
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Original:
    """What an item is by its record.

    world: the record without questions; story: the same as JSON. question: the one question. labels: keys of the
    choices by their texts. shown: the story, the question, the choices and the right one, as the record has them.
    """

    world: World
    story: bytes
    question: Question
    labels: dict[str, Key]
    shown: tuple[tuple[str, ...], str, tuple[str, ...], str]


Found = TypeVar("Found", Telling, Original)


def retelling(path: Path | None = None) -> Retell:
    """The function that tells items of worlds otherwise. path: not used, as every item carries its own record."""
    del path
    return _retell


def retold(world: World, kind: Kind, lexicon: Lexicon) -> tuple[World, tuple[int, ...]]:
    """The world told otherwise, and for each of its lines the 0-based line of the original.

    The questions are those of the world as they were, and only `asking` fits them to the new lines and phrasings.
    Raises InapplicableError with the reason where the world cannot be told so.
    """
    every = tuple(range(len(world.scenes)))
    if kind == OBJECT:
        return with_other_object(world, lexicon), every
    if kind == PERSON:
        return recast(world, lexicon, 0), every
    if kind == CONDENSED:
        return condensed(world, lexicon)
    if kind == PARAPHRASE:
        return paraphrased(world, lexicon), every
    if kind == ORDER:
        return reordered(world, sentences(world, lexicon))
    raise InapplicableError(f"the records of worlds know no variant {kind.name!r}")


def asking(world: World, question: Question, kind: Kind, places: tuple[int, ...], lexicon: Lexicon) -> Question:
    """The question as the retold world asks it. world: the retold one. places: as from `retold`.

    Raises InapplicableError where the moment that it asks about is none of the new story.
    """
    if question.at is not None:
        after = {place for place in places if place <= question.at}
        if not after or set(places[: len(after)]) != after:
            raise InapplicableError(MOMENT)
        question = question.model_copy(update={"at": len(after) - 1})
    return rephrased(world, question, lexicon) if kind == PARAPHRASE else question


def _retell(item: Item, kind: Kind) -> Item:
    """A variant of an item. Raises InapplicableError with the reason where there is none."""
    original = _checked(_original(orjson.dumps(item.world)))
    if (item.story, item.question, item.choices, item.answer) != original.shown:
        raise InapplicableError(OTHER_WORDS)
    question, labels = original.question, original.labels
    told = _checked(_telling(original.story, kind))
    changed = asking(told.world, question, kind, told.places, built_in())
    if answer(told.world, changed, told.happened) != labels[item.answer]:
        raise InapplicableError(CHANGES_TRUTH)
    choices = tuple(label(told.world, key) for key in changed.choices)
    if len(set(choices)) < len(choices):
        raise InapplicableError(SAME)
    named = dict(zip(changed.choices, choices, strict=True))
    gold = _gold(item, told, changed, labels, named, in_order=kind != ORDER)
    text = asked(told.world, changed, built_in())
    made = variant(item, kind, by=RECORD, story=told.story, question=text, choices=choices, gold=gold)
    return made.model_copy(update={"factors": made.factors | _factors(item, original.world, told, question.fact)})


def _checked(found: Found | str) -> Found:
    """What was found. Raises InapplicableError where it is the reason why there is nothing."""
    if isinstance(found, str):
        raise InapplicableError(found)
    return found


def _gold(
    item: Item, told: Telling, question: Question, labels: dict[str, Key], named: dict[Key, str], *, in_order: bool
) -> Gold | None:
    """The rationale, computed again where the original has one. labels: keys by the original's choices. named: the new
    choices by their keys. in_order: whether what is left of the lines stands in its old order, so that the answers
    after each of them must be the old ones."""
    if item.gold is None or item.gold.sets is None:
        return None
    chain = answers(told.world, question, told.happened)
    if chain is None or len(chain) != len(told.story):
        raise InapplicableError(UNSETTLED)
    before = [{labels[text] for text in layer} for layer in item.gold.sets]
    if in_order and any(before[old] != {key} for key, old in zip(chain, told.places, strict=True)):
        raise InapplicableError(CHANGES_TRUTH)
    return Gold(sets=tuple((named[key],) for key in chain))


def _factors(item: Item, world: World, told: Telling, fact: str) -> dict[str, Any]:
    """The item's factors that go with the words: how many lines there are, and what is really so.

    world: that of the original.
    """
    real = item.factors.get("reality")
    keys = {label(world, key): key for key in world.facts[fact]}
    now = label(told.world, keys[real]) if isinstance(real, str) and real in keys else real
    found = {"sentences": len(told.story), "reality": now}
    return {name: value for name, value in found.items() if name in item.factors}


@lru_cache(maxsize=STORIES)
def _original(record: bytes) -> Original | str:
    """What an item is by its record, given as JSON; or why it is none that can be told again."""
    try:
        world = World.model_validate(orjson.loads(record))
        if len(world.questions) != 1:
            return NO_RECORD
    except ValidationError:
        return NO_RECORD
    if world.family not in BY_NAME:
        return NO_FAMILY
    (question,), bare = world.questions, world.model_copy(update={"questions": ()})
    story = orjson.dumps(bare.to_dict())
    try:
        told = _telling(story, None)
        if isinstance(told, str):
            return told
        labels = {label(world, key): key for key in question.choices}
        right = answer(world, question, told.happened)
        text = asked(world, question, built_in())
    except (ValueError, ContentError):
        return OTHER_WORDS
    if right is None or len(labels) < len(question.choices):
        return OTHER_WORDS
    return Original(bare, story, question, labels, (told.story, text, tuple(labels), label(world, right)))


@lru_cache(maxsize=8 * STORIES)
def _telling(story: bytes, kind: Kind | None) -> Telling | str:
    """A story told in one way, for None as it is; or why it cannot be told so.

    story: the record of its world without questions, as JSON. Raises ValueError and ContentError, for None alone, for
    roles, slots and events that are none of the family's, as the record of somebody else may have them.
    """
    lexicon, world = built_in(), World.model_validate(orjson.loads(story))
    try:
        told, places = (world, tuple(range(len(world.scenes)))) if kind is None else retold(world, kind, lexicon)
    except InapplicableError as reason:
        return str(reason)
    return Telling(told, sentences(told, lexicon), happened(told), places)
