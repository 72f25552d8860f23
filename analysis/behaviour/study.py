"""The study of behaviour: one table across benchmarks, by type of task and by dimension of mind.

    tomserve analyze RUN... --study behaviour

It sets several benchmarks that a model was asked side by side (the behavioural layer of the functional framework).
Two ways to count, by `--intervals`: *recommended* (the default) corrects every share for chance, beside simple rules,
with intervals over clusters; *published* has raw shares as the framework's source prints them. `notes` says what each
table means.

behaviour           by benchmark: B, the mean over types of task of the share right corrected for chance
task_types          by benchmark, type of task and dimension
dimensions          by dimension (belief, desire, intention, emotion, action, ...) and benchmark
prompting_effects   by benchmark, type of task and dimension, each strategy against the answer alone, pair by pair
baselines           every rule that follows nobody's mind, by benchmark
human_figures       what people scored, as authors print it
published_behaviour the published table, from its own cells
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from tomserve.studies import Context, Figure, Study, baselines
from tomserve.studies.showing import Tables
from tomserve.studies.tasks import asked

from . import humans, published
from .counting import by_benchmark, by_dimension, by_task, effects
from .notes import NOTES, PUBLISHED
from .summary import summary, warnings
from .verdicts import verdicts


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """Every table of the study, by name; those without rows are left out.

    scores: a score table, of one benchmark or several. intervals: the way to count, recommended or published. Raises
    ConfigError for a table that lacks a column.
    """
    found = asked(scores)
    listed = {"task_types": list(by_task(found, intervals)), "dimensions": list(by_dimension(found, intervals))}
    if intervals == "recommended":
        listed = {"behaviour": list(by_benchmark(found)), **listed, "prompting_effects": list(effects(found))}
    listed[baselines.TABLE] = list(baselines.table(found.rows.filter("mind"), found.kinds, ("benchmark", "model")))
    frames = {name: pl.DataFrame(records, infer_schema_length=None).fill_nan(None) for name, records in listed.items()}
    if intervals == "recommended":
        frames["human_figures"] = humans.table(set(found.rows["benchmark"].unique()))
    frames["published_behaviour"] = published.table()
    if found.unusable:
        left = [{"benchmark": name, "left_out": count} for name, count in found.unusable.items()]
        frames["unusable"] = pl.DataFrame(left)
    return {name: frame for name, frame in frames.items() if frame.height}


def notes(intervals: str) -> Mapping[str, str]:
    """What each table means, by its name. intervals: the way to count, recommended or published."""
    return PUBLISHED if intervals == "published" else NOTES


def figures(tables: Tables, context: Context) -> Sequence[Figure]:
    """The figures of the report; drawing takes long to import, and only a report draws."""
    from .figures import figures as draw

    return draw(tables, context)


STUDY = Study(
    name="behaviour",
    tables=tables,
    notes=notes,
    warnings=warnings,
    summary=summary,
    figures=figures,
    verdicts=verdicts,
    labels={"task": "task", "dimension": "dimension"},
    across=True,
)
"""The value by which tomserve knows the study."""
