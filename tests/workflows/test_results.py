"""Loading, scoring, analysing and comparing from Python."""

from pathlib import Path

import orjson
import polars as pl
import pytest

import tomserve
from tests.conftest import make_item
from tests.helpers.examples import copied_example
from tomserve.errors import ConfigError, ContentError

RESPONSES = [
    {"item": "demo/1", "text": "Answer: tea"},
    {"item": "demo/2", "text": '{"answer": "salt"}', "strategy": "cot", "model": "other"},
]


@pytest.fixture(autouse=True)
def example(tmp_path: Path) -> Path:
    return copied_example(tmp_path / "runs")


def test_foreign_answers_are_scored_from_memory_and_from_files_alike(tmp_path: Path) -> None:
    items = [make_item(1), make_item(2)]
    scores = tomserve.score(RESPONSES, items, model="theirs")
    assert scores.select("model", "strategy", "item", "answer", "correct").rows() == [
        ("theirs", "vanilla", "demo/1", "tea", True),
        ("other", "cot", "demo/2", "salt", False),
    ]
    responses, file = tmp_path / "responses.jsonl", tmp_path / "items.jsonl"
    responses.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in RESPONSES))
    file.write_bytes(b"".join(item.to_json() + b"\n" for item in items))
    assert tomserve.score(str(responses), file, model="theirs").equals(scores)
    assert tomserve.analyze(scores, "accuracy")["accuracy"].height


def test_what_cannot_be_scored_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no line of it is a response to a known item"):
        tomserve.score([{"item": "unknown", "text": "tea"}], [make_item(1)])
    with pytest.raises(ConfigError, match="response 1 is no mapping that JSON can hold"):
        tomserve.score([RESPONSES[0], {"item": object()}], [make_item(1)])
    with pytest.raises(ConfigError, match="no items to score against"):
        tomserve.score(RESPONSES, [])
    with pytest.raises(ContentError, match=r"nowhere.jsonl: cannot be read"):
        tomserve.score(RESPONSES, tmp_path / "nowhere.jsonl")
    said: list[str] = []
    tomserve.score([*RESPONSES, {"text": "tea"}], [make_item(1)], note=said.append)
    assert "2 lines not read" in said[0]


def test_a_run_gives_its_scores_tables_and_report(example: Path, tmp_path: Path) -> None:
    run = tomserve.Run.open(example)
    assert run.scores().equals(tomserve.load_scores("example"))
    assert tomserve.load_scores(run).equals(tomserve.load_scores(example))
    assert run.report(tmp_path / "r.html").read_text().startswith("<!doctype html>")

    assert {"accuracy", "failures"} <= set(tomserve.analyze(run.scores(), intervals="published"))
    with pytest.raises(ConfigError, match="no run there"):
        tomserve.Run.open("exampel")
    with pytest.raises(ConfigError, match="unknown intervals"):
        tomserve.analyze(run.scores(), intervals="wide")


def test_a_table_and_a_run_are_compared(example: Path, tmp_path: Path) -> None:
    run = tomserve.Run.open()
    table = tmp_path / "other.parquet"
    run.scores().with_columns(~pl.col("correct")).write_parquet(table)
    found = tomserve.compare(run, table)
    assert found.flips.height == 352
    assert found.left_out == (0, 0)
    run.scores().head(100).write_parquet(table)
    with pytest.raises(ConfigError, match="were not asked the same"):
        tomserve.compare(run, str(table))
    assert tomserve.compare(run, str(table), common=True).left_out[0] == 252


def test_a_factor_to_count_by_may_be_a_text_or_a_list() -> None:
    scores = tomserve.load_scores("example")
    one, listed = (tomserve.analyze(scores, "accuracy", by=by) for by in ("scenario", ["scenario"]))
    assert one["by_scenario"].equals(listed["by_scenario"])
