"""The study of ToMBench, on replies of known worth to files of our own."""

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import ROOT
from tests.helpers import golden_tables, tombench
from tomserve import benchmarks
from tomserve.benchmarks.published import tombench as published_tombench
from tomserve.items import Item
from tomserve.scoring.score import item_fields, score_row
from tomserve.studies import Context, analyze, compute
from tomserve.studies.texts import Texts


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> list[Item]:
    return list(benchmarks.load("tombench", tombench.write(tmp_path_factory.mktemp("tombench")), where=["all"]))


def scores(items: list[Item], reply: Callable[[Item, str], str]) -> pl.DataFrame:
    """The score table of a model that says what `reply` gives for an item and the letter of its right answer."""
    rules = benchmarks.scoring_of("tombench")
    rows = []
    for item in items:
        text = reply(item, "ABCD"[item.choices.index(item.answer)])
        row = {"strategy": "tombench_vanilla", "status": "ok", "text": text}
        rows.append(item_fields(item, rules) | score_row("run", "model", item, row, scoring=rules))
    return pl.DataFrame(rows, infer_schema_length=None)


def right_answer(item: Item, right: str) -> str:
    del item
    return f"[[{right}]]"


def test_by_task_dimension_and_language_beside_what_was_printed(items: list[Item]) -> None:
    said = scores(items, lambda item, right: f"[[{right}]]" if item.id.endswith("en") else "[[A]]")
    found = analyze(said, "tombench")
    tasks = found["tasks"].filter(language="en")
    assert tasks["accuracy"].to_list() == [1.0] * 21
    mean = tasks.filter(task="mean of the tasks").select("human_quoted", "gpt_4_1106_quoted", "total").row(0)
    assert mean == (0.854, 0.74, 18)
    chinese = [item for item in items if item.factors["language"] == "zh"]
    assert found["accuracy"]["total"].to_list() == [len(items)]  # one row, which the verdict tells
    expected = sum(item.choices[0] == item.answer for item in chinese) / len(chinese)
    assert found["by_language"].filter(language="zh")["accuracy"].item() == pytest.approx(expected)
    assert found["dimensions"].filter(language="en", dimension="belief")["human_quoted"].item() == 0.893
    assert set(found["abilities"]["ability"]) >= {"second_order_beliefs", "faux_pas"}
    assert found["languages"]["questions"].to_list() == [len(chinese)]


def test_the_printed_averages_are_the_means_of_the_printed_tasks() -> None:
    for who, printed in Texts(str(ROOT / "analysis/tombench.py")).section("printed").items():
        values = list(printed.values())
        assert printed["mean of the tasks"] == pytest.approx(sum(values[:8]) / 8, abs=6e-4)
        off = 0.0018 if who == "people" else 0  # so printed, as the file says
        assert printed["mean of the dimensions"] == pytest.approx(sum(values[8:14]) / 6 + off, abs=6e-4)


def test_stories_count_where_every_question_is_right(items: list[Item]) -> None:
    wrong = scores(items, lambda item, right: f"[[{right}]]" if item.id != "hinting/2/en" else "I cannot say")
    table = analyze(wrong, "tombench")["stories"]
    assert table.filter(language="en", task="hinting")["solved"].item() == 0
    assert table.filter(language="zh", task="hinting")["solved"].item() == 1
    assert table.filter(language="en", task="all").select("solved", "stories").row(0) == (20, 21)


def test_the_official_scorer_stands_beside_ours(items: list[Item]) -> None:
    """A reply that weighs [[A]] before it names the right letter is read as A by the official reader."""

    def weighs(item: Item, right: str) -> str:
        return f"Not [[A]]. Actually the answer is [[{right}]]." if right != "A" else "Hm"

    table = scores(items, weighs)
    found = analyze(table, "tombench")["official"].filter(language="en").row(0, named=True)
    english = [item for item in items if item.factors["language"] == "en"]
    first = sum(item.choices[0] == item.answer for item in english)
    assert found["official_accuracy"] == pytest.approx(first / len(english))  # "Hm" is taken for A
    assert found["official_guessed"] == pytest.approx(first / len(english))
    assert (found["unread"], found["only_official"]) == (first, first)
    assert found["only_ours"] == len(english) - first
    published = analyze(table, "tombench", intervals="published")["by_language"].filter(language="en")
    assert published["correct"].item() == first


def test_an_account_of_a_vote_is_counted_by_its_votes(items: list[Item]) -> None:
    def vote(item: Item, right: str) -> str:
        other = next(choice for choice in item.choices if choice != item.answer)
        votes = [item.answer, other, item.answer, other, item.answer]
        account = {"answer": other, "votes": votes, "official": votes, "fallbacks": 2}
        return json.dumps(account, ensure_ascii=False)

    found = analyze(scores(items, vote), "tombench")["official"]
    shares = found.select("accuracy", "official_accuracy", "official_guessed").rows()
    assert shares == [(0.0, 1.0, pytest.approx(0.4))] * 2
    assert published_tombench.majority(["a", None, "b", "b"]) == "b"


def test_the_question_with_another_storys_options_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "Strange Story Task.jsonl"
    rows = [tombench.row("Strange Story Task", 1), tombench.row("Strange Story Task", 2, **tombench.TWO)]
    rows[1] |= {"OPTION-C": "Drawer", "OPTION-D": "Bag"}
    path.write_text("\n".join(json.dumps(row) for row in rows))
    found = analyze(scores(list(benchmarks.load("tombench", path, where=["all"])), right_answer), "tombench")
    assert dict(found["by_language"].select("language", "total").rows()) == {"en": 1, "zh": 2}
    assert "mean of the tasks" not in found["tasks"]["task"].to_list()  # seven tasks were not asked


def wrong_answer(item: Item, right: str) -> str:
    return f"[[{'ABCD'[('ABCD'.index(right) + 1) % len(item.choices)]}]]"


def test_numbers_and_words_of_three_strategies_are_what_they_were(items: list[Item]) -> None:
    """Whoever reasons is right, a vote is no reasoning, and only English is right by the last."""

    def english(item: Item, right: str) -> str:
        return (right_answer if item.id.endswith("en") else wrong_answer)(item, right)

    replies = {"tombench_vanilla": wrong_answer, "tombench_cot": right_answer, "tombench_vote": english}
    table = pl.concat([scores(items, reply).with_columns(strategy=pl.lit(name)) for name, reply in replies.items()])
    found = compute(table.with_columns(rule_longest_choice=pl.col("language") == "zh"), "tombench")
    words = {"warnings": found.warnings, "verdicts": found.verdicts_with(Context({"all": 0.25}))}
    golden_tables.check("tombench-strategies", found.tables, **words)
