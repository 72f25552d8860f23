"""The same story told otherwise: each variant changes the record of a world, and its truth is computed again.

A variant keeps what is asked, so that its answer can be held against that of the original: with another protagonist
(`recast`), other words for the values (`other_object`), other phrasings (`reworded`), without its fillers (`shorter`)
or to a reader who is the protagonist (`second_person`) the right choice must stay the same, key by key; where it did
not, ValueError says so, and no item is made. The `twin`, in which the protagonist notices what changes, has answers of
its own. tomserve.benchmarks.worlds.triples puts these together to what perspective-taking is measured by.

>>> from tomserve.benchmarks.worlds.families import BY_NAME
>>> from tomserve.benchmarks.worlds.lexicon import built_in
>>> world = BY_NAME["transfer"].world(built_in(), "transfer-1-0007", "false_belief")
>>> other = recast(world, built_in(), seed=1)
>>> other.people["P"].gender == world.people["P"].gender, other.people["Q"] == world.people["Q"]
(False, True)
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tomserve.benchmarks.worlds.families import BY_NAME
from tomserve.benchmarks.worlds.lexicon import Lexicon
from tomserve.benchmarks.worlds.record import Gender, Key, Part, Person, Question, Scene, World
from tomserve.benchmarks.worlds.rendering import items, label
from tomserve.benchmarks.worlds.rules import answer, happened
from tomserve.content.validation import choose_error, explain, place_of
from tomserve.errors import ConfigError, ContentError, one_of
from tomserve.items import UNKNOWN, Item


def protagonist(world: World) -> Key:
    """The key of the person whom variants are about. Raises ConfigError for a family that nobody knows."""
    if world.family not in BY_NAME:
        raise ConfigError(f"world {world.name!r}: {one_of('family', world.family, BY_NAME)}")
    return BY_NAME[world.family].protagonist


def record(item: Item, path: Path | None = None) -> World:
    """The world that an item was made from.

    path: the file of the item, to be named in an error. Raises ConfigError for an item without a record, or with one
    that cannot be read; ContentError where the file is known.
    """
    if item.world is None:
        reason = f"item {item.id!r} has no record of a world; `tomserve generate worlds` writes items that have one"
    else:
        try:
            return World.model_validate(item.world)
        except ValidationError as error:
            first = choose_error(error)
            place = ".".join(map(str, place_of(first, item.world))) or "world"
            reason = f"item {item.id!r}: its record of a world: {place}: {explain(first, item.world, World)}"
    raise ConfigError(reason) if path is None else ContentError(reason, path=path)


def version(
    item: Item, world: World, lexicon: Lexicon, variant: str, *, first: Key | None = None, prefix: str = ""
) -> Item:
    """The item that a world makes of its one question, as a version of another item.

    variant: the value of the factor, which also ends the id. first: key of whom the choices call "I". prefix: what
    comes before those choices that are the same without it. Raises ValueError where the rules settle no answer.
    """
    made = list(items(world, lexicon, first=first))
    if len(made) != 1:
        raise ValueError(f"item {item.id!r}: as {variant} it has {len(made)} settled questions instead of one")
    (one,) = made
    labels = {label(world, key, first=first): key for key in world.questions[0].choices}
    shown = {
        text: text if key == UNKNOWN or text != label(world, key) else prefix + text for text, key in labels.items()
    }
    gold = one.gold and one.gold.model_copy(
        update={"sets": tuple(tuple(map(shown.__getitem__, layer)) for layer in one.gold.sets or ())}
    )
    return one.model_copy(
        update={
            "id": f"{item.id}/{variant}",
            "choices": tuple(shown[text] for text in one.choices),
            "answer": shown[one.answer],
            "gold": gold,
            "factors": {**one.factors, "variant": variant},
            "canary": item.canary,
            "base": item.id,
        }
    )


def second_person(world: World) -> World:
    """The world told to a reader who is the protagonist: "you". Only the wording changes."""
    return world.model_copy(update={"second": protagonist(world)})


def without(world: World, parts: Collection[Part]) -> World:
    """The world without the scenes of these parts; a question about a line is about the last line that is left of it.

    The truth may change with it; whoever drops scenes says what they expect of it.
    """
    left = [place for place, scene in enumerate(world.scenes) if scene.part not in parts]

    def moved(question: Question) -> Question:
        if question.at is None:
            return question
        return question.model_copy(update={"at": max(0, sum(place <= question.at for place in left) - 1)})

    changed = {"scenes": tuple(world.scenes[place] for place in left), "questions": tuple(map(moved, world.questions))}
    return world.model_copy(update=changed)


def shorter(world: World) -> World:
    """The world without its fillers. Raises ValueError where that changes an answer."""
    kept = [place for place, scene in enumerate(world.scenes) if scene.part != "filler"]
    return _as_true(world, without(world, {"filler"}), kept)


def recast(world: World, lexicon: Lexicon, seed: int) -> World:
    """The world with another protagonist: another name of another culture, another gender, so that all pronouns change.

    The new name begins with another letter than all names of the story. Raises ValueError where an answer changes.
    """
    rng = random.Random(f"recast/{seed}/{world.name}")
    key = protagonist(world)
    old = world.people[key]
    gender: Gender = "man" if old.gender == "woman" else "woman"
    taken = {person.name[0] for person in world.people.values()}
    offered = sorted(
        (name, block["culture"])
        for block in lexicon.words["names"]
        for name in block["women" if gender == "woman" else "men"]
        if block["culture"] != old.culture and name[0] not in taken
    )
    if not offered:
        raise ContentError(
            f"world {world.name!r}: the words have no other name for its protagonist", path=lexicon.folder
        )
    name, culture = rng.choice(offered)
    people = {**world.people, key: Person(name=name, gender=gender, culture=culture)}
    return _as_true(world, world.model_copy(update={"people": people}))


def reworded(world: World, lexicon: Lexicon, seed: int) -> World:
    """The world with another phrasing of every scene and every question that has more than one. Raises ValueError where
    an answer changes."""
    rng = random.Random(f"reworded/{seed}/{world.name}")
    used: dict[tuple[str, str], set[str]] = defaultdict(set)

    def other(part: str, role: str, number: int) -> int:
        offered = lexicon.phrasings(world.family, role, part)
        old = offered[number % len(offered)]
        taken = used[part, role]
        fresh = [new for new, text in enumerate(offered) if text != old and text not in taken]
        fresh = fresh or [new for new, text in enumerate(offered) if text != old] or [number % len(offered)]
        chosen = rng.choice(fresh)
        taken.add(offered[chosen])
        return chosen

    def scene(one: Scene) -> Scene:
        return one.model_copy(update={"phrasing": other("roles", one.role, one.phrasing)})

    def question(one: Question) -> Question:
        return one.model_copy(update={"phrasing": other("questions", one.role, one.phrasing)})

    changed = {"scenes": tuple(map(scene, world.scenes)), "questions": tuple(map(question, world.questions))}
    return _as_true(world, world.model_copy(update=changed))


def other_object(world: World, lexicon: Lexicon, seed: int) -> World | None:
    """The world with other words for the values of its facts, each from the list that it was drawn from; None where no
    value has a word from a list. Raises ValueError where an answer changes."""
    rng = random.Random(f"other_object/{seed}/{world.name}")
    words = dict(world.words)
    for values in world.facts.values():
        keys = [key for key in values if key in world.words]
        texts = {world.words[key] for key in keys}
        found = [one for one in _lists(lexicon, world.family) if texts <= set(one)]
        if not keys or not found:
            continue
        elsewhere = {text for key, text in words.items() if key not in keys}
        offered = [text for text in min(found, key=len) if text not in elsewhere]
        if (chosen := _others(rng, [world.words[key] for key in keys], offered)) is not None:
            words |= dict(zip(keys, chosen, strict=True))
    return _as_true(world, world.model_copy(update={"words": words})) if words != world.words else None


def _others(rng: random.Random, old: Sequence[str], offered: Sequence[str]) -> list[str] | None:
    """As many different words, none of them where it was; new ones as far as there are any. None where it cannot be."""
    fresh = [text for text in dict.fromkeys(offered) if text not in old]
    rng.shuffle(fresh)
    again = list(old[len(fresh) :])
    chosen = [*fresh[: len(old)], *again]
    turn = rng.randrange(len(old))
    for step in range(len(old)):
        turned = chosen[(turn + step) % len(old) :] + chosen[: (turn + step) % len(old)]
        if all(new != was for new, was in zip(turned, old, strict=True)):
            return turned
    return None


@lru_cache(maxsize=32)
def _lists(lexicon: Lexicon, family: str) -> tuple[tuple[str, ...], ...]:
    """All lists of texts among the words, and among what the family's file has beside its phrasings."""
    return tuple(_texts([lexicon.words, lexicon.extras(family)]))


def _texts(part: Any) -> Iterator[tuple[str, ...]]:
    if isinstance(part, Mapping):
        for one in part.values():
            yield from _texts(one)
    elif isinstance(part, list) and part and all(isinstance(one, str) for one in part):
        yield tuple(part)
    elif isinstance(part, list):
        for one in part:
            yield from _texts(one)


def twin(world: World, lexicon: Lexicon) -> World | None:
    """The world as its family draws it where the protagonist notices what changes; None for a scenario without twin.

    Names and words that a variant changed are changed in the twin, too, and its choices stand in the same order. Other
    phrasings and dropped fillers are not carried over: make the twin first. Raises ContentError for a world that was
    drawn from other words or phrasings than the lexicon's.
    """
    protagonist(world)
    family, scenario = BY_NAME[world.family], world.design.get("scenario")
    if scenario not in family.twins:
        return None
    before = family.world(lexicon, world.name, str(scenario))
    drawn = iter(before.scenes)
    if not all(any(_told(one) == _told(scene) for one in drawn) for scene in world.scenes):
        raise ContentError(
            f"world {world.name!r} was drawn from other words than these, so that its twin cannot be drawn; "
            "generate it again",
            path=lexicon.folder,
        )
    after = family.world(lexicon, world.name, family.twins[str(scenario)])
    people = {key: one for key, one in world.people.items() if one != before.people[key]}
    words = {key: one for key, one in world.words.items() if one != before.words.get(key)}
    questions = tuple(
        found for question in world.questions if (found := same_question(question, after.questions)) is not None
    )
    return after.model_copy(
        update={
            "people": after.people | people,
            "words": after.words | words,
            "questions": questions,
            "second": world.second,
        }
    )


def _told(scene: Scene) -> tuple[str, tuple[tuple[str, Key], ...], tuple[str, ...]]:
    return scene.role, tuple(sorted(scene.slots.items())), scene.events


def same_question(question: Question, others: Sequence[Question]) -> Question | None:
    """The one of the others that asks the same, with its choices in the question's order; None where none does."""

    def asks(one: Question) -> tuple[object, ...]:
        return one.kind, one.who, one.fact, one.role, frozenset(one.choices)

    found = [one for one in others if asks(one) == asks(question)]
    found = [one for one in found if one.at == question.at] or found
    found = [one for one in found if one.phrasing == question.phrasing] or found
    return found[0].model_copy(update={"choices": question.choices}) if found else None


def _as_true(world: World, changed: World, kept: Sequence[int] | None = None) -> World:
    """The changed world, where every answer is that of the original, after every line.

    kept: the lines of the original that are left; None for all. A line that is left out must change nothing, so that
    the answers after it are those after the line before it. Raises ValueError where an answer differs.
    """
    lines = range(len(world.scenes)) if kept is None else kept
    before, after = happened(world), happened(changed)
    for old, new in zip(world.questions, changed.questions, strict=True):
        for line in range(before.lines if old.at is None else old.at + 1):
            same = sum(one <= line for one in lines) - 1
            was, now = answer(world, old, before, line), answer(changed, new, after, same) if same >= 0 else None
            if same >= 0 and was != now:
                raise ValueError(
                    f"world {world.name!r}: the variant changed the answer to {old.kind!r} after line {line + 1} "
                    f"from {was} to {now}"
                )
    return changed
