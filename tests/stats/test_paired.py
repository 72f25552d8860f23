"""Paired tests, corrections for many tests and moderated t tests: published worked examples, by hand, and error rates."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import digamma, polygamma
from scipy.stats import t as student
from scipy.stats import ttest_1samp

from tomserve.stats.paired import (
    adjust,
    cochrans_q,
    estimate_prior,
    mcnemar,
    mean_interval,
    missing_bounds,
    moderate_tests,
    sign_flip,
    smallest_p,
    t_p,
)
from tomserve.stats.proportions import Interval, newcombe

NAN = math.nan


def near(found: Interval, low: float, high: float, abs: float = 0.0005) -> bool:
    return (found.low, found.high) == (pytest.approx(low, abs=abs), pytest.approx(high, abs=abs))


def test_mcnemar_as_published() -> None:
    """Cavo et al., in R contingencytables' tests: exact .052479, mid-p .034690."""
    assert mcnemar(6, 16, 161) == (pytest.approx(0.052479, abs=5e-7), pytest.approx(0.034690, abs=5e-7))


def test_sign_flip_agrees_with_scipy() -> None:
    from scipy.stats import permutation_test

    for seed in range(5):
        d = np.random.default_rng(seed).integers(-3, 5, 7) / 4
        expected = permutation_test((d,), lambda x: float(np.mean(x)), permutation_type="samples")
        assert sign_flip(d) == pytest.approx(float(expected.pvalue))


def test_sign_flip_by_hand() -> None:
    d = [0.5, -0.25, 0.0, 1.0]
    sums = [abs(sum(s * abs(x) for s, x in zip(signs, d, strict=True))) for signs in product((1, -1), repeat=4)]
    assert sign_flip(d) == pytest.approx(np.mean([total >= 1.25 for total in sums]))
    assert sign_flip([0.1, 0.2, 0.3, 0.1, 0.5, 0.2, 0.1]) == smallest_p(7) == 2 / 128


def test_sign_flip_ties_do_not_hang_on_rounding() -> None:
    """.1 + .2 - .3 is not 0 in floating point; all four patterns of |sum| = .6 or 0 must be told apart rightly."""
    assert sign_flip([0.1, 0.2, -0.3]) == 1.0
    assert sign_flip([0.3, 0.1, 0.2]) == 0.25


def test_sign_flip_drawn_is_near_and_repeats() -> None:
    d = np.tile([0.0, 1.0, 1.0, -1.0], 8)
    found = sign_flip(d)
    assert found == sign_flip(d)
    from scipy.stats import binomtest

    assert found == pytest.approx(binomtest(16, 24).pvalue, abs=0.005)  # equal steps: the binomial sign test


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
    assert sign_flip([0, 0, 0]) == sign_flip([0.5]) == 1.0
    assert math.isnan(sign_flip([]))
    assert sign_flip([0.5, 0.5, NAN]) == 0.5
    assert mcnemar(0, 0, 2) == (1, 1)
    assert mcnemar(1, 1, 2)[1] == pytest.approx(0.75)
    assert math.isnan(mcnemar(0, 0, 0)[0])
    assert missing_bounds([1, NAN], [NAN, 0]) == (0.0, 1.0)
    assert math.isnan(missing_bounds([], [])[0])
    assert missing_bounds([1, NAN], [0, 0], lambda t, c: float(t.sum() - c.sum())) == (1.0, 2.0)


def test_adjusting_leaves_undefined_tests_out_of_the_family() -> None:
    def near_to(*values: float) -> object:
        return pytest.approx(list(values), nan_ok=True)

    assert adjust([0.01, NAN, 0.03, 0.5])[:3] == near_to(0.03, NAN, 0.045), "Benjamini and Hochberg is the default"
    assert adjust([0.01, 0.04, NAN, 0.03], "holm") == near_to(0.03, 0.06, NAN, 0.06)
    assert adjust([]) == []
    assert adjust([NAN]) == near_to(NAN)


MEANS, SDS, UNITS = [-0.3, -0.1, 0.05, 0.2], [0.1, 0.4, 0.02, 0.2], [7, 7, 7, 4]


def test_against_the_formulas_of_the_paper() -> None:
    """Section 6.2, with the trigamma function inverted by a search for the least square instead."""
    d, s2 = np.array([6.0, 6, 6, 3]), np.array(SDS) ** 2
    z = np.log(s2)
    e = z - digamma(d / 2) + np.log(d / 2)
    target = np.mean((e - e.mean()) ** 2 * 4 / 3 - polygamma(1, d / 2))
    found = minimize_scalar(
        lambda x: (float(polygamma(1, math.exp(x))) - target) ** 2, bounds=(-5, 5), options={"xatol": 1e-12}
    )
    d0 = 2 * math.exp(found.x)
    s02 = math.exp(e.mean() + digamma(d0 / 2) - math.log(d0 / 2))
    assert estimate_prior(s2, d) == (pytest.approx(d0, rel=1e-4), pytest.approx(s02, rel=1e-4))
    posterior = (d0 * s02 + d * s2) / (d0 + d)
    statistic = np.array(MEANS) / np.sqrt(posterior / np.array(UNITS))
    found = moderate_tests(MEANS, SDS, UNITS, shared=0.0)
    assert found == pytest.approx(2 * student.sf(np.abs(statistic), d + d0), rel=1e-4)


def pooled_p(means: list[float], units: list[int], df: float | list[float]) -> object:
    """p where the variance of all classes is .04, on these degrees of freedom."""
    return pytest.approx(2 * student.sf(np.array(means) / np.sqrt(0.04 / np.array(units)), df))


def test_variances_that_differ_by_chance_only_are_pooled() -> None:
    assert estimate_prior(np.full(3, 0.04), np.array([6.0, 6.0, 3.0])) == (math.inf, pytest.approx(0.04))
    found = moderate_tests([0.1, 0.2, 0.3], [0.2, 0.2, 0.2], [7, 7, 4], shared=0.0)
    assert found == pooled_p([0.1, 0.2, 0.3], [7, 7, 4], 15), "at most the pooled df"


def test_classes_that_share_their_control_know_the_pooled_variance_less_well() -> None:
    assert moderate_tests([0.1, 0.2, 0.3], [0.2, 0.2, 0.2], [7, 7, 4]) == pooled_p([0.1, 0.2, 0.3], [7, 7, 4], 10)
    found = moderate_tests([0.1, 0.2], [0.2, 0.2], [9, 2], shared=1.0)
    assert found == pooled_p([0.1, 0.2], [9, 2], [8.0, 4.5]), "never fewer than its own"


def test_the_level_is_kept_under_a_common_control() -> None:
    """Ten classes of seven stages without any effect, half of whose variance is the control's."""
    rng, rejected, discovered, uncorrected = np.random.default_rng(3), [], [], []
    for _ in range(150):
        x = rng.normal(0, 0.15, (10, 7)) - rng.normal(0, 0.15, 7)
        given = x.mean(axis=1), x.std(axis=1, ddof=1), [7] * 10
        p, independent = moderate_tests(*given), moderate_tests(*given, shared=0.0)
        rejected.append(np.mean(p <= 0.05))
        uncorrected.append(np.mean(independent <= 0.05))
        discovered.append(min(adjust(p.tolist())) <= 0.05)
    assert np.mean(rejected) <= 0.06
    assert np.mean(rejected) < np.mean(uncorrected)
    assert np.mean(discovered) <= 0.09


def test_a_single_class_with_variance_gets_an_ordinary_t() -> None:
    x = np.array([0.1, 0.3, -0.1, 0.4])
    found = moderate_tests([x.mean(), 0.0, 0.5, 0.2], [x.std(ddof=1), 0.0, 0.0, math.nan], [4, 4, 4, 1])
    assert found[0] == pytest.approx(ttest_1samp(x, 0).pvalue)
    assert found[1] == 1.0
    assert np.isnan(found[2:]).all()


def test_a_variance_of_zero_is_offset_for_the_prior_and_borrows_the_others() -> None:
    assert 0 < moderate_tests([-0.3, 0.1, 0.0, 0.1], [0.0, 0.2, 0.3, 0.25], [7] * 4)[0] < 1
    squares = np.array([0.0, 0.04, 0.09, 0.0625])
    by_hand = estimate_prior(np.array([1e-5 * 0.05125, *squares[1:]]), np.full(4, 6.0))
    assert estimate_prior(squares, np.full(4, 6.0)) == pytest.approx(by_hand)
