"""Tables for papers: each fits an ordinary page, and a table without rows is no table."""

import re

import polars as pl
import pytest

from tests.conftest import ROOT
from tomserve.reporting.tables import render, write_tables
from tomserve.runs.scores import load_scores
from tomserve.studies import Layout, compute

POINTS = 345
"""The width of the text of the class article in 10 points, in points."""


def width(environment: str) -> float:
    """About how wide a tabular environment is in points: 5 for a character, 3.5 for a small one, 12 between columns."""
    rows = [line.removesuffix(r" \\") for line in environment.splitlines() if " & " in line and "cmidrule" not in line]
    rows = [row for row in rows if r"\multicolumn" not in row]

    def points(cell: str) -> float:
        lines = re.sub(r"\\shortstack\[[lr]\]\{(.*)\}", r"\1", cell).split(r" \\ ")
        small = [len(re.sub(r"[{}$]|\\scriptsize", "", part)) for part in re.findall(r"\{\\scriptsize[^}]*\}", cell)]
        plain = [re.sub(r"\{\\scriptsize[^}]*\}|\\textbf|\\underline|\\infty|[{}$\\]", "", line) for line in lines]
        return 5 * max(len(line.strip()) for line in plain) + 3.5 * sum(small)

    columns = zip(*(map(points, row.split(" & ")) for row in rows), strict=True)
    return sum(max(column) + 12 for column in columns)


@pytest.fixture(scope="module")
def tables() -> tuple[dict[str, pl.DataFrame], dict[str, Layout]]:
    analysis = compute(load_scores(str(ROOT / "runs/example")), "perturbed")
    return dict(analysis.tables), dict(analysis.study.layouts)


def test_every_table_of_a_study_fits_a_page(tables: tuple[dict[str, pl.DataFrame], dict[str, Layout]]) -> None:
    for name, frame in tables[0].items():
        for layout in (None, tables[1].get(name)):
            text = render(frame, "latex", layout)
            found = re.findall(r"\\begin\{tabular\}.*?\\end\{tabular\}", text, re.S)
            assert bool(found) is (frame.height > 0), name
            assert max(map(width, found), default=0) <= POINTS * 1.05, name


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
