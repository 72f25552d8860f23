"""Our benchmarks as tasks of the real lm-evaluation-harness: what it asks, how it scores, and its files read by us."""

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

import tomserve
from tests.conftest import completion, fill, running
from tests.helpers.foreign_files import REAL
from tests.helpers.harnesses import asked as asked_for
from tests.helpers.harnesses import counted, prompt_of
from tests.helpers.outcomes import passes
from tomserve import benchmarks
from tomserve.errors import ConfigError
from tomserve.interop.harness import HarnessTask
from tomserve.interop.lm_eval import FOLDER, functions
from tomserve.prompting.strategy import Strategy
from tomserve.runs.scores import load_scores

FILES = sorted(FOLDER.glob("*.yaml"))
TASKS = {"tomserve_perturbed_vanilla": ("perturbed", "vanilla"), "tomserve_hitom_cot": ("hitom", "cot")}
MOST = 24


def replies(body: dict[str, Any], number: int) -> dict[str, Any]:
    """Replies of all kinds, by what is asked: as JSON, as a label, in words, unreadable, cut off, in mid-thought."""
    del number
    place = hashlib.sha256(prompt_of(body).encode()).digest()[0]
    said = texts(fill(body["response_format"]["json_schema"]["schema"]))
    return counted(completion(said[place % len(said)], body["model"]))


def texts(whole: str) -> tuple[str, ...]:
    label = json.loads(whole)["answer"]
    return (
        whole,
        whole,
        label,
        f"I think that the answer is {label}.",
        "I would rather not say.",
        whole[: len(whole) // 2],
        f"<think>It could be {label}. The answer is {label}",
        f"<think>It could be something else.</think>\n{label}",
    )


@dataclass(frozen=True)
class Harness:
    """What lm-eval did. folder: of its files. requests: what it sent. rows: the samples by task. results: its file of
    results."""

    folder: Path
    requests: list[dict[str, Any]]
    rows: dict[str, list[dict[str, Any]]]
    results: dict[str, Any]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    """The real command, with the folder that the module prints."""
    folder = tmp_path_factory.mktemp("lm-eval")
    printed = subprocess.run(
        [sys.executable, "-m", "tomserve.interop.lm_eval"], capture_output=True, text=True, check=True, timeout=100
    ).stdout
    assert printed == f"{FOLDER}\n"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TOMSERVE_")}
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder / "home")}
    with running() as endpoint:
        endpoint.script = replies
        done = subprocess.run(
            [
                *(Path(sys.executable).with_name("lm_eval"), "--include_path", printed.strip()),
                *("--tasks", ",".join(TASKS), "--model", "local-chat-completions", "--apply_chat_template"),
                *("--model_args", f"model=tiny,base_url={endpoint.url}/chat/completions,num_concurrent=1"),
                *("--metadata", json.dumps({"most": MOST, "schema": True}), "--log_samples"),
                *("--output_path", str(folder / "out")),
            ],
            cwd=folder,
            env={**kept, **offline, "XDG_STATE_HOME": str(folder / "state")},
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        requests = endpoint.requests
    (results,) = (folder / "out").rglob("results_*.json")
    rows = {}
    for task in TASKS:
        (path,) = results.parent.glob(f"samples_{task}_*.jsonl")
        rows[task] = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return Harness(results.parent, requests, rows, json.loads(results.read_bytes()))


@pytest.mark.system
def test_it_sends_what_eval_sends(asked: Harness, tmp_path: Path) -> None:
    """The same messages, schema and number of tokens; seeds differ, which greedy decoding does not feel."""
    with running() as endpoint:
        endpoint.script = lambda body, number: replies(body, number) if "response_format" in body else None
        for benchmark, strategy in TASKS.values():
            tomserve.ask(benchmark, strategy, base_url=endpoint.url, limit=MOST, run=tmp_path / benchmark)
        ours = endpoint.requests
    for body in asked.requests:
        assert (body.pop("stop"), body.pop("seed")) == ([], 1234)
    for body in ours:
        assert body.pop("seed") == 0
    assert asked_for(asked.requests) == asked_for(ours)
    assert len(ours) > MOST


def ended(text: str) -> str:
    return "length" if "<think>" in text and "</think>" not in text else "ok"


@pytest.mark.system
@pytest.mark.parametrize("task", TASKS)
def test_its_samples_become_a_run_with_the_same_scores(cli: Any, asked: Harness, task: str) -> None:
    (path,) = asked.folder.glob(f"samples_{task}_*.jsonl")
    passes(cli("import", "lm-eval", path, "--run", "theirs"))
    benchmark, strategy = TASKS[task]
    scores = load_scores("theirs")
    assert scores["benchmark"].unique().to_list() == [benchmark]
    assert scores["strategy"].unique().to_list() == [strategy]
    assert scores["model"].unique().to_list() == ["tiny"]
    right = {row["doc"]["id"]: bool(row["acc"]) for row in asked.rows[task]}
    assert dict(scores.select("item", "correct").iter_rows()) == right
    assert scores["graded_correct"].equals(scores["correct"])


@pytest.mark.system
def test_its_files_have_the_fields_that_the_committed_ones_have(asked: Harness) -> None:
    """Those of tests/data/other_tools, by which our own files of this form are judged."""
    row = next(iter(asked.rows.values()))[0]
    (path,) = (REAL / "samples").glob("samples_sums_*")
    kept = json.loads(path.read_text("utf-8").splitlines()[0])
    assert {name: type(row[name]) for name in row if name not in ("acc", "read")} == {
        name: type(kept[name]) for name in kept if name != "exact_match"
    }
    (path,) = (REAL / "samples").glob("results_*")
    assert set(json.loads(path.read_text("utf-8"))) <= set(asked.results)


@pytest.mark.system
@pytest.mark.parametrize("given", [{"num_fewshot": 3}, {"system_instruction": "Be brief."}])
def test_what_has_no_place_in_a_prompt_is_refused(asked: Harness, given: dict[str, Any]) -> None:
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=str(FOLDER), include_defaults=False, metadata={"most": 4})
    task = manager.load(["tomserve_perturbed_vanilla"])["tasks"]["tomserve_perturbed_vanilla"]
    doc = asked.rows["tomserve_perturbed_vanilla"][0]["doc"]
    assert task.fewshot_context(doc) == functions.prompt(doc)
    with pytest.raises(ConfigError, match="leave --num_fewshot and --system_instruction out"):
        task.fewshot_context(doc, **given)


@pytest.fixture(scope="module")
def documents() -> list[dict[str, Any]]:
    return list(functions.questions("perturbed", "vanilla", most=MOST)["test"])


def test_documents_hold_story_factors_and_canary_but_no_prompt(documents: list[dict[str, Any]]) -> None:
    doc = documents[0]
    names = [name for name in doc if name not in functions.OWN]
    assert names == sorted(names), "the same order each time, so that hashes of documents are the same"
    assert {"stage", "scenario", "perturbation"} <= set(names)
    assert list(doc)[: len(functions.OWN)] == list(functions.OWN)
    assert "do not train" in doc["canary"]
    assert "prompt" not in doc


def test_a_document_is_asked_and_scored_as_we_do(documents: list[dict[str, Any]]) -> None:
    """Without a chat template, messages stand below each other."""
    asking = HarnessTask.of("perturbed", "vanilla", limit=MOST)
    seen = set()
    for number, (doc, item) in enumerate(zip(documents, asking.items, strict=True)):
        assert doc["id"] == item.id
        turn = asking.turn(item)
        messages = functions.messages(doc)
        assert messages == list(turn.messages)
        shown = functions.prompt(doc)
        assert shown.startswith(f"System:\n{messages[0]['content']}\n\nUser:\n{messages[1]['content']}\n\nAssistant:")
        assert shown.endswith(f"User:\n{messages[-1]['content']}\n\nAssistant:\n")
        assert functions.fields(doc, {}) == dict(turn.fields)
        form = functions.fields(doc, {"schema": True})["response_format"]
        assert form == {"type": "json_schema", "json_schema": {"name": "answer", "schema": turn.schema}}
        text = texts(fill(turn.schema))[number % 8]
        rows = [{"item": item.id, "strategy": "vanilla", "text": text, "status": ended(text)}]
        (ours,) = tomserve.score(rows, [item]).iter_rows(named=True)
        assert functions.score(doc, [text]) == {"acc": ours["correct"], "read": ours["answer"] is not None}, text
        seen.add((number % 8, ours["answer"] is not None))
    assert {number for number, read in seen if not read} == {4, 5, 6}, "thoughts that were cut off are no answer"


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_a_task_file_fits_its_benchmark_and_strategy(file: Path) -> None:
    class Loader(yaml.SafeLoader):
        pass

    Loader.add_constructor("!function", lambda loader, node: loader.construct_scalar(node))
    task = yaml.load(file.read_text("utf-8"), Loader)
    benchmark, strategy = task["metadata"]["benchmark"], task["metadata"]["strategy"]
    assert task["task"] == file.stem == f"tomserve_{benchmark.replace('-', '_')}_{strategy}"
    assert benchmark in benchmarks.names()
    loaded = Strategy.named(strategy)
    assert not loaded.is_multi_turn
    assert task["generation_kwargs"]["max_gen_toks"] == loaded.max_tokens
    assert task["generation_kwargs"]["temperature"] == 0
    assert task["class"] == "task.TomserveTask"
    for named in (task["custom_dataset"], task["doc_to_text"], task["process_results"]):
        assert callable(vars(functions)[named.removeprefix("functions.")])


def test_a_part_of_the_questions_can_be_asked_and_mixed_factors_are_texts() -> None:
    found = functions.questions("hitom", "vanilla", where="order=1; deception=true", most=6)["test"]
    assert 0 < len(found) <= 6
    assert set(found["order"]) == {1}
    assert set(found["deception"]) == {True}
    assert functions.prompt(found[0]).startswith("System:\n")
    assert functions.score(found[0], [json.dumps({"answer": found[0]["answer"]})]) == {"acc": 1.0, "read": 1.0}
