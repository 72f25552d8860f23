"""The stories of a stage told otherwise: with other names, things or wordings, in fewer words or in another order.

What is drawn depends on the stage, the class and what is drawn alone, so that a story is told otherwise in the same way
everywhere, whichever of its questions is asked.

>>> told = Telling(stage, read(stage), read_names()).told(stage.stories[0], kinds.ORDER)     # doctest: +SKIP
>>> told.places                                                                              # doctest: +SKIP
(0, 2, 1, 3, 4)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tomserve.benchmarks.perturbed.stagefile import Questions, fill
from tomserve.benchmarks.perturbed_2.condensing import Form, chosen
from tomserve.benchmarks.perturbed_2.derive import Line, derive
from tomserve.benchmarks.perturbed_2.fresh import ordered, other_words, scope, texts
from tomserve.benchmarks.perturbed_2.retoldfile import NOTHING, Retold, commute, keys, slots
from tomserve.benchmarks.perturbed_2.stage import Stage, Story
from tomserve.benchmarks.perturbed_2.stagefile import Sentence
from tomserve.errors import InapplicableError
from tomserve.stability import kinds, order, persons, pronouns
from tomserve.stability.kinds import Kind
from tomserve.stability.rewording import WORDS, People, Things

NOT_WRITTEN = "no other telling is written for this stage"
NOT_ALL_WRITTEN = "no other telling is written for one of its sentences"
NOT_SHORTENED = "it cannot be told in 30 to 40% fewer words"
NO_THING = "no thing of the story has another word"
NO_NAMES = "there are not enough other names"
FIXED = "no sentence can change its place"

OPEN_TO_VIEW = frozenset(
    (
        *("glass", "jar", "bottle", "flask", "carafe", "vase", "window", "aquarium", "tank", "cage", "net", "basket"),
        *("bowl", "cup", "tray", "rack", "plate", "dish"),
    )
)
"""Things that one may see into by their nature. Where a story is about what a container holds, none of them takes the
place of another thing, so that the content stays as hidden as it was, and none is replaced."""

_CONTENTS = "unexpected_contents"
_TURNED = {"she": "he", "he": "she", "they": "they"}


@dataclass(frozen=True, eq=False)
class Told:
    """A story told otherwise.

    sentences: texts with slots for the labels, and their events. places: of each sentence, its place (from 0) in the
    story as it was. questions: with the same slots. asked: the person whose belief is asked for.
    """

    sentences: tuple[Sentence, ...]
    places: tuple[int, ...]
    questions: Questions
    asked: str

    @property
    def texts(self) -> list[str]:
        """The texts of the sentences."""
        return [sentence.text for sentence in self.sentences]

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """Reality and the person's belief after each sentence, derived from the events as they stand here."""
        return tuple(derive([sentence.events for sentence in self.sentences], self.asked))

    def reworded(self, change: Callable[[str], str]) -> Told:
        """The story with every text and both questions changed."""
        changed = (Sentence(texts=[change(one.text)], events=one.events) for one in self.sentences)
        asked = Questions(belief=change(self.questions.belief), reality=change(self.questions.reality))
        return replace(self, sentences=tuple(changed), questions=asked)


class Telling:
    """Tells the stories of one stage otherwise.

    retold: its sentences told otherwise, where somebody wrote them. names: to draw from, by pronoun.
    """

    def __init__(
        self, stage: Stage, retold: Retold = NOTHING, names: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self.stage, self.retold, self.names = stage, retold, names or {}
        self._drawn_names: dict[tuple[str, bool], dict[str, str]] = {}
        self._ways = {
            kinds.OBJECT: self._object,
            kinds.PERSON: self._person,
            kinds.CONDENSED: self._condensed,
            kinds.PARAPHRASE: self._paraphrase,
            kinds.ORDER: self._order,
        }

    def told(self, story: Story, kind: Kind) -> Told:
        """The story as that kind of variant tells it: one of those that need a record. Raises InapplicableError where
        the story cannot be told so."""
        return self._ways[kind](story)

    def as_it_is(self, story: Story) -> Told:
        """The story as the stage file tells it."""
        file = self.stage.file
        sentences = tuple(story.sentences.values())
        questions = file.tasks[story.task].questions or file.questions
        return Told(sentences, tuple(range(len(sentences))), questions, file.asked(story.task))

    def _drawn(self, options: Iterable[str], *key: str) -> list[str]:
        return ordered(options, "variant", self.stage.file.stage, *key)

    # Other things

    @cached_property
    def other_things(self) -> dict[str, tuple[list[str], set[str | None]]]:
        """By each thing of the stage that may get another word: these words, and the tasks in which it gets one."""
        file, found = self.stage.file, {}
        for word in file.words:
            others = [other for other, reason in other_words(file, word).items() if reason is None]
            if file.kind == _CONTENTS:
                others = [] if word in OPEN_TO_VIEW else [one for one in others if one not in OPEN_TO_VIEW]
            if others:
                found[word] = others, scope(file, word)
        return found

    def _object(self, story: Story) -> Told:
        told = self.as_it_is(story)
        new: dict[str, str] = {}
        for word, (others, tasks) in self.other_things.items():
            if story.task in tasks:
                options = self._drawn(others, story.task, "object", word)
                new[word] = next((one for one in options if one not in new.values()), options[0])
        things = Things(new)
        if not any(map(things.occurs, told.texts)):
            raise InapplicableError(NO_THING)
        return told.reworded(things.replaced)

    # Other persons

    @cached_property
    def _pools(self) -> dict[str, list[str]]:
        """Names by pronoun, without those that stand somewhere in the stage."""
        prose = " ".join(text for _, _, text in texts(self.stage.file)).casefold()
        pools = self.names.items()
        return {pronoun: [name for name in pool if name.casefold() not in prose] for pronoun, pool in pools}

    def _person(self, story: Story) -> Told:
        told = self.as_it_is(story)
        mirrored, told = self._mirrored(told)
        names = self._other_names(story.task, mirrored=mirrored)
        people = People(names)
        changed = told.reworded(people.replaced)
        sentences = tuple(
            Sentence(texts=one.texts, events=[people.replaced(event) for event in one.events])
            for one in changed.sentences
        )
        return replace(changed, sentences=sentences, asked=names[told.asked])

    def _mirrored(self, told: Told) -> tuple[bool, Told]:
        """The story with every "he" turned to "she" and the other way round, and True; as it is, and False, where a
        word besides pronouns says that somebody is a man or a woman, or the form of a pronoun cannot be told."""
        said = [*told.texts, told.questions.belief, told.questions.reality]
        turned = {text: pronouns.mirrored(text) for text in said}
        if None in turned.values() or any(persons.GENDERED.search(text) for text in said):
            return False, told
        return True, told.reworded(lambda text: turned[text] or text)

    def _other_names(self, task: str, *, mirrored: bool) -> dict[str, str]:
        """Another name for each person, with an initial that nobody has where that can be had."""
        if (found := self._drawn_names.get((task, mirrored))) is not None:
            return found
        found, people = {}, self.stage.file.people
        for person, pronoun in people.items():
            pool = self._pools.get(_TURNED[pronoun] if mirrored else pronoun, [])
            if not (free := [name for name in pool if name not in found.values()]):
                raise InapplicableError(NO_NAMES)
            options = self._drawn(free, task, "person", person)
            initials = {name[0] for name in (*people, *found.values())}
            found[person] = next((name for name in options if name[0] not in initials), options[0])
        self._drawn_names[task, mirrored] = found
        return found

    # Other words, and fewer

    def _paraphrase(self, story: Story) -> Told:
        told = self.as_it_is(story)
        wordings = []
        for key, sentence in zip(keys(self.stage, story.task, story.version), told.sentences, strict=True):
            own = self.retold.sentences.get(key)
            other = own.other if own is not None and own.other else next(iter(sentence.texts[1:]), None)
            if other is None:
                raise InapplicableError(NOT_ALL_WRITTEN if self.retold.sentences else NOT_WRITTEN)
            wordings.append(Sentence(texts=[other], events=sentence.events))
        return replace(told, sentences=tuple(wordings))

    def _condensed(self, story: Story) -> Told:
        told = self.as_it_is(story)
        if (wordings := chosen(self.forms(story))) is None:
            raise InapplicableError(NOT_SHORTENED)
        left = [(place, text) for place, text in enumerate(wordings) if text]
        sentences = (Sentence(texts=[text], events=told.sentences[place].events) for place, text in left)
        return replace(told, sentences=tuple(sentences), places=tuple(place for place, _ in left))

    def forms(self, story: Story) -> list[Form]:
        """Each sentence with its short form. What matters least is scenery that may be left out; then come sentences
        without labels and events, those without events, all others. Raises InapplicableError where one has none."""
        forms = []
        for key, sentence in zip(keys(self.stage, story.task, story.version), story.sentences.values(), strict=True):
            if (own := self.retold.sentences.get(key)) is None:
                raise InapplicableError(NOT_ALL_WRITTEN if self.retold.sentences else NOT_WRITTEN)
            matters = 3 if sentence.events else 2 if slots(sentence.text) else int(own.short != "")
            forms.append(Form(sentence.text, own.short, matters))
        return forms

    # Another order

    def _order(self, story: Story) -> Told:
        told = self.as_it_is(story)
        by_rule, names = self._movable(told), list(story.sentences)
        places = [
            place
            for place in range(len(names) - 1)
            if place in by_rule or self.retold.may_change(story, *names[place : place + 2])
            if commute(self.stage, story, place)
        ]
        if not places:
            raise InapplicableError(FIXED)
        new = order.exchanged(len(told.places), order.chosen(places))
        return replace(told, sentences=tuple(told.sentences[place] for place in new), places=new)

    def _movable(self, told: Told) -> list[int]:
        """Places of sentences that may change theirs with the next, as far as a rule can tell from the text.

        One of the two must tell how things are and speak of no person: who is where and does what, and so who may see
        it, is not in the events, so that other sentences keep their order.
        """
        labels = self.stage.file.labels
        said = [fill(text, labels, told.asked) for text in told.texts]
        known = {word for slot in labels.values() for form in slot.forms().values() for word in order.content(form)}
        free = order.swaps(said, known if self.stage.file.kind == _CONTENTS else ())
        still = [self._still(text) for text in said]
        return [
            place
            for place in free
            if (still[place] or still[place + 1])
            and not _lets_see(*told.sentences[place : place + 2])
            and not _introduced(said[:place], said[place + 1])
        ]

    def _still(self, text: str) -> bool:
        """Whether a sentence says how things are, without any person."""
        if _SAYS.search(text) or pronouns.PRONOUN.search(text) or persons.PERSON.search(text):
            return False
        named = set(WORDS.findall(re.sub(r"['’]s\b", "", text)))
        return _IS.search(text) is not None and named.isdisjoint(self.stage.file.people)


_IS = re.compile(r"\b(?:is|are|was|were|stands?|stood|hangs?|hung|lies?|lay|holds?|held|contains?|contained)\b", re.I)
"""Verbs of sentences that tell how things are."""

_SAYS = re.compile(
    r"[\"“”]|\b(?:they|them|their|who|whose|nobody|somebody|everybody|everyone|no one|dark|light)\b", re.I
)
"""What makes a sentence tell of somebody's words or deeds all the same, or of what can be seen."""

_THE = re.compile(r"\bthe\s+(?:[\w’'-]+\s+)?([\w’'-]+)", re.I)


def _introduced(before: Sequence[str], text: str) -> bool:
    """Whether a sentence speaks of "the lid" or the like of which no sentence before has spoken."""
    told = set(WORDS.findall(" ".join(before).lower()))
    return any(told.isdisjoint(WORDS.findall(match[0].lower())[1:]) for match in _THE.finditer(text))


def _lets_see(first: Sentence, second: Sentence) -> bool:
    """Whether somebody perceives something in one of two sentences, and the other has no events: what is so there may
    let somebody see, or keep somebody from it."""
    without, seen = not (first.events and second.events), (*first.events, *second.events)
    return without and any(event.split(" ", 1)[0] in _PERCEIVING for event in seen)


_PERCEIVING = frozenset(("see", "view", "read", "tell", "hear"))
