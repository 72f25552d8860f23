"""What an effect is: a difference of two shares with its interval, the p of that interval, and the ratio beside it. p
is at most .05 exactly when the 95% interval of the difference excludes 0, and exactly then that of the ratio excludes
1."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tomserve.stats.clusters import effective_n
from tomserve.stats.paired import mean_interval, sign_flip, smallest_p, t_p, varies
from tomserve.stats.proportions import UNDEFINED, Interval, hull, inverted_ratio, newcombe, ratio_from_difference

Floats = npt.NDArray[np.float64]
# Below so many clusters an arm "few tasks" is flagged: intervals that rest on large samples, and bootstraps, are not to
# be trusted.
FEW = 20
FEW_CHANGES = 5  # Below so many answers that differ at all, the spread of the units says hardly anything
# The correlation of rare answers within a unit that is assumed where too few of them are seen to estimate it: with
# logits that vary by an SD of 1.4 between units, a share of .02 has one of about .06, a share of .05 of about .12.
CORRELATION = 0.1


@dataclass(frozen=True)
class Effect:
    """A difference of probabilities, treated less control, in [-1, 1], with its interval and tests; nan where
    undefined."""

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
    """The effect where none can be given, with the reason as its method."""
    return Effect(*(math.nan,) * 8, Interval(*UNDEFINED, method=method), 0, tasks, method, True)


@dataclass(frozen=True)
class Design:
    """What the effect of some units needs beside their means."""

    tasks: int
    smaller: int
    few_changes: bool
    score: Callable[[float], Interval]
    what: str
    excludes: Callable[[float], bool] | None = None


def unit_effect(t: Floats, c: Floats, design: Design) -> Effect:
    """The effect from the units' means in both arms, each in [0, 1] [units].

    The interval is t over the units' differences. Where these do not vary it is the score interval of the design; where
    fewer than FEW_CHANGES answers differ, the smallest that holds both, since few rare answers make the spread of the
    units too small as often as not. p is that of the interval used."""
    m = t.size
    if not m:
        return undefined_effect("undefined: no units with both arms", design.tasks)
    d = t - c
    interval, p, ratio = unit_interval(d, design, 0.95), t_p(d), inverted_ratio(t, c)
    spread = m > 1 and varies(d)
    if not spread or design.few_changes:
        at, score = interval.estimate, design.score(0.95)
        other = ratio_from_difference(float(t.mean()), float(c.mean()), min(at, score.low), max(at, score.high))
        score_p = tested_p(design.excludes) if design.excludes else inverted_p(lambda of: design.score(of).bounds)
        ratio, p = (hull(ratio, other), max(p, score_p)) if spread else (other, score_p)
    return Effect(
        interval.estimate,
        interval.low,
        interval.high,
        p,
        sign_flip(d),
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
    """The interval of `unit_effect` alone, from the differences of the units [units]."""
    if d.size < 2 or not varies(d):
        return mean_interval(d, level, design.score(level) if d.size else None)
    interval = mean_interval(d, level)
    if not design.few_changes:
        return interval
    score = design.score(level)
    return hull(interval, replace(score, method=f"{score.method} (fewer than 5 answers differ)"))


def inverted_p(bounds: Callable[[float], tuple[float, float]]) -> float:
    """p of the test that an interval inverts: one minus the highest level at which it excludes 0. bounds: gives (low,
    high) at a level. The search starts from the 95% interval, so that p is at most .05 exactly when that one excludes
    0. p is 1 where 0 is held at every level."""

    def excludes(level: float) -> bool:
        low, high = bounds(level)
        return low > 0 or high < 0

    return tested_p(excludes)


def tested_p(excludes: Callable[[float], bool]) -> float:
    """The p of `inverted_p` of an interval that is known by whether it excludes 0 at a level."""
    return least_p(excludes, 0.05) if excludes(0.95) or excludes(1 - (1 - 1e-9)) else 1.0


def least_p(excludes: Callable[[float], bool], p: float) -> float:
    """The least p, to 12 decimals, so that an interval whose level is 1 - p excludes something. The search begins with
    `p`, so that what is found is at most this exactly where that interval does."""
    least, most = (0.0, p) if excludes(1 - p) else (p, 1.0)
    for _ in range(40):
        middle = (least + most) / 2
        least, most = (least, middle) if excludes(1 - middle) else (middle, most)
    return most


def effective_answers(sizes: npt.NDArray[np.integer]) -> float:
    """For how many independent answers units of these sizes count where rare answers cluster as CORRELATION says; a
    single unit counts once."""
    return effective_n(sizes, CORRELATION) if sizes.size > 1 else float(sizes.size)


def independent_score(
    t: float, sizes1: npt.NDArray[np.integer], c: float, sizes0: npt.NDArray[np.integer], level: float
) -> Interval:
    """Newcombe's interval of t - c, the shares of two arms, for the effective numbers of answers; sizes: of each unit
    [units]."""
    n1, n0 = effective_answers(sizes1), effective_answers(sizes0)
    found = newcombe(t * n1, n1, c * n0, n0, level)
    method = f"Newcombe, n = {n1:.1f} of {sizes1.sum()} and {n0:.1f} of {sizes0.sum()} answers"
    return Interval(found.estimate, *found.bounds, method)
