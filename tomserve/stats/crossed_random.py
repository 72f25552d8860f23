"""Shares and differences of answers that people gave to stories, where both are samples, crossed with each other.

Two-way cluster-robust errors (Cameron, Gelbach and Miller, J Bus Econ Stat 29:238, 2011): V_people + V_stories -
V_both, at least the larger of the first two, each with G / (G - 1), and t with the smaller number of groups - 1 df.
Columns are parallel [answers]. tests/stats/test_crossed_random.py measures how well they cover.

>>> found = crossed_share([1, 1, 0, 1, 1, 0], ["p", "p", "q", "q", "r", "r"], ["a", "b", "a", "c", "b", "c"])
>>> round(found.estimate, 3), round(found.low, 3), round(found.high, 3)
(0.667, 0.074, 0.981)
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tomserve.stats.distributions import t_quantile, t_tails
from tomserve.stats.proportions import Interval, logit_bounds, wilson

Floats = npt.NDArray[np.float64]


def crossed_share(right: npt.ArrayLike, people: npt.ArrayLike, stories: npt.ArrayLike, level: float = 0.95) -> Interval:
    """The share of right answers (1 or 0) for further people and stories, on the logit scale; Wilson's with the smaller
    number of groups where all are right or all wrong; nan bounds with fewer than two people or stories."""
    y = np.asarray(right, dtype=float)
    if not y.size:
        return Interval(math.nan, math.nan, math.nan, "undefined: no answers")
    share = float(y.mean())
    error, df = _error((y - share) / y.size, people, stories)
    if df < 1:
        return Interval(share, math.nan, math.nan, "undefined: one person or one story")
    if share in (0.0, 1.0) or not error:
        return wilson(share * (df + 1), df + 1, level)
    low, high = logit_bounds(share, _quantile(df, level) * error)
    return Interval(share, low, high, f"two-way cluster-robust t on the logit scale, {df} df, people and stories")


def crossed_mean(values: npt.ArrayLike, people: npt.ArrayLike, stories: npt.ArrayLike, level: float = 0.95) -> Interval:
    """The mean of any numbers, such as a person's answer minus a model's; nan where undefined."""
    y = np.asarray(values, dtype=float)
    if not y.size:
        return Interval(math.nan, math.nan, math.nan, "undefined: no answers")
    mean = float(y.mean())
    return _symmetric(mean, (y - mean) / y.size, people, stories, level)


def crossed_difference(
    values: npt.ArrayLike, treated: npt.ArrayLike, people: npt.ArrayLike, stories: npt.ArrayLike, level: float = 0.95
) -> Interval:
    """The mean of the treated answers minus that of the others; what is particular to a person cancels."""
    y, arm = np.asarray(values, dtype=float), np.asarray(treated, dtype=bool)
    if not arm.any() or arm.all():
        return Interval(math.nan, math.nan, math.nan, "undefined: one side has no answers")
    first, second = float(y[arm].mean()), float(y[~arm].mean())
    parts = np.where(arm, (y - first) / arm.sum(), -(y - second) / (~arm).sum())
    return _symmetric(first - second, parts, people, stories, level)


def shared_weights(second: npt.ArrayLike, questions: npt.ArrayLike) -> Floats:
    """What each answer of two groups counts where they are compared on the questions that both answered: a b / (a + b)
    a question (Mantel and Haenszel), shared by the answers of either group. The weights of each group add up to 1.
    second: whether an answer is of the second group."""
    arm = np.asarray(second, dtype=bool)
    _, question = np.unique(np.asarray(questions), return_inverse=True)
    second_, first = (np.bincount(question[side], minlength=question.max(initial=0) + 1) for side in (arm, ~arm))
    total = first + second_
    whole = float((first * second_ / np.maximum(total, 1)).sum())
    shares: Floats = np.where(arm, first[question], second_[question]) / total[question]
    return shares / whole if whole else shares * 0


def crossed_groups(
    values: npt.ArrayLike,
    second: npt.ArrayLike,
    people: npt.ArrayLike,
    stories: npt.ArrayLike,
    questions: npt.ArrayLike,
    level: float = 0.95,
) -> Interval:
    """The mean of the second group's answers minus the first's, where different people answered the same questions,
    weighted by `shared_weights`. The variance over people is the sum of both groups'; stories are shared, so that what
    is particular to one cancels; df by Welch and Satterthwaite. nan without a common question, nan bounds with fewer
    than two people in a group or two stories."""
    y, arm, weights = np.asarray(values, dtype=float), np.asarray(second, dtype=bool), shared_weights(second, questions)
    kept = weights > 0
    if not kept.any():
        return Interval(math.nan, math.nan, math.nan, "undefined: no question in common")
    y, arm, weights = y[kept], arm[kept], weights[kept]
    who, what = np.asarray(people)[kept], np.asarray(stories)[kept]
    means = [float(weights[side] @ y[side]) for side in (~arm, arm)]
    parts = np.where(arm, weights * (y - means[1]), -weights * (y - means[0]))
    estimate = means[1] - means[0]
    sides = [_variances(parts[side], who[side], what[side]) for side in (~arm, arm)]
    of_people = sum(one.people for one in sides)
    _, story = np.unique(what, return_inverse=True)
    of_stories, fewest = _variance(parts, story), min(one.count for one in sides)
    if fewest < 2 or story.max() < 1:
        return Interval(estimate, math.nan, math.nan, "undefined: one person or one story")
    error = math.sqrt(max(of_people + of_stories - sum(one.both for one in sides), of_people, of_stories))
    if not error:
        return Interval(estimate, math.nan, math.nan, "undefined: zero variance")
    spread = sum(one.people**2 / (one.count - 1) for one in sides)
    df = min(int(of_people**2 / spread + 1e-9) if spread else fewest - 1, int(story.max()))
    half = _quantile(df, level) * error
    return Interval(
        estimate, estimate - half, estimate + half, f"two-way cluster-robust t, {df} df, both people and stories"
    )


def p_value(found: Interval, level: float = 0.95) -> float:
    """The two-sided p of an interval of a mean or difference of this module; nan where it has none."""
    if math.isnan(found.low) or found.high == found.low:
        return math.nan
    df = int(found.method.split(" df")[0].rsplit(" ", 1)[1])
    error = (found.high - found.low) / 2 / _quantile(df, level)
    return t_tails(found.estimate / error, df)


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


@dataclass(frozen=True)
class _Side:
    """Of one group of people the variance over them, that over pairs of person and story, and how many they are."""

    people: float
    both: float
    count: int


def _variances(parts: Floats, people: npt.NDArray[Any], stories: npt.NDArray[Any]) -> _Side:
    _, who = np.unique(people, return_inverse=True)
    _, what = np.unique(stories, return_inverse=True)
    _, both = np.unique(who * (int(what.max()) + 1) + what, return_inverse=True)
    return _Side(_variance(parts, who), _variance(parts, both), int(who.max()) + 1)


def _variance(parts: Floats, groups: npt.NDArray[np.intp]) -> float:
    sums = np.bincount(groups, weights=parts)
    count = len(sums)
    return float(sums @ sums) * count / (count - 1) if count > 1 else 0.0


def _quantile(df: int, level: float) -> float:
    return t_quantile(0.5 + level / 2, df)
