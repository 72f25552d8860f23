"""Effects for *these* strata: a risk difference by GEE with stratum effects, and Mantel-Haenszel estimates beside it.

The quantity is the mean over the strata asked of the difference treated - control in probability, and the population is
further clusters (tasks) of the same kind in the same strata (stages). It says nothing about stages not yet written; for
those see `clustered.matched_effect` and `pooled.pooled_effect`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tomserve.stats import gee
from tomserve.stats.cells import matched_cells
from tomserve.stats.distributions import t_quantile, t_two_sided
from tomserve.stats.effects import FEW, Effect, independent_score, inverted_p, undefined
from tomserve.stats.ratios import fieller, from_difference

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]
Fit = gee.Shares | None
"""The fitted shares of both arms; None where the fit fails."""
LARGEST_DESIGN = 2_000_000
"""The most numbers, rows x (strata + 1), in a design matrix for statsmodels: 16 MB, of which a fit holds several
copies.
"""


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
    outcome: npt.ArrayLike,
    treated: npt.ArrayLike,
    cluster: npt.ArrayLike,
    stratum: npt.ArrayLike,
    level: float = 0.95,
) -> Effect:
    """Risk difference for these strata, each of equal weight, for further clusters of the same kind in them.

    Estimated by GEE (Liang and Zeger, Biometrika 73:13, 1986; statsmodels): binomial, one effect a stratum plus the
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
    (tomserve.stats.gee); otherwise by statsmodels, and where rows x strata then exceed LARGEST_DESIGN the effect is
    undefined. Raises ValueError for columns of unequal length.
    """
    y, arm = np.asarray(outcome, dtype=float), np.asarray(treated, dtype=bool)
    clusters, strata = np.asarray(cluster), np.asarray(stratum)
    cells = matched_cells(y, arm, clusters, strata)
    if not len(cells.means):
        return undefined("undefined: no stratum with both arms", 0)
    y, arm, clusters, codes = _matched_rows(y, arm, clusters, strata)
    n0, n1 = (int(count) for count in cells.counts.sum(axis=0))
    tasks, smaller = n0 + n1, min(n0, n1)
    fits = _fits(y, arm, clusters, codes)
    if fits is None:
        return undefined("undefined: clusters lie in several arms, which is not fitted for so many strata", tasks)
    fit, how = None if _separated(y, arm, codes) else fits(True), "GEE binomial, standardised"
    if fit is None:
        fit, how = fits(False), "GEE linear (a stratum or arm is all right or all wrong)"
    few = smaller < FEW
    if fit is None or smaller < 2 or not fit.error > 1e-9:
        return _without_fit(y, arm, clusters, cells.means, tasks, level)
    estimate, error, df = fit.difference, fit.error, smaller - 1
    quantile = t_quantile(0.5 + level / 2, df)
    p = t_two_sided(estimate / error, df)
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
    shares, few = (t, c, from_difference(t, c, low, high)), min(treated.size, control.size) < FEW
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


def _separated(y: Floats, arm: npt.NDArray[np.bool_], codes: npt.NDArray[np.intp]) -> bool:
    """Whether a stratum or an arm is all right or all wrong, so that its logit is infinite."""
    shares = np.bincount(codes, weights=y) / np.bincount(codes)
    arms = np.array([y[arm].mean(), y[~arm].mean()])
    return bool(np.any((shares <= 0) | (shares >= 1)) or np.any((arms <= 0) | (arms >= 1)))


def _fits(y: Floats, arm: npt.NDArray[np.bool_], clusters: Codes, codes: Codes) -> Callable[[bool], Fit] | None:
    """A function that fits these rows, given whether to fit a binomial model; None where they are too many to fit."""
    if (data := gee.clusters_of(y, arm, clusters, codes)) is not None:
        return lambda binomial: gee.fitted_shares(data, binomial=binomial)
    if y.size * (int(codes.max()) + 2) > LARGEST_DESIGN:
        return None
    design = np.column_stack([np.eye(codes.max() + 1)[codes], arm.astype(float)])
    return lambda binomial: (_standardised if binomial else _linear)(y, design, clusters)


def _standardised(y: Floats, design: Floats, clusters: npt.NDArray[np.intp]) -> Fit:
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
    return gee.Shares(float(p1.mean()), float(p0.mean()), gradients @ covariance @ gradients.T)


def _linear(y: Floats, design: Floats, clusters: npt.NDArray[np.intp]) -> Fit:
    """Shares of a linear fit, whose difference is the treatment coefficient; None where the fit fails."""
    fit = _gee(y, design, clusters, binomial=False)
    if fit is None:
        return None
    gradients = np.array([rows.mean(axis=0) for rows in _rows(design)])
    treated, control = gradients @ fit[0]
    return gee.Shares(float(treated), float(control), gradients @ fit[1] @ gradients.T)


def _rows(design: Floats) -> tuple[Floats, Floats]:
    """The design rows of every stratum, treated and as control [strata, coefficients]."""
    control = np.eye(design.shape[1])[:-1]
    treatment = control.copy()
    treatment[:, -1] = 1.0
    return treatment, control


def _gee(y: Floats, design: Floats, clusters: npt.NDArray[np.intp], binomial: bool) -> tuple[Floats, Floats] | None:
    """Coefficients and bias-reduced covariance (Mancl and DeRouen) of statsmodels' GEE, or None where they are not
    finite.
    """
    from statsmodels.genmod.cov_struct import Exchangeable
    from statsmodels.genmod.families import Binomial, Gaussian
    from statsmodels.genmod.generalized_estimating_equations import GEE

    family = Binomial() if binomial else Gaussian()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # where a fit does not converge, the caller falls back
        try:
            model = GEE(y, design, groups=clusters, family=family, cov_struct=Exchangeable())
            result = model.fit(cov_type="bias_reduced")
        except (np.linalg.LinAlgError, ValueError):
            return None
    beta, covariance = np.asarray(result.params), np.asarray(result.cov_params())
    finite = bool(np.isfinite(beta).all() and np.isfinite(covariance).all())
    return (beta, covariance) if finite and getattr(result, "converged", True) else None
