"""Figures for print: their size, their files, and the fonts within. That the same scores are drawn the same each time is
for tests/docs/test_gallery.py."""

import base64
import io
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import polars as pl
import pytest
from fontTools.ttLib import TTFont

from tests.conftest import Cli
from tests.helpers.every_study import score_table
from tests.helpers.examples import copied_example
from tests.helpers.outcomes import passes, refuses
from tests.helpers.papers import compiled, needed, text
from tomserve.reporting import figure_export
from tomserve.reporting.figure_export import INCHES, LEAST, font_style, missing_letters, write_figures
from tomserve.reporting.html import figures as html_figures
from tomserve.reporting.html.charts import Line, Picture, Point, points
from tomserve.scoring.table import write_scores
from tomserve.studies import Figure, Panel, Section

SECTION = Section("s", "Section", "Section")
ODD = r"50% & mo_de #1 {a} \b^~$<c>Ωμ"


def figure(name: str, *charts: Any, title: str = "A title", caption: str = "What it shows.") -> Figure:
    panels = [Panel(f"part {place}", Picture(chart, "words")) for place, chart in enumerate(charts)]
    return Figure(name, title, SECTION, caption, panels=tuple(panels))


def dots(series: Sequence[str] = ("one", "two"), rows: Sequence[str] = ("first", "second")) -> Any:
    marks = [Point(row, name, 1.0, 0.9, 1.0) for row in rows for name in series]
    return points(marks, rows, series, (0, 1), [Line(0.5, "half")], "share")


def wide(svg: Path) -> float:
    return float(ElementTree.fromstring(svg.read_text()).attrib["width"].removesuffix("pt"))


def smallest(svg: Path) -> float:
    root = ElementTree.fromstring(svg.read_text())
    unit = wide(svg) / float(root.attrib["viewBox"].split()[2])
    texts = [
        float(one.get("font-size", root.attrib["font-size"])) for one in root.iter("{http://www.w3.org/2000/svg}text")
    ]
    return unit * min(texts)


def fonts(pdf: Path) -> list[tuple[str, bool]]:
    """The fonts of a PDF, each with whether it lies in the file."""
    needed("pdffonts")
    lines = subprocess.run(["pdffonts", pdf], capture_output=True, text=True, check=True).stdout.splitlines()
    return [(line.split()[0], line[lines[1].index("-", 60) :].split()[-5] == "yes") for line in lines[2:]]


def size(pdf: Path) -> tuple[float, float]:
    """How wide and how high the first page of a PDF is, in points."""
    needed("pdfinfo")
    told = subprocess.run(["pdfinfo", pdf], capture_output=True, text=True, check=True).stdout
    found = re.search(r"^Page size:\s+([\d.]+) x ([\d.]+) pts", told, re.M)
    assert found is not None, told
    return float(found[1]), float(found[2])


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The figures of a model of an odd name, in the width of one and of two columns."""
    folder = tmp_path_factory.mktemp("printed")
    write_scores(score_table("perturbed", folder, [ODD]), folder / "s.parquet")
    figures, _ = html_figures.figures([str(folder / "s.parquet")])
    for columns in INCHES:
        write_figures(figures, folder / str(columns), figure_export.FORMS, columns)
    return folder


@pytest.mark.system
@pytest.mark.parametrize("columns", list(INCHES))
def test_every_figure_is_as_wide_as_the_column_at_most_and_holds_its_fonts(printed: Path, columns: int) -> None:
    pictures = sorted((printed / str(columns)).glob("*.pdf"))
    assert len(pictures) >= 10
    widest = max(size(one)[0] for one in pictures)
    assert 72 * INCHES[columns] - 1 <= widest <= 72 * INCHES[columns] + 0.01
    for one in pictures:
        found = fonts(one)
        assert found
        assert all("LiberationSans" in name and inside for name, inside in found), one.name


@pytest.mark.system
def test_letters_of_an_svg_can_be_read_and_it_brings_its_font_and_fetches_nothing(printed: Path) -> None:
    for one in printed.glob("*/*.svg"):
        assert smallest(one) >= LEAST, one.name
        found = one.read_text()
        assert found.count("font-family:'Liberation Sans'") >= 1
        assert not re.findall(r"(?:href|src)=|url\((?!data:|#)", found), one.name
        assert "<script" not in found
        assert "<title>" in found, "what a reader sees who points at a value"


@pytest.mark.system
def test_every_figure_has_its_caption_and_latex_sets_them_all(printed: Path) -> None:
    for columns in INCHES:
        folder = printed / str(columns)
        made = compiled(folder / "figures.tex")
        assert not made.complaints()
        told = text(made.pdf)
        assert "50% & mo" in told
        names = {one.stem for one in folder.glob("*.pdf")} - {"figures"}
        assert {one.stem for one in folder.glob("*.txt")} == names
        for name in names:
            title, empty, caption = (folder / f"{name}.txt").read_text().split("\n", 2)
            assert title
            assert not empty
            assert len(caption) > 40
            (folder / "figures.tex").read_text().index(f"{{{name}.pdf}}")


# Files


def test_figures_of_like_names_do_not_take_each_others_place(tmp_path: Path) -> None:
    names = ["a b", "a-b", "A/b", "../../up", "", "汉"]
    found = write_figures([figure(name, dots()) for name in names], tmp_path / "out", ["svg"], 1)
    assert [one.name for one in found] == ["a-b", "a-b-2", "A-b-3", "up", "figure", "figure-2"]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["out"]


def test_what_cannot_be_drawn_is_said(cli: Cli, tmp_path: Path) -> None:
    scores = score_table("perturbed", tmp_path, ["m"]).filter(pl.col("strategy") == "vanilla")
    write_scores(scores, tmp_path / "s.parquet")
    done = passes(cli("figures", tmp_path / "s.parquet", "--out", tmp_path / "out", "--format", "svg"))
    assert re.search(r"^What step-by-step reasoning does: Not drawn: .+\.$", done.out, re.M)
    assert not list((tmp_path / "out").glob("*.pdf"))
    assert not (tmp_path / "out/figures.tex").exists()


def test_nothing_of_a_run_and_nothing_that_is_read_is_overwritten(cli: Cli, tmp_path: Path) -> None:
    run = copied_example(tmp_path)
    before = {one.name: one.read_bytes() for one in run.iterdir()}
    (tmp_path / "out").mkdir()
    (tmp_path / "out/accuracy.pdf").symlink_to(run / "manifest.json")
    refuses(cli("figures", run, "--study", "accuracy", "--out", tmp_path / "out"), "belongs to the run")
    assert {name: (run / name).read_bytes() for name in before} == before


def test_a_folder_that_cannot_be_written_is_told(cli: Cli, tmp_path: Path) -> None:
    run = copied_example(tmp_path)
    (tmp_path / "file").write_text("kept")
    for place in (tmp_path / "file", tmp_path / "file/below"):
        done = refuses(cli("figures", run, "--study", "accuracy", "--out", place), "choose another --out")
        assert len(done.err.strip().splitlines()) == 1
    assert (tmp_path / "file").read_text() == "kept"


def test_another_format_is_refused_before_anything_is_read(cli: Cli, tmp_path: Path) -> None:
    refuses(cli("figures", "nothing-there", "--out", tmp_path / "out", "--format", "png"), "png", "svg")


def program(style: str) -> TTFont:
    (found,) = re.findall(r"base64,([A-Za-z0-9+/=]+)\)", style)
    return TTFont(io.BytesIO(base64.b64decode(found)))


def test_letters_that_the_font_does_not_have_are_named_and_take_nothing_from_the_others() -> None:
    assert missing_letters("aZ≤≰字汉😀") == "≰字汉😀"
    assert set(program(font_style("aZ≤≰字")).getBestCmap()) >= {ord(one) for one in "aZ≤"}
    assert not font_style("汉字")
    assert program(font_style("abc"))["OS/2"].fsType == 0, "it may be embedded"
