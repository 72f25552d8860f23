"""The study of interventions: is there a perspective-taking map inside a model, and does it cause the answer?

    tomserve causal MODEL --items worlds      # measures, and prints these tables
    tomserve analyze RUN --study causal       # the tables of a run that was measured

It reads the table of a measurement (tomserve.causal.table), not answers. The number to judge by is `adjusted`, the net
effect of the map minus that of the largest control in the same cell, at a layer and strength that other scenarios
chose; the NetEffect of the framework's source stands beside it. `notes` says what each table means.

headline          a row for each model: net effect, largest control, adjusted, tests, ceiling, published NetEffect
controls          each control, and how much more the map does
net_by_layer      the map, every control and the patch, by layer
readings          the headline under other readings of the same answers
references        what needs no map: adding nothing, the direct patch, replacement
transfer          maps that were fitted on one family of stories, on another
probes            what a linear probe reads, by layer, beside one of shuffled labels
fits              how well the maps fit, by layer
cells             flips in every layer and strength
answers           what the model said before anything was moved
published_causal  what the framework's source prints
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import polars as pl

from tomserve.causal.table import SCHEMA, Outcomes, Record, read_outcomes
from tomserve.studies import Context, Figure, Layout, Study
from tomserve.studies.showing import Tables

from . import described, net, probes, published
from .notes import NOTES
from .summary import summary, warnings
from .verdicts import verdicts

MADE: Mapping[str, Callable[[Outcomes], Iterator[Record]]] = {
    "headline": net.headline,
    "controls": net.controls,
    "net_by_layer": net.by_layer,
    "readings": net.readings,
    "references": described.references,
    "transfer": net.transfer,
    "probes": probes.probes,
    "fits": described.fits,
    "cells": described.cells,
    "answers": described.answers,
}
"""What makes the rows of each table for one model and benchmark."""


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """Every table of the study, by name; those without rows are left out.

    scores: the table of a measurement (tomserve.causal.table.SCHEMA). intervals: the only way to count. Raises
    ConfigError for a table that is not one, or holds a move twice.
    """
    del intervals
    found = read_outcomes(scores)
    frames = {}
    for name, make in MADE.items():
        rows = [row for one in found for row in make(one)]
        schema = net.HEADLINE if name == "headline" else None
        frames[name] = pl.DataFrame(rows, schema, infer_schema_length=None).fill_nan(None)
    frames["published_causal"] = published.table()
    return {name: frame for name, frame in frames.items() if frame.height}


def notes(intervals: str) -> Mapping[str, str]:
    """What each table means, by its name. intervals: the only way to count."""
    del intervals
    return NOTES


def figures(tables: Tables, context: Context) -> Sequence[Figure]:
    """The figures of the report; drawing takes long to import, and only a report draws."""
    from .figures import figures as draw

    return draw(tables, context)


STUDY = Study(
    name="causal",
    tables=tables,
    columns=dict(SCHEMA),
    answers=False,
    intervals=("recommended",),
    notes=notes,
    warnings=warnings,
    summary=summary,
    layouts={
        "net_by_layer": Layout("net", ("net_low", "net_high"), rows="map", by="benchmark", columns=("model", "layer")),
        "controls": Layout("difference", ("difference_low", "difference_high"), rows="control", by="benchmark",
                           columns=("model", "benchmark")),
    },
    figures=figures,
    verdicts=verdicts,
)  # fmt: skip
"""The value by which tomserve knows the study."""
