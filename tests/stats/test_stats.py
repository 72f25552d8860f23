"""Proportions, paired tests and planning: published worked examples, hand-made cases, degenerate cases, properties."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from tomserve.stats.paired import (
    adjust,
    cochrans_q,
    mcnemar,
    mean_interval,
    missing_bounds,
    sign_flip,
    t_p,
)
from tomserve.stats.power import count_units, detectable_sd, minimum_detectable_effect, plan
from tomserve.stats.proportions import (
    Interval,
    newcombe,
    risk_ratio,
    tango,
    tango_excludes_zero,
    wilson,
)

NAN = math.nan


def near(found: Interval, low: float, high: float, abs: float = 0.0005) -> bool:
    return (found.low, found.high) == (pytest.approx(low, abs=abs), pytest.approx(high, abs=abs))


# published worked examples


def test_newcombe_unpaired_as_published() -> None:
    """Newcombe, Stat Med 17:873 (1998), table II, method 10; figures as in the R package propint's tests."""
    assert near(newcombe(56, 70, 48, 80), 0.0524, 0.3339, abs=0.00005)
    assert near(newcombe(9, 10, 3, 10), 0.1705, 0.8090, abs=0.00005)


def test_tango_as_published() -> None:
    """Cavo et al. in R contingencytables' tests; Fagerland et al. (2014), airways; Tango (1998), lenses, 90 %."""
    assert near(tango(6, 16, 161), -0.1240, -0.0054, abs=0.00005)
    assert near(tango(1, 7, 21), -0.517, -0.026)
    assert near(tango(0, 1, 44, level=0.9), -0.096, 0.037)


def test_tango_inverts_its_own_score_test() -> None:
    """At zero difference the score statistic is McNemar's (b - c) / sqrt(b + c): the bound is 0 where that is z."""
    z = 1.959963984540054
    gained = z**2  # (b - 0) / sqrt(b) = z
    assert tango(gained, 0, 20).low == pytest.approx(0, abs=1e-9)


def test_mcnemar_as_published() -> None:
    """Cavo et al., in R contingencytables' tests: exact .052479, mid-p .034690."""
    found = mcnemar([1] * 65 + [0] * 96, [1] * 59 + [0] * 6 + [1] * 16 + [0] * 80)
    assert (found.both, found.gained, found.lost, found.neither) == (59, 6, 16, 80)
    assert (found.p_exact, found.p_mid) == (pytest.approx(0.052479, abs=5e-7), pytest.approx(0.034690, abs=5e-7))


# agreement with scipy and statsmodels


@pytest.mark.parametrize("counts", [(3, 7, 5, 7), (3.5, 7, 2.25, 4), (5, 20, 9, 15), (0.5, 7, 6.5, 7)])
def test_ratio_agrees_with_statsmodels_inside(counts: tuple[float, ...]) -> None:
    from statsmodels.stats.proportion import confint_proportions_2indep

    low, high = confint_proportions_2indep(*counts, compare="ratio", method="score")
    assert near(risk_ratio(*counts), low, high, abs=1e-6)


def test_ratio_at_the_edges() -> None:
    assert near(risk_ratio(7, 7, 3, 7), 1.17549, 6.56483, abs=1e-5)  # statsmodels 0.15.0 returns 1.4 here
    assert risk_ratio(7, 7, 7, 7).low == pytest.approx(1 / risk_ratio(7, 7, 7, 7).high)
    none, reverse = risk_ratio(0, 7, 5, 7), risk_ratio(5, 7, 0, 7)
    assert (none.estimate, none.low, 0 < none.high < 1) == (0, 0, True)
    assert (reverse.estimate, reverse.low, reverse.high) == (math.inf, pytest.approx(1 / none.high), math.inf)
    assert all(math.isnan(risk_ratio(0, n, 0, 4).low) for n in (7, 0))


def test_sign_flip_agrees_with_scipy() -> None:
    from scipy.stats import permutation_test

    for seed in range(5):
        d = np.random.default_rng(seed).integers(-3, 5, 7) / 4
        expected = permutation_test((d,), lambda x: float(np.mean(x)), permutation_type="samples")
        assert sign_flip(d).p == pytest.approx(float(expected.pvalue))


def test_sign_flip_by_hand() -> None:
    d = [0.5, -0.25, 0.0, 1.0]
    sums = [abs(sum(s * abs(x) for s, x in zip(signs, d, strict=True))) for signs in product((1, -1), repeat=4)]
    assert sign_flip(d).p == pytest.approx(np.mean([total >= 1.25 for total in sums]))
    found = sign_flip([0.1, 0.2, 0.3, 0.1, 0.5, 0.2, 0.1])
    assert (found.p, found.smallest, found.exact) == (2 / 128, 2 / 128, True)


def test_sign_flip_ties_do_not_hang_on_rounding() -> None:
    """.1 + .2 - .3 is not 0 in floating point; all four patterns of |sum| = .6 or 0 must be told apart rightly."""
    assert sign_flip([0.1, 0.2, -0.3]).p == 1.0
    assert sign_flip([0.3, 0.1, 0.2]).p == 0.25


def test_sign_flip_drawn_is_near_and_repeats() -> None:
    d = np.tile([0.0, 1.0, 1.0, -1.0], 8)
    found = sign_flip(d)
    assert not found.exact
    assert found == sign_flip(d)
    from scipy.stats import binomtest

    assert found.p == pytest.approx(binomtest(16, 24).pvalue, abs=0.005)  # equal steps: the binomial sign test


def test_mean_interval_and_its_fallback() -> None:
    found = mean_interval([0.1, 0.2, 0.3])
    assert near(found, 0.2 - 4.30265 * 0.1 / math.sqrt(3), 0.2 + 4.30265 * 0.1 / math.sqrt(3), abs=1e-5)
    assert math.isnan(mean_interval([0.2, 0.2]).low)
    filled = mean_interval([0.0] * 7, fallback=newcombe(7, 7, 7, 7))
    assert near(filled, -0.3543, 0.3543)
    assert "zero variance" in filled.method
    assert "one unit" in mean_interval([0.3], fallback=newcombe(1, 1, 0.7, 1)).method
    assert math.isnan(mean_interval([]).estimate)
    assert math.isnan(t_p([0.5, 0.5]))


def test_cochrans_q() -> None:
    """Two columns: McNemar's (b - c)^2 / (b + c)."""
    found = cochrans_q(np.array([[1, 0]] * 6 + [[0, 1]] * 2 + [[1, 1]] * 3))
    assert (found.q, found.df, found.informative) == (pytest.approx(2.0), 1, 8)
    assert cochrans_q([[1, 1, 1], [0, 0, 0]]).p == 1
    assert math.isnan(cochrans_q(np.empty((0, 3))).p)
    with pytest.raises(ValueError, match="two or more"):
        cochrans_q([[1], [0]])


def test_degenerate_cases_of_paired_tests() -> None:
    assert sign_flip([0, 0, 0]).p == sign_flip([0.5]).p == 1.0
    assert math.isnan(sign_flip([]).p)
    assert sign_flip([0.5, NAN]).units == 1
    assert mcnemar([1, 0], [1, 0]).p_exact == 1
    assert mcnemar([1, 0], [0, 1]).p_mid == pytest.approx(0.75)
    assert math.isnan(mcnemar([], []).p_exact)
    assert mcnemar([1, NAN, 1], [0, 1, NAN]).gained == 1
    assert missing_bounds([1, NAN], [NAN, 0]) == (0.0, 1.0)
    assert math.isnan(missing_bounds([], [])[0])
    assert missing_bounds([1, NAN], [0, 0], lambda t, c: float(t.sum() - c.sum())) == (1.0, 2.0)


def test_adjusting_leaves_undefined_tests_out_of_the_family() -> None:
    def near_to(*values: float) -> object:
        return pytest.approx(list(values), nan_ok=True)

    assert adjust([0.01, NAN, 0.03, 0.5], "by")[:3] == near_to(0.055, NAN, 0.0825)
    assert adjust([0.01, NAN, 0.03, 0.5])[:3] == near_to(0.03, NAN, 0.045), "Benjamini and Hochberg is the default"
    assert adjust([]) == []
    assert adjust([NAN]) == near_to(NAN)
    assert adjust([0.02] * 10, "by")[0] == pytest.approx(0.02 * sum(1 / i for i in range(1, 11)))


@pytest.mark.parametrize(
    "call",
    [
        lambda: wilson(3, 2),
        lambda: newcombe(-1, 4, 0, 4),
        lambda: tango(3, 2, 4),
        lambda: tango_excludes_zero(3, 2, 4),
    ],
)
def test_impossible_counts_are_refused(call) -> None:
    with pytest.raises(ValueError, match=r"expected|negative"):
        call()


# properties

arm = st.integers(1, 12).flatmap(lambda n: st.tuples(st.integers(0, 2 * n).map(lambda k: k / 2), st.just(n)))
cells = st.tuples(*[st.integers(0, 9)] * 4).filter(lambda c: sum(c) > 0)


@settings(deadline=None)  # the first call imports statsmodels
@given(arm)
def test_wilson_holds_its_estimate(found: tuple[float, int]) -> None:
    interval, mirror = wilson(*found), wilson(found[1] - found[0], found[1])
    assert 0 <= interval.low <= interval.estimate <= interval.high <= 1
    assert interval.low == pytest.approx(1 - mirror.high)


@settings(deadline=None)  # the first call imports statsmodels
@given(arm, arm)
def test_unpaired_intervals_hold_their_estimate_and_swap(one: tuple[float, int], two: tuple[float, int]) -> None:
    found, mirror = newcombe(*one, *two), newcombe(*two, *one)
    assert -1 <= found.low <= found.estimate + 1e-12
    assert found.estimate - 1e-12 <= found.high <= 1
    assert (found.low, found.high) == (pytest.approx(-mirror.high), pytest.approx(-mirror.low))
    if one[0] and two[0]:
        ratio, inverse = risk_ratio(*one, *two), risk_ratio(*two, *one)
        assert 0 < ratio.low <= ratio.estimate <= ratio.high < math.inf
        assert ratio.low == pytest.approx(1 / inverse.high, rel=1e-6)


@settings(deadline=None)  # the first call imports statsmodels
@given(cells)
def test_paired_intervals_hold_their_estimate_and_swap(found: tuple[int, int, int, int]) -> None:
    _, gained, lost, _ = found
    interval, mirror = tango(gained, lost, sum(found)), tango(lost, gained, sum(found))
    assert -1 <= interval.low <= interval.estimate + 1e-9
    assert interval.estimate - 1e-9 <= interval.high <= 1
    assert (interval.low, interval.high) == pytest.approx((-mirror.high, -mirror.low), abs=1e-9)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(-4, 4).map(lambda x: x / 4), min_size=1, max_size=9))
def test_sign_flip_is_bounded_and_mirrored(d: list[float]) -> None:
    found = sign_flip(d)
    assert found.smallest - 1e-12 <= found.p <= 1
    assert found.p == sign_flip([-x for x in d]).p


@settings(deadline=None)  # the first call imports statsmodels
@given(st.lists(st.floats(0, 1) | st.just(NAN), min_size=1, max_size=12))
def test_by_never_lowers_a_p(p: list[float]) -> None:
    for before, after in zip(p, adjust(p), strict=True):
        assert (math.isnan(before) and math.isnan(after)) or before <= after <= 1


@given(
    st.floats(0, 30),
    st.floats(0, 30),
    st.floats(0, 60),
    st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.9999, 1 - 1e-12]),
)
def test_whether_tangos_interval_excludes_zero_is_known_without_its_ends(
    gained: float, lost: float, alike: float, level: float
) -> None:
    n = gained + lost + alike
    found = tango(gained, lost, n, level)
    assume(
        math.isnan(found.low) or min(abs(found.low), abs(found.high)) > 1e-9
    )  # nearer to 0 it is a matter of rounding
    assert tango_excludes_zero(gained, lost, n, level) == (found.low > 0 or found.high < 0)


# planning


@pytest.mark.parametrize(("units", "alpha"), [(2, 0.05), (7, 0.05), (7, 0.005), (100, 0.05)])
def test_statsmodels_finds_the_same_effect(units: int, alpha: float) -> None:
    from statsmodels.stats.power import TTestPower

    expected = TTestPower().solve_power(nobs=units, alpha=alpha, power=0.8)
    assert detectable_sd(units, alpha) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("family", [1, 10])
def test_the_promised_power_is_had(family: int) -> None:
    effect = minimum_detectable_effect(7, 0.2, family=family)
    x = np.random.default_rng(3).normal(effect, 0.2, (20_000, 7))
    assert np.mean(ttest_1samp(x, 0, axis=1).pvalue <= 0.05 / family) == pytest.approx(0.8, abs=0.01)


def test_units_needed_are_the_fewest() -> None:
    for family in (1, 10):
        m = count_units(-0.2, 0.2, family=family)
        assert m is not None
        assert minimum_detectable_effect(m, 0.2, family=family) <= 0.2
        assert minimum_detectable_effect(m - 1, 0.2, family=family) > 0.2
    assert count_units(0.9, 0.0) == 2
    assert [count_units(*given) for given in ((0.0, 0.2), (math.nan, 0.2), (0.2, math.nan), (1e-9, 0.2))] == [None] * 4


def test_what_no_effect_can_reach_is_undefined() -> None:
    assert math.isnan(minimum_detectable_effect(3, 0.5))
    assert math.isnan(minimum_detectable_effect(1, 0.1))
    assert math.isnan(minimum_detectable_effect(7, math.nan))
    assert detectable_sd(7, power=0.04) == 0.0, "less power than the level needs no effect"
    assert [round(detectable_sd(m), 2) for m in (7, 4)] == [1.27, 2.13]
    assert [plan(m).attainable for m in (5, 6)] == [False, True]
    assert plan(7, 0.2, family=10).minimum_detectable_effect == minimum_detectable_effect(7, 0.2, family=10)
    with pytest.raises(ValueError, match="expected two numbers"):
        detectable_sd(7, alpha=0.0)
