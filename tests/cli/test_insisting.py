"""A signal ends a command wherever it arrives, also where Python or a library swallows the error that it becomes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

START = """
import ctypes, gc, os, signal, sys, threading, time, weakref
from tomserve import cli
from tomserve.cli import app
from tomserve.cli.ending import SIGNALS
from tomserve.errors import Interrupted

NUMBER = int(sys.argv.pop())
sent = []

def send(most=1):
    if len(sent) < most:
        sent.append(time.monotonic())
        os.kill(os.getpid(), NUMBER)
        for _ in range(1000):  # the handler is called here
            pass

def patience():
    if sent and time.monotonic() - sent[0] > 3:
        print("went on")
        sys.exit(0)
"""

END = """
def command(**options):
    while True:
        work()
        patience()

app.app = command
cli.main()
"""

IN_DEL = """
class Group:
    def __del__(self):
        send()

def work():
    Group()
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

IN_ONE_LINE = """
class Group:
    def __del__(self):
        send()

def work():
    for _ in (Group() for _ in range(10**9)): patience()
"""

IN_A_CIRCLE = """
class Group:
    def __init__(self):
        self.itself = self
    def __del__(self):
        send()

def work():
    Group()
    gc.collect()
"""

IN_A_WEAK_REFERENCE = """
class Group:
    pass

def work():
    group = Group()
    weak = weakref.ref(group, lambda dead: send())
    del group
"""

IN_A_CALLBACK_FROM_C = """
@ctypes.CFUNCTYPE(None)
def callback():
    send()

def work():
    callback()
"""

IN_A_LIBRARY_THAT_SWALLOWS = """
def work():
    while True:
        try:
            send()
            patience()
        except Exception as error:
            pass
"""

IN_AN_ERROR_THAT_HOLDS_ITSELF = """
def swallowed():
    try:
        send()
    except Exception as error:
        kept = error

def work():
    swallowed()
    time.sleep(0.01)
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

WHILE_ANOTHER_ERROR_IS_SHOWN = """
sys.unraisablehook = lambda ignored: send()

class Group:
    def __del__(self):
        raise ValueError

def work():
    Group()
"""

CASES = {name: text for name, text in list(globals().items()) if name.startswith(("IN_", "WHILE_"))}


def run(script: str, number: int) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", START + script + END, str(int(number))],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("name", CASES)
def test_a_signal_is_never_lost(name: str) -> None:
    number = signal.SIGINT if name == "IN_NESTED_DELS" else signal.SIGTERM
    code, out, err = run(CASES[name], number)
    assert (code, out) == (128 + number, ""), err
    assert err == f"tomserve: stopped by {number.name}; repeat the command to go on\n"


AT_ANY_TIME = """
class Slow:
    def __del__(self):
        for _ in range(2000):
            pass

def work():
    Slow()

def once():
    began = []
    def fire():
        time.sleep(0.002)
        began.append(time.monotonic())
        os.kill(os.getpid(), NUMBER)
    thread = threading.Thread(target=fire)
    try:
        thread.start()
        while not began or time.monotonic() - began[0] < 3:
            work()
        print("lost")
    except Interrupted:
        SIGNALS.forget()
        SIGNALS.listen()
        print("late" if time.monotonic() - began[0] > 1 else "heard")
    finally:
        thread.join()

def command(**options):
    for _ in range(50):
        once()

app.app = command
cli.main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_any_time_is_heard_within_a_second(number: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", START + AT_ANY_TIME, str(int(number))],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["heard"] * 50


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
    began = time.monotonic()
    code, out, err = run('sys.argv.append("twice")\n' + CLEANING_UP, signal.SIGTERM)
    assert (code, out) == (143, ""), err
    assert time.monotonic() - began < 9
    assert err == "tomserve: stopped by SIGTERM; repeat the command to go on\n"


def test_what_else_python_ignores_is_shown() -> None:
    code, _, err = run(
        """
class Group:
    def __del__(self):
        raise ValueError("something else")

def work():
    Group()
    send()
""",
        signal.SIGTERM,
    )
    assert code == 143
    assert "ValueError: something else" in err
    assert err.endswith("tomserve: stopped by SIGTERM; repeat the command to go on\n")


def test_a_loop_that_swallows_everything_goes_on_in_the_end() -> None:
    """Nothing can end it by an error; it must not be kept from its work for ever either."""
    code, out, _ = run(
        """
def work():
    while not sent or time.monotonic() - sent[0] < 1:
        try:
            send()
        except BaseException:
            pass
    print("went on")
    os._exit(0)
""",
        signal.SIGTERM,
    )
    assert (code, out) == (0, "went on\n") or code == 143
