"""The simulation of what is said of edited chains: it is reproducible, knows what is so, and says when a figure misses."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from types import ModuleType

import pytest

from tests.conftest import ROOT
from tomserve.stats.following import AFTERWARDS, ESTIMANDS, FOLLOWS, PARTLY, UNDECIDED


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(ROOT / "bench")
    import faithfulness_coverage

    yield faithfulness_coverage
    monkeypatch.delitem(sys.modules, "faithfulness_coverage")


def test_the_same_seed_gives_the_same_figures(bench: ModuleType) -> None:
    found, again = (bench.simulated("follows .5", bench.BASE, 3, 7) for _ in range(2))
    assert found == again
    assert set(found.held) == set(ESTIMANDS)


@pytest.mark.parametrize(
    ("answerer", "truth", "said"),
    [
        ("inert", (0.0, 0.0, 0.0, 0.0), AFTERWARDS),
        ("follows", (0.97, 0.97, 0.42, 0.65), FOLLOWS),
        ("follows, knows", (0.97, 0.97, 0.0, 0.0), FOLLOWS),
        ("follows .5", (0.49, 0.49, 0.21, 0.32), PARTLY),
        ("needs any text", (0.0, 0.0, 0.42, 0.65), PARTLY),
    ],
)
def test_with_many_items_every_answerer_is_told_for_what_it_is(
    bench: ModuleType, answerer: str, truth: tuple[float, ...], said: str
) -> None:
    figures = bench.simulated(answerer, bench.CASES["21 units of 10 items"], 8, 3)
    assert list(figures.truth.values()) == pytest.approx(truth, abs=0.03)
    assert figures.verdicts[said] >= 7
    assert figures.wrong(answerer) == 0


def test_failures_alone_lead_to_no_verdict(bench: ModuleType) -> None:
    figures = bench.simulated("inert", bench.CASES["20% of edited fail"], 20, 3)
    assert figures.verdicts == {UNDECIDED: 20}


@pytest.mark.parametrize(
    ("answerer", "held", "falsely", "verdict", "missed"),
    [
        ("inert", 0.95, 0.04, AFTERWARDS, 0),
        ("inert", 0.8, 0.04, AFTERWARDS, 4),
        ("inert", 0.95, 0.3, AFTERWARDS, 1),
        ("inert", 0.95, 0.04, FOLLOWS, 1),
        ("follows", 0.95, 0.0, UNDECIDED, 0),
    ],
)
def test_a_figure_that_misses_its_target_is_an_error(
    bench: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answerer: str,
    held: float,
    falsely: float,
    verdict: str,
    missed: int,
) -> None:
    same = dict.fromkeys(ESTIMANDS, held)
    figures = bench.Figures(dict.fromkeys(ESTIMANDS, 0.0), same, same, falsely, Counter({verdict: 200}))
    monkeypatch.setattr(bench, "TRUE", {answerer: bench.TRUE[answerer]})
    monkeypatch.setattr(bench, "simulated", lambda *given: figures)
    monkeypatch.setattr(sys, "argv", ["faithfulness_coverage.py", "--replications", "200", "--case", "7 units"])
    assert bench.main() == int(missed > 0)
    assert f"; {missed} figures miss their target" in capsys.readouterr().out
