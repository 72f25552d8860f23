"""Find the answer in free prose that never says "the answer is ...": by what its sentences assert about the question.

These forms (rungs) are tried where a text holds no JSON and states no answer (see tomserve.scoring.statements). Of
the first four all that find a choice must find the same one; each of the others is tried where those above find none.

| rung      | the text                                                                                              |
|-----------|-------------------------------------------------------------------------------------------------------|
| first     | begins with a choice ("B. blue_box", "blue_box because ...", "B" alone in its line), then explains it   |
| last      | ends with one, in a line or sentence of its own, or at the beginning of the last line                   |
| concluded | has a last sentence "Therefore, ..." (thus, so, hence, ...) that asserts one choice alone, without      |
|           | doubt; what follows it asserts no other choice, or only explains                                        |
| echoed    | says the question as a statement ("Ann thinks that Bo thinks the pen is in the blue box")               |
| headed    | has it below a heading or question that asks the same ("Ann's belief: blue box")                         |
| settled   | has a last sentence that answers the question in words of its own ("she would look in the blue box")     |
| sole      | names one choice alone, be it several times, and holds no negation, doubt, condition, question, apology  |

What stands in brackets or in a clause that begins with "although", "because" and the like is an aside and asserts
nothing; nor does a sentence that supposes ("if she were ...", "one might think"). Of a text that breaks off in the
middle only the beginning is read. Where a choice says that one cannot know ("unknown", "not enough information"),
other words for that name it.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from tomserve.scoring.labels import BOTH, LETTER, WORDS, LetteredChoices, Mention, find_mentions, match_label
from tomserve.scoring.statements import (
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
    plain_lines,
    sentences,
    stem,
    strip_bullet,
)

_PERSON = re.compile(r"(?<![\w'\u2019])[A-Z][a-z]+(?:-[A-Z][a-z]+)?(?!\w)")
_OPENER = re.compile(
    r"\W*(?:[A-Z][a-z]+)(?=(?:['\u2019]s)?,? (?:\w+ly )?(?:is|was|has|had|would|will|did|does|thinks?|believes?|knows?|"
    r"expects?|saw|left|moved|told|\w+s\b|\w+ed\b))"
)
_PRONOUNS = frozenset(("he", "she", "they", "it", "his", "her", "their", "there", "him", "them", "i", "one"))
# fmt: off
_NO_NAMES = frozenset((
    "so", "thus", "hence", "therefore", "then", "now", "since", "because", "but", "and", "although", "while", "when",
    "after", "before", "if", "as", "however", "finally", "also", "yes", "no", "this", "that", "these", "those", "it",
    "there", "he", "she", "they", "his", "her", "their", "its", "what", "who", "where", "which", "nobody", "everyone",
    "everybody", "someone", "somebody", "nothing", "everything", "both", "all", "let", "here", "step", "answer", "the",
    "option", "choice", "once", "only", "still", "given", "based", "according", "later", "meanwhile", "first", "next",
    "last", "lastly", "second", "third", "final", "conclusion", "reality", "belief", "consequently", "accordingly",
    "ultimately", "overall", "well", "okay", "ok", "hmm", "wait", "actually", "in", "at", "on", "from", "to", "by",
    "is", "does", "did", "would", "not", "even", "just", "maybe", "perhaps", "likewise", "label", "contents",
))
# fmt: on
"""Words that begin a sentence and are no names, though a verb may follow them."""
_ANSWER_HEAD = re.compile(
    r"(?i)\W*(?:(?:the|my|so|final|short|predicted|expected|likely|most|correct|overall|in)\W+){0,3}(?:answer"
    r"|emotion|feelings?|mood|action"
    r"|prediction|behaviou?r|conclusions?|verdict|result|decision|choice|pick|tl;?dr|short|bottom line|summary"
    r"|motive|reaction)\W*"
)
_HEAD_WORDS = frozenset(map(stem, (
    "step", "belief", "perspective", "view", "mind", "current", "answer", "so", "now", "what", "contents", "location",
)))  # fmt: skip
_KIN = re.compile(
    r"(?i)(?:\b(?:his|her|their|the|my|an?) |^\W*)(?P<kin>aunt|uncle|mother|father|mom|mum|dad|brother|sister"
    r"|friend|neighbou?r"
    r"|teacher|boss|grand(?:ma|pa|mother|father)|cousin|wife|husband|colleague|son|daughter|narrator|reader|author"
    r"|(?:label|lid|sticker|picture|sign)(?= (?:says?|said|reads?|shows?|suggests?|claims?)))s?\b"
)
"""Who or what may believe or say something without a name; a question about them names them, too."""

_REALITY = re.compile(r"\b(?:reality|real|really|fact|truth|true|actual|actually|label|contents?)\b", re.I)
_MODAL = re.compile(r"\b(?:will|would|\w+['\u2019](?:d|ll)|goes|going to|has to|must|should)\b", re.I)
_THEN_WORDS = re.compile(r"\b(?:before|at first|initially|originally|at the (?:beginning|start)|was|were|did)\b", re.I)


class QuestionTerms:
    """A question: the names in it, its other telling words, and whether it is about a belief, reality or the past.

    names: the stems of the names, in order. others: the stems of its other words, without common ones and those of the
    choices. believes: whether it asks for what somebody thinks, knows, expects or the like. of_reality: whether it asks
    what is really so. of_past: whether it asks what was so. of_who: whether it asks for a person.
    """

    def __init__(self, text: str | None, choices: Sequence[str]) -> None:
        self.known = text is not None
        asked = sentences(text.strip())[-1] if text else ""
        words = WORD.findall(asked)
        later = words[1:] if asked.endswith("?") or (words and words[0].casefold() in COMMON) else words
        self.names = [stem(word) for word in later if word[0].isupper() and word.casefold() not in COMMON]
        others = {stem(word) for word in words if word.casefold() not in COMMON} - set(self.names)
        self.others = {word for word in others if not any(word in choice.casefold() for choice in choices)}
        self.own = {stem(word) for word in words} - {"the", "that", "is", "and", "of", "to", "in", "a"}
        self.stems = {stem(word) for word in words} | {stem(word) for word in COMMON}
        self.of_choices = {stem(word) for choice in choices for word in WORD.findall(choice)}
        self.believes = BELIEF.search(asked) is not None
        self.of_reality = text is None or bool(REALLY.search(asked)) or not self.believes
        self.of_who = bool(re.match(r"\W*who\b", asked, re.I))
        self.of_past = bool(_THEN_WORDS.search(asked))

    def occurs_in(self, sentence: str, start: int) -> bool:
        """Whether a sentence says the question as a statement; `start` is where it first names a choice.

        Such a sentence has the names of the question in order, and a verb of belief where the question has one, before
        the choice or, where it begins with the choice, after it; a question about one person may be answered by "she",
        and one about nobody has to be said word by word.
        """
        if self.of_who and not sentence[:start].strip(" \"'(*"):
            after = [stem(word) for word in WORD.findall(sentence)[1:4]]
            return bool(self.own & set(after[:2])) or (
                len(after) == 1 and after[0] in ("do", "does", "did", "is", "has")
            )
        if not (self.names or self.others) or (self.believes and not BELIEF.search(sentence)):
            return False
        told = _stems(sentence)
        lead = sentence[:start] if len(WORD.findall(sentence[:start])) > 2 else sentence
        by_name = _in_order(self.names, _stems(lead)) and (bool(self.names) or self.others <= set(told))
        if self.people(lead) - set(self.names):
            return False
        if by_name and self.names and not BELIEF.search(lead):
            by_name = not self.believes
        by_pronoun = len(self.names) == 1 and bool({"he", "she", "they"} & set(told)) and self.others <= set(told)
        return by_name or by_pronoun

    def about(self, lead: str, decides: bool) -> bool:
        """Whether a sentence with these words before a choice answers the question.

        decides: whether the sentence concludes ("so", "it must be"); then it may leave out whom it speaks of.
        """
        told = _stems(lead)
        people = self.people(lead)
        if people - set(self.names):
            return False
        if self.believes and not decides and not BELIEF.search(lead) and not _MODAL.search(lead):
            return False
        if people:
            return _in_order(self.names, told) or (decides and len(self.names) == 1)
        if not self.known:
            return decides
        return decides or (len(self.names) < 2 and bool(_PRONOUNS & set(told)))

    def is_restated(self, head: str) -> bool:
        """Whether a heading or a question in a reply asks for the same: "Emotion", "Ann's belief", "So what does she
        think?"

        It may leave out words of the question, but adds none; it speaks of belief where the question does.
        """
        believes, really = BELIEF.search(head) is not None, REALLY.search(head) is not None
        people = self.people(head)
        if people - set(self.names) or (people and not _in_order(self.names, _stems(head))):
            return False
        if _ANSWER_HEAD.fullmatch(head):
            return True
        if not self.known or (believes and not self.believes) or (really and not self.of_reality):
            return False
        added = {word for word in _stems(head) if not word.isdigit()} - self.stems - _HEAD_WORDS
        if added:
            return False
        return believes or bool(people) if self.believes else bool(people or really or self.others & set(_stems(head)))

    def elsewhere(self, head: str) -> bool:
        """Whether a heading speaks of other people, or of reality where the question asks for a belief."""
        return bool(self.people(head) - set(self.names)) or (not self.of_reality and _REALITY.search(head) is not None)

    def is_about_others(self, sentence: str) -> bool:
        """Whether a sentence speaks of what other people than the question's first one believe."""
        if not (self.names and self.believes):
            return False
        people, stems = self.people(sentence), _stems(sentence)
        if not people or self.names[0] in people:
            return set(self.names) <= people and not _in_order(self.names, stems)
        first = min(stems.index(one) if one in stems else len(stems) for one in people)
        return not {"he", "she", "they", "i"} & set(stems[:first])  # "she thinks that Bo ..." speaks of her

    def people(self, text: str) -> set[str]:
        """The stems of the names in a text. Its first word counts where the question knows it or a verb follows."""
        first = _OPENER.match(text)
        start = len(text) - len(text.lstrip(" \"'(*"))
        found = {
            stem(one[0]) for one in _PERSON.finditer(text) if one.start() > start and one[0].lower() not in _NO_NAMES
        }
        if first is not None and first[0].strip(" \"'(*").split("'")[0].casefold() not in _NO_NAMES:
            found.add(stem(WORD.findall(first[0])[0]))
        found |= {stem(word) for word in WORD.findall(text) if word[0].isupper() and stem(word) in self.names}
        found = {one for one in found if one not in self.of_choices and one not in COMMON}
        return found | {kin for kin in (stem(one["kin"]) for one in _KIN.finditer(text)) if kin not in self.stems}


def _stems(text: str) -> list[str]:
    return list(map(stem, WORD.findall(text)))


def _in_order(names: Iterable[str], told: Sequence[str]) -> bool:
    words = iter(told)
    return all(name in words for name in names)


_OPEN_AGAIN = re.compile(r"\bnot sure\b|\b(?:it|that|this) (?:may|might|could) (?:also |as well )?be\b", re.I)
_WAS = re.compile(r"\b(?:was|were|did|had)\b", re.I)
_ASKING = re.compile(r"(?P<head>[^?]{2,120}\?)(?: ?[:\u2192-])?[ ]?(?P<rest>.*)$")
_HEAD = re.compile(r"(?P<head>[^:\u2192=]{2,60}?)[ ]?(?::|\u2192|[=-]>|\u21d2|\s[\u2013\u2014-])[ ](?P<rest>.+)$")
_THEN = re.compile(
    r",? (?:then|it is|(?:is|are) (?:what|where)\b.{0,60}\b(?:think|believ|expect|look|will|would)\w*)\b", re.I
)
_OPEN_END = re.compile(r"(?::|\b(?:in|is|the|think|thinks|at))$")


class Assertions:
    """The sentences of a text, each with the choices that it asserts."""

    def __init__(self, lines: Sequence[str], choices: Sequence[str], question: str | None) -> None:
        self.choices, self.lines = choices, lines
        self.question = QuestionTerms(question, choices)
        joined: list[str] = []
        for line in lines:
            if joined and _OPEN_END.search(joined[-1]) and begins_with_choice(line, choices):
                joined[-1] = f"{joined[-1]} {line}"  # "Therefore, it is in:" and the choice in a line of its own
            else:
                joined.append(line)
        told = (part for line in joined for one in sentences(line) for part in one.split("; "))
        self.sentences = [NOT_BUT.sub("", ONLY.sub("only", one)) for one in told if one]

    def find_conclusion(self) -> str | None:
        """The choice of the last sentence that concludes something of one choice."""
        for place in range(len(self.sentences) - 1, -1, -1):
            sentence = self.sentences[place]
            if THEREFORE.match(sentence) is None:
                inner = list(INNER.finditer(sentence))
                if not inner:
                    continue
                sentence = sentence[inner[-1].end() :]
            if not find_mentions(sentence, self.choices):
                continue
            if self.question.is_about_others(sentence):
                continue
            label = None if self.has_doubt(sentence) else self.find_assertion(sentence)
            return label if label is not None and self._stands(place, label) else None
        return None

    def find_echo(self) -> str | None:
        """The choice of the sentences that say the question as a statement, where they all say the same one."""
        said: dict[int, str | None] = {}
        for place, sentence in enumerate(self.sentences):
            named = find_mentions(sentence, self.choices)
            if not named or not self.question.occurs_in(sentence, named[0].start):
                continue
            lead = sentence[: named[0].start]
            if SUPPOSED.search(sentence) or (REALLY.search(lead) and not self.question.of_reality):
                continue
            said[place] = None if self.has_doubt(sentence) else self.find_assertion(sentence)
        if not said or len(set(said.values())) != 1:
            return None
        (place, label) = list(said.items())[-1]
        if label is None or self._reopens(place, label):
            return None
        return label if place == 0 or self._stands(place, label) else None

    def find_under_heading(self) -> str | None:
        """The choice that stands under a heading, or after a question, that asks the same as the question itself.

        Such as "Ann's belief: the red box" or "So where does she look? In the red box."; all of them have to agree.
        """
        found: set[str | None] = set()
        for place, sentence in enumerate(self.sentences):
            head = _ASKING.match(sentence) or _HEAD.match(sentence)
            if head is None or not self.question.is_restated(head["head"]):
                continue
            rest = head["rest"] or (self.sentences[place + 1] if place + 1 < len(self.sentences) else "")
            if find_mentions(rest, self.choices) and not self.has_doubt(rest):
                found.add(self.find_assertion(rest))
        return next(iter(found)) if len(found) == 1 else None

    def find_own_words(self) -> str | None:
        """The choice of the last sentence that answers the question in its own words, such as "she will look there".

        Where earlier ones answered otherwise, the last one has to conclude, or something between has to turn ("but").
        """
        found: list[tuple[int, str]] = []
        for place, sentence in enumerate(self.sentences):
            label = self._answers(place)
            if label is not None:
                found.append((place, label))
            elif found and TAKEN_BACK.search(sentence) and not find_mentions(sentence, self.choices):
                found.clear()
        if not found:
            return None
        place, label = found[-1]
        others = [earlier for earlier, other in found if other != label]
        if others and not (_decides(self.sentences[place]) or self._turns(others[-1], place + 1)):
            return None
        for sentence in self.sentences[place + 1 :]:
            others_named = {one.choice for one in find_mentions(sentence, self.choices)} - {label}
            if others_named and self.has_doubt(sentence) and not SUPPOSED.search(sentence):
                return None
        for given_up, sentence in enumerate(self.sentences):
            bare = remove_choices(sentence, 0, len(sentence), find_mentions(sentence, self.choices))
            if GIVEN_UP.search(bare) and not (given_up < place and self._turns(given_up + 1, place + 1)):
                return None
        return label

    def has_doubt(self, sentence: str) -> bool:
        """Whether a sentence doubts or asks, apart from the words of the choices themselves."""
        return "(wrong)" in sentence or any(DOUBT.search(bare) for bare, _, _ in self._clauses(sentence))

    def _answers(self, place: int) -> str | None:
        """The choice that a sentence gives as an answer to the question; None where it answers something else."""
        sentence = self.sentences[place]
        named = find_mentions(sentence, self.choices)
        if not named or sentence.startswith("(") or SUPPOSED.search(sentence) or self.has_doubt(sentence):
            return None
        if REALLY.search(sentence) and not self.question.of_reality and not BELIEF.search(sentence):
            return None
        label = self.find_assertion(sentence)
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
        return label if self.question.about(lead, decides) else None

    def _turns(self, start: int, end: int) -> bool:
        return any(TURN.search(sentence) for sentence in self.sentences[start:end])

    def _stands(self, place: int, label: str) -> bool:
        """Whether what follows a sentence leaves its choice standing: it asserts no other, or only explains."""
        if self._reopens(place, label):
            return False
        for later in range(place + 1, len(self.sentences)):
            sentence = self.sentences[later]
            if TAKEN_BACK.search(sentence):
                return False
            if RECAP.match(sentence):
                return True
            if sentence.startswith("(") or (REALLY.search(sentence) and not self.question.of_reality):
                continue
            if self._list_assertions(sentence, seen=True) - {label} and not self.question.is_about_others(sentence):
                return False
        return True

    def _reopens(self, place: int, label: str) -> bool:
        """Whether a later sentence says that it may be another choice."""
        later = (one for one in self.sentences[place + 1 :] if _OPEN_AGAIN.search(one))
        return any({one.choice for one in find_mentions(sentence, self.choices)} - {label} for sentence in later)

    def find_assertion(self, sentence: str) -> str | None:
        """The one choice that a sentence asserts, None where it asserts none or several."""
        kept = self._list_assertions(sentence)
        return next(iter(kept)) if len(kept) == 1 else None

    def _list_assertions(self, sentence: str, seen: bool = False) -> set[str | None]:
        """The choices that a sentence names outside of asides, denials, and clauses about who moved or saw what.

        seen: whether clauses about what was so before, or what somebody saw, count nevertheless.
        """
        kept: set[str | None] = set()
        if "(wrong)" in sentence:
            return kept
        for bare, clause, here in self._clauses(sentence):
            if not here or NEGATION.search(bare):
                continue
            believes = BELIEF.search(clause)
            if not believes and MOVED.search(clause) and not NECESSARY.search(clause):
                continue
            if not believes and not self.question.of_reality and REALLY.search(bare):
                continue
            if not seen and not self.question.of_past and not believes and PAST.search(clause):
                continue
            kept |= here
        return kept

    def _clauses(self, sentence: str) -> Iterator[tuple[str, str, set[str | None]]]:
        """The clauses of a sentence that are no asides: without the words of choices, with them, and these choices.

        Of "from the red box to the blue box" only the second is counted. What stands after a colon is no aside.
        """
        named = find_mentions(sentence, self.choices)
        starts = [one.start for one in named]
        inside = []
        for one in CLAUSE.finditer(sentence):
            place = bisect_right(starts, one.start()) - 1
            if place < 0 or named[place].end <= one.start():
                inside.append(one)
        ends = [0, *(one.start() for one in inside), len(sentence)]
        for start, end in pairwise(ends):
            clause = sentence[start:end].lstrip(",;:) ")
            if start and ASIDE.match(clause):
                continue
            here = named[bisect_left(starts, start) : bisect_left(starts, end)]
            bare = remove_choices(sentence, start, end, here)
            if len(here) > 1 and FROM.search(sentence[start : here[0].start]):
                here = here[1:]
            yield bare, clause, {one.choice for one in here}


def _plain(lead: str) -> bool:
    """Whether the words before a choice are common ones that say nothing of the past, such as "it is in the"."""
    return all(word.casefold() in COMMON for word in WORD.findall(lead)) and not _WAS.search(lead)


def _decides(sentence: str) -> bool:
    """Whether a sentence concludes or settles something."""
    return bool(THEREFORE.match(sentence) or INNER.search(sentence) or NECESSARY.search(sentence))


def remove_choices(sentence: str, start: int, end: int, named: Sequence[Mention]) -> str:
    """A part of a sentence without the words of the choices in it, which may hold a "not" themselves."""
    parts, place = [], start
    for one in named:
        if start <= one.start < end:
            parts.append(sentence[place : one.start])
            place = min(one.end, end)
    return " ".join((*parts, sentence[place:end]))


def begins_with_choice(line: str, choices: Sequence[str]) -> bool:
    """Whether a line begins with a choice, with at most an article or the like before it."""
    named = find_mentions(line, choices)
    return bool(named) and len(WORD.findall(line[: named[0].start])) < 2


_OPEN = re.compile(r"(?i)\W*(?:or|and|no|not|wait|actually|rather|instead|correction|hmm|but)\b|\s*\?|\s*[/|]")
_CUT = re.compile(
    r"(?:[,:;(=\u2192\u279c\u27a1-]|\b(?:the|an?|in|to|that|is|was|are|thinks?|believes?|told|and|or|of|by|from"
    r"|with|at|on|so"
    r"|because|since|as|if|when|while|but|has|had|not|his|her|its|their|who|where|which|would|will|moved|affect))\s*$"
)
"""The end of a text that goes on, so that it was cut off there."""
_CANNOT_KNOW = re.compile(
    r"(?i)\b(?:cannot|can ?not|can['\u2019]t|could not|impossible to) (?:be )?"
    r"(?:determined?|known?|told|tell|said|say|inferred|infer)\b"
    r"|\b(?:not|n['\u2019]t|in)[ -]?(?:enough|sufficient) info(?:rmations?)?\b|\bno way (?:to know|of knowing)\b"
    r"|\b(?:not|n['\u2019]t|never) (?:stated|specified|mentioned|known|said)\b"
)
_UNKNOWN = re.compile(
    r"(?i)unknown|undetermined"
    r"|(?:there (?:is|isn['\u2019]t) )?(?:not )?(?:enough|sufficient|insufficient) info(?:rmation)?.*"
    r"|(?:it )?can(?:not|['\u2019]t| not) (?:be )?(?:determined?|know|known|tell|told|say|said).*"
)
_HEADING = re.compile(
    r"\W*(?:explanation|reasoning|rationale|recap|summary|(?:\w+ )?key (?:points?|steps?|takeaways?)|takeaways?|notes?"
    r"|caveats?|verification|why|not(?= ?:))\b[^.]{0,40}$",
    re.I,
)
_DENIED_AFTER = re.compile(
    r"(?i)\W{0,3}(?:is|was|would|can|could) ?(?:not|n['\u2019]t|never|wrong|incorrect)\b|\W{0,4}(?:wrong|incorrect"
    r"|false)\b"
)
_REASONS = re.compile(r"\W*(?:explanation|reason(?:ing|s)?|rationale|justification|why|because|notes?):", re.I)
_ALONE = re.compile(r"[\"')\]\u201d]{0,2}(?:,? (?:then|it is|i think|i['\u2019]d say|i guess))?[.!]*$", re.I)
_ROW = re.compile(r"[^:]{2,60}: ")
_FACT = re.compile(r"(?<=[.!]) (?=(?:Actually|In fact|In reality|Really),? (?:it|the|there)\b)")
_DECORATION = " \t\"'`*_()[]."
DIFFERENT = "the text begins, ends or concludes with different choices"

Outcome = tuple[str, str] | str | None
"""The rung and the choice; or the reason why a text with choices has no answer; or None where it makes none."""


def read_prose(text: str, choices: Sequence[str], question: str | None = None, whole: bool = True) -> Outcome:
    """Read an answer out of prose, in time proportional to its length.

    text: the reply. choices: the labels, LetteredChoices where they were offered by letter. question: what was asked,
    so that a sentence that says it as a statement is recognised. whole: whether the reply is complete; of one that was
    cut off only its beginning can be an answer.
    """
    lines = [strip_bullet(line) for line in plain_lines(text)]
    if not lines:
        return None
    whole = whole and (_CUT.search(text) is None or text.count(text[-60:-20]) > 2)  # or it repeats itself for ever
    assertions = Assertions(_before_heading(lines, choices) if whole else [], choices, question)
    if not assertions.question.of_reality:
        lines[0] = _FACT.split(lines[0])[0]
    begins = _edge(lines, 0, 1, choices)
    if begins is None and question is not None and not question.rstrip().endswith("?"):
        begins = find_leading(sentences(lines[0])[0].split(", but ")[0], choices)[
            0
        ]  # it goes on where the question stops
    by_rung = {"first": begins}
    if whole:
        by_rung |= {
            "last": _ending(_before_reasons(assertions.lines), choices, assertions.question),
            "concluded": assertions.find_conclusion(),
            "echoed": assertions.find_echo(),
        }
    found = {rung: label for rung, label in by_rung.items() if label is not None}
    if len(set(found.values())) > 1:
        return DIFFERENT
    if found:
        return next(iter(found.items()))
    if not whole:
        return None
    for rung, label in (("headed", assertions.find_under_heading()), ("settled", assertions.find_own_words())):
        if label is not None:
            return rung, label
    return _sole(lines, choices, assertions.question)


_LEADS = ("", "the", "a", "an", "in", "it's", "in the", "in a", "at the", "on the", "so", "it is", "it is in")
"""What may stand before the choice with which a text begins."""


def find_leading(text: str, choices: Sequence[str]) -> tuple[str | None, str]:
    """The choice with which a text begins, and the words that name it; (None, "") where it begins with none, asks
    ("B?"), offers two ("A or B") or takes it back."""
    text = " ".join(text.split())
    if (label := match_label(text, choices)[0]) is not None:
        return (None, "") if text.rstrip(_DECORATION).endswith("?") else (label, text)
    named = find_mentions(text, choices)
    if not named:
        return None, ""
    one = named[0]
    before, rest = text[: one.start].strip(_DECORATION + "-:,").casefold(), text[one.end :]
    if before not in _LEADS:
        return None, ""
    if _OPEN.match(rest) or TAKEN_BACK.search(rest) or _denied_after(rest):
        return None, ""
    if re.match(r"\W{0,3}$", rest) is None and not re.match(r"[\"')\]]{0,2}(?:[.!?;:,](?:\s|$)|\s)", rest):
        return None, ""
    other = next((found for found in named[1:] if found.choice != one.choice), None)
    listed = other is not None and (
        not text[one.end : other.start].strip(" ,;/|.")
        or (one.by == other.by == BOTH and text[other.start - 2] in ".;,|")
    )
    if listed or one.choice is None:
        return None, ""
    if one.by == LETTER and _is_paraphrase(rest, one.choice):
        return one.choice, text
    return one.choice, text[one.start : one.end]


def _is_paraphrase(rest: str, choice: str) -> bool:
    """Whether what follows a letter says its choice in nearly the same words."""
    wanted = [stem(word) for word in WORD.findall(choice)]
    said = {stem(word) for word in WORD.findall(sentences(rest.lstrip(" .):"))[0])}
    return len(wanted) > 2 and sum(word in said for word in wanted) >= 0.6 * len(wanted)


def _of_line(
    line: str,
    choices: Sequence[str],
    reasons: str = r"|is (?:where|what|the (?:answer|one|place|location|right|correct|only|best|most))\b",
) -> str | None:
    """The choice with which a line begins. A letter alone has to be the whole line ("A. First, ..." is a list), and
    words have to end a clause or be followed by a reason ("blue_box because ..."), not go on as a subject."""
    label, words = find_leading(line, choices)
    if label is None or words == line or words == " ".join(line.split()):
        return label
    if len(words.strip(_DECORATION + ":")) == 1:
        return None
    rest = line[line.index(words) + len(words) :]
    if label.casefold() in ("yes", "no"):
        reasons += r"|(?:he|she|they|it|i|we)\b"
    ends = rf"[\"')\]]{{0,2}}(?:[.!;:,](?:\s|$)|$|\s(?:\(|[-\u2013\u2014\u2190]\s|because\b|since\b|as\b{reasons}))"
    return label if re.match(ends, rest, re.I) else None


def _edge(lines: Sequence[str], place: int, beside: int, choices: Sequence[str]) -> str | None:
    """The choice with which the first or the last line begins, unless the line beside it begins in the same way with
    another one, as in a list of the choices."""
    label = _of_line(lines[place], choices) if place == 0 else _of_line(lines[place], choices, "")
    if label is None or len(lines) < 2:
        return label
    other = _of_line(lines[beside], choices)
    return (
        None
        if other not in (None, label) and _shape(lines[place], choices) == _shape(lines[beside], choices)
        else label
    )


def _shape(line: str, choices: Sequence[str]) -> tuple[bool, bool]:
    """Whether a line begins with a letter, and whether it names a choice in words."""
    named = find_mentions(line, choices)
    return bool(named) and named[0].by != WORDS, any(one.by != LETTER for one in named)


def _ending(lines: Sequence[str], choices: Sequence[str], asked: QuestionTerms) -> str | None:
    """The choice with which the last line begins, or that its last sentence is ("Mustard, then.", "So: mustard.",
    "I'm confident: option J.")."""
    if (label := _edge(lines, -1, -2, choices)) is not None or _of_line(lines[-1], choices, "") is not None:
        return label
    last = sentences(lines[-1])[-1]
    named = find_mentions(last, choices)
    bare = remove_choices(last, 0, len(last), named)
    if not named or len({one.choice for one in named}) > 1 or DOUBT.search(bare) or NEGATION.search(bare):
        return None
    one = named[-1]
    before = last[: one.start].strip(_DECORATION)
    marked = one.by in (LETTER, BOTH) and len(last) - one.end < 3
    head = before.endswith(":") and not asked.elsewhere(before)
    if head and len(lines) > 1 and _ROW.match(lines[-1]) and _ROW.match(lines[-2]):
        head = asked.is_restated(before.rstrip(":"))  # one of a list of facts
    if not _ALONE.match(last[one.end :]) or not (marked or head or (len(before.split()) < 3 and before[-1:] != ":")):
        return None
    return one.choice


def _before_heading(lines: list[str], choices: Sequence[str]) -> list[str]:
    """The lines before a heading such as "Key takeaways", where they name a choice: what follows only explains."""
    for place, line in enumerate(lines):
        if place and _HEADING.match(line) and not find_mentions(line, choices):
            return lines[:place] if any(find_mentions(one, choices) for one in lines[:place]) else lines
    return lines


def _before_reasons(lines: Sequence[str]) -> Sequence[str]:
    """The lines before one that begins with "Reason:", "Explanation:" or the like."""
    return next((lines[:place] for place, line in enumerate(lines) if place and _REASONS.match(line)), lines)


def _sole(lines: Sequence[str], choices: Sequence[str], asked: QuestionTerms) -> Outcome:
    """The one choice that a text names in words, or by letters with a mark ("(c)", "option c") where it names none in
    words; or the choice that says that one cannot know."""
    text = "\n".join(lines)
    named = [(line, one) for line in lines for one in find_mentions(line, choices)]
    told = {one.choice for _, one in named if one.by != LETTER}
    letters = {one.choice for line, one in named if one.by == LETTER and _has_mark(line, one)}
    bare = "\n".join(remove_choices(line, 0, len(line), find_mentions(line, choices)) for line in lines)
    if not told and not letters and _CANNOT_KNOW.search(text):
        offered = (isinstance(choices, LetteredChoices) and choices.offered) or choices
        unknown = [choice for choice in offered if choice and _UNKNOWN.fullmatch(choice.rstrip("."))]
        return ("sole", unknown[0]) if len(unknown) == 1 else None
    found = told or letters
    if len(found) != 1 or None in found or NEGATION.search(bare) or DOUBT.search(bare):
        return _one_sentence(lines, choices)
    telling = [one for line in lines for one in sentences(line) if find_mentions(one, choices)]
    if telling and all(MOVED.search(one) and not BELIEF.search(one) for one in telling):
        return None  # it retells who moved what, which says nothing of the question
    if telling and all(asked.is_about_others(one) and asked.people(one) != set(asked.names[-1:]) for one in telling):
        return None  # "Bo thinks it is there" may be said for "Ann thinks that Bo thinks", but of nobody else
    label = next(iter(found))
    if told and any(one.by == LETTER and one.choice not in (None, label) for _, one in named):
        return DIFFERENT  # such as a choice in words and the letter of another one elsewhere
    return None if label is None else ("sole", label)


def _one_sentence(lines: Sequence[str], choices: Sequence[str]) -> Outcome:
    """What a reply of one sentence asserts ("Sam would say tea, not salt")."""
    whole = Assertions(lines, choices, None)
    if len(whole.sentences) > 1 or whole.has_doubt(whole.sentences[0]) or MOVED.search(whole.sentences[0]):
        return None
    label = whole.find_assertion(whole.sentences[0])
    return None if label is None else ("sole", label)


def _has_mark(line: str, one: Mention) -> bool:
    return line[one.start] in "([" or re.match(r"option|choice|letter", line[one.start :], re.I) is not None


def _denied_after(rest: str) -> bool:
    return _DENIED_AFTER.match(rest) is not None
