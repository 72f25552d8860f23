"""Changed copies of real runs are read by the commands that read runs, and nothing happens that should not: no
traceback, no warning of Python, nothing that a terminal obeys, no other file, no program, no endless wait (bench/fuzz.py
does the same thousands of times)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.fuzzing import fuzz
from tests.helpers.mutating import KINDS, VALUES, mutate

FAILED = ("3", "36", "39", "68", "93", "154", "173", "5079")
"""Seeds of changes after which something did happen before it was mended."""

SEEDS = {
    "again": (*FAILED, *(f"again {number}" for number in range(4))),
    "new": tuple(map(str, range(20_000, 20_050))),
    "more": tuple(map(str, range(20_050, 20_600))),
}
"""Seeds of changes, of which all but the first kind are each read by a single command, drawn by the seed."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the real runs are made that are changed."""
    return tmp_path_factory.mktemp("fuzzed")


@pytest.mark.parametrize(("kind", "some"), [("again", 4), ("new", 1), pytest.param("more", 1, marks=pytest.mark.long)])
def test_no_change_of_a_run_does_any_harm(folder: Path, kind: str, some: int) -> None:
    told = list(fuzz(folder, SEEDS[kind], some))
    found = [one for one in told if "found" in one]
    assert not found, "\n".join(
        f"{one['seed']}: {one.get('changed')}: {one['command']}: {one['found']}" for one in found
    )
    assert {one["seed"] for one in told} == set(SEEDS[kind])
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
