"""The bench of the time to the first answer: CPU seconds of a whole family of processes, and steps in order."""

import os
import subprocess
import sys
import time

import pytest

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "bench"))
import first_answer

BUSY = "import time\nwhile time.process_time() < 0.3: pass\n"
PARENT = f"""
import subprocess, sys, time
subprocess.run([sys.executable, "-c", {BUSY!r}])
child = subprocess.Popen([sys.executable, "-c", {BUSY + "time.sleep(60)"!r}])
print(child.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.system
def test_cpu_seconds_count_children_that_run_and_children_that_have_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout is not None
            child = int(parent.stdout.readline())
            assert set(first_answer.family(parent.pid)) == {parent.pid, child}
            while (used := first_answer.cpu(child)) < 0.25:  # the system counts in hundredths of a second
                time.sleep(0.01)
            assert first_answer.cpu(parent.pid) >= used + 0.25
        finally:
            parent.kill()
            os.kill(child, 9)
