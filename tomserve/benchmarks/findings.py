"""What a benchmark's check or generator found: lines and tables to print, and whether something is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

Say = Callable[[str], None]
"""Told one line at once, while a long computation is still to come."""


@dataclass(frozen=True)
class Findings:
    """What to print, from top to bottom, and with which exit code to end.

    sections: lines under a heading each. tables: by title. notes: what to know of the tables, by the first word of
    their titles. lines: printed last, as they are. code: 0 where nothing is wrong, 1 where a problem was found.
    markdown: a file that is to hold the tables and notes too, None for none.
    """

    sections: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    code: int = 0
    markdown: Path | None = None


Check = Callable[[Path | None, Say], Findings]
"""A check of a dataset: given the user's ``--path`` (None for what is built in) and whom to tell that it takes a while.
Raises ConfigError, ContentError for what cannot be checked at all."""
