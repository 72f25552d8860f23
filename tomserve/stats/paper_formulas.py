"""The formulas of published papers as they are printed, to reproduce their numbers: arXiv 2602.22072, and the FToM
score.

They treat all questions as independent of each other, although questions of one task share its story and tasks of one
stage its setting; their intervals are therefore too narrow for any wider population, and stand beside better ones.
Counts are of questions; probabilities lie in [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tomserve.stats.distributions import correlation_p

Z = 1.96
"""The normal quantile of a 95 % interval, rounded as the paper rounds it: exactly 1.96, not 1.959964."""


def accuracy_interval(correct: int, total: int) -> tuple[float, float]:
    """The paper's 95 % interval of an accuracy k/n: p -+ 1.96 sqrt(p (1 - p) / (n + 4)), p = (k + 2) / (n + 4), in [0,
    1].

    This is the "plus four" interval (Agresti and Coull, Am Stat 52:119, 1998). It assumes independent questions. Both
    bounds are nan where total is 0. Raises ValueError unless 0 <= correct <= total.

        >>> [round(bound, 3) for bound in accuracy_interval(8, 14)]
        [0.326, 0.785]
    """
    if not 0 <= correct <= total:
        raise ValueError(f"correct {correct} of total {total}: expected 0 <= correct <= total")
    if total == 0:
        return math.nan, math.nan
    p = (correct + 2) / (total + 4)
    half = Z * math.sqrt(p * (1 - p) / (total + 4))
    return max(0.0, p - half), min(1.0, p + half)


def half_width(correct: int, total: int) -> float:
    """Half the width of `accuracy_interval`, after clamping to [0, 1]: the h from which the paper builds its effects.

    nan where total is 0. Raises ValueError unless 0 <= correct <= total.
    """
    low, high = accuracy_interval(correct, total)
    return (high - low) / 2


def risk_difference(k1: int, n1: int, k0: int, n0: int) -> tuple[float, float, float]:
    """The paper's average treatment effect (ATE) k1/n1 - k0/n0 and its 95 % interval ATE -+ sqrt(h1^2 + h0^2), not
    clamped.

    h1 and h0 are the groups' `half_width`. The groups are taken as independent, even where both answer the same items.
    Returns (effect, low, high), all nan where a group is empty. Raises ValueError unless 0 <= k <= n in both groups.

        >>> [round(value, 3) for value in risk_difference(0, 10, 10, 13)]
        [-0.769, -1.04, -0.498]
    """
    if not n1 or not n0:
        return math.nan, math.nan, math.nan
    effect = k1 / n1 - k0 / n0
    half = math.hypot(half_width(k1, n1), half_width(k0, n0))
    return effect, effect - half, effect + half


def risk_ratio(k1: int, n1: int, k0: int, n0: int) -> tuple[float, float, float]:
    """The paper's relative risk RR = p1/p0 and its 95 % interval exp(ln RR -+ sqrt((h1/p1)^2 + (h0/p0)^2)), with p =
    k/n.

    Returns (ratio, low, high). Zeros follow the arithmetic of infinities: p1 = 0 gives 0 [0, nan], p0 = 0 gives inf
    [nan, inf], and where both are 0 or a group is empty all three are nan. (The paper prints 0 [0, nan] in its
    perturbation tables, but 1 [0, inf] and, for p0 = 0, 1 [1, 1] in four cells of its prompting table; those four are
    slips.) Assumes independent questions and groups, as `risk_difference` does.

        >>> [round(value, 3) for value in risk_ratio(6, 14, 14, 14)]
        [0.429, 0.247, 0.743]
    """
    if not n1 or not n0 or not (k1 or k0):
        return math.nan, math.nan, math.nan
    if not k1:
        return 0.0, 0.0, math.nan
    if not k0:
        return math.inf, math.nan, math.inf
    p1, p0 = k1 / n1, k0 / n0
    ratio = p1 / p0
    spread = math.hypot(half_width(k1, n1) / p1, half_width(k0, n0) / p0)
    return ratio, ratio * math.exp(-spread), ratio * math.exp(spread)


def phi(both: int, first: int, second: int, neither: int) -> tuple[float, float]:
    """Phi of a 2x2 table and its p: chi-square with 1 df, without Yates' correction, of n phi^2, as the paper computes
    it.

    The p takes the questions as independent, so it is too small where they share a story. nan, nan where a margin is
    empty, that is, where a column is constant.

    both, first, second, neither: number of questions with both properties, only the first, only the second, none.

        >>> phi(40, 10, 10, 40)[0]
        0.6
    """
    margins = (both + first) * (second + neither) * (both + second) * (first + neither)
    if not margins:
        return math.nan, math.nan
    value = (both * neither - first * second) / math.sqrt(margins)
    total = both + first + second + neither
    return value, math.erfc(math.sqrt(total / 2) * abs(value))  # sf of chi-square with 1 df at n phi^2


def point_biserial(right: Sequence[bool], values: Sequence[float]) -> tuple[float, float]:
    """Point-biserial correlation of right (true/false) with a metric, and the p of its t test with n - 2 df.

    It is Pearson's r; the p assumes independent questions and a metric that is normal given the outcome. nan, nan where
    a column is constant or there are fewer than 3 pairs; the p is 0 for a perfect correlation.

    right, values: parallel sequences, one entry a question, none missing.
    """
    if len(right) < 3 or len(set(right)) < 2 or len(set(values)) < 2:
        return math.nan, math.nan
    x, y = (np.asarray(column, dtype=float) - np.mean(column) for column in (right, values))
    r = min(1.0, max(-1.0, float(x / np.linalg.norm(x) @ (y / np.linalg.norm(y)))))
    return r, correlation_p(r, len(right))


def correlation_interval(value: float, n: int) -> tuple[float, float]:
    """Fisher's 95 % interval of a correlation: tanh(atanh r -+ 1.96 / sqrt(n - 3)); nan, nan below 4 pairs or for r =
    nan.

    The paper prints no interval for its correlations. This one, like the paper's others, takes the questions as
    independent; it also assumes a bivariate normal distribution, which 0/1 columns do not have. A perfect correlation
    (|r| = 1) is returned as both of its bounds.

    value: the correlation in [-1, 1]; n: number of pairs.
    """
    if math.isnan(value) or n < 4:
        return math.nan, math.nan
    if abs(value) >= 1:
        return value, value
    middle, half = math.atanh(value), Z / math.sqrt(n - 3)
    return math.tanh(middle - half), math.tanh(middle + half)


WEIGHTS = (0.5, 0.3, 0.2)
"""The weights of B, C and S that the source prints."""

DIVISOR = 0.46
"""What C is divided by in its table: twice the largest C of the table, .23."""


def printed_formula(b: float, c: float, s: float) -> float:
    """What the formula that the source prints gives: .5 B + .3 C + .2 S. b, c, s: from 0 to 1."""
    return WEIGHTS[0] * b + WEIGHTS[1] * c + WEIGHTS[2] * s


def paper_compat(b: float, c: float | None, s: float) -> float:
    """What the source's table 6 holds, which its formula does not give.

    Mohanty et al., "Functional Theory of Mind Evaluation in Large Language Models: A Behavioral and Causal Stability
    Framework", define FToM = .5 B + .3 C + .2 S. Their table 6 does not follow from that: of the open models it holds
    .5 B + .3 C/.46 + .2 S, in which C is divided by twice that of the best model, and of the closed ones, whose C
    nobody measured, .5 B + .2 S, which is at most .7 and not comparable with the others.

    b, s: from 0 to 1. c: the same, None for a model whose mechanism was not measured; then the result is at most .7 and
    not comparable with that of a model that has C. It repeats the printed values, and is no score to report.
    """
    return WEIGHTS[0] * b + (0.0 if c is None else WEIGHTS[1] * c / DIVISOR) + WEIGHTS[2] * s
