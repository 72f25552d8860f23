"""Shares and differences of answers that people gave to stories: both people and stories are samples.

Answers of one person go together, and so do answers about one story (or task), and neither is nested in the other. The
errors are two-way cluster-robust (Cameron, Gelbach and Miller, J Bus Econ Stat 29:238, 2011): V = V_people + V_stories
- V_both, each from the sums of the answers' contributions within a person, a story, or a pair of the two, with the
factor G / (G - 1) for G groups. Where that is less than one of the first two, which chance can bring about, the larger
of these counts. The quantile is Student's t with one degree of freedom less than the smaller number of groups. How well
the intervals cover is measured in tests/stats/test_crossed.py.

>>> found = crossed_share([1, 1, 0, 1, 1, 0], ["p", "p", "q", "q", "r", "r"], ["a", "b", "a", "c", "b", "c"])
>>> round(found.estimate, 3), round(found.low, 3), round(found.high, 3)
(0.667, 0.059, 0.984)
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tomserve.stats.proportions import Interval, wilson

Floats = npt.NDArray[np.float64]


def crossed_share(right: npt.ArrayLike, people: npt.ArrayLike, stories: npt.ArrayLike, level: float = 0.95) -> Interval:
    """The share of right answers, with an interval for further people like these about further stories like these.

    right: 1 or 0 for each answer [answers]. people, stories: who gave it, and the story or task that it is about
    [answers]. level: of confidence.

    The bounds are taken to the logit scale by the delta method, so that they stay within 0 and 1. Where all answers are
    right or all wrong, they are Wilson's with the smaller number of groups for n. nan without any answer, and bounds of
    nan with fewer than two people or stories.
    """
    y = np.asarray(right, dtype=float)
    if not y.size:
        return Interval(math.nan, math.nan, math.nan, "undefined: no answers")
    share = float(y.mean())
    error, df = _error((y - share) / y.size, people, stories)
    if df < 1:
        return Interval(share, math.nan, math.nan, "undefined: one person or one story")
    if share in (0.0, 1.0) or not error:
        return wilson(share * (df + 1), df + 1, level)
    half = _quantile(df, level) * error / (share * (1 - share))
    middle = math.log(share / (1 - share))
    low, high = (1 / (1 + math.exp(-max(-700.0, min(700.0, bound)))) for bound in (middle - half, middle + half))
    return Interval(share, low, high, f"two-way cluster-robust t on the logit scale, {df} df, people and stories")


def crossed_mean(values: npt.ArrayLike, people: npt.ArrayLike, stories: npt.ArrayLike, level: float = 0.95) -> Interval:
    """The mean of any numbers, such as a person's answer (1 or 0) minus a model's answer to the same question.

    Parameters as for `crossed_share`; the bounds are nan where they are undefined.
    """
    y = np.asarray(values, dtype=float)
    if not y.size:
        return Interval(math.nan, math.nan, math.nan, "undefined: no answers")
    mean = float(y.mean())
    return _symmetric(mean, (y - mean) / y.size, people, stories, level)


def crossed_difference(
    values: npt.ArrayLike,
    treated: npt.ArrayLike,
    people: npt.ArrayLike,
    stories: npt.ArrayLike,
    level: float = 0.95,
) -> Interval:
    """The mean of the treated answers minus that of the others, such as of two classes of stories.

    A person who has answers on both sides counts as one person, so that what is particular to the person cancels.

    values: one number an answer [answers]. treated: whether it belongs to the first side [answers]. Other parameters as
    for `crossed_share`. nan where one side has no answer.
    """
    y, arm = np.asarray(values, dtype=float), np.asarray(treated, dtype=bool)
    if not arm.any() or arm.all():
        return Interval(math.nan, math.nan, math.nan, "undefined: one side has no answers")
    first, second = float(y[arm].mean()), float(y[~arm].mean())
    parts = np.where(arm, (y - first) / arm.sum(), -(y - second) / (~arm).sum())
    return _symmetric(first - second, parts, people, stories, level)


def p_value(found: Interval, level: float = 0.95) -> float:
    """The two-sided p that belongs to an interval of `crossed_mean` or `crossed_difference`; nan where it has none."""
    if math.isnan(found.low) or found.high == found.low:
        return math.nan
    from scipy.stats import t as student

    df = int(found.method.split(" df")[0].rsplit(" ", 1)[1])
    error = (found.high - found.low) / 2 / _quantile(df, level)
    return float(2 * student.sf(abs(found.estimate) / error, df))


def _symmetric(estimate: float, parts: Floats, people: npt.ArrayLike, stories: npt.ArrayLike, level: float) -> Interval:
    error, df = _error(parts, people, stories)
    if df < 1 or not error:
        reason = "one person or one story" if df < 1 else "zero variance"
        return Interval(estimate, math.nan, math.nan, f"undefined: {reason}")
    half = _quantile(df, level) * error
    return Interval(
        estimate, estimate - half, estimate + half, f"two-way cluster-robust t, {df} df, people and stories"
    )


def _error(parts: Floats, people: npt.ArrayLike, stories: npt.ArrayLike) -> tuple[float, int]:
    """The standard error of a sum of contributions [answers], and the degrees of freedom."""
    _, first = np.unique(np.asarray(people), return_inverse=True)
    _, second = np.unique(np.asarray(stories), return_inverse=True)
    if not len(parts) == len(first) == len(second):
        raise ValueError(f"{len(parts)} values, {len(first)} people, {len(second)} stories: expected equally many")
    _, both = np.unique(first * (int(second.max()) + 1) + second, return_inverse=True)
    one, other, pairs = (_variance(parts, groups) for groups in (first, second, both))
    smaller = int(min(first.max(), second.max()))
    return math.sqrt(max(one + other - pairs, one, other)), smaller


def _variance(parts: Floats, groups: npt.NDArray[np.intp]) -> float:
    sums = np.bincount(groups, weights=parts)
    count = len(sums)
    return float(sums @ sums) * count / (count - 1) if count > 1 else 0.0


def _quantile(df: int, level: float) -> float:
    from scipy.stats import t as student

    return float(student.ppf(0.5 + level / 2, df))
