"""Prints a table in the terminal so that no name and no number is cut off, however narrow the terminal is.

A table that fits is printed as it stands. One that is too wide loses the columns of text that say the same in every row
(its title then says it), its headings and texts go on in the next line after an underscore, a slash or a space, and the
gaps between its columns become narrower.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

_WIDE, _NARROW = 3, 1
"""Characters between two columns: a space on each side of a separator, or the separator alone."""


@dataclass(frozen=True, slots=True)
class _Column:
    """One column: its heading and its cells as text. `number`: they are numbers, which are never broken. `text`: they
    are names or sentences, rather than numbers or answers of yes and no."""

    name: str
    cells: tuple[str, ...]
    number: bool
    text: bool

    def most(self) -> int:
        """The width in characters at which nothing of the column is broken."""
        return max(map(len, (self.name, *self.cells)))

    def least(self) -> int:
        """The smallest width in characters at which the column is broken only where a reader expects it."""
        cells = self.cells if self.number else [piece for cell in self.cells for piece in _pieces(cell)]
        return max(map(len, (*_pieces(self.name), *cells)), default=1)


def cell(value: object) -> str:
    """One value as text: numbers with three decimals, nothing for null."""
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def print_table(title: str, frame: pl.DataFrame, console: Console) -> None:
    """Print a frame as an aligned table under its title, with an empty line below, as wide as the console allows."""
    columns = [
        _Column(name, tuple(cell(value) for value in frame[name]), kind.is_numeric(), kind == pl.String)
        for name, kind in frame.schema.items()
    ]
    widths, gap = {one.name: one.most() for one in columns}, _WIDE
    if sum(widths.values()) + gap * (len(columns) - 1) > console.width:
        title, columns = _without_repeated(title, columns)
        widths, gap = _fitted(columns, console.width)
    table = Table(
        title=Text(title),
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        padding=(0, (gap - 1) // 2),
    )
    for one in columns:
        heading = Text(_broken(one.name, widths[one.name]))
        table.add_column(heading, justify="right" if one.number else "left", no_wrap=one.number, overflow="fold")
    for row in zip(*(one.cells for one in columns), strict=True):
        table.add_row(*(Text(_broken(text, widths[one.name])) for text, one in zip(row, columns, strict=True)))
    console.print(table)
    console.print()


def _without_repeated(title: str, columns: Sequence[_Column]) -> tuple[str, list[_Column]]:
    """The columns but those of text that say the same in each of several rows, and the title, which then says it."""
    repeated = [one for one in columns if one.text and len(one.cells) > 1 and len(set(one.cells)) == 1]
    if not repeated or len(repeated) == len(columns):
        return title, list(columns)
    said = ", ".join(f"{one.name} {one.cells[0] or 'empty'}" for one in repeated)
    return f"{title} (in every row: {said})", [one for one in columns if one not in repeated]


def _fitted(columns: Sequence[_Column], width: int) -> tuple[dict[str, int], int]:
    """The widths of the columns by name, and the gap between them, at which the table is at most `width` wide, or as
    narrow as it can be without breaking a number or a word."""
    least = {one.name: one.least() for one in columns}
    gap = _WIDE if sum(least.values()) + _WIDE * (len(columns) - 1) <= width else _NARROW
    widths = {one.name: one.most() for one in columns}
    excess = sum(widths.values()) + gap * (len(columns) - 1) - width
    while excess > 0 and (broad := [name for name in widths if widths[name] > least[name]]):
        widths[max(broad, key=lambda name: widths[name] - least[name])] -= 1
        excess -= 1
    return widths, gap


def _pieces(text: str) -> list[str]:
    """The text in parts behind which a line may end: after an underscore, a slash or a space."""
    return [piece.rstrip(" ") for piece in re.split(r"(?<=[_/ ])(?! )", text)]


def _broken(text: str, width: int) -> str:
    """The text in lines of at most `width` characters where its parts are no longer than that."""
    if len(text) <= width:
        return text
    lines = [""]
    for piece in re.split(r"(?<=[_/ ])(?! )", text):
        if lines[-1] and len(lines[-1]) + len(piece.rstrip(" ")) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip(" ") for line in lines)
