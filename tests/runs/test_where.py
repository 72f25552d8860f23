"""Conditions on what is asked: the benchmark's own, those of the user, and a run that is asked more later."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import tomserve
from tests.conftest import ROOT, Endpoint, Outcome
from tests.helpers.outcomes import passes
from tomserve import benchmarks
from tomserve.errors import ConfigError

SMALL = ROOT / "tests/data/bigtom_small.csv"
Cli = Callable[..., Outcome]


@pytest.fixture
def ask(cli: Cli, endpoint: Endpoint) -> Callable[..., Outcome]:
    given = ("--benchmark", "bigtom", "--path", SMALL, "--base-url", endpoint.url, "--strategy", "vanilla")
    return lambda *more: cli("eval", *given, "--no-report", "--run", "mine", *more)


def asked(folder: Path) -> set[str]:
    return {json.loads(line)["item"] for line in (folder / "responses.jsonl").read_text().splitlines()}


def test_a_run_may_be_asked_other_conditions_later(ask: Callable[..., Outcome], tmp_path: Path) -> None:
    first = passes(ask())
    assert "where headline=true: asks 24 of 116 questions" in first.out + first.err
    folder = tmp_path / "runs/mine"
    usual = {item.id for item in benchmarks.load("bigtom", SMALL)}
    assert asked(folder) == usual
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["benchmark_items"] == 24
    assert "where" not in manifest["sessions"][0]
    assert "--limit" not in first.err  # what a benchmark asks by default is no sample of it
    passes(ask("--where", "condition=control", "--where", "init_belief=0"))
    assert asked(folder) - usual == {f"bigtom/{number:03d}/backward_belief/control/0" for number in range(1, 5)}
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["sessions"][1]["where"] == ["condition=control", "init_belief=0"]
    assert manifest["complete"]


def test_conditions_that_nothing_meets_ask_nothing(ask: Callable[..., Outcome], tmp_path: Path) -> None:
    for condition, said in {
        "condition=no": "no item has condition=no",
        "conditon=control": "unknown factor 'conditon'",
        "control": "expected factor=value, or all",
    }.items():
        done = ask("--where", condition)
        assert done.code == 2
        assert said in done.err
        assert not (tmp_path / "runs/mine/responses.jsonl").exists()


def test_from_python(endpoint: Endpoint, tmp_path: Path) -> None:
    run = tomserve.ask(
        "bigtom", "vanilla", base_url=endpoint.url, path=SMALL, where="condition=no_event", run=tmp_path / "one"
    )
    assert run.scores()["task"].unique().to_list() == ["percept_to_belief"]
    assert len(tomserve.load("bigtom", SMALL, where=["condition=no_event"])) == 4
    assert len(tomserve.load("bigtom", SMALL, where="all")) == 116
    items = tomserve.load("bigtom", SMALL, where="init_belief=1")
    kept = tomserve.ask(items, "vanilla", base_url=endpoint.url, run=tmp_path / "two")
    assert kept.scores().height == len(items)  # items that a caller gives are what is asked
    with pytest.raises(ConfigError, match="where is 3"):
        tomserve.ask("bigtom", "vanilla", base_url=endpoint.url, path=SMALL, where=3)  # type: ignore[arg-type]
