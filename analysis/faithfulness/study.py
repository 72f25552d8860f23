"""The study of faithfulness: does an answer follow the chain of reasoning before it, or the chain the answer?

    tomserve analyze RUN --study faithfulness      # the tables of a run whose chains were edited

It reads the table of a measurement (tomserve.faithfulness.table), not answers. A group is one model on one benchmark
with one strategy, whose chains were shown in one way. There is no single number of faithfulness: each probe has its
own, with what an inert chain and one that decides alone would give beside it. `notes` says what each table means.

headline        four estimates for each group, each with an interval, both references and what failures could hide
verdict         what they decide, in words
conditions      every way in which a chain was shown
dose            agreement with the model's own answer by how much of the chain is shown
edits           further edits of the chain
by_correctness  the four estimates among right and wrong answers, only to describe
hints           what hints do to the answer, and whether chains speak of them
predictions     how often a second model names the answer from the chain
shown           where chains were shown in both ways, how far the ways agree
left_out        edits and hints that could not be made
examples        chains with their edits and both answers
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from tomserve.faithfulness.table import EDIT, HINT, PREDICTION, SCHEMA
from tomserve.faithfulness.table import STUDY as NAME
from tomserve.studies import Context, Figure, Layout, Study
from tomserve.studies.showing import Tables

from . import counting, described, outcomes, probing
from .notes import NOTES
from .rows import frame, groups, measured
from .summary import summary, warnings
from .verdicts import verdicts

_NUMBERS = dict.fromkeys(
    ("value", "low", "high", "p", "p_holm", "inert", "causal", "share", "bound_low", "bound_high", "sd"), pl.Float64
)
_COUNTS = {"items": pl.Int64, "units": pl.Int64, "failures": pl.Int64, "by_full": pl.Int64}


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """Every table of the study, by name; those without rows are left out.

    scores: the table of a measurement (tomserve.faithfulness.table.SCHEMA). intervals: the only way to count. Raises
    ConfigError for a table that is not one, or holds a question twice.
    """
    del intervals
    rows = measured(scores)
    edited, hinted, predicted = (list(groups(rows, kind)) for kind in (EDIT, HINT, PREDICTION))
    made = {
        "headline": [row for one in edited for row in counting.headline(one)],
        "verdict": [row for one in edited for row in outcomes.verdict(one)],
        "conditions": [row for one in edited for row in described.conditions(one)],
        "dose": [row for one in edited for row in counting.dose(one)],
        "edits": [row for one in edited for row in counting.edits(one)],
        "by_correctness": [row for one in edited for row in counting.by_correctness(one)],
        "hints": [row for one in hinted for row in probing.hints(one)],
        "predictions": [row for one in predicted for row in probing.predictions(one)],
        "shown": list(described.shown(edited)),
        "left_out": list(described.left_out(rows)),
        "examples": list(described.examples(edited)),
    }
    return {name: _typed(frame(found)) for name, found in made.items() if found}


def _typed(made: pl.DataFrame) -> pl.DataFrame:
    """The table with numbers as numbers, even in columns where none is known."""
    kinds = {**_NUMBERS, **_COUNTS}
    return made.cast({name: kinds[name] for name in made.columns if name in kinds})


def notes(intervals: str) -> Mapping[str, str]:
    """What each table means, by its name. intervals: the only way to count."""
    del intervals
    return NOTES


def figures(tables: Tables, context: Context) -> Sequence[Figure]:
    """The figures of the report; drawing takes long to import, and only a report draws."""
    from .figures import figures as draw

    return draw(tables, context)


STUDY = Study(
    name=NAME,
    tables=tables,
    columns=dict(SCHEMA),
    answers=False,
    intervals=("recommended",),
    notes=notes,
    warnings=warnings,
    summary=summary,
    layouts={
        "headline": Layout("value", ("low", "high"), rows="estimand", by="benchmark", columns=("model", "strategy")),
        "dose": Layout("value", ("low", "high"), rows="condition", by="benchmark", columns=("model", "strategy")),
    },
    figures=figures,
    verdicts=verdicts,
)
"""The value by which tomserve knows the study."""
