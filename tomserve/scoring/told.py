"""The sentences of a text with the choices that they assert: what a text concludes, and what it says as a statement.

A sentence asserts the choices that it names, but for denied ones, those in clauses about who moved what, and those in
asides: in brackets, or in a clause that begins with "although", "because" and the like.

    >>> told = Told(["So Ann thinks of the red box, although it is in the blue box."], ("red box", "blue box"), None)
    >>> told.concluded()
    'red box'
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from tomserve.scoring.cues import (
    ASIDE,
    BELIEF,
    CLAUSE,
    COMMON,
    DOUBT,
    FROM,
    INNER,
    MOVED,
    NEGATION,
    REALLY,
    RECAP,
    TAKEN_BACK,
    THEREFORE,
    WORD,
    stem,
)
from tomserve.scoring.mentions import Mention, mentions
from tomserve.scoring.statements import sentences

class Told:
    """The sentences of a text, each with the choices that it asserts: those that it names, but for denied ones and
    those in asides ("although it was moved to ...")."""

    def __init__(self, lines: Sequence[str], choices: Sequence[str], question: str | None) -> None:
        self.choices, self.question, self.lines = choices, question, lines
        joined: list[str] = []
        for line in lines:
            if (
                joined
                and re.search(r"(?::|\b(?:in|is|the|think|thinks|at))$", joined[-1])
                and named_first(line, choices)
            ):
                joined[-1] = f"{joined[-1]} {line}"  # "Therefore, it is in:" and the choice in a line of its own
            else:
                joined.append(line)
        self.sentences = [one for line in joined for one in sentences(line)]
        self.of_reality = question is None or bool(REALLY.search(question)) or not BELIEF.search(question)

    def concluded(self) -> str | None:
        """The choice of the last sentence that concludes something of one choice."""
        for place in range(len(self.sentences) - 1, -1, -1):
            sentence = self.sentences[place]
            if THEREFORE.match(sentence) is None:
                inner = list(INNER.finditer(sentence))
                if not inner:
                    continue
                sentence = sentence[inner[-1].end() :]
            if not mentions(sentence, self.choices):
                continue
            label = None if self.doubted(sentence) else self.asserted(sentence)
            return label if label is not None and self._stands(place, label) else None
        return None

    def echoed(self) -> str | None:
        """The choice of the sentences that say the question as a statement, where they all say the same one.

        Such a sentence has the names of the question in order, and a verb of belief where the question has one; a
        question about one person may be answered by "she", and one about nobody has to be said word by word.
        """
        if self.question is None:
            return None
        words = WORD.findall(self.question)
        names = [stem(word) for word in words[1:] if word[0].isupper() and word.casefold() not in COMMON]
        others = {stem(word) for word in words if word.casefold() not in COMMON} - set(names)
        others = {word for word in others if not any(word in choice.casefold() for choice in self.choices)}
        believes = BELIEF.search(self.question) is not None
        said: dict[int, str | None] = {}
        for place, sentence in enumerate(self.sentences):
            if REALLY.search(sentence) and not self.of_reality:
                continue
            if not mentions(sentence, self.choices) or (believes and not BELIEF.search(sentence)):
                continue
            told = list(map(stem, WORD.findall(sentence)))
            words_told = iter(told)
            by_name = all(name in words_told for name in names) and (bool(names) or others <= set(told))
            by_pronoun = len(names) == 1 and bool({"he", "she", "they"} & set(told)) and others <= set(told)
            if (by_name or by_pronoun) and (names or others):
                said[place] = None if self.doubted(sentence) else self.asserted(sentence)
        if not said or len(set(said.values())) != 1:
            return None
        (place, label) = list(said.items())[-1]
        return label if label is not None and (place == 0 or self._stands(place, label)) else None

    def doubted(self, sentence: str) -> bool:
        """Whether a sentence doubts or asks, apart from the words of the choices themselves."""
        return any(DOUBT.search(bare) for bare, _, _ in self._clauses(sentence))

    def _stands(self, place: int, label: str) -> bool:
        """Whether what follows a sentence leaves its choice standing: it asserts no other, or only explains."""
        for later in range(place + 1, len(self.sentences)):
            sentence = self.sentences[later]
            if TAKEN_BACK.search(sentence):
                return False
            if RECAP.match(sentence):
                return True
            if sentence.startswith("(") or (REALLY.search(sentence) and not self.of_reality):
                continue
            if self._kept(sentence) - {label}:
                return False
        return True

    def asserted(self, sentence: str) -> str | None:
        """The one choice that a sentence asserts, None where it asserts none or several."""
        kept = self._kept(sentence)
        return next(iter(kept)) if len(kept) == 1 else None

    def _kept(self, sentence: str) -> set[str | None]:
        """The choices that a sentence names outside of asides, denials and clauses about who moved what."""
        kept: set[str | None] = set()
        for bare, clause, here in self._clauses(sentence):
            if here and not NEGATION.search(bare) and (not MOVED.search(clause) or BELIEF.search(clause)):
                kept |= here
        return kept

    def _clauses(self, sentence: str) -> Iterator[tuple[str, str, set[str | None]]]:
        """The clauses of a sentence that are no asides: without the words of choices, with them, and these choices.

        Of "from the red box to the blue box" only the second is counted.
        """
        named = mentions(sentence, self.choices)
        inside = [one for one in CLAUSE.finditer(sentence) if not any(n.start <= one.start() < n.end for n in named)]
        ends = [0, *(one.start() for one in inside), len(sentence)]
        for start, end in pairwise(ends):
            clause = sentence[start:end].lstrip(",;:) ")
            if start and ASIDE.match(clause):
                continue
            here = [one for one in named if start <= one.start < end]
            if len(here) > 1 and FROM.search(sentence[start : here[0].start]):
                here = here[1:]
            yield without(sentence, start, end, named), clause, {one.choice for one in here}


def without(sentence: str, start: int, end: int, named: Sequence[Mention]) -> str:
    """A part of a sentence without the words of the choices in it, which may hold a "not" themselves."""
    parts, place = [], start
    for one in named:
        if start <= one.start < end:
            parts.append(sentence[place : one.start])
            place = min(one.end, end)
    return " ".join((*parts, sentence[place:end]))


def named_first(line: str, choices: Sequence[str]) -> bool:
    """Whether a line begins with a choice, with at most an article or the like before it."""
    named = mentions(line, choices)
    return bool(named) and len(WORD.findall(line[: named[0].start])) < 2
