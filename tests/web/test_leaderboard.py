"""The leaderboard: what stands in one column, which run counts, who sees it, and what it is downloaded as."""

import csv
import io
from typing import Any

import pytest

from tests.helpers.examples import change_rows
from tests.helpers.queues import until
from tests.helpers.workbenches import client, example, lab, member, settled
from tomserve.content.paths import runs_root
from tomserve.runs.scores import scores_of
from tomserve.studies import analyze, overall_accuracy
from tomserve.studies.comparability import Conditions
from tomserve.web import leaderboard
from tomserve.web.accounts import Person
from tomserve.web.leaderboard import Board, Filters, LayersEntry
from tomserve.web.run_index import Card, RunIndex
from tomserve.web.tally import Layers


def board(filters: Filters | None = None) -> Board:
    register = RunIndex()
    until(lambda: not leaderboard.find_board(register, Person(), filters or Filters()).pending)
    return leaderboard.find_board(register, Person(), filters or Filters())


def test_a_share_and_its_interval_are_those_of_the_study_of_the_benchmark() -> None:
    folder = example("mine")
    found = board()
    rows = overall_accuracy(analyze(scores_of(folder), "perturbed"))
    assert [column.asked.strategy for column in found.columns] == ["cot", "vanilla"]
    for column in found.columns:
        (row,) = rows.filter(strategy=column.asked.strategy).iter_rows(named=True)
        share = found.rows[0].cells[column.key].share
        assert (share.estimate, share.low, share.high) == (row["accuracy"], row["ci_low"], row["ci_high"])
        assert (share.correct, share.total, column.asked.count) == (row["correct"], row["total"], 176)
        assert (column.rule, column.rule_share) == (row["best_rule"], row["best_rule_accuracy"])
        assert column.chance == pytest.approx(1 / 3)


OTHERWISE: dict[str, dict[str, Any]] = {
    "was asked another version of the benchmark: repeat with the same one": {"benchmark_digest": "sha256:0"},
    "was scored by other right answers: score it again by the same": {"benchmark_gold": "other"},
    "was sampled at temperature 0.7 instead of 0.0: repeat with the same": {
        "sampling": {"temperature": 0.7, "seed": 0}
    },
    "was asked by prompts of another text or form, or another limit of tokens: repeat with the same": {
        "strategies": {"cot": {"digest": "sha256:1"}}
    },
}
"""How it is said that a run was asked otherwise, and what its manifest says then."""


def test_what_was_asked_otherwise_stands_in_another_column() -> None:
    for model in "ab":  # the column of two models is the first
        example(model, model=model)
    for number, changes in enumerate(OTHERWISE.values()):
        example(f"other{number}", model=f"other{number}", **changes)
    found = board(Filters(strategy="cot"))
    assert sorted(column.differs for column in found.columns) == sorted(["", *OTHERWISE])
    assert all(len(row.cells) == 1 for row in found.rows)


def test_replies_that_another_tool_collected_otherwise_stand_in_another_column() -> None:
    """By what that tool has recorded: other weights are no other way of asking, more shots are."""
    strategies = {"cot": {"digest": None}}
    for name, shots, model in (("a", 0, "x"), ("b", 0, "y"), ("c", 5, "y")):
        settings = {"n-shot": shots, "model_args": f"pretrained={model}", "gen_kwargs": None}
        foreign = {"tool": "lm-eval", "settings": settings, "grades": ["exact_match"]}
        example(name, model=name, foreign=foreign, strategies=strategies)
    found = board(Filters(strategy="cot"))
    assert [[key in row.cells for key in (column.key for column in found.columns)] for row in found.rows] == [
        [True, False],
        [True, False],
        [False, True],
    ]
    assert found.columns[1].differs.startswith("was asked by prompts of another text or form")


def test_what_was_asked_alike_stands_in_one_column_and_the_highest_first() -> None:
    example("a", model="a")
    other = {"text": '{"answer": "nothing of this"}'}
    change_rows(example("b", model="b"), lambda number, row: {**row, **(other if number % 3 == 0 else {})})
    found = board()
    assert len(found.columns) == 2
    first = found.columns[0].key
    assert [row.model for row in found.rows] == ["a", "b"]
    assert [row.cells[first].best for row in found.rows] == [True, False]
    assert sum(cell.share.unread for cell in found.rows[1].cells.values()) == 118


def test_of_several_runs_the_newest_complete_one_counts() -> None:
    example("old", created="2026-01-01T00:00:00Z")
    example("new", created="2026-02-01T00:00:00Z")
    example("begun", created="2026-03-01T00:00:00Z", complete=False)
    found = board()
    (row,) = found.rows
    assert {(cell.run, cell.others) for cell in row.cells.values()} == {("new", ("old",))}
    assert [(one.run, one.why) for one in found.apart] == [("begun", leaderboard.UNFINISHED)]


def test_a_run_whose_replies_mostly_cannot_be_read_is_not_ranked_and_a_broken_one_says_so() -> None:
    change_rows(example("lost"), lambda _, row: {**row, "text": "I would rather not say."})
    example("searched", study="search")
    (runs_root() / "broken").mkdir()
    (runs_root() / "broken" / "manifest.json").write_text("{", "utf-8")
    found = board()
    assert not found.rows
    said = {one.run: one.why for one in found.apart}
    assert said["lost"] == "176 of 176 replies could not be read, more than half"
    assert "not JSON" in said["broken"]
    assert said["searched"] == leaderboard.ADAPTIVE, "its questions followed from its answers"


def test_the_page_links_runs_and_its_files_say_the_same() -> None:
    example("mine", model="<b>&m")
    me = client()
    text = settled(me, "/leaderboard").text
    assert 'href="/run/mine"' in text
    assert "&lt;b&gt;&amp;m" in text
    assert "<b>&m" not in text
    (cot, vanilla) = csv.DictReader(io.StringIO(me.get("/leaderboard.csv").text))
    assert (cot["strategy"], cot["run"], cot["correct"]) == ("cot", "mine", "135")
    assert vanilla["estimate"] == "0.8125"
    assert ".77 [.61, .85]" in me.get("/leaderboard.tex").text
    assert r"| .77 \[.61, .85\] |" in me.get("/leaderboard.md").text
    page = me.get("/leaderboard.html")
    assert "attachment" in page.headers["content-disposition"]
    assert "&lt;b&gt;&amp;m" in page.text
    assert "<script" not in page.text
    assert me.get("/leaderboard.exe").status_code == 422


def test_a_mechanism_that_is_not_comparable_is_not_said_to_be_unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = Layers(conditions=Conditions(), ftom_bs=(0.5, 0.4, 0.6), b=(0.5, 0.4, 0.6), s=(0.5, 0.4, 0.6))
    for measured, said in (((0.3, 0.2, 0.4), "not comparable here"), ((), "not measured")):
        entry = LayersEntry("r", "r/p", "m", layers.model_copy(update={"c_measured": measured}))
        made = Board((), (), (), ((entry,),), (), 0, Filters())
        monkeypatch.setattr("tomserve.web.routes.comparison.find_board", lambda *_, made=made: made)
        assert client().get("/leaderboard").text.count(f'aria-label="{said}"') == 2  # FToM and C


def test_a_private_run_of_somebody_else_is_on_no_list() -> None:
    app = lab()
    example("secret", Card(owner="ada", private=True), model="hidden-model")
    for page in ("/leaderboard", "/", "/api/v1/runs", "/api/v1/leaderboard"):
        shown = ["hidden-model" in settled(member(app, name), page).text for name in ("ada", "ben", "eve")]
        assert shown == [True, False, False], page
