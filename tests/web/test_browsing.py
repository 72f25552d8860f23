"""Pages of answers hold what a plain reading of all rows finds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import orjson
import polars as pl
import pytest

from tests.helpers.examples import copied_example
from tests.helpers.reading import made
from tests.helpers.reports import talking_run, varied_run
from tomserve.content.places import runs_root
from tomserve.errors import ConfigError
from tomserve.runs.scores import load_scores
from tomserve.web import answerindex, browsing
from tomserve.web.browsing import NONE, Filters
from tomserve.web.computing import Result

Row = dict[str, Any]


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Row]:
    """The index of the committed run, made in this process; and its rows by a plain reading of all files."""
    folder = copied_example(tmp_path / "runs")
    out = tmp_path / "index"
    out.mkdir()
    facts = answerindex.answers(out, ["example"], {})
    monkeypatch.setattr(browsing, "index_of", lambda run: Result(out, facts))
    replies = {}
    for line in (folder / "responses.jsonl").read_bytes().splitlines():
        row = orjson.loads(line)
        replies[row["item"], row["strategy"]] = row["text"]
    items = {one["id"]: one for one in map(orjson.loads, (folder / "items.jsonl").read_bytes().splitlines())}
    rows: list[Row] = []
    for row in load_scores("example").iter_rows(named=True):
        item = items[row["item"]]
        words = "\n".join((*item["story"], item["question"]))
        rows.append({**row, "reply": replies[row["item"], row["strategy"]], "words": words, "gold": item["answer"]})
    return rows


def wanted(filters: Filters) -> list[tuple[str, str]]:
    """All answers that the filters leave, page by page."""
    found: list[tuple[str, str]] = []
    first = browsing.page_of(runs_root() / "example", filters)
    assert first is not None
    for number in range(1, first.pages + 1):
        page = browsing.page_of(runs_root() / "example", Filters(**{**vars(filters), "page": number}))
        assert page is not None
        assert page.total == first.total
        assert len(page.rows) <= browsing.SIZE
        found += [(row["item"], row["strategy"]) for row in page.rows]
    assert len(found) == first.total
    return found


def chain_of(row: Row) -> str | None:
    if row["chain_proper"]:
        return "proper"
    return None if row["chain_proper"] is None and row["chain_break"] is None else "broken"


KEPT: list[tuple[Filters, Callable[[Row], bool]]] = [
    (Filters(), lambda row: True),
    (Filters(strategy="cot"), lambda row: row["strategy"] == "cot"),
    (Filters(outcome="wrong"), lambda row: not row["correct"]),
    (Filters(outcome="right", strategy="vanilla"), lambda row: row["correct"] and row["strategy"] == "vanilla"),
    (Filters(chain="proper"), lambda row: chain_of(row) == "proper"),
    (Filters(chain="broken"), lambda row: chain_of(row) == "broken"),
    (Filters(chain=NONE), lambda row: chain_of(row) is None),
    (Filters(status="ok"), lambda row: row["status"] == "ok"),
    (Filters(status="length"), lambda row: False),
    (Filters(factors=(("stage", "C1"), ("swapped", "true"))), lambda row: row["stage"] == "C1" and row["swapped"]),
    (Filters(factors=(("aware", NONE),)), lambda row: row["aware"] is None),
    (Filters(factors=(("no such factor", "x"),)), lambda row: False),
    (Filters(item="late_LABEL"), lambda row: "late_label" in row["item"]),
    (Filters(text="MITTENS"), lambda row: "mittens" in (row["reply"] + row["words"]).lower()),
    (Filters(text="[.*"), lambda row: "[.*" in row["reply"] + row["words"]),
]


@pytest.mark.parametrize(("filters", "kept"), KEPT)
def test_filters_leave_what_a_plain_reading_leaves(
    example: list[Row], filters: Filters, kept: Callable[[Row], bool]
) -> None:
    assert wanted(filters) == [(row["item"], row["strategy"]) for row in example if kept(row)]


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("sort", ["strategy", "outcome", "answer", "break"])
def test_pages_are_sorted_as_a_whole(example: list[Row], sort: str, down: bool) -> None:
    column = {"outcome": "correct", "break": "chain_break"}.get(sort, sort)
    value = {(row["item"], row["strategy"]): row[column] for row in example}
    if sort == "outcome":
        value = {key: "right" if right else "wrong" for key, right in value.items()}
    there = [key for key, one in value.items() if one is not None]
    there.sort(key=lambda key: str(value[key]).encode() if sort != "break" else value[key], reverse=down)  # is stable
    lacking = [key for key, one in value.items() if one is None]
    assert wanted(Filters(sort=sort, down=down)) == [*there, *lacking]


def test_the_counts_are_those_of_all_answers(example: list[Row]) -> None:
    page = browsing.page_of(runs_root() / "example", Filters(outcome="wrong", page=99))
    assert page is not None
    assert page.page == page.pages == 2
    assert dict(page.about["outcomes"]) == {
        "right": sum(row["correct"] for row in example),
        "wrong": sum(not row["correct"] for row in example),
    }
    assert dict(page.about["factors"]["stage"])["C1"] == sum(row["stage"] == "C1" for row in example)


def test_a_row_shows_the_beginning_of_its_reply_and_its_gold(example: list[Row]) -> None:
    page = browsing.page_of(runs_root() / "example", Filters())
    assert page is not None
    for row, plain in zip(page.rows, example, strict=False):
        assert row["shown"] == plain["reply"][: answerindex.SHOWN]
        assert row["long"] == (len(plain["reply"]) > answerindex.SHOWN)
        assert row["gold"] == plain["gold"]


def test_what_is_too_long_to_be_searched_is_said(example: list[Row], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browsing, "MOST_SEARCHED", 1)
    page = browsing.page_of(runs_root() / "example", Filters(text="no such words at all"))
    assert page is not None
    assert "takes too long" in page.unsearched
    assert page.total == len(example)


def test_before_and_after_follow_the_filters(example: list[Row]) -> None:
    del example
    filters = Filters(outcome="wrong", sort="answer", down=True)
    page = browsing.page_of(runs_root() / "example", filters)
    assert page is not None
    first, second, third = (row["place"] for row in page.rows[:3])
    before, after = browsing.neighbours(runs_root() / "example", filters, second)
    assert before is not None
    assert after is not None
    assert (before["place"], after["place"]) == (first, third)
    assert browsing.neighbours(runs_root() / "example", filters, first)[0] is None
    assert browsing.neighbours(runs_root() / "example", Filters(outcome="right"), first) == (None, None)


ADDRESSES = [
    {
        "strategy": "cot",
        "outcome": "wrong",
        "f.stage": "C1",
        "f.kind": "x y",
        "sort": "answer",
        "down": "1",
        "page": "3",
    },
    {"item": "a&b=c", "text": "ü<script>"},
]


@pytest.mark.parametrize("given", ADDRESSES)
def test_an_address_is_read_as_it_is_written(given: dict[str, str]) -> None:
    filters = Filters.read(given)
    assert dict(parse_qsl(filters.query())) == given
    assert Filters.read(dict(parse_qsl(filters.query()))) == filters


@pytest.mark.parametrize("page", ["0", "-1", "x", "99999999999999999999", "", "1.5", "٣"])
def test_a_strange_page_is_one_that_there_is(page: str) -> None:
    assert Filters.read({"page": page, "sort": "__class__"}).sort == "item"
    assert Filters.read({"page": page}).page >= 1


def test_samples_and_turns_have_their_places(tmp_path: Path) -> None:
    folder = talking_run(tmp_path / "runs/talking")
    out = tmp_path / "index"
    out.mkdir()
    assert answerindex.answers(out, ["talking"], {})["turns"]
    turns = pl.read_parquet(out / "turns.parquet")
    journal = (folder / "responses.jsonl").read_bytes()
    for row in turns.iter_rows(named=True):
        found = orjson.loads(journal[row["offset"] :].split(b"\n")[0])
        assert (found["item"], found["strategy"], found["turn"]) == (row["item"], row["strategy"], row["turn"])
    assert turns.height == 11 - 1  # the reply that timed out was asked again


def test_variants_name_their_originals(tmp_path: Path) -> None:
    varied_run(tmp_path / "runs/varied")
    out = tmp_path / "index"
    out.mkdir()
    answerindex.answers(out, ["varied"], {})
    found = pl.read_parquet(out / "answers.parquet")
    assert set(found["base"].drop_nulls()) <= set(found["item"])
    assert found["base"].null_count() < found.height


def test_a_run_without_answers_says_so(tmp_path: Path) -> None:
    folder = copied_example(tmp_path / "runs")
    (folder / "responses.jsonl").unlink()
    found = made("answers", "example")
    assert found.error == "example: nothing was answered yet"
    with pytest.raises(ConfigError, match="nothing was answered"):
        browsing.page_of(runs_root() / "example", Filters())
