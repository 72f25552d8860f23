"""Effects adjusted for strata: GEE and Mantel-Haenszel for these strata, pooled clusters and permutations beyond."""

from __future__ import annotations

import math
from collections.abc import Iterator
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
# The iteration stops once the norm of the score (the estimating equations) is below this, as in statsmodels.
TOLERANCE = 1e-6
ITERATIONS = 60  # The most steps made after the correlation was first estimated, as in statsmodels
# Steps made as if rows were independent before the correlation is first estimated; statsmodels starts from such a fit,
# too.
_START = 25


@dataclass(frozen=True)
class ClusterTotals:
    """Sums by cluster [clusters]; arm is 1 for treated, stratum coded from 0, each with clusters in both arms."""

    rows: Floats
    sums: Floats
    squares: Floats
    arm: Floats
    stratum: Codes


@dataclass(frozen=True)
class _Inverse:
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
        side."""
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
    """Sum rows up by cluster; None where a cluster lies in several strata or arms. All columns [rows], codes from 0."""
    _, first = np.unique(cluster, return_index=True)
    treated, strata = arm[first].astype(float), stratum[first]
    if not (np.array_equal(treated[cluster], arm) and np.array_equal(strata[cluster], stratum)):
        return None
    counts, sums, squares = (np.bincount(cluster, values).astype(float) for values in (np.ones_like(y), y, y * y))
    return ClusterTotals(counts, sums, squares, treated, strata)


@dataclass(frozen=True)
class Shares:
    """Fitted shares of both arms, means over the strata with equal weight, and their covariance (treated, control) [2,
    2]."""

    treated: float
    control: float
    covariance: Floats

    @property
    def difference(self) -> float:
        return self.treated - self.control

    @property
    def error(self) -> float:
        """The standard error of the difference."""
        return math.sqrt(max(0.0, float(self.covariance[0, 0] + self.covariance[1, 1] - 2 * self.covariance[0, 1])))

    def finite(self) -> bool:
        return bool(np.isfinite([self.treated, self.control]).all() and np.isfinite(self.covariance).all())


def fit_shares(data: ClusterTotals, *, binomial: bool) -> Shares | None:
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
        return found if found.finite() else None


def _fit(data: ClusterTotals, binomial: bool) -> tuple[Floats, float, float] | None:
    """Fit the equations: stratum effects [strata], treatment effect, correlation within clusters; None without
    convergence."""
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
    expectation by the linear predictor."""
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
    and DeRouen (2001): the sum of the squares is the variance, the sum of products of two of them a covariance."""
    mean, variance, slope = _moments(data, strata, treatment, binomial)
    inflation = 1 + (data.rows - 1) * correlation
    inverse = _Inverse.of(data, slope**2 / variance * data.rows / inflation)
    leverage = slope**2 / variance * data.rows / inflation * inverse.quadratic(data)
    residual = (data.sums - data.rows * mean) / (1 - leverage)
    towards, last = inverse.solve(*gradient)
    return np.asarray((towards[data.stratum] + last * data.arm) * slope / variance / inflation * residual, dtype=float)


def these_strata_effect(
    outcome: npt.ArrayLike, treated: npt.ArrayLike, cluster: npt.ArrayLike, stratum: npt.ArrayLike, level: float = 0.95
) -> Effect:
    """Risk difference for further clusters of these strata, each of equal weight, by `fit_shares`: binomial or, where a
    stratum or an arm is all right or all wrong, linear; Newcombe's interval for an effective number of answers without
    residual variance. t with (clusters of the smaller arm - 1) df; the ratio is Fieller's; no sign flips.

    outcome, treated, cluster, stratum: [answers]; strata without both arms are left out. Undefined
    where a cluster lies in several arms or strata. Raises ValueError for columns of unequal
    length."""
    y, arm = np.asarray(outcome, dtype=float), np.asarray(treated, dtype=bool)
    clusters, strata = np.asarray(cluster), np.asarray(stratum)
    cells = matched_cells(y, arm, clusters, strata)
    if not len(cells.means):
        return undefined_effect("undefined: no stratum with both arms", 0)
    y, arm, clusters, codes = _matched_rows(y, arm, clusters, strata)
    n0, n1 = (int(count) for count in cells.counts.sum(axis=0))
    tasks, smaller = n0 + n1, min(n0, n1)
    data = sum_clusters(y, arm, clusters, codes)
    if data is None:
        return undefined_effect("undefined: clusters lie in several arms or strata", tasks)
    fit, how = None if _is_separable(y, arm, codes) else fit_shares(data, binomial=True), "GEE binomial, standardised"
    if fit is None:
        fit, how = fit_shares(data, binomial=False), "GEE linear (a stratum or arm is all right or all wrong)"
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
    of both arms."""
    c, t = (float(share) for share in means.mean(axis=0))
    treated, control = (np.unique(clusters[rows], return_counts=True)[1] for rows in (arm, ~arm))

    def score(of: float) -> tuple[float, float]:
        found = independent_score(t, treated, c, control, of)
        return min(found.low, t - c), max(found.high, t - c)

    low, high = score(level)
    method = independent_score(t, treated, c, control, level).method + " (no residual variance)"
    shares, few = (t, c, ratio_from_difference(t, c, low, high)), min(treated.size, control.size) < FEW
    return Effect(t - c, low, high, inverted_p(score), math.nan, math.nan, *shares, tasks, tasks, method, few)


def mantel_haenszel(outcome: npt.ArrayLike, treated: npt.ArrayLike, stratum: npt.ArrayLike) -> tuple[float, float]:
    """Mantel and Haenszel's pooled risk difference (Greenland and Robins, Biometrics 41:55, 1985) and risk ratio (JNCI
    22:719, 1959) of the items at hand. Columns [answers]."""
    y, arm, strata = np.asarray(outcome, dtype=float), np.asarray(treated, dtype=bool), np.asarray(stratum)
    known = ~np.isnan(y)
    y, arm, strata = y[known], arm[known], strata[known]
    _, codes = np.unique(strata, return_inverse=True)
    n0, n1 = (np.bincount(codes[side], minlength=codes.max(initial=-1) + 1).astype(float) for side in (~arm, arm))
    c, t = (np.bincount(codes[side], y[side], minlength=n0.size) for side in (~arm, arm))
    weight = n1 * n0 / (n1 + n0)  # 0 for a stratum without one of the arms
    with np.errstate(all="ignore"):  # 0/0 is reported as nan, x/0 as inf
        difference = float(np.nansum(weight * (t / n1 - c / n0)) / weight.sum())
        return difference, float(np.sum(t * n0 / (n1 + n0)) / np.sum(c * n1 / (n1 + n0)))


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


def pooled_effect(
    outcome: npt.ArrayLike, treated: npt.ArrayLike, cluster: npt.ArrayLike, stratum: npt.ArrayLike, level: float = 0.95
) -> Effect:
    """Effect for new strata, as `clustered.cells_effect`, where the arms are of unequal size: with ten treated tasks
    and one control task a stage a t test of the differences fails near 0 and 1 (bench/coverage.py).

    The intervals of both arms (`clustered.units_share`) are combined by square-and-add with the correlation of their
    stratum means; p is that of this interval. Sign flips assume symmetric differences; `permutation_p` asks about these
    strata only. Columns [answers]; strata without both arms are left out. Raises ValueError for unequal lengths."""
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
        flips,
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
    """Two-sided p of the hypothesis that, within its stratum, a control cluster is like any treated one, by shuffling
    clusters between the arms: (1 + draws as extreme) / (1 + draws) (Phipson and Smyth 2010). nan where no stratum has
    both arms.

    Columns [answers]. Where a stratum has more than SINGLY clusters and an arm one, that one is drawn. Raises
    ValueError for unequal lengths, and for a cluster in both arms."""
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
    """Yield for each stratum the means of its clusters [clusters] and how many of them are treated."""
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
    depend on the batches."""
    for rows in batches(draws, means.size):
        shuffled = rng.permuted(np.broadcast_to(means, (rows, means.size)), axis=1)
        yield shuffled[:, :n1].mean(axis=1) - shuffled[:, n1:].mean(axis=1)


def _alone(means: Floats, n1: int, draws: int, rng: np.random.Generator) -> Iterator[Floats]:
    """The same where one arm is a single cluster: which cluster that is decides all, and drawing it takes a tenth of
    the time."""
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
