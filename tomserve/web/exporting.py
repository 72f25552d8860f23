"""Makes the files of a run that one can take away: its score table in several forms, and its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tomserve.content.paths import run_name
from tomserve.errors import ConfigError, one_of
from tomserve.reporting.html import report as html_report
from tomserve.runs.runfolder import find_run
from tomserve.runs.scores import scores_of
from tomserve.scoring.table import write_scores

FORMS = ("parquet", "csv", "jsonl")
"""The forms in which a score table can be had."""

REPORT = "report.html"


def scores(out: Path, runs: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Write the score table of a run. options: form, one of FORMS. Returns the name of the file.

    Raises ConfigError for another form, and where the run cannot be scored.
    """
    if (form := str(options.get("form"))) not in FORMS:
        raise ConfigError(one_of("form", form, FORMS))
    folder = find_run(runs[0])
    write_scores(scores_of(folder), out / f"scores.{form}")
    return {"file": f"scores.{form}", "as": f"{run_name(folder).replace('/', '-')}.{form}"}


def report(out: Path, runs: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Write the report of a run, one file that opens offline. options: study, intervals, by. Returns the file's name.

    Raises what `build.report` raises.
    """
    text = html_report.report_html(
        (runs[0],), options.get("intervals"), (), options.get("study"), by=tuple(options.get("by") or ())
    )
    (out / REPORT).write_text(text, encoding="utf-8")
    return {"file": REPORT, "as": f"{run_name(Path(runs[0])).replace('/', '-')}-{REPORT}"}
