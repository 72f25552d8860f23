"""Slurm starts the embedded model for every part: a real vLLM on each of two nodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Outcome
from tests.helpers.slurm import processes, running
from tomserve.runs.journal import read_rows
from tomserve.serving import install
from tomserve.shards.record import part_folder
from tomserve.shards.state import states

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(900),
    pytest.mark.skipif(install.engine() is None, reason="vLLM is not installed (`make test` installs it)"),
]


def test_each_task_starts_and_stops_a_server_of_its_own(
    cli: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slurm").mkdir()
    with running(tmp_path / "slurm") as slurm:
        for name, value in slurm.env.items():
            monkeypatch.setenv(name, value)
        asked = ("--model", "reference", "--benchmark", "perturbed", "--limit", "24", "--strategy", "vanilla")
        done = cli("submit", "slurm", "mine", "--nodes", "2", "--sbatch", "--exclusive", *asked)
        assert done.code == 0, done.err
        folder = tmp_path / "runs/mine.parts"
        slurm.until(slurm.empty, 600)
        logs = "\n".join(path.read_text() for path in sorted((folder / "slurm").glob("*.txt")))
        assert [part.state for part in states(folder)] == ["complete"] * 2, logs
        assert {(folder / f"slurm/{part:04}.starts").read_text().split()[2] for part in range(2)} == {"n1", "n2"}
        assert not [pid for pid in processes(slurm.env["SLURM_CONF"]) if _serves(pid)], "a server is still there"
    merged = cli("merge", "mine")
    assert merged.code == 0, merged.err
    parts = [row for n in range(2) for _, row in read_rows(part_folder(folder, n) / "responses.jsonl")]
    whole = [row for _, row in read_rows(tmp_path / "runs/mine/responses.jsonl")]
    assert sorted(row["key"] for row in parts) == sorted(row["key"] for row in whole)
    assert len(whole) == len({row["item"] for row in whole}) == len(parts)


def _serves(pid: int) -> bool:
    """Whether a process is a server of vLLM."""
    try:
        return b"serve" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
