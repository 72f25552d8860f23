"""The main job through a real vLLM on the CPU: served, evaluated, killed, resumed. One server for the whole test run."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import polars as pl
import pytest

from tests.conftest import ROOT
from tests.helpers.command import TOMSERVE, environment, ready, tomserve
from tomserve.prompting.strategy import Strategy, names
from tomserve.serving import install, reference
from tomserve.serving.ports import free_port

pytestmark = [
    pytest.mark.serving,
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


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """`tomserve serve` in the background; yields its runs folder, in which `tomserve eval` finds it.

    At the end Ctrl-C must end the server with all its processes and remove the record.
    """
    folder = tmp_path_factory.mktemp("served")
    runs, log = folder / "runs", folder / "log"
    port = free_port()
    record = runs / ".servers" / f"{port}.json"
    with log.open("w") as output:
        command = [*TOMSERVE, "serve", "reference", "--port", str(port)]
        process = subprocess.Popen(command, env=environment(runs), stdout=output, stderr=subprocess.STDOUT)
    assert until(lambda: ready(record) or process.poll() is not None, 300), log.read_text()[-3000:]
    assert process.poll() is None, log.read_text()[-3000:]
    (server,) = children(process.pid)
    assert len(group_of(server)) > 1
    yield runs
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert group_of(server) == []
    assert not record.exists()


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
    done = tomserve(served, "eval", "--strategy", "forced_choice", "--limit", "4", "--run", "forced")
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
    command = [*TOMSERVE, "eval", "--run", "killed", "--limit", "60", "--concurrency", "4"]
    process = subprocess.Popen(command, env=environment(served), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert until(lambda: len(journal(served, "killed")) >= 20 or process.poll() is not None)
    process.kill()
    process.wait()
    kept = journal(served, "killed")
    assert 20 <= len(kept) < 120
    done = tomserve(served, "eval", "--run", "killed", "--limit", "60", "--concurrency", "4")
    assert done.returncode == 0, done.stderr
    rows = journal(served, "killed")
    assert rows[: len(kept)] == kept
    assert len({(row["item"], row["strategy"]) for row in rows}) == len(rows) == 120
    assert f"{120 - len(kept)} of 120 questions to go" in done.stdout


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
    command = [*TOMSERVE, "eval", "--limit", "40", "--concurrency", "2"]
    with (tmp_path / "log").open("w") as output:
        process = subprocess.Popen(command, env=environment(runs), stdout=output, stderr=subprocess.STDOUT)
    assert until(lambda: len(journal(runs, "perturbed-2-reference")) >= 5 or process.poll() is not None, 200)
    assert process.poll() is None, (tmp_path / "log").read_text()
    (server,) = children(process.pid)
    process.kill()
    process.wait()
    assert until(lambda: group_of(server) == [], 30), "the server outlived its parent"
    kept = len(journal(runs, "perturbed-2-reference"))
    done = tomserve(runs, "eval", "--limit", "40")
    assert done.returncode == 0, done.stderr
    rows = journal(runs, "perturbed-2-reference")
    assert len({(row["item"], row["strategy"]) for row in rows}) == len(rows) == 80
    assert f"{80 - kept} of 80 questions to go" in done.stdout
    began = time.monotonic()
    again = tomserve(runs, "eval", "--limit", "40")
    assert "nothing left to ask" in again.stdout
    assert "starting" not in again.stdout
    assert time.monotonic() - began < 20


def test_a_model_without_chat_template(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(reference.folder(), bare)
    (bare / "chat_template.jinja").unlink()
    preset = tmp_path / "bare.yaml"
    preset.write_text(
        f"schema: 1\nname: bare\nmodel: {bare}\ndevice: cpu\ndtype: float32\nweights_gb: 0.005\nmax_model_len: 2048\n"
    )
    done = tomserve(tmp_path / "runs", "serve", str(preset), "--port", str(free_port()))
    assert done.returncode == 2
    assert done.stderr.strip().splitlines()[-1].startswith("tomserve: ")
    assert "model 'bare' has no chat template; serve it with --chat-template FILE" in done.stderr


def test_replicas_one_killed_in_mid_run(tmp_path: Path) -> None:
    """When one of two replicas is killed in mid-run, no answer is lost, and Ctrl-C ends the other."""
    runs, log, port = tmp_path / "runs", tmp_path / "log", free_port(2)
    with log.open("w") as output:
        command = [*TOMSERVE, "serve", "reference", "--replicas", "2", "--port", str(port)]
        process = subprocess.Popen(command, env=environment(runs), stdout=output, stderr=subprocess.STDOUT)
    try:
        assert until(lambda: "Ctrl-C ends" in log.read_text() or process.poll() is not None, 400)
        assert process.poll() is None, log.read_text()[-3000:]
        first, second = sorted(children(process.pid))
        with (tmp_path / "asked").open("w") as output:
            ask = [*TOMSERVE, "eval", "--limit", "200", "--concurrency", "4"]
            asking = subprocess.Popen(ask, env=environment(runs), stdout=output, stderr=subprocess.STDOUT)
        assert until(lambda: len(journal(runs, "perturbed-2-reference")) >= 40 or asking.poll() is not None)
        assert asking.poll() is None, (tmp_path / "asked").read_text()
        os.killpg(second, signal.SIGKILL)
        assert asking.wait(300) == 0, (tmp_path / "asked").read_text()
        rows = journal(runs, "perturbed-2-reference")
        final = {(row["item"], row["strategy"]): row["status"] for row in rows}
        assert len(final) == 400
        assert set(final.values()) == {"ok"}
        assert len({row["endpoint"] for row in rows if row["status"] == "ok"}) == 2
        said = log.read_text()
        assert f"replica at http://127.0.0.1:{port + 1}/v1: the server process ended with signal SIGKILL" in said
        assert f"replicas: {port} up, {port + 1} ended" in said
        assert [record.stem for record in (runs / ".servers").glob("*.json")] == [str(port)]
        manifest = orjson.loads((runs / "perturbed-2-reference/manifest.json").read_bytes())
        assert manifest["server"]["dtype"] == "float32"
        assert manifest["server"]["quantization"] == "none"
        assert manifest["server"]["unknown"] == []
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    assert group_of(first) == []
