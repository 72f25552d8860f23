"""A prepared command does what a new process does: what a page tells a reader to type is tested by such commands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.helpers.prepared import prepared

TOLD = """
import os, sys
print(sys.argv, sys.path, os.getcwd(), __name__, os.environ["TOLD"], os.environ.get("HOME"), sys.stdin.read())
print([stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)], file=sys.stderr)
"""
ENDS = {
    "nothing": "pass",
    "a number": "import sys; sys.exit(3)",
    "a large number": "import sys; sys.exit(259)",
    "words": "import sys; sys.exit('it ends')",
    "none": "import sys; sys.exit()",
    "at once": "import os; os._exit(7)",
    "what is left to do": "import atexit; atexit.register(print, 'last'); print('first')",
    "a thread that still works": "import threading, time; threading.Thread(target=lambda: (time.sleep(.1), print('done'))).start()",
}
POLARS = """
import os, threading, polars as pl
print(threading.active_count(), pl.thread_pool_size() > 0)
frame = pl.DataFrame({"a": [n % 7 for n in range(200_000)], "b": range(200_000)})
print(frame.lazy().group_by("a").agg(pl.col("b").sum(), pl.col("b").sort().last().alias("c")).sort("a").collect().rows())
frame.write_parquet("f.parquet")
print(pl.scan_parquet("f.parquet").filter(pl.col("a") == 3).collect().height)
"""
LOOPS = """
import asyncio, uvloop, concurrent.futures as futures, numpy as np
async def work():
    return await asyncio.to_thread(sum, range(10))
print(asyncio.run(work()), uvloop.run(work()), float((np.ones((300, 300)) @ np.ones((300, 300))).sum()))
with futures.ThreadPoolExecutor(4) as pool:
    print(list(pool.map(abs, range(-4, 0))))
"""


def both(*words: str, cwd: Path, **env: str) -> list[tuple[int, str, str]]:
    """What a new process and a prepared command do: the exit code, and what they print."""
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT), **env}
    found = []
    for python in ([sys.executable], prepared()):
        done = subprocess.run(
            [*python, *words], cwd=cwd, env=surroundings, input="read", capture_output=True, text=True, check=False
        )
        found.append((done.returncode, done.stdout, done.stderr))
    return found


def test_it_has_the_surroundings_of_its_caller(tmp_path: Path) -> None:
    new, copied = both("-c", TOLD, "one", "two words", cwd=tmp_path, TOLD="here", HOME="/nowhere")
    assert new == copied
    assert "'two words'" in copied[1]
    assert "[False, False, False]" in copied[2]
    assert "here /nowhere read" in copied[1]
    (tmp_path / "mine.py").write_text("import sys\nprint(__name__, __file__, sys.argv, sys.path)\n")
    new, copied = both("-m", "mine", "one", cwd=tmp_path, PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)]))
    assert new == copied
    assert copied[1].startswith("__main__ ")


@pytest.mark.parametrize("program", ENDS.values(), ids=ENDS)
def test_it_ends_as_a_new_process_ends(program: str, tmp_path: Path) -> None:
    new, copied = both("-c", program, cwd=tmp_path)
    assert new == copied


def test_a_mistake_and_a_signal_end_it(tmp_path: Path) -> None:
    new, copied = both("-c", "1 / 0", cwd=tmp_path)
    assert new[0] == copied[0] == 1
    assert new[2].splitlines()[-1] == copied[2].splitlines()[-1] == "ZeroDivisionError: division by zero"
    new, copied = both("-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", cwd=tmp_path)
    assert (new[0], copied[0]) == (-9, 137), "as a shell tells it"


@pytest.mark.parametrize("program", [POLARS, LOOPS], ids=["tables", "loops"])
def test_threads_can_be_used(program: str, tmp_path: Path) -> None:
    new, copied = both("-c", program, cwd=tmp_path)
    assert new == copied
    assert new[0] == 0, new[2]


def test_a_command_prints_the_same(tmp_path: Path) -> None:
    for words in (("items", "perturbed-2", "--where", "stage=C01"), ("doctor", "--nothing"), ("serve", "--list")):
        new, copied = both("-m", "tomserve", *words, cwd=tmp_path)
        assert new == copied


def test_a_stage_that_was_changed_is_read_again(tmp_path: Path) -> None:
    folder = tmp_path / "dataset/perturbed-2/stages"
    folder.mkdir(parents=True)
    stage = folder / "C01.yaml"
    stage.write_text((ROOT / "dataset/perturbed-2/stages/C01.yaml").read_text("utf-8"), "utf-8")
    asked = ("-m", "tomserve", "dataset", "validate", "perturbed-2", "--path", str(folder))
    assert both(*asked, cwd=tmp_path)[1][0] == 0
    stage.write_text(stage.read_text("utf-8").replace("kind: ", "kinds: ", 1), "utf-8")
    new, copied = both(*asked, cwd=tmp_path)
    assert new == copied
    assert copied[0] == 2
