"""Moderated t tests of many mean differences: variances from few units are shrunken towards what the others show.

Limma's empirical Bayes (Smyth, "Linear models and empirical Bayes methods for assessing differential expression in
microarray experiments", Stat Appl Genet Mol Biol 3:3, 2004, sections 3 to 6). With seven stages the variance of one
class's differences is known badly; ten classes together say how large such variances are, and how much they vary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tomserve.stats.distributions import t_quantiles, t_two_sided
from tomserve.stats.roots import root

Floats = npt.NDArray[np.float64]
OFFSET = 1e-5
"""A variance of zero has no logarithm; for estimating the prior it counts as this share of the median variance."""


SHARED = 0.5
"""The correlation of two classes' differences where both are compared with the same control tasks, and all tasks vary
alike: the control's half of the variance is common to both.
"""


@dataclass(frozen=True)
class Moderated:
    """Moderated t tests, one a class; nan where undefined.

    `p`, `df`, `low`, `high`: [classes], the two-sided p of a mean difference of zero, its degrees of freedom, and the
    interval that this test inverts, in [-1, 1]. `prior_df`, `prior_variance`: d0 and s0^2 of the paper, how many units'
    worth of evidence the shared variance is, and that variance; infinity where the classes' variances differ by no more
    than chance, and 0 and nan where nothing was shared. `method`: what was done, in words.
    """

    p: Floats
    df: Floats
    low: Floats
    high: Floats
    prior_df: float
    prior_variance: float
    method: str


def moderated(
    means: Sequence[float] | Floats,
    sds: Sequence[float] | Floats,
    units: Sequence[int],
    *,
    shared: float = SHARED,
    level: float = 0.95,
) -> Moderated:
    """Test each class's mean difference by a t statistic whose variance is shared among the classes.

    The mean difference of a class is for the population that its units (stages) are drawn from. Its variance s^2, on d
    = units - 1 df, is replaced by (d s^2 + d0 s0^2) / (d + d0), and the statistic has d + d0 df, at most those of the
    pooled variance. It assumes independent units, means that are about normal, and true variances that come from one
    scaled inverse chi-square distribution, so that one class's variance says something about another's. d0 and s0^2 are
    estimated from the moments of log s^2 (section 6.2).

    The pooled variance has as many df as all classes together if these are independent, as the genes of the paper are
    taken to be. Classes with the same control tasks are not: where their differences are correlated by r, their
    variances are by r^2, and the pooled one is known only as well as the sum of all d over 1 + (k - 1) r^2 says, for k
    classes. Without this, .058 to .064 of the tests of ten classes without any effect rejected at .05, and in .06 to
    .07 of runs one did after adjustment; with it .050 and .041.

    means: mean of the units' differences, in [-1, 1] [classes].
    sds: their standard deviations (divisor units - 1) [classes]; nan where there is one unit.
    units: numbers of units [classes].
    shared: correlation r of the classes' differences, 0 to 1; .5, the default, where classes share their control tasks.
    level: of confidence, .95 by default.

    A class of fewer than two units gets nan. A variance of zero enters the prior as a small share of the median, as
    limma documents. Where fewer than two classes have a variance above zero nothing can be shared: the tests are then
    ordinary t tests, `method` says so, and a class without variance gets p = 1 if its mean is zero and nan otherwise.
    Raises ValueError for columns of unequal length.

        >>> found = moderated([-0.3, -0.1, 0.0], [0.2, 0.2, 0.2], [7, 7, 7], shared=0.0)
        >>> found.prior_df, found.p.round(4).tolist()
        (inf, [0.0009, 0.2024, 1.0])
    """
    mean, sd, count = (np.asarray(column, dtype=float) for column in (means, sds, units))
    if not mean.shape == sd.shape == count.shape:
        raise ValueError(f"{mean.size} means, {sd.size} SDs, {count.size} numbers of units: expected equal lengths")
    usable = (count >= 2) & np.isfinite(mean) & np.isfinite(sd)
    variance, d = np.where(usable, sd, np.nan) ** 2, np.where(usable, count - 1, np.nan)
    if int(np.sum(variance[usable] > 0)) < 2:
        prior_df, prior_variance = 0.0, math.nan
        shrunken, df = variance, d
        method = "ordinary t, since fewer than two classes vary"
    else:
        prior_df, prior_variance = prior(variance[usable], d[usable])
        shrunken = _shrunken(variance, d, prior_df, prior_variance)
        most = float(d[usable].sum()) / (1 + (int(usable.sum()) - 1) * shared**2)
        df = np.minimum(d + prior_df, np.maximum(d, most))
        method = f"moderated t, prior df {prior_df:.1f}"
    return Moderated(*_tests(mean, shrunken, count, df, level), prior_df, prior_variance, method)


def prior(variances: Floats, df: Floats) -> tuple[float, float]:
    """The prior degrees of freedom d0 and variance s0^2 that the classes' variances suggest.

    log s^2 less its expected value given s0^2 has the variance trigamma(d/2) + trigamma(d0/2), so that d0 follows from
    the spread that is left when sampling is taken off (section 6.2 of the paper). Where none is left d0 is infinite,
    and s0^2 the pooled variance (limma's mean, here weighted by df).

    variances: at least two, of which one is above zero [classes]; df: of each, above zero [classes].
    """
    from scipy.special import digamma, polygamma

    middle = float(np.median(variances)) or float(np.median(variances[variances > 0]))
    z = np.log(np.maximum(variances, OFFSET * middle)) - digamma(df / 2) + np.log(df / 2)
    spread = float(np.var(z, ddof=1)) - float(np.mean(polygamma(1, df / 2)))
    if spread <= 0:
        return math.inf, float(np.sum(df * variances) / np.sum(df))
    half = _inverse_trigamma(spread)
    return 2 * half, math.exp(float(np.mean(z)) + float(digamma(half)) - math.log(half))


def _inverse_trigamma(value: float) -> float:
    """The positive number whose trigamma function is `value`."""
    from scipy.special import polygamma

    # trigamma(x) lies between 1/x and 1/x + 1/x^2, which brackets the root on both sides
    low, high = 1 / value, (1 + math.sqrt(1 + 4 * value)) / (2 * value)
    return root(lambda x: value - float(polygamma(1, x)), low, high * (1 + 1e-12))


def _shrunken(variance: Floats, d: Floats, prior_df: float, prior_variance: float) -> Floats:
    """The posterior variances [classes]."""
    if math.isinf(prior_df):
        return np.where(np.isnan(variance), np.nan, prior_variance)
    return np.asarray((d * variance + prior_df * prior_variance) / (d + prior_df), dtype=float)


def _tests(
    mean: Floats, variance: Floats, units: Floats, df: Floats, level: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """p, df and bounds of t tests with these variances [classes]."""
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.sqrt(variance / units)
        p = t_two_sided(mean / error, df)
        half = t_quantiles(0.5 + level / 2, df) * error
    none = error == 0
    p = np.where(none, np.where(np.abs(mean) < 1e-12, 1.0, np.nan), p)
    low, high = (np.where(none, np.nan, np.clip(bound, -1, 1)) for bound in (mean - half, mean + half))
    return p, df, low, high
