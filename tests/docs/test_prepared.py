"""A prepared command does what a new process does: what a page tells a reader to type is tested by such commands."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.helpers.prepared import prepared

SURROUNDINGS = "import os, sys; print(sys.argv, sys.path, os.getcwd(), __name__, os.environ['HOME'], sys.stdin.read())"
THREADS = """
import polars as pl
frame = pl.DataFrame({"a": [n % 7 for n in range(9_000)], "b": range(9_000)})
print(frame.lazy().group_by("a").agg(pl.col("b").sum()).sort("a").collect().rows())
"""


@pytest.mark.system
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["-c", SURROUNDINGS, "one", "two words"], 0),
        (["-c", "import sys; sys.exit('it ends')"], 1),
        (["-c", "import atexit; atexit.register(print, 'last'); print('first')"], 0),
        (["-c", THREADS], 0),
        (["-m", "tomserve", "items", "perturbed-2", "--where", "stage=C01"], 0),
        (["-m", "tomserve", "doctor", "--nothing"], 2),
    ],
)
def test_it_prints_and_ends_as_a_new_process(words: list[str], code: int, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": "/nowhere"}
    new, copied = (
        subprocess.run(
            [*python, *words], cwd=tmp_path, env=env, input="read", capture_output=True, text=True, check=False
        )
        for python in ([sys.executable], prepared())
    )
    assert (new.returncode, new.stdout, new.stderr) == (copied.returncode, copied.stdout, copied.stderr)
    assert copied.returncode == code
