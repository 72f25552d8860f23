"""A template of BigToM: one row of its file, with the sentences, questions and answers that all its items are made of.

The file has no header, `;` between fields, and 19 columns in each row: the story (five sentences), two sentences that
say that the person notices the event or does not, two about what the person then does, three questions (belief, desire,
action), the answers to them if the event was noticed and if not, and an event that changes nothing, noticed or not.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from tomserve.errors import ContentError

COLUMNS = (
    *("story", "aware", "not aware", "action aware", "action not aware"),
    *("belief question", "desire question", "action question"),
    *("belief answer aware", "desire answer aware", "action answer aware"),
    *("belief answer not aware", "desire answer not aware", "action answer not aware"),
    *("random event", "aware of random event", "not aware of random event"),
)
"""What the columns are called, in their order. Two more follow, which nothing uses: who made the row, and a number."""

WIDTH = len(COLUMNS) + 2
SENTENCES = 5
LONGEST = 200
"""Most characters of an answer, as of every choice of an item."""

_CONTROL = re.compile(r"[\x00-\x1f]")
_ASKED = re.compile(r"Does (\w[\w'-]*) ")
_WAY_OUT = "take the official file, or mend this row"


@dataclass(frozen=True)
class Template:
    """One row. number: its place in the file, from 1. sentences: the five of the story (the place, the wish, what the
    person perceives, what the person believes of it, the event). cells: the fields by the names in COLUMNS."""

    number: int
    sentences: tuple[str, ...]
    cells: dict[str, str]

    @property
    def person(self) -> str:
        """The name of the person whose mind the questions are about, as the belief question says it."""
        found = _ASKED.match(self.cells["belief question"])
        return found[1] if found else self.sentences[0].split()[0].strip(",")

    def answers(self, question: str) -> tuple[str, str]:
        """The answers to a question (belief, desire or action) if the person noticed the event, and if not."""
        return self.cells[f"{question} answer aware"], self.cells[f"{question} answer not aware"]


def row_bytes(row: list[str]) -> bytes:
    """A row as its digest is taken of it: its fields with a line each, however the file quotes them."""
    return "\n".join(row).encode()


def rows(text: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    """Each row of a file with the line on which it ends; empty lines are none. Raises ContentError where the text is no
    such file."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=";", strict=True)
    try:
        for row in filter(None, reader):
            yield reader.line_num, row
    except csv.Error as error:
        reason = f"is not CSV with ';' between fields ({error}); {_WAY_OUT}"
        raise ContentError(reason, path=path, line=reader.line_num) from None


def read(text: str, path: Path) -> list[Template]:
    """All templates of a file. text: its content. path: its name, for messages.

    Raises ContentError by line and field for a row that is no template, and for a file without rows.
    """
    found = [_template(number, line, row, path) for number, (line, row) in enumerate(rows(text, path), 1)]
    if not found:
        raise ContentError(f"holds no rows; expected {WIDTH} fields a row with ';' between them", path=path)
    return found


def _template(number: int, line: int, row: list[str], path: Path) -> Template:
    def refuse(reason: str, field: str = "") -> NoReturn:
        raise ContentError(reason, path=path, line=line, field=field)

    if len(row) != WIDTH:
        refuse(f"row {number} has {len(row)} fields; expected {WIDTH} with ';' between them; {_WAY_OUT}")
    cells = dict(zip(COLUMNS, row, strict=False))
    for name, text in cells.items():
        if not text.strip() or _CONTROL.search(text):
            refuse(f"is {text!r:.60}; expected text on one line; {_WAY_OUT}", name)
        if "answer" in name and len(text.strip()) > LONGEST:
            refuse(f"has {len(text):,} characters; expected at most {LONGEST}; {_WAY_OUT}", name)
    parts = [part.strip() for part in cells["story"].split(".")]
    if len(parts) != SENTENCES + 1 or not all(parts[:-1]) or parts[-1]:
        refuse(f"has {len(parts) - 1} full stops; expected {SENTENCES} sentences with one at each end", "story")
    if not _ASKED.match(cells["belief question"]):
        refuse(f"is {cells['belief question']!r:.60}; expected 'Does NAME ...'", "belief question")
    for question in ("belief", "action"):
        one, other = (cells[f"{question} answer {name}"].strip().casefold() for name in ("aware", "not aware"))
        if one == other:
            refuse("is the same as the answer of somebody who is not aware; expected two answers", f"{question} answer")
    return Template(number, tuple(f"{part}." for part in parts[:-1]), cells)
