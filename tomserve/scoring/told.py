"""The sentences of a text with the choices that they assert: what a text concludes, and what it says as a statement.

A sentence asserts the choices that it names, but for denied ones, those in clauses about who moved what or about what
was so before, and those in asides: in brackets, or in a clause that begins with "although", "because" and the like. A
sentence that doubts, asks or supposes ("if she were ...") asserts nothing.

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
    GIVEN_UP,
    INNER,
    MOVED,
    NECESSARY,
    NEGATION,
    NOT_BUT,
    ONLY,
    PAST,
    REALLY,
    RECAP,
    SUPPOSED,
    TAKEN_BACK,
    THEREFORE,
    TURN,
    WORD,
)
from tomserve.scoring.mentions import LETTER, Mention, mentions
from tomserve.scoring.statements import sentences
from tomserve.scoring.subjects import Question

_WAS = re.compile(r"\b(?:was|were|did|had)\b", re.I)
_ASKING = re.compile(r"(?P<head>[^?]{2,120}\?)(?: ?[:\u2192-])?[ ]?(?P<rest>.*)$")
_HEAD = re.compile(r"(?P<head>[^:\u2192=]{2,60}?)[ ]?(?::|\u2192|[=-]>|\u21d2|\s[\u2013\u2014-])[ ](?P<rest>.+)$")
_THEN = re.compile(
    r",? (?:then|it is|(?:is|are) (?:what|where)\b.{0,60}\b(?:think|believ|expect|look|will|would)\w*)\b", re.I
)
_OPEN_END = re.compile(r"(?::|\b(?:in|is|the|think|thinks|at))$")


class Told:
    """The sentences of a text, each with the choices that it asserts."""

    def __init__(self, lines: Sequence[str], choices: Sequence[str], question: str | None) -> None:
        self.choices, self.lines = choices, lines
        self.asked = Question(question, choices)
        joined: list[str] = []
        for line in lines:
            if joined and _OPEN_END.search(joined[-1]) and named_first(line, choices):
                joined[-1] = f"{joined[-1]} {line}"  # "Therefore, it is in:" and the choice in a line of its own
            else:
                joined.append(line)
        told = (part for line in joined for one in sentences(line) for part in one.split("; "))
        self.sentences = [NOT_BUT.sub("", ONLY.sub("only", one)) for one in told if one]

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
            if self.asked.of_others(sentence):
                continue
            label = None if self.doubted(sentence) else self.asserted(sentence)
            return label if label is not None and self._stands(place, label) else None
        return None

    def echoed(self) -> str | None:
        """The choice of the sentences that say the question as a statement, where they all say the same one."""
        said: dict[int, str | None] = {}
        for place, sentence in enumerate(self.sentences):
            named = mentions(sentence, self.choices)
            if not named or not self.asked.said_in(sentence, named[0].start):
                continue
            if SUPPOSED.search(sentence) or (REALLY.search(sentence) and not self.asked.of_reality):
                continue
            said[place] = None if self.doubted(sentence) else self.asserted(sentence)
        if not said or len(set(said.values())) != 1:
            return None
        (place, label) = list(said.items())[-1]
        return label if label is not None and (place == 0 or self._stands(place, label)) else None

    def headed(self) -> str | None:
        """The choice that stands under a heading, or after a question, that asks the same as the question itself.

        Such as "Ann's belief: the red box" or "So where does she look? In the red box."; all of them have to agree.
        """
        found: set[str | None] = set()
        for place, sentence in enumerate(self.sentences):
            head = _ASKING.match(sentence) or _HEAD.match(sentence)
            if head is None or not self.asked.restated(head["head"]):
                continue
            rest = head["rest"] or (self.sentences[place + 1] if place + 1 < len(self.sentences) else "")
            if mentions(rest, self.choices) and not self.doubted(rest):
                found.add(self.asserted(rest))
        return next(iter(found)) if len(found) == 1 else None

    def settled(self) -> str | None:
        """The choice of the last sentence that answers the question in its own words, such as "she will look there".

        Where earlier ones answered otherwise, the last one has to conclude, or something between has to turn ("but").
        """
        found: list[tuple[int, str]] = []
        for place, sentence in enumerate(self.sentences):
            label = self._answers(place)
            if label is not None:
                found.append((place, label))
            elif found and TAKEN_BACK.search(sentence) and not mentions(sentence, self.choices):
                found.clear()
        if not found:
            return None
        place, label = found[-1]
        others = [earlier for earlier, other in found if other != label]
        if others and not (_decides(self.sentences[place]) or self._turns(others[-1], place + 1)):
            return None
        for given_up, sentence in enumerate(self.sentences):
            bare = without(sentence, 0, len(sentence), mentions(sentence, self.choices))
            if GIVEN_UP.search(bare) and not (given_up < place and self._turns(given_up + 1, place + 1)):
                return None
        return label

    def doubted(self, sentence: str) -> bool:
        """Whether a sentence doubts or asks, apart from the words of the choices themselves."""
        return "(wrong)" in sentence or any(DOUBT.search(bare) for bare, _, _ in self._clauses(sentence))

    def _answers(self, place: int) -> str | None:
        """The choice that a sentence gives as an answer to the question; None where it answers something else."""
        sentence = self.sentences[place]
        named = mentions(sentence, self.choices)
        if not named or sentence.startswith("(") or SUPPOSED.search(sentence) or self.doubted(sentence):
            return None
        if REALLY.search(sentence) and not self.asked.of_reality and not BELIEF.search(sentence):
            return None
        label = self.asserted(sentence)
        if label is None:
            return None
        one = next(one for one in named if one.choice == label)
        start = one.start
        if one.by == LETTER and start < 3 and len(WORD.findall(sentence[one.end :])) > 2:
            return None  # "A. First, ..." is a list
        lead = sentence[:start]
        if inner := list(INNER.finditer(lead)):
            lead = lead[inner[-1].end() :]
        alone = _plain(lead) and (
            not WORD.search(sentence, named[-1].end) or _THEN.match(sentence, one.end) is not None
        )
        decides = alone or _decides(sentence)
        return label if self.asked.about(lead, decides) else None

    def _turns(self, start: int, end: int) -> bool:
        return any(TURN.search(sentence) for sentence in self.sentences[start:end])

    def _stands(self, place: int, label: str) -> bool:
        """Whether what follows a sentence leaves its choice standing: it asserts no other, or only explains."""
        for later in range(place + 1, len(self.sentences)):
            sentence = self.sentences[later]
            if TAKEN_BACK.search(sentence):
                return False
            if RECAP.match(sentence):
                return True
            if sentence.startswith("(") or (REALLY.search(sentence) and not self.asked.of_reality):
                continue
            if self._kept(sentence) - {label} and not self.asked.of_others(sentence):
                return False
        return True

    def asserted(self, sentence: str) -> str | None:
        """The one choice that a sentence asserts, None where it asserts none or several."""
        kept = self._kept(sentence)
        return next(iter(kept)) if len(kept) == 1 else None

    def _kept(self, sentence: str) -> set[str | None]:
        """The choices that a sentence names outside of asides, denials, and clauses about who moved or saw what."""
        kept: set[str | None] = set()
        if "(wrong)" in sentence:
            return kept
        for bare, clause, here in self._clauses(sentence):
            if not here or NEGATION.search(bare):
                continue
            believes = BELIEF.search(clause)
            if MOVED.search(clause) and not believes:
                continue
            if not self.asked.of_past and not believes and PAST.search(clause):
                continue
            kept |= here
        return kept

    def _clauses(self, sentence: str) -> Iterator[tuple[str, str, set[str | None]]]:
        """The clauses of a sentence that are no asides: without the words of choices, with them, and these choices.

        Of "from the red box to the blue box" only the second is counted. What stands after a colon is no aside.
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


def _plain(lead: str) -> bool:
    """Whether the words before a choice are common ones that say nothing of the past, such as "it is in the"."""
    return all(word.casefold() in COMMON for word in WORD.findall(lead)) and not _WAS.search(lead)


def _decides(sentence: str) -> bool:
    """Whether a sentence concludes or settles something."""
    return bool(THEREFORE.match(sentence) or INNER.search(sentence) or NECESSARY.search(sentence))


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
