"""The simulation of what is said of interventions: it is reproducible, and says so when an interval or p misses."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from tests.conftest import ROOT


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(ROOT / "bench")
    import causal_coverage

    yield causal_coverage
    monkeypatch.delitem(sys.modules, "causal_coverage")


def test_the_same_seed_gives_the_same_figures_and_every_interval_is_there(bench: ModuleType) -> None:
    found, again = (bench.simulated("a little works", 30, 2, 7, 20, compared=True) for _ in range(2))
    assert str(found) == str(again)
    assert {"net", "a control", "largest control", "adjusted", "maximum"} < set(found)
    assert all(0 <= one.held <= 1 for name, one in found.items() if name != "maximum")


@pytest.mark.parametrize(
    ("name", "case", "held", "above", "missed"),
    [
        ("adjusted", "much works", 0.93, 1.0, False),
        ("adjusted", "much works", 0.8, 1.0, True),
        ("(net, BCa)", "much works", 0.8, 1.0, False),
        ("maximum", "nothing works", math.nan, 0.05, False),
        ("maximum", "nothing works", math.nan, 0.2, True),
        ("maximum", "much works", math.nan, 1.0, False),
    ],
)
def test_a_figure_that_misses_its_target_is_an_error(
    bench: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    case: str,
    held: float,
    above: float,
    missed: bool,
) -> None:
    figure = bench.Figure(held, above, 0.1)
    monkeypatch.setattr(bench, "WORKING", {case: ()})
    monkeypatch.setattr(bench, "simulated", lambda *given, **named: {name: figure})
    monkeypatch.setattr(sys, "argv", ["causal_coverage.py", "--quick"])
    assert bench.main() == int(missed)
    assert f"{3 * missed} figures miss their target" in capsys.readouterr().out
