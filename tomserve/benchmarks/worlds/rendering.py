"""From the record of a world to what a reader sees: its sentences, and an item for each of its questions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tomserve.benchmarks.worlds.events import Happened
from tomserve.benchmarks.worlds.lexicon import Lexicon
from tomserve.benchmarks.worlds.record import Key, Question, World
from tomserve.benchmarks.worlds.rules import answer, answers, happened
from tomserve.benchmarks.worlds.wording import say
from tomserve.items import UNKNOWN, Gold, Item
from tomserve.items.item import Factor

NAME = "worlds"
"""The name of the benchmark."""


def sentences(world: World, lexicon: Lexicon) -> tuple[str, ...]:
    """The story, one sentence for each scene. Raises ContentError for a role without phrasings, ValueError for a
    phrasing with a slot that the world does not fill."""
    found = []
    for scene in world.scenes:
        offered = lexicon.phrasings(world.family, scene.role, "roles" if scene.told == "full" else "short")
        phrasing = offered[scene.phrasing % len(offered)]
        found.append(say(phrasing, scene.slots, world.people, world.words, second=world.second))
    return tuple(found)


def asked(world: World, question: Question, lexicon: Lexicon) -> str:
    """The text of a question. Raises as `sentences` does."""
    offered = lexicon.phrasings(world.family, question.role, "questions")
    phrasing = offered[question.phrasing % len(offered)]
    return say(phrasing, question.slots, world.people, world.words, second=world.second)


def label(world: World, key: Key, *, first: Key | None = None) -> str:
    """The text of a choice. first: the key of whom the label calls "I"."""
    if key == UNKNOWN:
        return UNKNOWN
    if key in world.people:
        return "I" if key == first else "you" if key == world.second else world.people[key].name
    return say(world.words[key], {}, world.people, world.words, second=world.second, first=first)


def items(
    world: World, lexicon: Lexicon, *, questions: Sequence[int] | None = None, first: Key | None = None
) -> Iterator[Item]:
    """An item for each question that the rules settle, in the order of the record.

    questions: the places of the questions to make items of; None for all. first: the key of whom the choices call "I".
    Raises as `sentences` does, and ValueError for events that make no sense.
    """
    story, known = sentences(world, lexicon), happened(world)
    for number, question in enumerate(world.questions):
        if questions is not None and number not in questions:
            continue
        right = answer(world, question, known)
        if right is None:
            continue
        labels = {key: label(world, key, first=first) for key in question.choices}
        chain = answers(world, question, known)
        gold = Gold(sets=tuple((labels[key],) for key in chain)) if chain and len(chain) == len(story) else None
        yield Item(
            id=f"{world.name}/{world.design.get('scenario', 'story')}/{number:02d}",
            benchmark=NAME,
            story=story,
            question=asked(world, question, lexicon),
            choices=tuple(labels.values()),
            answer=labels[right],
            gold=gold,
            factors=_factors(world, question, right, known),
            cluster=world.name,
            world=_record(world, question),
        )


def _record(world: World, question: Question) -> dict[str, object]:
    """The record of the world with this question alone."""
    return world.model_copy(update={"questions": (question,)}).to_dict()


def _factors(world: World, question: Question, right: Key, known: Happened) -> dict[str, Factor]:
    """The item's place in the design. right: the key of the right choice. known: what happened."""
    probe = question.model_copy(update={"kind": "belief", "choices": (*world.facts[question.fact], UNKNOWN)})
    condition: str | None = None
    real = answer(world, probe.model_copy(update={"kind": "reality", "who": ()}), known)
    if question.who:
        believed = answer(world, probe.model_copy(update={"who": question.who[-1:]}), known)
        if believed == UNKNOWN:
            condition = "ignorance"
        elif real not in (None, UNKNOWN):
            condition = "true_belief" if believed == real else "false_belief"
    return {
        "family": world.family,
        **world.design,
        **question.factors,
        "kind": question.kind,
        "condition": condition,
        "order": len(question.who),
        "asked": ">".join(question.who) or None,
        "answer_key": right,
        "reality": label(world, real) if real is not None else None,
        "options": len(question.choices),
        "sentences": known.lines,
    }
