"""Reads the grades of other tools: letters, words, numbers and truth values, each as a `Grade`.

>>> grade("match", "C").correct, grade("match", "P").value, grade("acc", "0.0").value, grade("f1", 0.25).correct
(True, 0.5, 0.0, None)
"""

from __future__ import annotations

import math
from typing import Any

from tomserve.interop.foreign import Grade

_RIGHT, _WRONG = frozenset({"c", "correct", "yes", "true"}), frozenset({"i", "incorrect", "no", "false", "n"})
_PARTLY = frozenset({"p", "partial"})


def grade(by: str, value: Any, answer: str | None = None) -> Grade:
    """The grade that a scorer's value is. A word or a truth value says whether the reply is right. A number says how
    good it is: from where on that is right, is decided later (see tomserve.interop.foreign.decided), because a scale
    may go from 0 to 1 or from 1 to 10. A value that cannot be read leaves open what it says."""
    if isinstance(value, bool):
        return Grade(by, value, answer)
    if isinstance(value, str):
        word = value.strip().casefold()
        if word in _RIGHT or word in _WRONG:
            return Grade(by, word in _RIGHT, answer)
        if word in _PARTLY:
            return Grade(by, None, answer, 0.5)
    elif not isinstance(value, int | float):
        return Grade(by, None, answer)
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return Grade(by, None, answer)
    return Grade(by, None, answer, number if math.isfinite(number) else None)
