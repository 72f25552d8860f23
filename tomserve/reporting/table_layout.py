"""Layout of tables and prose in the terminal, so that they fit a width in characters and no name and no number is cut
off.

A table that fits stands as it is. Else, in this order: what is the same in every row goes to the title, headings are
broken, rows are grouped by their first columns, texts are broken, and at last the columns stand in several blocks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl
from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from tomserve.content.text import sanitize

if TYPE_CHECKING:
    from tomserve.runs.cost import Figure


@dataclass(frozen=True, slots=True)
class TableWidth:
    """How much room a table has: its width in characters, and the gaps between two columns, the one that is wanted and
    the least."""

    width: int
    wide: int
    narrow: int


# What stands in a text where a line may end although nothing there would say so (see `divide_text`)
BREAK = "\N{ZERO WIDTH SPACE}"

# A part of a text behind which a line may end: after an underscore, a space, a slash or a hyphen between two words;
# neither within brackets, where the ends of an interval stand, nor within a fraction such as 3/4
_PART = re.compile(
    rf"(?:\[[^\]\[{BREAK}]{{0,80}}\]|(?<!\w)-|-(?!\w)|(?<=\d)/(?=\d)|[^_/ \[{BREAK}-]|\[)*"
    rf"(?:[_ {BREAK}]|(?<!\d)/|/(?!\d)|(?<=\w)-(?=\w))*"
)

_COUNTED = re.compile(r"(?=\D*\d)[\d .,/+\-−%?\[\]]+")  # a text that says nothing but numbers
_WHOLE = re.compile(r"-?\d*")  # a whole number, or nothing


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its heading and its cells as text."""

    name: str
    cells: tuple[str, ...]
    number: bool  # whether they are numbers, which are never broken
    text: bool  # whether they are names or sentences, rather than numbers or answers of yes and no

    def names(self) -> bool:
        """Whether the column names its rows: with texts, of which none says a number, such as 12/14."""
        return self.text and bool(self.cells) and not any(map(_COUNTED.fullmatch, self.cells))

    def most(self) -> int:
        """The width in characters at which nothing of the column is broken."""
        return max(map(len, (self.name, *self.cells)))

    def whole(self) -> int:
        """The smallest width at which only the heading is broken."""
        return max(map(len, (*_pieces(self.name), *self.cells)), default=1)

    def least(self) -> int:
        """The smallest width in characters at which the column is broken only where a reader expects it."""
        cells = self.cells if self.number else [piece for cell in self.cells for piece in _pieces(cell)]
        return max(map(len, (*_pieces(self.name), *cells)), default=1)


ROUNDING = 1e-12  # what is nearer to 0 is 0 in numbers of double precision


def cell_text(value: object) -> str:
    """One value as text: numbers with three decimals, nothing for null."""
    if value is None:
        return ""
    return number_text(value) if isinstance(value, float) else str(value)


def number_text(value: float) -> str:
    """A number with three decimals, which is shown as 0 only where it is 0 but for rounding errors.

    >>> number_text(0.0123), number_text(7.7e-6), number_text(-0.0004), number_text(-1e-17)
    ('0.012', '<0.001', '>-0.001', '0.000')
    """
    text = f"{value:.3f}"
    if float(text):
        return text
    return "0.000" if abs(value) < ROUNDING else "<0.001" if value > 0 else ">-0.001"


def columns_of(frame: pl.DataFrame) -> list[Column]:
    """The columns of a frame with their cells as text."""
    return [
        Column(name, tuple(cell_text(value) for value in frame[name]), kind.is_numeric(), kind == pl.String)
        for name, kind in frame.schema.items()
    ]


# The parts of a table, each under a heading of its own, which is empty where the table is one part
Parts = list[tuple[str, Sequence[Column]]]


def arrange_table(title: str, columns: Sequence[Column], room: TableWidth) -> tuple[str, Parts]:
    """The title, and the table in one or several parts, arranged so that as few cells as possible are broken."""
    if _total([one.most() for one in columns], room.wide) <= room.width:
        return title, [("", columns)]
    title, columns = _drop_constant(title, columns, room)
    first = 0  # how many columns of names come first that together say the same in several rows
    for place, one in enumerate(columns[:-1]):
        keys = list(zip(*(inner.cells for inner in columns[: place + 1]), strict=True))
        if not one.names() or 2 * len(set(keys)) > len(keys):
            break
        first += 1
    arrangements: list[Parts] = [[("", columns)], *(_group_rows(columns, count) for count in range(1, first + 1))]
    for measure in (Column.whole, Column.least):
        for parts in arrangements:
            if all(_total([measure(one) for one in part], room.narrow) <= room.width for _, part in parts):
                return title, parts
    return title, min(arrangements, key=lambda parts: _lines(parts, room))


def _lines(parts: Parts, room: TableWidth) -> int:
    """About how many lines the parts take: for each block its rows, its heading, and what is above and below."""
    return sum((len(part[0].cells) + 4) * len(list(column_blocks(part, room))) for _, part in parts)


def _total(widths: Sequence[int], gap: int) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _group_rows(columns: Sequence[Column], count: int) -> Parts:
    """A part for each combination of values of the first `count` columns, which its heading then says."""
    keys = list(zip(*(one.cells for one in columns[:count]), strict=True))
    parts: Parts = []
    for key in dict.fromkeys(keys):
        said = ", ".join(f"{one.name} {value or 'empty'}" for one, value in zip(columns, key, strict=False))
        rows = [place for place, found in enumerate(keys) if found == key]
        parts.append((said, [replace(one, cells=tuple(one.cells[row] for row in rows)) for one in columns[count:]]))
    return parts


def column_blocks(columns: Sequence[Column], room: TableWidth) -> Iterator[Sequence[Column]]:
    """The columns in blocks that fit, each of which begins with the columns that name the rows and come first."""
    if _total([one.least() for one in columns], room.narrow) <= room.width:
        yield columns
        return
    names = 0
    while names < len(columns) - 1 and columns[names].names():
        names += 1
    names = _key_columns(columns, names)
    if _total([one.least() for one in columns[: names + 1]], room.narrow) > room.width:  # too many are texts
        names = next((count for count in range(1, names) if _is_distinct(columns, count)), names)
    keys, block = list(columns[:names]), list(columns[:names])
    for one in columns[names:]:
        if len(block) > names and _total([inner.whole() for inner in (*block, one)], room.narrow) > room.width:
            yield block
            block = [*keys]
        block.append(one)
    yield block


def _key_columns(columns: Sequence[Column], names: int) -> int:
    """How many of the first columns tell the rows apart: `names`, or as many more as that takes where these are texts
    or whole numbers, such as an order of belief (1, 2) or a type of question (1.1); `names` where nothing does."""
    for count in range(max(names, 1), len(columns)):
        if count > names and not (columns[count - 1].text or all(map(_WHOLE.fullmatch, columns[count - 1].cells))):
            break
        if _is_distinct(columns, count):
            return count
    return names


def _is_distinct(columns: Sequence[Column], count: int) -> bool:
    """Whether no two rows say the same in the first `count` columns."""
    return len(set(zip(*(one.cells for one in columns[:count]), strict=True))) == len(columns[0].cells)


def _drop_constant(title: str, columns: Sequence[Column], room: TableWidth) -> tuple[str, list[Column]]:
    """The columns but those of text that say the same in each of several rows, and the title, which then says it. The
    first ones, which name the rows, go first, and no more go than have to."""
    kept, said = list(columns), []
    for one in columns:
        if _total([inner.whole() for inner in kept], room.narrow) <= room.width or len(kept) == 1:
            break
        if one.text and len(one.cells) > 1 and len(set(one.cells)) == 1:
            kept.remove(one)
            said.append(f"{one.name} {one.cells[0] or 'empty'}")
    return (f"{title} (in every row: {', '.join(said)})" if said else title), kept


def fit_widths(columns: Sequence[Column], room: TableWidth) -> tuple[dict[str, int], int]:
    """The widths of the columns by name, and the gap between them, at which the table fits the room, or is as narrow as
    it can be without breaking a number or a word. Headings are broken before cells are."""
    whole, least = ([measure(one) for one in columns] for measure in (Column.whole, Column.least))
    breaking = _total(whole, room.narrow) > room.width
    gap = room.wide if _total(least if breaking else whole, room.wide) <= room.width else room.narrow
    # As much as no column keeps is left out at once: a stranger's text may be of megabytes.
    widths = {one.name: min(one.most(), one.whole() + room.width) for one in columns}
    for measure in (Column.whole, Column.least):
        floors = {one.name: measure(one) for one in columns}
        excess = _total(list(widths.values()), gap) - room.width
        while excess > 0 and (broad := [name for name in widths if widths[name] > floors[name]]):
            widths[max(broad, key=lambda name: widths[name] - floors[name])] -= 1
            excess -= 1
    return widths, gap


def _pieces(text: str) -> list[str]:
    """The text in parts behind which a line may end (see _PART), without the spaces at their ends."""
    return [piece.rstrip(" ") for piece in _PART.findall(text) if piece]


def divide_text(text: str, most: int, whole: str) -> str:
    """The text with BREAK in parts of more than `most` characters, so that no line has to be longer than that. whole: a
    pattern of what is never divided, such as a letter that is written as its code."""
    if len(text) <= most:
        return text
    return "".join(_divide_piece(piece, most, whole) for piece in _PART.findall(text))


def _divide_piece(piece: str, most: int, whole: str) -> str:
    if len(piece.rstrip(" ")) <= most:
        return piece
    lines = [""]
    for sign in re.findall(rf"{whole}|.", piece, re.S):
        if lines[-1] and len(lines[-1]) + len(sign) > most:
            lines.append("")
        lines[-1] += sign
    return BREAK.join(lines)


def break_lines(text: str, width: int) -> str:
    """The text in lines of at most `width` characters where its parts are no longer than that."""
    if len(text) <= width:
        return text
    lines = [""]
    for piece in filter(None, _PART.findall(text)):
        if lines[-1] and len(lines[-1]) + len(piece.rstrip(" ")) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip(" ") for line in lines)


_WIDE, _NARROW = 3, 1  # characters between two columns: a space on each side of a separator, or the separator alone
PROSE = 200  # the most characters in a line of sentences, where the console is wider (a pipe has no width of its own)


class Terminal(Console):
    """A console on which nothing of what is printed is obeyed but tomserve's own colours and movements. It is the last
    line of defence, behind which no text of a file or a server has to be remembered."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The pieces of what is printed, with their texts inert, and with our own signs in ASCII where that is all that
        the locale or the encoding has."""
        plain = "C" in (os.environ.get("LC_ALL"), os.environ.get("LANG")) or self.options.ascii_only
        for piece in super().render(renderable, options):
            if not piece.control and not piece.text.isprintable():
                piece = piece._replace(text=sanitize(piece.text))
            yield piece._replace(text=piece.text.translate(_ASCII)) if plain else piece


_ASCII = str.maketrans({**dict(zip("█▓░│·─−–━╸╺", "#=-|.------", strict=True)), "…": "..."})


def print_prose(text: str, console: Console, style: str = "", hanging: int = 0) -> None:
    """Print sentences, broken between words, in lines as long as the console allows but of at most PROSE characters.
    hanging: by how many characters the lines after the first are moved to the right."""
    first, *more = Text(sanitize(text), style=style).wrap(console, min(console.width, PROSE) - hanging)
    for line in (first, *(Text(" " * hanging) + rest for rest in more)):
        console.print(line, soft_wrap=True)


def print_figures(figures: Sequence[Figure], console: Console, *, whole: bool = True) -> None:
    """Print the figures of a plan. whole: each with what it rests on and the options that change it."""
    if not whole:
        wide = max(len(figure.name) for figure in figures)
        for figure in figures:
            print_entry(Text(f"{figure.name:{wide}}  "), figure.text, console)
        print_prose(
            "What each figure rests on, and the options that change it: repeat the command with --all.", console
        )
        return
    for figure in figures:
        print_prose(f"{figure.name}: {figure.text}", console, "bold", hanging=2)
        changed = f" ({', '.join(figure.options)})" if figure.options else ""
        print_prose(f"  {figure.why}{changed}", console, "dim", hanging=2)
    print_prose("In brackets stand the options that change a figure.", console)


def print_entry(head: Text, text: str, console: Console) -> None:
    """Print a text behind its head; in a terminal in lines broken between words, all of which begin behind the head. In
    a file or a pipe the entry is one line, so that it can be searched."""
    if not console.is_terminal:
        console.print(head + Text(text), soft_wrap=True)
        return
    lines = Text(text).wrap(console, max(20, console.width - head.cell_len)) or [Text()]
    for number, line in enumerate(lines):
        console.print((Text(" " * head.cell_len) if number else head) + line, soft_wrap=True)


def print_table(title: str, frame: pl.DataFrame, console: Console) -> None:
    """Print a frame as an aligned table under its title, with an empty line below, as wide as the console allows."""
    room = TableWidth(console.width, _WIDE, _NARROW)
    frame = frame.with_columns(pl.col(pl.String).map_elements(sanitize, pl.String))
    said, parts = arrange_table(title, columns_of(frame), room)
    print_prose(said, console, "bold")
    for heading, part in parts:
        if heading:
            print_prose(heading, console, "bold")
        for block in column_blocks(part, room):
            _print(block, room, console)
            console.print()


def _print(columns: Sequence[Column], room: TableWidth, console: Console) -> None:
    widths, gap = fit_widths(columns, room)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, (gap - 1) // 2))
    for one in columns:
        heading = Text(break_lines(one.name, widths[one.name]))
        table.add_column(heading, justify="right" if one.number else "left", no_wrap=one.number, overflow="fold")
    for row in zip(*(one.cells for one in columns), strict=True):
        table.add_row(*(Text(break_lines(text, widths[one.name])) for text, one in zip(row, columns, strict=True)))
    console.print(table)
