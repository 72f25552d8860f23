"""Tests against a margin: against scipy, statsmodels and a hand, at their edges, and how often they err."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.weightstats import ttost_paired

from tomserve.stats.clustered import PairSums, margin_intervals, pair_sums, pairs_intervals
from tomserve.stats.equivalence import ONE_SIDED, TOST, VERDICTS, compare_margin, units_for_margin, verdict
from tomserve.stats.power import count_units


def drawn(share: float, other: float, clusters: int, each: int, seed: int = 0) -> PairSums:
    """Two models with these chances of a right answer on `each` questions of every cluster."""
    rng, n = np.random.default_rng(seed), clusters * each
    ease = rng.random(n)
    return pair_sums(ease * rng.random(n) ** 0.2 < other, ease < share, np.arange(n) // each)


@pytest.mark.parametrize("other", [0.5, 0.68, 0.75, 0.9])
def test_on_questions_that_stand_alone_it_is_the_paired_t_test_of_statsmodels_and_scipy(other: float) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.random(300) < 0.75, rng.random(300) < other
    found = compare_margin(pairs_intervals(pair_sums(b, a, np.arange(300))), 0.1)
    d = b.astype(float) - a
    worse = stats.ttest_1samp(d, -0.1, alternative="greater").pvalue
    assert found.p_not_inferior == pytest.approx(worse, abs=1e-9)
    both, _, _ = ttost_paired(b.astype(float), a.astype(float), -0.1, 0.1)
    assert found.p_equivalent == pytest.approx(both, abs=1e-9)
    assert (found.low_90, found.high_90) == pytest.approx(stats.ttest_1samp(d, 0).confidence_interval(0.90), abs=1e-12)


def test_one_p_by_hand() -> None:
    """16 questions, one gained, three lost: the mean is -2/16 = -.125 and the sum of squares 4 - 16 * .125^2 = 3.75, so
    that the variance is .25 and the error .5 / 4 = .125. The margin .5 lies (.5 - .125) / .125 = 3 errors below. With
    15 df, P(t > 3) = .0045 (a table of t has .005 at 2.947)."""
    d = [1, -1, -1, -1] + [0] * 12
    pairs = pair_sums([one > 0 for one in d], [one < 0 for one in d], range(16))
    pairs = replace(pairs, changed=pairs.changed * 10)  # so that four changes are not too few for t
    found = compare_margin(pairs_intervals(pairs), 0.5)
    assert found.p_not_inferior == pytest.approx(0.00449, abs=5e-6)
    assert found.low == pytest.approx(-0.125 - 2.13145 * 0.125, abs=1e-5)
    assert found.verdict == "equivalent"


@pytest.mark.parametrize(("margin", "each"), [(0.05, 4), (0.2, 1)])
@pytest.mark.parametrize("intervals", [pairs_intervals, margin_intervals])
def test_p_intervals_and_verdicts_never_disagree(intervals, margin: float, each: int) -> None:  # type: ignore[no-untyped-def]
    seen = set()
    for seed, other in enumerate(np.linspace(0.55, 0.95, 9)):
        found = compare_margin(intervals(drawn(0.75, float(other), 60, each, seed)), margin)
        assert (found.p_not_inferior <= ONE_SIDED) == (found.low > -margin)
        assert (found.p_equivalent <= TOST) == (found.low_90 > -margin and found.high_90 < margin)
        assert (found.verdict == "equivalent") == (found.p_equivalent <= TOST)
        if found.verdict == "not inferior":
            assert found.p_not_inferior <= ONE_SIDED
        assert found.low <= found.low_90 <= found.high_90 <= found.high
        seen.add(found.verdict)
    assert len(seen) > 1


@pytest.mark.parametrize(
    ("wide", "narrow", "said"),
    [
        ((-0.04, 0.04), (-0.03, 0.03), "equivalent"),
        ((0.01, 0.09), (0.02, 0.08), "equivalent"),  # clearly better, and by less than the margin
        ((-0.11, 0.02), (-0.09, 0.01), "equivalent"),  # at 5%, though not inferior at 2.5% it is not
        ((0.01, 0.2), (0.02, 0.19), "better"),
        ((-0.09, 0.15), (-0.08, 0.14), "not inferior"),
        ((-0.3, -0.12), (-0.29, -0.13), "inferior"),
        ((-0.2, 0.05), (-0.19, 0.04), "undecided"),
        ((-0.2, -0.01), (-0.19, -0.02), "undecided"),  # worse, but perhaps by less than the margin
        ((-0.1, 0.2), (-0.1, 0.2), "undecided"),  # the bound itself does not clear it
    ],
)
def test_what_the_intervals_show(wide: tuple[float, float], narrow: tuple[float, float], said: str) -> None:
    ends = (SimpleNamespace(low=low, high=high) for low, high in (wide, narrow))
    assert verdict(*ends, 0.1) == said
    assert said in VERDICTS


def test_equal_runs_are_equivalent_only_where_there_are_enough_questions() -> None:
    for clusters, said in ((8, "undecided"), (200, "equivalent")):
        same = np.arange(clusters) % 2
        found = compare_margin(margin_intervals(pair_sums(same, same, np.arange(clusters))), 0.05)
        assert found.verdict == said
        assert found.low < 0 < found.high, "that nothing changed does not show that nothing would"
        assert (found.p_equivalent <= TOST) == (said == "equivalent")


def test_one_cluster_one_question_and_none() -> None:
    right, wrong = [1] * 6 + [0] * 2, [0] * 8
    one = compare_margin(margin_intervals(pair_sums(right, right, ["a"] * 8)), 0.1)
    assert (one.verdict, one.low < -0.5, one.high > 0.5) == ("undecided", True, True)
    single = compare_margin(margin_intervals(pair_sums([1], [0], ["a"])), 0.1)
    assert (single.verdict, single.low < 0) == ("undecided", True)
    for pairs in (pair_sums([], [], []), pair_sums([math.nan], [1], ["a"])):
        none = compare_margin(margin_intervals(pairs), 0.1)
        assert none.verdict == "undecided"
        assert all(math.isnan(value) for value in (none.low, none.high_90, none.p_not_inferior, none.p_equivalent))
    all_lost = compare_margin(margin_intervals(pair_sums(wrong, [1] * 8, range(8))), 0.1)
    assert all_lost.verdict == "inferior"
    assert all_lost.p_not_inferior > 0.99


@pytest.mark.parametrize("margin", [0.0, 1.0, math.nan])
def test_a_margin_is_a_share(margin: float) -> None:
    with pytest.raises(ValueError, match="expected a share above 0 and below 1"):
        compare_margin(pairs_intervals(drawn(0.7, 0.7, 20, 1)), margin)


def test_how_many_units_are_needed() -> None:
    assert units_for_margin(0.05, 0.2) == (count_units(0.05, 0.2), count_units(0.05, 0.2, 0.1, 0.9))
    z = stats.norm.ppf
    assert units_for_margin(0.02, 0.3)[0] == pytest.approx(((z(0.975) + z(0.8)) * 0.3 / 0.02) ** 2, abs=3)
    assert units_for_margin(0.02, 0.3)[1] == pytest.approx(((z(0.95) + z(0.9)) * 0.3 / 0.02) ** 2, abs=3)
    assert units_for_margin(0.02, math.nan) == (None, None)
    counts = [units_for_margin(margin, 0.3, changed=0.09)[0] or 0 for margin in (0.02, 0.05, 0.1)]
    assert counts[0] > (units_for_margin(0.02, 0.3)[0] or 0), (
        "where few answers differ, the spread at the margin is larger"
    )
