"""Which strategies ask for the answer alone, which ask a model to reason first, and which of them belong together.

Rows of answers name their strategy and say nothing else of it, so that its name decides. Whatever works something out
before it answers, and is not called "cot", is declared in `OTHERS`; a test holds this list against the strategies of
the folder prompts.

>>> plain(["cot", "vanilla"]), plain(["letters", "letters_cot"]), plain(["cot_free"]), plain(["mine", "thine"])
(['vanilla'], ['letters'], [], [])
"""

from __future__ import annotations

from collections.abc import Iterable

from tomserve.studies.rows import BASELINE

COT = "cot"
OTHERS = frozenset(
    ("decompose", "hitom_chain", "narrator", "perceptom", "reason_native", "simtom", "simtom_oracle")
)  # fmt: skip
"""Strategies that work something out before the answer, or are told it, and do not say so by the word cot."""


def is_cot(strategy: str) -> bool:
    """Whether a strategy asks for reasoning step by step: cot is a word of its name, as in cot_free and letters_cot."""
    return COT in strategy.split("_")


def reasons(strategy: str) -> bool:
    """Whether a strategy asks for, or is given, more than the answer alone."""
    return is_cot(strategy) or strategy in OTHERS


def partner(strategy: str) -> str:
    """The strategy that asks the same with reasoning.

    >>> partner("vanilla"), partner("dyntom_vanilla"), partner("letters")
    ('cot', 'dyntom_cot', 'letters_cot')
    """
    stem = strategy.removesuffix(BASELINE).rstrip("_")
    return f"{stem}_{COT}" if stem else COT


def plain(strategies: Iterable[str]) -> list[str]:
    """Those of the strategies that ask for the answer alone, the one to count first.

    These are vanilla, what ends so, such as bigtom_vanilla, and what has its partner beside it, such as letters beside
    letters_cot; or, where there are none of these, the only one that does not reason. Of several others nobody knows
    which is to count, and none is returned.
    """
    direct = sorted({name for name in strategies if not reasons(name)}, key=lambda name: (name != BASELINE, name))
    named = [name for name in direct if name.endswith(BASELINE)]
    named += [name for name in direct if name not in named and partner(name) in set(strategies)]
    return named or (direct if len(direct) == 1 else [])
