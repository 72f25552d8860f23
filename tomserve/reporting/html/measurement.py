"""The report page of a measurement: verdicts, figures, tables, and where they come from.

A measurement (see tomserve.runs.measurement) has no replies to browse, no failures, no strategies and no chance level.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tomserve.reporting.html import page as pages
from tomserve.reporting.html.item_browser import pack_json
from tomserve.reporting.html.sources import Source, input_fields, provenance
from tomserve.runs.manifest import make_portable
from tomserve.runs.measurement import environment_changes
from tomserve.studies import Analysis, Context
from tomserve.studies.answer_rows import split_scores

# Fields of a manifest that say nothing of a measurement
_NOT_SHOWN = ("schema", "kind", "strategies", "endpoints", "server")


def measurement_page(sources: Sequence[Source], analysis: Analysis) -> pages.Page:
    """The page of measured runs, or of score tables that hold measurements. sources: the runs or tables. analysis: what
    the study has made of all of them. Raises ContentError where the study fails."""
    study, tables, context = analysis.study, analysis.tables, Context()
    models = list(dict.fromkeys(str(name) for one in sources for name in _values(one, "model")))
    lead, sections = pages.arrange(study.figures(tables, context) if study.figures is not None else (), len(models))
    facts = list(_facts(sources, analysis))
    known = dict(facts)
    count = f"{known['items']} items" if "items" in known else f"{known['measured rows']} rows"
    files = [source.run for source in sources if source.folder is None]
    return pages.Page(
        title=f"{len(models)} models" if len(models) > 3 else ", ".join(models),
        asked=f"Measured inside the model: {count} of {known.get('benchmark', 'an unknown benchmark')}.",
        facts=tuple(facts),
        warnings=tuple(_warnings(sources, analysis)),
        intervals=analysis.intervals,
        verdicts=tuple(analysis.verdicts_with(context)),
        lead=lead,
        sections=sections,
        tables=pages.page_tables(tables, analysis.notes, study.layouts),
        provenance=tuple((source.run, tuple(_provenance(source))) for source in sources),
        untold=f"Where {', '.join(files)} comes from is not recorded in a score table." if files else None,
        browsed=any(source.folder is not None for source in sources),
        data=pack_json({"tables": pages.copyable_tables(tables, study.layouts)}),
        answers=False,
    )


def split_sources(sources: Sequence[Source]) -> tuple[list[Source], list[Source]]:
    """The sources that hold answers, and those that hold measurements."""
    measured = [bool(split_scores(source.scores).measured.height) for source in sources]
    return (
        [source for source, moved in zip(sources, measured, strict=True) if not moved],
        [source for source, moved in zip(sources, measured, strict=True) if moved],
    )


def add_measurements(page: pages.Page, sources: Sequence[Source], analysis: Analysis) -> pages.Page:
    """The page of answers with what there is to say of the measurements that its study reads beside them. sources: the
    measured runs or tables, none perhaps. analysis: of all of them; its doubts are shown, too."""
    runs = [("measured runs", ", ".join(source.run for source in sources))] if sources else []
    rows = [("measured rows", f"{sum(source.scores.height for source in sources):,}")] if sources else []
    return replace(
        page,
        facts=(*page.facts, *runs, *rows),
        warnings=(*_warnings(sources, analysis), *page.warnings),
        provenance=(*page.provenance, *((source.run, tuple(_provenance(source))) for source in sources)),
    )


def _values(source: Source, column: str) -> list[Any]:
    """The values of a column of the source's table, each once; none where it has no such column."""
    frame = source.scores
    return frame[column].drop_nulls().unique(maintain_order=True).to_list() if column in frame.columns else []


def _facts(sources: Sequence[Source], analysis: Analysis) -> Iterator[tuple[str, str]]:
    """What stands at the head of the page; a fact that no source knows is left out."""
    if benchmarks := sorted({str(name) for source in sources for name in _values(source, "benchmark")}):
        yield "benchmark", ", ".join(benchmarks)
    for column, what in (("item", "items"), ("cluster", "stories")):
        if found := {name for source in sources for name in _values(source, column)}:
            yield what, f"{len(found):,}"
    yield "runs", ", ".join(source.run for source in sources)
    yield "study", f"{analysis.study.name}, {analysis.intervals} intervals"
    yield "measured rows", f"{sum(source.scores.height for source in sources):,}"
    created = [str(source.manifest["created"]) for source in sources if source.manifest.get("created")]
    if created:
        yield "measured", ", ".join(dict.fromkeys(time[:10] for time in created))


def _warnings(sources: Sequence[Source], analysis: Analysis) -> Iterator[pages.Alert]:
    """What a reader must know before any number: the study's doubts, and what changed while it was measured."""
    yield from doubts(analysis)
    for source in sources:
        for change in environment_changes(source.manifest):
            text = f"Run {source.run} was measured in several sessions, and not all by the same means: {change}."
            yield pages.Alert(text, ("#provenance", "Provenance"))


def doubts(analysis: Analysis) -> Iterator[pages.Alert]:
    """The reasons to doubt the numbers, as commands print them; many begin with a name, which stays as it is."""
    for said in analysis.warnings:
        yield pages.Alert(said if said.endswith((".", "!", "?")) else f"{said}.", ("#tables", "Tables"))


def _provenance(source: Source) -> Iterator[tuple[str, str]]:
    """What the run has recorded of itself, without what only answers have and what was not recorded."""
    if source.made_from is None:
        yield "file", source.run
        yield "what it is", f"a measured table of {source.scores.height:,} rows; who measured it is not recorded in it"
        return
    manifest: Mapping[str, Any] = {
        name: value for name, value in source.manifest.items() if name not in _NOT_SHOWN and value is not None
    }
    yield from provenance(make_portable(dict(manifest)))
    for name, text in input_fields(source.made_from):
        yield name.replace("scores: ", "file: "), text
