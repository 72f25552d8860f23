"""Runs of all kinds, for exports."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import running
from tests.helpers.exported import answered, break_rows, odd_items
from tomserve import benchmarks
from tomserve.interop import fingerprints


@pytest.fixture(autouse=True, scope="module")
def small_benchmarks() -> Iterator[None]:
    """An import looks through the small benchmarks alone, also one that many tests share, unless a test names another."""
    names = {"names": lambda: ["bigtom", "bundles", "hitom", "perturbed"]}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fingerprints, "benchmarks", SimpleNamespace(**{**vars(benchmarks), **names}))
        yield


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
