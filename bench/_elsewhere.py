"""Simulated comparisons without stages: unmatched stories, two runs of one dataset, chains and answers."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from _answers import mean_for
from _tally import Key, Tally, agrees
from scipy.special import expit

from tomserve.stats import association, clustered
from tomserve.stats.clusters import cluster_means
from tomserve.stats.effects import Effect

Floats = npt.NDArray[np.float64]
PAIRS = ((0.05, 0.05), (0.2, 0.2), (0.5, 0.5), (0.8, 0.8), (0.95, 0.95), (0.5, 0.25), (0.8, 0.5), (0.95, 0.65))
STORIES = [(clusters, *rates) for clusters in (7, 30) for rates in PAIRS]
CHAINS = [(stages, strength) for stages in (7, 21) for strength in (0.0, 1.0, 2.5)]
QUESTIONS = 5


def stories(tally: Tally, rng: np.random.Generator, given: tuple[int, float, float], index: int) -> None:
    """Stories of five questions: other stories in each arm, and the same stories in both."""
    count, base, rate = given
    where, at = f"{count} stories an arm", f"{base} {rate}"
    means = mean_for(np.array([base, rate]), 1.0)
    true = float(rate - base)
    chance = expit(np.repeat(means, count) + rng.normal(0, 1, 2 * count))
    right = (rng.random(chance.size * QUESTIONS) < np.repeat(chance, QUESTIONS)).astype(float)
    story = np.repeat(np.arange(2 * count), QUESTIONS)
    found = clustered.unmatched_effect(*cluster_means(right, story, (story >= count).astype(np.intp)))
    _noted(tally, ("other stories in each arm", where, at), found, true)
    shared = rng.normal(0, 0.9, count)
    own = np.sqrt(1 - 0.81)  # so that the marginal probabilities stay those of a standard deviation of 1
    arms = [expit(mean + shared + rng.normal(0, own, count)) for mean in means]
    control, treated = ((rng.random(count * QUESTIONS) < np.repeat(p, QUESTIONS)).astype(float) for p in arms)
    found = clustered.pairs_effect(clustered.pair_sums(treated, control, story[: control.size]))
    _noted(tally, ("the same stories", where, at), found, true)


def _noted(tally: Tally, names: tuple[str, str, str], found: Effect, true: float) -> None:
    method, where, at = names
    tally.interval(Key("stories", "coverage", method, where), at, (found.low, found.high), true)
    if not true:
        tally.test(Key("stories", "level", method, where), at, found.p)
    numbers = {"rd_low": found.low, "rd_high": found.high, "p": found.p, "relative_risk": found.ratio.estimate}
    agrees(tally, "stories", {**numbers, "rr_low": found.ratio.low, "rr_high": found.ratio.high})


STATISTICS: dict[str, Callable[..., float]] = {
    "phi": lambda score, right, kind, stage: association.phi(score > 0.5, right).phi,
    "phi within class": lambda score, right, kind, stage: association.within_correlation(score > 0.5, right, kind),
    "AUC": lambda score, right, kind, stage: association.separation(score, right).auc,
    "point-biserial": lambda score, right, kind, stage: association.separation(score, right).point_biserial,
}


def chains(tally: Tally, rng: np.random.Generator, given: tuple[int, float], index: int) -> None:
    """The correlation of belief chains and right answers, with the interval by leaving out one stage at a time."""
    stages, strength = given
    columns = _chains(rng, stages, strength)
    for (name, statistic), true in zip(STATISTICS.items(), _true(strength), strict=True):
        scale = (0.0, 1.0) if "AUC" in name else (-1.0, 1.0)
        found = association.jackknife(statistic, columns, columns[3], scale=scale)
        key = Key("chain and answer", "coverage", f"{name}, stage jackknife", f"{stages} stages")
        tally.interval(key, str(strength), (found.low, found.high), true)


@lru_cache(maxsize=8)
def _true(strength: float) -> tuple[float, ...]:
    """The coefficients in (nearly) endlessly many stages."""
    columns = _chains(np.random.default_rng(1), 6000, strength)
    return tuple(statistic(*columns) for statistic in STATISTICS.values())


def _chains(rng: np.random.Generator, stages: int, strength: float) -> tuple[Floats, ...]:
    """Draw chain scores in [0, 1], correctness, class and stage for 10 tasks a stage of 2 items each."""
    shape = (stages, 10, 2)
    hard = np.linspace(-1, 1, 10)[None, :, None]
    right = (rng.random(shape) < expit(0.3 + hard + rng.normal(0, 1, (stages, 1, 1)))).astype(float)
    score = expit(strength * (right - 0.5) + hard + rng.normal(0, 1, (stages, 1, 1)) + rng.normal(0, 1, shape))
    kind = np.broadcast_to(np.arange(10.0)[None, :, None], shape)
    stage = np.broadcast_to(np.arange(float(stages))[:, None, None], shape)
    return score.ravel(), right.ravel(), kind.ravel(), stage.ravel()
