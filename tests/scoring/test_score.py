"""The scored row and the score table; several samples of a question become one row with the answer of the majority."""

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
from tomserve.scoring.answers import read_reply
from tomserve.scoring.score import COLUMNS, SAMPLED, score_row
from tomserve.scoring.table import read_table, score_table, write_scores

CHOICES = ("tea", "salt", "unknown")


def response(text: str | None, status: str = "ok", **more) -> dict:
    return {"item": "demo/1", "strategy": "cot", "turn": 0, "status": status, "text": text, "error": None, **more}


def chain(beliefs: str, sentences: int = 3):
    return read_reply(f'{{"beliefs": {beliefs}, "answer": "tea"}}', CHOICES, sentences)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_score_table_reads_back_as_it_was(tmp_path, kind: str) -> None:
    told = response('{"beliefs": ["tea", "salt"], "answer": "tea"}')
    rows = [(make_item(n), {**told, "item": f"demo/{n}"}) for n in range(30)]
    rows.append((make_item(999, id="001"), response(None, "http_500", error='=late, first "reason"')))
    frame = score_table("r", "@cf/model", rows)
    path = tmp_path / f"s.{kind}"
    write_scores(frame, path)
    assert read_table(str(path)).equals(frame)


def test_a_row_carries_answer_and_chain_metrics_0_for_a_faulty_chain_and_null_for_none() -> None:
    for beliefs, expected in (
        ('"beliefs": ["unknown", "unknown", "tea"], ', (True, 1.0, 1.0)),
        ('"beliefs": ["tea", "tea", "tea"], ', (False, pytest.approx(1 / 3), 0.0)),
        ('"beliefs": ["milk"], ', (False, 0.0, 0.0)),
        ("", (None, None, None)),
    ):
        row = score_row("r", "m", make_item(), response(f'{{{beliefs}"answer": "tea"}}'))
        assert row["correct"] is True
        assert (row["chain_proper"], row["chain_lcs"], row["chain_lcps"]) == expected, beliefs


@pytest.mark.parametrize("row", [response('{"answer": "tea"}'), response("hm"), response(None, "http_500")])
def test_where_a_chain_was_asked_for_a_missing_one_scores_0(row: dict) -> None:
    """Or a mean over chain metrics would leave out exactly the failures."""
    scored = score_row("r", "m", make_item(), row, True)
    names = ("chain", "chain_proper", "chain_lcs", "chain_transitions")
    assert [scored[name] for name in names] == [None, False, 0.0, 0.0]


def test_statuses() -> None:
    cut = score_row("r", "m", make_item(), response('{"answer": "tea"}', "length"))
    assert (cut["status"], cut["correct"]) == ("length", True)
    assert score_row("r", "m", make_item(), response('{"answ', "length"))["status"] == "length"
    assert score_row("r", "m", make_item(), response("hm"))["status"] == "invalid"
    failed = score_row("r", "m", make_item(), response(None, "timeout", error="no reply"))
    assert (failed["status"], failed["correct"], failed["reason"]) == ("timeout", False, "no reply")


def test_factors_become_columns_and_may_not_shadow() -> None:
    frame = score_table("r", "m", [(make_item(1, factors={"order": 2}), response('{"answer": "tea"}'))])
    assert frame["order"].to_list() == [2]
    for name in (*COLUMNS, *SAMPLED):  # refused before anything is asked, not after
        with pytest.raises(ValueError, match=f"factor '{name}' has the name of a score column"):
            make_item(1, factors={name: 2})


LONG = tuple(
    f"{name} knows that {'the kettle and the pan are in the shed, ' * 30}as Ivo said. {name} {end}"
    for name, end in (("Ida", "does not know who sold them."), ("Udo", "was not told of the sale."))
)


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
