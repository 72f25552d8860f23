"""Tests of the first tier start no process: what the workbench computes beside itself is done in this one, and once a
session for each content. Tests of the system tier have the real ones."""

import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import orjson
import pytest

from tomserve import content
from tomserve.content.paths import absolute_runs_root
from tomserve.errors import TomserveError
from tomserve.web import cache, planning, playground, playground_process, process
from tomserve.web.process import Process
from tomserve.workflows.evaluate import Experiment


class Kept:
    """What works have written, and what they said, by what they were made from."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.facts, self.lock = folder, dict[str, dict[str, Any]](), threading.Lock()

    def ask(
        self, out: Path, work: str, runs: Sequence[Path], options: Mapping[str, Any], stopped: Callable[[], bool]
    ) -> dict[str, Any]:
        wanted = {"out": str(out), "work": work, "runs": [str(run) for run in runs], "options": dict(options)}
        with self.lock:
            if stopped():
                return {"error": "the workbench was ended before it was done"}
            key = self._key(work, runs, options)
            if key not in self.facts:
                found: dict[str, Any] = orjson.loads(orjson.dumps(process.do_work({**wanted, "code": process.CODE})))
                if "error" in found:
                    return found
                self.facts[key] = found
                shutil.copytree(out, self.folder / key)
            else:
                shutil.copytree(self.folder / key, out, dirs_exist_ok=True)
            return self.facts[key]

    def _key(self, work: str, runs: Sequence[Path], options: Mapping[str, Any]) -> str:
        """Where a run is called alike and holds the same, and studies are at the same place, the same comes of it."""
        state: list[Any] = [work, dict(options), os.environ.get("TOMSERVE_CONTENT")]
        for run in runs:
            name = str(run.absolute()).removeprefix(str(absolute_runs_root()))
            files = [(one, run / one) for one in (*cache.SOURCES, cache.MEASURED)]
            state.append([name, [[one, path.read_bytes().hex() if path.is_file() else ""] for one, path in files]])
        if file := options.get("file"):
            state.append(
                Path(file).read_bytes().hex() if Path(file).is_file() else str(self.folder / os.urandom(8).hex())
            )
        return content.digest(orjson.dumps(state, option=orjson.OPT_SORT_KEYS)).removeprefix("sha256:")


@pytest.fixture(scope="session")
def _kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return Kept(tmp_path_factory.mktemp("computed"))


def planned(planner: planning.Planner, fields: str) -> planning.Plan | str:
    try:
        return planning.plan_experiment(Experiment.model_validate_json(fields))
    except TomserveError as error:
        return str(error)


class Tried:
    """What asks a try: it has ended when it has begun."""

    def __init__(self, command: list[str], *, env: dict[str, str], **_: Any) -> None:
        with mock.patch.dict(os.environ, env, clear=True):
            playground_process.main(Path(command[-1]))

    def poll(self) -> int:
        return 0

    def terminate(self) -> None:
        """It has ended."""

    def wait(self, seconds: float) -> None:
        """It has ended."""


@pytest.fixture(autouse=True)
def _no_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, _kept: Kept) -> Iterator[None]:
    if request.node.get_closest_marker("system") is None:
        monkeypatch.setattr(Process, "ask", lambda self, *about: _kept.ask(*about, stopped=lambda: self._stopped))
        monkeypatch.setattr(
            playground, "subprocess", SimpleNamespace(Popen=Tried, DEVNULL=-3, TimeoutExpired=TimeoutError)
        )
        monkeypatch.setattr(playground, "_children", [])
        monkeypatch.setattr(planning.Planner, "_compute", planned)
    yield
    cache.stop()
    cache._all.clear()
