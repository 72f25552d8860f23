"""What a study shows beside its tables: figures, verdicts, excerpts for the terminal, table layouts, and numbers put
into sentences. The terminal and the report show these values, and know nothing else of the study.

>>> points({"risk_difference": -0.05, "rd_low": -0.12, "rd_high": 0.02})
'−5 [−12, +2] points'
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import polars as pl

Tables = Mapping[str, pl.DataFrame]
Row = dict[str, object]
# The tones of a verdict: good news, bad news, or nothing certain. The report gives each a sign as well as a colour.
GOOD, BAD, OPEN = "good", "bad", "open"


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report that holds figures; link: the short text of the link that leads to it."""

    name: str
    heading: str
    link: str


class Picture(Protocol):
    """What can be put into a page as it is, such as markupsafe.Markup."""

    def __html__(self) -> str:
        pass


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture of a figure: its title, and the picture as SVG (see tomserve.reporting.html.charts.Picture)."""

    title: str
    svg: Picture


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One case in the words of those who wrote them: its title, and texts under their headings, which the report
    escapes."""

    title: str
    texts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """One or more pictures, or exhibits, with what a reader must know. tables: that hold its numbers. missing: why
    there are no pictures. wide: each needs a line of its own. Sections come in the order of their first figures.
    lead: of a study's first figure, how many of its pictures stand on the first screen; None: one of a single model."""

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
    lead: int | None = None


class Mark(NamedTuple):
    """A value, the ends of its interval, and a value that it is compared with; None where there is none. All are shares
    from 0 to 1 or differences from -1 to 1."""

    name: str
    value: float
    low: float | None
    high: float | None
    beside: float | None = None


@dataclass(frozen=True, slots=True)
class Card:
    """One question about a model with its answer: the verdict in a few words, and a tone. grounds: pairs of what is
    spoken of and a sentence. remark: how the verdict was reached, with its terms. marks: its small picture. signed:
    whether these are differences, not shares."""

    question: str
    verdict: str
    tone: str
    grounds: tuple[tuple[str, str], ...]
    remark: str = ""
    marks: tuple[Mark, ...] = ()
    signed: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the report begins with for one model: a line for each strategy, and then the cards. marks: the shares that
    these lines are about."""

    model: str
    lead: tuple[str, ...]
    cards: tuple[Card, ...]
    marks: tuple[Mark, ...] = ()


def answers_by_question(verdicts: Iterable[Verdict]) -> dict[str, dict[str, dict[str, Card]]]:
    """The questions of all cards in their order, each with its answers, and under each of these the models that have
    it, with their cards."""
    found: dict[str, dict[str, dict[str, Card]]] = {}
    for one in verdicts:
        for card in one.cards:
            found.setdefault(card.question, {}).setdefault(card.verdict, {})[one.model] = card
    return found


@dataclass(frozen=True, slots=True)
class Chance:
    """How much somebody gets right who guesses, by part of the questions ("all" for all), and how that was computed."""

    shares: Mapping[str, float]
    meaning: str


@dataclass(frozen=True, slots=True)
class Context:
    """What figures and verdicts may use in addition to the tables: what a guesser gets right (Chance.shares)."""

    chance: Mapping[str, float] = field(default_factory=dict)


class ItemOutline(NamedTuple):
    """What one has to know of an item to guess its answer: how many choices it offers, and its factors."""

    item: str
    choices: int
    factors: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Versions:
    """Items that agree in all the factors `matched` are versions of one question, the one whose `factor` is `original`
    the original."""

    factor: str
    original: str
    matched: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a study's tables as the terminal prints it. notes: tables whose notes follow below all excerpts.
    reading: what stands right below this one instead."""

    title: str
    frame: pl.DataFrame
    notes: tuple[str, ...] = ()
    reading: str = ""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a long table is laid out on paper: a row for each value of `rows`, a column for each pair of values of
    `columns`, one table for each value of `by`. The best of a row is bold, what is above `above` underlined."""

    value: str
    interval: tuple[str, str]
    rows: str
    by: str
    columns: tuple[str, str] = ("model", "strategy")
    above: float | None = None


def by_choices(items: Iterable[ItemOutline]) -> Chance:
    """What somebody gets right who picks one of the offered choices blindly: the mean of 1 / number of choices; unknown
    where an item has none."""
    choices = [item.choices for item in items]
    share = mean_of([1 / count for count in choices]) if all(choices) else None
    return Chance({} if share is None else {"all": share}, "mean over questions of 1 / number of choices")


def mean_of(shares: list[float]) -> float | None:
    """The mean of the shares, the same to the last digit in whatever order they come; None where there are none."""
    return sum(sorted(shares)) / len(shares) if shares else None


# In words whom an interval speaks for, by the value of the column `target`.
POPULATIONS = {
    "new stages": "stages that have not been written yet (a stage is a setting with its people, things and stories)",
    "these stages": "further stories of the very stages that were asked, and of no others",
    "new tasks": "further tasks or stories like those that were asked",
    "new stories": "further stories like those that were asked",
}


def populations(target: object) -> str:
    """Whom an interval speaks for, in words that need no further explanation; an unknown target stays as it is."""
    return POPULATIONS.get(str(target), readable_name(target))


def finite_or_none(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def is_above(row: Mapping[str, Any], name: str, bound: float = 0.0) -> bool:
    """Whether a number of a row is known and above the bound."""
    value = finite_or_none(row.get(name))
    return value is not None and value > bound


def is_below(row: Mapping[str, Any], name: str, bound: float = 0.0) -> bool:
    """Whether a number of a row is known and below the bound."""
    value = finite_or_none(row.get(name))
    return value is not None and value < bound


def mark_of(
    name: object, row: Mapping[str, Any], value: str, ends: tuple[str, str], beside: str = ""
) -> tuple[Mark, ...]:
    """The mark of a row of a table, none where it has no value. value, ends, beside: the columns that hold the value,
    the ends of its interval, and what it is compared with."""
    if (number := finite_or_none(row.get(value))) is None:
        return ()
    low, high, other = (finite_or_none(row.get(column)) for column in (*ends, beside))
    return (Mark(readable_name(name), number, low, high, other),)


def readable_name(value: object, limit: int = 34) -> str:
    """A name of the data as a reader says it, at most so many characters long: transparent_container becomes
    transparent container."""
    return one_line(value, limit).replace("_", " ")


def one_line(text: object, limit: int = 34) -> str:
    """The text on one line without control characters, cut to `limit` characters with an ellipsis."""
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def percent(value: object) -> str:
    """A share from 0 to 1 as a reader says it: 43%, or 99.8% where rounding would hide the rest."""
    number = finite_or_none(value)
    if number is None:
        return "undefined"
    if round(number, 9) in (0, 1):  # a mean of ones may miss one by its last digit
        number = round(number)
    return f"{100 * number:.1f}%" if 0 < number < 0.01 or 0.99 < number < 1 else f"{100 * number:.0f}%"


def number(value: float) -> str:
    """A number with two decimals and a real minus sign."""
    return f"{round(value, 2) + 0.0:.2f}".replace("-", "−")


def cell(value: float | None) -> str:
    """A share, or a difference of shares, as a cell of a narrow table has it.

    >>> cell(0.5), cell(-0.25), cell(-0.004), cell(1.0), cell(None)
    ('.50', '-.25', '.00', '1.00', '?')
    """
    if value is None or not math.isfinite(value):
        return "?"
    return f"{round(value, 2) + 0.0:.2f}".replace("0.", ".", 1)


def cell_of(column: str, name: str = "", missing: str = "?") -> pl.Expr:
    """A column of shares, or of their differences, as cells (see `cell`), under another name if given."""
    text = pl.col(column).map_elements(cell, pl.String, skip_nulls=False)
    if missing != "?":
        text = pl.when(pl.col(column).is_null()).then(pl.lit(missing)).otherwise(text)
    return text.alias(name or column)


def interval_cell(value: str, low: str, high: str, name: str = "", missing: str = "?") -> pl.Expr:
    """A column with its interval as cells, such as .50 [.40, .60]; the value alone where there is no interval."""
    alone, *ends = (cell_of(column, missing=missing) for column in (value, low, high))
    both = pl.format("{} [{}, {}]", alone, *ends)
    return pl.when(pl.col(low).is_null()).then(alone).otherwise(both).alias(name or value)


def several(frame: pl.DataFrame, *columns: str) -> list[str]:
    """Those of the columns that the table has and that hold more than one value."""
    return [name for name in columns if name in frame.columns and frame[name].n_unique() > 1]


def p_value(value: float) -> str:
    """A p in words, with three decimals; one above .05 is never shown as .05, nor one below it.

    >>> p_value(0.0172), p_value(1e-9), p_value(0.0504), p_value(0.0496)
    ('p = 0.017', 'p < 0.001', 'p = 0.0504', 'p = 0.0496')
    """
    if value < 0.0005:
        return "p < 0.001"
    return f"p = {value:.4f}" if f"{value:.3f}" == "0.050" and value != 0.05 else f"p = {value:.3f}"


def interval(row: Row) -> str:
    """The 95% interval of a share (ci_low and ci_high of the row), to follow the share in a sentence; empty without
    one."""
    low, high = finite_or_none(row.get("ci_low")), finite_or_none(row.get("ci_high"))
    return "" if low is None or high is None else f", 95% interval {percent(low)} to {percent(high)}"


def points(row: Row) -> str:
    """The difference of shares in a row (risk_difference, rd_low, rd_high) in percentage points, with the two shares
    where the row has them, and how far batching alone could move it where that was measured."""
    value, low, high = (finite_or_none(row.get(name)) for name in ("risk_difference", "rd_low", "rd_high"))
    if value is None:
        return "undefined"
    bounds = "" if low is None or high is None else f" [{signed_points(low)}, {signed_points(high)}]"
    treated, control = finite_or_none(row.get("share_treated")), finite_or_none(row.get("share_control"))
    shares = "" if treated is None or control is None else f" ({percent(treated)} against {percent(control)})"
    noise = ""
    if (reach := finite_or_none(row.get("noise_high"))) is not None:
        compared = "no larger than" if abs(value) <= reach else "more than"
        most = f"{100 * reach:.1f}".removesuffix(".0")
        noise = f"; {compared} what batching alone could move, {most} points"
    return f"{signed_points(value)}{bounds} points{shares}{noise}"


def worst_case(row: Row) -> str:
    """What failures leave possible of a difference (worst_low to worst_high of the row), as a clause."""
    low, high = finite_or_none(row.get("worst_low")), finite_or_none(row.get("worst_high"))
    if low is None or high is None:
        return "bounds unknown"
    return f"bounds if all failed answers are counted: {signed_points(low)} to {signed_points(high)}"


def signed_interval(row: Mapping[str, Any], value: str, low: str = "", high: str = "") -> str:
    """A difference of shares in percentage points with its interval, such as −29 [−40, −18]. low, high: columns, by
    default `value` with _low and _high."""
    names = (value, low or f"{value}_low", high or f"{value}_high")
    return "{} [{}, {}]".format(*(signed_points(row[name]) for name in names))


def signed_points(share: object) -> str:
    """A difference of shares in percentage points with its sign: −29, or "undefined" where there is none."""
    value = finite_or_none(share)
    if value is None:
        return "undefined"
    return f"{100 * value + 0.0:+.0f}".replace("-", "−").replace("+0", "0").replace("−0", "0")


def sign(row: Row) -> int:
    """1 where a difference is significantly above zero, -1 below, else 0: its interval does not hold zero and, where
    measured, it is larger than noise_high."""
    effect, noise = finite_or_none(row.get("risk_difference")), finite_or_none(row.get("noise_high"))
    if noise is not None and effect is not None and abs(effect) <= noise:
        return 0
    return side_of(row.get("rd_low"), row.get("rd_high")) or 0


def side_of(low: object, high: object) -> int | None:
    """1 where an interval lies above 0, -1 below, 0 where it holds it; None without an interval."""
    least, most = finite_or_none(low), finite_or_none(high)
    return None if least is None or most is None else 1 if least > 0 else -1 if most < 0 else 0


def capitalize_first(text: str) -> str:
    return text[:1].upper() + text[1:]


def first_names(names: Sequence[str], most: int = 3) -> str:
    """The first names of a list, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def who(strategy: object, part: object, parts: Mapping[str, str]) -> str:
    """Whom a sentence is about: the strategy, and the part of the questions, by what readers call it (`parts`)."""
    return ", ".join(filter(None, (readable_name(strategy), parts.get(str(part), readable_name(part)))))
