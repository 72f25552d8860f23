"""The main job through a real vLLM on the CPU: served, evaluated, killed, resumed. Two replicas serve all tests."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import polars as pl
import pytest

from tests.conftest import ROOT
from tests.helpers.command import TOMSERVE, environment, ready, tomserve
from tests.helpers.released import released
from tests.helpers.subjects import PlainBackend
from tomserve.causal.backend import Prompt
from tomserve.causal.tokens import fitting_strategy, prompt_of
from tomserve.prompting.strategy import Strategy, names
from tomserve.serving import install, reference
from tomserve.serving.ports import free_port

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(600),
    pytest.mark.skipif(install.engine() is None, reason="vLLM is not installed (`make test` installs it)"),
]


def group_of(pid: int) -> list[int]:
    """The ids of the living processes of a process group."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if fields[0] != "Z" and int(fields[2]) == pid:
            found.append(int(stat.parent.name))
    return found


def children(pid: int) -> list[int]:
    """The ids of the living children of a process."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def until(true, seconds: float = 120, every: float = 0.05) -> bool:
    deadline = time.monotonic() + seconds
    while not (result := true()) and time.monotonic() < deadline:
        time.sleep(every)
    return bool(result)


@dataclass(frozen=True)
class Serving:
    """`tomserve serve` in the background: its process, the folder of runs in which `tomserve eval` finds its servers,
    what it said, and the port of the first server."""

    process: subprocess.Popen[bytes]
    runs: Path
    log: Path
    port: int


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """`tomserve serve reference` with two replicas, of which the last test kills one.

    At the end Ctrl-C must end the servers with all their processes and remove the records.
    """
    folder = tmp_path_factory.mktemp("served")
    runs, log, port = folder / "runs", folder / "log", free_port(2)
    with log.open("w") as output:
        command = [*TOMSERVE, "serve", "reference", "--replicas", "2", "--port", str(port)]
        process = subprocess.Popen(command, env=environment(runs), stdout=output, stderr=subprocess.STDOUT)
    try:
        assert until(lambda: "Ctrl-C ends" in log.read_text() or process.poll() is not None, 400)
        assert process.poll() is None, log.read_text()[-3000:]
        assert all(ready(runs / ".servers" / f"{port + number}.json") for number in range(2))
        servers = children(process.pid)
        assert len(servers) == 2
        assert all(len(group_of(server)) > 1 for server in servers)
        yield Serving(process, runs, log, port)
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait(30)
    assert code == 130
    assert [group_of(server) for server in servers] == [[], []]
    assert not list((runs / ".servers").glob("*.json"))


@pytest.fixture
def served(serving: Serving) -> Path:
    """The folder of runs in which `tomserve eval` finds the servers."""
    return serving.runs


def journal(runs: Path, run: str) -> list[dict]:
    try:
        lines = (runs / run / "responses.jsonl").read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    return [orjson.loads(line) for line in lines]


def test_a_real_evaluation(served: Path) -> None:
    done = tomserve(served, "eval", "--limit", "30")
    assert done.returncode == 0, done.stderr
    assert "reference: accuracy, all questions" in done.stdout
    rows = journal(served, "perturbed-2-reference")
    assert len(rows) == 60
    assert {row["status"] for row in rows} == {"ok"}
    assert any(row["usage"]["cached"] > 0 for row in rows)  # the demonstration is shared
    scores = pl.read_parquet(served / "perturbed-2-reference/scores.parquet")
    assert set(scores["status"]) == {"ok"}
    assert set(scores["parse"]) == {"json"}  # the guided schema was obeyed, unknown labels and prose are impossible
    items = {
        item["id"]: item
        for item in map(orjson.loads, (served / "perturbed-2-reference/items.jsonl").read_bytes().splitlines())
    }
    for row in scores.filter(pl.col("strategy") == "cot").iter_rows(named=True):
        assert 1 <= len(row["chain"]) <= len(items[row["item"]]["story"])  # it may leave out what does not change
    manifest = orjson.loads((served / "perturbed-2-reference/manifest.json").read_bytes())
    assert manifest["revision"] == reference.revision()
    assert manifest["server"]["engine_version"].startswith("0.")
    assert manifest["server"]["max_model_len"] == 4096
    assert "--served-model-name" in manifest["server"]["command"]
    assert manifest["server"]["template"]["digest"].startswith("sha256:")
    assert manifest["server"]["unknown"] == []
    assert manifest["complete"] is True


def test_forced_choice_weighs_every_option_by_its_tokens(served: Path) -> None:
    done = tomserve(served, "eval", "--strategy", "forced_choice", "--limit", "4", "--run", "forced", "--no-report")
    assert done.returncode == 0, done.stderr
    rows = journal(served, "forced")
    scores = pl.read_parquet(served / "forced/scores.parquet")
    assert scores.height == 4
    assert set(scores["parse"]) == {"json"}
    items = {one["id"]: one for one in map(orjson.loads, (served / "forced/items.jsonl").read_bytes().splitlines())}
    assert len(rows) == sum(len(item["choices"]) for item in items.values())
    for row in rows:
        option = items[row["item"]]["choices"][row["turn"]]
        said = "".join(token for token, _ in row["tokens"])
        assert said.endswith(f"assistant\n{option}")  # the prompt ends with the option, and nothing comes after it
        assert all(value is not None and value <= 0 for _, value in row["tokens"][-2:])


def test_chains_are_edited_and_continued_at_the_very_token(served: Path) -> None:
    """A real server continues a reply, holds it to the choices, and by the whole chain comes to the answer again."""
    conditions = [f"--where={one}" for one in ("scenario=false_belief", "question_kind=belief", "perturbation=none")]
    asked = ["--benchmark", "perturbed-2", *conditions, "--strategy", "cot", "--limit", "24", "--no-report"]
    source = tomserve(served, "eval", *asked, "--run", "chains")
    assert source.returncode == 0, source.stderr
    edits = [f"--edit={one}" for one in ("last_corrupted", "truncated_0")]
    edited = ["faithfulness", "chains", "--probe", "edits", *edits, "--shown", "both", "--no-report"]
    found = tomserve(served, *edited)
    assert found.returncode == 0, found.stderr
    assert re.search(r"prompts: [\d,]+ tokens, \d+% of them from the server's cache", found.stdout)
    folder = served / "faithfulness-chains"
    (session,) = orjson.loads((folder / "manifest.json").read_bytes())["sessions"]
    assert session["measured_on"]["held_by"] == "structured_outputs"
    frame = pl.read_parquet(folder / "scores.parquet").filter(outcome="ok")
    assert set(frame["shown"]) == {"prefill", "call"}
    begun = frame.filter(shown="prefill")
    assert begun.filter(condition="full").select((pl.col("answer") == pl.col("own")).mean()).item() >= 0.9
    assert begun.filter(condition="last_corrupted").select((pl.col("answer") == pl.col("implied")).mean()).item() >= 0.7
    again = tomserve(served, *edited)
    assert "nothing left to ask" in again.stdout


def test_killed_and_resumed(served: Path) -> None:
    asked = ["eval", "--run", "killed", "--limit", "30", "--concurrency", "4", "--no-report"]
    command = [*TOMSERVE, *asked]
    process = subprocess.Popen(command, env=environment(served), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert until(lambda: len(journal(served, "killed")) >= 10 or process.poll() is not None)
    process.kill()
    process.wait()
    kept = journal(served, "killed")
    assert 10 <= len(kept) < 60
    done = tomserve(served, *asked)
    assert done.returncode == 0, done.stderr
    rows = journal(served, "killed")
    assert rows[: len(kept)] == kept
    assert len({(row["item"], row["strategy"]) for row in rows}) == len(rows) == 60
    assert f"{60 - len(kept)} of 60 questions to go" in done.stdout


@pytest.mark.parametrize("benchmark", ["perturbed", "hitom", "items"])
def test_every_strategy_that_comes_with_tomserve(served: Path, items_file: Path, benchmark: str) -> None:
    """Its answers need not be good; every conversation comes to its end, and what is bound by a schema can be read."""
    run, number = f"every-{benchmark}", 2 if benchmark == "perturbed" else 1
    files = {"hitom": ROOT / "tests/data/hitom_small.json", "items": items_file}
    given = ["--path", str(files[benchmark])] if benchmark in files else []
    others = ("paraphraser", "predictor", "reader", "rewriter", "verifier")
    strategies = [Strategy.load(name) for name in names() if name not in others]
    asked = [word for strategy in strategies for word in ("--strategy", strategy.name)]
    limits = ["--limit", str(number), "--max-tokens", "400", "--no-report"]
    done = tomserve(served, "eval", "--benchmark", benchmark, *given, *limits, *asked, "--run", run)
    assert done.returncode in (0, 1), done.stderr  # 1 where more than one reply in ten cannot be read
    rows = journal(served, run)
    assert {row["status"] for row in rows} <= {"ok", "length"}
    scores = pl.read_parquet(served / run / "scores.parquet")
    assert scores.group_by("strategy").len().sort("strategy").rows() == [(one.name, number) for one in strategies]
    assert set(scores["status"]) <= {"ok", "length", "invalid"}  # none is unfinished
    bound = {one.name for one in strategies if any(one.folder.glob("*schema.j2"))} | {"forced_choice"}
    free = [one.name for one in strategies if one.name not in bound]
    assert set(scores.filter((pl.col("status") == "ok") & ~pl.col("strategy").is_in(free))["parse"]) <= {
        "json",
        "json+letter",
    }
    for strategy in strategies:
        closed = [row["closes"] for row in rows if row["strategy"] == strategy.name and "closes" in row]
        assert len(closed) == number * strategy.several
        assert all(turns <= strategy.calls for turns in closed)
    assert orjson.loads((served / run / "manifest.json").read_bytes())["complete"] is True


def test_errors_of_a_real_server(served: Path) -> None:
    record = orjson.loads(next((served / ".servers").glob("*.json")).read_bytes())
    long = tomserve(served, "eval", "--run", "long", "--max-tokens", "3700")
    assert long.returncode == 2
    assert "exceed the context of 4096 tokens" in long.stderr
    other = tomserve(served, "eval", "--base-url", record["url"], "--model", "referense")
    assert other.returncode == 2
    assert "did you mean 'reference'? Served there: reference" in other.stderr


def test_embedded_killed_resumed_and_nothing_left(tmp_path: Path) -> None:
    """Killing tomserve in mid-run ends the embedded server; resuming starts another, finishes, and stops it."""
    runs = tmp_path / "runs"
    asked = ["eval", "--limit", "20", "--no-report"]
    command = [*TOMSERVE, *asked, "--concurrency", "2"]
    with (tmp_path / "log").open("w") as output:
        process = subprocess.Popen(command, env=environment(runs), stdout=output, stderr=subprocess.STDOUT)
    assert until(lambda: len(journal(runs, "perturbed-2-reference")) >= 5 or process.poll() is not None, 200)
    assert process.poll() is None, (tmp_path / "log").read_text()
    (server,) = children(process.pid)
    process.kill()
    process.wait()
    assert until(lambda: group_of(server) == [], 30), "the server outlived its parent"
    kept = len(journal(runs, "perturbed-2-reference"))
    done = tomserve(runs, *asked)
    assert done.returncode == 0, done.stderr
    rows = journal(runs, "perturbed-2-reference")
    assert len({(row["item"], row["strategy"]) for row in rows}) == len(rows) == 40
    assert f"{40 - kept} of 40 questions to go" in done.stdout
    again = tomserve(runs, *asked)
    assert "nothing left to ask" in again.stdout
    assert "starting" not in again.stdout


def test_the_next_token_is_the_answer_of_a_real_server(served: Path, tmp_path: Path) -> None:
    """What `tomserve causal` takes for a model's answer, the likeliest choice behind the prompt, is what it is served with."""
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    model = reference.folder()
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    vanilla = fitting_strategy("vanilla", tokenizer)
    told = [released(family, number) for family in ("contents", "transfer") for number in range(18)]
    items = [item for case in told for item in (case.f, case.own)]
    prompts = [prompt_of(item, vanilla, tokenizer) for item in items]
    asked = [(item, prompt) for item, prompt in zip(items, prompts, strict=True) if isinstance(prompt, Prompt)]
    file = tmp_path / "items.jsonl"
    plain = [item.model_copy(update={"base": None, "meanings": None}) for item, _ in asked]
    file.write_bytes(b"".join(item.to_json() + b"\n" for item in plain))
    chosen = ["--benchmark", "items", "--path", str(file), "--strategy", "vanilla", "--run", "same"]
    done = tomserve(served, "eval", *chosen, "--no-report")
    assert done.returncode == 0, done.stderr
    texts = {row["item"]: row["text"] for row in journal(served, "same")}
    answers = PlainBackend(model, batch=8).run([prompt for _, prompt in asked]).answers
    same = strict = 0
    for (item, prompt), logits, top in zip(asked, answers.logits, answers.top, strict=True):
        choice = item.choices[int(logits[: len(prompt.choices)].argmax())]
        agrees = texts[item.id].startswith(f'{{"answer":"{choice}"')
        same += agrees
        if top in prompt.choices:  # otherwise the grammar may allow a piece of a choice that no tokenizer begins with
            strict += 1
            assert agrees, (choice, texts[item.id])
    assert strict >= 40
    assert same >= 0.95 * len(asked)


def test_replicas_one_killed_in_mid_run(serving: Serving, tmp_path: Path) -> None:
    """When one of two replicas is killed in mid-run, no answer is lost, and the other goes on; it is the last test."""
    runs, log, port = serving.runs, serving.log, serving.port
    _, second = sorted(children(serving.process.pid))
    with (tmp_path / "asked").open("w") as output:
        ask = [*TOMSERVE, "eval", "--limit", "100", "--concurrency", "4", "--run", "replicas", "--no-report"]
        asking = subprocess.Popen(ask, env=environment(runs), stdout=output, stderr=subprocess.STDOUT)
    assert until(lambda: len(journal(runs, "replicas")) >= 30 or asking.poll() is not None)
    assert asking.poll() is None, (tmp_path / "asked").read_text()
    os.killpg(second, signal.SIGKILL)
    assert asking.wait(300) == 0, (tmp_path / "asked").read_text()
    rows = journal(runs, "replicas")
    final = {(row["item"], row["strategy"]): row["status"] for row in rows}
    asked = (runs / "replicas/items.jsonl").read_bytes().count(b"\n")
    assert asked > 90, "only whole stories are asked"
    assert len(final) == 2 * asked
    assert set(final.values()) == {"ok"}
    assert len({row["endpoint"] for row in rows if row["status"] == "ok"}) == 2
    said = log.read_text()
    assert f"replica at http://127.0.0.1:{port + 1}/v1: the server process ended with signal SIGKILL" in said
    assert f"replicas: {port} up, {port + 1} ended" in said
    assert [record.stem for record in (runs / ".servers").glob("*.json")] == [str(port)]
    manifest = orjson.loads((runs / "replicas/manifest.json").read_bytes())
    assert manifest["server"]["dtype"] == "float32"
    assert manifest["server"]["quantization"] == "none"
    assert manifest["server"]["unknown"] == []
