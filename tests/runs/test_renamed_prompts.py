"""A run that was begun with prompts that have got another name since: it is told so in one line, and nothing is lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from tests.conftest import ROOT, Endpoint, Outcome
from tomserve.prompting.strategy import Strategy

Cli = Callable[..., Outcome]

FORMER = {"vanilla": "vanilla_1", "cot": "cot_1"}


def begun_before(endpoint: Endpoint, cli: Cli, folder: Path, items: Path, *strategies: str) -> tuple[object, ...]:
    """A run as tomserve 0.4 made it, with its prompts under their names of then; returns the command that resumes it."""
    old = folder / "old"
    shutil.copytree(ROOT / "prompts/parts", old / "prompts/parts")
    shutil.copy(ROOT / "prompts/practice.yaml", old / "prompts")
    for name in strategies:
        shutil.copytree(ROOT / "prompts" / FORMER[name], old / "prompts" / name)
    wanted = [word for name in strategies for word in ("--strategy", name)]
    asking = ("eval", "--base-url", endpoint.url, "--benchmark", "items", "--path", items, "--run", "r", *wanted)
    done = cli(*asking, "--content", old)
    assert done.code == 0, done.err
    manifest = orjson.loads((folder / "runs/r/manifest.json").read_bytes())
    assert {name: one["digest"] for name, one in manifest["strategies"].items()} == {
        name: Strategy.load(FORMER[name]).digest_as(name) for name in strategies
    }
    return asking


def test_a_resumed_run_is_told_the_new_name_of_its_prompts(
    endpoint: Endpoint,
    cli,
    items_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    strategies = ("vanilla", "cot")
    asking = begun_before(endpoint, cli, tmp_path, items_file, *strategies)
    before = (tmp_path / "runs/r/responses.jsonl").read_bytes()
    requests = len(endpoint.requests)
    monkeypatch.setenv("TOMSERVE_CONTENT", "")
    done = cli(*asking)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert f"the prompts of {' and '.join(map(repr, strategies))} have changed since this run was begun" in done.err
    wanted = " ".join(f"--strategy {FORMER[name]}" for name in strategies)
    assert f"ask them in a new run with {wanted} --run NEW" in done.err
    assert f"STRATEGY='{' '.join(FORMER[name] for name in strategies)}'" in done.err
    assert (tmp_path / "runs/r/responses.jsonl").read_bytes() == before
    assert len(endpoint.requests) == requests
    kept = cli(*asking[: -2 * len(strategies)], *wanted.split(), "--limit", 2)
    assert kept.code == 0, "strategies that the run has not asked yet may be added"
