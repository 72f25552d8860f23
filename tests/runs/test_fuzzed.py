"""Changed copies of real runs are read by the commands that read runs, and nothing happens that should not: no
traceback, no warning of Python, nothing that a terminal obeys, no other file, no program, no endless wait (bench/fuzz.py
does the same thousands of times)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.fuzzing import fuzz
from tests.helpers.mutating import KINDS, VALUES, mutate

FAILED = ("3", "36", "39", "68", "93", "154", "158", "173")
"""Seeds of changes after which something did happen before it was mended; each is read by every command."""

NEW = [f"test {number}" for number in range(180)]
"""Seeds of further changes, each of which is read by two commands."""


@pytest.mark.parametrize(("seeds", "some"), [(FAILED, 0), (NEW, 2)], ids=["failed", "new"])
def test_no_change_of_a_run_does_any_harm(tmp_path: Path, seeds: list[str], some: int) -> None:
    told = list(fuzz(tmp_path, seeds, some))
    found = [one for one in told if "found" in one]
    assert not found, "\n".join(f"{one['changed']}: {one['command']}: {one['found']}" for one in found)
    assert {one["seed"] for one in told} == set(seeds)
    codes = {code for one in told for code in one["ended"].values()}
    assert {0, 2} <= codes <= {0, 1, 2, 3}


def test_changes_are_the_same_again_and_of_many_kinds(tmp_path: Path) -> None:
    def made(seed: int, name: str) -> tuple[str, dict[str, bytes]]:
        folder = tmp_path / name / str(seed)
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text('{"schema": 1, "model": "m", "strategies": {"cot": {"turns": 1}}}\n')
        (folder / "responses.jsonl").write_text('{"item": "a", "text": "tea"}\n{"item": "b", "text": "salt"}\n')
        said = mutate(folder, seed)
        there = {
            path.name: path.read_bytes()
            for path in folder.iterdir()
            if path.is_file() and path.stat().st_size < 1 << 20
        }
        return said, there if "sparse" not in said else {}

    first = [made(seed, "first") for seed in range(0, 200, 2)]
    assert first == [made(seed, "second") for seed in range(0, 200, 2)]
    said = " ".join(text for text, _ in first)
    assert sum(kind in said for kind in KINDS) > len(KINDS) / 2
    assert sum(f"{value!r:.50}" in said for value in VALUES) > len(VALUES) / 4
