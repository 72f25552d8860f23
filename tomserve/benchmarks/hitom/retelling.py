"""Variants of Hi-ToM questions: the story is read as events, changed, told again, and its beliefs tracked again.

>>> lines = ["Ann and Bo entered the den.", "The pen is in the red_box.", "Bo exited the den.", "Ann likes the tin."]
>>> item = Item(id="q", benchmark="hitom", story=lines, question="Where does Bo really think the pen is?",
...             choices=["red_box", "blue_box", "unknown"], answer="red_box")
>>> made = retell(item, kinds.PARAPHRASE)
>>> made.story[2], made.question, made.answer
('Bo left the den.', 'Where does Bo believe that the pen is?', 'red_box')
>>> made = retell(item, kinds.OBJECT)
>>> made.story[2], made.answer.endswith("_box"), made.meaning(made.answer)
('Bo exited the den.', True, 'red_box')

    object       all objects and containers have other names (renaming.py)
    person       all agents have other names (renaming.py)
    condensed    fillers are left out, and the rest is said in fewer words (condensing.py)
    paraphrase   every sentence and the question are in other words (wordings.py), one wording for each sort of sentence
    order        sentences that do not depend on each other change places (reordering.py)

All questions about a story get the same story again, drawn from its cluster, so that twins are retold alike. The answer
is that of the tracker, under the semantics of the original. Where the original's label is not the tracker's (17 of the
official ones) the variant has that label, and like the original no gold chain. What is counted about the story (such as
the factors n_lines and answer_place) is counted again.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from tomserve.benchmarks.hitom.condensing import condensed
from tomserve.benchmarks.hitom.dice import Dice
from tomserve.benchmarks.hitom.events import Story
from tomserve.benchmarks.hitom.explain import parsed, semantics_of, traced
from tomserve.benchmarks.hitom.question_item import StoryFacts, Tracked, story_factors
from tomserve.benchmarks.hitom.questions import read_question, write_question
from tomserve.benchmarks.hitom.renaming import other_agents, other_things, renamed
from tomserve.benchmarks.hitom.reordering import reordered
from tomserve.benchmarks.hitom.tracker import Semantics, Trace, trace
from tomserve.benchmarks.hitom.wordings import ASKED, OTHER, sort_of, write, write_asked
from tomserve.errors import InapplicableError
from tomserve.items import UNKNOWN, Factor, Gold, Item
from tomserve.stability import Kind, Retell, kinds, variant
from tomserve.stability.making import CHANGES_TRUTH, RECORD

OTHER_FORM = "the story or the question has another form"
NEITHER = "no rule for this kind"
"""Reasons for which a variant cannot be had, besides those of the modules that change stories."""


class Retold(NamedTuple):
    """A story told otherwise. names: what agents and things are called now. asked: in which wording its questions are
    asked, None for the released one. counted: the factors of the story. facts: what they share of its questions."""

    sentences: tuple[str, ...]
    trace: Trace
    names: Mapping[str, str]
    asked: int | None
    counted: Mapping[str, Factor]
    facts: StoryFacts[str]


def retelling(path: Path | None) -> Retell:
    """The function that retells the items of the benchmark; every item holds its whole story, so no file is needed."""
    del path
    return retell


def retell(item: Item, kind: Kind) -> Item:
    """The variant of that kind.

    Raises InapplicableError where the kind cannot be had of the story, and for an item whose sentences or question are
    not the benchmark's.
    """
    try:
        asked, obj = read_question(item.question)
        semantics = semantics_of(item)
        tracked = traced(item.story, obj).belief(asked, semantics)
    except ValueError:
        raise InapplicableError(OTHER_FORM) from None
    found = _retold(item.story, kind, item.cluster, obj, item.choices, semantics)
    if isinstance(found, str):
        raise InapplicableError(found)
    names = found.names
    people, thing = tuple(names.get(name, name) for name in asked), names.get(obj, obj)
    chain = found.trace.chain(people, semantics)
    if chain[-1] != names.get(tracked, tracked):
        raise InapplicableError(CHANGES_TRUTH)
    choices = tuple(names.get(choice, choice) for choice in item.choices)
    answer = names.get(item.answer, item.answer)
    proper = item.gold is not None and item.answer == tracked and {*chain} <= {*choices}
    facts = {**found.counted, **found.facts.factors(people, chain[-1], answer), "object": thing}
    made = variant(
        item,
        kind,
        by=RECORD,
        story=found.sentences,
        question=write_question(people, thing) if found.asked is None else write_asked(people, thing, found.asked),
        choices=choices,
        answer=answer,
        gold=Gold(chains=(tuple(chain),)) if proper else None,
    )
    own = {name: facts[name] for name in item.factors if name in facts}
    return made.model_copy(update={"factors": {**made.factors, **own}, **({} if proper else {"gold": None})})


@lru_cache(maxsize=256)
def _retold(
    sentences: tuple[str, ...], kind: Kind, cluster: str, obj: str, choices: tuple[str, ...], semantics: Semantics
) -> Retold | str:
    """The story told otherwise, or why it cannot be. Some are remembered, because a story has several questions."""
    story = parsed(sentences)
    if story.sentences() != sentences:
        return OTHER_FORM
    dice = Dice(f"{cluster}:{kind.name}")
    names: dict[str, str] = {}
    asked, told = None, None
    try:
        if kind is kinds.OBJECT:
            names = other_things(story, choices, dice)
            story = renamed(story, names)
        elif kind is kinds.PERSON:
            names = other_agents(story, dice)
            story = renamed(story, names)
        elif kind is kinds.CONDENSED:
            story, told = condensed(story, obj)
        elif kind is kinds.PARAPHRASE:
            told = paraphrased(story, dice)
            asked = dice.below(ASKED)
        elif kind is kinds.ORDER:
            story = reordered(story, dice)
        else:
            return NEITHER
    except InapplicableError as reason:
        return str(reason)
    shown = tuple(names.get(choice, choice) for choice in choices if choice != UNKNOWN)
    now = trace(story, names.get(obj, obj))
    facts = StoryFacts(Tracked(now, semantics), shown)
    return Retold(told or story.sentences(), now, names, asked, story_factors(story, shown), facts)


def paraphrased(story: Story, dice: Dice) -> tuple[str, ...]:
    """The sentences of a story in other words: one wording for each sort of sentence, drawn for the story."""
    wordings = {sort: dice.pick(listed) for sort, listed in OTHER.items()}
    return tuple(write(event, wordings[sort_of(event)]) for event in story.events)
