"""Logs of Inspect, as the real Inspect writes them, and as nobody should."""

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path

import orjson

from tests.helpers.foreign_files import REAL
from tests.helpers.outcomes import passes, refuses
from tomserve.content.paths import runs_root
from tomserve.interop.inspect_reader import InspectLog
from tomserve.interop.samples import Sample
from tomserve.runs.scores import load_scores


def one(form: str) -> Path:
    """A log: eval and json, places-eval and places-json are the same evaluation in both forms."""
    (path,) = (REAL / form).glob("*.*")
    return path


def log(path: Path, *samples: dict[str, object], steps: Sequence[object] = (), **about: object) -> Path:
    """A log of the evaluation of a real one, with other samples, which the standard library can write."""
    head = {"status": "success", "eval": {"task": "sums", "model": "mockllm/model", **about}, "plan": {"steps": steps}}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr("header.json", json.dumps(head))
        for number, sample in enumerate(samples):
            target.writestr(f"samples/{number}_epoch_1.json", json.dumps(sample))
    return path


def told(samples: list[Sample]) -> list[tuple[object, ...]]:
    return [
        (s.id, s.repeat, s.asked, s.text, s.target, s.grade, s.facts, s.strategy, s.usage, s.status) for s in samples
    ]


def test_both_forms_of_a_real_log_say_the_same() -> None:
    read = [InspectLog(one(form)) for form in ("eval", "json")]
    found = [sorted(log.samples(), key=lambda s: (s.id, s.repeat)) for log in read]
    assert told(found[0]) == told(found[1])
    first = found[0][0]
    assert (first.id, first.repeat, first.asked) == ("q0", 0, "What is 0 + 0?")
    assert (first.text, first.target) == ("The answer is 0", "0")
    assert (first.grade.by, first.grade.correct, first.grade.answer) == ("match", True, "0")
    assert first.given == "What is 0 + 0?"
    assert first.grades["includes"].correct is True
    assert first.facts["subject"] == "a"
    assert first.usage == {"prompt": 9, "completion": 5}
    assert first.strategy == "generate"
    assert [(s.id, s.repeat) for s in found[0]] == [(f"q{q}", r) for q in range(4) for r in range(2)]
    about = read[0].about()
    assert about.tool == "inspect"
    assert about.version.startswith("0.")
    assert read[0].origin().bytes == one("eval").stat().st_size


def test_a_real_log_becomes_a_run(cli, tmp_path: Path) -> None:
    passes(cli("import", "inspect", REAL / "eval"))
    scores = load_scores("sums-mockllm-model")
    assert scores["correct_mean"].to_list() == [1.0, 1.0, 1.0, 0.5]
    assert set(scores["subject"]) == {"a", "b"}
    assert "long" not in scores.columns, "a text is no factor"
    foreign = orjson.loads((runs_root() / "sums-mockllm-model/manifest.json").read_bytes())["foreign"]
    assert foreign["settings"]["config"]["epochs"] == 2
    assert (foreign["tool"], foreign["tasks"], foreign["samples"]) == ("inspect", ["sums"], 8)
    assert foreign["files"][0]["digest"].startswith("sha256:")
    assert "sk-a1b2c3d4e5f6" not in json.dumps(foreign)
    passes(cli("import", "inspect", one("json"), "--scorer", "includes", "--run", "other"))
    assert load_scores("other")["graded_by"].unique().to_list() == ["includes"]
    refuses(cli("import", "inspect", REAL / "eval", "--scorer", "nobody"), "has no such grade; it has: includes; match")


def test_choices_thoughts_and_scores_that_are_no_numbers_are_read_in_both_forms() -> None:
    read = [InspectLog(one(f"places-{form}")) for form in ("eval", "json")]
    found = [sorted(log.samples(), key=lambda s: s.id) for log in read]
    assert told(found[0]) == told(found[1])
    assert [log.left_out for log in read] == [{}, {}]
    first, second, third = found[0]
    assert (first.choices, first.target, first.text) == (("box", "bag", "jar"), "A", "ANSWER: A")
    assert first.reasoning == "Hm. " * 200
    assert first.asked.startswith("Be kind.\n\nAnswer the following")
    assert first.given.endswith("\n\nWhere is 0?")
    assert "Answer the following" not in first.given, "the question as the task states it"
    assert (first.status, third.status) == ("ok", "length")
    assert second.grades["closeness"].value is None, "not a number"
    assert first.grades["closeness"].value == 0.25


def test_a_letter_is_the_choice_that_it_stands_for(cli) -> None:
    assert cli("import", "inspect", REAL / "places-eval").code == 0
    scores = load_scores("places-mockllm-model")
    assert scores["answer"].to_list() == ["box", "bag", "jar"]
    assert scores["correct"].all()
    assert scores["floor_guess"].to_list() == [1 / 3] * 3
    item = orjson.loads((runs_root() / "places-mockllm-model/items.jsonl").read_bytes().splitlines()[0])
    assert (item["choices"], item["answer"], item["question"]) == (["box", "bag", "jar"], "box", "Where is 0?")
    passes(cli("import", "inspect", REAL / "places-eval", "--counts", "tomserve", "--run", "ours"))
    assert load_scores("ours")["answer"].to_list() == ["box", "bag", "jar"], "our rules know that letters were shown"


def test_an_evaluation_that_was_killed_is_read_as_far_as_it_went(cli, tmp_path: Path) -> None:
    log = one("killed")
    with zipfile.ZipFile(log) as file:
        assert "header.json" not in file.namelist(), "as the real Inspect leaves it"
    done = cli("import", "inspect", log)
    assert done.code == 1
    assert "4 replies to 4 questions" in done.out
    assert (
        "warning: 4 left out, as each is not in the log, because the evaluation did not end (status 'started') "
        f"(first: {log.name})"
    ) in done.err
    assert orjson.loads((runs_root() / "killed-mockllm-model/manifest.json").read_bytes())["foreign"]["left_out"]
    text = one("json").read_bytes()
    (tmp_path / "cut.json").write_bytes(text[: text.rindex(b'"epoch"')])
    cut = InspectLog(tmp_path / "cut.json")
    assert len(list(cut.samples())) == 7
    ((reason, (count, place)),) = cut.left_out.items()
    assert "cannot be read, nor what follows" in reason
    assert (count, place) == (1, "cut.json, sample 8")


def test_an_error_is_kept_without_what_is_secret_in_it(cli) -> None:
    done = cli("import", "inspect", REAL / "failing")
    assert (done.code, "1 reply has no grade, and counts as wrong" in done.err) == (0, True)
    scores = load_scores("failing-mockllm-model")
    assert scores["status"].to_list() == ["ok", "malformed", "ok"]
    assert scores["correct"].to_list() == [True, False, True]
    assert scores["reason"][1] == "ValueError('refused: sent Authorization: *** to https://host/v1')"
    for path in (runs_root() / "failing-mockllm-model").iterdir():
        for secret in (b"abcdef123456", b"me:pass", b"sk-a1b2c3d4e5f6"):
            assert secret not in path.read_bytes(), path.name


def test_errors_limits_thoughts_and_attachments_are_understood(tmp_path: Path) -> None:
    base = {"id": "x", "epoch": 1, "input": "Q?", "target": ["T", "U"], "messages": [], "output": {}, "scores": {}}
    content = [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "attachment://h"}]
    said = {"choices": [{"message": {"role": "assistant", "content": content}, "stop_reason": "max_tokens"}]}
    scores = {"f1": {"value": 0.25}, "d": {"value": {"a": "P", "b": True}}}
    failed = {**base, "error": {"message": "boom"}}
    cut = {**base, "id": "y", "output": said, "attachments": {"h": "long text"}}
    late = {**base, "id": "z", "limit": {"type": "time"}, "scores": scores}
    read = InspectLog(log(tmp_path / "odd.eval", failed, cut, late, {"no": "sample"}))
    found = {s.id: s for s in read.samples()}
    assert (found["x"].status, found["x"].text, found["x"].error, found["x"].target) == ("malformed", None, "boom", "T")
    assert (found["y"].status, found["y"].text, found["y"].reasoning) == ("length", "long text", "hm")
    assert found["z"].status == "timeout"
    assert (found["z"].grade.value, found["z"].grade.correct) == (0.25, None)
    assert (found["z"].grades["d/a"].value, found["z"].grades["d/b"].correct) == (0.5, True)
    assert list(read.left_out) == ["is no sample of Inspect"]


def test_the_same_questions_asked_in_two_ways_are_not_mixed(cli, tmp_path: Path) -> None:
    """Two logs of one task and model, such as of two temperatures, are two runs."""
    said = {"choices": [{"message": {"role": "assistant", "content": "R"}, "stop_reason": "stop"}]}
    sample = {"id": "q", "epoch": 1, "input": "Q?", "target": "R", "messages": [], "output": said}
    sample["scores"] = {"match": {"value": "C"}}
    cold, warm, others = (
        log(tmp_path / f"{t}-{name}.eval", {**sample, "id": name}, model_generate_config={"temperature": t})
        for t, name in ((0.0, "q"), (1.0, "q"), (1.0, "r"))
    )
    for second in (warm, others):
        done = cli("import", "inspect", cold, second)
        assert (done.code, done.out) == (2, "")
        assert "answered before by the same model, asked in another way (temperature: 0.0 and 1.0)" in done.err
    few, many = (
        log(tmp_path / f"{n}.eval", {**sample, "id": str(n)}, model_args={"tensor_parallel_size": n}) for n in (1, 8)
    )
    passes(cli("import", "inspect", few, many, "--run", "served-otherwise"))
    again = passes(cli("import", "inspect", one("eval"), one("json")))
    assert "8 replies were replaced by a later one to the same question" in again.err


ENDED = {"filtered": ("ok", True), "limited": ("length", True), "wrong": ("timeout", False), "failed": ("ok", True)}


def test_a_reply_that_the_tool_counts_as_right_is_right_whatever_ended_it(cli, tmp_path: Path) -> None:
    said = {"message": {"role": "assistant", "content": "R"}, "stop_reason": "content_filter"}
    base = {"epoch": 1, "input": "Q?", "target": "R", "messages": [], "output": {"choices": [said]}}
    right = {"match": {"value": "C"}}
    filtered = {**base, "id": "filtered", "scores": right}
    limited = {**base, "id": "limited", "limit": {"type": "time"}, "scores": right}
    wrong = {**limited, "id": "wrong", "scores": {"match": {"value": "I"}}}
    log(tmp_path / "odd.eval", filtered, limited, wrong, {**filtered, "id": "failed", "error": {"message": "boom"}})
    done = cli("import", "inspect", tmp_path / "odd.eval")
    assert "1 reply was cut off, and the tool counts it as right" in done.err
    rows = {row["item"]: row for row in load_scores("sums-mockllm-model").to_dicts()}
    told = {name: (rows[f"sums/{name}"]["status"], rows[f"sums/{name}"]["correct"]) for name in ENDED}
    assert told == ENDED
    assert "1 reply was ended by an error, and the tool counts it as right" in done.err
    assert rows["sums/failed"]["reason"] == "boom"
    assert rows["sums/limited"]["reason"] == "timeout"
