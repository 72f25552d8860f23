"""One answer with all that belongs to it, whether there is an index of the run or not.
Pages of answers hold what a plain reading of all rows finds.
The page of a comparison holds what `tomserve compare` finds."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import orjson
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import tomserve
from tests.conftest import ROOT, make_item
from tests.helpers.examples import copied_example
from tests.helpers.reports import hitom_run, talking_run
from tests.helpers.workbenches import made
from tomserve.content.paths import runs_root
from tomserve.errors import ConfigError, NoSuchAnswerError
from tomserve.runs.manifest import Manifest
from tomserve.runs.scores import load_scores
from tomserve.studies.comparison import compare as plain
from tomserve.studies.comparison import comparison_verdicts
from tomserve.web import analyses, answer_index, answers
from tomserve.web.answer_index import NONE, Filters
from tomserve.web.background import Result
from tomserve.web.routes import runs

ITEM = "C1/add_unrelated_information/informed_protagonist/belief/swapped"


def answer(run: str, *about: str, **more: Any) -> answers.Answer:
    return answers.answer(runs_root() / run, *about, **more)


@pytest.fixture
def content(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOMSERVE_CONTENT", str(ROOT))


@pytest.mark.usefixtures("content")
def test_an_answer_is_the_same_with_an_index_and_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied_example(tmp_path / "runs")
    with monkeypatch.context() as patched:
        patched.setattr(answers, "index_of", lambda _: None)
        scanned = answer("example", ITEM, "cot")
    made("answers", "example")
    found = answer("example", ITEM, "cot")
    assert (scanned.place, type(found.place)) == (None, int)
    assert found.item == scanned.item
    assert found.row == scanned.row
    assert found.sentences == scanned.sentences
    assert found.prompts == scanned.prompts
    scored = {row["item"]: row for row in load_scores("example").filter(strategy="cot").to_dicts()}[ITEM]
    for name in ("status", "parse", "reason", "answer", "correct", "chain_proper", "chain_break", "chain_break_kind"):
        assert found.score[name] == scanned.score[name] == scored[name]
    assert [one.stated for one in found.sentences if one.stated] == scored["chain"]
    assert [one.number for one in found.sentences if one.breaks] == [9]
    assert [one.verdict for one in found.sentences] == scored["chain_verdicts"]
    assert [row["strategy"] for row in found.others] == ["vanilla"]


@pytest.mark.usefixtures("content")
def test_letters_are_read_where_the_benchmark_shows_them() -> None:
    item = make_item(benchmark="hitom", choices=["tea", "salt", "unknown"], gold=None)
    row = {"strategy": "hitom_vanilla", "status": "ok", "text": "B"}
    assert answers._score_of("r", Manifest.model_construct(strategies={}), item, row, "m")["answer"] == "salt"


def test_the_prompt_is_proved_by_the_key_of_the_row(tmp_path: Path) -> None:
    folder = copied_example(tmp_path / "runs")
    made("answers", "example")
    (prompt,) = answer("example", ITEM, "cot").prompts
    assert prompt.proved
    assert [one["role"] for one in prompt.messages] == ["system", "user", "assistant", "user"]
    assert orjson.loads(prompt.body)["messages"] == list(prompt.messages)
    items = folder / "items.jsonl"
    items.write_bytes(items.read_bytes().replace(b"Amaru", b"Bmaru"))
    made("answers", "example")
    (prompt,) = answer("example", ITEM, "cot").prompts
    assert not prompt.proved


def test_a_strategy_of_somebody_else_has_no_prompt_here(tmp_path: Path) -> None:
    hitom_run(tmp_path / "runs/foreign")
    made("answers", "foreign")
    item = load_scores("foreign")["item"][0]
    found = answer("foreign", item, "hitom_chain")
    assert not found.prompts
    assert "cannot be made again" in found.untold


def read(monkeypatch: pytest.MonkeyPatch, indexed: bool, run: str) -> None:
    """Let answers of a run be found by an index, or where there is none."""
    if indexed:
        made("answers", run)
    else:
        monkeypatch.setattr(answers, "index_of", lambda _: None)


@pytest.mark.parametrize("indexed", [True, False])
def test_all_turns_of_a_conversation_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, indexed: bool) -> None:
    talking_run(tmp_path / "runs/talking")
    read(monkeypatch, indexed, "talking")
    found = answer("talking", "demo/1", "fan")
    assert [row["turn"] for row in found.replies] == [0, 1, 2, 3, 4]
    assert found.reply == '{"answer": "tea"}'
    open_ = answer("talking", "demo/2", "two")
    assert (open_.score["status"], open_.reply) == ("unfinished", None)


@pytest.mark.parametrize("turn", [0, 4])
def test_a_row_that_lies_too_deep_is_one_line_whichever_turn_it_is(tmp_path: Path, monkeypatch, turn: int) -> None:
    journal = talking_run(tmp_path / "runs/talking") / "responses.jsonl"
    deep = b'"usage":' + 300 * b"[" + 300 * b"]"
    lines = journal.read_bytes().splitlines(keepends=True)
    at = b'"turn":%d,' % turn
    journal.write_bytes(b"".join(b"{%b,%b" % (deep, one[1:]) if at in one else one for one in lines))
    read(monkeypatch, False, "talking")
    with pytest.raises(ConfigError, match="too deep"):
        answer("talking", "demo/1", "fan")


@pytest.mark.parametrize("indexed", [True, False])
def test_an_answer_that_there_is_not_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, indexed: bool) -> None:
    copied_example(tmp_path / "runs")
    read(monkeypatch, indexed, "example")
    for item, strategy, sample in (("none", "cot", 0), (ITEM, "none", 0), ("\0", "cot", 0), (ITEM, "cot", 7)):
        with pytest.raises(NoSuchAnswerError):
            answer("example", item, strategy, sample=sample)


def test_a_journal_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    folder = copied_example(tmp_path / "runs")
    (folder / "responses.jsonl").rename(tmp_path / "secret")
    (folder / "responses.jsonl").symlink_to(tmp_path / "secret")
    with pytest.raises(ConfigError, match="link"):
        answer("example", ITEM, "cot")


def test_lines_that_are_no_rows_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = copied_example(tmp_path / "runs")
    journal = folder / "responses.jsonl"
    strange = [b"{", b"[]", b"7", b'{"item": 1}', b'{"item": "x", "turn": "y"}', b"\xff\xfe", b""]
    journal.write_bytes(b"\n".join(strange) + b"\n" + journal.read_bytes() + b'{"torn')
    monkeypatch.setattr(answers, "index_of", lambda _: None)
    assert answer("example", ITEM, "cot").reply


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
    (Filters(outcome="right", strategy="vanilla"), lambda row: row["correct"] and row["strategy"] == "vanilla"),
    (Filters(chain="proper"), lambda row: chain_of(row) == "proper"),
    (Filters(chain=NONE), lambda row: chain_of(row) is None),
    (Filters(status="length"), lambda row: False),
    (Filters(factors=(("stage", "C1"), ("swapped", "true"))), lambda row: row["stage"] == "C1" and row["swapped"]),
    (Filters(factors=(("aware", NONE),)), lambda row: row["aware"] is None),
    (Filters(item="late_LABEL"), lambda row: "late_label" in row["item"]),
    (Filters(text="MITTENS"), lambda row: "mittens" in (row["reply"] + row["words"]).lower()),
    (Filters(text="[.*"), lambda row: "[.*" in row["reply"] + row["words"]),
]


@pytest.mark.parametrize(("filters", "kept"), KEPT)
def test_filters_leave_what_a_plain_reading_leaves(
    example: list[Row], filters: Filters, kept: Callable[[Row], bool]
) -> None:
    assert wanted(filters) == [(row["item"], row["strategy"]) for row in example if kept(row)]


def test_a_page_has_the_counts_of_all_answers_and_beginnings_of_replies(example: list[Row], monkeypatch) -> None:
    page = page_of(Filters(outcome="wrong", page=99))
    assert page.page == page.pages == 2
    right = sum(row["correct"] for row in example)
    assert dict(page.about["outcomes"]) == {"right": right, "wrong": len(example) - right}
    assert dict(page.about["factors"]["stage"])["C1"] == sum(row["stage"] == "C1" for row in example)
    monkeypatch.setattr(answer_index, "MOST_SEARCHED", 1)
    page = page_of(Filters(text="no such words at all"))
    assert "too long to search" in page.unsearched
    assert page.total == len(example)


def test_what_another_tool_graded_is_right_or_wrong_though_no_answer_is_known(tmp_path: Path, cli) -> None:
    rows = "id,asked,text,target,correct,repeat\n1,One?,x,a,0,0\n1,One?,y,a,1,1\n1,One?,z,a,1,2\n2,Two?,y,b,0,0\n"
    (tmp_path / "graded.csv").write_text(rows, encoding="utf-8")
    cli("import", "csv", tmp_path / "graded.csv", "--model", "m", "--task", "t", "--run", "graded")
    with pytest.raises(NoSuchAnswerError, match="still being made"):  # it is not known yet which sample counts
        answer("graded", "t/1", "imported")
    made("answers", "graded")
    page = answer_index.page_of(runs_root() / "graded", Filters())
    assert page is not None
    assert [row["outcome"] for row in page.rows] == ["sample", "right", "sample", "wrong"]
    assert answer("graded", "t/1", "imported").sample == 1
    assert ["sample=" in runs._link("graded", row) for row in page.rows] == [True, True, True, False]


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


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.fixture
def two(tmp_path: Path) -> Path:
    first = copied_example(tmp_path / "runs")
    second = first.with_name("second")
    second.mkdir()
    for name in ("items.jsonl", "manifest.json"):
        (second / name).write_bytes((first / name).read_bytes().replace(b'"reference"', b'"another"'))
    lines = (first / "responses.jsonl").read_bytes().splitlines()
    changed = [orjson.dumps({**orjson.loads(line), "text": '{"answer":"unknown"}'}) for line in lines]
    kept = [other if number % 5 == 0 else line for number, (line, other) in enumerate(zip(lines, changed, strict=True))]
    (second / "responses.jsonl").write_bytes(b"\n".join(kept) + b"\n")
    return first


def test_it_says_what_compare_says_and_its_flips_are_paged_and_filtered(two: Path, out: Path) -> None:
    del two
    facts = analyses.compare(out, ["example", "second"], {"strategies": None, "common": False})
    found = plain("example", "second")
    assert facts["verdicts"] == comparison_verdicts(found)
    assert facts["flips"] == found.flips.height > 50
    assert_frame_equal(pl.read_parquet(out / "effects.parquet"), found.effects)
    assert_frame_equal(pl.read_parquet(out / "flips.parquet"), tomserve.compare("example", "second").flips)
    assert ["model", "reference", "another"] in facts["differences"]
    every = pl.read_parquet(out / "flips.parquet")
    first = analyses.flips_page(Result(out), 1)
    rows = [row for page in range(1, first.pages + 1) for row in analyses.flips_page(Result(out), page).rows]
    assert [(row["item"], row["strategy"]) for row in rows] == every.select("item", "strategy").rows()
    lost = analyses.flips_page(Result(out), 1, kind="lost", strategy="cot", item="c1/")
    wanted = every.filter(pl.col("item").str.starts_with("C1/"), flip="lost", strategy="cot")
    assert lost.total == wanted.height > 0
    assert analyses.flips_page(Result(out), 99).page == first.pages


def test_it_tests_against_a_margin(two: Path, out: Path) -> None:
    del two
    facts = analyses.compare(out, ["example", "second"], {"strategies": None, "common": False, "margin": 0.3})
    found = plain("example", "second", margin=0.3)
    assert facts["verdicts"] == comparison_verdicts(found)
    margins = facts["tables"][1]
    assert [row[-1] for row in margins["rows"]] == found.margins["verdict"].to_list()


def test_other_questions_are_refused_unless_only_common_ones_are_wanted(two: Path, out: Path) -> None:
    journal = two / "responses.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-3]))
    with pytest.raises(ConfigError, match="--common"):
        analyses.compare(out, ["example", "second"], {"strategies": None, "common": False})
    facts = analyses.compare(out, ["example", "second"], {"strategies": None, "common": True})
    assert facts["left_out"] == [0, 3]
    assert not any(str(two.parent) in said for said in facts["lacking"])
