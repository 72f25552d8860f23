"""The authors' scoring of BigToM's replies, so that it can stand beside ours (code/src/evaluate_conditions.py).

They show the answers as a) and b), and a reply is right where the key of the right answer stands anywhere in it, in
whatever case; else wrong where the other key does; else a language model grades it, which nothing here does: such a
reply has no value. For their chat prompt with reasoning, they look only at what follows the first "Answer:" and one
character more, which they suppose to be a space; where there is no "Answer:" they leave out the first seven characters
of the reply.

>>> from tomserve.benchmarks.bigtom.official import graded
>>> graded("Answer:b)The jar holds tea.", "b)"), graded("tea, I think", "b)"), graded("not a) but b)", "a)")
(True, None, True)
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from tomserve.items import Item
from tomserve.scoring.answers import Reading
from tomserve.scoring.metrics import Metric

KEYS = ("a)", "b)")


def graded(text: str, key: str) -> bool | None:
    """Whether the authors count a reply as right; None where they have a language model decide. key: that of the right
    answer, a) or b)."""
    said = text.strip().lower()
    if key in said:
        return True
    return False if any(other in said for other in KEYS) else None


def after_answer(text: str) -> str:
    """The part of a reply that the authors look at where their chat prompt asks for reasoning."""
    return text[text.find("Answer:") + 8 :].strip()


def compute(item: Item, reading: Reading) -> Mapping[str, bool]:
    """The columns of SCORING for one reply; nothing for a reply without text, and for items with other than two
    choices."""
    if not reading.text or len(item.choices) != len(KEYS):
        return {}
    key = KEYS[item.choices.index(item.answer)]
    text = reading.text.strip().lower()
    found = {
        "metric_official": graded(reading.text, key),
        "metric_official_after_answer": graded(after_answer(reading.text), key),
        "metric_both_keys": all(one in text for one in KEYS),
    }
    return {name: value for name, value in found.items() if value is not None}


SCORING = Metric(
    dict.fromkeys(("metric_official", "metric_official_after_answer", "metric_both_keys"), pl.Boolean), compute
)
"""metric_official: the authors' grade; metric_official_after_answer: that of the part after "Answer:", as for their
chat prompt with reasoning; metric_both_keys: whether the reply names both keys, so that their grade says little."""
