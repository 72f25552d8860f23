"""The study of functional Theory of Mind: behaviour, mechanism and stability side by side, and a score of them.

    tomserve analyze RUN_ANSWERS RUN_MEASURED --study functional

It reads runs of answers (with variants, for S) and measured runs (for C) of one model or several together; what is
missing stays empty. `ftom-1` is .5 B + .3 C + .2 S; see tomserve.stats.functional. `notes` says what each table means.

score          B, C, S, FToM and FToM_BS of each model, with intervals
layers         the figures of each layer as its own study has them
by_dimension, by_task, by_variant, by_layer   the layers in detail
ranking, sensitivity, swaps                   ranks, and how far they depend on scenarios and on weights
not_compared   models that have a score and were asked or measured otherwise than the ranked ones
cot_by_task, cot_claim                        reasoning against the answer alone, and the source's claim about it
humans, human_figures                         people who were asked here, and quoted ones
published_behaviour, published_causal, published_stability, paper_compat   the source's tables 3 to 6
inputs         runs and digests
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from tomserve.causal.table import SCHEMA
from tomserve.stats.functional import FTOM_1, Formula
from tomserve.studies import Context, Figure, Study
from tomserve.studies.showing import Tables

from . import comparing, counting, prompting, published
from .notes import NOTES
from .rows import B_NAME, C_NAME, S_NAME, gathered
from .summary import summary, warnings
from .verdicts import verdicts

TOLD = {**NOTES, comparing.NAME: comparing.NOTE}
"""What each table means, by its name, in the order of the tables."""


def tables(
    scores: pl.LazyFrame, intervals: str, formula: Formula = FTOM_1, why_no_c: str = ""
) -> dict[str, pl.DataFrame]:
    """Every table of the study, by name; those without rows are left out.

    scores: answers and measurements in one table (see tomserve.studies.together). intervals: the only way to count.
    formula: other weights have another name. why_no_c: why nothing was measured, where it was tried. Raises ConfigError
    for a table that lacks a column.
    """
    del intervals
    found = gathered(scores)
    scored = counting.counted(found, formula)
    alike = comparing.groups(found, scored)
    effects = pl.DataFrame(list(prompting.by_task(found)), infer_schema_length=None).fill_nan(None)
    listed = {
        "score": counting.by_model(found, scored, formula, why_no_c),
        "layers": counting.layers(found),
        "ranking": counting.ranking(alike),
        comparing.NAME: comparing.not_compared(alike),
        "sensitivity": counting.sensitivity(alike, formula),
        "swaps": counting.swaps(alike, formula),
        "cot_claim": prompting.claim(effects),
        "humans": counting.humans(found),
        "inputs": iter(found.inputs),
    }
    frames = {name: pl.DataFrame(list(rows), infer_schema_length=None).fill_nan(None) for name, rows in listed.items()}
    frames["cot_by_task"] = effects
    for name, study, table in (
        ("by_dimension", B_NAME, "dimensions"),
        ("by_task", B_NAME, "task_types"),
        ("human_figures", B_NAME, "human_figures"),
        ("by_variant", S_NAME, "stability"),
        ("by_layer", C_NAME, "net_by_layer"),
    ):
        frames[name] = found.told.get(study, {}).get(table, pl.DataFrame())
    frames |= {**published.beside(found), "paper_compat": published.compat()}
    return {name: frames[name] for name in TOLD if name in frames and frames[name].height}


def notes(intervals: str) -> Mapping[str, str]:
    """What each table means, by its name. intervals: the only way to count."""
    del intervals
    return TOLD


def figures(tables: Tables, context: Context) -> Sequence[Figure]:
    """The figures of the report; drawing takes long to import, and only a report draws."""
    from .figures import figures as draw

    return draw(tables, context)


STUDY = Study(
    name="functional",
    tables=tables,
    columns=dict(SCHEMA),
    intervals=("recommended",),
    notes=notes,
    warnings=warnings,
    summary=summary,
    figures=figures,
    verdicts=verdicts,
    labels={"task": "task", "dimension": "dimension"},
    variants=True,
    across=True,
    together=True,
)
"""The value by which tomserve knows the study."""
