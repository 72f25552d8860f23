"""The study of stability: does an answer survive changes that should not matter?

    tomserve stability --benchmark worlds --limit 200   # asks questions with their variants, and prints these tables
    tomserve analyze RUN --study stability              # the tables of a run that holds variants

Where a run holds variants these tables stand beside those of its benchmark's own study. Two ways to count, by
`--intervals`: *recommended* (the default) has S beside what habits alone would give and beside the noise floor, with
intervals over clusters; *published* counts as the framework's source does, and repeats its printed table. `notes` says
what each table means.

stability           by kind of variant: S and D, kappa, the noise floor, S of right and wrong originals, accuracy
stability_by        the same by factors of the benchmark
flips               how many right, wrong and unreadable answers became what
flip_answers        from which answer to which
flipped_questions   the questions whose answer changes most often
stability_controls  of how many pairs simple rules keep their answer
variants_made       how many variants of each kind there are, and how they were made
published_stability the published table, from its own cells (published intervals only)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from tomserve.studies import Context, Figure, Layout, Study
from tomserve.studies.pairs import asked
from tomserve.studies.showing import Tables

from . import published
from .counting import COLUMNS, by_factor, by_kind
from .flipping import answers, controls, made, outcomes, questions
from .notes import NOTES, PUBLISHED
from .summary import summary, warnings
from .verdicts import verdicts


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """Every table of the study, by name; those without rows are left out.

    scores: a score table. intervals: the way to count, recommended or published. Raises ConfigError for a table that
    lacks a column or holds no variants.
    """
    found = asked(scores)
    if intervals == "published":
        listed = {"stability": list(published.counted(found))}
        frames = {"variants_made": made(found), "published_stability": published.table()}
    else:
        listed = {"stability": list(by_kind(found)), "stability_by": list(by_factor(found))}
        listed |= {"flips": list(outcomes(found)), "stability_controls": list(controls(found))}
        frames = {
            **{"flip_answers": answers(found), "flipped_questions": questions(found)},
            "variants_made": made(found),
        }
    frames |= {name: pl.DataFrame(rows, infer_schema_length=None).fill_nan(None) for name, rows in listed.items()}
    frames["stability"] = _ordered(frames["stability"])
    return {name: frames[name] for name in NOTES if name in frames and frames[name].height}


def _ordered(frame: pl.DataFrame) -> pl.DataFrame:
    """The table with its columns in the order of COLUMNS: the rows of T0 and of means lack some of them."""
    return frame.select(name for name in COLUMNS if name in frame.columns)


def notes(intervals: str) -> Mapping[str, str]:
    """What each table means, by its name. intervals: the way to count, recommended or published."""
    return PUBLISHED if intervals == "published" else NOTES


def figures(tables: Tables, context: Context) -> Sequence[Figure]:
    """The figures of the report; drawing takes long to import, and only a report draws."""
    from .figures import figures as draw

    return draw(tables, context)


STUDY = Study(
    name="stability",
    tables=tables,
    notes=notes,
    warnings=warnings,
    summary=summary,
    layouts={"stability": Layout("s", ("s_low", "s_high"), rows="variant", by="benchmark")},
    figures=figures,
    verdicts=verdicts,
    variants=True,
)
"""The value by which tomserve knows the study."""
