"""Nodes that die, are preempted, run out of time, are slow or are taken for dead: nothing is lost and hardly anything
repeated."""

import importlib
import shutil
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tomserve.distributed.shards import part_states
from tomserve.runs.journal import read_rows, row_identity
from tomserve.runs.scores import scores_of

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
    monkeypatch.setenv("TOMSERVE_RUNS", str(tmp_path / "runs"))
    monkeypatch.syspath_prepend(ROOT / "bench")
    simulated = importlib.import_module("_cluster")
    simulated.divided(tmp_path / "runs/a.parts", QUESTIONS, PARTS)
    simulated.unsplit(tmp_path / "runs/whole", QUESTIONS)
    told = []
    for name in ("b", "c"):  # the same seed gives the same failures
        shutil.copytree(tmp_path / "runs/a.parts", tmp_path / f"runs/{name}.parts")
        (tmp_path / name).mkdir()
        times = {"between": 60.0, "preempted": 200.0, "limit": 60.0, "back": 10.0, "start": 5.0}
        cluster = simulated.Cluster(nodes=3, concurrency=8, zombies=1, seed=3, **times)
        simulation = simulated.Simulation(tmp_path / f"runs/{name}.parts", cluster, tmp_path / name)
        report = simulation.run()
        told.append("\n".join(report.lines()))
        assert {"died", "preempted", "time limit", "taken for dead"} <= set(report.ends), told
        assert {one.state for one in part_states(tmp_path / f"runs/{name}.parts")} == {"complete"}
        assert simulated.merged(simulation, tmp_path / f"runs/{name}").complete
        assert answers(tmp_path / f"runs/{name}") == answers(tmp_path / "runs/whole")
        ended = report.ends["died"] + 3 * report.ends["taken for dead"]  # whose replies in flight are asked for again
        assert report.sent - report.wanted <= cluster.concurrency * ended + report.lost, told
    assert told[0] == told[1]
    assert scores_of(tmp_path / "runs/b").drop("run").equals(scores_of(tmp_path / "runs/whole").drop("run"))
