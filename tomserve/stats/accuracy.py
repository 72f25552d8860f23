"""Accuracy corrected for chance and macro-averaged F1, with intervals over clusters."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tomserve.stats.distributions import binomial_pmf, normal_cdf, t_quantile
from tomserve.stats.proportions import Interval, wilson

Floats = npt.NDArray[np.float64]
RESAMPLES = 2000  # How many times the clusters are drawn anew
FEW = 5  # With fewer right or fewer wrong answers the bootstrap hardly varies, and another interval stands beside it
BELOW = 0.975  # A task is below chance where so large a share of the draws is; then the clip is no matter of luck
_AT_ONCE = 250


def correct_for_chance(share: float, chance: float) -> float:
    """clip((share - chance) / (1 - chance), 0, 1): 0 for whoever guesses, 1 for whoever is always right; nan where one
    of them is nan or chance is 1. The clip leaves somebody who guesses a little above 0 on average."""
    if math.isnan(share) or math.isnan(chance) or chance >= 1:
        return math.nan
    return min(1.0, max(0.0, (share - chance) / (1 - chance)))


def guesser_mean(chance: npt.ArrayLike, task: npt.ArrayLike) -> float:
    """The corrected mean over task types (`task_mean`) that a blind guesser has on average on these questions: above 0,
    since the clip keeps what luck adds. Exact, by convolving binomials.

    chance: of each question, in [0, 1). task: its type [questions]. nan without questions or where a chance is not
    known. Raises ValueError for columns of unequal length.

    >>> guesser_mean([0.5, 0.5], ["a", "a"])  # two right by one in four, which counts 1; one right counts 0
    0.25
    """
    guess, tasks = np.asarray(chance, dtype=float), np.asarray(task)
    if len(guess) != len(tasks):
        raise ValueError("guesser needs columns of one length")
    if not guess.size or not np.isfinite(guess).all():
        return math.nan
    expected = []
    for name in np.unique(tasks):
        own = guess[tasks == name]
        probability: npt.NDArray[np.floating[Any]] = np.ones(1)
        for value, count in zip(*np.unique(own.round(12), return_counts=True), strict=True):
            probability = np.convolve(probability, binomial_pmf(np.arange(count + 1), count, value))
        shares = (np.arange(own.size + 1) / own.size - own.mean()) / (1 - own.mean())
        expected.append(float(probability @ np.clip(shares, 0, 1)))
    return float(np.mean(expected))


@dataclass(frozen=True)
class TaskMean:
    """What `task_mean` finds, by side."""

    estimate: Floats
    draws: Floats
    least: Floats
    few_bounds: Floats
    tasks: int
    clusters: int

    def interval(self, side: int = 0, level: float = 0.95) -> Interval:
        """The percentile interval of a side, and the smallest that also holds the one beside it where there is one."""
        draws = self.least[:, side], self.draws[:, side]
        return _interval(float(self.estimate[side]), draws, self.few_bounds[side], level, self.clusters)

    def difference(self, side: int, other: int, level: float = 0.95) -> Interval:
        """The estimate of a side minus that of another, over the same draws. The clip raises either side where it may
        be at chance, so the lower bound is without it for this side, the upper one for the other. Where a side has few
        bounds, those of both are combined as if independent (Donner and Zou, Stat Methods Med Res 21:347, 2012)."""
        value = float(self.estimate[side] - self.estimate[other])
        draws = self.differences(side, other)
        beside = np.full(2, np.nan)
        if not np.isnan(self.few_bounds[[side, other]]).all():
            own, its = self.interval(side, level), self.interval(other, level)
            below = math.hypot(own.estimate - own.low, its.high - its.estimate)
            above = math.hypot(own.high - own.estimate, its.estimate - its.low)
            beside = np.array([max(-1.0, value - below), min(1.0, value + above)])
        return _interval(value, draws, beside, level, self.clusters, floor=-1.0)

    def differences(self, side: int, other: int) -> tuple[Floats, Floats]:
        """The draws of the difference between two sides [resamples]: those for lower bounds, and for upper ones."""
        return self.least[:, side] - self.draws[:, other], self.draws[:, side] - self.least[:, other]


def task_mean(
    right: npt.ArrayLike,
    chance: npt.ArrayLike,
    task: npt.ArrayLike,
    cluster: npt.ArrayLike,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> TaskMean:
    """The mean over task types of the shares right, each corrected for chance, for further clusters like these.

    A percentile bootstrap over independent clusters (Davison and Hinkley 1997, sections 3.8 and 5.3), whose questions
    may be of several tasks, with percentiles expanded for their number (Hesterberg, Am Stat 69:371, 2015). The lower
    bound takes tasks that may be at chance without the clip. Where fewer than FEW answers of a side are right, or
    wrong, the interval also holds Wilson's for n = clusters, corrected likewise.

    right: 1 or 0 [answers] or [answers, sides]. chance: in [0, 1) [answers]. task, cluster: [answers]. Raises
    ValueError for columns of unequal length, or without answers."""
    sides = np.asarray(right, dtype=float)
    sides = sides[:, None] if sides.ndim == 1 else sides
    guess, tasks, clusters = np.asarray(chance, dtype=float), np.asarray(task), np.asarray(cluster)
    if not len(sides) == len(guess) == len(tasks) == len(clusters) or not len(sides):
        raise ValueError("task_mean needs columns of one length, with at least one answer")
    _, t = np.unique(tasks, return_inverse=True)
    _, c = np.unique(clusters, return_inverse=True)
    m, k, width = int(c.max()) + 1, int(t.max()) + 1, sides.shape[1]
    columns = np.concatenate([sides, guess[:, None], np.ones((len(guess), 1))], axis=1)
    sums = np.zeros((m * k, width + 2))
    np.add.at(sums, c * k + t, columns)
    table = sums.reshape(m, k * (width + 2))
    estimate = np.nanmean(np.clip(_shares(table.sum(axis=0)[None, :], k, width), 0, 1), axis=1)[0]
    rng = np.random.default_rng(seed)
    shares = np.concatenate(
        [
            _shares(rng.multinomial(m, np.full(m, 1 / m), size=min(_AT_ONCE, resamples - start)) @ table, k, width)
            for start in range(0, resamples, _AT_ONCE)
        ]
    )
    draws = np.nanmean(np.clip(shares, 0, 1), axis=1)
    open_ = (shares < 0).mean(axis=0) < BELOW
    least = np.nanmean(np.where(open_[None], shares, np.clip(shares, 0, 1)), axis=1)
    beside = np.full((width, 2), np.nan)
    for side in range(width):
        correct = sides[:, side].sum()
        if min(correct, len(sides) - correct) < FEW:
            found = wilson(float(sides[:, side].mean()) * m, m)
            beside[side] = [
                correct_for_chance(found.low, float(guess.mean())),
                correct_for_chance(found.high, float(guess.mean())),
            ]
    return TaskMean(estimate, draws, least, beside, k, m)


def _shares(sums: npt.NDArray[Any], tasks: int, width: int) -> Floats:
    """The shares of each task, corrected and not clipped [rows, tasks, sides]; nan for a task without answers. sums: of
    right answers by side, of chance, and of answers, for each task [rows, tasks x (sides + 2)]."""
    cells = sums.reshape(len(sums), tasks, width + 2)
    answers = cells[:, :, -1:]
    with np.errstate(invalid="ignore", divide="ignore"):
        chance = cells[:, :, -2:-1] / answers
        shares = (cells[:, :, :width] / answers - chance) / (1 - chance)
    return np.asarray(np.where(answers > 0, shares, np.nan), dtype=np.float64)


def _interval(
    value: float, draws: tuple[Floats, Floats], beside: Floats, level: float, clusters: int, *, floor: float = 0.0
) -> Interval:
    """draws: those for the lower bound, and those for the upper one. floor: the least possible value; the largest is
    1, which draws of a rule that is below chance would exceed."""
    if clusters < 2:
        return Interval(value, math.nan, math.nan, "undefined: one cluster")
    wide = math.sqrt(clusters / (clusters - 1)) * t_quantile((1 - level) / 2, clusters - 1)
    tail = normal_cdf(wide)
    low, high = max(floor, float(np.quantile(draws[0], tail))), min(1.0, float(np.quantile(draws[1], 1 - tail)))
    method = f"bootstrap of {clusters} clusters"
    if not math.isnan(beside[0]):
        low, high, method = min(low, float(beside[0])), max(high, float(beside[1])), f"{method}, and Wilson's"
    return Interval(value, low, high, method)


def mean_of(parts: list[TaskMean], side: int = 0, level: float = 0.95, *, floor: float = 0.0) -> Interval:
    """The mean of the estimates of several independent sets of clusters (benchmarks), each counted once, for further
    clusters of these sets. parts: with equally many resamples. floor: the least possible value, -1 for differences.
    Raises ValueError where there is no part."""
    if not parts:
        raise ValueError("mean_of needs at least one part")
    value = float(np.mean([part.estimate[side] for part in parts]))
    # The draws of every set come from one seed: without an order of its own each, sets of equally many clusters would
    # be drawn alike, and their mean vary too little or too much.
    orders = [np.random.default_rng((place, 1)).permutation(len(part.draws)) for place, part in enumerate(parts)]
    least, most = (
        np.asarray(np.mean([one[order, side] for one, order in zip(found, orders, strict=True)], axis=0), np.float64)
        for found in ([part.least for part in parts], [part.draws for part in parts])
    )
    clusters = min(part.clusters for part in parts)
    bounds = np.array([part.few_bounds[side] for part in parts])
    beside = np.full(2, np.nan)
    if not np.isnan(bounds).any():
        beside = bounds.mean(axis=0)
    found = _interval(value, (least, most), beside, level, clusters, floor=floor)
    return Interval(found.estimate, found.low, found.high, f"bootstrap of the clusters of {len(parts)} sets")


# How often clusters are drawn anew for an interval, from which seed, and how many of these draws are held at once.
DRAWS, SEED, PART = 2000, 0, 200


def macro_f1(right: Sequence[int], given: Sequence[int | None]) -> float:
    """The macro-averaged F1, 2 x right / (times right answer + times given), over the classes that are right or given
    at least once; nan without answers. A missing answer costs recall.

    right, given: numbers of classes, None where nothing is given [questions]. Raises ValueError for unequal lengths."""
    return float(_average_f1(_counts(right, given, np.zeros(len(right), dtype=np.int64)).sum(axis=0)))


def macro_f1_interval(
    right: Sequence[int], given: Sequence[int | None], cluster: npt.ArrayLike, level: float = 0.95
) -> Interval:
    """The interval of `macro_f1` for further clusters: percentiles of DRAWS resamples of clusters (Efron and Tibshirani
    1993, chapter 13), or Wilson's for the share right with n = clusters where no draw differs from another.

    cluster: a whole number for each question. Raises ValueError for unequal lengths or without questions."""
    counts = _counts(right, given, np.asarray(cluster))
    units = len(counts)
    if not units:
        raise ValueError("there are no questions")
    generator = np.random.default_rng(SEED)
    found = np.empty(DRAWS)
    for start in range(0, DRAWS, PART):
        weights = generator.multinomial(units, np.full(units, 1 / units), size=PART)
        drawn = np.tensordot(weights.astype(np.float64), counts, axes=1).astype(np.float64)
        found[start : start + PART] = _average_f1(drawn)
    estimate = macro_f1(right, given)
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    if high - low > 0:
        return Interval(estimate, float(low), float(high), f"bootstrap, {units} clusters")
    share = sum(one == other for one, other in zip(right, given, strict=True)) / len(right)
    narrow = wilson(share * units, units, level)
    return Interval(estimate, min(narrow.low, estimate), max(narrow.high, estimate), f"wilson, {units} clusters")


def constant_f1(right: Sequence[int]) -> tuple[int, float]:
    """The class that earns most where it is always given, and the F1 that it earns. Raises ValueError without
    questions."""
    sizes = np.bincount(right)
    best = int(sizes.argmax())
    return best, macro_f1(right, [best] * len(right))


def guessed_f1(right: Sequence[int], classes: int) -> float:
    """What a blind guess among so many classes earns, where questions are many."""
    shares = np.bincount(right, minlength=classes) / len(right)
    return float(np.mean(2 * shares / classes / (shares + 1 / classes)))


def _counts(right: Sequence[int], given: Sequence[int | None], cluster: npt.NDArray[np.int64]) -> Floats:
    """For each cluster and class: times right, times the right answer, times given [clusters, classes, 3]."""
    gold = np.asarray(right, dtype=np.int64)
    said = np.asarray([-1 if one is None else one for one in given], dtype=np.int64)
    if not len(gold) == len(said) == len(cluster):
        raise ValueError(f"columns of {len(gold)}, {len(said)} and {len(cluster)} values; expected one length")
    names, unit = np.unique(cluster, return_inverse=True)
    counts = np.zeros((len(names), max([*gold, *said], default=0) + 1, 3))
    for place, (rows, classes) in enumerate(((gold == said, gold), (gold >= 0, gold), (said >= 0, said))):
        np.add.at(counts, (unit[rows], classes[rows], place), 1)
    return counts


def _average_f1(counts: Floats) -> Floats:
    """The macro averages of counts [..., classes, 3]; classes that never occur are left out."""
    hits, golds, saids = (counts[..., place] for place in range(3))
    seen = golds + saids > 0
    scores = np.divide(2 * hits, golds + saids, out=np.zeros_like(hits), where=seen)
    number = seen.sum(axis=-1)
    return np.asarray(np.divide(scores.sum(axis=-1), number, out=np.full(np.shape(number), np.nan), where=number > 0))
