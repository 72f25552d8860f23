"""Figures and verdicts in the report: a study's own, and those of a study that brings none.
What charts are drawn with: numbers on axes, and pictures as wide as they have to be."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.conftest import make_item
from tests.helpers.reports import Elements, data_of, run_folder
from tomserve.reporting.drawing import wrap
from tomserve.reporting.figure_export import subset_font
from tomserve.reporting.html.charts import Fit, Line, Picture, Point, points
from tomserve.reporting.html.report import write_report
from tomserve.reporting.pdf import pdf
from tomserve.runs.scores import load_scores
from tomserve.studies import (
    GOOD,
    Card,
    Chance,
    Context,
    Figure,
    Panel,
    Section,
    Study,
    Verdict,
    Versions,
    compute,
)


def own_tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    right = scores.group_by("model", "strategy").agg(share=pl.col("correct").mean()).sort("model", "strategy")
    return {"mine": right.collect()}


def own_figures(tables: Mapping[str, pl.DataFrame], context: Context) -> list[Figure]:
    frame = tables["mine"]
    marks = [Point(row["strategy"], "right", row["share"], None, None) for row in frame.iter_rows(named=True)]
    line = Line(context.chance["all"], "doors")
    chart = points(marks, frame["strategy"].to_list(), ["right"], (0, 1), [line], "share")
    panel = Panel("Everything", Picture(chart, "My own picture of everything, with doors"))
    section = Section("doors", "Behind which door?", "Doors")
    return [Figure("doors", "Doors", section, "What doors hide.", ("mine",), (panel,))]


def own_verdicts(tables: Mapping[str, pl.DataFrame], context: Context) -> list[Verdict]:
    card = Card("Is it mine?", "Certainly", GOOD, (("all", f"guessing gives {context.chance['all']:.2f}."),))
    return [Verdict(model, ("A line of my own",), (card,)) for model in tables["mine"]["model"].unique()]


OWN = Study(
    name="of my own",
    tables=own_tables,
    figures=own_figures,
    verdicts=own_verdicts,
    notes=lambda intervals: {"mine": "How much is right."},
    chance=lambda items: Chance({"all": 0.125}, f"one of eight doors, {len(list(items))} times"),
    versions=Versions("kind", "plain", ("place",)),
    labels={"kind": "Sort"},
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two strategies, twelve items of two kinds in three places; vanilla is right on the plain ones, cot on all."""
    items = [
        make_item(n, gold=None, factors={"kind": "plain" if n % 2 else "turned", "place": "abc"[n % 3], "id": str(n)})
        for n in range(1, 14)
    ]
    right, wrong = (json.dumps({"answer": label}) for label in ("tea", "salt"))
    vanilla = {item.id: {"text": right if item.factors["kind"] == "plain" else wrong} for item in items}
    answers: dict[str, dict[str, Any]] = {"vanilla": vanilla, "cot": {item.id: {"text": right} for item in items}}
    return run_folder(tmp_path / "r", answers, items)


def test_a_study_of_ones_own_brings_its_figure_its_verdict_and_its_chance(run: Path) -> None:
    text = write_report([str(run)], analysis=compute(load_scores(str(run)), OWN)).read_text()
    page = Elements(text)
    narrow, picture = page.all("svg")  # of the first screen on a phone and elsewhere
    assert {one["aria-label"] for one in (narrow, picture)} == {"My own picture of everything, with doors"}
    assert float(narrow["width"]) < min(345, float(picture["width"]))
    assert ">doors<" in text
    assert '<section id="doors"' not in text  # its one figure stands on the first screen
    assert "Where does it break?" not in text
    assert "A line of my own." in text
    assert "Certainly" in text
    assert "guessing gives 0.12." in text
    assert "0.12 (one of eight doors, 13 times)" in text
    assert "of my own, recommended intervals" in text
    assert "How much is right." in text
    found = data_of(text)
    assert found["labels"] == {"kind": "Sort"}
    factors, words = found["factors"], found["words"]
    kinds = [{factors[name]: words[value] for name, value in item["factors"]} for item in found["items"]]
    for own, base in zip(kinds, found["base"], strict=True):
        if own["kind"] == "turned":
            assert (kinds[base]["kind"], kinds[base]["place"]) == ("plain", own["place"])


def test_a_name_is_cut_at_once_however_long_it_is() -> None:
    assert wrap("x" * 1_000_000, 150) == wrap("x" * 100, 150) == ("xxxxxxxxxxxxxxxxxxxxxxx…",)


def test_a_pdf_has_the_size_of_its_drawing_and_the_same_bytes_each_time() -> None:
    chart = points([Point("row", "series", 0.5, 0.4, 2.0)], ["row"], ["series"], (0, 1), [], "share")
    drawing = chart.drawing(Fit(axis=100))
    made = [pdf(drawing, 0.5, *subset_font(drawing.letters())) for _ in range(2)]
    assert made[0] == made[1]
    box = f"/MediaBox [0 0 {drawing.width / 2:.2f} {drawing.height / 2:.2f}]"
    assert box.encode() in made[0]
    assert chart.drawing(Fit(axis=200)).width == pytest.approx(drawing.width + 100)
