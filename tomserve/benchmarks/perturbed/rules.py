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
from collections.abc import Sequence
from functools import lru_cache

from tomserve.benchmarks.perturbed.learned import SHIPPED
from tomserve.benchmarks.perturbed.stagefile import UNKNOWN
from tomserve.items import Item
from tomserve.scoring.baselines import Baseline, first_mentioned, list_mentions

_BELIEF = re.compile(r"\b(?:think|believe|expect|know)s?\b", re.IGNORECASE)
_FINDING_OUT = frozenset(
    ["tells", "told", "shows", "opens", "opened", "looks", "sees", "saw", "watches", "peeks", "stays", "believes"]
)
_PLACING = frozenset(
    (*(("", verb) for verb in ("hold", "holds")), *((one, "the") for one in ("to", "in", "into", "on")))
)
"""Words of placing: pairs of a preposition and "the", or a verb after whatever word."""

_MARKS = str.maketrans(dict.fromkeys('.,;:!?"', " "))


def classic(item: Item) -> str | None:
    """The answer that a classic false-belief task of this kind expects; None for an item without that factor."""
    cue = item.factors.get("cue")
    return cue if isinstance(cue, str) and cue in item.choices else None


def reality(item: Item) -> str | None:
    """What is really so; None for an item without the factors that tell it.

    An item of the second edition says so (the factor `reality`). Elsewhere it is derived from the right answer: that of
    a belief question is reality unless the belief is false or unknown. Then it is the other label, or the first of
    several; whichever it is, it is wrong.
    """
    real = item.factors.get("reality")
    if isinstance(real, str) and real in item.choices:
        return real
    false = item.factors.get("belief_is_false")
    if item.factors.get("question_kind") == "reality" or (false is False and item.answer != UNKNOWN):
        return item.answer
    if not isinstance(false, bool):
        return None
    return next((choice for choice in item.choices if choice not in (item.answer, UNKNOWN)), None)


def label(item: Item) -> str | None:
    """The last label in quotation marks, which a sign, a label or a speaker gives; else the first label mentioned."""
    pieces = " ".join(item.story).split('"')
    quoted = " ".join(pieces[1 : len(pieces) - 1 : 2]).casefold()
    found = [one for one in list_mentions(item) if one.casefold() in quoted] if quoted else []
    return found[-1] if found else first_mentioned(item)


def opposite(item: Item) -> str | None:
    """The first choice that is neither what a classic task expects nor "unknown"."""
    cue = classic(item)
    return None if cue is None else next((one for one in item.choices if one not in (cue, UNKNOWN)), None)


def _places(words: Sequence[str]) -> bool:
    """Whether these words end in one of placing, or in one of placing and then one other word."""
    ends = (words[-2:], words[-3:-1])
    return any(len(end) == 2 and ((end[0], end[1]) in _PLACING or ("", end[1]) in _PLACING) for end in ends)


@lru_cache(maxsize=64)
def _found_out(story: tuple[str, ...], choices: tuple[str, ...]) -> tuple[str | None, bool]:
    """The label that the story places last, by its words, and whether somebody finds something out."""
    text = " ".join(story)
    placed, last = None, -1
    for choice in choices:
        at = text.rfind(choice) if choice != UNKNOWN else -1
        while at > last:
            whole = not (text[at + len(choice) :][:1] or " ").isalnum() and text[at - 1] == " "
            if whole and _places(text[max(0, at - 60) : at].split()):
                placed, last = choice, at
                break
            at = text.rfind(choice, 0, at + len(choice) - 1)
    return placed, not _FINDING_OUT.isdisjoint(text.translate(_MARKS).casefold().split())


def keyword(item: Item) -> str | None:
    """The label that follows the last word of placing, where the question names no belief or the story has a word of
    finding out; else the first label mentioned."""
    placed, found_out = _found_out(item.story, item.choices)
    if not found_out and _BELIEF.search(item.question):
        return first_mentioned(item)
    return placed or (list_mentions(item) or (first_mentioned(item),))[-1]


PLAIN = (
    Baseline("always classic", classic, "constant"),
    Baseline("always reality", reality, "constant"),
    Baseline("always label", label, "constant"),
    Baseline("opposite of the cue", opposite),
    Baseline("keyword", keyword),
)
"""The rules that need no fit, which both editions have."""

RULES = (*PLAIN, *SHIPPED.rules)
"""The rules of the benchmark's field `rules`."""
