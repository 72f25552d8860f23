"""Renders the page of a report from what it says.

All text is escaped, and the page forbids the browser to run any script but its own (by a content security policy).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from markupsafe import Markup, escape

from tomserve._version import __version__
from tomserve.content import pages
from tomserve.content.text import escape_hidden, sanitize
from tomserve.errors import ConfigError
from tomserve.reporting import tables
from tomserve.reporting.table_layout import cell_text
from tomserve.studies.presentation import (
    BAD,
    GOOD,
    OPEN,
    Figure,
    Layout,
    Mark,
    Section,
    Verdict,
    answers_by_question,
    percent,
    signed_points,
)

ASSETS = Path(__file__).parent / "assets"
MOST = 2_000  # how many rows of a table a page shows, and offers to copy
FIRST = 10  # how many rows of a longer table stand on a page before somebody wants the others
PRINTED = 100  # of so many rows at most a table without a layout is offered as LaTeX, which is long in the making
SIGNS = {GOOD: "✓", BAD: "✗", OPEN: "○"}
# The names of the page's own sections, which a study's sections may not have
RESERVED = frozenset(("main", "verdicts", "items", "tables", "failures", "provenance"))


@dataclass(frozen=True, slots=True)
class Table:
    """A study's table as the page shows it: its note, its columns (name, and whether they hold numbers), its cells as
    text."""

    name: str
    note: str
    columns: tuple[tuple[str, bool], ...]
    rows: tuple[tuple[str, ...], ...]
    empty: tuple[str, ...]  # the columns that hold nothing and are left out
    total: int  # rows of the whole table, of which MOST are shown
    forms: tuple[str, ...]  # in which it can be copied

    def shown(self) -> tuple[tuple[str, ...], ...]:
        """The rows that stand on the page from the beginning."""
        return self.rows[:FIRST] if len(self.rows) > 2 * FIRST else self.rows

    def held_back(self) -> tuple[tuple[str, ...], ...]:
        """The rows that are put into the page when somebody wants them: a browser is slow with tens of thousands."""
        return self.rows[len(self.shown()) :]


class Alert(NamedTuple):
    """A sentence that a reader must know before any number, and a link to more: its address and its text."""

    text: str
    link: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Page:
    """What the page says, from top to bottom."""

    title: str
    asked: str  # what was asked of whom, in a sentence
    facts: tuple[tuple[str, str], ...]
    warnings: tuple[Alert, ...]
    intervals: str
    verdicts: tuple[Verdict, ...]
    lead: Figure | None  # the figure of the first screen
    sections: tuple[tuple[Section, tuple[Figure, ...]], ...]
    tables: tuple[Table, ...]
    provenance: tuple[tuple[str, Sequence[tuple[str, str]]], ...]
    untold: str | None  # a sentence on what the page cannot show, None where nothing is lacking
    browsed: bool  # whether there is anything to browse
    data: str  # what the item browser unpacks
    failures: tuple[str, ...] = ()
    canaries: tuple[str, ...] = ()
    cut: int | None = None  # to how many characters long texts were cut, None where they are whole
    chosen: str | None = None  # a sentence on which part of the run the browser holds, None where it is all
    version: str = __version__
    # Whether it is of a model's answers; a page of a measurement has no items to browse and no failures
    answers: bool = True
    # Which of these occur, so that only these are explained: vanilla, chance, chain (the course of beliefs as a story
    # goes on) and flip (another answer to the same question)
    terms: frozenset[str] = frozenset()


def arrange(
    figures: Sequence[Figure], models: int
) -> tuple[Figure | None, tuple[tuple[Section, tuple[Figure, ...]], ...]]:
    """The figure of the first screen, None where there is none, and the others by sections in the order of the first
    figure of each. models: how many there are; of several, the first figure leads only if it says so itself. Raises
    ConfigError for two figures of one name, or two sections that share a name but not their heading."""
    by_section: dict[Section, list[Figure]] = {}
    lead = None
    for figure in figures:
        if not figure.panels and not figure.exhibits and not figure.missing:
            figure = replace(figure, missing="Not drawn: the study gives no picture of it.")
        shown = int(models == 1) if figure.lead is None else figure.lead
        if not by_section and figure.panels and shown:
            lead = figure = replace(figure, lead=shown)
        by_section.setdefault(figure.section, []).append(figure)
    for kind, names in (("figures", [one.name for one in figures]), ("sections", [one.name for one in by_section])):
        if double := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigError(f"the study has two {kind} of the name {double[0]!r}; give each a name of its own")
    if taken := sorted({one.name for one in by_section} & RESERVED):
        raise ConfigError(f"the study has a section {taken[0]!r}, which the page has itself; choose another name")
    left = {section: [one for one in members if one is not lead] for section, members in by_section.items()}
    return lead, tuple((section, tuple(members)) for section, members in left.items() if members)


class Strip(NamedTuple):
    """A mark as a strip of 200 units shows it: its name, its value in words, and where the value, the ends of its
    interval, what it is compared with and zero lie."""

    name: str
    text: str
    at: float
    low: float
    high: float
    beside: float | None
    zero: float


def strips(marks: Sequence[Mark], *, signed: bool = False) -> list[Strip]:
    """The marks of a card on one scale: from 0 to 1, or of differences as far to either side as the largest needs."""
    reach = max((abs(end) for one in marks for end in one[1:] if end is not None), default=1.0) if signed else 1.0
    least, most = (-reach, reach) if signed else (0.0, 1.0)

    def place(value: float | None) -> float | None:
        return None if value is None else round(6 + 188 * (min(max(value, least), most) - least) / (most - least), 1)

    found = []
    for one in marks:
        at = place(one.value) or 0.0
        low, high = (at if end is None else place(end) or 0.0 for end in (one.low, one.high))
        write = signed_points if signed else percent
        ends = "" if one.low is None or one.high is None else f" [{write(one.low)}, {write(one.high)}]"
        found.append(Strip(one.name, f"{write(one.value)}{ends}", at, low, high, place(one.beside), place(0) or 0.0))
    return found


def page_tables(
    frames: Mapping[str, pl.DataFrame], notes: Mapping[str, str], layouts: Mapping[str, Layout]
) -> tuple[Table, ...]:
    """The tables for the page (see `page_table`), with their notes and layouts by name."""
    return tuple(page_table(name, frame, notes.get(name, ""), layouts.get(name)) for name, frame in frames.items())


def page_table(name: str, frame: pl.DataFrame, note: str, layout: Layout | None = None) -> Table:
    """A table for the page: numbers with three decimals, a dash for what is undefined. name: of the table. note: what a
    reader must know of it. layout: how it is laid out on paper."""
    empty = tuple(column for column in frame.columns if frame.height and frame[column].null_count() == frame.height)
    kept = frame.drop(empty)
    columns = tuple((column, kind.is_numeric()) for column, kind in kept.schema.items())
    rows = tuple(tuple(_cell(value) for value in row) for row in kept.head(MOST).iter_rows())
    return Table(name, note, columns, rows, empty, frame.height, _forms(frame, layout))


def _forms(frame: pl.DataFrame, layout: Layout | None) -> tuple[str, ...]:
    return ("latex", "csv") if layout is not None or frame.height <= PRINTED else ("csv",)


def _cell(value: object) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, float) and math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return cell_text(value)


def _table_cells(row: Sequence[str], columns: Sequence[tuple[str, bool]]) -> Markup:
    """A row of a table as HTML. A page has tens of thousands of cells, for which a loop in a template takes thrice."""
    cells = zip(row, columns, strict=True)
    return Markup(
        "".join(f'<td class="n">{cell}</td>' if number else f"<td>{escape(cell)}</td>" for cell, (_, number) in cells)
    )


def copyable_tables(frames: Mapping[str, pl.DataFrame], layouts: Mapping[str, Layout]) -> dict[str, dict[str, str]]:
    """The rows that are shown of each table in the forms of its buttons, which copy them."""
    return {
        name: {
            form: tables.render(frame.head(MOST), form, layouts.get(name)) for form in _forms(frame, layouts.get(name))
        }
        for name, frame in frames.items()
    }


def render(page: Page) -> str:
    """The page as HTML text, which is the same for the same content."""
    # The browser of items does not wait for the tables, which are long: its script stands before them.
    style, early, late = (
        pages.asset(ASSETS / "report.css"),
        pages.asset(ASSETS / "core.js") + pages.asset(ASSETS / "browser.js"),
        pages.asset(ASSETS / "sorting.js") + pages.asset(ASSETS / "report.js"),
    )
    policy = (
        f"default-src 'none'; script-src '{pages.csp_digest(early)}' '{pages.csp_digest(late)}'; "
        f"style-src '{pages.csp_digest(style)}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    inline = {"style": Markup(style), "early": Markup(early), "late": Markup(late)}
    text: str = _template().render(page=page, policy=policy, signs=SIGNS, **inline)
    return escape_hidden(text)  # in the data of its script the same characters, elsewhere to be seen


def fragment(page: Page) -> str:
    """The page without its head, its items and its scripts, to stand in a page of the workbench."""
    text: str = _template("panels.html.j2").render(page=page, signs=SIGNS)
    return escape_hidden(text)


@cache
def _template(name: str = "report.html.j2") -> Any:
    environment = pages.templates(ASSETS)
    environment.globals |= {"questions": answers_by_question, "strips": strips}
    environment.filters["inert"] = sanitize
    environment.filters["cells"] = _table_cells
    environment.filters["readable"] = lambda text: str(text).replace("_", " ")
    return environment.get_template(name)
