"""A process beside the server does one work after the other, knows no key, and ends with the server."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.queues import until
from tomserve.content.places import runs_root
from tomserve.errors import ConfigError
from tomserve.web import exporting, process
from tomserve.web.process import Process

WORKS = """
import os, time
from pathlib import Path

def tell(out, runs, options):
    return {"pid": os.getpid(), "keys": [name for name in os.environ if "API_KEY" in name], "runs": runs}

def die(out, runs, options):
    os._exit(9)

def wait(out, runs, options):
    Path(options["begun"]).write_text(str(os.getpid()))
    while True:
        time.sleep(0.01)
"""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConfigError("{runs}/a: there is no such thing\x1b"), "a: there is no such thing\\x1b"),
        (MemoryError(), "there is too little memory to compute it"),
        (ValueError("{runs}/b is too hot"), "it could not be computed (ValueError: b is too hot)"),
    ],
)
def test_what_goes_wrong_is_said_in_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: BaseException, said: str
) -> None:
    error.args = tuple(str(one).replace("{runs}", str(runs_root())) for one in error.args)

    def scores(*_: object) -> None:
        raise error

    monkeypatch.setattr(exporting, "scores", scores)
    wanted = {"out": str(tmp_path), "work": "scores", "runs": [], "options": {}, "code": process.CODE}
    assert process.done(wanted) == {"error": said}
    assert "start it anew" in process.done({**wanted, "code": "sha256:other"})["error"]


def test_no_key_of_an_endpoint_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in process.KEYS:
        monkeypatch.setenv(name, "sk-secret")
    assert "sk-secret" not in process.keyless().values()
    assert process.keyless()["PATH"] == os.environ["PATH"]


@pytest.fixture
def one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    """A process that knows the works above, too."""
    (tmp_path / "works_of_a_test.py").write_text(WORKS, "utf-8")
    (tmp_path / "sitecustomize.py").write_text(
        "from tomserve.web import process\n"
        "process.WORKS.update(dict.fromkeys(('tell', 'die', 'wait'), 'works_of_a_test'))\n",
        "utf-8",
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *(path for path in sys.path if path)]))
    made = Process()
    yield made
    made.stop()
    made.close()


def gone(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return True
    return False


def written(path: Path) -> int:
    """The number of the process that has written it there."""
    return int(until(lambda: path.exists() and path.read_text()))


@pytest.mark.system
def test_one_process_does_several_works_and_one_that_dies_or_is_stopped_says_so(
    one: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOMSERVE_API_KEY", "sk-secret")
    found = [one.ask(tmp_path, "tell", (Path(name),), {})["facts"] for name in ("a", "b")]
    assert [(one["runs"], one["keys"]) for one in found] == [(["a"], []), (["b"], [])]
    assert found[0]["pid"] == found[1]["pid"] != os.getpid()
    assert "ended with exit code 9 before it was done" in one.ask(tmp_path, "die", (), {})["error"]
    begun, said = tmp_path / "begun", []
    waiting = threading.Thread(
        target=lambda: said.append(one.ask(tmp_path, "wait", (), {"begun": str(begun)})), daemon=True
    )
    waiting.start()
    number = written(begun)
    one.stop()
    waiting.join(60)
    assert "before it was done" in said[0]["error"]
    until(lambda: gone(number))
    assert "the workbench was ended" in one.ask(tmp_path, "tell", (), {})["error"]


SERVER = """
import sys
from pathlib import Path
from tomserve.web.process import Process
Process().ask(Path("."), "wait", (), {"begun": sys.argv[1]})
"""


@pytest.mark.system
@pytest.mark.usefixtures("one")
def test_a_process_ends_where_its_server_was_killed(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    with subprocess.Popen([sys.executable, "-c", SERVER, str(begun)]) as server:
        number = written(begun)
        server.kill()
    until(lambda: gone(number))
