"""What the commands that read runs say on standard error: warnings, and what is lacking of the runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from tomserve.content.text import say
from tomserve.studies import missing_data


def warn(message: str) -> None:
    """Print a warning on standard error: as one line, or in a terminal as lines of its width under a coloured word."""
    # The message may quote a stranger's file, so it must not be able to control the terminal.
    line = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in message)
    if not sys.stderr.isatty():
        say(f"warning: {line}", error=True)
        return
    from rich.text import Text

    from tomserve.reporting.table_layout import Terminal

    Terminal(stderr=True, highlight=False).print(Text.assemble(("warning: ", "bold yellow"), line))


def warn_gaps(source: str | Path, scores: pl.DataFrame, given: str = "") -> list[missing_data.Gaps]:
    """Warn of what is lacking: replies that could not be read, failures, answers not asked for, a mere sample.

    source: a run's folder, or the file of a score table. scores: what was loaded from it. given: what `tomserve runs`
    is given to list the replies that could not be read; "" for the source. Returns what is lacking.
    """
    lacking = [replace(gap, given=given or gap.given) for gap in missing_data.gaps_of_source(source, scores)]
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
