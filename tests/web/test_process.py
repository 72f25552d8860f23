"""A process beside the server does one work after the other, knows no key, and ends with the server."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tomserve.web import process
from tomserve.web.process import Process

WORKS = """
import os, time
from pathlib import Path
from tomserve.errors import ConfigError

def tell(out, runs, options):
    return {"pid": os.getpid(), "keys": [name for name in os.environ if "API_KEY" in name], "runs": runs}

def fail(out, runs, options):
    raise ConfigError("there is no such thing")

def raise_(out, runs, options):
    raise MemoryError if options["full"] else ValueError("too hot")

def die(out, runs, options):
    os._exit(9)

def wait(out, runs, options):
    Path(options["begun"]).write_text(str(os.getpid()))
    while True:
        time.sleep(0.01)
"""


@pytest.fixture
def one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    """A process that knows the works above, too."""
    names = ("tell", "fail", "raise_", "die", "wait")
    (tmp_path / "works_of_a_test.py").write_text(WORKS, "utf-8")
    (tmp_path / "sitecustomize.py").write_text(
        f"from tomserve.web import process\nprocess.WORKS.update(dict.fromkeys({names}, 'works_of_a_test'))\n", "utf-8"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *(path for path in sys.path if path)]))
    made = Process()
    yield made
    made.stop()
    made.close()


def test_one_process_does_several_works_and_knows_no_key(
    one: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in process.KEYS:
        monkeypatch.setenv(name, "sk-secret")
    told = [one.ask(tmp_path, "tell", (name,), {})["facts"] for name in ("a", "b")]
    assert [found["runs"] for found in told] == [["a"], ["b"]]
    assert [found["keys"] for found in told] == [[], []]
    assert told[0]["pid"] == told[1]["pid"] != os.getpid()


def test_what_goes_wrong_is_told_in_words_and_the_process_goes_on(one: Process, tmp_path: Path) -> None:
    before = one.ask(tmp_path, "tell", (), {})["facts"]["pid"]
    assert one.ask(tmp_path, "fail", (), {}) == {"error": "there is no such thing"}
    assert "ValueError: too hot" in one.ask(tmp_path, "raise_", (), {"full": False})["error"]
    assert "too little memory" in one.ask(tmp_path, "raise_", (), {"full": True})["error"]
    assert one.ask(tmp_path, "tell", (), {})["facts"]["pid"] == before


def test_a_process_that_dies_is_told_in_words_and_replaced(one: Process, tmp_path: Path) -> None:
    said = one.ask(tmp_path, "die", (), {})["error"]
    assert "ended with exit code 9 before it was done" in said
    assert one.ask(tmp_path, "tell", (), {})["facts"]["runs"] == []


def until(path: Path) -> int:
    """The number of the process that has written it there."""
    end = time.monotonic() + 60
    while not path.exists() or not path.read_text():
        assert time.monotonic() < end
        time.sleep(0.02)
    return int(path.read_text())


def gone(number: int) -> bool:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def test_a_process_can_be_stopped_in_the_middle_and_begins_no_more(one: Process, tmp_path: Path) -> None:
    begun, said = tmp_path / "begun", []
    waiting = threading.Thread(
        target=lambda: said.append(one.ask(tmp_path, "wait", (), {"begun": str(begun)})), daemon=True
    )
    waiting.start()
    number = until(begun)
    one.stop()
    waiting.join(60)
    assert "before it was done" in said[0]["error"]
    assert gone(number)
    assert "the workbench was ended" in one.ask(tmp_path, "tell", (), {})["error"]


SERVER = """
import sys
from pathlib import Path
from tomserve.web.process import Process
Process().ask(Path("."), "wait", (), {"begun": sys.argv[1]})
"""


def test_a_process_ends_where_its_server_was_killed(one: Process, tmp_path: Path) -> None:
    del one  # only its surroundings
    begun = tmp_path / "begun"
    with subprocess.Popen([sys.executable, "-c", SERVER, str(begun)]) as server:
        number = until(begun)
        server.kill()
    assert gone(number)


def test_another_version_of_the_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"out": ".", "work": "panels", "runs": [], "options": {}, "code": process.CODE}
    monkeypatch.setattr(process, "CODE", "sha256:other")
    assert "start it anew" in process.done(asked)["error"]
