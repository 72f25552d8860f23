"""The grade that another tool gave a reply, which a row of an imported run carries (see tomserve.interop.foreign).

Where the grade *counts*, it is the score: of a question that any text may answer, only the tool that asked it can read
the reply. Elsewhere our own reading counts, and the grade stands beside it, so that the two can be compared.

>>> grade_of({"graded": {"by": "match", "correct": True, "answer": "18", "value": 1.0, "counts": True}})
Given(by='match', correct=True, answer='18', value=1.0, counts=True, unread=None)
>>> grade_of({"text": "It is 18."}) is None
True
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from tomserve.scoring.metric import Kind

FIELD = "graded"
"""The field of a row that holds the grade: by, correct, answer, value, counts and, where it is so, unread."""

PARSE = "graded"
"""How a row was read whose grade counts (column `parse`)."""

GRADED: dict[str, Kind] = {
    "graded_by": pl.String,
    "graded_correct": pl.Boolean,
    "graded_answer": pl.String,
    "graded_value": pl.Float64,
}
"""Columns that a score table has only where another tool graded some of the replies.

graded_by: the name of its scorer or metric. graded_correct: whether it counts the reply as right; null where it does
not say. graded_answer: what it read as the answer. graded_value: its score as a number; of a question that was asked
several times the mean over its samples."""


class Given(NamedTuple):
    """A grade as a row holds it. counts: whether it is the score. unread: why the reply holds no answer that the tool
    could have graded, None where it may."""

    by: str
    correct: bool | None
    answer: str | None
    value: float | None
    counts: bool
    unread: str | None = None


def grade_of(row: Mapping[str, Any]) -> Given | None:
    """The grade that a row carries, None where it carries none. What is of another type than it should be is left out,
    since run folders come from anybody."""
    found = row.get(FIELD)
    if type(found) is not dict:
        return None
    by, correct, answer, value, unread = (found.get(name) for name in ("by", "correct", "answer", "value", "unread"))
    number = float(value) if isinstance(value, int | float) and type(value) is not bool else None
    return Given(
        by if type(by) is str else "",
        correct if type(correct) is bool else None,
        answer if type(answer) is str else None,
        number if number is not None and math.isfinite(number) else None,
        found.get("counts") is True,
        unread if type(unread) is str else None,
    )


def graded_fields(row: Mapping[str, Any], samples: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """The columns of GRADED for one row; all null where it carries no grade.

    samples: the rows of all samples of its question; where they are several, the value is the mean of theirs.
    """
    if (grade := grade_of(row)) is None:
        return dict.fromkeys(GRADED)
    value = grade.value
    if len(samples) > 1:
        given = (grade_of(one) for one in samples)
        values = [one.value for one in given if one is not None and one.value is not None]
        value = sum(values) / len(values) if values else None
    return dict(zip(GRADED, (grade.by, grade.correct, grade.answer, value), strict=True))
