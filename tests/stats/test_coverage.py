"""Intervals hold the truth, and tests err, as often as they say: small versions of what bench/ simulates, whose figures
stand in bench/README.md and docs/explanation/."""

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

from tests.conftest import ROOT
from tomserve.stats.functional import score_models


@pytest.fixture
def bench(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module of bench/ of that name."""
    monkeypatch.syspath_prepend(ROOT / "bench")
    yield importlib.import_module(request.param)
    sys.modules.pop(request.param)


def of(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("bench", [name], indirect=True, ids=[""])


@pytest.mark.long
@of("causal_coverage")
@pytest.mark.parametrize("case", ["nothing works", "one cell works", "a control does as much"])
def test_of_interventions(bench: ModuleType, case: str) -> None:
    found = bench.simulated(case, 30, 80, 5)
    for name in ("net", "adjusted"):
        assert found[name].held >= 0.88, name
    if case != "one cell works":
        assert found["adjusted"].above <= 0.1


@pytest.mark.long
@of("behaviour_coverage")
@pytest.mark.parametrize("answerer", ["guesses", "below chance at one type", "half way", "nearly always right"])
def test_of_behaviour(bench: ModuleType, answerer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "RESAMPLES", 200)
    found = bench.simulated(answerer, 20, 40, 5)
    assert {"B", "B - rule", "B, mean of benchmarks"} < set(found)
    for name, (held, above, _) in found.items():
        assert name.startswith("(") or held >= 0.8, (name, held)
        assert name.startswith("(") or answerer != "guesses" or above <= 0.15, (name, above)


@pytest.mark.long
@of("stability_coverage")
@pytest.mark.parametrize("answerer", ["random", "keeps 0.99", "changes only when wrong"])
def test_of_stability(bench: ModuleType, answerer: str) -> None:
    found = bench.simulated(answerer, 20, 100, 5)
    assert {"S", "kappa", "S minus the floor", "S, mean of kinds"} < set(found)
    for name, (held, _) in found.items():
        assert name.startswith("(") or held >= 0.9, (name, held)


@pytest.mark.long
@of("functional_coverage")
def test_of_the_score(bench: ModuleType) -> None:
    answerer = bench.ANSWERERS["good"]
    true, rng = bench.truth(answerer), np.random.default_rng(0)
    held = dict.fromkeys(bench.PARTS, 0)
    for _ in range(60):
        found = score_models({"m": bench.drawn(rng, answerer, 40)}, draws=150)["m"]
        for name in bench.PARTS:
            own = getattr(found, name)
            held[name] += own.low <= true[name] <= own.high
    assert min(held.values()) >= 51, held


@pytest.mark.long
@of("functional_coverage")
def test_of_equal_models_none_is_called_better_too_often(bench: ModuleType) -> None:
    """Percentiles of the draws fail here."""
    found = bench.pairs_of(("nearly perfect", "nearly perfect"), 24, 60, weights=200)
    assert max(found.wrong, found.sure) <= 0.09 < found.percentile


@pytest.mark.long
@of("margin_coverage")
@pytest.mark.parametrize(("clusters", "sizes", "share"), [(20, "1 to 16", 0.98), (40, "4", 0.9), (100, "1", 0.9)])
def test_of_a_margin(bench: ModuleType, clusters: int, sizes: str, share: float) -> None:
    """The first case is the one in which the t interval alone errs four times as often as it says."""
    found = bench.size(bench.Design(clusters, sizes, share, 0.2), 600, 5)
    assert found["not inferior"] <= 0.045
    assert 0.005 <= found["equivalent"] <= 0.08, "nor are they so careful that they show nothing"
    if sizes == "1 to 16":
        assert found["(not inferior, t alone)"] > 0.07


@of("margin_coverage")
def test_as_many_clusters_as_are_needed_show_it_in_four_of_five_studies(bench: ModuleType) -> None:
    found = bench.power(bench.Design(40, "4", 0.9, 0.2), 80, 5)
    assert 0.68 <= found["not inferior"] <= 0.92
    assert 0.68 <= found["equivalent"] <= 0.92


@pytest.mark.long
@of("margin_coverage")
@pytest.mark.parametrize(("clusters", "sizes", "share"), [(20, "1 to 16", 0.9), (40, "4", 0.5)])
def test_of_changes_and_grades(bench: ModuleType, clusters: int, sizes: str, share: float) -> None:
    found = bench.coverage(bench.Design(clusters, sizes, share, 0.2), 300, 5)
    for name in ("harmful flips", "churn", "grades"):
        assert found[name] >= 0.91, (name, found[name])
