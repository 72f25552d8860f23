"""Tells rows of answers from rows of a measurement where both stand in one table.

A row of an answer names its strategy, and a row of a measurement its `kind` (see tomserve.runs.measurement). A table that
holds both is made by tomserve.studies.combining, which leaves out a factor `kind` that the answers may have; so rows of
answers have no `kind` there.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

KIND, STRATEGY = "kind", "strategy"


class Parts(NamedTuple):
    """The rows of a table that are answers, and those that are measured; either may be empty. Where there are both, the
    answers lack the columns in which only rows of the measurement hold something."""

    answers: pl.DataFrame
    measured: pl.DataFrame

    @property
    def mixed(self) -> bool:
        """Whether there are rows of both sorts."""
        return bool(self.answers.height and self.measured.height)


def split(scores: pl.DataFrame) -> Parts:
    """The rows of answers and those of a measurement.

    scores: a score table, the table of a measurement, or both in one table.
    """
    if STRATEGY not in scores.columns:
        return Parts(scores.clear(), scores) if KIND in scores.columns else Parts(scores, scores.clear())
    if KIND not in scores.columns:
        return Parts(scores, scores.clear())
    is_measured = pl.col(STRATEGY).is_null() & pl.col(KIND).is_not_null()
    measured = scores.filter(is_measured)
    if not measured.height:
        return Parts(scores, measured)
    answers = scores.filter(~is_measured)
    theirs = [one.name for one in answers if one.null_count() == answers.height and measured[one.name].count()]
    return Parts(answers.drop(theirs) if answers.height else answers, measured)
