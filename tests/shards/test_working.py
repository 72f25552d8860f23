"""Parts that are asked one by one make what one run would have asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conftest import Endpoint
from tomserve.runs.journal import read_rows
from tomserve.runs.manifest import Manifest
from tomserve.shards.record import Shards, part_folder
from tomserve.shards.state import states

Cli = Callable[..., Any]


def keyed(folder: Path) -> dict[tuple[str, str, int, int], tuple[str, str]]:
    """What each row of a run answers, with its key and its text."""
    rows = (row for _, row in read_rows(folder / "responses.jsonl"))
    return {
        (row["item"], row["strategy"], row["turn"], row.get("sample") or 0): (row["key"], row["text"]) for row in rows
    }


def test_the_parts_together_ask_what_one_run_asks(cli: Cli, endpoint: Endpoint, tmp_path: Path) -> None:
    asked = ("--benchmark", "perturbed", "--limit", "24", "--base-url", endpoint.url, "--variants", "person")
    assert cli("eval", "--run", "whole", *asked).code == 0
    divided = cli("shard", "--run", "mine", "--parts", "3", *asked)
    assert divided.code == 0, divided.err
    folder = tmp_path / "runs/mine.parts"
    assert [state.state for state in states(folder)] == ["waiting"] * 3
    done = cli("work", "mine", "--part", "1", "--concurrency", "4")
    assert done.code == 0, done.err
    assert [state.state for state in states(folder)] == ["waiting", "complete", "waiting"]
    done = cli("work", "mine")
    assert done.code == 0, done.err
    assert "3 of 3 parts complete" in done.out
    whole = keyed(tmp_path / "runs/whole")
    parts = [keyed(part_folder(folder, number)) for number in range(3)]
    assert sum(map(len, parts)) == len(whole)
    assert {identity: row for part in parts for identity, row in part.items()} == whole
    one = Manifest.read(tmp_path / "runs/whole")
    assert one is not None
    for number, part in enumerate(Shards.read(folder).parts):
        other = Manifest.read(part_folder(folder, number))
        assert other is not None
        assert other.complete
        for field in (
            "benchmark",
            "benchmark_digest",
            "benchmark_items",
            "model",
            "sampling",
            "strategies",
            "variants",
        ):
            assert getattr(other, field) == getattr(one, field), field
        assert len(parts[number]) == part.requests
