"""The outcome of a benchmark's check or generator: lines and tables to print, and whether something is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

Say = Callable[[str], None]
"""A function that prints one line at once, before a computation that takes long."""


@dataclass(frozen=True)
class Findings:
    """What to print, from top to bottom, and with which exit code to end.

    sections: headings, each with the lines under it. tables: titles, each with its table. notes: explanations of
    tables, by the first word of the tables' titles. lines: lines that are printed last. code: the exit code, 0 where
    nothing is wrong and 1 where a problem was found. markdown: a file to write the tables and notes to as well, or
    None.
    """

    sections: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    code: int = 0
    markdown: Path | None = None


def outcome(problems: Sequence[str]) -> str:
    """How many problems there are, in words: "ok" for none.

    >>> outcome([]), outcome(["The canary is missing."]), outcome(["one", "two"])
    ('ok', '1 problem', '2 problems')
    """
    return f"{len(problems)} problem{'s' * (len(problems) > 1)}" if problems else "ok"


Check = Callable[[Path | None, Say], Findings]
"""A function that checks a dataset. It is given the user's ``--path`` (None for the built-in data) and a `Say`, to
announce a long computation. Raises ConfigError or ContentError where the data cannot be checked at all."""

Show = Callable[[Path | None, Sequence[str]], Findings]
"""A function that shows items for reading. It is given the user's ``--path`` (None for the built-in data) and the names
that the user gave after the benchmark, from the widest part to the narrowest, such as a stage and a class. Raises
ConfigError for a name that is not there."""
