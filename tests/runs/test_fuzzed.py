"""Changed copies of real runs are read by the commands that read runs: bench/fuzz.py, some hundred times."""

import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.mark.long
@pytest.mark.parametrize(("first", "folders", "some"), [(0, 180, 4), (20_000, 600, 1)])
def test_no_change_of_a_run_does_any_harm(first: int, folders: int, some: int) -> None:
    """Of the first seeds, eight did harm before it was mended."""
    command = [sys.executable, "bench/fuzz.py", "--first", first, "--folders", folders, "--some", some]
    done = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
