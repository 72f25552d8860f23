"""Our benchmarks as tasks of the real Inspect: what it asks over HTTP, how it scores, and its log read back by us.
Logs that we write for Inspect, as the real Inspect reads them, and as `tomserve import inspect` reads them back."""

import asyncio
import importlib
import json
import math
import re
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

import tomserve
from tests.conftest import ROOT, Endpoint, fill, free, running
from tests.helpers.exported import SECRETS, same_scores
from tests.helpers.foreign_files import mapped, sheet
from tests.helpers.harnesses import asked, counted, various
from tests.helpers.outcomes import passes
from tomserve.errors import ConfigError, MachineError
from tomserve.interop.harness import HarnessTask
from tomserve.interop.inspect_export import export_log
from tomserve.interop.scored_replies import ScoredReplies
from tomserve.runs.progress import Listener
from tomserve.runs.scores import load_scores


@dataclass(frozen=True)
class Both:
    """The same questions, asked by Inspect and by `tomserve eval`. log: Inspect's. folder: our run. theirs, ours: the
    requests."""

    log: Any
    folder: Path
    theirs: list[dict[str, Any]]
    ours: list[dict[str, Any]]


def evaluated(endpoint: Endpoint, logs: Path, task: str, epochs: int = 1, most: int | None = None, **given: Any) -> Any:
    """Have Inspect ask an endpoint. most: the samples that it asks, of those of the task. given: the task's arguments."""
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
            limit=most,
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
def test_a_task_of_which_inspect_asks_a_part_is_logged_without_the_rest(endpoint: Endpoint, tmp_path: Path) -> None:
    """tests/test_docs.py has Inspect's command line find the tasks."""
    endpoint.script = free_or_various
    log = evaluated(endpoint, tmp_path / "logs", "tomserve/perturbed_2", most=5, strategy="cot")
    assert len(log.samples) == len(endpoint.requests) == 5
    assert log.eval.dataset.samples == registered()["perturbed_2"], "what the register is told"
    assert Path(log.location.removeprefix("file://")).stat().st_size < 100_000, "it holds no benchmark"


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
    (task,) = entry["tasks"]
    assert set(task) == {"name", "task_path", "dataset_samples"}
    assert ROOT / task["task_path"] == Path(inspect_task.__file__)
    assert info_of(vars(inspect_task)[task["name"]]).name == f"tomserve/{task['name']}"
    assert set(entry["source"]) == {"repository_url", "repository_commit", "maintainers", "comment"}
    every = ["all"] if task["name"] == "worlds" else []
    assert len(HarnessTask.of(task["name"].replace("_", "-"), conditions=every).items) == task["dataset_samples"]


def info_of(found: Any) -> Any:
    from inspect_ai._util.registry import registry_info

    return registry_info(found)


def test_without_inspect_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tomserve.interop.inspect_task", raising=False)
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    with pytest.raises(MachineError, match=r"^tomserve.interop.inspect_task needs inspect_ai.*'tomserve\[inspect\]'$"):
        importlib.import_module("tomserve.interop.inspect_task")


def test_nothing_else_of_tomserve_imports_inspect() -> None:
    files = (ROOT / "tomserve").rglob("*.py")
    users = {path.name for path in files if re.search(r"^\s*(from|import) inspect_ai", path.read_text("utf-8"), re.M)}
    assert users == {"inspect_task.py"}


def written(folder: Path, out: Path, strategy: str | None = None) -> Path:
    said: list[str] = []
    replies = ScoredReplies(folder, None if strategy is None else [strategy], said.append)
    path = out / f"{folder.name}_{replies.strategies[-1]}.eval"
    export_log(replies, replies.strategies[-1], path, Listener())
    assert not said
    return path


def members(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as log:
        return {name: orjson.loads(log.read(name)) for name in log.namelist()}


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
def test_grades_without_texts_vote_as_before_when_they_come_back(cli: Any, tmp_path: Path, tool: str) -> None:
    (file := tmp_path / "a.csv").write_text("id,question,correct\n1,Q1?,0\n1,Q1?,1\n2,Q2?,1\n2,Q2?,0\n")
    assert cli("import", "csv", file, "--model", "a", "--run", "theirs").code == 0
    passes(cli("export", tool, "theirs", "--out", tmp_path / "logs"))
    assert cli("import", tool, tmp_path / "logs", "--run", "again").code == 0
    for run in ("theirs", "again"):  # of right and wrong equally often the earlier one counts
        assert load_scores(run).sort("item")["correct"].to_list() == [False, True], run


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
