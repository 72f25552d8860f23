"""Prints a table in the terminal so that no name and no number is cut off, however narrow the terminal is (see
tomserve.reporting.fitting)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl
from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from tomserve.content.text import sanitize
from tomserve.reporting.fitting import Column, Room, arranged, blocks, broken, columns_of, fitted

_WIDE, _NARROW = 3, 1
"""Characters between two columns: a space on each side of a separator, or the separator alone."""

PROSE = 200
"""The most characters in a line of sentences, where the console is wider (a pipe has no width of its own)."""


class Terminal(Console):
    """A console on which nothing of what is printed is obeyed but tomserve's own colours and movements.

    It is the last line of defence, behind which no text of a file or a server has to be remembered.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The pieces of what is printed, with their texts inert."""
        for piece in super().render(renderable, options):
            yield piece if piece.control or piece.text.isprintable() else piece._replace(text=sanitize(piece.text))


def print_prose(text: str, console: Console, style: str = "", hanging: int = 0) -> None:
    """Print sentences, broken between words, in lines as long as the console allows but of at most PROSE characters.

    hanging: by how many characters the lines after the first are moved to the right.
    """
    first, *more = Text(sanitize(text), style=style).wrap(console, min(console.width, PROSE) - hanging)
    for line in (first, *(Text(" " * hanging) + rest for rest in more)):
        console.print(line, soft_wrap=True)


def print_entry(head: Text, text: str, console: Console) -> None:
    """Print a text behind its head; in a terminal in lines broken between words, all of which begin behind the head.

    In a file or a pipe the entry is one line, so that it can be searched.
    """
    if not console.is_terminal:
        console.print(head + Text(text), soft_wrap=True)
        return
    lines = Text(text).wrap(console, max(20, console.width - head.cell_len)) or [Text()]
    for number, line in enumerate(lines):
        console.print((Text(" " * head.cell_len) if number else head) + line, soft_wrap=True)


def print_table(title: str, frame: pl.DataFrame, console: Console) -> None:
    """Print a frame as an aligned table under its title, with an empty line below, as wide as the console allows."""
    room = Room(console.width, _WIDE, _NARROW)
    frame = frame.with_columns(pl.col(pl.String).map_elements(sanitize, pl.String))
    said, parts = arranged(title, columns_of(frame), room)
    print_prose(said, console, "bold")
    for heading, part in parts:
        if heading:
            print_prose(heading, console, "bold")
        for block in blocks(part, room):
            _print(block, room, console)
            console.print()


def _print(columns: Sequence[Column], room: Room, console: Console) -> None:
    widths, gap = fitted(columns, room)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, (gap - 1) // 2))
    for one in columns:
        heading = Text(broken(one.name, widths[one.name]))
        table.add_column(heading, justify="right" if one.number else "left", no_wrap=one.number, overflow="fold")
    for row in zip(*(one.cells for one in columns), strict=True):
        table.add_row(*(Text(broken(text, widths[one.name])) for text, one in zip(row, columns, strict=True)))
    console.print(table)
