"""Effects adjusted for strata: GEE and Mantel-Haenszel for these strata, pooled clusters and permutations beyond."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tomserve.stats.clustered import units_share
from tomserve.stats.clusters import matched_cells
from tomserve.stats.distributions import t_quantile, t_tails
from tomserve.stats.effects import FEW, Effect, independent_score, inverted_p, undefined_effect
from tomserve.stats.paired import SINGLY, batches, sign_flip, smallest_p, varies
from tomserve.stats.proportions import fieller, mover_ratio, ratio_from_difference, square_and_add

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
class ClusterTotals:
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
    def of(cls, data: ClusterTotals, weights: Floats) -> _Inverse:
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

    def quadratic(self, data: ClusterTotals) -> Floats:
        """By cluster the value x' inverse x [clusters], where x is the cluster's design row."""
        share = (self.corner / self.diagonal)[data.stratum]
        return 1 / self.diagonal[data.stratum] + (data.arm - share) ** 2 / self.schur


def _sums(data: ClusterTotals, values: Floats) -> Floats:
    """Sums of the clusters' values by stratum [strata]."""
    return np.bincount(data.stratum, values).astype(float)


def sum_clusters(y: Floats, arm: npt.NDArray[np.bool_], cluster: Codes, stratum: Codes) -> ClusterTotals | None:
    """Sum rows up by cluster; None where a cluster lies in several strata or arms, which these sums cannot describe.

    y: outcomes, none missing [rows]; arm: whether a row is treated [rows]; cluster, stratum: codes from 0 [rows].
    """
    _, first = np.unique(cluster, return_index=True)
    treated, strata = arm[first].astype(float), stratum[first]
    if not (np.array_equal(treated[cluster], arm) and np.array_equal(strata[cluster], stratum)):
        return None
    counts, sums, squares = (np.bincount(cluster, values).astype(float) for values in (np.ones_like(y), y, y * y))
    return ClusterTotals(counts, sums, squares, treated, strata)


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


def fit_shares(data: ClusterTotals, *, binomial: bool) -> Shares | None:
    """The shares of both arms (mean over the strata, each of equal weight) and their errors.

    Generalised estimating equations (Liang and Zeger, Biometrika 73:13, 1986) with an exchangeable correlation within
    clusters and the bias-reduced covariance of Mancl and DeRouen (Biometrics 57:126, 2001), as in statsmodels. As every
    cluster lies in one stratum and one arm, all its rows have the same expectation, so that their number and their sums
    are all that the equations need. The matrix of the normal equations is diagonal but for the row and column of the
    treatment: a fit takes time and memory in proportion to the clusters, while a design matrix grows with rows times
    strata.

    They describe these strata, for further clusters of the same kind, and assume that clusters are independent within
    them. None where the fit does not converge or a fitted probability is 0 or 1.

    data: sums by cluster, from `sum_clusters`.
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


def _fit(data: ClusterTotals, binomial: bool) -> tuple[Floats, float, float] | None:
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
            correlation = _exchangeable_correlation(data, strata, treatment, binomial)
    return None


def _moments(data: ClusterTotals, strata: Floats, treatment: float, binomial: bool) -> tuple[Floats, Floats, Floats]:
    """By cluster [clusters]: the expectation of a row, its variance up to a common scale, and the derivative of the
    expectation by the linear predictor.
    """
    linear = strata[data.stratum] + treatment * data.arm
    if not binomial:
        return linear, np.ones_like(linear), np.ones_like(linear)
    mean = 1 / (1 + np.exp(-linear))
    variance = mean * (1 - mean)
    return mean, variance, variance


def _exchangeable_correlation(data: ClusterTotals, strata: Floats, treatment: float, binomial: bool) -> float:
    """Moment estimate of the exchangeable correlation: mean product of two residuals of a cluster over the scale."""
    mean, variance, _ = _moments(data, strata, treatment, binomial)
    squares = (data.squares - 2 * mean * data.sums + data.rows * mean**2) / variance
    products = ((data.sums - data.rows * mean) ** 2 / variance - squares) / 2
    coefficients = strata.size + 1
    scale = squares.sum() / (data.rows.sum() - coefficients)
    pairs = np.sum(data.rows * (data.rows - 1)) / 2
    return float(products.sum() / scale / (pairs - coefficients))  # nan where no residual is left


def _parts(
    data: ClusterTotals,
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


Fit = Shares | None
"""The fitted shares of both arms; None where the fit fails."""
LARGEST_DESIGN = 2_000_000
"""The most numbers, rows x (strata + 1), in a design matrix: 16 MB, of which a fit holds several copies."""


@dataclass(frozen=True)
class MantelHaenszel:
    """Effects pooled over strata from counts of items; nan where undefined (no stratum has both arms, or a denominator
    is 0).

    They are point estimates only, since their usual standard errors take items as independent. `strata`: with both
    arms.
    """

    risk_difference: float
    risk_ratio: float
    odds_ratio: float
    strata: int


def these_strata_effect(
    outcome: npt.ArrayLike, treated: npt.ArrayLike, cluster: npt.ArrayLike, stratum: npt.ArrayLike, level: float = 0.95
) -> Effect:
    """Risk difference for these strata, each of equal weight, for further clusters of the same kind in them.

    Estimated by GEE (Liang and Zeger, Biometrika 73:13, 1986): binomial, one effect a stratum plus the
    treatment, exchangeable correlation within clusters, bias-reduced covariance (Mancl and DeRouen, Biometrics 57:126,
    2001). The logit coefficients are turned into a risk difference by standardisation (delta method). The interval is t
    with (clusters of the smaller arm - 1) df, since that arm has most of the variance. It assumes that clusters are
    independent given their stratum and that the treatment shifts all strata's logits alike.

    Where logit coefficients do not exist (a stratum or an arm is all right or all wrong) or the fit fails, a linear
    model is fitted, whose treatment coefficient is the risk difference itself, taken as the same in all strata. Without
    residual variance the interval is Newcombe's for an effective number of answers (see `effects.CORRELATION`).
    `method` names what was used. The ratio is that of the two fitted shares, by Fieller's method. There is no
    sign-flip test.

    outcome, treated, cluster, stratum: columns as `tomserve.stats.clustered` describes [answers]; strata without both
        arms are left out.
    level: of confidence, .95 by default.

    Where every cluster lies in one stratum and one arm, the equations are solved from sums by cluster
    (`fit_shares`); otherwise from the rows, and where rows x strata then exceed LARGEST_DESIGN the effect is
    undefined. Raises ValueError for columns of unequal length.
    """
    y, arm = np.asarray(outcome, dtype=float), np.asarray(treated, dtype=bool)
    clusters, strata = np.asarray(cluster), np.asarray(stratum)
    cells = matched_cells(y, arm, clusters, strata)
    if not len(cells.means):
        return undefined_effect("undefined: no stratum with both arms", 0)
    y, arm, clusters, codes = _matched_rows(y, arm, clusters, strata)
    n0, n1 = (int(count) for count in cells.counts.sum(axis=0))
    tasks, smaller = n0 + n1, min(n0, n1)
    fits = _fits(y, arm, clusters, codes)
    if fits is None:
        return undefined_effect(
            "undefined: clusters lie in several arms, which is not fitted for so many strata", tasks
        )
    fit, how = None if _is_separable(y, arm, codes) else fits(True), "GEE binomial, standardised"
    if fit is None:
        fit, how = fits(False), "GEE linear (a stratum or arm is all right or all wrong)"
    few = smaller < FEW
    if fit is None or smaller < 2 or not fit.error > 1e-9:
        return _without_fit(y, arm, clusters, cells.means, tasks, level)
    estimate, error, df = fit.difference, fit.error, smaller - 1
    quantile = t_quantile(0.5 + level / 2, df)
    p = t_tails(estimate / error, df)
    low, high = max(-1.0, estimate - quantile * error), min(1.0, estimate + quantile * error)
    shares, method = (_share(fit.treated), _share(fit.control)), f"{how}, t {df} df"
    ratio = fieller(*shares, fit.covariance, quantile, df)
    return Effect(estimate, low, high, p, math.nan, math.nan, *shares, ratio, tasks, tasks, method, few)


def _share(fitted: float) -> float:
    """A fitted share, where rounding has put it beside 0 or 1 just these."""
    whole = round(fitted)
    return float(whole) if abs(fitted - whole) < 1e-12 else fitted


def _without_fit(
    y: Floats, arm: npt.NDArray[np.bool_], clusters: Codes, means: Floats, tasks: int, level: float
) -> Effect:
    """The effect where no residual variance is left, from the strata's means [strata, 2] and the sizes of the clusters
    of both arms.
    """
    c, t = (float(share) for share in means.mean(axis=0))
    treated, control = (np.unique(clusters[rows], return_counts=True)[1] for rows in (arm, ~arm))

    def score(of: float) -> tuple[float, float]:
        found = independent_score(t, treated, c, control, of)
        return min(found.low, t - c), max(found.high, t - c)

    low, high = score(level)
    method = independent_score(t, treated, c, control, level).method + " (no residual variance)"
    shares, few = (t, c, ratio_from_difference(t, c, low, high)), min(treated.size, control.size) < FEW
    return Effect(t - c, low, high, inverted_p(score), math.nan, math.nan, *shares, tasks, tasks, method, few)


def mantel_haenszel(outcome: npt.ArrayLike, treated: npt.ArrayLike, stratum: npt.ArrayLike) -> MantelHaenszel:
    """Mantel and Haenszel's pooled risk difference, risk ratio and odds ratio of the items at hand, without intervals.

    Risk difference: Greenland and Robins, Biometrics 41:55 (1985). Ratios: Mantel and Haenszel, JNCI 22:719 (1959), as
    in statsmodels' `StratifiedTable`. Each assumes that its own measure is the same in all strata. The sums run over
    strata, so that a stratum with an empty cell adds what it has, and no logarithm of zero is ever taken.

    outcome, treated, stratum: columns as `tomserve.stats.clustered` describes [answers].
    """
    y, arm, strata = np.asarray(outcome, dtype=float), np.asarray(treated, dtype=bool), np.asarray(stratum)
    known = ~np.isnan(y)
    y, arm, strata = y[known], arm[known], strata[known]
    tables, top, bottom = [], 0.0, 0.0
    names, codes = np.unique(strata, return_inverse=True)
    cells, shape = codes * 2 + arm, (names.size, 2)
    counts = np.bincount(cells, minlength=2 * names.size).reshape(shape)
    sums = np.bincount(cells, weights=y, minlength=2 * names.size).reshape(shape)
    for (c, t), (n0, n1) in zip(sums.tolist(), counts.tolist(), strict=True):
        if n1 and n0:
            weight = n1 * n0 / (n1 + n0)
            top, bottom = top + weight * (t / n1 - c / n0), bottom + weight
            tables.append((t, n1 - t, c, n0 - c))
    if not tables:
        return MantelHaenszel(math.nan, math.nan, math.nan, 0)
    a, b, right, wrong = np.array(tables, dtype=float).T  # right and wrong of the treated, then of the control arm
    n = a + b + right + wrong
    with np.errstate(all="ignore"):  # 0/0 is reported as nan, x/0 as inf
        odds = float(np.sum(a * wrong / n) / np.sum(b * right / n))
        risk = float(np.sum(a * (right + wrong) / n) / np.sum(right * (a + b) / n))
    return MantelHaenszel(top / bottom, risk, odds, len(tables))


def _matched_rows(
    y: Floats, arm: npt.NDArray[np.bool_], clusters: npt.NDArray[np.generic], strata: npt.NDArray[np.generic]
) -> tuple[Floats, npt.NDArray[np.bool_], npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Rows with an outcome in strata with both arms, ordered by cluster; clusters and strata as codes from 0."""
    known = ~np.isnan(y)
    both = np.isin(strata, strata[known & arm]) & np.isin(strata, strata[known & ~arm])
    keep = np.flatnonzero(known & both)
    _, code = np.unique(clusters[keep], return_inverse=True)
    order = np.argsort(code, kind="stable")
    keep = keep[order]
    _, codes = np.unique(strata[keep], return_inverse=True)
    return y[keep], arm[keep], code[order], codes


def _is_separable(y: Floats, arm: npt.NDArray[np.bool_], codes: npt.NDArray[np.intp]) -> bool:
    """Whether a stratum or an arm is all right or all wrong, so that its logit is infinite."""
    shares = np.bincount(codes, weights=y) / np.bincount(codes)
    arms = np.array([y[arm].mean(), y[~arm].mean()])
    return bool(np.any((shares <= 0) | (shares >= 1)) or np.any((arms <= 0) | (arms >= 1)))


def _fits(y: Floats, arm: npt.NDArray[np.bool_], clusters: Codes, codes: Codes) -> Callable[[bool], Fit] | None:
    """A function that fits these rows, given whether to fit a binomial model; None where they are too many to fit."""
    if (data := sum_clusters(y, arm, clusters, codes)) is not None:
        return lambda binomial: fit_shares(data, binomial=binomial)
    if y.size * (int(codes.max()) + 2) > LARGEST_DESIGN:
        return None
    design = np.column_stack([np.eye(codes.max() + 1)[codes], arm.astype(float)])
    return lambda binomial: (_standardise if binomial else _linear)(y, design, clusters)


def _standardise(y: Floats, design: Floats, clusters: npt.NDArray[np.intp]) -> Fit:
    """Shares of a binomial fit, standardised to strata of equal weight; None where the fit fails."""
    fit = _gee(y, design, clusters, binomial=True)
    if fit is None:
        return None
    beta, covariance = fit
    treatment, control = _rows(design)
    with np.errstate(over="ignore"):  # a chance of 0, where all answers of a cell are wrong
        p1, p0 = 1 / (1 + np.exp(-(treatment @ beta))), 1 / (1 + np.exp(-(control @ beta)))
    if np.min(p0 * (1 - p0)) < 1e-6 or np.min(p1 * (1 - p1)) < 1e-6:
        return None
    gradients = np.array([((p * (1 - p))[:, None] * rows).mean(axis=0) for p, rows in ((p1, treatment), (p0, control))])
    return Shares(float(p1.mean()), float(p0.mean()), gradients @ covariance @ gradients.T)


def _linear(y: Floats, design: Floats, clusters: npt.NDArray[np.intp]) -> Fit:
    """Shares of a linear fit, whose difference is the treatment coefficient; None where the fit fails."""
    fit = _gee(y, design, clusters, binomial=False)
    if fit is None:
        return None
    gradients = np.array([rows.mean(axis=0) for rows in _rows(design)])
    treated, control = gradients @ fit[0]
    return Shares(float(treated), float(control), gradients @ fit[1] @ gradients.T)


def _rows(design: Floats) -> tuple[Floats, Floats]:
    """The design rows of every stratum, treated and as control [strata, coefficients]."""
    control = np.eye(design.shape[1])[:-1]
    treatment = control.copy()
    treatment[:, -1] = 1.0
    return treatment, control


def _gee(y: Floats, design: Floats, clusters: Codes, binomial: bool) -> tuple[Floats, Floats] | None:
    """Coefficients and bias-reduced covariance of the equations that `fit_shares` solves from sums, for rows of any
    design, ordered by cluster; None where they are not found. Tests hold both against statsmodels.
    """
    starts = np.flatnonzero(np.diff(clusters, prepend=-1))
    sizes = np.diff(starts, append=y.size)
    beta, correlation = np.zeros(design.shape[1]), 0.0
    with np.errstate(all="ignore"), contextlib.suppress(np.linalg.LinAlgError):  # what overflows is not finite
        rows, residuals = _standardised_rows(y, design, beta, binomial)
        for step in range(_START + ITERATIONS):
            weighted = _uncorrelated(rows, starts, sizes, correlation)
            score = weighted.T @ residuals
            beta = beta + np.linalg.solve(rows.T @ weighted, score)
            if not np.isfinite(beta).all():
                return None
            rows, residuals = _standardised_rows(y, design, beta, binomial)
            if step >= _START and float(np.linalg.norm(score)) < TOLERANCE:
                covariance = _bias_reduced(rows, residuals, starts, sizes, correlation)
                return (beta, covariance) if np.isfinite(covariance).all() else None
            if step >= _START - 1:
                within = (np.add.reduceat(residuals, starts) ** 2 - np.add.reduceat(residuals**2, starts)).sum() / 2
                scale = (residuals**2).sum() / (y.size - beta.size)
                correlation = float(within / scale / ((sizes * (sizes - 1)).sum() / 2 - beta.size))
    return None


def _standardised_rows(y: Floats, design: Floats, beta: Floats, binomial: bool) -> tuple[Floats, Floats]:
    """The derivatives of the expectations by the coefficients and the residuals, both over the standard deviation."""
    if not binomial:
        return design, y - design @ beta
    mean = 1 / (1 + np.exp(-(design @ beta)))
    deviation = np.sqrt(mean * (1 - mean))
    return design * deviation[:, None], (y - mean) / deviation


def _uncorrelated(rows: Floats, starts: Codes, sizes: Codes, correlation: float) -> Floats:
    """The inverse of the exchangeable correlation within clusters times these rows."""
    share = correlation / (1 + (sizes - 1) * correlation)
    shared = np.add.reduceat(rows, starts, axis=0) * share[:, None]
    return np.asarray((rows - np.repeat(shared, sizes, axis=0)) / (1 - correlation), dtype=float)


def _bias_reduced(rows: Floats, residuals: Floats, starts: Codes, sizes: Codes, correlation: float) -> Floats:
    """The sandwich of Mancl and DeRouen (2001), which enlarges the residuals of each cluster by its leverage."""
    weighted = _uncorrelated(rows, starts, sizes, correlation)
    inverse = np.linalg.inv(rows.T @ weighted)
    scores = []
    for start, size in zip(starts, sizes, strict=True):
        one, other = rows[start : start + size], weighted[start : start + size]
        enlarged = np.linalg.solve(np.eye(size) - one @ inverse @ other.T, residuals[start : start + size])
        scores.append(other.T @ enlarged)
    return np.asarray(inverse @ np.einsum("ci,cj->ij", scores, scores) @ inverse, dtype=float)


def pooled_effect(
    outcome: npt.ArrayLike, treated: npt.ArrayLike, cluster: npt.ArrayLike, stratum: npt.ArrayLike, level: float = 0.95
) -> Effect:
    """Effect for new strata: the mean over strata of treated - control, the quantity that `clustered.matched_effect`
    estimates.

    With ten treated tasks and one control task a stage, the control arm has most of the variance, and a t test of the
    stage differences falls short where that arm is nearly all right or all wrong: with 7 stages, 2 subtasks and rates
    of .05 and .95, t intervals covered only .63 to .73 of the time, and t tests rejected a true null hypothesis in .08
    to .17; sign flips in .04 to .08, because arms of unequal size make the differences asymmetric (bench/coverage.py).

    The interval combines those of both arms (`clustered.units_share`: t on the logit scale with strata - 1 df, or
    Wilson with n = strata where an arm does not vary) by square-and-add (Zou and Donner, Stat Med 27:1693, 2008), with
    the correlation of their stratum means. p is that of the test which this interval inverts, and the ratio is read off
    the same intervals (`mover_ratio`). Strata are assumed to be independent draws of those to come. The
    sign-flip p assumes symmetric differences, which arms of unequal size do not give; `permutation_p` needs no such
    assumption, but asks about these strata only, so that it may differ from p.

    outcome, treated, cluster, stratum: columns as `tomserve.stats.clustered` describes [answers]; strata without both
        arms are left out.
    level: of confidence, .95 by default.

    Raises ValueError for columns of unequal length.
    """
    cells = matched_cells(outcome, treated, cluster, stratum)
    m, tasks = len(cells.means), int(cells.counts.sum())
    if not m:
        return undefined_effect("undefined: no stratum with both arms", tasks)
    c, t = cells.means[:, 0], cells.means[:, 1]
    estimate, (low, high) = float(np.mean(t - c)), _bounds(t, c, level)
    method = f"square-and-add of logit t, {m - 1} df, {m} strata matched"
    method += f", {cells.dropped} unmatched left out" if cells.dropped else ""
    few, flips = bool(cells.counts.sum(axis=0).min() < FEW), sign_flip(t - c)
    return Effect(
        estimate,
        min(low, estimate),
        max(high, estimate),
        inverted_p(lambda of: _bounds(t, c, of)),
        flips.p,
        smallest_p(m),
        float(t.mean()),
        float(c.mean()),
        mover_ratio(units_share(t, level), units_share(c, level), _correlation(t, c)),
        m,
        tasks,
        method,
        few,
    )


def permutation_p(
    outcome: npt.ArrayLike,
    treated: npt.ArrayLike,
    cluster: npt.ArrayLike,
    stratum: npt.ArrayLike,
    draws: int = 9999,
    seed: int = 0,
) -> float:
    """Two-sided p of the hypothesis that, within its stratum, a control cluster is like any treated one.

    Clusters are shuffled between the arms of their stratum. The test keeps its level whatever the sizes of the arms or
    the distribution of the answers; it assumes only that the clusters of a stratum are exchangeable under the
    hypothesis. p is (1 + draws at least as extreme) / (1 + draws) (Phipson and Smyth, Stat Appl Genet Mol Biol 9:39,
    2010), so by default at least 1/10000. It is nan where no stratum has both arms.

    outcome, treated, cluster, stratum: columns as `tomserve.stats.clustered` describes [answers].
    draws: number of random shuffles, 9,999 by default.
    seed: of the shuffles, 0 by default.

    Where a stratum has more than SINGLY clusters and an arm has only one of them, that one is drawn at random instead
    of shuffling all, which gives the same distribution. Raises ValueError for columns of unequal length, and for a
    cluster with answers in both arms.
    """
    y, arm = np.asarray(outcome, dtype=float), np.asarray(treated, dtype=bool)
    clusters, strata = np.asarray(cluster), np.asarray(stratum)
    cells = matched_cells(y, arm, clusters, strata)
    observed = cells.means
    if not len(observed):
        return math.nan
    rng, known = np.random.default_rng(seed), ~np.isnan(y)
    moved = np.zeros(draws)
    many = int(cells.counts.sum()) > SINGLY
    for means, n1 in _strata(y[known], arm[known], clusters[known], strata[known]):
        if 0 < n1 < means.size:
            start = 0
            for part in (_alone if many and n1 in (1, means.size - 1) else _moves)(means, n1, draws, rng):
                moved[start : start + part.size] += part
                start += part.size
    total = abs(float(np.sum(observed[:, 1] - observed[:, 0])))
    return (1 + int(np.sum(np.abs(moved) >= total - 1e-9))) / (1 + draws)


def _strata(
    y: Floats, arm: npt.NDArray[np.bool_], clusters: npt.NDArray[np.generic], strata: npt.NDArray[np.generic]
) -> Iterator[tuple[Floats, int]]:
    """Yield for each stratum the means of its clusters [clusters] and how many of them are treated. Raises ValueError
    for a cluster in both arms.
    """
    names, codes = np.unique(strata, return_inverse=True)
    _, index = np.unique(clusters, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes))
    for name, here in zip(names, np.split(order, ends[:-1]), strict=True):
        _, inside = np.unique(index[here], return_inverse=True)
        sizes, answers = np.bincount(inside), np.bincount(inside, weights=arm[here])
        if np.any((answers > 0) & (answers < sizes)):
            raise ValueError(f"stratum {name}: a cluster is in both arms; use clustered.paired_effect")
        yield np.bincount(inside, weights=y[here]) / sizes, int(np.sum(answers > 0))


def _moves(means: Floats, n1: int, draws: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Difference of means between n1 shuffled clusters and the others, in batches of bounded memory; the numbers do not
    depend on the batches.
    """
    for rows in batches(draws, means.size):
        shuffled = rng.permuted(np.broadcast_to(means, (rows, means.size)), axis=1)
        yield shuffled[:, :n1].mean(axis=1) - shuffled[:, n1:].mean(axis=1)


def _alone(means: Floats, n1: int, draws: int, rng: np.random.Generator) -> Iterator[Floats]:
    """The same where one arm is a single cluster: which cluster that is decides all, and drawing it takes a tenth of
    the time.
    """
    rest = (means.sum() - means) / (means.size - 1)
    moves = means - rest if n1 == 1 else rest - means
    yield moves[rng.integers(means.size, size=draws)]


def _bounds(t: Floats, c: Floats, level: float) -> tuple[float, float]:
    """Square-and-add bounds of the mean of t - c, from the strata's means in both arms."""
    return square_and_add(units_share(t, level), units_share(c, level), _correlation(t, c))


def _correlation(t: Floats, c: Floats) -> float:
    """Correlation of the strata's means in both arms; 0 where one arm does not vary, and for two strata, whose means
    always lie on a line: the interval would be far too narrow in half of all cases."""
    return float(np.corrcoef(t, c)[0, 1]) if t.size > 2 and varies(t) and varies(c) else 0.0
