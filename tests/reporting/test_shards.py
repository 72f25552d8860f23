"""The table of `tomserve status` fits a terminal, whatever a cluster or a stranger's folder says."""

import io
from pathlib import Path

from tomserve.distributed.cluster import Job, Task
from tomserve.distributed.shards import PartState
from tomserve.reporting.shards import show_status
from tomserve.reporting.table_layout import Terminal

HOSTILE = "n1\x1b[2J" + "x" * 200
JOB = Job(cluster="slurm", id="17", time="2026-11-24T00:00:00Z", parts=(0, 1))


def shown(folder: Path, found: list[PartState], tasks: dict[int, Task]) -> list[str]:
    out = io.StringIO()
    show_status(folder, found, JOB, tasks, Terminal(file=out, width=80, force_terminal=True, color_system=None))
    return out.getvalue().splitlines()


def test_the_table_has_at_most_eighty_columns_and_obeys_nobody(tmp_path: Path) -> None:
    found = [
        PartState(0, "running", 1_234_567, 9_876_543, 12_345, 3.0),
        PartState(1, "complete", 10, 10, 0, None),
    ]
    lines = shown(
        tmp_path, found, {0: Task(HOSTILE, HOSTILE, 3, HOSTILE), 1: Task("COMPLETED", "gpu-node-017.cluster")}
    )
    table = lines[: next(number for number, line in enumerate(lines) if line.startswith("1,234"))]
    assert max(map(len, table)) <= 80, "\n".join(table)
    assert any("1234567/9876543" in line for line in table)
    assert any("12345" in line for line in table)
    assert not any("\x1b" in line for line in lines)
    assert any(line.startswith("1,234,577 of 9,876,553 requests, 12,345 failed; parts: 1 complete") for line in lines)


def test_of_many_parts_only_those_are_listed_that_need_a_look(tmp_path: Path) -> None:
    found = [PartState(n, "complete", 5, 5, 0, None) for n in range(500)]
    found[7] = PartState(7, "failures", 4, 5, 1, 9.0)
    lines = shown(tmp_path, found, {7: Task("FAILED", "n2", note="NonZeroExitCode")})
    assert [line[:4] for line in lines if line[:4].isdigit()] == ["0007"]
    assert "499 more parts are not listed" in lines
    assert "part 7: FAILED, NonZeroExitCode" in lines
