"""The states on disk: what is kept stays, what was not finished is asked again, and nothing of another measurement is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tomserve.causal.backend import Answers, Readings
from tomserve.causal.states import States
from tomserve.errors import ConfigError


def opened(folder: Path, digest: str = "sha256:a", prompts: int = 5) -> States:
    return States(folder, prompts=prompts, layers=3, width=4, choices=3, digest=digest)


def readings(count: int, seed: int) -> Readings:
    rng = np.random.default_rng(seed)
    return Readings(
        rng.standard_normal((count, 3, 4)).astype(np.float32),
        Answers(rng.standard_normal((count, 2)).astype(np.float32), rng.integers(0, 9, count)),
    )


def test_what_is_kept_is_there_when_the_folder_is_opened_again(tmp_path: Path) -> None:
    first, found = opened(tmp_path / "states"), readings(2, 0)
    first.keep(np.array([3, 1]), found)
    again = opened(tmp_path / "states")
    assert again.missing.tolist() == [0, 2, 4]
    for layer in (1, 2, 3):
        assert np.array_equal(again.layer(layer)[[3, 1]], found.states[:, layer - 1])
    assert np.array_equal(again.answers.logits[[3, 1], :2], found.answers.logits)
    assert np.isnan(again.answers.logits[[3, 1], 2]).all()
    assert np.array_equal(again.answers.top[[3, 1]], found.answers.top)


def test_a_row_without_its_flag_is_asked_again_and_a_file_that_was_cut_short_not_believed(tmp_path: Path) -> None:
    """So it is with a process that was killed between the states and the flag."""
    opened(tmp_path).keep(np.array([0, 1]), readings(2, 1))
    flags = np.memmap(tmp_path / "done.u1", np.uint8, "r+")
    flags[1] = 0
    assert opened(tmp_path).missing.tolist() == [1, 2, 3, 4]
    with (tmp_path / "layer-002.f32").open("r+b") as file:
        file.truncate(8)
    assert opened(tmp_path).missing.size == 5


def test_states_of_other_prompts_are_not_believed(tmp_path: Path) -> None:
    opened(tmp_path).keep(np.arange(5), readings(5, 2))
    assert opened(tmp_path, "sha256:b").missing.tolist() == [0, 1, 2, 3, 4]
    opened(tmp_path, "sha256:b").keep(np.arange(5), readings(5, 3))
    assert not opened(tmp_path, "sha256:b").missing.size
    assert opened(tmp_path, "sha256:b", prompts=6).missing.size == 6


def test_no_link_is_followed(tmp_path: Path) -> None:
    folder, mine = tmp_path / "states", tmp_path / "mine"
    folder.mkdir()
    mine.write_bytes(b"precious")
    (folder / "layer-001.f32").symlink_to(mine)
    with pytest.raises(ConfigError, match="symbolic link"):
        opened(folder)
    assert mine.read_bytes() == b"precious"
