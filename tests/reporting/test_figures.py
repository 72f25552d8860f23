"""Figures and verdicts in the report: a study's own, and those of a study that brings none.
What charts are drawn with: numbers on axes, names that fit, and pictures as wide as they have to be."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.conftest import make_item
from tests.helpers.reports import Elements, data_of, hitom_run, run_folder
from tomserve.errors import ConfigError
from tomserve.reporting.drawing import spread, text_width, ticks, wrap
from tomserve.reporting.figure_export import subset_font
from tomserve.reporting.html.charts import BLUES, Fit, Line, Picture, Point, points
from tomserve.reporting.html.report import report_html, write_report
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


def test_a_study_without_any_table_of_accuracy_has_items_and_factors(run: Path) -> None:
    def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
        effect = {"model": "tiny", "risk_difference": [0.25, None], "rd_low": [0.0, None], "rd_high": [0.5, None]}
        return {
            "by hour": pl.DataFrame({"hour": ["six", "seven"], **effect}),
            "count": scores.select(pl.len()).collect(),
        }

    analysis = compute(load_scores(str(run)), Study(name="mine", tables=tables))
    text = write_report([str(run)], analysis=analysis).read_text()
    labels = [attributes["aria-label"] for attributes in Elements(text).all("svg")]
    assert labels[-1] == "By hour: tiny. six, six: 0.25 [0.00, 0.50]."
    titles = ["Accuracy by kind", "Accuracy by kind", "Accuracy by place", "By hour"]
    assert [label.split(":")[0] for label in labels] == titles
    assert "This study gives no verdicts in words" in text
    assert len(data_of(text)["items"]) == 13


def test_figures_that_cannot_be_told_apart_are_refused(run: Path) -> None:
    def study(*figures: Figure) -> Study:
        return Study(name="mine", tables=lambda scores, intervals: {}, figures=lambda tables, context: figures)

    section = Section("doors", "Doors", "Doors")
    twice = study(Figure("a", "A", section, missing="Nothing."), Figure("a", "B", section, missing="Nothing."))
    own = study(Figure("a", "A", Section("items", "Items", "Items"), missing="Nothing."))
    scores = load_scores(str(run))
    with pytest.raises(ConfigError, match="two figures of the name 'a'"):
        write_report([str(run)], analysis=compute(scores, twice))
    with pytest.raises(ConfigError, match="a section 'items', which the page has itself"):
        write_report([str(run)], analysis=compute(scores, own))


@pytest.mark.system
def test_published_intervals_of_nested_beliefs_leave_no_figure_undrawn(tmp_path: Path) -> None:
    text = report_html([str(hitom_run(tmp_path / "hitom"))], intervals="published")
    assert "Not drawn: these stories have no matched twins." in text
    assert "this study has no table" not in text
    assert "Does step-by-step reasoning help?" not in text


@pytest.mark.parametrize(
    ("ends", "found"),
    [
        ((0, 1), [0, 0.2, 0.4, 0.6, 0.8, 1]),
        ((-1, 1), [-1, -0.5, 0, 0.5, 1]),
        ((-0.13, 1), [0, 0.2, 0.4, 0.6, 0.8, 1]),
        ((0, 2), [0, 0.5, 1, 1.5, 2]),
    ],
)
def test_an_axis_has_round_numbers(ends: tuple[float, float], found: list[float]) -> None:
    assert ticks(*ends, 5) == pytest.approx(found)


def test_a_long_name_takes_two_lines_and_is_cut_only_then() -> None:
    name = "the story is of the family contents and is told by somebody who was there"
    assert " ".join(wrap(name, 300)) == name
    first, second = wrap(name, 150)
    assert name.startswith(f"{first} {second.removesuffix('…')}")
    assert max(map(text_width, (first, second))) <= 150


def test_a_colour_between_two_lies_between_them() -> None:
    assert [spread(BLUES, at) for at in (-1, 0, 0.25, 1, 2)] == [BLUES[0], BLUES[0], BLUES[1], BLUES[4], BLUES[4]]
    assert spread(["#000000", "#ff8000"], 0.5) == "#804000"


def test_a_pdf_has_the_size_of_its_drawing_and_the_same_bytes_each_time() -> None:
    chart = points([Point("row", "series", 0.5, 0.4, 2.0)], ["row"], ["series"], (0, 1), [], "share")
    drawing = chart.drawing(Fit(axis=100))
    made = [pdf(drawing, 0.5, *subset_font(drawing.letters())) for _ in range(2)]
    assert made[0] == made[1]
    box = f"/MediaBox [0 0 {drawing.width / 2:.2f} {drawing.height / 2:.2f}]"
    assert box.encode() in made[0]
    assert chart.drawing(Fit(axis=200)).width == pytest.approx(drawing.width + 100)
