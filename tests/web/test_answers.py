"""One answer with all that belongs to it, whether there is an index of the run or not."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.conftest import ROOT
from tests.helpers.examples import copied_example
from tests.helpers.reports import hitom_run, talking_run, varied_run
from tests.helpers.workbenches import made
from tomserve.content.paths import runs_root
from tomserve.errors import ConfigError, NoSuchAnswerError
from tomserve.runs.scores import load_scores
from tomserve.web import answers

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


def test_versions_and_originals_are_named(tmp_path: Path) -> None:
    varied_run(tmp_path / "runs/varied")
    made("answers", "varied")
    item = next(row["item"] for row in load_scores("varied").to_dicts() if row["original_item"])
    found = answer("varied", item, "vanilla")
    assert found.original.id == found.item.base
    assert found.item.base in {row["item"] for row in found.versions}
    assert answers.version_of(runs_root() / "varied", found.original.id) is not None


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
