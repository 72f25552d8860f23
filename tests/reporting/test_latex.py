"""Tables for papers: each fits an ordinary page, and a table without rows is no table."""

import polars as pl

from tomserve.reporting.tables import render, write_tables
from tomserve.studies import Layout


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
    text = render(pl.DataFrame(rows), "latex", Layout("x", ("low", "high"), "class", "subset"))
    assert text.count(r"\begin{tabular}") == 3, "three of eight columns fit beside the names"
    assert all(f"model {number}" in text for number in range(4))
    assert text.count(r"\textbf") == 4, "the best of a whole row, not of each part"


def test_a_table_without_rows_is_a_word(tmp_path) -> None:
    frame = pl.DataFrame({f"column {number}": [] for number in range(29)})
    assert render(frame, "latex") == "% This table has no rows and is left out.\n"
    write_tables({"empty": frame}, tmp_path, "latex")
    assert "tabular" not in (tmp_path / "empty.tex").read_text()


def test_columns_without_values_are_left_out_with_a_word() -> None:
    text = render(pl.DataFrame({"a": [1], "b": [None]}), "latex")
    assert text.startswith("% left out, as nothing is in them: b\n\n\\begin{tabular}{r}")


def test_of_a_row_that_stands_twice_the_first_is_shown() -> None:
    row = {"subset": "all", "model": "m", "strategy": "s", "class": "overall", "low": 0.0, "high": 1.0}
    text = render(
        pl.DataFrame([{**row, "x": 0.3}, {**row, "x": 0.4}]), "latex", Layout("x", ("low", "high"), "class", "subset")
    )
    assert "0.300" in text
    assert "0.400" not in text
    assert r"\textbf" not in text, "of one value none is the best"
