"""A model without a preset through a real vLLM: served from its folder, found by `tomserve eval`, its thinking kept apart."""

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.helpers import checkpoints
from tests.helpers.command import ready, tomserve
from tests.helpers.forked import Forge
from tomserve.serving import install, reference
from tomserve.serving.ports import free_port

BUDGET = 24

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(900),
    pytest.mark.skipif(install.engine() is None, reason="vLLM is not installed (`make test` installs it)"),
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, forge: Forge) -> Iterator[tuple[Path, Path]]:
    """A tiny random model that thinks, served from its folder with a flag of the user's; yields runs and the model."""
    folder = tmp_path_factory.mktemp("derived")
    model = checkpoints.build(checkpoints.family_of("qwen3-8b"), folder / "Tiny-Thinker")
    runs, log, port = folder / "runs", folder / "log", free_port()
    record = runs / ".servers" / f"{port}.json"
    with log.open("w") as output:
        command = ["serve", str(model), "--port", str(port), "--", "--max-num-seqs", "4"]
        process = forge.tomserve(*command, runs=runs, stdout=output, stderr=subprocess.STDOUT)
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


def test_a_model_without_chat_template(tmp_path: Path, forge: Forge) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(reference.folder(), bare)
    (bare / "chat_template.jinja").unlink()
    preset = tmp_path / "bare.yaml"
    preset.write_text(
        f"schema: 1\nname: bare\nmodel: {bare}\ndevice: cpu\ndtype: float32\nweights_gb: 0.005\nmax_model_len: 2048\n"
    )
    code, said = forge.run(tmp_path / "runs", "serve", str(preset), "--port", str(free_port()))
    assert code == 2
    assert said.strip().splitlines()[-1].startswith("tomserve: ")
    assert "model 'bare' has no chat template; serve it with --chat-template FILE" in said
