"""Tables in a terminal: whatever its width, no name and no number is cut off.
Tables for papers: each fits an ordinary page, and a table without rows is no table."""

import io

import polars as pl
import pytest
from rich.console import Console

from tests.helpers.score_tables import scores
from tomserve.reporting import tables
from tomserve.reporting.table_layout import print_table
from tomserve.reporting.tables import render, write_tables
from tomserve.studies import Layout, Study, compute
from tomserve.studies.presentation import Card, Excerpt, Verdict

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
    lines = printed(effects(), width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "…" not in text
    assert text.count("-0.391") == 5
    for part in ("reference", "difference", "preposition_", "replacement", "sign_", "adjusted", "False"):
        assert part in text, part


def test_a_table_that_nothing_helps_is_printed_in_blocks_that_repeat_the_names() -> None:
    rules = {f"{name} mentioned": ["14/112", "1088/1088"] for name in ("always", "first", "last", "most", "never")}
    frame = pl.DataFrame(
        {"class": NAMES, **rules, "question only": ["1/2", "3/4"], **effects().drop("model", "class").to_dict()}
    )
    for width in (60, 80):
        lines = printed(frame, width)
        assert max(map(len, lines)) <= width
        assert sum("preposition_replacement" in line for line in lines) > 1
        assert sum(line.count("1088/1088") for line in lines) == 5
        assert sum(line.count("-0.391") for line in lines) == 5
        for heading in frame.columns:
            words = heading.replace("_", "_ ").split()
            assert all(any(word in line for line in lines) for word in words), heading


def test_a_pipe_gets_every_row_in_one_line() -> None:
    from tomserve.cli.options import PIPE

    frame = effects().with_columns(pl.lit(0.25).alias(f"another_long_name_{number}") for number in range(40))
    lines = printed(frame, PIPE)
    assert len(lines) == 6
    assert all(name in lines[1] for name in frame.columns)
    assert lines[-2].count("0.250") == 40


def judged(**more) -> str:
    study = Study(
        name="mine",
        tables=lambda rows, intervals: {"shares": pl.DataFrame({"share": [0.5]})},
        notes=lambda intervals: {"shares": "every column"},
        **more,
    )
    console = Console(file=io.StringIO(), width=80, highlight=False)
    tables.show_analysis(compute(scores(), study), console)
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def test_verdicts_come_first_and_what_is_shown_is_explained_where_it_stands() -> None:
    """A reader in a hurry stops after the verdicts; a table that says how to read it needs no notes of all columns."""
    said = Verdict("m", ("vanilla: half right",), (Card("Is it mine?", "Certainly", "good", ()),))
    excerpts = [
        Excerpt(f"table {number}", pl.DataFrame({"share": [0.5]}), ("shares",), "read it so") for number in "12"
    ]
    text = judged(verdicts=lambda found, context: [said], summary=lambda found: excerpts)
    order = [text.index(part) for part in ("in short: m", "- vanilla: half", "Is it mine? Certainly.", "table 1", "so")]
    assert order == sorted(order)
    assert text.count("read it so") == 1
    assert text.index("read it so") > text.index("table 2")
    assert "every column" not in text
    assert "shares: every column" in judged(verdicts=lambda found, context: [])
    assert judged(verdicts=lambda found, context: [], summary=lambda found: []).strip(), "nothing to show is no error"


def test_verdicts_that_need_the_items_leave_the_tables_standing(tmp_path) -> None:
    text = judged(verdicts=lambda found, context: [context.chance["all"]], path=tmp_path / "mine.py")
    assert "The verdicts are in the report only" in text
    assert "0.500" in text


def test_no_number_is_lost_where_a_table_is_set_apart() -> None:
    numbers = {f"a_long_name_{number}": [number + 0.25, -number - 0.5] for number in range(29)}
    text = render(pl.DataFrame({"class": ["first_of_all", "second"], **numbers}), "latex")
    assert text.count(r"\begin{tabular}") > 1
    assert all(f"{number}.250" in text and f"$-{number}.500$" in text for number in range(29))
    assert text.count(r"first\_of\_all") == text.count(r"\begin{tabular}"), "each part names its rows"


def test_models_of_a_laid_out_table_stand_below_each_other_where_they_do_not_fit() -> None:
    rows = [
        {"subset": "all", "model": f"model {m}", "strategy": s, "class": c, "x": 0.1 * m, "low": 0.0, "high": 1.0}
        for m in range(4)
        for s in ("vanilla", "cot")
        for c in ("none", "some")
    ]
    text = render(pl.DataFrame(rows), "latex", Layout("x", ("low", "high"), "class", "subset", above=0.25))
    assert text.count(r"\begin{tabular}") == 3, "three of eight columns fit beside the names"
    assert all(f"model {number}" in text for number in range(4))
    assert text.count(r"\textbf") == 4, "the best of a whole row, not of each part"
    assert text.count(r"\underline") == 4, "what is above the mark"


def test_a_table_without_rows_is_a_word(tmp_path) -> None:
    frame = pl.DataFrame({f"column {number}": [] for number in range(29)})
    assert render(frame, "latex") == "% This table has no rows and is left out.\n"
    write_tables({"empty": frame}, tmp_path, "latex")
    assert "tabular" not in (tmp_path / "empty.tex").read_text()
