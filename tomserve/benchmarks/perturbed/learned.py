"""Rules that are fitted to the right answers of the other stages, and what they answer to the questions of the dataset.

    python -c "from tomserve.benchmarks.perturbed import learned, load; learned.write(list(load()))"

fits them anew, which takes some seconds, and writes their answers to ``learned.json`` beside this module, where scoring
finds them (see tomserve.benchmarks.perturbed.shipped).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tomserve.benchmarks.perturbed.fitting import held_out
from tomserve.benchmarks.perturbed.shipped import TOLERATED, Answers, Shipped
from tomserve.benchmarks.perturbed.stagefile import UNKNOWN
from tomserve.items import Item
from tomserve.scoring.baselines import list_mentions

__all__ = ["NAMES", "SHIPPED", "TOLERATED", "differing", "fitted", "write"]

NAMES = ("question only", "bag of words")
"""The names of the rules, in the order of their answers in the file."""

SHIPPED = Shipped(
    NAMES,
    Path(__file__).with_name("learned.json"),
    'python -c "from tomserve.benchmarks.perturbed import learned, load; learned.write(list(load()))"',
)


def fitted(items: Sequence[Item]) -> dict[str, dict[str, str]]:
    """The answers of the rules of NAMES, each fitted to the other stages, as a label by item id by name of the rule.

    items: all items of at least two stages; of one stage alone nothing can be learned.
    """
    return {
        NAMES[0]: held_out(items, lambda item: [str(item.factors["question_kind"])], _roles),
        NAMES[1]: held_out(items, _words, _roles),
    }


def differing(items: Sequence[Item], answers: Answers) -> dict[str, int]:
    """To how many of these questions the file has another answer than a fit, or none, by name of the rule.

    answers: as `fitted` gives them.
    """
    return SHIPPED.differing(items, answers)


def _roles(item: Item) -> dict[str, str]:
    """Labels by a role that can be seen without knowing the gold: first mentioned, other, unknown."""
    first = (list_mentions(item) or item.choices)[0]
    others = [choice for choice in item.choices if choice not in (first, UNKNOWN)]
    return {"first": first, "other": others[0] if others else first, "unknown": UNKNOWN}


def _words(item: Item) -> list[str]:
    text = " ".join([*item.story, item.question]).casefold()
    for role, label in _roles(item).items():
        text = text.replace(label.casefold(), f"role_{role}")
    return [str(item.factors["question_kind"]), *re.findall(r"\w+", text)]


def write(items: Sequence[Item]) -> None:
    """Fit the rules to these items and write their answers to the file."""
    SHIPPED.write(items, fitted(items))
