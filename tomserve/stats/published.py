"""The perturbed false-belief paper's own intervals (arXiv 2602.22072), kept under their own name.

They treat the questions of a task as independent, which they are not; they stand beside better ones for comparison.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Z = 1.96  # exactly, as published; not 1.959964


def accuracy_interval(correct: int, total: int) -> tuple[float, float]:
    """Agresti-Coull-like interval: p = (k + 2) / (n + 4), p -+ 1.96 sqrt(p (1 - p) / (n + 4)), clamped to [0, 1].

    nan, nan where total is 0. Raises ValueError unless 0 <= correct <= total.

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
    """Half the width of the clamped accuracy interval: the h that the paper's effects are built from."""
    low, high = accuracy_interval(correct, total)
    return (high - low) / 2


def risk_difference(k1: int, n1: int, k0: int, n0: int) -> tuple[float, float, float]:
    """Average treatment effect k1/n1 - k0/n0 and its interval, as if unpaired: ATE -+ sqrt(h1^2 + h0^2), not clamped.

    nan where a group is empty.

        >>> [round(value, 3) for value in risk_difference(0, 10, 10, 13)]
        [-0.769, -1.04, -0.498]
    """
    if not n1 or not n0:
        return math.nan, math.nan, math.nan
    effect = k1 / n1 - k0 / n0
    half = math.hypot(half_width(k1, n1), half_width(k0, n0))
    return effect, effect - half, effect + half


def risk_ratio(k1: int, n1: int, k0: int, n0: int) -> tuple[float, float, float]:
    """Relative risk p1/p0 and its interval exp(ln RR -+ sqrt((h1/p1)^2 + (h0/p0)^2)), p without correction.

    Degenerate cases follow the arithmetic of infinities: p1 = 0 gives 0 [0, nan], p0 = 0 gives inf [nan, inf], both
    give nan. (The paper prints 0 [0, nan] in its perturbation tables, but 1 [0, inf] and, for p0 = 0, 1 [1, 1] in four
    cells of its prompting table; those are slips.)

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
    """Phi of a 2x2 table of counts and its p: chi-square with 1 df, no Yates correction, p = sf(n phi^2).

    nan, nan where a margin is empty (a constant column).

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
    """Point-biserial correlation of an outcome with a metric, and the p of its t-test (n - 2 df).

    nan, nan where a column is constant or there are fewer than 3 pairs; p is 0 for a perfect correlation.
    """
    if len(right) < 3 or len(set(right)) < 2 or len(set(values)) < 2:
        return math.nan, math.nan
    from scipy.stats import pearsonr  # costs most of a second, which tables without chains need not wait for

    found = pearsonr([float(value) for value in right], values)
    return float(found.statistic), float(found.pvalue)


def correlation_interval(value: float, n: int) -> tuple[float, float]:
    """Fisher's z interval, tanh(atanh r -+ 1.96 / sqrt(n - 3)); nan, nan below 4 pairs or without a value.

    The paper prints no interval for its correlations; this one, like its others, takes the questions as independent.
    """
    if math.isnan(value) or n < 4:
        return math.nan, math.nan
    if abs(value) >= 1:
        return value, value
    middle, half = math.atanh(value), Z / math.sqrt(n - 3)
    return math.tanh(middle - half), math.tanh(middle + half)
