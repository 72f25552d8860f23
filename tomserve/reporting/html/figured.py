"""The figures of a report: the study's own, or those that can be drawn of any study; for the page and for print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from tomserve.reporting.html import generic, measured
from tomserve.reporting.html.sources import Source, load
from tomserve.scoring.metrics import BEGINNING
from tomserve.scoring.table import COLUMNS
from tomserve.studies import (
    Analysis,
    Context,
    Figure,
    ItemOutline,
    compute,
    default_study,
    load_study,
    study_of_manifests,
)
from tomserve.studies.answer_rows import originals, split_scores


def figures(
    runs: Sequence[str | None],
    intervals: str | None = None,
    labels: Sequence[str] = (),
    study: str | None = None,
    *,
    by: Sequence[str] = (),
) -> tuple[Sequence[Figure], list[Path]]:
    """The figures of the report, and the files and folders that they are made from; the parameters are those of
    write_report."""
    sources, scores = load(runs, labels, None)
    analysis = compute(scores, study, intervals, by, named=named(sources))
    read = read_from(sources)
    given = measured.apart(sources)[0]
    if not analysis.study.answers or not given:
        return (analysis.study.figures or (lambda tables, context: ()))(analysis.tables, Context({})), read
    scores = split_scores(scores).answers
    outlined = Outlined([replace(one, scores=one.scores.select(scores.columns)) for one in given], scores)
    whole = all(one.folder is not None for one in given)
    context = Context(analysis.study.chance(outlined if whole else ()).shares)
    for _ in outlined:  # their factors are needed
        pass
    return figures_of(scores, analysis, context, list(outlined.factors)), read


def named(sources: Sequence[Source]) -> str | None:
    """The study that all of these name, if they are measured runs."""
    return study_of_manifests(source.manifest for source in sources)


def read_from(sources: Sequence[Source]) -> list[Path]:
    """The folders and files that the report is made from."""
    return [one for source in sources for one in (source.folder, source.file) if one is not None]


class Outlined:
    """The items that were asked, each once, as they are read, so that a million of them are never held together.

    Once all have been read, `factors` has the names of their factors, `canaries` their canaries, and `chained` says
    whether any of them has a belief chain.
    """

    def __init__(self, sources: Sequence[Source], scores: pl.DataFrame) -> None:
        self.factors: dict[str, None] = {}
        self.canaries: set[str] = set()
        self.chained = False
        self._left = set(scores["item"].unique())
        self._items = self._read(sources)

    def __iter__(self) -> Iterator[ItemOutline]:
        return self._items

    def _read(self, sources: Sequence[Source]) -> Iterator[ItemOutline]:
        for source in sources:
            if source.folder is None:
                self.factors |= dict.fromkeys(filter(is_factor, source.scores.columns))
            for outline in source.outlines():
                self.factors |= dict.fromkeys(outline.asked.factors)
                if outline.asked.item in self._left:
                    self._left.discard(outline.asked.item)
                    self.canaries |= {outline.canary} if outline.canary else set()
                    self.chained |= outline.chained
                    yield outline.asked


def figures_of(scores: pl.DataFrame, analysis: Analysis, context: Context, factors: Sequence[str]) -> Sequence[Figure]:
    """The study's own figures, or where it has none those that can be drawn of any study; then those of variants."""
    beside = analysis.beside
    more = [
        *generic.by_factors({name: analysis.tables[name] for name in analysis.by}, analysis.intervals),
        *(figures_of(scores, beside, context, factors) if beside is not None else ()),
    ]
    if analysis.study.figures is not None:
        return [*analysis.study.figures(analysis.tables, context), *more]
    tables = {name: frame for name, frame in analysis.tables.items() if name not in analysis.by}
    known = [name for name in factors if name in scores.columns]
    order = {
        **load_study(default_study(scores)).values,
        **analysis.study.values,
    }  # the benchmark's, and the study's own
    own = originals(scores) if not analysis.study.variants else scores
    return [*generic.figures(tables, own, known, context.chance, order, analysis.intervals), *more]


def is_factor(column: str) -> bool:
    """Whether a column of a score table describes the item: it is none of tomserve's and no metric."""
    return column not in COLUMNS and not column.startswith((BEGINNING, "rule_"))
