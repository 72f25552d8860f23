"""The values with which a study says what is shown of it, apart from its tables: figures, verdicts, excerpts for the
terminal, and how a table is laid out on paper.

A study makes them. The terminal and the report show them, and know nothing else of the study.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import polars as pl

Tables = Mapping[str, pl.DataFrame]
Row = dict[str, object]

GOOD, BAD, OPEN = "good", "bad", "open"
"""The tones of a verdict: good news, bad news, or nothing certain. The report gives each a sign as well as a colour."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report that holds figures.

    `name`: its name in addresses. `heading`: its heading. `link`: the short text of the link that leads to it.
    """

    name: str
    heading: str
    link: str


class Picture(Protocol):
    """What can be put into a page as it is, such as markupsafe.Markup."""

    def __html__(self) -> str:
        """The HTML."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture of a figure: its title, and the picture as SVG (see tomserve.reporting.html.svg.draw)."""

    title: str
    svg: Picture


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One case in the words of those who wrote them, where a picture would say less: its title, and texts under their
    headings.

    A text may be anything, such as a model's reply: the report escapes it and writes out what cannot be seen.
    """

    title: str
    texts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """One or more pictures, or exhibits, with what a reader must know to read them.

    `section`: where in the report it stands; sections come in the order of their first figures. `tables`: the names of
    the tables that hold its numbers. `caveat`: a warning that stands out from the caption. `missing`: why there are no
    pictures, where there are none. `wide`: each picture needs a line of its own. `caption_below`: the caption stands
    below the pictures even where there would be room beside them. `exhibits`: cases that a reader opens one by one.
    """

    name: str
    title: str
    section: Section
    caption: str = ""
    tables: tuple[str, ...] = ()
    panels: tuple[Panel, ...] = ()
    missing: str = ""
    caveat: str = ""
    wide: bool = False
    caption_below: bool = False
    exhibits: tuple[Exhibit, ...] = ()


@dataclass(frozen=True, slots=True)
class Card:
    """One question about a model with its answer: the verdict in a few words, and a tone (GOOD, BAD or OPEN).

    `grounds`: what the verdict rests on, as pairs of what is spoken of and a sentence about it. `remark`: how the
    verdict was reached, with the terms that it uses.
    """

    question: str
    verdict: str
    tone: str
    grounds: tuple[tuple[str, str], ...]
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the report begins with for one model: `lead`, a line for each strategy, and then the cards."""

    model: str
    lead: tuple[str, ...]
    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class Chance:
    """How much somebody gets right who guesses.

    `shares`: from 0 to 1, by part of the questions; "all" is for all of them. `meaning`: how they were computed, in
    words for the report.
    """

    shares: Mapping[str, float]
    meaning: str


@dataclass(frozen=True, slots=True)
class Context:
    """What figures and verdicts may use in addition to the tables. `chance`: what a guesser gets right
    (Chance.shares)."""

    chance: Mapping[str, float] = field(default_factory=dict)


class Asked(NamedTuple):
    """What one has to know of an item to guess its answer: its id, how many choices it offers, and its factors by
    name."""

    item: str
    choices: int
    factors: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Versions:
    """How the versions of a question are found: items that agree in all the factors `matched` are versions of one
    question, and its original is the item whose factor `factor` is `original`."""

    factor: str
    original: str
    matched: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a study's tables as the terminal prints it, under a title.

    `notes`: names of the tables whose notes are printed below all of the excerpts. `reading`: the few sentences that a
    reader needs for the columns shown here; where they are given they stand right below the table, and no notes are
    printed for it, since these explain every column of the whole tables.
    """

    title: str
    frame: pl.DataFrame
    notes: tuple[str, ...] = ()
    reading: str = ""


def in_brief(tables: Mapping[str, pl.DataFrame], shown: Mapping[str, str], reading: Mapping[str, str]) -> list[Excerpt]:
    """Of each table the columns that a reader needs first, those that it has, under its name in words.

    tables: by name. shown: by name the columns, with spaces between them, in the order in which tables are printed;
    those that are not there are left out. reading: by name what stands right below a table (see Excerpt.reading).
    """
    found = []
    for name, columns in shown.items():
        if (frame := tables.get(name)) is not None:
            kept = [column for column in columns.split() if column in frame.columns]
            found.append(Excerpt(name.replace("_", " "), frame.select(kept), (name,), reading.get(name, "")))
    return found


@dataclass(frozen=True, slots=True)
class Layout:
    """How a long table is laid out on paper: a row for each value of the column `rows`, a column for each pair of
    values of the two `columns`, one printed table for each value of the column `by`.

    A cell is `value` with the bounds `interval`. The best (highest) of a row is bold, what is above `above` underlined.
    """

    value: str
    interval: tuple[str, str]
    rows: str
    by: str
    columns: tuple[str, str] = ("model", "strategy")
    above: float | None = None


def by_choices(items: Iterable[Asked]) -> Chance:
    """What somebody gets right who picks one of the offered choices blindly: the mean of 1 / number of choices.

    items: each asked item once, in any order; where one has no choices, so that any text may answer it, nobody can say
    what a guesser gets right of all.
    """
    choices = [item.choices for item in items]
    share = mean_of([1 / count for count in choices]) if all(choices) else None
    return Chance({} if share is None else {"all": share}, "mean over questions of 1 / number of choices")


def mean_of(shares: list[float]) -> float | None:
    """The mean of the shares, which is the same to the last digit in whatever order they come; None where there are
    none."""
    return sum(sorted(shares)) / len(shares) if shares else None
