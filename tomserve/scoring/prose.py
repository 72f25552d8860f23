"""Find the answer in free prose that never says "the answer is ...".

These forms (rungs) are tried where a text holds no JSON and states no answer (see tomserve.scoring.statements). Of the
first four all that find a choice must find the same one; each of the others is tried where those above find none.

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
middle only the beginning is read. Where a choice says that one cannot know ("unknown", "not enough information"), other
words for that name it.

    >>> prose("Blue box. Ann saw nothing else.", ("red_box", "blue_box"))
    ('first', 'blue_box')
    >>> prose("Bo moved it to the red box. So Ann thinks it is in the blue box.", ("red box", "blue box"))
    ('concluded', 'blue box')
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tomserve.scoring.cues import BELIEF, DOUBT, MOVED, NEGATION, TAKEN_BACK, WORD, stem
from tomserve.scoring.labels import Lettered, match
from tomserve.scoring.mentions import BOTH, LETTER, WORDS, Mention, mentions
from tomserve.scoring.statements import plain_lines, sentences, unbulleted
from tomserve.scoring.subjects import Question
from tomserve.scoring.told import Told, without

_OPEN = re.compile(
    r"\W*(?:or|and|no|not|wait|actually|rather|instead|correction|hmm|but)\b"
    r"|\s*\?|\s*[/|]",
    re.I,
)
_CUT = re.compile(
    r"(?:[,:;(=\u2192\u279c\u27a1-]|\b(?:the|an?|in|to|that|is|was|are|thinks?|believes?|told|and|or|of|by|from"
    r"|with|at|on|so"
    r"|because|since|as|if|when|while|but|has|had|not|his|her|its|their|who|where|which|would|will|moved|affect))\s*$"
)
"""The end of a text that goes on, so that it was cut off there."""
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
_HEADING = re.compile(
    r"\W*(?:explanation|reasoning|rationale|recap|summary|(?:\w+ )?key (?:points?|steps?|takeaways?)|takeaways?|notes?"
    r"|caveats?|verification|why|not(?= ?:))\b[^.]{0,40}$",
    re.I,
)
_DENIED_AFTER = re.compile(
    r"\W{0,3}(?:is|was|would|can|could) ?(?:not|n['\u2019]t|never|wrong|incorrect)\b|\W{0,4}(?:wrong|incorrect"
    r"|false)\b",
    re.I,
)
_REASONS = re.compile(r"\W*(?:explanation|reason(?:ing|s)?|rationale|justification|why|because|notes?):", re.I)
_ALONE = re.compile(r"[\"')\]\u201d]{0,2}(?:,? (?:then|it is|i think|i['\u2019]d say|i guess))?[.!]*$", re.I)
_ROW = re.compile(r"[^:]{2,60}: ")
_FACT = re.compile(r"(?<=[.!]) (?=(?:Actually|In fact|In reality|Really),? (?:it|the|there)\b)")
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
    whole = whole and (_CUT.search(text) is None or text.count(text[-60:-20]) > 2)  # or it repeats itself for ever
    told = Told(_before_heading(lines, choices) if whole else [], choices, question)
    if not told.asked.of_reality:
        lines[0] = _FACT.split(lines[0])[0]
    begins = _edge(lines, 0, 1, choices)
    if begins is None and question is not None and not question.rstrip().endswith("?"):
        begins = leading(sentences(lines[0])[0].split(", but ")[0], choices)[0]  # it goes on where the question stops
    by_rung = {"first": begins}
    if whole:
        by_rung |= {
            "last": _ending(_before_reasons(told.lines), choices, told.asked),
            "concluded": told.concluded(),
            "echoed": told.echoed(),
        }
    found = {rung: label for rung, label in by_rung.items() if label is not None}
    if len(set(found.values())) > 1:
        return DIFFERENT
    if found:
        return next(iter(found.items()))
    if not whole:
        return None
    for rung, label in (("headed", told.headed()), ("settled", told.settled())):
        if label is not None:
            return rung, label
    return _sole(lines, choices, told.asked)


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
    if one.by == LETTER and _paraphrased(rest, one.choice):
        return one.choice, text
    return one.choice, text[one.start : one.end]


def _paraphrased(rest: str, choice: str) -> bool:
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
    label, words = leading(line, choices)
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
    named = mentions(line, choices)
    return bool(named) and named[0].by != WORDS, any(one.by != LETTER for one in named)


def _ending(lines: Sequence[str], choices: Sequence[str], asked: Question) -> str | None:
    """The choice with which the last line begins, or that its last sentence is ("Mustard, then.", "So: mustard.",
    "I'm confident: option J.")."""
    if (label := _edge(lines, -1, -2, choices)) is not None or _of_line(lines[-1], choices, "") is not None:
        return label
    last = sentences(lines[-1])[-1]
    named = mentions(last, choices)
    bare = without(last, 0, len(last), named)
    if not named or len({one.choice for one in named}) > 1 or DOUBT.search(bare) or NEGATION.search(bare):
        return None
    one = named[-1]
    before = last[: one.start].strip(_DECORATION)
    marked = one.by in (LETTER, BOTH) and len(last) - one.end < 3
    head = before.endswith(":") and not asked.elsewhere(before)
    if head and len(lines) > 1 and _ROW.match(lines[-1]) and _ROW.match(lines[-2]):
        head = asked.restated(before.rstrip(":"))  # one of a list of facts
    if not _ALONE.match(last[one.end :]) or not (marked or head or (len(before.split()) < 3 and before[-1:] != ":")):
        return None
    return one.choice


def _before_heading(lines: list[str], choices: Sequence[str]) -> list[str]:
    """The lines before a heading such as "Key takeaways", where they name a choice: what follows only explains."""
    for place, line in enumerate(lines):
        if place and _HEADING.match(line) and not mentions(line, choices):
            return lines[:place] if any(mentions(one, choices) for one in lines[:place]) else lines
    return lines


def _before_reasons(lines: Sequence[str]) -> Sequence[str]:
    """The lines before one that begins with "Reason:", "Explanation:" or the like."""
    return next((lines[:place] for place, line in enumerate(lines) if place and _REASONS.match(line)), lines)


def _sole(lines: Sequence[str], choices: Sequence[str], asked: Question) -> Outcome:
    """The one choice that a text names in words, or by letters with a mark ("(c)", "option c") where it names none in
    words; or the choice that says that one cannot know."""
    text = "\n".join(lines)
    named = [(line, one) for line in lines for one in mentions(line, choices)]
    told = {one.choice for _, one in named if one.by != LETTER}
    letters = {one.choice for line, one in named if one.by == LETTER and _marked(line, one)}
    bare = "\n".join(without(line, 0, len(line), mentions(line, choices)) for line in lines)
    if not told and not letters and _CANNOT_KNOW.search(text):
        offered = (isinstance(choices, Lettered) and choices.offered) or choices
        unknown = [choice for choice in offered if choice and _UNKNOWN.fullmatch(choice.rstrip("."))]
        return ("sole", unknown[0]) if len(unknown) == 1 else None
    found = told or letters
    if len(found) != 1 or None in found or NEGATION.search(bare) or DOUBT.search(bare):
        return _one_sentence(lines, choices)
    telling = [one for line in lines for one in sentences(line) if mentions(one, choices)]
    if telling and all(MOVED.search(one) and not BELIEF.search(one) for one in telling):
        return None  # it retells who moved what, which says nothing of the question
    if telling and all(asked.of_others(one) and asked.people(one) != set(asked.names[-1:]) for one in telling):
        return None  # "Bo thinks it is there" may be said for "Ann thinks that Bo thinks", but of nobody else
    label = next(iter(found))
    if told and any(one.by == LETTER and one.choice not in (None, label) for _, one in named):
        return DIFFERENT  # such as a choice in words and the letter of another one elsewhere
    return None if label is None else ("sole", label)


def _one_sentence(lines: Sequence[str], choices: Sequence[str]) -> Outcome:
    """What a reply of one sentence asserts ("Sam would say tea, not salt")."""
    whole = Told(lines, choices, None)
    if len(whole.sentences) > 1 or whole.doubted(whole.sentences[0]) or MOVED.search(whole.sentences[0]):
        return None
    label = whole.asserted(whole.sentences[0])
    return None if label is None else ("sole", label)


def _marked(line: str, one: Mention) -> bool:
    return line[one.start] in "([" or re.match(r"option|choice|letter", line[one.start :], re.I) is not None


def _denied_after(rest: str) -> bool:
    return _DENIED_AFTER.match(rest) is not None
