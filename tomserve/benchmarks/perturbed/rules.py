"""Rules that answer questions of the perturbed benchmark without following anybody's belief.

They stand in the score table beside every reply, and `tomserve dataset audit` counts them by class. What they go by:

    always classic       the answer that a classic false-belief task of this kind expects (the factor `cue`)
    always reality       what is really so, whoever is asked about
    always label         the label in quotation marks, which a sign, a label or a speaker gives
    opposite of the cue  the other of the two labels than the classic answer
    keyword              words: where the question names no belief, or somebody in the story opens, looks, sees or
                         tells, the label that follows "holds", "to the" or the like; else the first label mentioned
    question only        what the question asks for, learned on the other stages
    bag of words         how often each word occurs in story and question, learned on the other stages

The last two are fitted (see tomserve.benchmarks.perturbed.learned), and say nothing of questions that are not of the
dataset that ships with tomserve.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tomserve.benchmarks.perturbed.learned import NAMES, shipped
from tomserve.benchmarks.perturbed.stagefile import UNKNOWN
from tomserve.items import Item
from tomserve.scoring.rules import Rule, first_mentioned, mentions

_QUOTED = re.compile(r'"([^"]*)"')
_BELIEF = re.compile(r"\b(?:think|believe|expect|know)s?\b", re.IGNORECASE)
_FINDING_OUT = re.compile(
    r"\b(?:tells|told|shows|opens|opened|looks|sees|saw|watches|peeks|stays|believes)\b", re.IGNORECASE
)
_PLACING = r"(?:holds?|to the|in the|into the|on the)\s(?:\w+\s)?"


def classic(item: Item) -> str | None:
    """The answer that a classic false-belief task of this kind expects; None for an item without that factor."""
    cue = item.factors.get("cue")
    return cue if isinstance(cue, str) and cue in item.choices else None


def reality(item: Item) -> str | None:
    """What is really so, derived from the right answer; None for an item without the factors that tell it.

    The answer of a belief question is reality unless the belief is false or unknown. Then it is the other label, or the
    first of several; whichever it is, it is wrong.
    """
    false = item.factors.get("belief_is_false")
    if item.factors.get("question_kind") == "reality" or (false is False and item.answer != UNKNOWN):
        return item.answer
    if not isinstance(false, bool):
        return None
    return next((choice for choice in item.choices if choice not in (item.answer, UNKNOWN)), None)


def label(item: Item) -> str | None:
    """The last label in quotation marks, which a sign, a label or a speaker gives; else the first label mentioned."""
    quoted = " ".join(_QUOTED.findall(" ".join(item.story))).casefold()
    found = [one for one in mentions(item) if one.casefold() in quoted] if quoted else []
    return found[-1] if found else first_mentioned(item)


def opposite(item: Item) -> str | None:
    """The first choice that is neither what a classic task expects nor "unknown"."""
    cue = classic(item)
    return None if cue is None else next((one for one in item.choices if one not in (cue, UNKNOWN)), None)


@lru_cache(maxsize=256)
def _placed(choices: tuple[str, ...]) -> re.Pattern[str]:
    labels = "|".join(re.escape(choice) for choice in choices if choice != UNKNOWN)
    return re.compile(rf"\b{_PLACING}({labels})\b")


@lru_cache(maxsize=64)
def _found_out(story: tuple[str, ...], choices: tuple[str, ...]) -> tuple[str | None, bool]:
    """The label that the story places last, by its words, and whether somebody finds something out."""
    text = " ".join(story)
    placed = _placed(choices).findall(text)
    return placed[-1] if placed else None, _FINDING_OUT.search(text) is not None


def keyword(item: Item) -> str | None:
    """The label that follows the last word of placing, where the question names no belief or the story has a word of
    finding out; else the first label mentioned."""
    placed, found_out = _found_out(item.story, item.choices)
    if not found_out and _BELIEF.search(item.question):
        return first_mentioned(item)
    return placed or (mentions(item) or (first_mentioned(item),))[-1]


RULES = (
    Rule("always classic", classic, "constant"),
    Rule("always reality", reality, "constant"),
    Rule("always label", label, "constant"),
    Rule("opposite of the cue", opposite),
    Rule("keyword", keyword),
    *(Rule(name, shipped(place), "learned") for place, name in enumerate(NAMES)),
)
"""The rules of the benchmark's field `rules`."""
