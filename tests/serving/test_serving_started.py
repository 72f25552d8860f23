"""`tomserve functional` starts a real vLLM of a model's folder, keeps it for all benchmarks, and measures its weights."""

import shutil
from itertools import islice
from pathlib import Path

import orjson
import pytest

from tests.helpers.command import tomserve
from tests.helpers.forked import Forge
from tomserve.benchmarks.worlds.benchmark import load
from tomserve.serving import install, reference

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(900),
    pytest.mark.skipif(install.engine() is None, reason="vLLM is not installed (`make test` installs it)"),
]


def test_a_folder_without_a_server_is_served_while_it_is_asked_and_then_measured(tmp_path: Path, forge: Forge) -> None:
    pytest.importorskip("torch")
    runs, model, worlds = tmp_path / "runs", tmp_path / "My-Model", tmp_path / "worlds.jsonl"
    shutil.copytree(reference.folder(), model)
    worlds.write_bytes(b"".join(item.to_json() + b"\n" for item in islice(load(), 240)))
    command = ["functional", "--model", str(model), "--benchmark", f"worlds={worlds}", "--benchmark", "perturbed"]
    command += ["--limit", "2", "--run", "all", "--no-report", "--layers", "5", "--alphas", "0.1", "--fewest", "2"]
    plan = tomserve(runs, *command, "--plan")
    assert plan.returncode == 0, plan.stderr
    assert f"asked: my-model, at a server of {model}, which is started" in " ".join(plan.stdout.split())
    assert not (runs / "all").exists()
    code, said = forge.run(runs, *command)
    assert code == 0, said
    assert said.count("starting a server") == 1, "one server answers both benchmarks"
    for part in ("worlds", "perturbed"):
        manifest = orjson.loads((runs / "all" / part / "manifest.json").read_bytes())
        assert (manifest["model"], manifest["complete"]) == ("my-model", True)
        assert manifest["server"]["command"][3:5] == ["serve", str(model)]
    assert orjson.loads((runs / "all/inside/manifest.json").read_bytes())["complete"] is True
    again = tomserve(runs, *command)
    assert again.returncode == 0, again.stderr
    assert "starting" not in again.stdout, "what is done needs no server"
