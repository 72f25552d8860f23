"""A signal ends a command wherever it arrives, also where Python or a library swallows the error that it becomes."""

import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.system

START = """
import ctypes, gc, os, signal, sys, threading, time, weakref
from tomserve import cli
from tomserve.cli import app
from tomserve.cli.exit_codes import SIGNALS
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
