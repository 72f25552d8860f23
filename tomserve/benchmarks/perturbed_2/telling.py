"""The stories of a stage told otherwise: with other names, things or wordings, in fewer words or in another order.

What is drawn depends on the stage, the class and what is drawn alone, so that a story is told otherwise in the same way
everywhere, whichever of its questions is asked.

>>> told = Telling(stage, read(stage), read_names()).told(stage.stories[0], kinds.ORDER)     # doctest: +SKIP
>>> told.places                                                                              # doctest: +SKIP
(0, 2, 1, 3, 4)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from tomserve.benchmarks.perturbed.stagefile import Questions, fill
from tomserve.benchmarks.perturbed_2.condensing import Form, chosen
from tomserve.benchmarks.perturbed_2.derive import Line, derive
from tomserve.benchmarks.perturbed_2.fresh import Names, ordered, other_words, scope, texts
from tomserve.benchmarks.perturbed_2.retoldfile import Retold, keys, slots
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
    "glass jar bottle flask carafe vase window aquarium tank cage net basket bowl cup tray rack plate dish".split()
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

    retold: its sentences told otherwise, empty where nobody wrote them. names: to draw from, by pronoun.
    """

    def __init__(self, stage: Stage, retold: Retold, names: Names) -> None:
        self.stage, self.retold, self.names = stage, retold, names
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
    def _words(self) -> dict[str, tuple[list[str], set[str | None]]]:
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
        for word, (others, tasks) in self._words.items():
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
        pools = self.names.pools().items()
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
            pool = self._pools[_TURNED[pronoun] if mirrored else pronoun]
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
            own = self.retold.get(key)
            other = own.other if own is not None and own.other else next(iter(sentence.texts[1:]), None)
            if other is None:
                raise InapplicableError(NOT_ALL_WRITTEN if self.retold else NOT_WRITTEN)
            wordings.append(Sentence(texts=[other], events=sentence.events))
        return replace(told, sentences=tuple(wordings))

    def _condensed(self, story: Story) -> Told:
        told, forms = self.as_it_is(story), []
        for key, sentence in zip(keys(self.stage, story.task, story.version), told.sentences, strict=True):
            if (own := self.retold.get(key)) is None:
                raise InapplicableError(NOT_ALL_WRITTEN if self.retold else NOT_WRITTEN)
            matters = 3 if sentence.events else 2 if slots(sentence.text) else bool(own.short)
            forms.append(Form(sentence.text, own.short, int(matters)))
        if (wordings := chosen(forms)) is None:
            raise InapplicableError(NOT_SHORTENED)
        left = [(place, text) for place, text in enumerate(wordings) if text]
        sentences = (Sentence(texts=[text], events=told.sentences[place].events) for place, text in left)
        return replace(told, sentences=tuple(sentences), places=tuple(place for place, _ in left))

    # Another order

    def _order(self, story: Story) -> Told:
        told = self.as_it_is(story)
        places = [place for place in self._movable(told) if _commute(told, place)]
        new = order.exchanged(len(told.places), order.chosen(places))
        if list(new) == sorted(new):
            raise InapplicableError(FIXED)
        return replace(told, sentences=tuple(told.sentences[place] for place in new), places=new)

    def _movable(self, told: Told) -> tuple[int, ...]:
        """Places of sentences that may change theirs with the next, as far as the text goes.

        A pronoun leans on nothing where only one person of the story has it: there the person's name stands for it.
        """
        labels = self.stage.file.labels
        said = [fill(text, labels, told.asked) for text in told.texts]
        named = set(WORDS.findall(" ".join(said).replace("'s", "").replace("’s", "")))
        about = {name for name in self.stage.file.people if name in named}
        known = {form.lower() for slot in labels.values() for form in slot.forms().values()}
        return order.swaps(self._named(said, about), known if self.stage.file.kind == _CONTENTS else ())

    def _named(self, said: list[str], about: set[str]) -> list[str]:
        """The sentences with a name for each pronoun that can be only one person's. about: whom the story names."""
        people = self.stage.file.people
        if {people[name] for name in about} - {"she", "he"} or any(persons.PERSON.search(text) for text in said):
            return said
        for pronoun, forms in (("she", "she|her|hers|herself"), ("he", "he|him|his|himself")):
            if len(bearers := [name for name in about if people[name] == pronoun]) == 1:
                said = [re.sub(rf"\b(?:{forms})\b", bearers[0], text, flags=re.I) for text in said]
        return said


def _commute(told: Told, place: int) -> bool:
    """Whether the sentence at that place and the next may change places: after both, and from there on, reality and the
    belief must be the same."""
    turned = list(told.sentences)
    turned[place], turned[place + 1] = turned[place + 1], turned[place]
    try:
        after = replace(told, sentences=tuple(turned)).lines
    except ValueError:  # such as a mechanism that runs before it is set
        return False
    return [_labels(line) for line in after[place + 1 :]] == [_labels(line) for line in told.lines[place + 1 :]]


def _labels(line: Line) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return line.world.labels, line.belief.labels
