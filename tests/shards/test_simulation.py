"""Nodes that die, are preempted, run out of time, are slow or are taken for dead: nothing is lost and hardly anything
repeated."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.helpers.cluster_simulation import Cluster, Simulation, divided, merged, unsplit
from tomserve.runs.journal import identity_of, read_rows
from tomserve.runs.scores import scores_of
from tomserve.shards.state import states

QUESTIONS, PARTS = 1500, 30


def answers(folder: Path) -> dict[object, tuple[str, str, str]]:
    """What a run answers, by identity; every identity must be there once."""
    found = [
        (identity_of(row), (row["key"], row["status"], row["text"])) for _, row in read_rows(folder / "responses.jsonl")
    ]
    assert len(found) == len(dict(found))
    return dict(found)


@pytest.mark.system
def test_nothing_is_lost_or_asked_more_than_it_must_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOMSERVE_RUNS", str(tmp_path / "runs"))
    folder = tmp_path / "runs/mine.parts"
    divided(folder, QUESTIONS, PARTS)
    cluster = Cluster(
        nodes=10, concurrency=4, between=450.0, preempted=400.0, limit=250.0, back=20.0, start=10.0, seed=4
    )
    simulation = Simulation(folder, cluster, tmp_path)
    report = simulation.run()
    told = "\n".join(report.lines())
    assert report.ends["died"] >= 3, told
    assert report.ends["preempted"] >= 1, told
    assert report.ends["time limit"] >= 1, told
    assert report.ends["taken for dead"] == 2, told
    assert {one.state for one in states(folder)} == {"complete"}
    done = merged(simulation, tmp_path / "runs/mine")
    assert done.complete
    monkeypatch.setenv("TOMSERVE_RUNS", str(tmp_path / "whole"))
    unsplit(tmp_path / "whole/mine", QUESTIONS)
    assert answers(tmp_path / "runs/mine") == answers(tmp_path / "whole/mine")
    whole = scores_of(tmp_path / "whole/mine")
    monkeypatch.setenv("TOMSERVE_RUNS", str(tmp_path / "runs"))
    assert scores_of(tmp_path / "runs/mine").equals(whole)
    assert report.repeated <= 0.05, told
    assert report.makespan < 4 * report.ideal, told


def test_nodes_that_fail_lose_nothing_and_the_same_seed_gives_the_same_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOMSERVE_RUNS", str(tmp_path / "runs"))
    divided(tmp_path / "runs/a.parts", 200, 5)
    told: list[list[str]] = []
    for name in ("b", "c"):
        shutil.copytree(tmp_path / "runs/a.parts", tmp_path / f"runs/{name}.parts")
        (tmp_path / name).mkdir()
        cluster = Cluster(nodes=3, concurrency=8, between=60.0, limit=60.0, back=10.0, start=5.0, zombies=1, seed=3)
        simulation = Simulation(tmp_path / f"runs/{name}.parts", cluster, tmp_path / name)
        told.append(list(simulation.run().lines()))
        done = merged(simulation, tmp_path / f"runs/{name}")
        assert (done.complete, len(answers(tmp_path / f"runs/{name}"))) == (True, 200)
    assert told[0] == told[1]
    assert "died" in told[0][0]
