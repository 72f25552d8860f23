"""Find the answer in free prose that never says "the answer is ...".

These forms (rungs) are tried where a text holds no JSON and states no answer (see tomserve.scoring.statements). All of
the first four that find a choice must find the same one; the last is tried where they find none.

| rung      | the text                                                                                              |
|-----------|-------------------------------------------------------------------------------------------------------|
| first     | begins with a choice ("B. blue_box", "blue_box because ...", "B" alone in its line), then explains it   |
| last      | ends with one, in a line of its own or at its beginning                                               |
| concluded | has a last sentence "Therefore, ..." (thus, so, hence, ...) that names one choice alone, without doubt;  |
|           | what follows it names no other choice, or only explains                                               |
| echoed    | says the question as a statement ("Ann thinks that Bo thinks the pen is in the blue box")               |
| sole      | names one choice alone, be it several times, and holds no negation, doubt, condition, question, apology  |

    >>> prose("Blue box. Ann saw nothing else.", Lettered(("red_box", "blue_box")))
    ('first', 'blue_box')
    >>> prose("Bo moved it to the red box. So Ann thinks it is in the blue box.", ("red box", "blue box"))
    ('concluded', 'blue box')
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from tomserve.scoring.labels import match
from tomserve.scoring.mentions import AGAINST, LETTER, mentions
from tomserve.scoring.statements import plain_lines, sentences, unbulleted

_OPEN = re.compile(r"\W*(?:or|and|no|not|wait|actually|rather|instead|correction|hmm|but)\b|\s*\?|\s*[/|]", re.I)
_TAKEN_BACK = re.compile(
    r"\b(?:wait|correction|on second thoughts?|i was (?:wrong|mistaken)|(?:is|was) (?:wrong|incorrect))\b", re.I
)
_THEREFORE = re.compile(
    r"\W*(?:(?:and|but) )?(?:therefore|thus|so|hence|consequently|accordingly|in conclusion|to conclude|as a result|"
    r"in summary|to sum up|to summarize|overall|ultimately|in the end|finally|this means|that means|which means|"
    r"it follows|we can conclude|we conclude|i conclude|conclusion|based on (?:this|these|that|the|all)|"
    r"given (?:this|these|that|the|all)|from (?:this|these|that)|because of (?:this|that)"
    r"|for (?:this|these) reasons?)\b",
    re.I,
)
_INNER = re.compile(r"[,;:] (?:so|therefore|thus|hence|which means|meaning)(?: that)?,? ", re.I)
_DOUBT = re.compile(
    r"\?|\b(?:un(?:clear|certain|sure|able|likely|determined|decided)|ambiguous|impossible|insufficient|inconclusive"
    r"|indeterminate|whether|if|unless|either|may|maybe|might|could|perhaps|possibly|doubt(?:s|ful)?|depend(?:s|ing)?"
    r"|assum(?:e|es|ing)|guess|sorry|apologi[sz]e|apologies|refuse|decline|wrong|incorrect|fails?|lacks?|hard to"
    r"|difficult to|(?:enough|more|further|missing) information|no (?:way|information|answer)|none of the"
    r"|cannot (?:say|tell|be|determine|know|conclude|answer|infer)|can not|I (?:do|am|would|could|have) not)\b"
    r"|\b(?:can|I \w{1,6}n)['\u2019]t\b"
    r"|(?:\b(?:not|never)|n['\u2019]t) (?:really )?(?:believe|think|say|tell|conclude|expect)\b",
    re.I,
)
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|neither|nor|nowhere|without|cannot|cant|dont|doesnt|isnt|wasnt|wont)\b|n['\u2019]t\b", re.I
)
_CLAUSE = re.compile(
    r"[,;:] |\b(?:because|since|as|while|although|though|but|even|despite|whereas|rather than|instead of|before|after"
    r"|when|until|having)\b",
    re.I,
)
_ASIDE = re.compile(
    r"\W*(?:(?:because|since|as|while|although|though|even|despite|whereas|rather than|instead of|before|after|when"
    r"|until|unlike|having|where|who|not)\b)",
    re.I,
)
_MOVED = re.compile(
    r"\b(?:moved?|moves|moving|put|puts|placed|enter(?:s|ed)?|exit(?:s|ed)?|left|leaves|took|takes)\b", re.I
)
_RECAP = re.compile(
    r"\W*(?:explanation|reasoning|recap|summary|key (?:points?|steps?)|step[- ]by[- ]step|here(?: is|['\u2019]s)|note"
    r"|let me|to explain|this is because|that is because|because|since)\b",
    re.I,
)
_WORD = re.compile(r"[\w'\u2019-]+")
# fmt: off
_COMMON = frozenset((
    "a", "an", "and", "are", "as", "at", "be", "been", "believe", "believes", "belief", "by", "did", "do", "does",
    "expect", "expects", "for", "from", "has", "have", "he", "her", "him", "his", "how", "in", "is", "it", "its",
    "know", "knows", "look", "looks", "of", "on", "or", "really", "said", "say", "says", "search", "she", "that",
    "the", "their", "them", "they", "think", "thinks", "thinking", "to", "was", "were", "what", "when", "where",
    "which", "who", "whom", "whose", "will", "with", "would", "currently", "now", "about", "inside", "there",
    "actually",
))
# fmt: on
"""Words of a question that a statement may leave out or change."""
_DECORATION = " \t\"'`*_()[]."
DIFFERENT = "the text begins, ends or concludes with different choices"

Outcome = tuple[str, str] | str | None
"""The rung and the choice; or the reason why a text with choices has no answer; or None where it makes none."""


def prose(text: str, choices: Sequence[str], question: str | None = None, whole: bool = True) -> Outcome:
    """Read an answer out of prose, in time proportional to its length.

    text: the reply. choices: the labels, Lettered where they were offered by letter. question: what was asked, so that
    a sentence that says it as a statement is recognised. whole: whether the reply is complete; of one that was cut off
    only its beginning can be an answer.
    """
    lines = [unbulleted(line) for line in plain_lines(text)]
    if not lines:
        return None
    by_rung = {"first": _edge(lines, 0, 1, choices)}
    if whole:
        told = _Told(lines, choices)
        by_rung |= {
            "last": _edge(lines, -1, -2, choices),
            "concluded": told.concluded(),
            "echoed": told.echoed(question) if question else None,
        }
    found = {rung: label for rung, label in by_rung.items() if label is not None}
    if len(set(found.values())) > 1:
        return DIFFERENT
    if found:
        return next(iter(found.items()))
    return _sole(lines, choices) if whole else None


def leading(text: str, choices: Sequence[str]) -> tuple[str | None, str]:
    """The choice with which a text begins, and the words that name it; (None, "") where it begins with none, asks
    ("B?"), offers two ("A or B") or takes it back."""
    text = " ".join(text.split())
    if (label := match(text, choices)[0]) is not None:
        return (None, "") if text.rstrip(_DECORATION).endswith("?") else (label, text)
    named = mentions(text, choices)
    if not named or len(text[: named[0].start].strip(_DECORATION + "-:").split()) > 1:
        return None, ""
    one = named[0]
    before, rest = text[: one.start].strip(_DECORATION + "-:").casefold(), text[one.end :]
    if before not in ("", "the", "a", "an", "in", "it's", "in the"):
        return None, ""
    if _OPEN.match(rest) or _TAKEN_BACK.search(rest) or _denied_after(rest):
        return None, ""
    if re.match(r"\W{0,3}$", rest) is None and not re.match(r"[\"')\]]{0,2}(?:[.!?;:,](?:\s|$)|\s)", rest):
        return None, ""
    listed = len(named) > 1 and named[1].choice != one.choice and not text[one.end : named[1].start].strip(" ,;/|.")
    return (None, "") if listed or one.choice is None else (one.choice, text[one.start : one.end])


def _of_line(line: str, choices: Sequence[str]) -> str | None:
    """The choice with which a line begins. A letter alone has to be the whole line ("A. First, ..." is a list), and
    words have to end a clause or be followed by a reason ("blue_box because ..."), not go on as a subject."""
    label, words = leading(line, choices)
    if label is None or words == line:
        return label
    if len(words.strip(_DECORATION + ":")) == 1:
        return None
    rest = line[line.index(words) + len(words) :]
    ends = re.match(
        r"[\"')\]]{0,2}(?:[.!;:,](?:\s|$)|$|\s(?:\(|[-\u2013\u2014]\s|because\b|since\b|as\b|is (?:where|the)\b))", rest
    )
    return label if ends else None


def _edge(lines: Sequence[str], place: int, beside: int, choices: Sequence[str]) -> str | None:
    """The choice with which the first or the last line begins, unless the line beside it begins with another one, as in
    a list of the choices."""
    label = _of_line(lines[place], choices)
    return label if label is None or len(lines) < 2 or _of_line(lines[beside], choices) in (None, label) else None


class _Told:
    """The sentences of a text, each with the choices that it asserts: those that it names, but for denied ones and
    those in asides ("although it was moved to ...")."""

    def __init__(self, lines: Sequence[str], choices: Sequence[str]) -> None:
        self.choices = choices
        self.sentences = [one for line in lines for one in sentences(line)]
        self.named = [_names(one, choices) for one in self.sentences]

    def concluded(self) -> str | None:
        """The choice of the last sentence that concludes something of one choice."""
        for place in range(len(self.sentences) - 1, -1, -1):
            sentence = self.sentences[place]
            if _THEREFORE.match(sentence) is None:
                inner = list(_INNER.finditer(sentence))
                if not inner:
                    continue
                sentence = sentence[inner[-1].end() :]
            if not _names(sentence, self.choices):
                continue
            label = None if _DOUBT.search(sentence) else self._asserted(sentence)
            return label if label is not None and self._stands(place, label) else None
        return None

    def echoed(self, question: str) -> str | None:
        """The choice of the sentences that say the question as a statement, where they all say the same one."""
        wanted = [word for word in map(_folded, _WORD.findall(question)) if word not in _COMMON]
        wanted = [word for word in wanted if not any(word in _folded(choice) for choice in self.choices)]
        if not wanted:
            return None
        said: dict[int, str | None] = {}
        for place, sentence in enumerate(self.sentences):
            words = iter(map(_folded, _WORD.findall(sentence)))
            if self.named[place] and not _MOVED.search(sentence) and all(word in words for word in wanted):
                said[place] = None if _DOUBT.search(sentence) else self._asserted(sentence)
        if not said or len(set(said.values())) != 1:
            return None
        (place, label) = list(said.items())[-1]
        return label if label is not None and (place == 0 or self._stands(place, label)) else None

    def _stands(self, place: int, label: str) -> bool:
        """Whether what follows a sentence leaves its choice standing: it names no other, or only explains."""
        for later in range(place + 1, len(self.sentences)):
            sentence = self.sentences[later]
            if _TAKEN_BACK.search(sentence):
                return False
            if _RECAP.match(sentence):
                return True
            if _names(sentence, self.choices) - {label}:
                return False
        return True

    def _asserted(self, sentence: str) -> str | None:
        """The one choice that a sentence asserts, None where it asserts none or several."""
        kept: set[str | None] = set()
        ends = [0, *(found.start() for found in _CLAUSE.finditer(sentence)), len(sentence)]
        for start, end in pairwise(ends):
            clause = sentence[start:end].lstrip(",;: ")
            named = _names(clause, self.choices)
            if named and not (_ASIDE.match(clause) and start) and not _NEGATION.search(clause):
                kept |= named
        return next(iter(kept)) if len(kept) == 1 else None


def _sole(lines: Sequence[str], choices: Sequence[str]) -> Outcome:
    text = "\n".join(lines)
    named = [one for line in lines for one in mentions(line, choices)]
    told = {one.choice for one in named if one.by != LETTER}
    if len(told) != 1 or None in told or _NEGATION.search(text) or _DOUBT.search(text):
        return None
    label = next(iter(told))
    if any(one.by == AGAINST or (one.by == LETTER and one.choice != label) for one in named):
        return DIFFERENT  # such as "B. red_box" where B is another choice
    return None if label is None else ("sole", label)


def _names(text: str, choices: Sequence[str]) -> set[str | None]:
    return {one.choice for one in mentions(text, choices)}


def _denied_after(rest: str) -> bool:
    return re.match(r"\W{0,3}(?:is|was|would|can|could) ?(?:not|n['\u2019]t|never|wrong|incorrect)\b", rest) is not None


def _folded(text: str) -> str:
    """A word in small letters, without a possessive ending."""
    return re.sub(r"['\u2019]s$", "", text.casefold())
