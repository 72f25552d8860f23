"""A run that was begun with prompts that have got another name since: it is told so in one line, and nothing is lost."""

import shutil
from pathlib import Path

import orjson
import pytest

from tests.conftest import ROOT, Endpoint
from tests.helpers.outcomes import refuses
from tomserve.prompting.strategy import Strategy


def test_a_resumed_run_is_told_new_names_of_prompts(endpoint: Endpoint, cli, items_file: Path, tmp_path: Path) -> None:
    """The run was begun by tomserve 0.4, with the prompts under their names of then."""
    old, names = tmp_path / "old", ("vanilla", "cot")
    shutil.copytree(ROOT / "prompts/parts", old / "prompts/parts")
    shutil.copy(ROOT / "prompts/practice.yaml", old / "prompts")
    for name in names:
        shutil.copytree(ROOT / f"prompts/{name}_1", old / "prompts" / name)
    asking = ("eval", "--base-url", endpoint.url, "--benchmark", "items", "--path", items_file, "--run", "r")
    former, now = ("--strategy", "vanilla", "--strategy", "cot"), ("--strategy", "vanilla_1", "--strategy", "cot_1")
    with pytest.MonkeyPatch.context() as then:
        then.setenv("TOMSERVE_CONTENT", "")
        assert cli(*asking, *former, "--limit", 4, "--content", old).code == 0
    begun = orjson.loads((tmp_path / "runs/r/manifest.json").read_bytes())["strategies"]
    assert [begun[name]["digest"] for name in names] == [Strategy.load(f"{one}_1").digest_as(one) for one in names]
    before = (tmp_path / "runs/r/responses.jsonl").read_bytes()
    said = f"ask them in a new run with {' '.join(now)} --run NEW"
    refuses(cli(*asking, *former), "the prompts of 'vanilla' and 'cot' have changed since this run was begun", said)
    assert (tmp_path / "runs/r/responses.jsonl").read_bytes() == before
    assert cli(*asking, *now, "--limit", 2).code == 0, "strategies that the run has not asked yet may be added"
