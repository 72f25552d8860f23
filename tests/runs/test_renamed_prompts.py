"""A run that was begun with prompts that have got another name since: it is told so in one line, and nothing is lost."""

import shutil
from pathlib import Path

import orjson
import pytest

from tests.conftest import ROOT, Endpoint
from tomserve.prompting.strategy import Strategy


def test_a_resumed_run_is_told_the_new_name_of_its_prompts(
    endpoint: Endpoint, cli, items_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run was begun by tomserve 0.4, with the prompts under their names of then."""
    old = tmp_path / "old"
    shutil.copytree(ROOT / "prompts/parts", old / "prompts/parts")
    shutil.copy(ROOT / "prompts/practice.yaml", old / "prompts")
    for name in ("vanilla", "cot"):
        shutil.copytree(ROOT / f"prompts/{name}_1", old / "prompts" / name)
    asking = ("eval", "--base-url", endpoint.url, "--benchmark", "items", "--path", items_file, "--run", "r")
    former, now = ("--strategy", "vanilla", "--strategy", "cot"), ("--strategy", "vanilla_1", "--strategy", "cot_1")
    assert cli(*asking, *former, "--limit", 4, "--content", old).code == 0
    begun = orjson.loads((tmp_path / "runs/r/manifest.json").read_bytes())["strategies"]
    for name in ("vanilla", "cot"):
        assert begun[name]["digest"] == Strategy.load(f"{name}_1").digest_as(name)
    before = (tmp_path / "runs/r/responses.jsonl").read_bytes()
    monkeypatch.setenv("TOMSERVE_CONTENT", "")
    done = cli(*asking, *former)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "the prompts of 'vanilla' and 'cot' have changed since this run was begun" in done.err
    assert f"ask them in a new run with {' '.join(now)} --run NEW" in done.err
    assert "STRATEGY='vanilla_1 cot_1'" in done.err
    assert (tmp_path / "runs/r/responses.jsonl").read_bytes() == before
    assert len(endpoint.requests) == 8
    assert cli(*asking, *now, "--limit", 2).code == 0, "strategies that the run has not asked yet may be added"
