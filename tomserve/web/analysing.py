"""Analyses a run for its page: the panels of its report, and its tables as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tomserve.reporting import tables
from tomserve.reporting.html import page, report

PANELS = "panels.html"
FORMS = {"latex": "tex", "csv": "csv", "md": "md"}
"""The forms of the files of a table, each with its ending."""


def panels(out: Path, runs: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Write the panels of a run's report, and each of its tables in all forms. options: study, intervals, by.

    Returns what the page shows besides. Raises what `build.panels` raises.
    """
    made = report.report_panels(runs[0], options.get("study"), options.get("intervals"), tuple(options.get("by") or ()))
    said, analysis = made
    (out / PANELS).write_text(page.fragment(said), encoding="utf-8")
    for name, frame in analysis.tables.items():
        for form, ending in FORMS.items():
            text = tables.render(frame, form, analysis.study.layouts.get(name))
            (out / f"table-{name}.{ending}").write_text(text, encoding="utf-8")
    return {
        "title": said.title,
        "facts": [list(fact) for fact in said.facts],
        "study": analysis.study.name,
        "intervals": analysis.intervals,
        "ways": list(analysis.study.intervals),
        "tables": {name: frame.height for name, frame in analysis.tables.items()},
        "sections": [[one.name, one.link] for one, _ in said.sections],
        "answers": said.answers,
        "canaries": list(said.canaries),
    }
