"""Check whether a stage can be told anew safely: names, words and wordings that a fresh edition would spoil.

    tomserve generate perturbed-2 --check

Names and things are replaced as whole words, by rule. What a rule cannot decide is a problem, named with file, line and
field, so that an author mends the sentence or takes the word out of `words`: a thing that is also a verb ("she
watches"), that is part of a longer word or of a label, that is written like a name, or whose other word stands in the
same task already; a name that is an ordinary word, too; wordings of one sentence that name different labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from tomserve.benchmarks.perturbed.stagefile import SLOT
from tomserve.benchmarks.perturbed_2.fresh import Place, other_words, scope, sentences, texts
from tomserve.benchmarks.perturbed_2.stage import Stage
from tomserve.benchmarks.perturbed_2.validate import WORDS_A_SENTENCE
from tomserve.errors import ContentError
from tomserve.stability.rewording import Found, Things, as_verbs, looks_plural, made_of, within


def problems(stage: Stage) -> list[ContentError]:
    """All that would go wrong in a fresh edition of the stage, each with file, line and field; sorted by line."""
    found = [
        ContentError(reason, path=stage.path, line=stage.lines.at(place), field=".".join(map(str, place)))
        for place, reason in dict.fromkeys(_Checker(stage).problems())
    ]
    return sorted(found, key=lambda problem: problem.line or 0)


def of_word(stage: Stage, word: str) -> list[str]:
    """All that would go wrong where a thing of the stage got each of its other words: the reasons alone."""
    return list(dict.fromkeys(reason for _, reason in _Checker(stage).word(word, other_words(stage.file, word))))


Problem = tuple[Place, str]

_FROM_NAMES = r"(?:e?s|ish|\w?(?:y|ie)|it[ao])"
"""Endings of words that are made of a name, such as "Sammy"; Annecy is not made of Ann."""


class _Checker:
    """Yields the problems of a stage as pairs of a place in the file and a reason."""

    def __init__(self, stage: Stage) -> None:
        self.file = stage.file
        self.texts = list(texts(stage.file))

    def problems(self) -> Iterator[Problem]:
        yield from self.labels()
        for word in self.file.words:
            yield from self.word(word, other_words(self.file, word))
        for name in self.file.people:
            yield from self.name(name)
        for name, task in self.file.tasks.items():
            for place, sentence in sentences(task, ("tasks", name)):
                yield from self.wordings(place, sentence.texts)

    @cached_property
    def forms(self) -> list[str]:
        """Every form of every label, spare ones too."""
        pairs = [self.file.labels, *self.file.spare]
        return [form for pair in pairs for slot in pair.values() for form in slot.forms().values()]

    def labels(self) -> Iterator[Problem]:
        if not self.file.spare:
            yield ("labels",), "there are no `spare` pairs, so that a fresh edition would have the same labels"
        several = {looks_plural(slot.label) for slot in self.file.labels.values()}
        for number, pair in enumerate(self.file.spare):
            for slot in pair.values():
                if {looks_plural(slot.label)} != several:
                    yield ("spare", number), f"{slot.label!r} and the stage's labels are not all singular or all plural"

    def word(self, word: str, others: Mapping[str, str | None]) -> Iterator[Problem]:
        """What is wrong with replacing one thing by each of its other words."""
        here: Place = ("words", word)
        things = Things({word: word})
        told = [one for one in self.texts if one[1] in scope(self.file, word)]
        where = [(place, task, text) for place, task, text in told if things.occurs(text)]
        if not where:
            yield here, f"{word!r} stands in no sentence"
        if all(others.values()):
            said = "; ".join(f"{other!r} {reason}" for other, reason in others.items())
            yield here, f"there is no other word that can be used: {said or 'none is given'}"
        if clash := next((form for form in self.forms if within(word, form)), None):
            yield here, f"{word!r} is part of the label {clash!r}, which would stay"
        tasks = {task for _, task, _ in where}
        for place, task, text in told:
            if task not in tasks and None not in tasks:
                continue
            for found in self._unsafe(text, word):
                yield place, f"{found.reason}; mend the sentence, or leave {word!r} out of `words`"

    def _unsafe(self, text: str, word: str) -> Iterator[Found]:
        yield from as_verbs(text, word, self.file.people)
        yield from made_of(text, word)

    def name(self, name: str) -> Iterator[Problem]:
        """What is wrong with replacing the name of one person."""
        stem = re.escape(name)
        for place, _, text in self.texts:
            if match := re.search(rf"(?<!\w)({re.escape(name.lower())}|{re.escape(name.upper())})(?!\w)", text):
                yield place, f"{match[0]!r} would stay although {name!r} is a person's name; use another word or name"
            elif (match := re.search(rf"(?<!\w){stem}{_FROM_NAMES}(?!\w)", text)) and match[0] not in self.file.people:
                yield place, f"{match[0]!r} is made of the name {name!r} and would stay; use another word or name"
        if clash := next((form for form in self.forms if within(name, form)), None):
            yield ("people", name), f"the name {name!r} is part of the label {clash!r}, which would stay"

    def wordings(self, place: Place, wordings: Sequence[str]) -> Iterator[Problem]:
        """Whether all wordings of a sentence name the same labels and people, and none is too long."""
        first = _named(wordings[0])
        for number, text in enumerate(wordings[1:], 1):
            if _named(text) != first:
                shown = " and ".join(sorted(first)) or "no label"
                yield (*place, number), f"the wordings name different labels; the first names {shown}"
            if len(text.split()) > WORDS_A_SENTENCE:
                yield (*place, number), f"{len(text.split())} words, expected at most {WORDS_A_SENTENCE}"


def _named(text: str) -> set[str]:
    return {match[0] for match in SLOT.finditer(text)}


def unused(stage: Stage) -> Iterator[str]:
    """A line for each of the stage's other words that fresh editions do not use, and why."""
    for word in stage.file.words:
        for other, reason in other_words(stage.file, word).items():
            if reason is not None:
                yield f"{stage.path}:{stage.lines.at(('words', word))}: {other!r} is not used for {word!r}: it {reason}"
