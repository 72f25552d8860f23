"""Logs that we write for Inspect, as the real Inspect reads them, and as `tomserve import inspect` reads them back."""

import json
import math
import zipfile
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.helpers.exported import SECRETS, same_scores
from tests.helpers.foreign_files import mapped, sheet
from tests.helpers.outcomes import passes
from tomserve.interop.inspect_export import export_log
from tomserve.interop.scored_replies import ScoredReplies
from tomserve.runs.progress import SilentListener
from tomserve.runs.scores import load_scores


def written(folder: Path, out: Path, strategy: str | None = None) -> Path:
    said: list[str] = []
    replies = ScoredReplies(folder, None if strategy is None else [strategy], said.append)
    path = out / f"{folder.name}_{replies.strategies[-1]}.eval"
    export_log(replies, replies.strategies[-1], path, SilentListener())
    assert not said
    return path


def members(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as log:
        return {name: orjson.loads(log.read(name)) for name in log.namelist()}


@pytest.mark.parametrize("name", ["odd", "talk"])
def test_every_function_of_inspect_reads_a_log(runs: dict[str, Path], tmp_path: Path, name: str) -> None:
    from inspect_ai import log as inspect_log

    path = written(runs[name], tmp_path)
    head = inspect_log.read_eval_log(str(path), header_only=True)
    assert (head.version, head.status, head.samples) == (2, "success", None)
    assert head.eval.model == "tomserve/tiny"
    assert head.eval.packages["tomserve"]
    whole = inspect_log.read_eval_log(str(path))
    summaries = inspect_log.read_eval_log_sample_summaries(str(path))
    assert {(one.id, one.epoch) for one in summaries} == {(one.id, one.epoch) for one in whole.samples}
    assert len({one.uuid for one in summaries}) == len(whole.samples) == whole.results.total_samples
    for one in whole.samples:
        assert inspect_log.read_eval_log_sample(str(path), id=one.id, epoch=one.epoch) == one
    last = whole.samples[-1]
    assert inspect_log.read_eval_log_sample(str(path), uuid=last.uuid) == last
    assert len(list(inspect_log.read_eval_log_samples(str(path)))) == len(whole.samples)
    (listed,) = inspect_log.list_eval_logs(str(tmp_path))
    assert listed.name.endswith(path.name)


def test_metrics_are_those_that_inspect_computes_again(runs: dict[str, Path], tmp_path: Path) -> None:
    from inspect_ai.log import read_eval_log, recompute_metrics

    def values(log: Any) -> dict[str, tuple[float, dict[str, Any]]]:
        (score,) = log.results.scores
        return {key: (metric.value, metric.params) for key, metric in score.metrics.items()}

    log = read_eval_log(str(written(runs["odd"], tmp_path)))
    ours = values(log)
    recompute_metrics(log)
    theirs = values(log)
    assert set(ours) - set(theirs) == {"ci_low", "ci_high"}
    assert set(theirs) == {"accuracy", "stderr", "stderr2"}
    for key, (value, params) in theirs.items():
        assert (ours[key][0], ours[key][1]) == (pytest.approx(value, abs=1e-12), params), key
    assert ours["stderr2"][0] > 0
    assert ours["stderr2"][0] != pytest.approx(ours["stderr"][0])


def test_the_interval_is_that_of_analyze(runs: dict[str, Path], tmp_path: Path) -> None:
    from tomserve.workflows import results

    (score,) = members(written(runs["perturbed"], tmp_path, "vanilla"))["header.json"]["results"]["scores"]
    scores = load_scores(str(runs["perturbed"]))
    (row,) = results.analyze(scores, "accuracy")["accuracy"].filter(strategy="vanilla").to_dicts()
    found = {name: one["value"] for name, one in score["metrics"].items()}
    assert (found["ci_low"], found["ci_high"]) == pytest.approx((row["ci_low"], row["ci_high"]))
    assert found["accuracy"] == pytest.approx(row["accuracy"])


def test_inspect_writes_the_log_again_without_losing_anything(runs: dict[str, Path], tmp_path: Path) -> None:
    """Every field is one that Inspect knows, of the type that it has there."""
    from inspect_ai.log import EvalLog, EvalSample, read_eval_log, write_eval_log

    assert EvalLog.model_fields["version"].default == 2
    path = written(runs["odd"], tmp_path)
    again = tmp_path / "again.json"
    write_eval_log(read_eval_log(str(path)), str(again))
    theirs = json.loads(again.read_bytes())
    ours = members(path)
    head = ours["header.json"]
    assert lost(head, theirs) == []
    samples = {(one["id"], one["epoch"]): one for one in theirs["samples"]}
    for name, one in ours.items():
        if name.startswith("samples/"):
            assert lost(one, samples[one["id"], one["epoch"]]) == []
            told = EvalSample.model_validate(one).summary().model_dump(exclude_none=True)
            (summary,) = (of for of in ours["summaries.json"] if (of["id"], of["epoch"]) == (one["id"], one["epoch"]))
            assert set(summary) - set(told) == set()
    assert ours["_journal/start.json"] == {name: head[name] for name in ("version", "eval", "plan")}


def lost(ours: Any, theirs: Any, place: str = "") -> list[str]:
    """Where Inspect has another value than we wrote, or none."""
    if isinstance(ours, dict):
        if not isinstance(theirs, dict):
            return [place]
        return [one for name in ours for one in lost(ours[name], theirs.get(name), f"{place}/{name}")]
    if isinstance(ours, list):
        if not isinstance(theirs, list) or len(theirs) != len(ours):
            return [place]
        return [one for n, value in enumerate(ours) for one in lost(value, theirs[n], f"{place}/{n}")]
    if isinstance(ours, float) or isinstance(theirs, float):
        same = isinstance(theirs, int | float) and math.isclose(ours, theirs)
        return [] if same else [f"{place}: {ours!r} became {theirs!r}"]
    return [] if ours == theirs else [f"{place}: {ours!r} became {theirs!r}"]


def test_failures_thoughts_and_ends_are_told_in_inspects_words(runs: dict[str, Path], tmp_path: Path) -> None:
    from inspect_ai.log import read_eval_log

    log = read_eval_log(str(written(runs["odd"], tmp_path)))
    by = {one.metadata["tomserve"]["status"]: one for one in log.samples}
    assert {"ok", "length", "timeout", "connection", "malformed", "http_400", "refusal"} <= set(by)
    for status, one in by.items():
        failed = status not in ("ok", "length", "refusal")
        assert (one.error is not None) == failed, status
        if status not in ("ok", "length"):
            assert (one.scores["tomserve"].value, one.scores["tomserve"].answer) == ("I", None)
    assert by["timeout"].error is not None
    assert by["timeout"].error.message == "no complete reply in 600 s"
    assert by["refusal"].output.stop_reason == "content_filter"
    assert by["length"].output.stop_reason == "max_tokens"
    failures = sum(one.error is not None for one in log.samples)
    assert log.results.completed_samples == log.results.total_samples - failures < log.results.total_samples
    unread = [one for one in log.samples if one.output.choices and one.output.stop_reason == "max_tokens"]
    assert {one.scores["tomserve"].reason for one in unread if one.scores} <= {"invalid_response_format", "no_response"}


def test_a_conversation_stands_there_message_by_message(runs: dict[str, Path], tmp_path: Path) -> None:
    from inspect_ai.log import read_eval_log

    log = read_eval_log(str(written(runs["talk"], tmp_path)))
    rows = [orjson.loads(line) for line in (runs["talk"] / "responses.jsonl").read_bytes().splitlines()]
    for sample in log.samples:
        said = [one.text for one in sample.messages if one.role == "assistant"]
        assert [row["text"] for row in rows if row["item"] == sample.id] == said
        assert sample.turn_count == len(said)
        assert sample.output.completion == said[-1]
    assert {sample.turn_count for sample in log.samples} == {1, 2}, "what is so is asked at once"


def test_the_same_run_gives_the_same_bytes_without_its_secrets(runs: dict[str, Path], tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    path = written(runs["odd"], tmp_path / "a")
    assert path.read_bytes() == written(runs["odd"], tmp_path / "b").read_bytes()
    text = json.dumps(members(path))
    assert "refused" in text
    assert not [secret for secret in SECRETS if secret in text]
    assert str(runs["odd"].parent) not in text


@pytest.mark.parametrize("name", ["perturbed", "talk"])
def test_what_is_read_back_has_the_same_scores(cli: Any, runs: dict[str, Path], tmp_path: Path, name: str) -> None:
    passes(cli("export", "inspect", runs[name], "--out", tmp_path / "logs"))
    passes(cli("import", "inspect", tmp_path / "logs", "--run", "again"))
    same_scores(runs[name], "again")


@pytest.mark.parametrize("tool", ["inspect", "lm-eval"])
def test_open_questions_of_another_tool_come_back_unchanged(cli: Any, tmp_path: Path, tool: str) -> None:
    file = sheet(tmp_path / "a.csv", "1101101011")
    assert cli("import", "csv", file, "--model", "a", *mapped(), "--run", "theirs").code == 0
    passes(cli("export", tool, "theirs", "--out", tmp_path / "logs"))
    assert cli("import", tool, tmp_path / "logs", "--run", "again").code == 0
    compared = cli("compare", "theirs", "again", "--all")
    assert (compared.code, "were not asked the same" in compared.err) == (0, False), compared.err
    ours, again = load_scores("theirs"), load_scores("again")
    kept = ["item", "correct", "answer", "status", "parse", "strategy", "cluster"]
    assert again.sort("item").select(kept).equals(ours.sort("item").select(kept))
