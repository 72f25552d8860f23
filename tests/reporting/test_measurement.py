"""The report of a measurement: what it says, and that it says nothing of answers."""

import html
import re
from pathlib import Path

import pytest

from tests.helpers import measurements
from tests.helpers.measurements import measured_run
from tests.helpers.reports import PAYLOADS, Elements, data_of
from tomserve.content.text import sanitize
from tomserve.reporting.html.report import report_html, write_report
from tomserve.reporting.html.sources import find_current_report


@pytest.fixture
def deep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TOMSERVE_CONTENT", str(measurements.study(tmp_path / "content")))
    return measured_run(tmp_path / "runs/deep")


def text_of(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", re.sub(r"<(style|script)\b.*?</\1>", " ", page, flags=re.S)))


def test_it_holds_verdicts_figures_tables_notes_and_origins_and_nothing_that_only_answers_have(deep: Path) -> None:
    page = report_html(["deep"])
    said = text_of(page)
    for wanted in (
        "at best 67% of the states hold it.",
        "Is it held?",
        "67% of its states hold it.",
        "Each point is the share of states that hold it.",
        "The share of states that hold it.",
        "settings.folds 5",
        "sessions 1.measured_on.torch 2.1",
        "revision sha256:0",
        "items 12",
        "stories 6",
    ):
        assert wanted in said, wanted
    assert page.count("<svg") == 2  # that of the first screen also for phones
    assert set(data_of(page)["tables"]) == {"held", "fits"}
    said = said.lower()
    for word in ("answers", "strateg", "unread", "unknown", "chance", "failure", "vanilla", "noise", "repl", "gold"):
        assert word not in said, said[max(0, said.find(word) - 60) : said.find(word) + 60]
    for name in ("items", "failures", "answers"):
        assert f'id="{name}"' not in page
        assert f'href="#{name}"' not in page


def test_it_is_the_same_twice_and_stands_until_something_changes(deep: Path) -> None:
    assert report_html(["deep"]) == report_html(["deep"])
    path = write_report(["deep"])
    assert path == deep / "report.html"
    assert find_current_report(deep) == path
    path.write_text("changed")
    assert find_current_report(deep) is None


def test_what_changed_between_sessions_is_said_first(tmp_path: Path, deep: Path) -> None:
    folder = measured_run(tmp_path / "runs/two", finished=False)
    measured_run(folder, environment={"device": "cuda", "torch": "2.1"})
    said = text_of(report_html([str(folder)]))
    assert "Run two was measured in several sessions, and not all by the same means: device was cpu until" in said
    assert "Few states were measured." not in said  # the study has no such doubt here


EXHIBITED = """
from tomserve.studies import Exhibit, Figure, Section, Study
import polars as pl

SECTION = Section("cases", "Cases", "Cases")


def tables(scores, intervals):
    return {"held": scores.group_by("model").agg(pl.len()).collect()}


def figures(tables, context):
    shown = tuple(Exhibit(one, (("heading", one), ("another", "two\\nlines"))) for one in TEXTS)
    return [Figure("cases", "In their own words", SECTION, "Each case can be opened.", ("held",), exhibits=shown)]


STUDY = Study(name="depths", tables=tables, answers=False, columns={"model": pl.String}, intervals=("recommended",),
              figures=figures)
"""
EVIL = (*PAYLOADS, "left\u202eright\u2066", "\x1b[31mred\x00\x07", "a\ttab\u200b")


def exhibited(folder: Path, texts: tuple[str, ...]) -> str:
    folder.mkdir()
    (folder / "study.py").write_text(f"TEXTS = {texts!r}\n{EXHIBITED}", "utf-8")
    return report_html(["deep"], study=f"{folder}/")


def test_a_study_shows_what_a_model_wrote_and_none_of_it_can_run_or_hide(deep: Path, tmp_path: Path) -> None:
    page = exhibited(tmp_path / "cases", EVIL)
    assert page.count('<details class="exhibit">') == len(EVIL)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2066-\u2069]", page)
    elements, plain = Elements(page), Elements(report_html(["deep"]))
    for tag in ("script", "img", "style", "iframe", "svg/onload=alert(4)"):
        assert len(elements.all(tag)) == len(plain.all(tag)), tag
    shown = re.findall(r'<dt>heading</dt><dd dir="auto">(.*?)</dd>', page, re.S)
    assert [html.unescape(one) for one in shown] == [sanitize(one) for one in EVIL]
    assert '<dt>another</dt><dd dir="auto">two\nlines</dd>' in page
    assert "the study gives no picture of it" in exhibited(tmp_path / "none", ())
