"""What an effect is: a difference of two shares with its interval, the p of that interval, and the ratio beside it.

The interval, the p and the ratio of one effect never disagree about "no effect": p is at most .05 exactly when the 95%
interval of the difference excludes 0, and exactly then the interval of the ratio excludes 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tomserve.stats.clusters import effective_n
from tomserve.stats.paired import mean_interval, sign_flip, smallest_p, t_p, varies
from tomserve.stats.proportions import UNDEFINED, Interval, hull, inverted_ratio, newcombe, ratio_from_difference

Floats = npt.NDArray[np.float64]
FEW = 20
"""Below so many clusters an arm "few tasks" is flagged: intervals that rest on large samples, and bootstraps, are not
to be trusted.
"""
FEW_CHANGES = 5
"""Below so many answers that differ at all, the spread of the units says hardly anything."""
CORRELATION = 0.1
"""The correlation of rare answers within a unit that is assumed where too few of them are seen to estimate it.

Rare events cluster little on the scale of shares: with logits that vary by an SD of 1.4 between units, a share of .02
has an intra-class correlation of about .06, one of .05 about .12.
"""


@dataclass(frozen=True)
class Effect:
    """A difference of probabilities, treated less control, with its interval and tests; nan where undefined.

    `estimate`, `low`, `high`: in [-1, 1]. `p`: two-sided p of the test that the interval inverts: it is at most .05
    exactly when the 95% interval excludes 0. `p_sign_flip`: of a sign-flip test, and `p_smallest` the least p that it
    can give over these units. `share_treated`, `share_control`: the two shares whose difference is the estimate.
    `ratio`: of these two shares; its 95% interval excludes 1 exactly when that of the difference excludes 0. `units`:
    number of independent units (stages or tasks). `tasks`: clusters that contributed, both arms together. `method`: how
    the interval was computed, in words that tables print. `few_tasks`: whether an arm has fewer than 20 clusters.
    """

    estimate: float
    low: float
    high: float
    p: float
    p_sign_flip: float
    p_smallest: float
    share_treated: float
    share_control: float
    ratio: Interval
    units: int
    tasks: int
    method: str
    few_tasks: bool


def undefined_effect(method: str, tasks: int) -> Effect:
    """The effect where none can be given: nan throughout, with the reason as its method and the number of clusters."""
    return Effect(*(math.nan,) * 8, Interval(*UNDEFINED, method=method), 0, tasks, method, True)


@dataclass(frozen=True)
class Design:
    """What the effect of some units needs to know beside their means.

    `tasks`: clusters of both arms; `smaller`: those of the smaller arm; `few_changes`: whether fewer than FEW_CHANGES
    answers differ; `score`: a score interval of the same difference for a level, which needs no spread between the
    units; `excludes`: whether that interval excludes 0 at a level, where this is known without it; `what`: words to
    add to the method.
    """

    tasks: int
    smaller: int
    few_changes: bool
    score: Callable[[float], Interval]
    what: str
    excludes: Callable[[float], bool] | None = None


def unit_effect(t: Floats, c: Floats, design: Design, level: float) -> Effect:
    """The effect from the units' means in both arms (t treated, c control) [units], each in [0, 1].

    The interval is t over the units' differences. Where these do not vary, or there is one unit, it is the score
    interval of the design; where fewer than FEW_CHANGES answers differ, it is the smallest interval that holds both,
    since few rare answers make the spread of the units, and with it the t interval, too small as often as not. p is
    that of the interval used.
    """
    m = t.size
    if not m:
        return undefined_effect("undefined: no units with both arms", design.tasks)
    d = t - c
    interval, p, ratio = mean_interval(d, level), t_p(d), inverted_ratio(t, c, level)
    spread = m > 1 and varies(d)
    if not spread or design.few_changes:
        score = _score(design, interval.estimate, m, level, spread=spread)
        other = ratio_from_difference(float(t.mean()), float(c.mean()), score.low, score.high)
        score_p = tested_p(design.excludes) if design.excludes else inverted_p(lambda of: _bounds(design.score(of)))
        interval = hull(interval, score) if spread else score
        ratio, p = (hull(ratio, other), max(p, score_p)) if spread else (other, score_p)
    return Effect(
        interval.estimate,
        interval.low,
        interval.high,
        p,
        sign_flip(d).p,
        smallest_p(m),
        float(t.mean()),
        float(c.mean()),
        ratio,
        m,
        design.tasks,
        interval.method + design.what,
        design.smaller < FEW,
    )


def unit_interval(d: Floats, design: Design, level: float) -> Interval:
    """The interval of `unit_effect` alone, without its tests, from the differences of the units [units]: for whoever
    wants it at many levels."""
    interval = mean_interval(d, level)
    spread = d.size > 1 and varies(d)
    if not d.size or (spread and not design.few_changes):
        return interval
    score = _score(design, interval.estimate, d.size, level, spread=spread)
    return hull(interval, score) if spread else score


def _score(design: Design, estimate: float, units: int, level: float, *, spread: bool) -> Interval:
    """The score interval of the design, which holds the estimate, with the reason why it is needed. spread: whether the
    units differ."""
    found = design.score(level)
    reason = "fewer than 5 answers differ" if spread else "one unit" if units < 2 else "zero variance"
    return Interval(estimate, min(found.low, estimate), max(found.high, estimate), f"{found.method} ({reason})")


def inverted_p(bounds: Callable[[float], tuple[float, float]]) -> float:
    """p of the test that an interval inverts: one minus the highest level at which the interval still excludes 0.

    bounds: function of the level that gives (low, high). The search starts from the 95% interval, so that p is at most
    .05 exactly when that one excludes 0, even for an interval that does not grow with every step of the level. p is 1
    where 0 is held at every level.
    """

    def excludes(level: float) -> bool:
        low, high = bounds(level)
        return low > 0 or high < 0

    return tested_p(excludes)


def tested_p(excludes: Callable[[float], bool]) -> float:
    """The p of `inverted_p` of an interval that is known by whether it excludes 0 at a level."""
    least, most = (0.0, 0.05) if excludes(0.95) else (0.05, 1.0)
    if most == 1.0 and not excludes(1 - (1 - 1e-9)):
        return 1.0
    for _ in range(40):
        p = (least + most) / 2
        least, most = (least, p) if excludes(1 - p) else (p, most)
    return most


def effective_answers(sizes: npt.NDArray[np.integer]) -> float:
    """For how many independent answers units of these sizes count where rare answers cluster as CORRELATION says; a
    single unit counts once, since it cannot show how much units differ.
    """
    return effective_n(sizes, CORRELATION) if sizes.size > 1 else float(sizes.size)


def independent_score(
    t: float, sizes1: npt.NDArray[np.integer], c: float, sizes0: npt.NDArray[np.integer], level: float
) -> Interval:
    """Newcombe's interval of t - c for the effective numbers of answers of two arms, given the shares t (treated) and c
    (control) and the numbers of answers of each unit of either arm [units].
    """
    n1, n0 = effective_answers(sizes1), effective_answers(sizes0)
    found = newcombe(t * n1, n1, c * n0, n0, level)
    method = f"Newcombe, n = {n1:.1f} of {sizes1.sum()} and {n0:.1f} of {sizes0.sum()} answers"
    return Interval(found.estimate, found.low, found.high, method)


def _bounds(interval: Interval) -> tuple[float, float]:
    return interval.low, interval.high
