"""GEE with stratum effects and one treatment, from what clusters add up to: for more strata than a design matrix holds.

Where every cluster lies in one stratum and one arm, all its rows have the same expectation, so that its number of rows,
the sum of its outcomes and the sum of their squares are sufficient. The normal equations are those of statsmodels' GEE
(exchangeable, bias-reduced covariance of Mancl and DeRouen), whose matrix is diagonal but for the treatment: a fit
takes time and memory in proportion to the clusters, where a design matrix grows with rows times strata.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]
TOLERANCE = 1e-6
"""Norm of the score at which statsmodels stops; ITERATIONS are its most."""
ITERATIONS = 60
_START = 25
"""Steps with independent rows before the correlation is estimated, as statsmodels starts from a GLM."""


@dataclass(frozen=True)
class Clusters:
    """Sufficient statistics, one entry a cluster: rows, sum and sum of squares of outcomes, arm (1 treated), stratum
    (codes from 0, every stratum with both arms)."""

    rows: Floats
    sums: Floats
    squares: Floats
    arm: Floats
    stratum: Codes


@dataclass(frozen=True)
class _Inverse:
    """Solves the normal equations [[diagonal, corner], [corner', last]]: strata, then the treatment."""

    diagonal: Floats
    corner: Floats
    schur: float

    @classmethod
    def of(cls, data: Clusters, weights: Floats) -> _Inverse:
        diagonal = _sums(data, weights)
        corner = _sums(data, weights * data.arm)
        return cls(diagonal, corner, float(corner.sum() - np.sum(corner**2 / diagonal)))

    def solve(self, strata: Floats, treatment: float) -> tuple[Floats, float]:
        last = (treatment - float(np.sum(self.corner / self.diagonal * strata))) / self.schur
        return (strata - self.corner * last) / self.diagonal, last

    def quadratic(self, data: Clusters) -> Floats:
        """x' inverse x for the design row x of every cluster."""
        share = (self.corner / self.diagonal)[data.stratum]
        return 1 / self.diagonal[data.stratum] + (data.arm - share) ** 2 / self.schur


def _sums(data: Clusters, values: Floats) -> Floats:
    return np.bincount(data.stratum, values).astype(float)


def clusters_of(y: Floats, arm: npt.NDArray[np.bool_], cluster: Codes, stratum: Codes) -> Clusters | None:
    """The sufficient statistics of rows (cluster and stratum as codes from 0); None where a cluster lies in several
    strata or arms."""
    _, first = np.unique(cluster, return_index=True)
    treated, strata = arm[first].astype(float), stratum[first]
    if not (np.array_equal(treated[cluster], arm) and np.array_equal(strata[cluster], stratum)):
        return None
    counts, sums, squares = (np.bincount(cluster, values).astype(float) for values in (np.ones_like(y), y, y * y))
    return Clusters(counts, sums, squares, treated, strata)


def risk_difference(data: Clusters, *, binomial: bool) -> tuple[float, float] | None:
    """Treated less control, every stratum of equal weight, and its standard error; None where the fit fails.

    binomial: logit coefficients, standardised (delta method); else the coefficient of a linear fit.
    """
    with np.errstate(all="ignore"):  # what overflows is not finite, and answered by None
        found = _fit(data, binomial)
        if found is None:
            return None
        strata, treatment, correlation = found
        if not binomial:
            estimate, gradient = treatment, (np.zeros_like(strata), 1.0)
        else:
            p1, p0 = 1 / (1 + np.exp(-(strata + treatment))), 1 / (1 + np.exp(-strata))
            v1, v0 = p1 * (1 - p1), p0 * (1 - p0)
            if min(v1.min(), v0.min()) < 1e-6:
                return None
            estimate, gradient = float((p1 - p0).mean()), ((v1 - v0) / strata.size, float(v1.mean()))
        error = _error(data, strata, treatment, correlation, gradient, binomial)
        return (estimate, error) if math.isfinite(estimate) and math.isfinite(error) else None


def _fit(data: Clusters, binomial: bool) -> tuple[Floats, float, float] | None:
    """Stratum effects, treatment effect, correlation within clusters; None where it does not converge."""
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
    """Expectation of a row of each cluster, its variance but for a scale, and its derivative."""
    linear = strata[data.stratum] + treatment * data.arm
    if not binomial:
        return linear, np.ones_like(linear), np.ones_like(linear)
    mean = 1 / (1 + np.exp(-linear))
    variance = mean * (1 - mean)
    return mean, variance, variance


def _correlation(data: Clusters, strata: Floats, treatment: float, binomial: bool) -> float:
    mean, variance, _ = _moments(data, strata, treatment, binomial)
    squares = (data.squares - 2 * mean * data.sums + data.rows * mean**2) / variance
    products = ((data.sums - data.rows * mean) ** 2 / variance - squares) / 2
    coefficients = strata.size + 1
    scale = float(squares.sum()) / (float(data.rows.sum()) - coefficients)
    pairs = float(np.sum(data.rows * (data.rows - 1))) / 2
    return float(products.sum()) / scale / (pairs - coefficients)


def _error(
    data: Clusters,
    strata: Floats,
    treatment: float,
    correlation: float,
    gradient: tuple[Floats, float],
    binomial: bool,
) -> float:
    """Standard error of gradient'coefficients by the bias-reduced sandwich."""
    mean, variance, slope = _moments(data, strata, treatment, binomial)
    inflation = 1 + (data.rows - 1) * correlation
    inverse = _Inverse.of(data, slope**2 / variance * data.rows / inflation)
    leverage = slope**2 / variance * data.rows / inflation * inverse.quadratic(data)
    residual = (data.sums - data.rows * mean) / (1 - leverage)
    towards, last = inverse.solve(*gradient)
    parts = (towards[data.stratum] + last * data.arm) * slope / variance / inflation * residual
    return math.sqrt(float(parts @ parts))
