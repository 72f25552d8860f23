"""The simulations of intervals and tests: they run, are reproducible, and say so when a recommended method misses. That
intervals hold the truth, and tests err, as often as they say, is for the benches, which end with 1 where one does not."""

import functools
import json
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest

from analysis.causal import study as causal
from tomserve.causal.power import ITEMS, POWER, found_share
from tomserve.stats.chain_edits import AFTERWARDS, DISTURBED, ESTIMANDS, FOLLOWS, MENDS, PARTLY, ROOM, UNDECIDED

Load = Callable[[str], ModuleType]
SMALL = ["--replications", "1", "--cells", "2"]


@pytest.mark.system
def test_a_small_run_reaches_every_section_and_its_exit_code_follows_its_verdicts(load: Load, tmp_path, capsys) -> None:
    code = load("coverage").main([*SMALL, "--jobs", "1", "--json", str(tmp_path / "figures.json")])
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert code == any(figure["verdict"].startswith("MISSES") for figure in figures)
    assert len({figure["section"] for figure in figures}) >= 11
    assert {figure["kind"] for figure in figures} == {"coverage", "level", "share", "planned power"}
    assert all(0 <= figure["value"] <= 1 and figure["error"] > 0 for figure in figures)
    assert f"{len(figures)} figures" in capsys.readouterr().out


NAMED = ("prompting, rare differences", "coverage", "one class, new stages", "7 stages")
"""A figure for which an exception is named, from .95 to 1."""
PLAIN = ("s", "coverage", "m", "w")


@pytest.mark.parametrize(
    ("key", "missed", "verdict"),
    [
        (PLAIN, 0.05, ""),
        (PLAIN, 0.3, "MISSES 0.93 to 0.97"),
        (PLAIN, 0.0, "MISSES 0.93 to 0.97"),
        ((*PLAIN, False), 0.3, ""),
        (NAMED, 0.0, "named"),
        (NAMED, 0.3, "MISSES its exception, 0.95 to 1"),
    ],
)
def test_a_recommended_method_that_misses_its_target_is_an_error(
    load: Load, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], key, missed: float, verdict: str
) -> None:
    bench = load("coverage")

    def once(tally, rng, cell, index) -> None:
        tally.interval(bench.Key(*key), "", (0, 1), 2.0 if rng.random() < cell else 0.5)

    monkeypatch.setattr(bench, "SECTIONS", (bench.Section("one", [missed], once, 1.0),))
    code = bench.main(["--replications", "400", "--jobs", "1"])
    printed = capsys.readouterr().out
    assert code == verdict.startswith("MISSES"), printed
    marked = f" 400{'  ' + verdict if verdict else ''}"
    assert any(line.endswith(marked) for line in printed.splitlines()), printed
    assert f"{int(verdict.startswith('MISSES'))} miss their target" in printed


@pytest.mark.parametrize(
    ("kind", "said"), [("map", causal.CAUSES), ("shared", causal.NO_MAP), ("random", causal.NOT_MEASURED)]
)
def test_a_verdict_on_planted_states_is_right(load: Load, kind: str, said: str) -> None:
    bench = load("causal_truth")
    assert bench.verdict(bench.Planted(kind, 60, 128, gain=2.0), 1)[0] == said


def test_a_simulated_search_is_reproducible_and_knows_the_truth(load: Load) -> None:
    bench = load("search_truth")
    stock = bench.make_stock(40)
    weak, share, _ = bench.MODELS["a weak pair"]
    chance = functools.partial(bench.probability, weak=weak, share=share)
    assert bench.true_accuracy(stock, weak, chance, True) == pytest.approx(share)
    assert bench.true_accuracy(stock, weak, chance, False) == pytest.approx(bench.USUAL)
    found, again = (bench.run_search(stock, "a weak pair", 1, 200) for _ in range(2))
    assert found == again
    assert found[0]["asked"] <= 200


def test_the_power_that_plans_tell_is_that_of_the_bench(load: Load) -> None:
    bench = load("causal_truth")
    assert (tuple(POWER), *(tuple(by_gain) for by_gain in POWER.values())) == (bench.NOISES, *[bench.GAINS] * 2)
    assert ITEMS == bench.ITEMS
    assert found_share(80, 0.5, 1.0) == pytest.approx(np.mean(POWER[0.5][1.0][:2]))


@pytest.mark.parametrize(
    ("answerer", "truth", "said"),
    [
        ("inert", (0.0, 0.0, 0.0, 0.0), AFTERWARDS),
        ("follows", (0.97, 0.97, 0.42, 0.65), FOLLOWS),
        ("follows, knows", (0.97, 0.97, 0.0, 0.0), FOLLOWS),
        ("follows .5", (0.49, 0.49, 0.21, 0.32), PARTLY),
        ("needs room", (0.0, 0.0, 0.0, 0.65), ROOM),
        ("needs any text", (0.0, 0.0, 0.42, 0.65), ROOM),
        ("mends", (0.0, 0.0, 0.42, 0.65), MENDS),
        ("disturbed", (0.47, 0.47, 0.65, 0.97), DISTURBED),
    ],
)
def test_with_many_items_every_answerer_is_told_for_what_it_is(
    load: Load, answerer: str, truth: tuple[float, ...], said: str
) -> None:
    bench = load("faithfulness_coverage")
    figures = bench.simulated(answerer, bench.CASES["21 units of 10 items"], 4, 3)
    assert set(figures.held) == set(ESTIMANDS)
    assert list(figures.truth.values()) == pytest.approx(truth, abs=0.03)
    assert (figures.verdicts[said] >= 3, figures.wrong(answerer)) == (True, 0)
    if answerer == "inert":
        found, again = (bench.simulated("inert", bench.CASES["20% of edited fail"], 4, 3) for _ in range(2))
        assert found.verdicts == {UNDECIDED: 4}  # failures alone lead to no verdict
        assert found == again
