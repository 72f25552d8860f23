"""A process beside the server does one work after the other, knows no key, and ends with the server."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.helpers.queues import until
from tomserve.content.paths import runs_root
from tomserve.errors import ConfigError
from tomserve.web import analyses, process
from tomserve.web.process import Process


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

    monkeypatch.setattr(analyses, "scores", scores)
    wanted = {"out": str(tmp_path), "work": "scores", "runs": [], "options": {}, "code": process.CODE}
    assert process.do_work(wanted) == {"error": said}
    assert "start it anew" in process.do_work({**wanted, "code": "sha256:other"})["error"]


def test_no_key_of_an_endpoint_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in process.KEYS:
        monkeypatch.setenv(name, "sk-secret")
    assert "sk-secret" not in process.keyless().values()
    assert process.keyless()["PATH"] == os.environ["PATH"]


WAITS = """
import os, sys, time
from pathlib import Path
from tomserve.web import analyses, process

def scores(out, runs, options):
    if options.get("dies"):
        os._exit(9)
    (Path(out) / "begun").write_text(str(os.getpid()))
    while options.get("waits"):
        time.sleep(0.01)
    return {"pid": os.getpid(), "keys": [name for name in os.environ if "API_KEY" in name], "runs": runs}

analyses.scores = scores
if sys.argv[0] != "-m":
    process.Process().ask(Path(sys.argv[1]), "scores", (), {"waits": True})
"""


def gone(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.system
def test_one_process_does_several_works_says_when_it_died_or_was_stopped_and_ends_with_its_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(WAITS)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *(path for path in sys.path if path)]))
    monkeypatch.setenv("TOMSERVE_API_KEY", "sk-secret")

    def begun() -> int:
        return int(until(lambda: (path := tmp_path / "begun").exists() and path.read_text()))

    one = Process()
    found = [one.ask(tmp_path, "scores", (Path(name),), {})["facts"] for name in "ab"]
    assert [(done["runs"], done["keys"]) for done in found] == [(["a"], []), (["b"], [])]
    assert found[0]["pid"] == found[1]["pid"] == begun() != os.getpid()
    assert "ended with exit code 9 before it was done" in one.ask(tmp_path, "scores", (), {"dies": True})["error"]
    (tmp_path / "begun").unlink()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(one.ask, tmp_path, "scores", (), {"waits": True})
        number = begun()
        one.stop()
        assert "before it was done" in waiting.result(60)["error"]
    until(lambda: gone(number))
    assert "the workbench was ended" in one.ask(tmp_path, "scores", (), {})["error"]
    (tmp_path / "begun").unlink()
    with subprocess.Popen([sys.executable, str(tmp_path / "sitecustomize.py"), str(tmp_path)]) as server:
        number = begun()
        server.kill()
    until(lambda: gone(number))
