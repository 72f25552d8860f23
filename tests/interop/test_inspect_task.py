"""Our benchmarks as tasks of the real Inspect: what it asks over HTTP, how it scores, and its log read back by us."""

import asyncio
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

import tomserve
from tests.conftest import ROOT, Endpoint, fill, free, running
from tests.helpers.harnesses import asked, counted, various
from tests.helpers.outcomes import passes
from tomserve.errors import ConfigError, MachineError
from tomserve.interop.harness import HarnessTask
from tomserve.runs.scores import load_scores


@dataclass(frozen=True)
class Both:
    """The same questions, asked by Inspect and by `tomserve eval`. log: Inspect's. folder: our run. theirs, ours: the
    requests."""

    log: Any
    folder: Path
    theirs: list[dict[str, Any]]
    ours: list[dict[str, Any]]


def evaluated(endpoint: Endpoint, logs: Path, task: str, epochs: int = 1, **given: Any) -> Any:
    """Have Inspect ask an endpoint; given: the arguments of the task."""
    from inspect_ai import eval as evaluate

    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TINY_API_KEY", "none")
        (log,) = evaluate(
            task,
            model="openai-api/tiny/tiny",
            model_base_url=endpoint.url,  # one of the environment would stay that of the first endpoint
            task_args=given,
            log_dir=str(logs),
            epochs=epochs,
            display="none",
            max_connections=4,
            max_retries=1,
        )
    assert log.status == "success", log.error
    return log


REGISTER = ROOT / "tomserve/interop/register"

ASKED: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("perturbed", "cot", {"limit": 24}),
    ("tomserve/interop/inspect_task.py@hitom", "tombench_vanilla", {"where": "order=1", "limit": 6}),
)


@pytest.fixture(scope="module", params=[pytest.param(number, marks=pytest.mark.system) for number in (0, 1)])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    task, strategy, given = ASKED[request.param]
    task = f"{ROOT}/{task}" if "@" in task else f"tomserve/{task}"
    name = re.split("[/@]", task)[-1]
    folder = tmp_path_factory.mktemp("both")
    with running() as endpoint:
        endpoint.script = free_or_various
        log = evaluated(endpoint, folder / "logs", task, strategy=strategy, **given)
        theirs, endpoint.requests = endpoint.requests, []
        ours = {**given, "where": given["where"].split(";")} if "where" in given else given
        run = tomserve.ask(name, strategy, base_url=endpoint.url, run=folder / "ours", **ours)
        yield Both(log, run.folder, theirs, endpoint.requests)


def free_or_various(body: dict[str, Any], number: int) -> dict[str, Any]:
    """Replies of all kinds to requests with a schema; one in words to others."""
    return various(body, number) or counted(free(body))


def test_inspect_sends_what_eval_sends(both: Both) -> None:
    """Byte for byte the same bodies, schema with its bounds and the order of its keys included."""
    assert len(both.ours) > 5
    assert asked(both.theirs) == asked(both.ours)


def test_inspect_scores_as_we_do(both: Both) -> None:
    scores = {row["item"]: row for row in load_scores(str(both.folder)).iter_rows(named=True)}
    assert {sample.id for sample in both.log.samples} == set(scores)
    for sample in both.log.samples:
        row, found = scores[sample.id], sample.scores["tomserve"]
        assert (found.value, found.answer) == ("C" if row["correct"] else "I", row["answer"]), sample.id
        kept = {name: row[name] for name in row if name.startswith("chain") or name in ("status", "parse")}
        kept["answer_matches_last"] = row["answer_matches_last"]
        assert found.metadata == {name: value for name, value in kept.items() if value is not None}, sample.id
        assert sample.metadata["cluster"] == row["cluster"]


def test_a_log_of_ours_inside_inspect_becomes_a_run_with_the_same_scores(cli: Any, both: Both) -> None:
    passes(cli("import", "inspect", both.log.location.removeprefix("file://"), "--run", "theirs"))
    ours, theirs = load_scores(str(both.folder)), load_scores("theirs")
    own = [name for name in ours.columns if name not in ("run", "model")]
    assert theirs.select(own).equals(ours.select(own)), [n for n in own if not theirs[n].equals(ours[n])]
    assert theirs["graded_correct"].equals(theirs["correct"])


def test_a_task_shows_and_scores_what_we_do() -> None:
    """Without a model: the samples, the options of a request, and the scorer."""
    from inspect_ai.model import ModelName, ModelOutput
    from inspect_ai.scorer import Target
    from inspect_ai.solver import TaskState

    from tomserve.interop import inspect_task

    task, asking = inspect_task.perturbed(strategy="cot", limit=7), HarnessTask.of("perturbed", "cot", limit=7)
    scorer = inspect_task.read_by_tomserve(name="perturbed", strategy="cot", limit=7)
    for sample, item, stop in zip(
        task.dataset, asking.items, ["stop", "max_tokens", "content_filter"] * 3, strict=False
    ):
        turn = asking.turn(item)
        assert [{"role": one.role, "content": one.text} for one in sample.input] == list(turn.messages)
        assert (sample.id, sample.target, sample.choices) == (item.id, item.answer, list(item.choices))
        assert sample.metadata["cluster"] == item.cluster
        assert {name: sample.metadata[name] for name in item.factors} == dict(item.factors)
        options = inspect_task._options(turn, "openai-api")
        assert options["max_tokens"] == turn.max_tokens
        assert options["response_schema"].json_schema.model_dump(exclude_none=True) == turn.schema
        text = fill(turn.schema) if stop == "stop" else f"<think>It might be {item.answer}"
        output = ModelOutput.from_content("m", text, stop)
        state = TaskState(ModelName("mockllm/model"), item.id, 1, sample.input, list(sample.input), output=output)
        found = asyncio.run(scorer(state, Target("")))
        status = {"stop": "ok", "max_tokens": "length", "content_filter": "refusal"}[stop]
        rows = [{"item": item.id, "strategy": "cot", "text": text, "status": status}]
        (ours,) = tomserve.score(rows, [item]).iter_rows(named=True)
        assert (found.value, found.answer) == ("C" if ours["correct"] else "I", ours["answer"])
        kept = {name: ours[name] for name in ours if name.startswith("chain") or name in ("status", "parse")}
        kept |= {"answer_matches_last": ours["answer_matches_last"]}
        assert {name: value for name, value in kept.items() if value is not None}.items() <= found.metadata.items()
        assert {"chain_lcs", "status"} <= set(found.metadata)
    state = TaskState(ModelName("mockllm/model"), "other", 1, sample.input, list(sample.input), output=output)
    with pytest.raises(ConfigError, match="sample 'other' is no question of perturbed as it is asked here"):
        asyncio.run(scorer(state, Target("")))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"benchmark": "perturbed", "strategy": "simtom"}, "takes several turns, which only `tomserve eval` asks"),
        ({"benchmark": "perturbde"}, "unknown benchmark 'perturbde'; did you mean 'perturbed'?"),
        ({"benchmark": "perturbed", "limit": 0}, "limit is 0; expected at least 1"),
        ({"benchmark": "perturbed", "conditions": ["stage=Z9"]}, "stage"),
        ({"benchmark": "perturbed", "strategy": "nothing"}, "unknown strategy 'nothing'"),
    ],
)
def test_what_cannot_be_asked_is_told_in_one_line(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        HarnessTask.of(given.pop("benchmark"), given.pop("strategy", ""), **given)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.system
def test_the_command_line_finds_tasks_by_the_entry_point(endpoint: Endpoint, tmp_path: Path) -> None:
    from inspect_ai.log import list_eval_logs, read_eval_log

    endpoint.script = free_or_various
    words = "eval tomserve/perturbed_2 -T strategy=cot --model openai-api/tiny/tiny --log-dir logs --limit 5"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("INSPECT_", "TOMSERVE_"))}
    environment = {**kept, "TINY_API_KEY": "none", "TINY_BASE_URL": endpoint.url, "COLUMNS": "200"}
    command = [Path(sys.executable).with_name("inspect"), *words.split(), "--display", "plain"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (info,) = list_eval_logs(str(tmp_path / "logs"))
    log = read_eval_log(info.name)
    assert log.status == "success"
    assert len(log.samples) == len(endpoint.requests) == 5
    assert log.eval.dataset.samples == registered()["perturbed_2"], "what the register is told"
    assert Path(info.name.removeprefix("file://")).stat().st_size < 100_000, "it holds no benchmark"


def test_conditions_with_commas_survive_inspects_lists() -> None:
    """Inspect makes a list of a value with commas, which are part of our conditions."""
    from inspect_ai._util.config import parse_cli_args

    from tomserve.interop.inspect_task import load_task

    told = parse_cli_args(("where=question_kind=belief;stage=C2,T2", "limit=8"))
    assert told == {"where": ["question_kind=belief;stage=C2", "T2"], "limit": 8}
    ours = HarnessTask.of("perturbed", "vanilla", limit=8, conditions=["question_kind=belief", "stage=C2,T2"])
    assert load_task("perturbed", "vanilla", **told).items == ours.items
    assert {item.factors["stage"] for item in ours.items} <= {"C2", "T2"}


def registered() -> dict[str, int]:
    """How many questions the entries of the register say that each task has."""
    found = {}
    for path in sorted(REGISTER.glob("*/eval.yaml")):
        (task,) = yaml.safe_load(path.read_text("utf-8"))["tasks"]
        found[task["name"]] = task["dataset_samples"]
    return found


LONG = {"perturbed_2": pytest.mark.system, "worlds": pytest.mark.long}  # their questions take long to make
ENTRIES = [
    pytest.param(
        path, id=path.parent.name, marks=[mark for name, mark in LONG.items() if path.parent.name.endswith(name)]
    )
    for path in sorted(REGISTER.glob("*/eval.yaml"))
]


@pytest.mark.parametrize("path", ENTRIES)
def test_an_entry_of_the_register_is_one_of_its_form(path: Path) -> None:
    """The fields are those of inspect_evals 0.28 (ExternalEvalMetadata, which permits no others)."""
    from tomserve.interop import inspect_task

    entry = yaml.safe_load(path.read_text("utf-8"))
    needed = {"full_title", "common_title", "description", "contributors", "tasks", "source"}
    assert needed <= set(entry) <= needed | {"paper_title", "arxiv", "tags", "metadata"}
    assert re.fullmatch("[a-z][a-z0-9_]*", path.parent.name)
    assert len(entry["description"].split()) <= 80
    assert "\n" not in entry["description"].strip()
    (task,) = entry["tasks"]
    assert set(task) == {"name", "task_path", "dataset_samples"}
    assert ROOT / task["task_path"] == Path(inspect_task.__file__)
    assert info_of(vars(inspect_task)[task["name"]]).name == f"tomserve/{task['name']}"
    source = entry["source"]
    assert set(source) == {"repository_url", "repository_commit", "maintainers", "comment"}
    assert re.fullmatch(r"https://github\.com/[\w-]+/tomserve", source["repository_url"])
    assert re.fullmatch("[0-9a-f]{40}", source["repository_commit"])
    filled = "OWNER" not in source["repository_url"]
    assert filled == ("OWNER" not in entry["contributors"]) == bool(source["repository_commit"].strip("0"))
    every = ["all"] if task["name"] == "worlds" else []
    assert len(HarnessTask.of(task["name"].replace("_", "-"), conditions=every).items) == task["dataset_samples"]


def info_of(found: Any) -> Any:
    from inspect_ai._util.registry import registry_info

    return registry_info(found)


@pytest.mark.system
def test_an_exported_run_is_no_model_that_can_be_asked(tmp_path: Path) -> None:
    from inspect_ai import eval as evaluate

    (log,) = evaluate(
        "tomserve/perturbed", model="tomserve/reference", task_args={"limit": 4}, log_dir=str(tmp_path), display="none"
    )
    assert log.status == "error"
    assert "is the model of an exported run, whose replies are in the log" in log.error.message


def test_without_inspect_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tomserve.interop.inspect_task", raising=False)
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    with pytest.raises(MachineError, match=r"^tomserve.interop.inspect_task needs inspect_ai.*'tomserve\[inspect\]'$"):
        importlib.import_module("tomserve.interop.inspect_task")


def test_nothing_else_of_tomserve_imports_inspect() -> None:
    files = (ROOT / "tomserve").rglob("*.py")
    users = {path.name for path in files if re.search(r"^\s*(from|import) inspect_ai", path.read_text("utf-8"), re.M)}
    assert users == {"inspect_task.py"}
