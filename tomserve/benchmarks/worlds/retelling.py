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
from typing import Any

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
    if item.world is None or len(item.world.get("questions", ())) != 1:
        raise InapplicableError(NO_RECORD)
    story = orjson.dumps({**item.world, "questions": ()})
    original = _told(story, None)
    question = _question(orjson.dumps(item.world["questions"][0]))
    labels = {label(original.world, key): key for key in question.choices}
    if item.story != original.story or item.choices != tuple(labels) or item.question != _asked(original, question):
        raise InapplicableError(OTHER_WORDS)
    told = _told(story, kind)
    changed = asking(told.world, question, kind, told.places, built_in())
    if answer(told.world, changed, told.happened) != labels[item.answer]:
        raise InapplicableError(CHANGES_TRUTH)
    choices = tuple(label(told.world, key) for key in changed.choices)
    if len(set(choices)) < len(choices):
        raise InapplicableError("two of its choices would be called the same")
    named = dict(zip(changed.choices, choices, strict=True))
    gold = _gold(item, told, changed, labels, named, in_order=kind != ORDER)
    question_text = _asked(told, changed)
    made = variant(item, kind, by=RECORD, story=told.story, question=question_text, choices=choices, gold=gold)
    return made.model_copy(update={"factors": made.factors | _factors(item, original.world, told, question.fact)})


def _told(story: bytes, kind: Kind | None) -> Telling:
    """As `_telling`. Raises InapplicableError where the story cannot be told so."""
    found = _telling(story, kind)
    if isinstance(found, str):
        raise InapplicableError(found)
    return found


def _asked(told: Telling, question: Question) -> str:
    return asked(told.world, question, built_in())


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
        raise InapplicableError("the rules settle no answer after some of its lines")
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


@lru_cache(maxsize=8 * STORIES)
def _question(text: bytes) -> Question:
    return Question.model_validate(orjson.loads(text))


@lru_cache(maxsize=STORIES)
def _world(story: bytes) -> World | str:
    """The world of a record without questions, given as JSON, or why it is none that can be told."""
    try:
        world = World.model_validate(orjson.loads(story))
    except ValidationError:
        return NO_RECORD
    return world if world.family in BY_NAME else NO_FAMILY


@lru_cache(maxsize=8 * STORIES)
def _telling(story: bytes, kind: Kind | None) -> Telling | str:
    """A story told in one way, for None as it is; or why it cannot be told so. story: as for `_world`."""
    lexicon, world = built_in(), _world(story)
    if isinstance(world, str):
        return world
    if kind is None:
        try:
            return Telling(world, sentences(world, lexicon), happened(world), tuple(range(len(world.scenes))))
        except (ValueError, ContentError):  # a record of somebody else's, whose roles or events are none of these
            return OTHER_WORDS
    try:
        told, places = retold(world, kind, lexicon)
    except InapplicableError as reason:
        return str(reason)
    return Telling(told, sentences(told, lexicon), happened(told), places)
