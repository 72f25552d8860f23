"""Analyses a run for its page: the panels of its report, its tables as files, and its scores anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tomserve.reporting import tables
from tomserve.reporting.html import build, page
from tomserve.runs.runfolder import existing_run
from tomserve.runs.scores import scores_of

PANELS = "panels.html"
FORMS = {"latex": "tex", "csv": "csv", "md": "md"}
"""The forms of the files of a table, each with its ending."""


def panels(out: Path, runs: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Write the panels of a run's report, and each of its tables in all forms. options: study, intervals, by.

    Returns what the page shows besides. Raises what `build.panels` raises.
    """
    made = build.panels(runs[0], options.get("study"), options.get("intervals"), tuple(options.get("by") or ()))
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


def rescore(out: Path, runs: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Score a run anew, and keep the table in its folder. Returns what could not be read, in sentences.

    options: `at`, when it was asked for, so that each asking is one of its own. Raises ConfigError as `scores_of` does.
    """
    del out, options
    said: list[str] = []
    found = scores_of(existing_run(runs[0]), fresh=True, note=said.append)
    return {"rows": found.height, "notes": said[:50]}
