"""Our benchmarks as tasks of the real lm-evaluation-harness: what it asks, how it scores, and its files read by us.
Samples of lm-evaluation-harness: what it writes by --log_samples is read, and what we write it reads itself."""

import hashlib
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tomserve
from tests.conftest import completion, fill, running
from tests.helpers.exported import SECRETS, same_scores
from tests.helpers.foreign_files import REAL, generated, samples
from tests.helpers.harnesses import asked as asked_for
from tests.helpers.harnesses import counted, prompt_of
from tests.helpers.outcomes import passes, refuses
from tomserve import benchmarks
from tomserve.content.paths import runs_root
from tomserve.errors import ConfigError
from tomserve.interop.harness import HarnessTask
from tomserve.interop.lm_eval import FOLDER, functions
from tomserve.interop.lm_eval_files import LmEvalSamples, export_samples, sanitize_name
from tomserve.interop.scored_replies import ScoredReplies
from tomserve.prompting.strategy import Strategy
from tomserve.runs.progress import Listener
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
        whole, whole, label, f"I think that the answer is {label}.", "I would rather not say.",
        whole[: len(whole) // 2], f"<think>It could be {label}. The answer is {label}",
        f"<think>It could be something else.</think>\n{label}",
    )  # fmt: skip


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
        [sys.executable, "-m", "tomserve.interop.lm_eval"], capture_output=True, text=True, check=True
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


def test_a_document_is_asked_and_scored_as_we_do(documents: list[dict[str, Any]]) -> None:
    """Without a chat template, messages stand below each other."""
    assert "prompt" not in documents[0]
    assert "do not train" in documents[0]["canary"]
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
    from lm_eval.tasks._yaml_loader import load_yaml

    task = load_yaml(file, resolve_func=False)
    benchmark, strategy = task["metadata"]["benchmark"], task["metadata"]["strategy"]
    assert task["task"] == file.stem == f"tomserve_{benchmark.replace('-', '_')}_{strategy}"
    assert benchmark in benchmarks.names()
    loaded = Strategy.named(strategy)
    assert not loaded.is_multi_turn
    assert task["generation_kwargs"]["max_gen_toks"] == loaded.max_tokens
    assert task["generation_kwargs"]["temperature"] == 0
    assert load_yaml(file)["class"].__name__ == "TomserveTask"
    for named in ("custom_dataset", "doc_to_text", "process_results"):
        assert callable(load_yaml(file)[named])


DATE = "2026-11-01T10-00-00.123456"


@pytest.fixture
def real(tmp_path: Path) -> Path:
    """What the real lm-eval has written, of its model `dummy`, which answers at random: the tasks sums (texts, two
    filters), twice (the same, two replies a question), places (choices) and surprise (no grade)."""
    return shutil.copytree(REAL / "samples", tmp_path / "real")


def accuracies() -> dict[str, dict[str, float]]:
    (path,) = (REAL / "samples").glob("results_*.json")
    return json.loads(path.read_text())["results"]  # type: ignore[no-any-return]


def test_what_the_real_harness_wrote_has_the_accuracy_that_it_tells(real: Path, cli) -> None:
    done = cli("import", "lm-eval", real)
    assert done.code == 1
    assert (
        "  left out: 6 more replies, each of which shares the grade of another reply to the same question\n" in done.out
    )
    twice = cli("import", "lm-eval", *real.glob("samples_twice_*"), "--run", "alone")
    assert (twice.code, twice.err) == (0, ""), "nothing is wrong with it"
    told = json.loads((runs_root() / "alone/manifest.json").read_text())["foreign"]
    assert told["left_out"] == {"shares the grade of another reply": 6}
    assert "task 'surprise': no reply carries a grade that says whether it is right" in done.err
    for task, metric in (("sums", "exact_match,strict"), ("twice", "exact_match,strict"), ("places", "acc,none")):
        scores = load_scores(f"{task}-dummy")
        assert scores.height == 6
        assert scores["correct"].mean() == pytest.approx(accuracies()[task][metric])
        assert scores["graded_by"].unique().to_list() == [metric]
        assert set(scores["subject"]) == {"a", "b"}
    places = load_scores("places-dummy")
    assert set(places["answer"]) <= {"box", "bag", "jar"}
    items = runs_root() / "places-dummy/items.jsonl"
    first = json.loads(items.read_text().splitlines()[0])
    assert (first["choices"], first["answer"], first["question"]) == (["box", "bag", "jar"], "box", "Which is 0?")
    row = json.loads((runs_root() / "places-dummy/responses.jsonl").read_text().splitlines()[0])
    assert row["asked"].count("Which is") == 2, "with the demonstration that the model was shown"


def test_another_metric_and_another_filter_can_count(real: Path, cli) -> None:
    (sums,), (places,) = (list(real.glob(f"samples_{name}_*.jsonl")) for name in ("sums", "places"))
    assert cli("import", "lm-eval", sums, "--scorer", "exact_match,letters", "--run", "letters").code == 0
    letters = load_scores("letters")
    assert letters["correct"].mean() == pytest.approx(accuracies()["sums"]["exact_match,letters"])
    assert letters["answer"].unique().to_list() == ["l"], "what that filter read"
    assert cli("import", "lm-eval", places, "--scorer", "acc_norm", "--run", "norm").code == 0
    assert load_scores("norm")["correct"].mean() == pytest.approx(accuracies()["places"]["acc_norm,none"])
    refused = cli("import", "lm-eval", sums, "--scorer", "bleu")
    assert refused.code == 2
    assert "has no such grade; it has: exact_match,letters; exact_match,strict" in refused.err


def test_one_task_and_one_model_of_a_folder_can_be_taken(real: Path, cli) -> None:
    done = cli("import", "lm-eval", real, "--task", "places", "--run", "mine")
    assert (done.code, done.err) == (0, ""), "what is wrong with other tasks is none of its business"
    assert "replies of other models or tasks left out" in done.out
    refuses(cli("import", "lm-eval", real, "--model", "gpt"), "of 24 replies none is what --model gpt names")


def results(folder: Path, **more: object) -> None:
    config = {"model": "hf", "model_args": "pretrained=x,api_key=sk-1", **more}
    told = {"config": config, "model_name": "org/model", "date": 5.0}
    (folder / f"results_{DATE}.json").write_text(json.dumps(told))


def test_generated_texts_with_several_filters(cli, tmp_path: Path) -> None:
    rows = [generated(n, f"It is {n}", float(n % 2), filter="strict") for n in range(4)]
    rows += [generated(n, f"It is {n}", 1.0, filter="flexible") for n in range(4)]
    path = samples(tmp_path / f"out/samples_sums_{DATE}.jsonl", rows)
    results(tmp_path / "out")
    found = list(LmEvalSamples(path).samples())
    assert len(found) == 4
    assert (found[1].model, found[1].task, found[1].text, found[1].target) == ("org/model", "sums", "It is 1", "1")
    assert found[1].asked == "Tell me.\n\nSum 1?"
    assert found[1].grade is not None
    assert (found[1].grade.value, found[1].grade.answer) == (1.0, "1")
    assert cli("import", "lm-eval", tmp_path / "out").code == 0
    scores = load_scores("sums-org-model")
    assert scores["correct"].to_list() == [False, True, False, True]
    assert set(scores["level"]) == {"level 0", "level 1"}
    assert "sk-1" not in (tmp_path / "runs/sums-org-model/manifest.json").read_text()


def test_of_several_replies_with_one_grade_that_is_kept_which_the_filter_took(tmp_path: Path) -> None:
    texts = ["It is 4", "It is 5", "So 5"]
    rows = [
        generated(n, "-", 1.0, resps=[texts], filtered_resps=[read]) for n, read in enumerate(("4", "5", "[invalid]"))
    ]
    found = list(LmEvalSamples(samples(tmp_path / "samples_x.jsonl", rows), "m").samples())
    assert [(one.text, one.others) for one in found] == [("It is 4", 2), ("It is 5", 2), ("It is 4", 2)]
    rows += [generated(0, "-", 1.0, resps=[texts], filtered_resps=["5"], filter="most")]
    path = samples(tmp_path / "samples_x.jsonl", rows)
    first, *_ = LmEvalSamples(path, "m", "exact_match,most").samples()
    assert first.text == "It is 5", "the filter whose grade is wanted"


def test_choices_that_were_weighed(tmp_path: Path) -> None:
    weighed = [["-3.5", "False"], ["-1.25", "True"]]
    asked = {f"gen_args_{n}": {"arg_0": "Q: Tea?\nA:", "arg_1": f" {said}"} for n, said in enumerate(("no", "yes"))}
    row = {"doc_id": 3, "doc": {"query": "Tea?"}, "target": 1, "arguments": asked, "filtered_resps": weighed}
    row |= {"resps": [[one] for one in weighed], "metrics": ["acc", "acc_norm"], "acc": 1.0, "acc_norm": 0.0}
    (found,) = LmEvalSamples(samples(tmp_path / "samples_x.jsonl", [row]), "m").samples()
    assert (found.text, found.target, found.choices) == ("yes", "yes", ("no", "yes"))
    assert (found.grade.by, found.grade.value, found.grade.answer) == ("acc,none", 1.0, "yes")
    assert found.grades["acc_norm,none"].value == 0.0
    long = {f"gen_args_{n}": {"arg_0": "Q:", "arg_1": f" {said}"} for n, said in enumerate(("tea", "cold milk"))}
    row |= {"arguments": long, "resps": [[["-1.5", "False"]], [["-1.8", "False"]]], "acc_norm": 1.0}
    (found,) = LmEvalSamples(samples(tmp_path / "samples_x.jsonl", [row]), "m", "acc_norm").samples()
    assert (found.text, found.grades["acc_norm,none"].answer) == ("cold milk", "cold milk"), "by character"
    twice = {f"gen_args_{n}": {"arg_0": "Q:"[n & 2 :], "arg_1": (" no", " yes")[n % 2]} for n in range(4)}
    row |= {"arguments": twice, "resps": [*row["resps"], [["-.1", "False"]], [["-9", "False"]]]}
    row |= {"metrics": ["acc", "acc_mutual_info"], "acc_mutual_info": 1.0}
    (found,) = LmEvalSamples(samples(tmp_path / "samples_x.jsonl", [row]), "m").samples()
    assert (found.text, found.choices) == ("no", ("no", "yes")), "without the question they are weighed for themselves"
    (found,) = LmEvalSamples(samples(tmp_path / "samples_x.jsonl", [row]), "m", "acc_mutual_info").samples()
    assert found.text == "yes"


@pytest.mark.parametrize(("grade", "right"), [(0.0, ["2", "1"]), (1.0, ["1", "0"])])
def test_a_target_that_is_a_choice_may_count_the_choices(tmp_path: Path, grade: float, right: list[str]) -> None:
    asked = [["Q", f" {number}"] for number in range(3)][::-1] if grade else [["Q", f" {n}"] for n in (1, 2, 0)]
    weighed = [[["-9", "False"]] for _ in asked]
    rows = [
        {"doc_id": n, "doc": {}, "target": target, "arguments": asked, "resps": weighed, "metrics": ["acc"], "acc": 0.0}
        for n, target in enumerate(("1", "0"))
    ]
    rows[0] |= {"resps": [[["-1" if one[1] == " 1" else "-9", "False"]] for one in asked], "acc": grade}
    found = LmEvalSamples(samples(tmp_path / "samples_x.jsonl", rows), "m").samples()
    assert [one.target for one in found] == right


def test_names_of_grades_do_not_multiply(tmp_path: Path) -> None:
    """A file of some megabytes kept an import busy for hours."""
    names = [[f"{n}-{m}" for m in range(500)] for n in range(40)]
    rows = [generated(n, "4", 1.0) for n in range(3)]
    rows += [generated(n, "4", 1.0, filter="z", metrics=few, **dict.fromkeys(few, 1)) for n, few in enumerate(names)]
    found = list(LmEvalSamples(samples(tmp_path / "samples_x.jsonl", rows), "m").samples())
    assert [len(one.grades) for one in found] == [101] * 3


def test_requests_are_understood_in_every_form_that_lm_eval_has_written(tmp_path: Path) -> None:
    chat = json.dumps([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Sum 1?"}])
    forms = [
        {"gen_args_0": {"arg_0": chat, "arg_1": {}}},
        {"gen_args_0": {"arg_0": [chat], "arg_1": {}}},
        [["Be kind.\n\nSum 1?", {"until": []}]],
    ]
    rows = [generated(n, "1", 1.0, arguments=form) for n, form in enumerate(forms)]
    found = list(LmEvalSamples(samples(tmp_path / "samples_x.jsonl", rows), "m").samples())
    assert [one.asked for one in found] == ["Be kind.\n\nSum 1?"] * 3


def test_who_answered_has_to_be_known(cli, tmp_path: Path) -> None:
    path = samples(tmp_path / f"samples_sums_{DATE}.jsonl", [generated(0, "0", 1.0)])
    refuses(cli("import", "lm-eval", path), "no results_*.json beside it says who answered")
    assert cli("import", "lm-eval", path, "--model", "mine").code == 0
    assert load_scores("sums-mine")["model"].to_list() == ["mine"]


def test_lines_that_are_no_samples_are_left_out(tmp_path: Path) -> None:
    graded = generated(2, "0", 1.0, metrics=["acc"] * 1001)
    path = samples(tmp_path / "samples_x.jsonl", [generated(0, "0", 1.0), {"doc_id": 1}, graded])
    with path.open("a") as file:
        file.write('{"doc_id": 2, "doc"')
    read = LmEvalSamples(path, "m")
    assert len(list(read.samples())) == 1
    assert read.left_out == {
        "lacks doc_id, doc or resps": (1, "samples_x.jsonl, line 2"),
        "has more than 1,000 grades": (1, "samples_x.jsonl, line 3"),
        "is torn off at the end of the file": (1, "samples_x.jsonl, line 4"),
    }
    empty = samples(tmp_path / "samples_y.jsonl", [{"a": 1}])
    with pytest.raises(ConfigError, match="no line is a sample of lm-eval"):
        list(LmEvalSamples(empty, "m").samples())


OURS = {"tomserve_status", "tomserve_correct", "tomserve_unread", "tomserve_error"}
"""Fields of a sample that lm-eval does not have: how each reply ended, whether it is right, why no answer was read, why
there is none."""


def written(folder: Path, out: Path) -> tuple[list[Path], Path]:
    """The files of samples, and that of results."""
    *samples, results = export_samples(ScoredReplies(folder), out, Listener())
    return samples, results


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_samples_and_results_have_the_fields_of_lm_evals_own(runs: dict[str, Path], tmp_path: Path) -> None:
    theirs = rows(next((REAL / "samples").glob("samples_sums_*")))[0]
    (known,) = (json.loads(path.read_bytes()) for path in (REAL / "samples").glob("results_*"))
    samples, ours = written(runs["perturbed"], tmp_path)
    for path in samples:
        for row in rows(path):
            assert set(row) - OURS == set(theirs)
            for name in set(theirs) - {"doc"}:
                assert type(row[name]) is type(theirs[name]), name
            assert list(row["arguments"]) == list(theirs["arguments"])
            assert list(row["arguments"]["gen_args_0"]) == list(theirs["arguments"]["gen_args_0"])
            assert len(row["doc_hash"]) == len(theirs["doc_hash"]) == 64
            assert row["metrics"] == theirs["metrics"] == ["exact_match"]
    told = json.loads(ours.read_bytes())
    assert set(known) - set(told) == {"lm_eval_version"}
    for name in ("results", "n-shot", "n-samples"):
        assert type(next(iter(told[name].values()))) is type(next(iter(known[name].values()))), name


@pytest.mark.system
def test_lm_evals_own_functions_find_the_files(runs: dict[str, Path], tmp_path: Path) -> None:
    from lm_eval import utils

    samples, results = written(runs["perturbed"], tmp_path)
    named = [str(path) for path in (*samples, results)]
    assert utils.get_results_filenames(named) == [str(results)]
    assert utils.get_sample_results_filenames(named) == [str(path) for path in samples]
    assert [utils.get_file_task_name(path.name) for path in samples] == ["perturbed_cot", "perturbed_vanilla"]
    date = {utils.get_file_datetime(path.name) for path in samples}
    assert date == {results.stem.removeprefix("results_")}
    assert results.parent.name == utils.sanitize_model_name("tiny")
    assert sanitize_name('org/name:v1"<x>') == utils.sanitize_model_name('org/name:v1"<x>')


def test_accuracy_and_its_error_are_those_of_the_documents(runs: dict[str, Path], tmp_path: Path) -> None:
    (path,), results = written(runs["several"], tmp_path)
    found = rows(path)
    (result,) = json.loads(results.read_bytes())["results"].values()
    values = [row["exact_match"] for row in found]
    assert result["exact_match,none"] == pytest.approx(sum(values) / len(values))
    assert result["exact_match_stderr,none"] == pytest.approx(statistics.stdev(values) / math.sqrt(len(values)))
    scores = load_scores(str(runs["several"])).sort("item")
    assert [row["doc"]["id"] for row in found] == scores["item"].to_list()
    assert values == pytest.approx(scores["correct_mean"].to_list())
    assert any(0 < value < 1 for value in values)
    for row in found:
        assert len(row["resps"][0]) == len(row["filtered_resps"]) == len(row["tomserve_status"]) == 3


def test_what_is_read_back_has_the_same_scores(cli: Any, runs: dict[str, Path], tmp_path: Path) -> None:
    passes(cli("export", "lm-eval", runs["perturbed"], "--out", tmp_path / "out"))
    for number, path in enumerate(sorted((tmp_path / "out/tiny").glob("samples_*"))):
        passes(cli("import", "lm-eval", path, "--run", f"again{number}"))
        same_scores(runs["perturbed"], f"again{number}", thoughts=False)


def test_bytes_are_the_same_and_hold_no_secret(runs: dict[str, Path], tmp_path: Path) -> None:
    first, second = (written(runs["odd"], tmp_path / name) for name in ("a", "b"))
    ours = [path.read_bytes() for path in (*first[0], first[1])]
    assert ours == [path.read_bytes() for path in (*second[0], second[1])]
    text = b"".join(ours).decode()
    assert "refused by" in text
    assert not [secret for secret in SECRETS if secret in text]
