"""Find the answer in free prose that never says "the answer is ...".

These forms (rungs) are tried where a text holds no JSON and states no answer (see tomserve.scoring.statements). All of
those before the last one that find a choice must find the same one; the last is tried where they find none.

| rung      | the text                                                                                              |
|-----------|-------------------------------------------------------------------------------------------------------|
| first     | begins with a choice ("B. blue_box", "blue_box because ...", "B" alone in its line), then explains it   |
| last      | ends with one, in a line or sentence of its own, or at the beginning of the last line                   |
| concluded | has a last sentence "Therefore, ..." (thus, so, hence, ...) that asserts one choice alone, without      |
|           | doubt; what follows it asserts no other choice, or only explains                                        |
| echoed    | says the question as a statement ("Ann thinks that Bo thinks the pen is in the blue box")               |
| sole      | names one choice alone, be it several times, and holds no negation, doubt, condition, question, apology  |

What stands in brackets or in a clause that begins with "although", "because" and the like is an aside and asserts
nothing. Where a choice says that one cannot know ("unknown", "not enough information"), other words for that name it.

    >>> prose("Blue box. Ann saw nothing else.", ("red_box", "blue_box"))
    ('first', 'blue_box')
    >>> prose("Bo moved it to the red box. So Ann thinks it is in the blue box.", ("red box", "blue box"))
    ('concluded', 'blue box')
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from tomserve.scoring.labels import match
from tomserve.scoring.mentions import BOTH, LETTER, WORDS, Mention, mentions
from tomserve.scoring.statements import plain_lines, sentences, unbulleted

_OPEN = re.compile(r"\W*(?:or|and|no|not|wait|actually|rather|instead|correction|hmm|but)\b|\s*\?|\s*[/|]", re.I)
_TAKEN_BACK = re.compile(
    r"\b(?:wait,|correction:|on second thoughts?|scratch that|i was (?:wrong|mistaken)"
    r"|that(?:['\u2019]s| is| was) (?:wrong|incorrect|not right))",
    re.I,
)
_THEREFORE = re.compile(
    r"\W*(?:(?:and|but) )?(?:therefore|thus|so|hence|consequently|accordingly|in conclusion|to conclude|as a result|"
    r"in summary|to sum up|to summarize|overall|ultimately|in the end|finally|this means|that means|which means|"
    r"it follows|we can conclude|we conclude|i conclude|conclusion|based on (?:this|these|that|the|all)|"
    r"given (?:this|these|that|the|all)|from (?:this|these|that)|because of (?:this|that)|tl;?dr"
    r"|for (?:this|these) reasons?|i(?:['\u2019]d| would) say|i (?:think|believe)|i(?:['\u2019]m| am) confident)\b",
    re.I,
)
_INNER = re.compile(r"[,;:] (?:so|therefore|thus|hence|which means|meaning)(?: that)?,? ", re.I)
_DOUBT = re.compile(
    r"\?|\b(?:un(?:clear|certain|sure|able|likely|determined|decided)|ambiguous|impossible|insufficient|inconclusive"
    r"|indeterminate|whether|if|unless|either|may|maybe|might|could|perhaps|possibly|doubt(?:s|ful)?|depend(?:s|ing)?"
    r"|assuming|guess|sorry|apologi[sz]e|apologies|refuse|decline|wrong|incorrect|fails?|lacks?|hard to"
    r"|difficult to|(?:enough|more|further|missing) information|no (?:way|information|answer)|none of the"
    r"|cannot (?:say|tell|be|determine|know|conclude|answer|infer)|can not|I (?:do|am|would|could|have) not)\b"
    r"|\bI (?:can|\w{1,6}n)['\u2019]t\b|\bcan['\u2019]t (?:say|tell|be|determine|know|conclude|answer|infer|help)\b"
    r"|\bI (?:(?:do|can|could|would|am) ?not|never|\w{1,6}n['\u2019]t) (?:really )?"
    r"(?:believe|think|say|tell|conclude)\b"
    r"|(?:\b(?:not|never)|n['\u2019]t) (?:really )?(?:believe|think|say|tell|conclude|expect)\b",
    re.I,
)
_CANNOT_KNOW = re.compile(
    r"\b(?:cannot|can ?not|can['\u2019]t|could not|impossible to) (?:be )?"
    r"(?:determined?|known?|told|tell|said|say|inferred|infer)\b"
    r"|\b(?:not|n['\u2019]t|in)[ -]?(?:enough|sufficient) info(?:rmations?)?\b|\bno way (?:to know|of knowing)\b"
    r"|\b(?:not|n['\u2019]t|never) (?:stated|specified|mentioned|known|said)\b",
    re.I,
)
_UNKNOWN = re.compile(
    r"unknown|undetermined"
    r"|(?:there (?:is|isn['\u2019]t) )?(?:not )?(?:enough|sufficient|insufficient) info(?:rmation)?.*"
    r"|(?:it )?can(?:not|['\u2019]t| not) (?:be )?(?:determined?|know|known|tell|told|say|said).*",
    re.I,
)
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|neither|nor|nowhere|without|cannot|cant|dont|doesnt|isnt|wasnt|wont)\b|n['\u2019]t\b", re.I
)
_CLAUSE = re.compile(
    r"[,;:] |[()]|\b(?:because|since|as|while|although|though|but|even|despite|whereas|rather than|instead of|before"
    r"|after|when|until|having|where|unlike)\b",
    re.I,
)
_ASIDE = re.compile(
    r"\W*(?:because|since|as|while|although|though|even|despite|whereas|rather than|instead of|before|after|when"
    r"|until|unlike|having|where|who|not)\b|\(",
    re.I,
)
_MOVED = re.compile(
    r"\b(?:moved?|moves|moving|put|puts|placed|enter(?:s|ed)?|exit(?:s|ed)?|left|leaves|took|takes|told|tells|went|goes|carried|brought)\b",
    re.I,
)
_BELIEF = re.compile(
    r"\b(?:think|believ|belief|expect|assum|look|search|know|feel|say|hold|suppos|convinced|imagin|guess|reckon)\w*",
    re.I,
)
_FROM = re.compile(r"\bfrom (?:the |an? )?[\"'\u201c]?$", re.I)
_REALLY = re.compile(r"\b(?:in (?:fact|reality|truth)|actually|really|truly)\b", re.I)
_RECAP = re.compile(
    r"\W*(?:explanation|reasoning|rationale|recap|summary|key (?:points?|steps?|takeaways?)|takeaways?|notes?|caveats?"
    r"|step[- ]by[- ]step|here(?: is|['\u2019]s)|let me|to explain|this is because|that is because|because|since"
    r"|difficulty|verification|double[- ]check)\b",
    re.I,
)
_HEADING = re.compile(
    r"\W*(?:explanation|reasoning|rationale|recap|summary|(?:\w+ )?key (?:points?|steps?|takeaways?)|takeaways?|notes?"
    r"|caveats?|verification|why)\b[^.]{0,40}$",
    re.I,
)
_ALONE = re.compile(r"[\"')\]\u201d]{0,2}(?:,? (?:then|it is|i think|i['\u2019]d say|i guess))?[.!]*$", re.I)
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
        told = _Told(_before_heading(lines, choices), choices, question)
        by_rung |= {"last": _ending(told.lines, choices), "concluded": told.concluded(), "echoed": told.echoed()}
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
    if not named:
        return None, ""
    one = named[0]
    before, rest = text[: one.start].strip(_DECORATION + "-:,").casefold(), text[one.end :]
    if before not in (
        "",
        "the",
        "a",
        "an",
        "in",
        "it's",
        "in the",
        "in a",
        "at the",
        "on the",
        "so",
        "it is",
        "it is in",
    ):
        return None, ""
    if _OPEN.match(rest) or _TAKEN_BACK.search(rest) or _denied_after(rest):
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
    if one.by == LETTER and _paraphrased(rest, one.choice):
        return one.choice, text
    return one.choice, text[one.start : one.end]


def _paraphrased(rest: str, choice: str) -> bool:
    """Whether what follows a letter says its choice in nearly the same words."""
    wanted = [_stem(word) for word in _WORD.findall(choice)]
    said = {_stem(word) for word in _WORD.findall(sentences(rest.lstrip(" .):"))[0])}
    return len(wanted) > 2 and sum(word in said for word in wanted) >= 0.6 * len(wanted)


def _of_line(line: str, choices: Sequence[str], reasons: str = r"|is (?:where|the)\b") -> str | None:
    """The choice with which a line begins. A letter alone has to be the whole line ("A. First, ..." is a list), and
    words have to end a clause or be followed by a reason ("blue_box because ..."), not go on as a subject."""
    label, words = leading(line, choices)
    if label is None or words == line or words == " ".join(line.split()):
        return label
    if len(words.strip(_DECORATION + ":")) == 1:
        return None
    rest = line[line.index(words) + len(words) :]
    ends = rf"[\"')\]]{{0,2}}(?:[.!;:,](?:\s|$)|$|\s(?:\(|[-\u2013\u2014]\s|because\b|since\b|as\b{reasons}))"
    return label if re.match(ends, rest) else None


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
    named = mentions(line, choices)
    return bool(named) and named[0].by != WORDS, any(one.by != LETTER for one in named)


def _ending(lines: Sequence[str], choices: Sequence[str]) -> str | None:
    """The choice with which the last line begins, or that its last sentence is ("Mustard, then.", "So: mustard.",
    "I'm confident: option J.")."""
    if (label := _edge(lines, -1, -2, choices)) is not None or _of_line(lines[-1], choices, "") is not None:
        return label
    last = sentences(lines[-1])[-1]
    named = mentions(last, choices)
    if not named or len({one.choice for one in named}) > 1 or _DOUBT.search(last) or _NEGATION.search(last):
        return None
    one = named[-1]
    before = last[: one.start].strip(_DECORATION)
    marked = one.by in (LETTER, BOTH) and len(last) - one.end < 3
    if not _ALONE.match(last[one.end :]) or not (marked or before.endswith(":") or len(before.split()) < 3):
        return None
    return one.choice


def _before_heading(lines: list[str], choices: Sequence[str]) -> list[str]:
    """The lines before a heading such as "Key takeaways", where they name a choice: what follows only explains."""
    for place, line in enumerate(lines):
        if place and _HEADING.match(line) and not mentions(line, choices):
            return lines[:place] if any(mentions(one, choices) for one in lines[:place]) else lines
    return lines


class _Told:
    """The sentences of a text, each with the choices that it asserts: those that it names, but for denied ones and
    those in asides ("although it was moved to ...")."""

    def __init__(self, lines: Sequence[str], choices: Sequence[str], question: str | None) -> None:
        self.choices, self.question, self.lines = choices, question, lines
        joined: list[str] = []
        for line in lines:
            if joined and re.search(r"(?::|\b(?:in|is|the|think|thinks|at))$", joined[-1]) and _of_line(line, choices):
                joined[-1] = f"{joined[-1]} {line}"  # "Therefore, it is in:" and the choice in a line of its own
            else:
                joined.append(line)
        self.sentences = [one for line in joined for one in sentences(line)]
        self.of_reality = question is None or bool(_REALLY.search(question)) or not _BELIEF.search(question)

    def concluded(self) -> str | None:
        """The choice of the last sentence that concludes something of one choice."""
        for place in range(len(self.sentences) - 1, -1, -1):
            sentence = self.sentences[place]
            if _THEREFORE.match(sentence) is None:
                inner = list(_INNER.finditer(sentence))
                if not inner:
                    continue
                sentence = sentence[inner[-1].end() :]
            if not mentions(sentence, self.choices):
                continue
            label = None if self._doubted(sentence) else self._asserted(sentence)
            return label if label is not None and self._stands(place, label) else None
        return None

    def echoed(self) -> str | None:
        """The choice of the sentences that say the question as a statement, where they all say the same one.

        Such a sentence has the names of the question in order, and a verb of belief where the question has one; a
        question about one person may be answered by "she", and one about nobody has to be said word by word.
        """
        if self.question is None:
            return None
        words = _WORD.findall(self.question)
        names = [_stem(word) for word in words[1:] if word[0].isupper() and word.casefold() not in _COMMON]
        others = {_stem(word) for word in words if word.casefold() not in _COMMON} - set(names)
        others = {word for word in others if not any(word in choice.casefold() for choice in self.choices)}
        believes = _BELIEF.search(self.question) is not None
        said: dict[int, str | None] = {}
        for place, sentence in enumerate(self.sentences):
            if _REALLY.search(sentence) and not self.of_reality:
                continue
            if not mentions(sentence, self.choices) or (believes and not _BELIEF.search(sentence)):
                continue
            told = list(map(_stem, _WORD.findall(sentence)))
            words_told = iter(told)
            by_name = all(name in words_told for name in names) and (bool(names) or others <= set(told))
            by_pronoun = len(names) == 1 and bool({"he", "she", "they"} & set(told)) and others <= set(told)
            if (by_name or by_pronoun) and (names or others):
                said[place] = None if self._doubted(sentence) else self._asserted(sentence)
        if not said or len(set(said.values())) != 1:
            return None
        (place, label) = list(said.items())[-1]
        return label if label is not None and (place == 0 or self._stands(place, label)) else None

    def _doubted(self, sentence: str) -> bool:
        """Whether a sentence doubts or asks, apart from the words of the choices themselves."""
        return any(_DOUBT.search(bare) for bare, _, _ in self._clauses(sentence))

    def _stands(self, place: int, label: str) -> bool:
        """Whether what follows a sentence leaves its choice standing: it asserts no other, or only explains."""
        for later in range(place + 1, len(self.sentences)):
            sentence = self.sentences[later]
            if _TAKEN_BACK.search(sentence):
                return False
            if _RECAP.match(sentence):
                return True
            if sentence.startswith("(") or (_REALLY.search(sentence) and not self.of_reality):
                continue
            if self._kept(sentence) - {label}:
                return False
        return True

    def _asserted(self, sentence: str) -> str | None:
        """The one choice that a sentence asserts, None where it asserts none or several."""
        kept = self._kept(sentence)
        return next(iter(kept)) if len(kept) == 1 else None

    def _kept(self, sentence: str) -> set[str | None]:
        """The choices that a sentence names outside of asides, denials and clauses about who moved what."""
        kept: set[str | None] = set()
        for bare, clause, here in self._clauses(sentence):
            if here and not _NEGATION.search(bare) and (not _MOVED.search(clause) or _BELIEF.search(clause)):
                kept |= here
        return kept

    def _clauses(self, sentence: str) -> Iterator[tuple[str, str, set[str | None]]]:
        """The clauses of a sentence that are no asides: without the words of choices, with them, and these choices.

        Of "from the red box to the blue box" only the second is counted.
        """
        named = mentions(sentence, self.choices)
        inside = [one for one in _CLAUSE.finditer(sentence) if not any(n.start <= one.start() < n.end for n in named)]
        ends = [0, *(one.start() for one in inside), len(sentence)]
        for start, end in pairwise(ends):
            clause = sentence[start:end].lstrip(",;:) ")
            if start and _ASIDE.match(clause):
                continue
            here = [one for one in named if start <= one.start < end]
            if len(here) > 1 and _FROM.search(sentence[start : here[0].start]):
                here = here[1:]
            yield _without(sentence, start, end, named), clause, {one.choice for one in here}


def _without(sentence: str, start: int, end: int, named: Sequence[Mention]) -> str:
    """A part of a sentence without the words of the choices in it, which may hold a "not" themselves."""
    parts, place = [], start
    for one in named:
        if start <= one.start < end:
            parts.append(sentence[place : one.start])
            place = min(one.end, end)
    return " ".join((*parts, sentence[place:end]))


def _sole(lines: Sequence[str], choices: Sequence[str]) -> Outcome:
    """The one choice that a text names in words, or by letters with a mark ("(c)", "option c") where it names none in
    words; or the choice that says that one cannot know."""
    text = "\n".join(lines)
    named = [(line, one) for line in lines for one in mentions(line, choices)]
    told = {one.choice for _, one in named if one.by != LETTER}
    letters = {one.choice for line, one in named if one.by == LETTER and _marked(line, one)}
    bare = "\n".join(_without(line, 0, len(line), mentions(line, choices)) for line in lines)
    if not told and not letters and _CANNOT_KNOW.search(text):
        unknown = [choice for choice in choices if _UNKNOWN.fullmatch(choice.rstrip("."))]
        return ("sole", unknown[0]) if len(unknown) == 1 else None
    found = told or letters
    if len(found) != 1 or None in found or _NEGATION.search(bare) or _DOUBT.search(bare):
        return _one_sentence(lines, choices)
    label = next(iter(found))
    if told and any(one.by == LETTER and one.choice not in (None, label) for _, one in named):
        return DIFFERENT  # such as a choice in words and the letter of another one elsewhere
    return None if label is None else ("sole", label)


def _one_sentence(lines: Sequence[str], choices: Sequence[str]) -> Outcome:
    """What a reply of one sentence asserts ("Sam would say tea, not salt")."""
    whole = _Told(lines, choices, None)
    if len(whole.sentences) > 1 or whole._doubted(whole.sentences[0]) or _MOVED.search(whole.sentences[0]):
        return None
    label = whole._asserted(whole.sentences[0])
    return None if label is None else ("sole", label)


def _marked(line: str, one: Mention) -> bool:
    return line[one.start] in "([" or re.match(r"option|choice|letter", line[one.start :], re.I) is not None


def _denied_after(rest: str) -> bool:
    return re.match(r"\W{0,3}(?:is|was|would|can|could) ?(?:not|n['\u2019]t|never|wrong|incorrect)\b", rest) is not None


def _stem(word: str) -> str:
    """A word in small letters without its ending, so that "thinks" and "think" are one."""
    word = re.sub(r"['\u2019]s$", "", word.casefold())
    return re.sub(r"(?:ing|ed|es|s)$", "", word) if len(word) > 4 else word
