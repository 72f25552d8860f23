"""Several samples of a question become one row: the majority's answer, and how many of the samples are right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

import tomserve
from tests.conftest import make_item
from tests.helpers.reports import run_folder
from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.runs.scores import score_run
from tomserve.scoring.score import SAMPLED
from tomserve.scoring.table import read_table, score_table, write_scores

TEA, SALT = '{"answer": "tea"}', '{"answer": "salt"}'


def sampled(texts: list[str | None], item: Item | None = None) -> list[tuple[Item, dict[str, Any]]]:
    """The samples of one question; None for one that timed out."""
    rows = []
    for sample, text in enumerate(texts):
        told = {"strategy": "vanilla", "text": text, "status": "timeout" if text is None else "ok", "key": str(sample)}
        rows.append((item or make_item(), {**told, **({"sample": sample} if sample else {})}))
    return rows


def scored(texts: list[str | None]) -> dict[str, Any]:
    frame = score_table("r", "m", sampled(texts))
    assert frame.height == 1
    return frame.row(0, named=True)


def test_the_answer_is_the_one_that_most_samples_give() -> None:
    found = scored([SALT, TEA, TEA, None, "hm"])
    assert {name: found[name] for name in ("answer", "correct", "status", *SAMPLED)} == {
        **{"answer": "tea", "correct": True, "status": "ok", "sample": 1, "samples": 5, "samples_right": 2},
        **{"samples_read": 3, "correct_any": True, "correct_all": False, "correct_mean": 0.4},
    }


@pytest.mark.parametrize(
    ("texts", "answer", "sample"),
    [
        ([SALT, TEA], "salt", 0),  # a tie: the earliest sample among those that are tied
        (["hm", TEA, SALT, SALT, TEA], "tea", 1),
        ([None, "hm", SALT], "salt", 2),  # failed and unread samples do not vote
        ([None, "hm", None], None, 0),  # the first failure is the outcome
    ],
)
def test_ties_and_failures(texts: list[str | None], answer: str | None, sample: int) -> None:
    found = scored(texts)
    assert (found["answer"], found["sample"]) == (answer, sample)
    if answer is None:
        assert (found["status"], found["correct"], found["samples_read"]) == ("timeout", False, 0)
        assert (found["correct_any"], found["correct_all"], found["correct_mean"]) == (False, False, 0.0)


def test_chain_metrics_are_those_of_the_first_sample_with_the_majoritys_answer() -> None:
    beliefs = [{"sentence": number, "belief": label} for number, label in ((1, "unknown"), (2, "unknown"), (3, "tea"))]
    proper = orjson.dumps({"beliefs": beliefs, "answer": "tea"}).decode()
    assert scored([SALT, proper, TEA])["chain_proper"] is True
    assert scored([SALT, TEA, proper])["chain_proper"] is None


def test_a_table_of_single_samples_has_no_further_columns(tmp_path: Path) -> None:
    plain = score_table("r", "m", sampled([TEA]))
    assert not set(SAMPLED) & set(plain.columns)
    both = score_table("r", "m", [*sampled([TEA]), *sampled([SALT, SALT], make_item(2))])
    assert both.select("item", "samples", "correct_mean").rows() == [("demo/1", 1, 1.0), ("demo/2", 2, 0.0)]
    write_scores(both, tmp_path / "s.csv")
    assert read_table(str(tmp_path / "s.csv")).select(*SAMPLED).equals(both.select(*SAMPLED))


def journal(folder: Path, texts: dict[str, list[str]]) -> Path:
    """A run of one strategy in which every item has these samples, the samples in disorder."""
    items = [make_item(number) for number in range(1, len(texts) + 1)]
    run_folder(folder, {"vanilla": {}}, items)
    rows = [
        {"item": item, "strategy": "vanilla", "turn": 0, "key": f"{item}{sample}", "status": "ok", "text": text}
        | ({"sample": sample} if sample else {})
        for item, samples in texts.items()
        for sample, text in reversed(list(enumerate(samples)))
    ]
    lines = [orjson.dumps({"schema": 1, **row}) + b"\n" for row in rows]
    (folder / "responses.jsonl").write_bytes(b"".join(lines))
    return folder


def test_a_runs_samples_are_combined_whatever_their_order(tmp_path: Path) -> None:
    folder = journal(tmp_path / "run", {"demo/1": [TEA, SALT, SALT], "demo/2": [TEA, TEA, SALT]})
    found = score_run(folder)
    assert found.select("item", "answer", "sample", "samples_right").rows() == [
        ("demo/1", "salt", 1, 1),
        ("demo/2", "tea", 0, 2),
    ]
    again = {"item": "demo/1", "strategy": "vanilla", "turn": 0, "key": "k", "status": "ok", "text": TEA, "sample": 2}
    with (folder / "responses.jsonl").open("ab") as file:
        file.write(orjson.dumps(again) + b"\n")
    assert score_run(folder)["samples_right"].to_list() == [2, 2]  # the later row of a sample counts


def test_many_questions_are_combined_across_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = journal(tmp_path / "run", {f"demo/{number}": [TEA, SALT, SALT] for number in range(1, 8)})
    whole = score_run(folder)
    monkeypatch.setattr("tomserve.scoring.table.PART", 2)
    assert score_run(folder).equals(whole)
    assert whole["samples"].to_list() == [3] * 7


@pytest.mark.parametrize(("sample", "said"), [("one", "no whole number"), (-1, "out of range"), (2**15, "out of ra")])
def test_a_line_with_a_strange_sample_is_counted(tmp_path: Path, sample: object, said: str) -> None:
    folder = journal(tmp_path / "run", {"demo/1": [TEA]})
    row = {"item": "demo/1", "strategy": "vanilla", "turn": 0, "key": "k", "status": "ok", "text": SALT}
    with (folder / "responses.jsonl").open("ab") as file:
        file.write(orjson.dumps({**row, "sample": sample}) + b"\n")
    notes: list[str] = []
    assert score_run(folder, note=notes.append)["answer"].to_list() == ["tea"]
    assert said in notes[0]


def test_another_tools_samples_are_combined_and_its_other_uses_of_the_word_ignored() -> None:
    rows = [{"item": "demo/1", "text": text, "sample": sample} for sample, text in enumerate([SALT, TEA, TEA])]
    assert tomserve.score(rows, [make_item()])["correct"].to_list() == [True]
    named = [{"item": "demo/1", "text": TEA, "sample": "row 17"}]
    assert "samples" not in tomserve.score(named, [make_item()]).columns
    with pytest.raises(ConfigError, match="sample out of range"):
        tomserve.score([{"item": "demo/1", "text": TEA, "sample": -3}], [make_item()])
