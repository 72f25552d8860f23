"""False-belief items with two versions that take the place of the protagonist, for measures of perspective-taking.

The idea is that of perspective-taking through one's own point of view (Aoki and Kawahara 2025): a model reads the story
of somebody with a false belief, and the same story as its own, once as the protagonist saw it and once as it is.

>>> from tomserve.benchmarks.worlds.families import BY_NAME
>>> from tomserve.benchmarks.worlds.lexicon import built_in
>>> world = BY_NAME["transfer"].world(built_in(), "transfer-1-0007", "false_belief")
>>> [item.factors.get("variant") for item in next(triples(world, built_in()))]
[None, 'ppt_p', 'ppt_p_twin']
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tomserve.benchmarks.case import NoCase
from tomserve.benchmarks.worlds.families import BY_NAME
from tomserve.benchmarks.worlds.lexicon import Lexicon
from tomserve.benchmarks.worlds.record import Key, Question, World
from tomserve.benchmarks.worlds.rendering import items
from tomserve.benchmarks.worlds.rules import answer
from tomserve.benchmarks.worlds.variants import protagonist, same_question, second_person, twin, version, without
from tomserve.items import UNKNOWN, Item


class Triple(NamedTuple):
    """An item about a false belief of the protagonist, with the two versions that take the protagonist's place.

    f: the item. p: its story without the change and without who noticed it, told to the reader as the protagonist, so
    that what f's protagonist believes falsely is simply so. p_twin: the twin, in which the protagonist noticed, told to
    the reader likewise. p is answered as f, p_twin otherwise.
    """

    f: Item
    p: Item
    p_twin: Item


class Told(NamedTuple):
    """A triple, and the twin as somebody tells it who is nobody in it, with the question and the choices of f."""

    f: Item
    p: Item
    p_twin: Item
    twin: Item


def triples(world: World, lexicon: Lexicon) -> Iterator[Triple]:
    """The triples of all questions about a false belief of the protagonist, or about what follows from it; the belief
    may be one about what somebody else believes.

    The choices of p and p_twin are in the first person: those about the protagonist call them "I", and those for whose
    question the phrasings have a beginning (`first_person`, such as "I believe that ") begin so; short ones such as the
    name of a place, and "unknown", stay as they are. Where they are worded otherwise than those of f, `meanings` says
    which of those they stand for. A question whose answer in p is not that of f has no triple, such as surprise, where
    there is nothing to be surprised about; nor has one whose answer in the twin is that of f.
    """
    return (Triple(*found[:3]) for found in tried(world, lexicon) if isinstance(found, Told))


def tried(world: World, lexicon: Lexicon) -> Iterator[Told | NoCase]:
    """What all questions about a false belief of the protagonist make: a triple with its twin, or why it makes none.

    Nothing comes of a world without twin, in which the protagonist misses nothing.
    """
    who = protagonist(world)
    if world.second is not None or world.design.get("scenario") not in BY_NAME[world.family].twins:
        return
    if not any(_asks(world, question, who) for question in world.questions):
        return  # the twin would be drawn for nothing
    other = twin(world, lexicon)
    if other is None:
        return
    bare = second_person(without(world, {"cause", "percept"}))
    for place, question in enumerate(world.questions):
        f = next(items(world, lexicon, questions=[place]), None) if _asks(world, question, who) else None
        if f is None:
            continue
        same = same_question(question, other.questions)
        if same is None:
            yield NoCase(f, "it is not asked in the twin")
            continue
        same = same.model_copy(update={"phrasing": question.phrasing})
        told = (
            bare.model_copy(update={"questions": (bare.questions[place],)}),
            second_person(other).model_copy(update={"questions": (same,)}),
        )
        right, plain, noticed = f.factors["answer_key"], *(answer(one, one.questions[0]) for one in told)
        if plain != right:
            yield NoCase(f, "without the change its answer is another one")
        elif noticed is None:
            yield NoCase(f, "it has no answer in the twin")
        elif noticed == right:
            yield NoCase(f, "its answer in the twin is the same")
        else:
            prefix = lexicon.first_person(world.family, question.role)
            seen = other.model_copy(update={"questions": (same,)})
            yield Told(
                f,
                _meaning(f, version(f, told[0], lexicon, "ppt_p", first=who, prefix=prefix)),
                _meaning(f, version(f, told[1], lexicon, "ppt_p_twin", first=who, prefix=prefix)),
                version(f, seen, lexicon, "ppt_twin"),
            )


def _meaning(f: Item, made: Item) -> Item:
    """The version of f, which says what its choices stand for where they are worded otherwise."""
    return made if made.choices == f.choices else made.model_copy(update={"meanings": f.choices})


def _asks(world: World, question: Question, who: Key) -> bool:
    """Whether a question is about a false belief of that person, or about what follows from it."""
    return question.who[:1] == (who,) and _mistaken(world, question)


def _mistaken(world: World, question: Question) -> bool:
    """Whether the outermost person asked about is wrong: about the fact, or about what the next one believes."""
    choices = (*world.facts[question.fact], UNKNOWN)
    probe = question.model_copy(update={"kind": "belief", "choices": choices})
    inner = probe.model_copy(update={"who": question.who[1:]})
    believed, real = answer(world, probe), answer(world, inner)
    return believed != real and not {believed, real} & {None, UNKNOWN}
