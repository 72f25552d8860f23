"""Reads the marks and scores that people write into spreadsheets and JSON lines.

>>> grade_of("right", None, None, {"correct": "mark"}).correct
True
>>> grade_of(None, "0,5", None, {"score": "points"}, comma=True).value
0.5
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping

from tomserve.interop.foreign import Grade

_TRUE = ("true", "1", "1.0", "yes", "y", "c", "correct", "right")
_FALSE = ("false", "0", "0.0", "no", "n", "i", "incorrect", "wrong")

_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+\s*")


class UnreadableError(ValueError):
    """A value cannot be read. The message says what is wrong with rows like this, `found` what stands in this one."""

    def __init__(self, reason: str, found: str) -> None:
        super().__init__(reason)
        self.found = found


def grade_of(
    right: str | None, score: str | None, answer: str | None, columns: Mapping[str, str], *, comma: bool = False
) -> Grade | None:
    """The grade of a row; None where it has none. Raises UnreadableError for one that cannot be read.

    right: the mark. score: the number. answer: what was read of the reply. columns: the column of each field. comma:
    whether numbers may have a decimal comma.
    """
    value = None if score is None else _number(score, comma=comma)
    if score is not None and value is None:
        raise UnreadableError(
            "has a score that is no number such as 0.85; write it so (a decimal comma is read only where semicolons "
            "separate the columns)",
            score,
        )
    if right is None:
        return None if value is None else Grade(columns["score"], None, answer, value)
    word = _with_point(right, comma=comma).strip().casefold()
    if word not in _TRUE and word not in _FALSE:
        raise UnreadableError(
            "has a mark other than true, false, 1, 0, yes, no, right, wrong, correct, incorrect, C or I; write one of "
            "these, or name numbers by --map score=COLUMN",
            right,
        )
    return Grade(columns["correct"], word in _TRUE, answer, value)


def _number(text: str, *, comma: bool) -> float | None:
    with contextlib.suppress(ValueError):
        value = float(_with_point(text, comma=comma))
        return value if math.isfinite(value) else None
    return None


def _with_point(text: str, *, comma: bool) -> str:
    return text.replace(",", ".") if comma and _DECIMAL_COMMA.fullmatch(text) else text
