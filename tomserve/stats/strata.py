"""Effects adjusted for strata: GEE and Mantel-Haenszel for these strata, pooled clusters and permutations beyond."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tomserve.stats.clustered import units_share
from tomserve.stats.clusters import ArmSums, Floats
from tomserve.stats.distributions import t_quantile, t_tails
from tomserve.stats.effects import FEW, Effect, independent_score, inverted_p, undefined_effect
from tomserve.stats.paired import SINGLY, batches, sign_flip, smallest_p, varies
from tomserve.stats.proportions import Interval, fieller, mover_ratio, ratio_from_difference, square_and_add

# The iteration stops once the norm of the score (the estimating equations) is below this, as in statsmodels.
TOLERANCE = 1e-6
ITERATIONS = 60  # The most steps made after the correlation was first estimated, as in statsmodels
# Steps made as if rows were independent before the correlation is first estimated; statsmodels starts from such a fit,
# too.
_START = 25


@dataclass(frozen=True)
class _Inverse:
    diagonal: Floats
    corner: Floats
    schur: np.float64  # 0 where weights vanish: what is divided by it is not finite, and no error

    @classmethod
    def of(cls, data: ArmSums, weights: Floats) -> _Inverse:
        """The inverse for these clusters, each with its weight [clusters]."""
        diagonal = _sums(data, weights)
        corner = _sums(data, weights * data.treated)
        return cls(diagonal, corner, np.float64(corner.sum() - np.sum(corner**2 / diagonal)))

    def solve(self, strata: Floats, treatment: float) -> tuple[Floats, float]:
        """The coefficients (of the strata [strata], of the treatment) that solve the equations with this right-hand
        side."""
        last = float((treatment - np.sum(self.corner / self.diagonal * strata)) / self.schur)
        return (strata - self.corner * last) / self.diagonal, last

    def quadratic(self, data: ArmSums) -> Floats:
        """By cluster the value x' inverse x [clusters], where x is the cluster's design row."""
        share = (self.corner / self.diagonal)[data.stratum]
        return 1 / self.diagonal[data.stratum] + (data.treated - share) ** 2 / self.schur


def _sums(data: ArmSums, values: npt.NDArray[np.number]) -> Floats:
    """Sums of the clusters' values by stratum [strata]."""
    return np.bincount(data.stratum, values).astype(float)


@dataclass(frozen=True)
class Shares:
    """Fitted shares of both arms, means over the strata with equal weight, and their covariance (treated, control) [2,
    2]."""

    treated: float
    control: float
    covariance: Floats


def fit_shares(data: ArmSums, *, binomial: bool) -> Shares | None:
    """The shares of both arms for further clusters in these strata, each of equal weight; None without convergence or
    where a fitted probability is 0 or 1.

    Generalised estimating equations (Liang and Zeger, Biometrika 73:13, 1986) with an exchangeable correlation within
    clusters and the bias-reduced covariance of Mancl and DeRouen (Biometrics 57:126, 2001), as in statsmodels, from
    sums by cluster: time and memory grow with the clusters. binomial: fit logits and standardise (delta method), else a
    linear model."""
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
        return found if math.isfinite(found.treated + found.control + covariance.sum()) else None


def _fit(data: ArmSums, binomial: bool) -> tuple[Floats, float, float] | None:
    """Fit the equations: stratum effects [strata], treatment effect, correlation within clusters; None without
    convergence."""
    strata, treatment, correlation = np.zeros(int(data.stratum.max()) + 1), 0.0, 0.0
    for step in range(_START + ITERATIONS):
        mean, variance, slope = _moments(data, strata, treatment, binomial)
        inflation = 1 + (data.answers - 1) * correlation
        score = slope / variance * (data.right - data.answers * mean) / inflation
        scores = _sums(data, score), float(score @ data.treated)
        inverse = _Inverse.of(data, slope**2 / variance * data.answers / inflation)
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


def _moments(data: ArmSums, strata: Floats, treatment: float, binomial: bool) -> tuple[Floats, Floats, Floats]:
    """By cluster [clusters]: the expectation of a row, its variance up to a common scale, and the derivative of the
    expectation by the linear predictor."""
    linear = strata[data.stratum] + treatment * data.treated
    if not binomial:
        return linear, np.ones_like(linear), np.ones_like(linear)
    mean = 1 / (1 + np.exp(-linear))
    variance = mean * (1 - mean)
    return mean, variance, variance


def _exchangeable_correlation(data: ArmSums, strata: Floats, treatment: float, binomial: bool) -> float:
    """Moment estimate of the exchangeable correlation: mean product of two residuals of a cluster over the scale."""
    mean, variance, _ = _moments(data, strata, treatment, binomial)
    squares = (data.right - 2 * mean * data.right + data.answers * mean**2) / variance
    products = ((data.right - data.answers * mean) ** 2 / variance - squares) / 2
    coefficients = strata.size + 1
    scale = squares.sum() / (data.answers.sum() - coefficients)
    pairs = np.sum(data.answers * (data.answers - 1)) / 2
    return float(products.sum() / scale / (pairs - coefficients))  # nan where no residual is left


def _parts(
    data: ArmSums, strata: Floats, treatment: float, correlation: float, gradient: tuple[Floats, float], binomial: bool
) -> Floats:
    """What each cluster adds to the error of gradient' coefficients [clusters], by the bias-reduced sandwich of Mancl
    and DeRouen (2001): the sum of the squares is the variance, the sum of products of two of them a covariance."""
    mean, variance, slope = _moments(data, strata, treatment, binomial)
    inflation = 1 + (data.answers - 1) * correlation
    inverse = _Inverse.of(data, slope**2 / variance * data.answers / inflation)
    leverage = slope**2 / variance * data.answers / inflation * inverse.quadratic(data)
    residual = (data.right - data.answers * mean) / (1 - leverage)
    towards, last = inverse.solve(*gradient)
    return np.asarray(
        (towards[data.stratum] + last * data.treated) * slope / variance / inflation * residual, dtype=float
    )


def these_strata_effect(sums: ArmSums) -> Effect:
    """Risk difference for further clusters of these strata, each of equal weight, by `fit_shares`: binomial or, where a
    stratum or an arm is all right or all wrong, linear; Newcombe's interval for an effective number of answers without
    residual variance. t with (clusters of the smaller arm - 1) df; the ratio is Fieller's. Strata without
    both arms are left out; undefined where a cluster lies in several arms or strata."""
    data = sums.matched()
    n1, n0 = int(data.treated.sum()), int((~data.treated).sum())
    tasks, smaller = n0 + n1, min(n0, n1)
    if not tasks:
        return undefined_effect("undefined: no stratum with both arms", 0)
    if np.unique(data.cluster).size < tasks:
        return undefined_effect("undefined: clusters lie in several arms or strata", tasks)
    fit, how = None if _is_separable(data) else fit_shares(data, binomial=True), "GEE binomial, standardised"
    if fit is None:
        fit, how = fit_shares(data, binomial=False), "GEE linear (a stratum or arm is all right or all wrong)"
    few = smaller < FEW
    variance = float(fit.covariance[0, 0] + fit.covariance[1, 1] - 2 * fit.covariance[0, 1]) if fit else math.nan
    if fit is None or smaller < 2 or not variance > 1e-18:
        return _without_fit(data)
    estimate, error, df = fit.treated - fit.control, math.sqrt(variance), smaller - 1
    quantile = t_quantile(0.975, df)
    p = t_tails(estimate / error, df)
    low, high = max(-1.0, estimate - quantile * error), min(1.0, estimate + quantile * error)
    shares, method = (_share(fit.treated), _share(fit.control)), f"{how}, t {df} df"
    ratio = fieller(*shares, fit.covariance, quantile, df)
    return Effect(estimate, low, high, p, math.nan, math.nan, *shares, ratio, tasks, tasks, method, few)


def _share(fitted: float) -> float:
    whole = round(fitted)
    return float(whole) if abs(fitted - whole) < 1e-12 else fitted


def _without_fit(data: ArmSums) -> Effect:
    """The effect where no residual variance is left."""
    c, t = (float(share) for share in data.cells().means.mean(axis=0))
    treated, control = (data.answers[side] for side in (data.treated, ~data.treated))

    def score(of: float) -> Interval:
        found = independent_score(t, treated, c, control, of)
        return Interval(t - c, min(found.low, t - c), max(found.high, t - c), f"{found.method} (no residual variance)")

    found, p, tasks = score(0.95), inverted_p(lambda level: score(level).bounds), data.answers.size
    ratio, few = ratio_from_difference(t, c, *found.bounds), min(treated.size, control.size) < FEW
    return Effect(t - c, *found.bounds, p, math.nan, math.nan, t, c, ratio, tasks, tasks, found.method, few)


def mantel_haenszel(sums: ArmSums) -> tuple[float, float]:
    """Mantel and Haenszel's pooled risk difference (Greenland and Robins, Biometrics 41:55, 1985) and risk ratio (JNCI
    22:719, 1959) of the items at hand; nan or inf where undefined."""
    strata = int(sums.stratum.max(initial=-1)) + 1
    answers, right = (
        np.bincount(sums.of_cell, one, minlength=2 * strata).reshape(-1, 2).T for one in (sums.answers, sums.right)
    )
    (n0, n1), (c, t) = answers, right
    with np.errstate(all="ignore"):  # 0/0 is reported as nan, x/0 as inf
        weight = n1 * n0 / (n1 + n0)  # 0 for a stratum without one of the arms
        difference = float(np.nansum(weight * (t / n1 - c / n0)) / weight.sum())
        return difference, float(np.sum(t * n0 / (n1 + n0)) / np.sum(c * n1 / (n1 + n0)))


def _is_separable(data: ArmSums) -> bool:
    """Whether a stratum or an arm is all right or all wrong, so that its logit is infinite."""
    shares = [_sums(data, data.right) / _sums(data, data.answers)]
    shares += [data.right[side].sum(keepdims=True) / data.answers[side].sum() for side in (data.treated, ~data.treated)]
    every = np.concatenate(shares)
    return bool(np.any((every <= 0) | (every >= 1)))


def pooled_effect(sums: ArmSums, level: float = 0.95) -> Effect:
    """Effect for new strata, as `clustered.cells_effect`, where the arms are of unequal size: with ten treated tasks
    and one control task a stage a t test of the differences fails near 0 and 1 (bench/coverage.py).

    The intervals of both arms (`clustered.units_share`) are combined by square-and-add with the correlation of their
    stratum means; p is that of this interval. Sign flips assume symmetric differences; `permutation_p` asks about these
    strata only. Strata without both arms are left out."""
    cells = sums.cells()
    m, tasks = len(cells.means), int(cells.counts.sum())
    if not m:
        return undefined_effect("undefined: no stratum with both arms", tasks)
    c, t = cells.means[:, 0], cells.means[:, 1]
    estimate, (low, high) = float(np.mean(t - c)), _bounds(t, c, level)
    method = f"square-and-add of logit t, {m - 1} df, {m} strata matched"
    method += f", {cells.dropped} unmatched left out" if cells.dropped else ""
    return Effect(
        estimate,
        min(low, estimate),
        max(high, estimate),
        inverted_p(lambda of: _bounds(t, c, of)),
        sign_flip(t - c),
        smallest_p(m),
        float(t.mean()),
        float(c.mean()),
        mover_ratio(units_share(t, level), units_share(c, level), _correlation(t, c)),
        m,
        tasks,
        method,
        bool(cells.counts.sum(axis=0).min() < FEW),
    )


_TIE = 1e-9  # sums of differences that are closer than this are taken as equal


def permutation_p(sums: ArmSums, draws: int = 9999, seed: int = 0) -> float:
    """Two-sided p of the hypothesis that, within its stratum, a control cluster is like any treated one, by shuffling
    clusters between the arms: (1 + draws as extreme) / (1 + draws) (Phipson and Smyth 2010). nan where no stratum has
    both arms. Where a stratum has more than SINGLY clusters and an arm one, that one is drawn. Raises ValueError for a
    cluster in both arms."""
    if ((np.diff(sums.stratum) == 0) & (np.diff(sums.cluster) == 0)).any():
        raise ValueError("a cluster is in both arms of its stratum; use clustered.pairs_effect")
    cells = sums.cells()
    if not len(cells.means):
        return math.nan
    total = abs(float(np.sum(cells.means[:, 1] - cells.means[:, 0])))
    if total <= _TIE:  # every draw is as extreme
        return 1.0
    rng, moved = np.random.default_rng(seed), np.zeros(draws)
    many = int(cells.counts.sum()) > SINGLY
    ends = np.cumsum(np.bincount(sums.stratum))[:-1]
    for means, arm in zip(*(np.split(one, ends) for one in (sums.right / sums.answers, sums.treated)), strict=True):
        n1, start = int(arm.sum()), 0
        if 0 < n1 < means.size:
            for part in (_alone if many and n1 in (1, means.size - 1) else _moves)(means, n1, draws, rng):
                moved[start : start + part.size] += part
                start += part.size
    return (1 + int(np.sum(np.abs(moved) >= total - _TIE))) / (1 + draws)


def _moves(means: Floats, n1: int, draws: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Difference of means between n1 shuffled clusters and the others, in batches of bounded memory; the numbers do not
    depend on the batches."""
    for rows in batches(draws, means.size):
        shuffled = rng.permuted(np.broadcast_to(means, (rows, means.size)), axis=1)
        yield shuffled[:, :n1].mean(axis=1) - shuffled[:, n1:].mean(axis=1)


def _alone(means: Floats, n1: int, draws: int, rng: np.random.Generator) -> Iterator[Floats]:
    """The same where one arm is a single cluster: which cluster that is decides all, and drawing it takes a twentieth
    of the time. A share of single precision, below 1, times a number of clusters is below that number."""
    rest = (means.sum() - means) / (means.size - 1)
    moves = means - rest if n1 == 1 else rest - means
    yield moves[(rng.random(draws, dtype=np.float32) * means.size).astype(np.int64)]


def _bounds(t: Floats, c: Floats, level: float) -> tuple[float, float]:
    """Square-and-add bounds of the mean of t - c, from the strata's means in both arms."""
    return square_and_add(units_share(t, level), units_share(c, level), _correlation(t, c))


def _correlation(t: Floats, c: Floats) -> float:
    """Correlation of the strata's means in both arms; 0 where one arm does not vary, and for two strata, whose means
    always lie on a line: the interval would be far too narrow in half of all cases."""
    return float(np.corrcoef(t, c)[0, 1]) if t.size > 2 and varies(t) and varies(c) else 0.0
