"""What the workbench computes beside itself is done in this process, in tests of the first tier once a session for each
content, and with no process for a try. Tests of the system tier that start a workbench have the real ones."""

import os
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import orjson
import pytest

from tomserve import content
from tomserve.content.paths import absolute_runs_root
from tomserve.web import background, playground


class WorkCache:
    """What works have written, and what they said, by what they were made from."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.facts, self.lock, self.do_work = folder, {}, threading.Lock(), background.do_work

    def __call__(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        key, out = self._key(asked), Path(asked["out"])
        with self.lock:
            if key in self.facts:
                shutil.copytree(self.folder / key, out, dirs_exist_ok=True)
                return self.facts[key]
            found: dict[str, Any] = self.do_work(asked)
            if "error" not in found and asked["work"] != "rescore":
                self.facts[key] = found
                shutil.copytree(out, self.folder / key)
            return found

    def _key(self, asked: Mapping[str, Any]) -> str:
        """Where a run is called alike and holds the same, and studies are at the same place, the same comes of it. A
        tally does not name its run."""
        options = asked["options"]
        state: list[Any] = [asked["work"], options, os.environ.get("TOMSERVE_CONTENT")]
        for run in map(Path, asked["runs"]):
            name = "" if asked["work"] == "tally" else str(run.absolute()).removeprefix(str(absolute_runs_root()))
            files = [(one, run / one) for one in (*background.SOURCES, background.MEASURED)]
            state.append([name, [[one, path.read_bytes().hex() if path.is_file() else ""] for one, path in files]])
        if file := options.get("file"):
            state.append(
                Path(file).read_bytes().hex() if Path(file).is_file() else str(self.folder / os.urandom(8).hex())
            )
        return content.digest(orjson.dumps(state, option=orjson.OPT_SORT_KEYS)).removeprefix("sha256:")


@pytest.fixture(scope="session")
def _work_cache(tmp_path_factory: pytest.TempPathFactory) -> WorkCache:
    return WorkCache(tmp_path_factory.mktemp("computed"))


class Tried:
    """What asks a try: it has ended when it has begun."""

    def __init__(self, command: list[str], *, env: dict[str, str], **_: Any) -> None:
        with mock.patch.dict(os.environ, env, clear=True):
            playground.main(Path(command[-1]))

    def poll(self) -> int:
        return 0

    def terminate(self) -> None:
        """It has ended."""


@pytest.fixture(autouse=True)
def _no_process(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, _work_cache: WorkCache
) -> None:
    monkeypatch.setattr(background, "_IMMEDIATE", [background.perform])
    if request.node.get_closest_marker("system") is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        return
    monkeypatch.setattr(background, "cache_root", lambda: tmp_path / "cache")
    monkeypatch.setattr(background, "do_work", _work_cache)
    monkeypatch.setattr(playground, "subprocess", SimpleNamespace(Popen=Tried, DEVNULL=-3, TimeoutExpired=TimeoutError))
    monkeypatch.setattr(playground, "_children", {})
