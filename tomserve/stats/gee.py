"""A risk difference by GEE with stratum effects, computed from sums by cluster.

Generalised estimating equations (Liang and Zeger, Biometrika 73:13, 1986) with an exchangeable correlation within
clusters and the bias-reduced covariance of Mancl and DeRouen (Biometrics 57:126, 2001), as in statsmodels. Where every
cluster lies in one stratum and one arm, all its rows have the same expectation, so that their number, the sum of their
outcomes and the sum of the squares are all that the equations need. The matrix of the normal equations is then diagonal
but for the row and column of the treatment. A fit takes time and memory in proportion to the clusters, while the design
matrix that statsmodels needs grows with rows times strata.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]
TOLERANCE = 1e-6
"""The iteration stops once the norm of the score (the estimating equations) is below this, as in statsmodels."""
ITERATIONS = 60
"""The most steps made after the correlation was first estimated, as in statsmodels."""
_START = 25
"""Steps made as if rows were independent before the correlation is first estimated; statsmodels starts from such a fit,
too.
"""


@dataclass(frozen=True)
class Clusters:
    """What the equations need to know, one entry a cluster [clusters].

    `rows`: number of answers; `sums`, `squares`: sum of the outcomes and of their squares; `arm`: 1 treated, 0 control;
    `stratum`: codes from 0, where every stratum has clusters in both arms.
    """

    rows: Floats
    sums: Floats
    squares: Floats
    arm: Floats
    stratum: Codes


@dataclass(frozen=True)
class _Inverse:
    """The inverse of the normal equations' matrix [[diagonal, corner], [corner', last]], strata first and the treatment
    last. `schur` is last - corner' diagonal^-1 corner.
    """

    diagonal: Floats
    corner: Floats
    schur: float

    @classmethod
    def of(cls, data: Clusters, weights: Floats) -> _Inverse:
        """The inverse for these clusters, each with its weight [clusters]."""
        diagonal = _sums(data, weights)
        corner = _sums(data, weights * data.arm)
        return cls(diagonal, corner, float(corner.sum() - np.sum(corner**2 / diagonal)))

    def solve(self, strata: Floats, treatment: float) -> tuple[Floats, float]:
        """The coefficients (of the strata [strata], of the treatment) that solve the equations with this right-hand
        side.
        """
        last = (treatment - float(np.sum(self.corner / self.diagonal * strata))) / self.schur
        return (strata - self.corner * last) / self.diagonal, last

    def quadratic(self, data: Clusters) -> Floats:
        """By cluster the value x' inverse x [clusters], where x is the cluster's design row."""
        share = (self.corner / self.diagonal)[data.stratum]
        return 1 / self.diagonal[data.stratum] + (data.arm - share) ** 2 / self.schur


def _sums(data: Clusters, values: Floats) -> Floats:
    """Sums of the clusters' values by stratum [strata]."""
    return np.bincount(data.stratum, values).astype(float)


def clusters_of(y: Floats, arm: npt.NDArray[np.bool_], cluster: Codes, stratum: Codes) -> Clusters | None:
    """Sum rows up by cluster; None where a cluster lies in several strata or arms, which these sums cannot describe.

    y: outcomes, none missing [rows]; arm: whether a row is treated [rows]; cluster, stratum: codes from 0 [rows].
    """
    _, first = np.unique(cluster, return_index=True)
    treated, strata = arm[first].astype(float), stratum[first]
    if not (np.array_equal(treated[cluster], arm) and np.array_equal(strata[cluster], stratum)):
        return None
    counts, sums, squares = (np.bincount(cluster, values).astype(float) for values in (np.ones_like(y), y, y * y))
    return Clusters(counts, sums, squares, treated, strata)


@dataclass(frozen=True)
class Shares:
    """Fitted shares of both arms, each a mean over the strata with equal weight, and the covariance of these two
    estimates [2, 2], in the order treated, control.
    """

    treated: float
    control: float
    covariance: Floats

    @property
    def difference(self) -> float:
        """The risk difference, treated less control."""
        return self.treated - self.control

    @property
    def error(self) -> float:
        """The standard error of the risk difference."""
        return math.sqrt(max(0.0, float(self.covariance[0, 0] + self.covariance[1, 1] - 2 * self.covariance[0, 1])))

    def finite(self) -> bool:
        """Whether shares and errors are numbers at all."""
        return bool(np.isfinite([self.treated, self.control]).all() and np.isfinite(self.covariance).all())


def fitted_shares(data: Clusters, *, binomial: bool) -> Shares | None:
    """The shares of both arms (mean over the strata, each of equal weight) and their errors.

    They describe these strata, for further clusters of the same kind, and assume that clusters are independent within
    them. None where the fit does not converge or a fitted probability is 0 or 1.

    data: sums by cluster, from `clusters_of`.
    binomial: whether to fit logits, whose coefficients are turned into shares by standardisation (delta method for the
        errors); otherwise a linear model, whose treatment coefficient is the difference of the shares itself.
    """
    with np.errstate(all="ignore"):  # a fit that overflows is not finite, and None is returned
        fit = _fit(data, binomial)
        if fit is None:
            return None
        strata, treatment, correlation = fit
        if not binomial:
            p1, p0, v1, v0 = strata + treatment, strata, np.ones_like(strata), np.ones_like(strata)
        else:
            p1, p0 = 1 / (1 + np.exp(-(strata + treatment))), 1 / (1 + np.exp(-strata))
            v1, v0 = p1 * (1 - p1), p0 * (1 - p0)
            if min(v1.min(), v0.min()) < 1e-6:
                return None
        gradients = (v1 / strata.size, float(v1.mean())), (v0 / strata.size, 0.0)
        parts = [_parts(data, strata, treatment, correlation, of, binomial) for of in gradients]
        covariance = np.array([[float(one @ other) for other in parts] for one in parts])
        found = Shares(float(p1.mean()), float(p0.mean()), covariance)
        return found if found.finite() else None


def _fit(data: Clusters, binomial: bool) -> tuple[Floats, float, float] | None:
    """Fit the equations: stratum effects [strata], treatment effect, correlation within clusters; None without
    convergence.
    """
    strata, treatment, correlation = np.zeros(int(data.stratum.max()) + 1), 0.0, 0.0
    for step in range(_START + ITERATIONS):
        mean, variance, slope = _moments(data, strata, treatment, binomial)
        inflation = 1 + (data.rows - 1) * correlation
        score = slope / variance * (data.sums - data.rows * mean) / inflation
        scores = _sums(data, score), float(score @ data.arm)
        inverse = _Inverse.of(data, slope**2 / variance * data.rows / inflation)
        more, last = inverse.solve(*scores)
        strata, treatment = strata + more, treatment + last
        norm = math.hypot(float(np.sqrt(np.sum(scores[0] ** 2))), scores[1])
        if not math.isfinite(norm) or not math.isfinite(treatment):
            return None
        if step >= _START and norm < TOLERANCE:
            return strata, treatment, correlation
        if step >= _START - 1:
            correlation = _correlation(data, strata, treatment, binomial)
    return None


def _moments(data: Clusters, strata: Floats, treatment: float, binomial: bool) -> tuple[Floats, Floats, Floats]:
    """By cluster [clusters]: the expectation of a row, its variance up to a common scale, and the derivative of the
    expectation by the linear predictor.
    """
    linear = strata[data.stratum] + treatment * data.arm
    if not binomial:
        return linear, np.ones_like(linear), np.ones_like(linear)
    mean = 1 / (1 + np.exp(-linear))
    variance = mean * (1 - mean)
    return mean, variance, variance


def _correlation(data: Clusters, strata: Floats, treatment: float, binomial: bool) -> float:
    """Moment estimate of the exchangeable correlation: mean product of two residuals of a cluster over the scale."""
    mean, variance, _ = _moments(data, strata, treatment, binomial)
    squares = (data.squares - 2 * mean * data.sums + data.rows * mean**2) / variance
    products = ((data.sums - data.rows * mean) ** 2 / variance - squares) / 2
    coefficients = strata.size + 1
    scale = squares.sum() / (data.rows.sum() - coefficients)
    pairs = np.sum(data.rows * (data.rows - 1)) / 2
    return float(products.sum() / scale / (pairs - coefficients))  # nan where no residual is left


def _parts(
    data: Clusters,
    strata: Floats,
    treatment: float,
    correlation: float,
    gradient: tuple[Floats, float],
    binomial: bool,
) -> Floats:
    """What each cluster adds to the error of gradient' coefficients [clusters], by the bias-reduced sandwich of Mancl
    and DeRouen (2001): the sum of the squares is the variance, the sum of products of two of them a covariance.

    gradient: derivative of the estimate by the stratum effects [strata] and by the treatment effect.
    """
    mean, variance, slope = _moments(data, strata, treatment, binomial)
    inflation = 1 + (data.rows - 1) * correlation
    inverse = _Inverse.of(data, slope**2 / variance * data.rows / inflation)
    leverage = slope**2 / variance * data.rows / inflation * inverse.quadratic(data)
    residual = (data.sums - data.rows * mean) / (1 - leverage)
    towards, last = inverse.solve(*gradient)
    return np.asarray((towards[data.stratum] + last * data.arm) * slope / variance / inflation * residual, dtype=float)
