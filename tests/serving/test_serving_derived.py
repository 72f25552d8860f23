"""A model without a preset through a real vLLM: served from its folder, found by `tomserve eval`, its thinking kept apart."""

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.helpers import checkpoints
from tests.helpers.command import TOMSERVE, environment, ready, tomserve
from tomserve.serving import install
from tomserve.serving.ports import free_port

BUDGET = 24

pytestmark = [
    pytest.mark.serving,
    pytest.mark.timeout(900),
    pytest.mark.skipif(install.engine() is None, reason="vLLM is not installed (`make test` installs it)"),
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """A tiny random model that thinks, served from its folder with a flag of the user's; yields runs and the model."""
    folder = tmp_path_factory.mktemp("derived")
    model = checkpoints.build(checkpoints.family_of("qwen3-8b"), folder / "Tiny-Thinker")
    runs, log, port = folder / "runs", folder / "log", free_port()
    record = runs / ".servers" / f"{port}.json"
    surroundings = environment(runs) | {"CUDA_VISIBLE_DEVICES": ""}
    with log.open("w") as output:
        command = [*TOMSERVE, "serve", str(model), "--port", str(port), "--", "--max-num-seqs", "4"]
        process = subprocess.Popen(command, env=surroundings, stdout=output, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + 600
    while not ready(record) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    assert ready(record), log.read_text()[-3000:]
    yield runs, model
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130


@pytest.mark.parametrize("thinking", [str(BUDGET), "off"])
def test_eval_uses_the_preset_that_was_derived(thinking: str, served: tuple[Path, Path]) -> None:
    runs, model = served
    run = f"thinking-{thinking}"
    arguments = ["--model", str(model), "--run", run, "--limit", "4", "--thinking", thinking, "--no-report"]
    done = tomserve(runs, "eval", *arguments)
    assert done.returncode == 0, done.stderr
    rows = [orjson.loads(line) for line in (runs / run / "responses.jsonl").read_bytes().splitlines()]
    assert len(rows) == 8
    assert {row["status"] for row in rows} == {"ok"}
    assert all(bool(row["reasoning"]) == (thinking != "off") for row in rows)
    manifest = orjson.loads((runs / run / "manifest.json").read_bytes())
    assert (manifest["model"], manifest["preset"]) == ("tiny-thinker", "tiny-thinker")
    server = manifest["server"]
    assert server["preset"]["reasoning"]["parser"] == "qwen3"
    assert server["flags"]["max-num-seqs"] == "4"
    assert server["flags_changed"] == {"max-num-seqs": {"preset": "not given", "used": "4"}}
    shown = tomserve(runs, "runs", run)
    assert "--max-num-seqs 4 (not in the preset)" in shown.stdout
