"""The command `causal`: what it says before, while and after it measures, and how it refuses."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.conftest import ROOT
from tests.helpers.mechanism import write_items
from tests.helpers.subjects import build
from tomserve.runs.manifest import Manifest

SHIPPED = ROOT / "launch/reference/model"
Cli = Callable[..., Any]

needs_extra = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "transformers")), reason="needs the extra `causal`"
)


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_items(tmp_path_factory.mktemp("items") / "items.jsonl", 60)


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A subject in which a map exists."""
    return build("map", tmp_path_factory.mktemp("subjects") / "map")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the model that is shipped, in a folder of the user's."""
    return Path(shutil.copytree(SHIPPED, tmp_path / "mine"))


def refused(cli: Cli, *arguments: object) -> str:
    """What the command says that refuses: one line on stderr, with exit code 2."""
    found = cli("causal", *arguments)
    assert found.code == 2, found.out + found.err
    (line,) = found.err.splitlines()
    return str(line)


def test_the_help_says_what_is_used_where_nothing_is_said(cli: Cli) -> None:
    found = cli("causal", "--help")
    assert found.code == 0
    text = " ".join(found.out.split())
    assert "causal [OPTIONS] [MODEL]" in text
    for usual in ("vanilla", "nine, from 0.0001 to 1", "5.", "50.", "generated stories", "causal-<items>-<model>"):
        assert usual in text
    assert "--no-control" not in text, "there is no option that leaves out a control"


def test_the_plan_says_what_it_takes_and_makes_nothing(cli: Cli, items: Path, tmp_path: Path) -> None:
    plan = ("causal", "--items", items, "--plan", "--device", "cpu")
    found = cli(*plan, "--layers", "4,5", "--alphas", "0.01", "--limit", "40")
    assert found.code == 0, found.err
    work, time, memory, disk = found.out.splitlines()
    assert work.startswith("40 cases x 2 orders x 2 layers x ")
    assert "billion operations a second" in time
    assert "weights 5.32 MB" in memory  # four bytes for each of its parameters: the estimate reads no weights
    assert disk.startswith("disk: states ")
    assert not (tmp_path / "runs").exists()
    assert "weights 2.66 MB" in cli(*plan, "--dtype", "bfloat16").out
    for_eight = cli(*plan, "--gpus", "8").out
    assert "on 8 GPUs, of which one computes at a time (at 300,000 billion operations a second)" in for_eight


@needs_extra
def test_a_measurement_is_made_shown_and_not_made_twice(cli: Cli, subject: Path, items: Path, tmp_path: Path) -> None:
    command = (
        "causal",
        subject,
        "--items",
        items,
        "--layers",
        "2,3",
        "--alphas",
        "0.01,0.1",
        "--run",
        "mine",
        "--device",
        "cpu",
    )
    found = cli(*command)
    assert found.code == 0, found.err
    assert "60 of 60 false-belief questions are eligible" in found.out
    assert "Does it cause the answer? A map takes the perspective and causes the answer." in found.out
    for table in ("the map beside its controls", "as its source counts", "what needs no map", "its twin, to you"):
        assert table in found.out
    page = (tmp_path / "runs/mine/report.html").read_text()
    assert "A map takes the perspective and causes the answer" in page
    manifest = Manifest.read(tmp_path / "runs/mine")
    assert manifest is not None
    (session,) = manifest.sessions
    assert session.measured_on is not None
    assert (session.measured_on["devices"], session.measured_on["dtype"]) == (["cpu"], "float32")
    assert (manifest.settings["limit"], manifest.settings["layers"]) == ("all", [2, 3])
    again = cli(*command, "--no-report")
    assert again.code == 0
    assert again.out.startswith("nothing left to measure\n")
    quiet = cli(*command[:-3], "quiet", "--device", "cpu", "--no-report", "--quiet")
    assert quiet.code == 0, quiet.err
    assert "at the edge of those tried" in quiet.err, "warnings stay"
    way = ("loading ", "states: ", "re-runs: ", "probes: ", "disk: ")
    assert not [line for line in quiet.out.splitlines() if line.startswith(way) or "questions are eligible" in line]
    assert "Does it cause the answer?" in quiet.out
    assert "run: " in quiet.out
    other = refused(cli, subject, "--items", items, "--layers", "2", "--run", "mine")
    assert "settings.layers of this run is [2,3], now it would be [2]; use --run NEW" in other


@needs_extra
def test_weights_that_are_not_there_are_refused_and_not_drawn_at_random(cli: Cli, items: Path, folder: Path) -> None:
    config = orjson.loads((folder / "config.json").read_bytes())
    (folder / "config.json").write_bytes(orjson.dumps({**config, "num_hidden_layers": 6}))
    command = (folder, "--items", items)
    assert "so that they would be random; expected *.safetensors that fit config.json" in refused(cli, *command)
    (folder / "config.json").write_bytes(orjson.dumps({**config, "hidden_size": 64}))
    assert "are not in its files, or of another shape (" in refused(cli, *command)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--layers", "99"), "layer 99 is none of this model's; it has layers 1 to 5"),
        (("--layers", "x"), "expected numbers of layers such as 1,4-6"),
        (("--alphas", "abc"), "expected numbers such as 0.001,0.01"),
        (("--alphas", "nan"), "expected numbers above 0"),
        (("--device", "tpu"), "expected cpu, cuda, cuda:N, or auto"),
        (("--dtype", "int4"), "expected float32, bfloat16, float16"),
        (("--strategy", "cot"), "its reply has to begin with the answer"),
        (("--strategy", "letters"), "use a strategy of one turn, such as vanilla"),
        (("--strategy", "nosuch"), "unknown strategy 'nosuch'"),
        (("--items", "perturbed-2"), "has no cases"),
        (("--items", "nosuch.jsonl"), "cannot be read"),
        (("--where", "nosuch=1"), "unknown factor 'nosuch'"),
        (("--revision", "abc"), "has no revisions; leave --revision out"),
        (("./nosuch",), "there is no such folder"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is_made(
    cli: Cli, items: Path, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    among = () if "--items" in arguments else ("--items", items)
    assert said in refused(cli, *arguments, *among, "--plan"), "an estimate of what cannot be is none"
    assert said in refused(cli, *arguments, *among)
    assert not (tmp_path / "runs").exists()


def test_gpus_belong_to_the_plan(cli: Cli) -> None:
    assert "--gpus belongs to --plan" in refused(cli, "--gpus", "8")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"quantization_config": {"quant_method": "gptq"}}, "its weights are quantised (gptq)"),
        ({"is_encoder_decoder": True}, "it has an encoder and a decoder"),
        ({"architectures": ["BertModel"]}, "it is no causal language model"),
    ],
)
def test_models_that_cannot_be_measured(cli: Cli, folder: Path, changed: dict[str, object], said: str) -> None:
    config = orjson.loads((folder / "config.json").read_bytes())
    (folder / "config.json").write_bytes(orjson.dumps({**config, **changed}))
    assert said in refused(cli, folder)


def test_a_model_without_a_chat_template_and_pickles(cli: Cli, folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "its weights are pickles (pytorch_model.bin)" in refused(cli, folder)
    (folder / "chat_template.jinja").unlink()
    assert "it has no chat template" in refused(cli, folder)


def test_without_torch_the_command_that_installs_it_is_said(
    cli: Cli, items: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "torch" else real(name, *more))
    assert "run `pip install 'tomserve[causal]'`" in refused(cli, "--items", items)
    assert cli("causal", "--plan", "--items", items).code == 0, "an estimate needs no torch"
