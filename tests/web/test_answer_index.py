"""Pages of answers hold what a plain reading of all rows finds."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import orjson
import polars as pl
import pytest

from tests.helpers.examples import copied_example
from tests.helpers.reports import talking_run
from tomserve.runs.scores import load_scores
from tomserve.web import answer_index
from tomserve.web.answer_index import NONE, Filters
from tomserve.web.background import Result

Row = dict[str, Any]


RUN = Path("example")


@pytest.fixture(scope="module")
def _example(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, list[Row]]:
    """The index of the committed run; and its rows by a plain reading of all files."""
    root = tmp_path_factory.mktemp("browsed")
    folder, out = copied_example(root / "runs"), root / "index"
    out.mkdir()
    facts = answer_index.answers(out, [str(folder)], {})
    replies = {}
    for line in (folder / "responses.jsonl").read_bytes().splitlines():
        row = orjson.loads(line)
        replies[row["item"], row["strategy"]] = row["text"]
    items = {one["id"]: one for one in map(orjson.loads, (folder / "items.jsonl").read_bytes().splitlines())}
    rows: list[Row] = []
    for row in load_scores(str(folder)).iter_rows(named=True):
        item = items[row["item"]]
        words = "\n".join((*item["story"], item["question"]))
        rows.append({**row, "reply": replies[row["item"], row["strategy"]], "words": words, "gold": item["answer"]})
    return Result(out, facts), rows


@pytest.fixture
def example(_example: tuple[Result, list[Row]], monkeypatch: pytest.MonkeyPatch) -> list[Row]:
    monkeypatch.setattr(answer_index, "index_of", lambda run: _example[0])
    return _example[1]


def page_of(filters: Filters) -> answer_index.Page:
    found = answer_index.page_of(RUN, filters)
    assert found is not None
    return found


def wanted(filters: Filters) -> list[tuple[str, str]]:
    first = page_of(filters)
    pages = [page_of(replace(filters, page=number)) for number in range(1, first.pages + 1)]
    assert {page.total for page in pages} == {first.total}
    assert max(len(page.rows) for page in pages) <= answer_index.SIZE
    found = [(row["item"], row["strategy"]) for page in pages for row in page.rows]
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


def test_a_page_has_the_counts_of_all_answers_and_beginnings_of_replies(
    example: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = page_of(Filters(outcome="wrong", page=99))
    assert page.page == page.pages == 2
    right = sum(row["correct"] for row in example)
    assert dict(page.about["outcomes"]) == {"right": right, "wrong": len(example) - right}
    assert dict(page.about["factors"]["stage"])["C1"] == sum(row["stage"] == "C1" for row in example)
    for row, plain in zip(page_of(Filters()).rows, example, strict=False):
        assert row["shown"] == plain["reply"][: answer_index.SHOWN]
        assert row["long"] == (len(plain["reply"]) > answer_index.SHOWN)
        assert row["gold"] == plain["gold"]
    monkeypatch.setattr(answer_index, "MOST_SEARCHED", 1)
    page = page_of(Filters(text="no such words at all"))
    assert "too long to search" in page.unsearched
    assert page.total == len(example)


@pytest.mark.usefixtures("example")
def test_before_and_after_follow_the_filters() -> None:
    filters = Filters(outcome="wrong", sort="answer", down=True)
    first, second, third = (row["place"] for row in page_of(filters).rows[:3])
    before, after = answer_index.neighbours(RUN, filters, second)
    assert (before["place"], after["place"]) == (first, third)
    assert answer_index.neighbours(RUN, filters, first)[0] is None
    assert answer_index.neighbours(RUN, Filters(outcome="right"), first) == (None, None)


def test_an_address_is_read_as_it_is_written_and_a_strange_page_is_one_that_there_is() -> None:
    given = {"strategy": "cot", "item": "a&b=c", "outcome": "wrong", "text": "ü<script>", "f.stage": "C1",
             "f.kind": "x y", "sort": "answer", "down": "1", "page": "3"}  # fmt: skip
    filters = Filters.read(given)
    assert dict(parse_qsl(filters.query())) == given
    assert Filters.read(dict(parse_qsl(filters.query()))) == filters
    for page in ("0", "-1", "x", "99999999999999999999", "", "1.5", "٣"):
        strange = Filters.read({"page": page, "sort": "__class__"})
        assert strange.page >= 1
        assert strange.sort == "item"


def test_samples_and_turns_have_their_places(tmp_path: Path) -> None:
    folder = talking_run(tmp_path / "runs/talking")
    out = tmp_path / "index"
    out.mkdir()
    assert answer_index.answers(out, [str(folder)], {})["turns"]
    turns = pl.read_parquet(out / "turns.parquet")
    journal = (folder / "responses.jsonl").read_bytes()
    for row in turns.iter_rows(named=True):
        found = orjson.loads(journal[row["offset"] :].split(b"\n")[0])
        assert (found["item"], found["strategy"], found["turn"]) == (row["item"], row["strategy"], row["turn"])
    assert turns.height == 11 - 1  # the reply that timed out was asked again
