"""Runs of all kinds, for exports; benchmarks that imports look through are read once."""

import functools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import running
from tests.helpers.exported import answered, break_rows, odd_items
from tomserve import benchmarks
from tomserve.interop import fingerprints
from tomserve.items import Item


@functools.cache
def _load(name: str, content: str | None) -> list[Item]:
    return list(benchmarks.load(name, None, None, benchmarks.ALL))


@pytest.fixture(autouse=True)
def loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions that an import looks through are read once by all tests; those of the two large benchmarks only where a
    test names them."""

    class Benchmarks:
        def __getattr__(self, name: str) -> object:
            return getattr(benchmarks, name)

        def names(self) -> list[str]:
            return ["bigtom", "bundles", "hitom", "perturbed"]

        def load(self, name: str, path: Path | None, *more: object) -> Iterator[Item] | list[Item]:
            if path is not None:
                return benchmarks.load(name, path, *more)
            return _load(name, os.environ.get("TOMSERVE_CONTENT"))

    monkeypatch.setattr(fingerprints, "benchmarks", Benchmarks())


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Made by real requests: odd (ids, failures, thoughts, three samples), perturbed (two strategies, failures), several
    (three samples, failures), talk (two turns a question)."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patched, running() as endpoint:
        patched.setenv("TOMSERVE_RUNS", str(folder))
        odd = answered(folder / "odd", endpoint, odd_items(), ["vanilla"], repeats=3, temperature=0.5)
        perturbed = answered(folder / "perturbed", endpoint, "perturbed", limit=12)
        several = answered(folder / "several", endpoint, "perturbed", ["vanilla"], limit=8, repeats=3, temperature=0.5)
        talk = answered(folder / "talk", endpoint, "perturbed", ["simtom"], lambda body, n: None, limit=8)
    broken = {"odd": break_rows(odd, 4), "perturbed": break_rows(perturbed), "several": break_rows(several)}
    return {**broken, "talk": talk}
