"""Moderated t tests: the published formulas worked by hand, limiting cases, and their false discoveries and power."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import digamma, polygamma
from scipy.stats import t as student
from scipy.stats import ttest_1samp

from tomserve.stats.paired import adjust, estimate_prior, moderate_tests

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
    result = moderate_tests(MEANS, SDS, UNITS, shared=0.0)
    assert (result.prior_df, result.prior_variance) == (pytest.approx(d0, rel=1e-4), pytest.approx(s02, rel=1e-4))
    posterior = (d0 * s02 + d * s2) / (d0 + d)
    statistic = np.array(MEANS) / np.sqrt(posterior / np.array(UNITS))
    assert result.p == pytest.approx(2 * student.sf(np.abs(statistic), d + d0), rel=1e-4)
    assert result.df == pytest.approx(d + d0, rel=1e-4)
    half = student.ppf(0.975, d + d0) * np.sqrt(posterior / np.array(UNITS))
    assert (result.low[1], result.high[1]) == pytest.approx((-0.1 - half[1], -0.1 + half[1]), rel=1e-4)


def test_variances_that_differ_by_chance_only_are_pooled() -> None:
    result = moderate_tests([0.1, 0.2, 0.3], [0.2, 0.2, 0.2], [7, 7, 4], shared=0.0)
    assert math.isinf(result.prior_df)
    assert result.prior_variance == pytest.approx(0.04)
    assert result.df.tolist() == [15.0, 15.0, 15.0], "at most the pooled df"
    assert result.p[2] == pytest.approx(2 * student.sf(0.3 / math.sqrt(0.04 / 4), 15))


def test_classes_that_share_their_control_know_the_pooled_variance_less_well() -> None:
    result = moderate_tests([0.1, 0.2, 0.3], [0.2, 0.2, 0.2], [7, 7, 4])
    assert result.df.tolist() == pytest.approx([15 / 1.5] * 3)
    assert moderate_tests([0.1, 0.2], [0.2, 0.2], [9, 2], shared=1.0).df.tolist() == [8.0, 4.5], (
        "never fewer than its own"
    )


def test_the_level_is_kept_under_a_common_control() -> None:
    """Ten classes of seven stages without any effect, half of whose variance is the control's."""
    rng, rejected, discovered, uncorrected = np.random.default_rng(3), [], [], []
    for _ in range(150):
        x = rng.normal(0, 0.15, (10, 7)) - rng.normal(0, 0.15, 7)
        given = x.mean(axis=1), x.std(axis=1, ddof=1), [7] * 10
        p, independent = moderate_tests(*given).p, moderate_tests(*given, shared=0.0).p
        rejected.append(np.mean(p <= 0.05))
        uncorrected.append(np.mean(independent <= 0.05))
        discovered.append(min(adjust(p.tolist())) <= 0.05)
    assert np.mean(rejected) <= 0.06
    assert np.mean(rejected) < np.mean(uncorrected)
    assert np.mean(discovered) <= 0.09


def test_variances_that_have_nothing_in_common_are_left_alone() -> None:
    rng = np.random.default_rng(2)
    sds = 10.0 ** np.linspace(-30, -1, 9)
    data = [rng.normal(0, sd, 7) for sd in sds]
    result = moderate_tests([x.mean() for x in data], [x.std(ddof=1) for x in data], [7] * 9)
    assert result.prior_df < 0.1
    assert result.p[3:] == pytest.approx([ttest_1samp(x, 0).pvalue for x in data[3:]], rel=0.05)


def test_a_single_class_with_variance_gets_an_ordinary_t() -> None:
    x = np.array([0.1, 0.3, -0.1, 0.4])
    result = moderate_tests([x.mean(), 0.0, 0.5, 0.2], [x.std(ddof=1), 0.0, 0.0, math.nan], [4, 4, 4, 1])
    assert "ordinary t" in result.method
    assert (result.prior_df, math.isnan(result.prior_variance)) == (0.0, True)
    assert result.p[0] == pytest.approx(ttest_1samp(x, 0).pvalue)
    assert result.p[1] == 1.0
    assert np.isnan(result.p[2:]).all()
    assert np.isnan(result.low[1:]).all()


def test_a_variance_of_zero_is_offset_for_the_prior_and_borrows_the_others() -> None:
    result = moderate_tests([-0.3, 0.1, 0.0, 0.1], [0.0, 0.2, 0.3, 0.25], [7] * 4)
    assert 0 < result.p[0] < 1
    by_hand = estimate_prior(np.array([1e-5 * 0.05125, 0.04, 0.09, 0.0625]), np.full(4, 6.0))
    assert (result.prior_df, result.prior_variance) == pytest.approx(by_hand)


def test_p_and_interval_agree_at_five_percent() -> None:
    rng = np.random.default_rng(5)
    result = moderate_tests(rng.normal(0, 0.1, 300), rng.uniform(0.05, 0.3, 300), rng.integers(2, 9, 300))
    excluded = (result.low > 0) | (result.high < 0)
    assert (excluded == (result.p <= 0.05)).all()
    assert 0 < excluded.sum() < 300
