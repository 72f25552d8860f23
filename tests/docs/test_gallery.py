"""The gallery: every study is done again from its files, and shows what its commands print and draw.
The page on error bars shows what its commands print, and its sentence for a paper has the numbers of the files.
The notebooks of the documentation: they run from top to bottom, against a real vLLM, and are kept without outputs."""

import importlib
import os
import re
import zipfile
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import polars as pl
import pytest

import tomserve
from tests.conftest import ROOT, Endpoint
from tests.helpers.documents import Reader, pictures
from tomserve.serving import install

GALLERY = ROOT / "docs/gallery"
ANSWERS = GALLERY / "answers"
STUDIES = sorted(path.stem for path in GALLERY.glob("*.md") if path.stem != "index")
HEADINGS = ["The question", "The data", "The commands", "How to read it", "What it does not show", "The sentence"]


def printed(page: str) -> list[str]:
    """What a page shows of what its commands print, in order: each stretch without a gap, which a line of three dots
    is, with single spaces."""
    blocks = re.findall(r"^```text\n(.*?)^```", page, re.S | re.M)
    parts = [" ".join(part.split()) for block in blocks for part in re.split(r"^\.\.\.$", block, flags=re.M)]
    return [part for part in parts if part]


def text(study: str) -> str:
    return (GALLERY / f"{study}.md").read_text("utf-8")


def quoted(page: str) -> str:
    """The sentences for a paper."""
    return " ".join(line.removeprefix("> ") for line in page.splitlines() if line.startswith("> "))


@pytest.mark.system
@pytest.mark.parametrize("study", STUDIES)
def test_a_study_shows_what_its_commands_print_and_draw(study: str, endpoint: Endpoint, tmp_path: Path) -> None:
    reader, page = Reader(tmp_path, endpoint), text(study)
    reader.follow(page)
    said, at = " ".join(" ".join(reader.said).split()), 0
    for part in printed(page):
        place = said.find(part, at)
        assert place >= 0, f"{part!r} is not, or not here, in what was printed: {said[at:]}"
        at = place + len(part)
    shown = pictures(page)
    assert shown, "a study ends in a figure"
    for name in shown:
        made = tmp_path / name.removeprefix("figures/")
        again = "docs/gallery/make_figures.py makes all of them anew"
        assert (GALLERY / name).read_bytes() == made.read_bytes(), f"{name} is not what the commands draw; {again}"
    tables = "\n".join(path.read_text() for path in tmp_path.rglob("*.tex"))
    for block in re.findall(r"^```latex\n(.*?)^```", page, re.S | re.M):
        assert block in tables


@pytest.mark.parametrize("study", STUDIES)
def test_a_study_has_all_parts_and_quotes_no_number_that_was_not_printed(study: str) -> None:
    page = text(study)
    assert re.findall(r"^## (.+)$", page, re.M) == HEADINGS
    sentence = quoted(page)
    shown = set(re.findall(r"\d*\.?\d+", " ".join(printed(page))))
    numbers = re.findall(
        r"\d[\d,]*\.\d+|(?<![\w.])\.\d+|(?<![\w.,])\d[\d,]*\d", re.sub(r"9[05]% interval", "", sentence)
    )
    assert numbers
    assert not [one for one in numbers if not ways(one.replace(",", "")) & shown]


def ways(number: str) -> set[str]:
    """How a number of a sentence may have been printed: as it is, or as a share where the sentence speaks of points."""
    return {number, f"{float(number) / 100:.3f}"}


def test_the_first_page_leads_to_every_study_and_tells_where_every_file_comes_from() -> None:
    page = (GALLERY / "index.md").read_text()
    assert set(re.findall(r"^(\w+)$", page.split("```{toctree}")[1].split("```")[0], re.M)) == set(STUDIES)
    assert len(STUDIES) == 6
    assert {f"`{path.name}`" for path in ANSWERS.iterdir()} <= set(re.findall(r"`[\w.-]+`", page))
    every = "".join(map(text, STUDIES))
    assert not [path.name for path in ANSWERS.iterdir() if f"docs/gallery/answers/{path.name}" not in every]


# Where the answers come from


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Loads one of the programs of the gallery, which find one another in their folder."""
    monkeypatch.syspath_prepend(str(GALLERY))
    return importlib.import_module


def test_the_spreadsheets_of_the_exam_are_made_again_to_the_letter(script: Any, tmp_path: Path) -> None:
    script("make_exam").write(tmp_path)
    for name in ("old.csv", "new.csv"):
        assert (tmp_path / name).read_bytes() == (ANSWERS / name).read_bytes()


def test_no_file_of_the_gallery_says_whose_machine_made_it() -> None:
    for path in (one for one in GALLERY.rglob("*.*") if one.suffix != ".pyc"):
        data = path.read_bytes()
        if path.suffix == ".eval":
            with zipfile.ZipFile(path) as zipped:
                data = b"".join(name.encode() for name in zipped.namelist())
        assert os.fsencode(str(ROOT)) not in data
        assert b"/tmp/" not in data


PAGE = ROOT / "docs/how-to/error-bars.md"


@pytest.mark.system
def test_the_page_shows_what_its_commands_print(endpoint: Endpoint, tmp_path: Path) -> None:
    reader, page = Reader(tmp_path, endpoint), PAGE.read_text("utf-8")
    reader.follow(page)
    said = " ".join(" ".join(reader.said).split())
    parts = printed(page)
    assert len(parts) > 8
    for part in parts:
        assert part in said, f"{part!r} is not in what was printed"
    quoted = " ".join(line.removeprefix("> ") for line in page.splitlines() if line.startswith("> "))
    effect = pl.read_csv(tmp_path / "bars/effects.csv").row(-1, named=True)
    margin = pl.read_csv(tmp_path / "bars/margins.csv").row(0, named=True)
    flips = {row["change"]: row for row in pl.read_csv(tmp_path / "bars/changes.csv").iter_rows(named=True)}
    numbers = [
        *(f"{100 * effect[name]:.1f}%" for name in ("share_treated", "share_control")),
        f"{points(effect['risk_difference'])} points, 95% interval {points(effect['rd_low'])} to {points(effect['rd_high'])}",
        f"p = {effect['p']:.2f}".replace("0.", "."),
        f"{points(margin['low'])} to {points(margin['high'])}",
        f"{flips['harmful']['changed']} questions were lost and {flips['beneficial']['changed']} gained",
        *(f"{100 * flips[one]['share']:.1f}%, {100 * flips[one]['low']:.1f} to {100 * flips[one]['high']:.1f}"
          for one in ("harmful", "beneficial")),
    ]  # fmt: skip
    for number in numbers:
        assert number in quoted, f"{number} is not in the sentence"
    assert margin["verdict"] == "undecided"
    assert margin["p_not_inferior"] > 0.025
    assert f"about {margin['needed_not_inferior']} clusters like these {margin['units']}" in " ".join(page.split())


def points(value: float) -> str:
    return f"{100 * value:+.1f}".replace("-", "−")


NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert not [cell for cell in code if cell.outputs or cell.execution_count is not None]


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.skipif(install.installed_engine() is None, reason="vLLM is not installed (`make test` installs it)")
def test_the_first_study_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a kernel of its own, whose event loop runs already: the embedded model is asked, and the tables are shown."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(ROOT / "docs/notebooks/first-study.ipynb", as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=500, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    shown = ["".join(str(output) for output in cell.get("outputs", [])) for cell in notebook.cells]
    pairs = list(zip(notebook.cells, shown, strict=True))
    assert sum("image/svg+xml" in text for text in shown) == 1
    assert any("prompting_effects" in cell.source and "vanilla" in text for cell, text in pairs)
    run = tomserve.Run.open("first-study")
    assert run.manifest.model == "reference"
    assert run.manifest.complete
    assert run.scores().group_by("strategy").len().sort("strategy").rows() == [("cot", 24), ("vanilla", 24)]
    assert run.failures == {}
    assert (tmp_path / "first-study.html").read_text().startswith("<!doctype html>")
