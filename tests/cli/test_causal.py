"""The command `causal`: what it says before, while and after it measures, and how it refuses."""

import importlib.util
import shutil
from pathlib import Path

import orjson
import pytest

from tests.conftest import ROOT, Cli
from tests.helpers.mechanism import write_items
from tests.helpers.outcomes import passes, refuses_in_a_line
from tests.helpers.subjects import build
from tomserve.runs.manifest import Manifest

needs_extra = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "transformers")), reason="needs the extra `causal`"
)


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_items(tmp_path_factory.mktemp("items") / "items.jsonl", 20)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ROOT / "launch/reference/model", tmp_path / "mine"))


def changed(folder: Path, **fields: object) -> None:
    config = orjson.loads((folder / "config.json").read_bytes())
    (folder / "config.json").write_bytes(orjson.dumps({**config, **fields}))


def refused(cli: Cli, *arguments: object) -> str:
    return refuses_in_a_line(cli("causal", *arguments)).err


def test_the_plan_says_what_it_takes_and_makes_nothing(cli: Cli, items: Path, tmp_path: Path) -> None:
    plan = ("causal", "--items", items, "--plan", "--device", "cpu")
    found = passes(cli(*plan, "--layers", "4,5", "--alphas", "0.01", "--limit", "10", "--all"))
    assert "10 cases x 2 orders x 2 layers x " in found.out
    assert "billion operations a second" in found.out
    assert "weights 5.3 MB" in found.out  # four bytes for each of its parameters: the estimate reads no weights
    assert "\ndisk: states " in found.out
    assert "\npower: if all 10 cases can flip, a map of gain 0.5, 1 and 2 is found in " in found.out
    assert not (tmp_path / "runs").exists()
    assert "weights 2.7 MB" in cli(*plan, "--dtype", "bfloat16").out
    for_eight = cli(*plan, "--gpus", "8", "--all").out
    assert "on 8 GPUs, of which one computes at a time" in for_eight
    assert "at 300,000 billion operations a second" in for_eight
    assert "--gpus belongs to --plan" in refused(cli, "--gpus", "8")


@needs_extra
def test_a_measurement_is_made_shown_and_not_made_twice(cli: Cli, items: Path, tmp_path: Path) -> None:
    subject = build("map", tmp_path / "map")
    command = ("causal", subject, "--items", items, "--layers", "3", "--alphas", "0.1", "--fewest", "9")
    command += ("--device", "cpu", "--run", "mine")
    found = passes(cli(*command, "--all"))
    assert "20 of 20 false-belief questions are eligible" in found.out
    assert "Does it cause the answer? Cannot be measured." in found.out
    for table in ("the map against its controls", "interventions without a map", "its twin, to you"):
        assert table in found.out
    assert "Does it cause the answer?" in (tmp_path / "runs/mine/report.html").read_text()
    manifest = Manifest.read(tmp_path / "runs/mine")
    (session,) = manifest.sessions
    assert (session.measured_on["devices"], session.measured_on["dtype"]) == (["cpu"], "float32")
    assert (manifest.settings["limit"], manifest.settings["layers"]) == ("all", [3])
    again = passes(cli(*command, "--no-report"))
    assert again.out.startswith("nothing left to measure\n")
    quiet = passes(cli(*command[:-1], "quiet", "--limit", "9", "--no-report", "--quiet"))
    way = ("loading ", "states: ", "re-runs: ", "probes: ", "disk: ")
    assert not [line for line in quiet.out.splitlines() if line.startswith(way) or "questions are eligible" in line]
    assert "Does it cause the answer?" in quiet.out
    assert "run: " in quiet.out
    other = refused(cli, subject, "--items", items, "--layers", "2", "--run", "mine")
    assert "settings.layers of this run is [3], now it would be [2]" in other
    assert "use --run NEW" in other


@needs_extra
def test_weights_that_are_not_there_are_refused_and_not_drawn_at_random(cli: Cli, items: Path, folder: Path) -> None:
    changed(folder, num_hidden_layers=6)
    said = "so that they would be random; expected *.safetensors that fit config.json"
    assert said in refused(cli, folder, "--items", items)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--strategy", "cot"), "its reply has to begin with the answer"),
        (("--items", "perturbed"), "has no cases"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is_made(
    cli: Cli, items: Path, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    among = () if "--items" in arguments else ("--items", items)
    assert said in refused(cli, *arguments, *among, "--plan"), "an estimate of what cannot be is none"
    assert said in refused(cli, *arguments, *among)
    assert not (tmp_path / "runs").exists()


def test_without_torch_the_command_that_installs_it_is_said(cli: Cli, items: Path, monkeypatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "torch" else real(name, *more))
    assert "run `pip install 'tomserve[causal]'`" in refused(cli, "--items", items)
    assert cli("causal", "--plan", "--items", items).code == 0, "an estimate needs no torch"
