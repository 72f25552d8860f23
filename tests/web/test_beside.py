"""Work beside the server: done once whoever wishes for it, told of in words where it fails, and without any key."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tomserve.errors import ConfigError
from tomserve.web import beside
from tomserve.web.beside import Work

MODULE = """
import os, sys, time
from pathlib import Path
from tomserve.errors import ConfigError
from tomserve.web.beside import run

def make(path, arguments):
    with open(arguments[1], "a") as log:
        log.write("begun\\n")
    if arguments[0] == "fail":
        raise ConfigError("there is no such thing")
    if arguments[0] == "die":
        os._exit(9)
    while not Path(arguments[2]).exists():
        time.sleep(0.01)
    path.write_text(" ".join(name for name in os.environ if name.endswith("API_KEY")))

sys.exit(run(make, sys.argv[1:]))
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module whose process waits until it may go on, fails, or dies."""
    (tmp_path / "work_of_a_test.py").write_text(MODULE, "utf-8")
    paths = [str(tmp_path), *(path for path in sys.path if path)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


def work(folder: Path, kind: str, name: str = "made") -> Work:
    return Work("work_of_a_test", folder / "cache" / name, (kind, str(folder / "log"), str(folder / "go")))


def ended(what: Work) -> Path:
    for _ in range(1200):
        if (found := beside.wanted(what)) is not None:
            return found
        time.sleep(0.05)
    raise AssertionError("it was not made within a minute")


def test_what_several_wish_for_is_made_once_and_by_a_process_without_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in beside.KEYS:
        monkeypatch.setenv(name, "sk-secret")
    what = work(tmp_path, "wait")
    assert [beside.wanted(what) for _ in range(5)] == [None] * 5
    (tmp_path / "go").touch()
    assert ended(what).read_text() == ""
    assert (tmp_path / "log").read_text() == "begun\n"


@pytest.mark.parametrize(("kind", "said"), [("fail", "no such thing"), ("die", "ended before it was done")])
def test_what_cannot_be_made_is_told_in_words_and_tried_again_later(
    tmp_path: Path, kind: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    what = work(tmp_path, kind)
    with pytest.raises(ConfigError, match=said):
        ended(what)
    begun = (tmp_path / "log").read_text()
    with pytest.raises(ConfigError, match=said):
        beside.wanted(what)
    assert (tmp_path / "log").read_text() == begun, "it is not tried at every look"
    monkeypatch.setattr(beside, "TRY_AGAIN", -1.0)
    assert beside.wanted(what) is None


def test_only_a_few_processes_work_at_once(tmp_path: Path) -> None:
    wishes = [work(tmp_path, "wait", f"made-{number}") for number in range(5)]
    for one in wishes:
        assert beside.wanted(one) is None
    log = tmp_path / "log"
    for _ in range(1200):
        if log.exists() and len(log.read_text().splitlines()) == beside.AT_ONCE:
            break
        time.sleep(0.05)
    assert len(log.read_text().splitlines()) == beside.AT_ONCE
    (tmp_path / "go").touch()
    for one in wishes:
        assert ended(one).exists()
    assert len(log.read_text().splitlines()) == len(wishes)


def test_what_was_used_longest_ago_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "MOST", 25)

    def make(path: Path, arguments: Sequence[str]) -> None:
        path.write_bytes(b"x" * 10)

    for number in range(4):
        beside.run(make, [str(tmp_path / f"file-{number}")])
        os.utime(tmp_path / f"file-{number}", (number + 1, number + 1))
    assert sorted(path.name for path in tmp_path.glob("file-*")) == ["file-1", "file-2", "file-3"]


def test_a_process_ends_with_the_workbench(tmp_path: Path) -> None:
    what = work(tmp_path, "wait")
    assert beside.wanted(what) is None
    assert beside._busy(what)
    beside.stop()
    assert not beside._busy(what)
    assert not what.path.exists()
