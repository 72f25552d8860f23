"""Lists in the terminal the replies that could not be read: whose they are, why not, and how each of them ends.

What a model has written is a stranger's text: no character of it can control the terminal or hide what follows.
"""

from __future__ import annotations

import textwrap

from rich.console import Console
from rich.text import Text

from tomserve.reporting.terminal import print_prose
from tomserve.studies.missing_data import UnreadReplies, UnreadReply

WIDTH = 80
"""The most characters in a line of the list."""

LINES = 5
"""How many lines of the end of a reply are shown at most."""

_BEFORE = "    | "


def show_unread(source: str, found: UnreadReplies, console: Console) -> None:
    """Print the replies, each with its item, strategy, reason and last lines, after a line that says how many of how
    many there are. source: the run or file, for that line."""
    if not found.unread:
        _line(console, f"{source}: all {found.replies:,} replies could be read")
        return
    shown = f"; the first {len(found.shown):,} of them" if len(found.shown) < found.unread else ""
    _line(console, f"{source}: {found.unread:,} of {found.replies:,} replies could not be read{shown}")
    for number, one in enumerate(found.shown, 1):
        _line(console, "")
        _line(console, f"{number}. {one.item} by {one.strategy}" + _model(one, found))
        why = one.reason or "no reason is recorded"
        for line in textwrap.wrap(inert(f"{'cut off, ' if one.status == 'length' else ''}{why}"), WIDTH - 3):
            _line(console, f"   {line}")
        for line in ["(the text is not at hand: a score table holds none)"] if one.text is None else end_of(one.text):
            _line(console, f"{_BEFORE}{line}")
    if len(found.shown) < found.unread:
        _line(console, "")
        print_prose(f"`--unread {found.unread}` lists all of them.", console)


def _model(one: UnreadReply, found: UnreadReplies) -> str:
    """The model of a reply, where the list holds several."""
    return f" ({one.model})" if len({other.model for other in found.shown}) > 1 else ""


def end_of(text: str) -> list[str]:
    """The last lines of a reply, as inert text in lines that fit the list; "..." stands for what comes before them.

    >>> end_of("I cannot\\x1b[2J tell.")
    ['I cannot\\ufffd[2J tell.']
    """
    room = WIDTH - len(_BEFORE)
    # One line can be megabytes long, and only its end is shown.
    written = text.strip()[-2 * LINES * WIDTH :].splitlines() or ["(the reply is empty)"]
    lines = [line for one in written for line in textwrap.wrap(inert(one), room)]
    cut = len(lines) > LINES or len(text.strip()) > 2 * LINES * WIDTH
    return ["...", *lines[1 - LINES :]] if cut else lines


def inert(text: str) -> str:
    """The text with a replacement character for each one that cannot be printed, and blanks for tabs."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text.replace("\t", " "))


def _line(console: Console, text: str) -> None:
    console.print(Text(inert(text)), soft_wrap=True)
