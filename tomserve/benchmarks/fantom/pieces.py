"""Which questions ask about the same piece of information, where the file does not say it: those with the same words.

Two questions about a passage ask about the same piece when most of the words that carry the content of the shorter one
are in the other: names of the speakers, and words such as "believe" and "regarding", do not count.

>>> pieces(["What does Ivo believe about the price of the old boat?", "What does Ada think Ivo believes the price of "
...         "the boat is?", "What does Ivo believe about the weather on Monday?"], {"ivo", "ada"})
[0, 0, 1]
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

ENOUGH = 0.6
"""The share of the words of the shorter question that two questions about one piece have in common."""

COMMON = frozenset(
    """
    what who whom whose how why when where which does do did is was were are be been being believe believes believed
    think thinks thought belief beliefs know knows about regarding that the a an of to in on for with by their his her
    its he she they and or has have had s as at from it this these those
    """.split()  # noqa: SIM905
)
"""Words that say nothing of which piece of information is asked about."""


def pieces(questions: Sequence[str], people: Collection[str]) -> list[int]:
    """A number for each question, from 0, which those about the same piece of information share.

    questions: those about one passage. people: the speakers, in small letters.
    """
    groups: list[list[set[str]]] = []
    found = []
    for question in questions:
        words = {word for word in re.findall(r"\w+", question.casefold()) if word not in COMMON and word not in people}
        near = [max(_common(words, other) for other in group) for group in groups]
        best = max(range(len(near)), key=near.__getitem__, default=None)
        if best is None or near[best] < ENOUGH:
            best = len(groups)
            groups.append([])
        groups[best].append(words)
        found.append(best)
    return found


def _common(words: set[str], other: set[str]) -> float:
    return len(words & other) / max(1, min(len(words), len(other)))
