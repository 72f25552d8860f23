"""Reads the grades of other tools: letters, words, numbers and truth values, each as a `Grade`.

>>> grade("match", "C").correct, grade("match", "P").value, grade("f1", 0.25).correct, grade("acc", "0.0").correct
(True, 0.5, None, False)
"""

from __future__ import annotations

import math
from typing import Any

from tomserve.interop.foreign import Grade

_RIGHT, _WRONG = frozenset({"c", "correct", "yes", "true"}), frozenset({"i", "incorrect", "no", "false", "n"})
_PARTLY = frozenset({"p", "partial"})


def grade(by: str, value: Any, answer: str | None = None) -> Grade:
    """The grade that a scorer's value is. 1 and 0 are right and wrong; a number between them, or another one, is a
    value that is neither; a value that cannot be read leaves open what it says."""
    if isinstance(value, bool):
        return Grade(by, value, answer)
    if isinstance(value, str):
        word = value.strip().casefold()
        if word in _RIGHT or word in _WRONG:
            return Grade(by, word in _RIGHT, answer)
        if word in _PARTLY:
            return Grade(by, None, answer, 0.5)
        try:
            value = float(word)
        except ValueError:
            return Grade(by, None, answer)
    if isinstance(value, int | float) and math.isfinite(value):
        number = float(value)
        return Grade(by, bool(number) if number in (0.0, 1.0) else None, answer, number)
    return Grade(by, None, answer)
