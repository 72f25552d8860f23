"""The plan of a large evaluation: its arithmetic, what it rests on, and what it refuses.
Nodes that die, are preempted, run out of time, are slow or are taken for dead: nothing is lost and hardly anything
repeated."""

import dataclasses
import importlib
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.conftest import ROOT, make_item
from tests.helpers.outcomes import passes
from tests.helpers.talking import write_strategy
from tomserve.distributed.cost import Nodes, Workload, advise_parts, estimate_cost, measure_load
from tomserve.distributed.shards import MOST, part_states
from tomserve.errors import ConfigError
from tomserve.prompting.strategy import Strategy
from tomserve.runs.conversations import Questions
from tomserve.runs.item_store import ItemStore
from tomserve.runs.journal import read_rows, row_identity
from tomserve.runs.scores import scores_of
from tomserve.serving.presets import Preset

LOAD = Workload(10**8, prompt_tokens=600, reply_tokens=60, shared=0.5)
MEASURED = Nodes(100, "4xA100-80GB", tokens_a_second=3000, start_minutes=6, lost=0.02)


def values(load: Workload = LOAD, nodes: Nodes = MEASURED) -> dict[str, float]:
    return {one.name: one.value for one in estimate_cost(load, nodes)}


def test_the_rough_rule_says_that_it_is_one_and_what_it_multiplies() -> None:
    nodes = Nodes(100, "4xA100-80GB", preset=Preset.load("llama3-70b"))
    guess = next(one for one in estimate_cost(LOAD, nodes) if one.name == "a node")
    assert "A ROUGH GUESS" in guess.text
    assert {"--tokens-a-second", "--gpu-tflops", "--parameters"} <= set(guess.options)
    faster = dataclasses.replace(nodes, parameters=7.05, tflops=93.6)
    assert values(nodes=faster)["a node"] == pytest.approx(10 * guess.value)
    two = dataclasses.replace(nodes, gpus="8xA100-80GB")
    assert values(nodes=two)["a node"] == pytest.approx(2 * guess.value)


@pytest.mark.parametrize(
    ("nodes", "rate", "expected"),
    [
        (Nodes(100), 5.0, 1400),  # by hours: 72,000 rows a part
        (Nodes(100), 500.0, 200),  # by rows
        (Nodes(3), 1e9, 201),  # a multiple of the nodes
        (Nodes(30_000), 5.0, MOST),  # no more than there may be
        (Nodes(100, part_rows=1000), 500.0, MOST),
    ],
)
def test_parts_are_bounded_by_rows_and_hours(nodes: Nodes, rate: float, expected: int) -> None:
    assert advise_parts(10**8, nodes, rate) == expected


def test_the_load_is_measured_on_prompts(tmp_path: Path) -> None:
    items = ItemStore(make_item(number) for number in range(50))
    strategy = Strategy.load("vanilla")
    load = measure_load(Questions(items, [strategy]), 10**6)
    sizes = [sum(len(m["content"].encode()) for m in strategy.turn(item).messages) for item in items]
    assert load.requests == 10**6
    assert load.prompt_tokens == pytest.approx(sum(sizes) / 50 / 4, rel=0.01)
    assert 0.5 < load.shared < 1  # they begin with the same instruction
    assert load.reply_tokens == strategy.max_tokens / 4
    two = Strategy.load(str(write_strategy(tmp_path / "two", 2)))
    both = measure_load(Questions(items, [strategy, two]))
    assert both.requests == 50 * (1 + 2)
    assert both.reply_tokens == pytest.approx((strategy.max_tokens + 2 * two.max_tokens) / 3 / 4)


def test_a_prefix_cache_saves_nothing_of_the_time_in_which_servers_start() -> None:
    """5,000 requests a second take 5.67 hours of 400 GPUs, which without a cache would be 840 / 540 times as many."""
    (cache,) = (one.text for one in estimate_cost(LOAD, MEASURED) if one.name == "prefix cache")
    assert cache == "saves 36% of the work, 1,259 GPU hours"


@pytest.mark.parametrize(
    ("load", "nodes", "told"),
    [
        ({"requests": 0}, {}, "--requests 0: expected a number above 0"),
        ({"shared": 1.0}, {}, "--shared 1: expected a share"),
        ({}, {"lost": -0.1}, "--lost -0.1: expected a share"),
        ({}, {"part_hours": 0.0}, "--part-hours 0"),
        ({}, {"tokens_a_second": None}, "give what one node does by --tokens-a-second"),
        ({}, {"tokens_a_second": None, "gpus": "4xX1-80GB", "preset": Preset.load("llama3.1-8b")}, "--gpu-tflops"),
        ({}, {"gpus": "many"}, "how much memory has one of them"),
    ],
)
def test_what_cannot_be_is_refused(load: dict[str, Any], nodes: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told.replace("(", r"\(")):
        estimate_cost(dataclasses.replace(LOAD, **load), dataclasses.replace(MEASURED, **nodes))


GIVEN = (
    *("--requests", "100000000", "--nodes", "100", "--prompt-tokens", "600"),
    *("--reply-tokens", "60", "--shared", "0.5"),
)


def test_the_command_prints_every_figure_with_the_options_that_change_it(cli: Any) -> None:
    figures = orjson.loads(cli("plan", *GIVEN, "--tokens-a-second", "3000", "--format", "json").out)
    assert {one["name"]: one["value"] for one in figures}["a node"] == 50
    command = ("plan", *GIVEN, "--model", "llama3-70b", "--gpus", "4xA100-80GB")
    for done, behind in ((passes(cli(*command, "--all")), ": "), (passes(cli(*command)), " ")):
        assert not [one["name"] for one in figures if f"\n{one['name']}{behind}" not in f"\n{done.out}"]


QUESTIONS, PARTS = 200, 5


def answers(folder: Path) -> dict[object, tuple[str, str, str]]:
    """What a run answers, by identity; every identity must be there once."""
    found = [
        (row_identity(row), (row["key"], row["status"], row["text"]))
        for _, row in read_rows(folder / "responses.jsonl")
    ]
    assert len(found) == len(dict(found))
    return dict(found)


def test_nothing_is_lost_or_asked_more_than_it_must_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "bench")
    simulated, runs = importlib.import_module("_cluster"), tmp_path / "runs"
    simulated.divided(runs / "b.parts", QUESTIONS, PARTS)
    simulated.unsplit(runs / "whole", QUESTIONS)
    times = {"between": 60.0, "preempted": 200.0, "limit": 60.0, "back": 10.0, "start": 5.0}
    cluster = simulated.Cluster(nodes=3, concurrency=8, zombies=1, seed=3, **times)
    (tmp_path / "scratch").mkdir()
    simulation = simulated.Simulation(runs / "b.parts", cluster, tmp_path / "scratch")
    report = simulation.run()
    told = list(report.lines())
    assert {"died", "preempted", "time limit", "taken for dead"} <= set(report.ends), told
    assert {one.state for one in part_states(runs / "b.parts")} == {"complete"}
    assert simulated.merged(simulation, runs / "b").complete
    assert answers(runs / "b") == answers(runs / "whole")
    ended = report.ends["died"] + 3 * report.ends["taken for dead"]  # whose replies in flight are asked for again
    assert report.sent - report.wanted <= cluster.concurrency * ended + report.lost, told
    assert scores_of(runs / "b").drop("run").equals(scores_of(runs / "whole").drop("run"))
