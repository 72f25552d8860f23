"""A report of a run that is too large for a page: what it holds, what it says of that, and that figures count all."""

from pathlib import Path
from typing import Any

import polars as pl

from tests.helpers.reports import talking_run
from tomserve.reporting.html import item_browser, report
from tomserve.reporting.html.item_browser import ItemSample
from tomserve.studies import load_study

STUDY = load_study("perturbed")


def choose(table: pl.DataFrame, most: int) -> ItemSample:
    return item_browser.sample_items(table, most, versions=STUDY.versions, strata=STUDY.strata)


def scores(stages: int, failed: int) -> pl.DataFrame:
    """Answers of two strategies to two questions of every stage, each in three versions; of the first stages one
    answer failed."""
    rows = [
        {
            "item": f"S{stage:03d}/{version}/{kind}", "strategy": strategy, "model": "m", "stage": f"S{stage:03d}",
            "scenario": "false_belief", "question_kind": kind, "swapped": False, "perturbation": version,
            "answer": "tea", "correct": True,
            "status": "refusal" if stage < failed and version == "none" and strategy == "cot" else "ok",
        }
        for stage in range(stages)
        for kind in ("belief", "reality")
        for version in ("none", "open_container", "induction")
        for strategy in ("vanilla", "cot")
    ]  # fmt: skip
    return pl.DataFrame(rows)


def test_what_fits_is_held_whole() -> None:
    assert choose(scores(5, 1), most=60) == item_browser.ItemSample(None, None)


def test_whole_questions_are_drawn_failures_first_and_kinds_alike() -> None:
    table = scores(50, 20)
    found = choose(table, most=120)
    assert found == choose(table.sample(fraction=1, shuffle=True, seed=1), most=120)
    kept = table.filter(pl.col("item").is_in(list(found.items)))
    questions = kept.group_by("stage", "question_kind").len()
    assert set(questions["len"]) == {6}  # three versions, two strategies
    assert questions.height == 20
    assert set(questions.group_by("question_kind").len()["len"]) == {10}
    assert kept.filter(status="refusal")["stage"].n_unique() >= 5
    assert kept.filter(status="refusal").height == 10
    assert found.said is not None
    assert "120 of 600 answers: 20 of 100 questions" in found.said
    assert "10 of the 40 of which an answer failed" in found.said


def test_room_that_failures_leave_is_for_others() -> None:
    few, many = (choose(scores(50, failed), most=120).said or "" for failed in (1, 50))
    assert "2 of the 2 of which an answer failed" in few
    assert "20 of the 100 of which an answer failed" in many


def test_items_without_versions_are_questions_by_themselves() -> None:
    found = choose(scores(10, 0).drop("swapped"), most=30)
    assert len(found.items) == 15
    assert "each with all its answers" in (found.said or "")


def test_a_page_holds_fewer_questions_where_each_has_many_replies(tmp_path: Path, monkeypatch) -> None:
    wanted: list[int] = []

    def noted(scores: pl.DataFrame, most: int, **kept: Any) -> item_browser.ItemSample:
        wanted.append(most)
        return item_browser.sample_items(scores, most, **kept)

    monkeypatch.setattr(report, "sample_items", noted)
    report.report_html([str(talking_run(tmp_path / "talk"))])
    assert wanted == [item_browser.ANSWERS * 4 // 11]
