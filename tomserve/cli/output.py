"""What several commands print: warnings, what is missing in runs, findings about a benchmark, reports and failures."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import typer
from rich.text import Text

from tomserve.benchmarks import Findings
from tomserve.cli import options
from tomserve.content import output_path
from tomserve.content.text import count_noun, say
from tomserve.errors import TomserveError
from tomserve.items import write_chunks
from tomserve.reporting import tables
from tomserve.reporting.overview import show_overview
from tomserve.status import FINAL, listed
from tomserve.studies import missing_data

if TYPE_CHECKING:
    from rich.console import Console

    from tomserve.studies import Analysis


def warn(message: str) -> None:
    """Print a warning on standard error: as one line, or in a terminal as lines of its width under a coloured word."""
    # The message may quote a stranger's file, so it must not be able to control the terminal.
    line = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in message)
    if not sys.stderr.isatty():
        say(f"warning: {line}", error=True)
        return
    from tomserve.reporting.table_layout import Terminal

    Terminal(stderr=True, highlight=False).print(Text.assemble(("warning: ", "bold yellow"), line))


def warn_gaps(source: str | Path, scores: pl.DataFrame, given: str = "") -> list[missing_data.Gaps]:
    """Warn of what is lacking: replies that could not be read, failures, answers not asked for, a mere sample.

    source: a run's folder, or the file of a score table. scores: what was loaded from it. given: what `tomserve runs`
    is given to list the replies that could not be read; "" for the source. Returns what is lacking.
    """
    lacking = [
        replace(gap, source_argument=given or gap.source_argument)
        for gap in missing_data.gaps_of_source(source, scores)
    ]
    for said in missing_data.gap_sentences(lacking):
        warn(said)
    return lacking


def tell_unread(lacking: Sequence[missing_data.Gaps]) -> int:
    """Say as the last thing how many replies could not be read, in a line for each source, and which was the first.

    Returns the exit code: 1 where more than one in ten of the replies of a source could not be read, else 0.
    """
    sys.stdout.flush()  # so that the line also stands last where both streams go to one file
    for line in missing_data.unread_lines(lacking):
        warn(line)
    return int(any(gap.many_unread for gap in lacking))


def show_findings(found: Findings) -> int:
    """Print sections, tables, notes and lines, and write the Markdown file where one is wanted; returns the exit code.

    Raises JournalError where that file cannot be written.
    """
    console = options.console()
    for heading, lines in found.sections.items():
        console.print(Text(heading, style="bold"))
        for line in lines:
            shown = f"  {line}"
            if console.is_terminal:  # elsewhere a line stays whole, for other programs
                shown = textwrap.fill(shown, console.width, subsequent_indent=" " * 6, break_on_hyphens=False)
            console.print(Text(shown), soft_wrap=True)
        console.print()
    tables.show_tables(found.tables, console, found.notes)
    if found.markdown is not None:
        text = tables.render_all(found.tables, "md", {}, found.notes)
        write_chunks(found.markdown, [text.encode()], output_path.open_output)
    for line in found.lines:
        console.print(Text(line), soft_wrap=True)
    return found.code


def show_result(analysis: Analysis, screen: Console, *, whole: bool) -> None:
    """Print what a study found, in short or as a whole, after the reasons to doubt it, of which the short form has the
    first."""
    warn_doubts(analysis, len(analysis.warnings) if whole else _DOUBTS)
    if not analysis.summary():
        others = " or ".join(name for name in analysis.study.intervals if name != analysis.intervals)
        warn(f"nothing can be counted by --intervals {analysis.intervals}{f'; choose {others}' if others else ''}")
    if whole:
        tables.show_analysis(analysis, screen)
    else:
        show_overview(analysis, screen)


_DOUBTS = 2  # warnings in the short form


def warn_doubts(analysis: Analysis, most: int | None = None) -> None:
    """Warn of the reasons to doubt the numbers. most: how many are shown, before how many more there are."""
    for doubt in analysis.warnings[:most]:
        warn(doubt)
    if most is not None and (more := len(analysis.warnings) - most) > 0:
        warn(f"{count_noun(more, 'more warning')}, shown by --all")


def write_run_report(folder: Path, analysis: Analysis, screen: Console, *, opened: bool) -> None:
    """Write the run's report, unless the one in the folder is still up to date, and say where it is.

    opened: open it in the browser. That it could not be written is only a warning, so that it does not look like a
    failed run.
    """
    from tomserve.reporting.html.report import write_report
    from tomserve.reporting.html.sources import find_current_report

    try:
        path = find_current_report(folder) or write_report([str(folder) + "/"], analysis=analysis)
    except TomserveError as error:
        say(f"warning: no report ({error})", error=True)
    else:
        tell_report(path, screen, opened=opened)


def show_measurement(folder: Path, screen: Console, showing: options.Showing, note: str | None = None) -> None:
    """Print what was measured in a run and where it is, and write its report where that is wanted.

    note: a line to print after all tables.
    """
    from tomserve.runs.scores import scores_of
    from tomserve.studies import compute

    analysis = compute(scores_of(folder, note=warn))
    show_result(analysis, screen, whole=showing.whole)
    if note is not None and showing.whole:
        screen.print(note, highlight=False)
    screen.print(f"run: {folder}", soft_wrap=True, markup=False)
    if showing.report:
        write_run_report(folder, analysis, screen, opened=showing.opened)


def tell_report(path: Path, screen: Console, *, opened: bool) -> None:
    """Say where a report is, and open it in the browser where that is wanted."""
    screen.print(f"report: {path}", soft_wrap=True, markup=False)
    if opened:
        typer.launch(str(path.resolve()))


def tell_failures(failures: Mapping[str, int], screen: Console, where: str = "") -> None:
    """Say how many requests failed, by status, and whether the command asks them again if it is repeated.

    where: words that say which requests these are. Without failures nothing is said.
    """
    if failures:
        again = "; repeat the command to ask again" if set(failures) - FINAL else "; final, not asked again"
        screen.print(f"failures{where}: {listed(failures)}{again}", markup=False)
