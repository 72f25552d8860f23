"""Find the answer in free prose, where choices were offered by letter.

These forms (rungs) are tried where the text holds no JSON and does not say "the answer is x". Those of the first three
that find a choice must find the same one; the fourth is tried where they find none.

| rung      | the text                                                                                              |
|-----------|-------------------------------------------------------------------------------------------------------|
| first     | begins with a choice ("B. blue_box", "blue_box because ...", "B" alone in its line), then explains it  |
| last      | ends with one, in a line of its own or at its beginning                                               |
| concluded | ends with a sentence "Therefore, ..." (thus, so, hence, ...) that names one choice alone, without doubt  |
|           | and not in a clause that holds a negation                                                               |
| sole      | names one choice alone, be it several times, and holds no negation, doubt, condition, question, apology  |

    >>> prose("Blue box. Ann saw nothing else.", Lettered(("red_box", "blue_box")))
    ('first', 'blue_box')
"""

from __future__ import annotations

import re

from tomserve.scoring.labels import Lettered, in_words, match

# These expect lines with single spaces (see _single): on long white space they would take quadratic time.
_END = re.compile(r"[.!?;:,](?:\s|$)|\s(?:\(|[-\u2013\u2014]\s)|,?\s(?:because|since|as)\b", re.I)
_OPEN = re.compile(r"\W*(?:or|and|no|not|wait|actually|rather|instead|correction|hmm|but)\b|\s*\?", re.I)
_TAKEN_BACK = re.compile(
    r"\b(?:wait|correction|on second thoughts?|i was (?:wrong|mistaken)|(?:is|was) (?:wrong|incorrect))\b", re.I
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_THEREFORE = re.compile(
    r"\W*(?:therefore|thus|so|hence|consequently|accordingly|in conclusion|as a result|in summary|to sum up)\b", re.I
)
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|neither|nor|nowhere|without|cannot|cant|dont|doesnt|isnt|wasnt|wont)\b|n['\u2019]t\b", re.I
)
_DOUBT = re.compile(
    r"\?|\b(?:un(?:clear|certain|sure|known|able|likely|determined|decided)|ambiguous|impossible|insufficient|whether|if"
    r"|unless|or|either|may|maybe|might|could|perhaps|possibly|doubt(?:s|ful)?|depend(?:s|ing)?|assum(?:e|es|ing)|guess"
    r"|sorry|apologi[sz]e|apologies|refuse|decline|wrong|incorrect|false|fails?|lacks?|hard to|difficult to"
    r"|(?:enough|more|further|missing) information|cannot|can not|I (?:do|am|would|could|have) not)\b"
    r"|\b(?:can|I \w{1,6}n)['\u2019]t\b"
    r"|(?:\b(?:not|never)|n['\u2019]t) (?:really )?(?:believe|think|say|tell|conclude|expect)\b",
    re.I,
)
_DENIED = re.compile(r"\W{0,3}(?:is|was|would|can|could) ?(?:not|n['\u2019]t|never)\b")
_CLAUSE = re.compile(r"[,;:] |\b(?:because|since|as|while|although|though)\b", re.I)
_LISTED = re.compile(r"\W*(?:option\s+|choice\s+)?([a-z])[.):]", re.I)
_DECORATION = " \t\"'`*_()[]."
DIFFERENT = "the text begins, ends or concludes with different choices"


def leading(text: str, choices: Lettered) -> tuple[str | None, str]:
    """The choice with which a text begins, and the words that name it; (None, "") where it begins with none.

    Of the beginnings that end at one of the first three ends of a clause the longest that names a choice decides.
    """
    text = _single(text)
    if (label := match(text, choices)[0]) is not None:
        return (None, "") if text.rstrip(_DECORATION).endswith("?") else (label, text)
    best: tuple[str | None, str] = (None, "")
    for place, end in enumerate(_END.finditer(text)):
        if place == 3:  # "B. blue_box." ends at the second end of a clause
            break
        label = match(text[: end.start()], choices)[0]
        if label is not None:
            rest = text[end.start() :]
            taken_back = _OPEN.match(rest) or _TAKEN_BACK.search(rest)
            best = (None, "") if taken_back else (label, text[: end.start()])
        elif best[0] is not None and match(text[end.start() :].strip(_DECORATION + ",;:"), choices)[0]:
            return None, ""
    if best[0] is not None and _only_letter(best[1]) and (beside := _first_named(text, choices)) is not None:
        return (best[0], text) if beside == best[0] else (None, "")
    return best


def prose(text: str, choices: Lettered) -> tuple[str, str] | str | None:
    """The rung and the choice; or the reason why a text with choices has no answer; or None where it makes none."""
    lines = [line for line in map(_single, text.splitlines()) if line]
    if not lines:
        return None
    by_rung = {
        "first": _of_line(lines[0], choices),
        "last": _of_line(lines[-1], choices),
        "concluded": _concluded(lines[-1], choices),
    }
    choices_named = {rung: label for rung, label in by_rung.items() if label is not None}
    if len(set(choices_named.values())) > 1:
        return DIFFERENT
    if choices_named:
        return next(iter(choices_named.items()))
    whole = "\n".join(lines)
    label = None if _NEGATION.search(whole) or _DOUBT.search(whole) else _one_named(whole, choices)
    if label is not None and any(
        choices.by_letter(begun[1].casefold()) != label for line in lines if (begun := _LISTED.match(line))
    ):
        return DIFFERENT  # such as "B. red_box" where B is another choice
    return None if label is None else ("sole", label)


def _single(text: str) -> str:
    """The text with single spaces for white space, and none around it."""
    return " ".join(text.split())


def _of_line(line: str, choices: Lettered) -> str | None:
    """The choice with which a line begins. A letter alone has to be the whole line ("A. First, ..." is a list)."""
    line = line.lstrip("#>-\u2022* ")
    label, words = leading(line, choices)
    return None if label is not None and words != line and _only_letter(words) else label


def _only_letter(words: str) -> bool:
    return len(words.strip(_DECORATION)) == 1


def _concluded(line: str, choices: Lettered) -> str | None:
    """The choice that the last sentence of a line concludes, without doubt and not in a clause with a negation."""
    sentence = _SENTENCE.split(line.strip())[-1]
    if not _THEREFORE.match(sentence) or _DOUBT.search(sentence):
        return None
    label = _one_named(sentence, choices)
    denied = label is not None and any(
        _NEGATION.search(clause) and _place(label, in_words(clause.casefold())) is not None
        for clause in _CLAUSE.split(sentence)
    )
    return None if denied else label


def _one_named(text: str, choices: Lettered) -> str | None:
    """The choice that the text names, None where it names none or several."""
    words = in_words(text.casefold())
    named = [choice for choice in choices.offered if _place(choice, words) is not None]
    return named[0] if len(named) == 1 else None


def _first_named(text: str, choices: Lettered) -> str | None:
    """The choice that is named right after a letter, as in "B. blue_box is where ...", unless it is denied."""
    words = in_words(text.casefold())
    places = {place: choice for choice in choices.offered if (place := _place(choice, words)) is not None}
    first = min(places, default=len(words))
    if len(words[:first].strip(_DECORATION + ":,-").split()) != 1:
        return None
    choice = places[first]
    return None if _DENIED.match(words, first + len(in_words(choice.casefold()))) else choice


def _place(choice: str, words: str) -> int | None:
    """Where a choice stands in a text as whole words, None where it does not."""
    found = re.search(rf"(?<!\w){re.escape(in_words(choice.casefold()))}(?!\w)", words)
    return None if found is None else found.start()
