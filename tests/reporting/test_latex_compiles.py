"""Every table that tomserve writes is set by the real LaTeX, on the page, whatever names stand in it.

Skipped where pdflatex is missing; with NEED_LATEX=1 (as CI sets it) that is a failure.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl
import pytest

from tests.helpers.every_study import every, score_table
from tests.helpers.papers import Compiled, compiled, text
from tomserve.reporting import tables as writing
from tomserve.reporting.latex import escape
from tomserve.studies import Layout, compute

pytestmark = pytest.mark.system

SIGNS = r"50% & more_of #1 {a} \b^~$<c>|\"'`--*[2] \input{/etc/passwd}"
SCRIPTS = "Ωμέγα-汉字-😀 é—“x”‑Đ«ß»\u202e\u200b\x07\r"
MODELS = ("[9] model", SIGNS, SCRIPTS, "a-very_long/name.of-a.model_" * 5, "x" * 130, "*", "")
"""Names that LaTeX, or the width of a page, could fall over."""


def written(tables: Mapping[str, pl.DataFrame], folder: Path, **options: Mapping[str, object]) -> Compiled:
    writing.write_tables(tables, folder, "latex", **options)  # type: ignore[arg-type]
    made = compiled(folder / "tables.tex")
    assert not made.complaints()
    return made


def under_names(tables: Mapping[str, pl.DataFrame], models: Sequence[str]) -> dict[str, pl.DataFrame]:
    """Tables of one model as those of several that are called so, which takes less time than computing them."""
    return {
        name: pl.concat(table.with_columns(model=pl.lit(model)) for model in models)
        if "model" in table.columns
        else table
        for name, table in tables.items()
    }


def test_all_tables_of_all_studies_compile_and_fit_the_page(tmp_path: Path) -> None:
    tables: dict[str, pl.DataFrame] = {}
    layouts: dict[str, Layout] = {}
    notes: dict[str, str] = {}
    for study in every():
        (tmp_path / study).mkdir()
        analysis = compute(score_table(study, tmp_path / study, MODELS[1:2]), study)
        assert any(table.height for table in analysis.tables.values()), study
        made = under_names(analysis.tables, MODELS[1:3])
        tables |= {f"{study}_{name}": table for name, table in made.items()}
        layouts |= {f"{study}_{name}": layout for name, layout in analysis.study.layouts.items()}
        notes |= {f"{study}_{name}": note for name, note in analysis.notes.items()}
    written(tables, tmp_path / "out", layouts=layouts, notes=notes)


def test_names_of_models_do_not_lead_off_the_page(tmp_path: Path) -> None:
    analysis = compute(score_table("perturbed", tmp_path, ("m",)), "perturbed")
    made = under_names(analysis.tables, (MODELS[0], *MODELS[3:]))
    tables = {"laid": made["accuracy"], "accuracy": made["accuracy"], "chains": made["chains"]}
    written(tables, tmp_path / "out", layouts={"laid": analysis.study.layouts["accuracy"]})


def test_what_is_printed_is_what_was_written(tmp_path: Path) -> None:
    frame = pl.DataFrame({"name": [SIGNS, "汉 --- ''x'' ``y`` ?`", "Đα≤é"], "n": [1.0, -0.5, float("inf")]})
    shown = text(written({"odd": frame}, tmp_path, notes={"odd": "100% of {all} \\ $5"}).pdf)
    for expected in (
        "50% & more of #1 {a}",
        "<c>",
        "[2]",
        "[U+6C49] --- ''x''",
        "[U+0110]",
        "≤é",
        "100% of {all}",
        "$5",
    ):
        assert expected in shown.replace("’", "'").replace("_", " ").replace("- - -", "---"), shown
    assert "root:" not in shown


def test_a_table_of_any_length_breaks_between_pages(tmp_path: Path) -> None:
    long = "a word and another " * 200
    frame = pl.DataFrame({"model": [f"m{n}" for n in range(120)], "reply": [long] + ["short"] * 119})
    rows = [{"part": p, "model": "m", "strategy": "s", "class": f"layer {n}", "x": 0.5, "low": 0.1, "high": 0.9}
            for p in ("one", "two") for n in range(100)]  # fmt: skip
    layout = Layout("x", ("low", "high"), "class", "part")
    made = written({"plain": frame, "laid": pl.DataFrame(rows)}, tmp_path, layouts={"laid": layout})
    shown = text(made.pdf)
    assert all(f"m{n}" in shown.split() for n in range(120))
    assert shown.count("another") == 200
    assert shown.count("layer 99") == 2
    assert "part two" in shown, "each part says which it is"


def test_every_letter_can_be_printed(tmp_path: Path) -> None:
    letters = [*range(0x21, 0x180), *range(0x390, 0x400), *range(0x2000, 0x2070)]
    body = "\n\n".join(f"x{escape(chr(one))}x" for one in letters)
    head = "\\documentclass{article}\\usepackage[utf8]{inputenc}\\begin{document}"
    (tmp_path / "letters.tex").write_text(f"{head}\n{body}\n\\end{{document}}", "utf-8")
    assert not compiled(tmp_path / "letters.tex").complaints()
