"""Files that we write as lm-evaluation-harness does: the same fields as its own, read by its functions and by us."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.conftest import ROOT, running
from tests.helpers.exported import ODD, SECRETS, answered, break_rows, odd_items, same_scores
from tests.helpers.foreign_files import mapped, sheet
from tomserve.errors import ConfigError
from tomserve.interop.answered import Replies
from tomserve.interop.lm_eval import FOLDER, functions
from tomserve.interop.lm_eval_export import export, sanitized
from tomserve.runs.listening import Silent
from tomserve.runs.scores import load_scores

EXAMPLE = ROOT / "runs/example"

OURS = {"tomserve_status", "tomserve_correct", "tomserve_error"}
"""Fields of a sample that lm-eval does not have: how each reply ended, whether it is right, why there is none."""

OF_A_MACHINE = {
    *("pretty_env_info", "transformers_version", "lm_eval_version", "upper_git_hash", "eot_token_id"),
    *("tokenizer_pad_token", "tokenizer_eos_token", "tokenizer_bos_token", "max_length"),
    *("system_instruction", "system_instruction_sha", "fewshot_as_multiturn", "chat_template", "chat_template_sha"),
    *("start_time", "end_time", "total_evaluation_time_seconds"),
}
"""Fields of lm-eval's results that tell of a machine, a tokenizer or a moment, which a run of ours has not."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patched, running() as endpoint:
        patched.setenv("TOMSERVE_RUNS", str(folder))
        patched.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        odd = answered(folder / "odd", endpoint, odd_items(), ["vanilla"], repeats=3, temperature=0.5)
        perturbed = answered(folder / "perturbed", endpoint, "perturbed", limit=16)
        several = answered(folder / "several", endpoint, "perturbed", ["vanilla"], limit=8, repeats=3, temperature=0.5)
        yield {"odd": break_rows(odd, 4), "perturbed": break_rows(perturbed), "several": break_rows(several)}


def written(folder: Path, out: Path) -> tuple[list[Path], Path]:
    """The files of samples, and that of results."""
    *samples, results = export(Replies(folder), out, Silent())
    return samples, results


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    """A sample and the results that the real lm-eval writes of a model that makes replies up."""
    from lm_eval import evaluator
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    out = tmp_path_factory.mktemp("real")
    tracker = EvaluationTracker(output_path=str(out))
    task = "tomserve_perturbed_vanilla"
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HF_HUB_OFFLINE", "1")
        found = evaluator.simple_evaluate(
            model="dummy",
            tasks=[task],
            limit=3,
            log_samples=True,
            task_manager=TaskManager(include_path=str(FOLDER), include_defaults=False),
            evaluation_tracker=tracker,
            bootstrap_iters=0,
        )
    samples = found.pop("samples")
    tracker.save_results_aggregated(results=found, samples=samples)
    tracker.save_results_samples(task_name=task, samples=samples[task])
    (results,) = out.rglob("results_*.json")
    (sampled,) = out.rglob("samples_*.jsonl")
    return rows(sampled)[0], json.loads(results.read_bytes())


def test_samples_and_results_have_the_fields_of_lm_evals_own(
    real: tuple[dict[str, Any], dict[str, Any]], runs: dict[str, Path], tmp_path: Path
) -> None:
    theirs, results = real
    samples, ours = written(runs["perturbed"], tmp_path)
    metrics = {"acc", "read"}
    for path in samples:
        for row in rows(path):
            assert set(row) - OURS - {"exact_match"} == set(theirs) - metrics
            for name in set(theirs) - metrics - {"doc"}:
                assert type(row[name]) is type(theirs[name]), name
            assert list(row["arguments"]) == list(theirs["arguments"])
            assert list(row["arguments"]["gen_args_0"]) == list(theirs["arguments"]["gen_args_0"])
            assert len(row["doc_hash"]) == len(theirs["doc_hash"]) == 64
            assert row["metrics"] == ["exact_match"]
    told = json.loads(ours.read_bytes())
    assert set(results) - set(told) - OF_A_MACHINE == set()
    assert set(told) <= set(results)
    for name, (of_ours, of_theirs) in {
        name: (told[name], results[name]) for name in ("results", "versions", "n-shot", "n-samples", "configs")
    }.items():
        assert type(next(iter(of_ours.values()))) is type(next(iter(of_theirs.values()))), name
    known = next(iter(results["configs"].values()))
    assert all(set(config) <= set(known) for config in told["configs"].values())


def test_without_a_chat_template_messages_stand_below_each_other(real: tuple[dict[str, Any], dict[str, Any]]) -> None:
    sample, _ = real
    asked = sample["arguments"]["gen_args_0"]
    messages = functions.messages(sample["doc"])
    assert asked["arg_0"] == functions.prompt(sample["doc"])
    assert asked["arg_0"].startswith(
        f"System:\n{messages[0]['content']}\n\nUser:\n{messages[1]['content']}\n\nAssistant:"
    )
    assert asked["arg_0"].endswith(f"User:\n{messages[-1]['content']}\n\nAssistant:\n")
    assert "response_format" not in asked["arg_1"]


@pytest.mark.parametrize("given", [{"num_fewshot": 3}, {"system_instruction": "Be brief."}])
def test_what_has_no_place_in_a_prompt_is_refused(
    real: tuple[dict[str, Any], dict[str, Any]], given: dict[str, Any]
) -> None:
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=str(FOLDER), include_defaults=False, metadata={"most": 4})
    task = manager.load(["tomserve_perturbed_vanilla"])["tasks"]["tomserve_perturbed_vanilla"]
    assert task.fewshot_context(real[0]["doc"]) == functions.prompt(real[0]["doc"])
    with pytest.raises(ConfigError, match="leave --num_fewshot and --system_instruction out"):
        task.fewshot_context(real[0]["doc"], **given)


def test_lm_evals_own_functions_find_the_files(runs: dict[str, Path], tmp_path: Path) -> None:
    from lm_eval import utils

    samples, results = written(runs["perturbed"], tmp_path)
    named = [str(path) for path in (*samples, results)]
    assert utils.get_results_filenames(named) == [str(results)]
    assert utils.get_sample_results_filenames(named) == [str(path) for path in samples]
    tasks = list(json.loads(results.read_bytes())["results"])
    assert [utils.get_file_task_name(path.name) for path in samples] == tasks
    assert tasks == ["perturbed_cot", "perturbed_vanilla"]
    date = {utils.get_file_datetime(path.name) for path in samples}
    assert date == {results.stem.removeprefix("results_")}
    assert results.parent.name == utils.sanitize_model_name("tiny")
    assert sanitized('org/name:v1"<x>') == utils.sanitize_model_name('org/name:v1"<x>')


def test_accuracy_and_its_error_are_those_of_the_documents(runs: dict[str, Path], tmp_path: Path) -> None:
    from lm_eval.api.metrics import mean_stderr

    (path,), results = written(runs["several"], tmp_path)
    found = rows(path)
    (result,) = json.loads(results.read_bytes())["results"].values()
    values = [row["exact_match"] for row in found]
    assert result["exact_match,none"] == pytest.approx(sum(values) / len(values))
    assert result["exact_match_stderr,none"] == pytest.approx(mean_stderr(values))
    scores = load_scores(str(runs["several"])).sort("item")
    assert [row["doc"]["id"] for row in found] == scores["item"].to_list()
    assert values == pytest.approx(scores["correct_mean"].to_list())
    assert any(0 < value < 1 for value in values)
    for row in found:
        assert len(row["resps"][0]) == len(row["filtered_resps"]) == len(row["tomserve_status"]) == 3


@pytest.mark.parametrize("name", ["perturbed", "several"])
def test_what_is_read_back_has_the_same_scores(cli: Any, runs: dict[str, Path], tmp_path: Path, name: str) -> None:
    done = cli("export", "lm-eval", runs[name], "--out", tmp_path / "out")
    assert done.code == 0, done.err
    samples = sorted((tmp_path / "out/tiny").glob("samples_*"))
    joined = []
    for number, path in enumerate(samples):
        brought = cli("import", "lm-eval", path, "--run", f"again{number}")
        assert brought.code == 0, brought.err
        joined.append(f"again{number}")
    for run in joined:
        same_scores(runs[name], run)


def test_the_example_is_read_back_the_same(cli: Any, tmp_path: Path) -> None:
    done = cli("export", "lm-eval", EXAMPLE, "--out", tmp_path / "out", "--strategy", "cot")
    assert done.code == 0, done.err
    (path,) = (tmp_path / "out/reference").glob("samples_*")
    assert cli("import", "lm-eval", path, "--run", "again").code == 0
    same_scores(EXAMPLE, "again")


def test_odd_ids_thoughts_and_failures_come_through(runs: dict[str, Path], tmp_path: Path) -> None:
    (path,), _ = written(runs["odd"], tmp_path)
    found = rows(path)
    assert {row["doc"]["id"] for row in found} == set(ODD) | {one.id for one in odd_items()} - set(ODD)
    statuses = {status for row in found for status in row["tomserve_status"]}
    assert {"ok", "length", "timeout", "connection", "refusal"} <= statuses
    for row in found:
        for status, right, text, read in zip(
            row["tomserve_status"], row["tomserve_correct"], row["resps"][0], row["filtered_resps"], strict=True
        ):
            if status not in ("ok", "length"):
                assert (right, text, read) == (False, "", "")
            elif status == "length" and not text:
                assert (right, read) == (False, ""), "thoughts that were cut off are no answer"


def test_open_questions_of_another_tool_come_through(cli: Any, tmp_path: Path) -> None:
    file = sheet(tmp_path / "a.csv", "1101101011")
    assert cli("import", "csv", file, "--model", "a", *mapped(), "--run", "theirs").code == 0
    assert cli("export", "lm-eval", "theirs", "--out", tmp_path / "out").code == 0
    (path,) = (tmp_path / "out/a").glob("samples_*")
    assert cli("import", "lm-eval", path, "--run", "again").code == 0
    kept = ["correct", "answer", "status", "parse", "strategy", "cluster"]
    ours, again = (load_scores(name).sort("item").select(kept) for name in ("theirs", "again"))
    assert again.equals(ours)


def test_bytes_are_the_same_and_hold_no_secret(runs: dict[str, Path], tmp_path: Path) -> None:
    first, second = (written(runs["odd"], tmp_path / name) for name in ("a", "b"))
    ours = [path.read_bytes() for path in (*first[0], first[1])]
    assert ours == [path.read_bytes() for path in (*second[0], second[1])]
    text = b"".join(ours).decode()
    assert "refused by" in text
    assert not [secret for secret in SECRETS if secret in text]


def test_two_strategies_of_one_name_in_these_letters_are_two_tasks(runs: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "renamed"
    folder.mkdir()
    for name in ("manifest.json", "responses.jsonl", "items.jsonl"):
        text = (runs["perturbed"] / name).read_text("utf-8")
        text = text.replace('"strategy":"vanilla"', '"strategy":"a b"').replace('"strategy":"cot"', '"strategy":"a_b"')
        (folder / name).write_text(text.replace('"vanilla":{', '"a b":{').replace('"cot":{', '"a_b":{'))
    samples, results = written(folder, tmp_path / "out")
    assert list(json.loads(results.read_bytes())["results"]) == ["perturbed_a_b", "perturbed_a_b_2"]
    assert len({path.name for path in samples}) == 2
    assert pl.concat([pl.read_ndjson(path) for path in samples], how="diagonal_relaxed").height == 32
