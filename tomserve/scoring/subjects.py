"""Who and what a question asks about, and whether a sentence speaks of the same.

>>> asked = Question("Where does Ann think Bo thinks the pen is?", ("red_box", "blue_box"))
>>> asked.names, asked.about("Ann thinks that Bo thinks it is in", False), asked.about("Bo thinks it is in", False)
(['ann', 'bo'], True, False)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tomserve.scoring.cues import BELIEF, COMMON, REALLY, WORD, stem
from tomserve.scoring.statements import sentences

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
    r"\W*(?:(?:the|my|so|final|short|predicted|expected|likely|most|correct|overall|in)\W+){0,3}(?:answer|emotion|feelings?|mood|action"
    r"|prediction|behaviou?r|conclusions?|verdict|result|decision|choice|pick|tl;?dr|short|bottom line|summary|motive|reaction)\W*",
    re.I,
)
_HEAD_WORDS = frozenset(
    map(stem, ("step", "belief", "perspective", "view", "mind", "current", "answer", "so", "now", "what"))
)
_KIN = re.compile(
    r"(?:\b(?:his|her|their|the|my|an?) |^\W*)(?P<kin>aunt|uncle|mother|father|mom|mum|dad|brother|sister|friend|neighbou?r"
    r"|teacher|boss|grand(?:ma|pa|mother|father)|cousin|wife|husband|colleague|son|daughter|narrator|reader|author|label"
    r"|lid|sticker|picture|sign)s?\b",
    re.I,
)
"""Who or what may believe or say something without a name; a question about them names them, too."""

_REALITY = re.compile(r"\b(?:reality|real|really|fact|truth|true|actual|actually|label|contents?)\b", re.I)
_MODAL = re.compile(r"\b(?:will|would|\w+['\u2019](?:d|ll)|goes|going to|has to|must|should)\b", re.I)
_THEN = re.compile(r"\b(?:before|at first|initially|originally|at the (?:beginning|start)|was|were|did)\b", re.I)


class Question:
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
        self.stems = {stem(word) for word in words} | {stem(word) for word in COMMON}
        self.of_choices = {stem(word) for choice in choices for word in WORD.findall(choice)}
        self.believes = BELIEF.search(asked) is not None
        self.of_reality = text is None or bool(REALLY.search(asked)) or not self.believes
        self.of_who = bool(re.match(r"\W*who\b", asked, re.I))
        self.of_past = bool(_THEN.search(asked))

    def said_in(self, sentence: str, start: int) -> bool:
        """Whether a sentence says the question as a statement; `start` is where it first names a choice.

        Such a sentence has the names of the question in order, and a verb of belief where the question has one, before
        the choice or, where it begins with the choice, after it; a question about one person may be answered by "she",
        and one about nobody has to be said word by word.
        """
        if self.of_who and not sentence[:start].strip(" \"'(*"):
            after = WORD.findall(sentence)[1:3]
            verbs = self.others | {"do", "does", "did", "is", "has", "would", "will", "was", "can"}
            return bool(verbs & set(map(stem, after))) or BELIEF.search(" ".join(after)) is not None
        if not (self.names or self.others) or (self.believes and not BELIEF.search(sentence)):
            return False
        told = _stems(sentence)
        lead = sentence[:start] if len(WORD.findall(sentence[:start])) > 2 else sentence
        by_name = _in_order(self.names, _stems(lead)) and (bool(self.names) or self.others <= set(told))
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

    def restated(self, head: str) -> bool:
        """Whether a heading or a question in a reply asks for the same: "Emotion", "Ann's belief", "What does she think?"

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

    def of_others(self, sentence: str) -> bool:
        """Whether a sentence speaks of what other people than the question's first one believe."""
        if not (self.names and self.believes):
            return False
        people = self.people(sentence)
        if not people or self.names[0] in people:
            return False
        told = _stems(sentence)
        first = min(told.index(one) if one in told else len(told) for one in people)
        return not {"he", "she", "they", "i"} & set(told[:first])  # "she thinks that Bo ..." speaks of her

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
