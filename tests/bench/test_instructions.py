"""The instructions of client, scoring and start-up stay within a tenth of their baseline; that is counted, not timed.

Skipped where valgrind is missing; with NEED_VALGRIND=1 (as CI sets it) that is a failure.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType

import pytest

from tests.conftest import ROOT

BENCH = ROOT / "bench/instructions.py"


@pytest.fixture
def bench(load: Callable[[str], ModuleType]) -> ModuleType:
    return load("instructions")


@pytest.mark.system
@pytest.mark.timeout(900)
def test_client_scoring_and_start_up_take_no_more_than_a_tenth_above_their_baseline() -> None:
    if shutil.which("valgrind") is None and os.environ.get("NEED_VALGRIND") != "1":
        pytest.skip("needs valgrind (Debian: apt-get install valgrind)")
    done = subprocess.run([sys.executable, str(BENCH)], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_more_than_a_tenth_above_is_too_much_and_a_figure_without_baseline_is_too(bench: ModuleType) -> None:
    baseline = {"figures": {"client": {"floors": 1.0}, "scoring": {"floors": 2.0}, "start": {"floors": 100.0}}}
    found = {"floor": {"floors": 1.0}, "client": {"floors": 1.099}, "scoring": {"floors": 2.21}, "start": {"floors": 9}}
    assert bench.compare(found, baseline) == ["scoring"]
    assert bench.compare({"new": {"floors": 1.0}}, baseline) == ["new"]


def test_what_is_done_once_is_no_part_of_a_figure_of_two_sizes(bench: ModuleType) -> None:
    one = bench.Counted("client", "a request", (200, 1000))
    counts = {"client=200": 5_000 + 200 * 7, "client=1000": 5_000 + 1000 * 7}
    assert one.of(counts, one) == 7
    planted = one.planted(0.15)
    assert planted.sizes == (200, 1120)
    more = {"client=200": counts["client=200"], "client=1120": 5_000 + 1120 * 7}
    assert planted.of(more, one) == pytest.approx(7 * 1.15)
