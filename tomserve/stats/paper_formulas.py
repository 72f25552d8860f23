"""The formulas of published papers as they are printed, to reproduce their numbers: arXiv 2602.22072, and the FToM
score. They treat all questions as independent, so that their intervals are too narrow, and stand beside better ones.
Counts are of questions; probabilities lie in [0, 1]."""

import math
from collections.abc import Sequence

import numpy as np

from tomserve.stats.distributions import correlation_p

Z = 1.96  # The normal quantile of a 95 % interval, rounded as the paper rounds it: exactly 1.96, not 1.959964


def accuracy_interval(correct: int, total: int) -> tuple[float, float]:
    """The paper's 95 % interval of k/n: p -+ 1.96 sqrt(p (1 - p) / (n + 4)), p = (k + 2) / (n + 4), in [0, 1] ("plus
    four"; Agresti and Coull, Am Stat 52:119, 1998). nan where total is 0. Raises ValueError unless 0 <= correct <=
    total.

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
    """Half the width of `accuracy_interval`, after clamping: the h from which the paper builds its effects; nan where
    total is 0."""
    low, high = accuracy_interval(correct, total)
    return (high - low) / 2


def risk_difference(k1: int, n1: int, k0: int, n0: int) -> tuple[float, float, float]:
    """The paper's effect k1/n1 - k0/n0 and its interval -+ sqrt(h1^2 + h0^2), not clamped: (effect, low, high), nan
    where a group is empty. The groups are taken as independent, even where both answer the same items.

    >>> [round(value, 3) for value in risk_difference(0, 10, 10, 13)]
    [-0.769, -1.04, -0.498]
    """
    if not n1 or not n0:
        return math.nan, math.nan, math.nan
    effect = k1 / n1 - k0 / n0
    half = math.hypot(half_width(k1, n1), half_width(k0, n0))
    return effect, effect - half, effect + half


def risk_ratio(k1: int, n1: int, k0: int, n0: int) -> tuple[float, float, float]:
    """The paper's relative risk p1/p0 and its interval exp(ln RR -+ sqrt((h1/p1)^2 + (h0/p0)^2)): (ratio, low, high).
    p1 = 0 gives 0 [0, nan], p0 = 0 gives inf [nan, inf], both nan. (The paper's prompting table prints 1 [0, inf] and 1
    [1, 1] in four such cells, which are slips.)

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
    """Phi of a 2x2 table of questions and its p, chi-square with 1 df of n phi^2 without Yates' correction; nan where a
    margin is empty.

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
    """Pearson's r of right (true/false) with a metric, and the p of its t test with n - 2 df; nan where a column is
    constant or there are fewer than 3 pairs; p is 0 for a perfect correlation."""
    if len(right) < 3 or len(set(right)) < 2 or len(set(values)) < 2:
        return math.nan, math.nan
    x, y = (np.asarray(column, dtype=float) - np.mean(column) for column in (right, values))
    r = min(1.0, max(-1.0, float(x / np.linalg.norm(x) @ (y / np.linalg.norm(y)))))
    return r, correlation_p(r, len(right))


def correlation_interval(value: float, n: int) -> tuple[float, float]:
    """Fisher's 95 % interval of a correlation: tanh(atanh r -+ 1.96 / sqrt(n - 3)); nan below 4 pairs or for r = nan; a
    perfect correlation is both of its bounds. The paper prints none."""
    if math.isnan(value) or n < 4:
        return math.nan, math.nan
    if abs(value) >= 1:
        return value, value
    middle, half = math.atanh(value), Z / math.sqrt(n - 3)
    return math.tanh(middle - half), math.tanh(middle + half)


WEIGHTS = (0.5, 0.3, 0.2)  # The weights of B, C and S that the source prints
DIVISOR = 0.46  # What C is divided by in its table: twice the largest C of the table, .23


def printed_formula(b: float, c: float, s: float) -> float:
    return WEIGHTS[0] * b + WEIGHTS[1] * c + WEIGHTS[2] * s


def paper_compat(b: float, c: float | None, s: float) -> float:
    """What the source's table 6 holds, which its formula does not give: C divided by twice that of the best model, and
    of models whose C nobody measured (None) .5 B + .2 S, which is not comparable with the others. It repeats the
    printed values, and is no score to report."""
    return WEIGHTS[0] * b + (0.0 if c is None else WEIGHTS[1] * c / DIVISOR) + WEIGHTS[2] * s
