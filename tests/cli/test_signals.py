"""SIGINT, SIGTERM and SIGHUP in every phase of every command: its exit code, one line, and nothing left behind."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import Endpoint
from tests.helpers import shots
from tests.helpers.command import environment

AT = """
import os, signal, sys
number, place = int(sys.argv.pop()), sys.argv.pop()
from importlib import import_module
from tomserve.cli import main
{before}
module, name = place.split(":")
owner, names = import_module(module), name.split(".")
for one in names[:-1]:
    owner = getattr(owner, one)
real, sent = getattr(owner, names[-1]), []

def shot(*given, **named):
    if not sent:
        sent.append(1)
        try:
            os.kill(os.getpid(), number)
            for _ in range(1000):  # the handler is called here
                pass
        except Exception:
            pass  # nothing that handles errors handles a signal
    return real(*given, **named)

setattr(owner, names[-1], shot)
main()
"""
"""A command in which a signal arrives when a function is called for the first time."""

SECOND = "from tomserve.scoring import parallel, table; table.PART, parallel.MANY = 2, 1; os.sched_getaffinity = lambda _: {0, 1}"

PHASES = {
    "eval": {
        "finds the server": "tomserve.serving.probe:Probe.choose",
        "writes the manifest": "tomserve.content.files:put_in_place",
        "scores": "tomserve.runs.scores:write_score_table",
        "prints": "tomserve.reporting.overview:print_overview",
    },
    "score": {
        "starts the second process": "tomserve.scoring.parallel:_helper",
        "writes": "tomserve.content.files:put_in_place",
    },
    "analyze": {"writes": "tomserve.content.files:temporary_file"},
    "report": {"draws": "tomserve.reporting.html.charts:_sheet"},
    "compare": {"writes": "os:fsync"},
    "generate": {"writes": "tomserve.content.output_path:open_output"},
    "faithfulness": {"keeps": "tomserve.runs.measurement:MeasuredRun.write_items"},
}
"""By command and phase: the function in which a signal arrives."""

pytestmark = pytest.mark.system

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SHOTS = [(command, phase) for command, phases in PHASES.items() for phase in phases]


@pytest.fixture
def range_(endpoint: Endpoint, tmp_path: Path) -> shots.Range:
    return shots.ready(tmp_path, endpoint, items=12)


@pytest.mark.parametrize(("command", "phase"), SHOTS)
def test_in_every_phase(range_: shots.Range, command: str, phase: str) -> None:
    number = NUMBERS[SHOTS.index((command, phase)) % len(NUMBERS)]
    before = SECOND if command == "score" else ""
    shutil.rmtree(Path(os.environ["XDG_CACHE_HOME"]) / "tomserve/scores", ignore_errors=True)
    began = time.monotonic()
    program = [sys.executable, "-c", AT.format(before=before)]
    done = subprocess.run(
        [*program, *range_.commands[command], PHASES[command][phase], str(number.value)],
        cwd=range_.folder, env=range_.surroundings(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    shot = shots.Shot(
        command, number, 0, True, time.monotonic() - began, done.returncode, done.stdout, done.stderr, [], 20
    )
    shot.left = range_.left(-1)
    assert shot.problems() == []
    assert shot.code == 128 + number, shot.err
    assert [line for line in shot.err.splitlines() if line.startswith("tomserve: ")] == shot.err.splitlines()[-1:]


def test_a_signal_that_no_function_of_python_sees_ends_the_process(tmp_path: Path) -> None:
    """A library may wait or compute without coming back to Python: here it is the C library that sleeps."""
    (tmp_path / "in").mkdir()
    script = (
        "import ctypes, os, signal, sys, threading\n"
        "from pathlib import Path\n"
        "from tomserve.cli import app, main\n"
        "from tomserve.content import files\n"
        "def command(**options):\n"
        "    with files.temporary_folder(Path(sys.argv[1])), files.temporary_file(Path(sys.argv[1])):\n"
        "        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()\n"
        "        signal.pthread_sigmask(signal.SIG_BLOCK, list(signal.Signals))\n"
        "        ctypes.CDLL(None).sleep(1000)\n"
        "app.build_app = lambda *names: command; main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "in")],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 143, done.stderr
    assert done.stderr == "tomserve: stopped by SIGTERM; repeat the command to go on\n"
    assert not list((tmp_path / "in").iterdir())


START = """
import ctypes, os, signal, sys, time
from tomserve import cli
from tomserve.cli import app

NUMBER = int(sys.argv.pop())
sent = []

def send(most=1):
    if len(sent) < most:
        sent.append(time.monotonic())
        os.kill(os.getpid(), NUMBER)
        for _ in range(1000):  # the handler is called here
            pass

def patience():
    if sent and time.monotonic() - sent[0] > 60:
        print("went on")
        sys.exit(0)
"""

END = """
def command(**options):
    while True:
        work()
        patience()

app.build_app = lambda *names: command
cli.main()
"""

IN_NESTED_DELS = """
class Inner:
    def __del__(self):
        send()

class Outer:
    def __del__(self):
        Inner()
        for _ in range(10):
            pass

class Outermost:
    def __del__(self):
        Outer()

def work():
    Outermost()
"""


IN_A_CALLBACK_OF_ASYNCIO = """
import asyncio, logging
logging.disable()

async def idle():
    asyncio.get_running_loop().call_soon(send)
    while True:
        await asyncio.sleep(0.01)
        patience()

def work():
    asyncio.run(idle())
"""

CASES = {name: text for name, text in list(globals().items()) if name.startswith("IN_")}


def run(script: str, number: int) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", START + script + END, str(int(number))],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("name", CASES)
def test_a_signal_is_never_lost(name: str) -> None:
    number = signal.SIGINT if name == "IN_NESTED_DELS" else signal.SIGTERM
    code, out, err = run(CASES[name], number)
    assert (code, out) == (128 + number, ""), err
    assert err == f"tomserve: stopped by {number.name}; repeat the command to go on\n"


CLEANING_UP = """
def work():
    try:
        send()
        time.sleep(9)
    finally:
        time.sleep(0.2)
        if sys.argv[-1] == "twice":
            send(2)
            time.sleep(9)
        print("cleaned up")
"""


def test_cleaning_up_is_not_disturbed_unless_by_a_second_signal() -> None:
    code, out, err = run(CLEANING_UP, signal.SIGTERM)
    assert (code, out) == (143, "cleaned up\n"), err
    code, out, err = run('sys.argv.append("twice")\n' + CLEANING_UP, signal.SIGTERM)
    assert (code, out) == (143, ""), err
    assert err == "tomserve: stopped by SIGTERM; repeat the command to go on\n"
