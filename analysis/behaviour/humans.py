"""What people scored on published benchmarks, as the benchmarks' authors print it: quoted, and not measured here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True)
class Quoted:
    """One printed figure. part: of which questions. measure: what is counted. accuracy: from 0 to 1. source: where it
    is printed. remark: in what it differs from what a model is asked here."""

    benchmark: str
    part: str
    measure: str
    accuracy: float
    source: str
    remark: str = ""

    @property
    def said(self) -> str:
        """The source, marked as quoted."""
        return f"quoted from {self.source}" + (f" ({self.remark})" if self.remark else "")


WHOLE, QUESTIONS = "all", "questions"

_DYNTOM = "the results table in README.md of github.com/GAIR-NLP/DynToM"
_MMTOM = "the leaderboard at chuanyangjin.com/mmtom-qa-leaderboard"
_SEEN = "people saw the videos as well as the text"
_UNEQUAL = "the average is the authors'"

FIGURES = (
    Quoted("dyntom", WHOLE, QUESTIONS, 0.777, _DYNTOM, _UNEQUAL),
    *(
        Quoted("dyntom", f"{dimension}, {task}", QUESTIONS, share, _DYNTOM)
        for dimension, shares in (
            ("belief", (0.838, 0.776)),
            ("emotion", (0.895, 0.787)),
            ("intention", (0.790, 0.738)),
            ("action", (0.767, 0.763)),
        )
        for task, share in zip(("understanding", "transformation"), shares, strict=True)
    ),
    Quoted("fantom", WHOLE, "sets of questions that are all right", 0.875, "Kim et al. (2023), FANToM"),
    Quoted("mmtom", "belief", QUESTIONS, 0.975, _MMTOM, _SEEN),
    Quoted("mmtom", "goal", QUESTIONS, 0.885, _MMTOM, _SEEN),
    Quoted("mmtom", WHOLE, QUESTIONS, 0.930, _MMTOM, _SEEN),
)
"""The printed figures. A benchmark whose authors' figure could not be read in a public source has none."""


def figure_of(benchmark: str) -> Quoted | None:
    """The printed share of all questions that people have right; None where there is none that counts questions."""
    return next(
        (one for one in FIGURES if (one.benchmark, one.part, one.measure) == (benchmark, WHOLE, QUESTIONS)), None
    )


def table(benchmarks: set[str]) -> pl.DataFrame:
    """The table `human_figures`: the printed figures of these benchmarks."""

    def rows() -> Iterator[dict[str, object]]:
        for one in FIGURES:
            if one.benchmark in benchmarks:
                yield {
                    **{"benchmark": one.benchmark, "part": one.part, "measure": one.measure},
                    **{"quoted": one.accuracy, "source": one.source, "remark": one.remark},
                }

    return pl.DataFrame(list(rows()))
