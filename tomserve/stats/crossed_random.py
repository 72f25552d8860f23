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

import numpy as np
import numpy.typing as npt

from tomserve.stats.distributions import t_quantile, t_tails
from tomserve.stats.proportions import Interval, logit_bounds, wilson

Floats = npt.NDArray[np.float64]


def crossed_share(right: npt.ArrayLike, people: npt.ArrayLike, stories: npt.ArrayLike) -> Interval:
    """The share of right answers (1 or 0) for further people and stories, on the logit scale; Wilson's with the smaller
    number of groups where all are right or all wrong; nan bounds with fewer than two people or stories."""
    y = np.asarray(right, dtype=float)
    if not y.size:
        return _undefined("no answers")
    share, found = float(y.mean()), _errors((y - y.mean()) / y.size, people, stories)
    if found.df < 1:
        return _undefined("one person or one story", share)
    if share in (0.0, 1.0) or not found.error:
        return wilson(share * (found.df + 1), found.df + 1)
    low, high = logit_bounds(share, _quantile(found.df) * found.error)
    return Interval(share, low, high, f"two-way cluster-robust t on the logit scale, {found.df} df, people and stories")


def crossed_mean(values: npt.ArrayLike, people: npt.ArrayLike, stories: npt.ArrayLike) -> Interval:
    """The mean of any numbers, such as a person's answer minus a model's; nan where undefined."""
    y = np.asarray(values, dtype=float)
    if not y.size:
        return _undefined("no answers")
    return _errors((y - y.mean()) / y.size, people, stories).around(float(y.mean()))


def crossed_difference(
    values: npt.ArrayLike, treated: npt.ArrayLike, people: npt.ArrayLike, stories: npt.ArrayLike
) -> Interval:
    """The mean of the treated answers minus that of the others; what is particular to a person cancels."""
    y, arm = np.asarray(values, dtype=float), np.asarray(treated, dtype=bool)
    if not arm.any() or arm.all():
        return _undefined("one side has no answers")
    first, second = float(y[arm].mean()), float(y[~arm].mean())
    parts = np.where(arm, (y - first) / arm.sum(), -(y - second) / (~arm).sum())
    return _errors(parts, people, stories).around(first - second)


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
) -> Interval:
    """The mean of the second group's answers minus the first's, where different people answered the same questions,
    weighted by `shared_weights`. The variance over people is the sum of both groups'; stories are shared, so that what
    is particular to one cancels; df by Welch and Satterthwaite. nan without a common question, nan bounds with fewer
    than two people in a group or two stories."""
    y, arm, weights = np.asarray(values, dtype=float), np.asarray(second, dtype=bool), shared_weights(second, questions)
    kept = weights > 0
    if not kept.any():
        return _undefined("no question in common")
    y, arm, weights = y[kept], arm[kept], weights[kept]
    who, what = np.asarray(people)[kept], np.asarray(stories)[kept]
    means = [float(weights[side] @ y[side]) for side in (~arm, arm)]
    parts = np.where(arm, weights * (y - means[1]), -weights * (y - means[0]))
    sides = [_errors(parts[side], who[side], what[side]) for side in (~arm, arm)]
    of_people, fewest = sum(one.people for one in sides), min(one.count for one in sides)
    spread = sum(one.people**2 / (one.count - 1) for one in sides) if fewest > 1 else 0.0
    of_stories, count = _variance(parts, what)
    df = min(int(of_people**2 / spread + 1e-9) if spread else fewest - 1, count - 1)
    both = sum(one.both for one in sides)
    return _Errors(of_people, of_stories, both, fewest, df, "both people and stories").around(means[1] - means[0])


def p_value(found: Interval) -> float:
    """The two-sided p of an interval of a mean or difference of this module; nan where it has none."""
    if math.isnan(found.low) or found.high == found.low:
        return math.nan
    df = int(found.method.split(" df")[0].rsplit(" ", 1)[1])
    return t_tails(found.estimate / ((found.high - found.low) / 2 / _quantile(df)), df)


@dataclass(frozen=True)
class _Errors:
    """The variances of a sum of contributions over people, over stories and over pairs of both, how many people there
    are, and the degrees of freedom, below 1 with one person or one story."""

    people: float
    stories: float
    both: float
    count: int
    df: int
    groups: str = "people and stories"

    @property
    def error(self) -> float:
        """The standard error of the sum."""
        return math.sqrt(max(self.people + self.stories - self.both, self.people, self.stories))

    def around(self, estimate: float) -> Interval:
        """The t interval of an estimate with this error."""
        if self.df < 1 or not self.error:
            return _undefined("one person or one story" if self.df < 1 else "zero variance", estimate)
        half = _quantile(self.df) * self.error
        method = f"two-way cluster-robust t, {self.df} df, {self.groups}"
        return Interval(estimate, estimate - half, estimate + half, method)


def _errors(parts: Floats, people: npt.ArrayLike, stories: npt.ArrayLike) -> _Errors:
    """Of a sum of contributions [answers]. Raises ValueError for columns of unequal length."""
    _, who = np.unique(np.asarray(people), return_inverse=True)
    _, what = np.unique(np.asarray(stories), return_inverse=True)
    if not len(parts) == len(who) == len(what):
        raise ValueError(f"{len(parts)} values, {len(who)} people, {len(what)} stories: expected equally many")
    found = [_variance(parts, groups) for groups in (who, what, who * (int(what.max()) + 1) + what)]
    (of_people, count), (of_stories, others), (both, _) = found
    return _Errors(of_people, of_stories, both, count, min(count, others) - 1)


def _variance(parts: Floats, groups: npt.ArrayLike) -> tuple[float, int]:
    """The variance of the sum over groups [answers], and how many groups there are."""
    _, codes = np.unique(np.asarray(groups), return_inverse=True)
    sums = np.bincount(codes, weights=parts)
    count = len(sums)
    return float(sums @ sums) * count / (count - 1) if count > 1 else 0.0, count


def _undefined(reason: str, estimate: float = math.nan) -> Interval:
    return Interval(estimate, math.nan, math.nan, f"undefined: {reason}")


def _quantile(df: int) -> float:
    return t_quantile(0.975, df)
