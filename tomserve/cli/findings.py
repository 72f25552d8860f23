"""Printing the outcome of a benchmark's check or generator in the terminal."""

from __future__ import annotations

import textwrap

from rich.text import Text

from tomserve.benchmarks import Findings
from tomserve.cli import options
from tomserve.content import output_path
from tomserve.items import write_chunks
from tomserve.reporting import tables


def show(found: Findings) -> int:
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
