"""Telling an item otherwise by rules where nothing but its text is known.

The rules are cautious: what they are not sure of they leave to a rewriter (tomserve.stability.rewriting), by raising
InapplicableError. All questions about one story get the same retold story wherever its rules need not look at the
question.

>>> item = Item(id="q", story=["Ann is a cook.", "Ann drops her pan."], question="What does Ann think?",
...             choices=["Ann's pan fell", "it did not"], answer="Ann's pan fell")
>>> made = retell(item, PERSON)
>>> made.story, made.answer
(('Nuwan is a cook.', 'Nuwan drops his pan.'), "Nuwan's pan fell")
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from tomserve.errors import InapplicableError
from tomserve.items import Item
from tomserve.stability import details, names, order, pronouns
from tomserve.stability.kinds import OBJECT, ORDER, PERSON, Kind
from tomserve.stability.making import RULES, variant
from tomserve.stability.persons import MAN, TITLE, WOMAN, Gender
from tomserve.stability.persons import PERSON as PERSON_NOUN
from tomserve.stability.rewording import People

NEEDS_REWRITER = "a text alone is put in other words by a rewriter only"
NO_NAME = "no person of the text has a name"
UNSURE_NAME = "it is not sure which words are the person's name"
UNSURE_PRONOUNS = "it is not sure whose the pronouns are"
NO_NEW_NAME = "no name is left that begins like no other word"
NO_DETAIL = "no object of the text surely bears on nothing"
NO_ORDER = "no sentence of the text can surely change its place"
"""Reasons for which rules drop a variant of a text."""


def retell(item: Item, kind: Kind) -> Item:
    """The variant of that kind. Raises InapplicableError where no rule is sure of it."""
    if kind is PERSON:
        return _of_person(item)
    if kind is OBJECT:
        return _of_object(item)
    if kind is ORDER:
        return _in_other_order(item)
    raise InapplicableError(NEEDS_REWRITER)


class Cast(NamedTuple):
    """Who a story's person becomes. old, new: the two names. gender: MAN or WOMAN where the pronouns are turned to
    those of one, None where they stay. others: the names of the other persons."""

    old: str
    new: str
    gender: Gender | None
    others: tuple[str, ...]

    def can_tell(self, text: str) -> bool:
        """Whether the pronouns of a text can be turned as this needs."""
        return self.gender is None or pronouns.turned(text, to=self.gender) is not None

    def told(self, text: str) -> str:
        """A text of the story, its question or its choices told of the new person."""
        made = pronouns.turned(text, to=self.gender) if self.gender is not None else text
        return People({self.old: self.new}).replaced(text if made is None else made)


def _of_person(item: Item) -> Item:
    """The item with another person in the place of its protagonist."""
    old, asked = protagonist(item), (item.question, *item.choices)
    cast, story = _retold(item.story, old, item.cluster, True)
    if cast.gender is not None and not _sure(item.story, asked, cast):
        cast, story = _retold(item.story, old, item.cluster, False)
    question, *choices = map(cast.told, asked)
    # A name that is a common word, too, as in "Will Will go?", cannot be told from it at the beginning of a sentence.
    word = any(names.occurs(old.lower(), text) for text in (*item.story, *asked))
    if word or any(names.occurs(one, text) for one in (old, old.upper()) for text in (*story, question, *choices)):
        raise InapplicableError(UNSURE_NAME)
    return variant(item, PERSON, by=RULES, story=story, question=question, choices=choices)


def _sure(story: Sequence[str], asked: Sequence[str], cast: Cast) -> bool:
    """Whether the pronouns of the question and the choices, each of which follows the story by itself, are surely the
    person's and can be turned."""
    before = pronouns.gender_of(" ".join(story))
    return all(
        pronouns.PRONOUN.search(text) is None
        or (pronouns.whose((*story, text), cast.old, cast.others) == before and cast.can_tell(text))
        for text in asked
    )


def protagonist(item: Item) -> str:
    """The name of the person whom the question or a choice names; else the first of the story."""
    of_story = _people(item.story)
    asked = (item.question, *item.choices)
    for name in (*of_story, *names.asked(item.question, item.story)):
        if any(names.occurs(name, text) for text in asked):
            return name
    if not of_story:
        raise InapplicableError(NO_NAME)
    return of_story[0]


@lru_cache(maxsize=4096)
def _people(story: tuple[str, ...]) -> tuple[str, ...]:
    return names.people(story)


@lru_cache(maxsize=4096)
def _recast(story: tuple[str, ...], old: str, seed: str, turn: bool) -> tuple[Cast, tuple[str, ...]] | str:
    """Who the person becomes, and the story told of that one; the reason where there is none. turn: whether the
    pronouns are turned where they are sure."""
    found = dict.fromkeys((*_people(story), *names.perhaps(story), *sorted(names.beginnings(story))))
    others = tuple(name for name in found if name not in old.split(" "))
    if alike(old, others) or _titled(old, story):
        return UNSURE_NAME
    gender = pronouns.known(story, old, others)
    if gender is None:
        return UNSURE_PRONOUNS
    turned = {MAN: WOMAN, WOMAN: MAN}.get(pronouns.whose(story, old, others) or "") if turn else None
    if turned is not None and any(pronouns.turned(sentence, to=turned) is None for sentence in story):
        turned = None
    made = names.others([(old, turned or gender)], seed, names.capitals(story))
    if made is None:
        return NO_NEW_NAME
    cast = Cast(old, made[old], turned, others)
    return cast, tuple(map(cast.told, story))


def _retold(story: tuple[str, ...], old: str, seed: str, turn: bool) -> tuple[Cast, tuple[str, ...]]:
    made = _recast(story, old, seed, turn)
    if isinstance(made, str):
        raise InapplicableError(made)
    return made


def alike(old: str, others: Sequence[str]) -> bool:
    """Whether another name is nearly the same: a longer form of it, or a slip of the pen."""
    parts = set(old.split(" "))
    return any(parts & set(one.split(" ")) or difflib.SequenceMatcher(None, old, one).ratio() > 0.7 for one in others)


def _titled(old: str, story: Sequence[str]) -> bool:
    """Whether the name stands after a title such as "Mrs", or before a further name."""
    text = "\n".join(story)
    found = re.finditer(rf"(?<![\w-]){re.escape(old)}(?![\w-])(?P<more> [A-Z]\w+)?", text)
    return any(match["more"] or TITLE.search(text[: match.start()]) for match in found)


def _of_object(item: Item) -> Item:
    """The item with another detail of an object."""
    made = _detailed(item.story, (item.question, *item.choices), item.cluster)
    if made is None:
        raise InapplicableError(NO_DETAIL)
    return variant(item, OBJECT, by=RULES, story=made)


@lru_cache(maxsize=4096)
def _detailed(story: tuple[str, ...], kept: tuple[str, ...], seed: str) -> tuple[str, ...] | None:
    made = details.other("\n".join(story), kept, seed)
    return None if made is None else tuple(made.split("\n"))


_SCENERY = re.compile(
    r"(?:An?|The|There|Two|Three|Some|On|In|Beside|Near|Above|Below|Under|Behind|It)\b.*"
    r"\b(?:is|are|stands?|lies?|hangs?|sits?|leans?)\b(?!\s+(?:\w+ed|\w+ing|taken|put|told|brought|seen|hidden|lost|not)\b)"
)
"""How a sentence begins and goes on that only says what is where or how something is."""


def _in_other_order(item: Item) -> Item:
    """The item with sentences of scenery in another order: those before anybody is mentioned and anything happens."""
    changed = _reordered(item.story)
    if changed is None:
        raise InapplicableError(NO_ORDER)
    return variant(item, ORDER, by=RULES, story=[item.story[place] for place in changed])


@lru_cache(maxsize=4096)
def _reordered(story: tuple[str, ...]) -> tuple[int, ...] | None:
    """The order of the sentences after the exchange; None where none is sure."""
    people = _people(story)
    scenery = 0
    for sentence in story:
        somebody = PERSON_NOUN.search(sentence) or any(names.occurs(name, sentence) for name in people)
        if somebody or not _SCENERY.match(sentence):
            break
        scenery += 1
    if scenery < 2:
        return None
    places = order.chosen(place for place in order.swaps(story) if place + 1 < scenery)
    return order.exchanged(len(story), places) if places else None
