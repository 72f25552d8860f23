"""Tables in a terminal: whatever its width, no name and no number is cut off."""

from __future__ import annotations

import io

import polars as pl
import pytest
from rich.console import Console

from tomserve.reporting import tables
from tomserve.reporting.terminal import print_table

NAMES = ("transparent_container", "preposition_replacement")


def printed(frame: pl.DataFrame, width: int, title: str = "effects") -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    print_table(title, frame, console)
    return str(console.file.getvalue()).splitlines()  # type: ignore[attr-defined]


def effects() -> pl.DataFrame:
    numbers = {name: [-0.391, 0.5] for name in ("risk_difference", "rd_low", "rd_high", "p_sign_flip", "p_adjusted")}
    return pl.DataFrame({"model": ["reference"] * 2, "class": NAMES, **numbers, "robust": [False, False]})


@pytest.mark.parametrize("width", [80, 100, 200])
def test_nothing_is_cut(width: int) -> None:
    """Read down its column, every heading, name and number is there; and no line is longer than the terminal."""
    lines = printed(effects(), width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "…" not in text
    assert text.count("-0.391") == 5
    for part in ("reference", "difference", "preposition_", "replacement", "sign_", "adjusted", "False"):
        assert part in text, part


def test_a_table_that_fits_is_printed_as_it_stands() -> None:
    lines = printed(effects(), 200)
    assert lines[0].strip() == "effects"
    assert lines[1].split() == effects().columns
    assert "preposition_replacement" in "".join(lines)
    assert "in every row" not in "".join(lines)


def test_what_every_row_says_goes_to_the_title_where_room_is_short() -> None:
    lines = printed(effects(), 80)
    assert "effects (in every row: model reference)" in " ".join(line.strip() for line in lines[:2])
    assert sum("reference" in line for line in lines) == 1
    assert sum("False" in line for line in lines) == 2  # an answer of yes or no is a finding, and stays in its row


def test_a_single_row_keeps_its_names() -> None:
    text = "\n".join(printed(effects().head(1), 60))
    assert "in every row" not in text
    assert "-0.391" in text


def test_a_table_without_rows_has_its_headings() -> None:
    text = "".join(printed(effects().clear(), 40))
    assert "difference" in text
    assert "adjusted" in text


def test_statistical_columns_are_explained_where_nobody_else_does() -> None:
    """Once each, below all tables; a study's notes take the place of these sentences."""
    plan = pl.DataFrame(
        {"comparison": ["a"], "minimum_detectable_effect, SD 0.2": [0.1], "if all are affected, SD 0.2": [0.1]}
    )
    for notes, explained in ((None, True), ({"plan": "A note."}, False), ({}, False)):
        console = Console(file=io.StringIO(), width=500, highlight=False)
        tables.show({"one": plan, "two": plan}, console, notes)
        text = str(console.file.getvalue())  # type: ignore[attr-defined]
        assert (text.count("minimum_detectable_effect, SD 0.2: the smallest true difference") == 1) is explained
        assert (text.count("if all are affected, SD 0.2: the same if all classes") == 1) is explained
        assert ("plan: A note." in text) is bool(notes)
        assert "comparison:" not in text
