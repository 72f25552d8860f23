"""`tomserve submit`, `status` and `cancel` where there is no cluster: parts that are worked on by hand, and mistakes."""

import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli, Endpoint
from tests.helpers.outcomes import passes, refuses, refuses_in_a_line
from tomserve.distributed.cluster import Job


@pytest.fixture
def folder(cli: Cli, endpoint: Endpoint, items_file: Path, tmp_path: Path) -> Path:
    """Two parts of twenty questions."""
    asked = ("--benchmark", "items", "--path", items_file, "--strategy", "vanilla", "--base-url", endpoint.url)
    assert cli("shard", "--run", "mine", "--parts", "2", *asked).code == 0
    return tmp_path / "runs/mine.parts"


def test_a_dry_run_shows_the_script_and_writes_nothing(cli: Cli, tmp_path: Path) -> None:
    wanted = ("--nodes", "2", "--parts", "3", "--model", "llama3-70b", "--gpus", "8xA100-80GB", "--account", "lab")
    shown = passes(cli("submit", "slurm", "mine", *wanted, "--dry-run"))
    last = shown.out.splitlines()[-1]
    assert last.startswith("sbatch --parsable --array=0-2%2 ")
    assert "--gres=gpu:4 --cpus-per-task=16 --account=lab" in last
    assert not (tmp_path / "runs").exists()


def test_without_a_cluster_parts_are_told_as_they_are(cli: Cli, folder: Path) -> None:
    shown = cli("status", "mine")
    assert (shown.code, shown.err) == (3, "")
    assert "0 of 20 requests, 0 failed; parts: 2 waiting" in shown.out
    assert cli("work", "mine", "--part", "1").code == 0
    assert "parts: 1 complete, 1 waiting" in cli("status", str(folder)).out
    assert cli("work", "mine").code == 0
    assert cli("status", "mine").code == 0


def test_a_cluster_that_cannot_be_asked_is_a_warning(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Job(cluster="slurm", id="17", time="2026-11-24T00:00:00Z", parts=(0, 1)).write(folder)
    monkeypatch.setenv("PATH", str(folder))
    shown = cli("status", "mine")
    assert (shown.code, "parts: 2 waiting" in shown.out) == (3, True)
    assert "warning: the cluster cannot be asked (squeue: not found" in shown.err
    assert cli("cancel", "mine").code == 2
    refuses(cli("submit", "slurm", "mine"), "whether job 17 still asks these parts cannot be told")


def test_a_mistake_is_told_and_nothing_handed_over(cli: Cli, folder: Path) -> None:
    for line, told in {
        "status nothing": "holds no parts (shards.json is missing)",
        "cancel mine": "nothing was submitted",
        "submit slurm mine --sbatch --wrap=id": "tomserve decides about --wrap itself",
        "submit slurm mine --template none.sh": "none.sh: cannot be read",
        "submit slurm mine --model reference": "mine.parts",
    }.items():
        refuses_in_a_line(cli(*line.split()), told)
        assert not os.path.lexists(folder / "slurm.sh"), line
        assert Job.read(folder) is None, line


RECORDS: tuple[dict[str, Any], ...] = (
    {"cluster": "slurm", "id": "1", "details": {}},
    {"cluster": "ray", "id": "x", "details": {"address": "ray://127.0.0.1:1"}},
)


def test_no_cluster_is_asked_where_somebody_else_has_written_the_record(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    programs, asked = tmp_path / "programs", tmp_path / "asked"
    programs.mkdir()
    for name in ("squeue", "sacct", "scancel"):
        (programs / name).write_text(f"#!/bin/sh\ntouch {asked}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    more: tuple[dict[str, Any], ...] = ({}, {"seal": "0" * 64}, {"ours": True})
    for number, (record, forged) in enumerate(itertools.product(RECORDS, more)):
        whole = {"schema": 1, "time": f"2026-11-24T00:00:0{number}+00:00", "parts": [0], **record}
        (folder / "job.json").write_text(json.dumps(whole | forged))
        done = cli("status", "mine")
        assert (done.code, "job.json was written by somebody else" in done.err) == (3, True)
        refuses(cli("cancel", "mine"), "--believe-job")
        assert not asked.exists()
        if record["cluster"] == "slurm":
            cli("status", "mine", "--believe-job")
            asked.unlink()
        Job.model_validate(whole).write(folder)
        assert (found := Job.read(folder)) is not None
        assert found.ours
