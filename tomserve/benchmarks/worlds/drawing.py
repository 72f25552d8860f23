"""Draw worlds: all families in turn, by a seed, with the right choice equally often in every place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random

from tomserve.benchmarks.worlds.families import FAMILIES
from tomserve.benchmarks.worlds.family import Family
from tomserve.benchmarks.worlds.lexicon import Lexicon
from tomserve.benchmarks.worlds.record import Question, World
from tomserve.benchmarks.worlds.rules import answer, happened


def worlds(lexicon: Lexicon, number: int, seed: int, families: Sequence[Family] = FAMILIES) -> Iterator[World]:
    """Yield so many worlds, each in all scenarios of its version, families in turn.

    lexicon: the words and phrasings. number: how many worlds. seed: of all random choices; the same seed gives the same
    worlds, and more of them begin with the fewer.
    """
    placed: Counter[tuple[str, str, int]] = Counter()
    for place in range(number):
        family = families[place % len(families)]
        turn = place // len(families)
        for scenario in family.versions[turn % len(family.versions)]:
            world = family.world(lexicon, f"{family.name}-{seed}-{turn:04d}", scenario)
            yield _placed(_some(world, family.most), placed)


def _some(world: World, most: int) -> World:
    """The world with so many of its questions, drawn by its name, so that all scenarios of a world get the same."""
    if len(world.questions) <= most:
        return world
    chosen = sorted(Random(f"{world.name}/questions").sample(range(len(world.questions)), most))
    return world.model_copy(update={"questions": tuple(world.questions[place] for place in chosen)})


def _placed(world: World, counts: Counter[tuple[str, str, int]]) -> World:
    """The world with the right choice of each question where it has stood least often so far."""
    known = happened(world)
    questions = []
    for question in world.questions:
        right = answer(world, question, known)
        questions.append(question if right is None else _with_right(world.family, question, right, counts))
    return world.model_copy(update={"questions": tuple(questions)})


def _with_right(family: str, question: Question, right: str, counts: Counter[tuple[str, str, int]]) -> Question:
    kind = (family, f"{question.role}/{len(question.choices)}")
    wanted = min(range(len(question.choices)), key=lambda place: (counts[*kind, place], question.choices[place]))
    counts[*kind, wanted] += 1
    order = [key for key in question.choices if key != right]
    order.insert(wanted, right)
    return question.model_copy(update={"choices": tuple(order)})
