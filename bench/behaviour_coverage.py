"""Simulates what the intervals of B are worth, the mean over types of task of shares that are corrected for chance.

    python bench/behaviour_coverage.py                      # everything, some minutes on one core
    python bench/behaviour_coverage.py --replications 100   # less, with more Monte-Carlo error

Answerers of known behaviour are asked the questions of 20, 60 or 200 stories: two questions of a type with two choices,
two of one with four, one of one with eight, and of every other story one of a rarer type with two. How likely an answer
is right differs from story to story; a simple rule answers the same questions, and is likelier right where the
answerer is. The functions are those that make the table `behaviour` (tomserve.stats.accuracy). A nominal 95% interval
should hold the truth in .93 of the draws or more, and the interval of somebody who is no better than chance or than the
rule should lie above 0 in at most .05 of them, give or take 2.5 Monte-Carlo errors. The exit code is 1 where one does
not. Methods in brackets were tried and left.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import _alone  # noqa: F401  (first: it sets the number of threads)
import numpy as np
import numpy.typing as npt
from _figures import figure, spread_figure
from scipy.special import expit, logit

from tomserve.stats.accuracy import TaskMean, mean_of, task_mean

Floats = npt.NDArray[np.float64]
CLUSTERS = (20, 60, 200)
CHANCE = (0.5, 0.25, 0.125, 0.5)
"""What a guess scores at the types of task."""
QUESTIONS = (2, 2, 1, 1)
RARE, EVERY = 3, 2
"""The type that only every other story has a question of."""
BENCHMARKS = 3
RESAMPLES = 1000
"""Half of what the table draws, whose ends are hardly surer."""
TARGET, LEVEL, ERRORS = 0.93, 0.05, 2.5


@dataclass(frozen=True)
class Answerer:
    """How far above chance the answerer is at each type of task (a corrected share), how far the rule is, and how much
    stories differ (the standard deviation of the log odds)."""

    own: tuple[float, float, float, float]
    rule: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    spread: float = 1.0


ANSWERERS = {
    "guesses": Answerer((0, 0, 0, 0), spread=0),
    "guesses, stories differ": Answerer((0, 0, 0, 0)),
    "a little above chance": Answerer((0.1, 0.1, 0.1, 0.1)),
    "good at one type alone": Answerer((0.8, 0, 0, 0)),
    "below chance at one type": Answerer((-0.6, 0.5, 0.5, 0.5)),
    "half way": Answerer((0.5, 0.5, 0.5, 0.5), (0.3, 0.3, 0.3, 0.3)),
    "no better than the rule": Answerer((0.6, 0.4, 0.2, 0.3), (0.3, 0.4, 0.5, 0.3)),
    "nearly always right": Answerer((0.97, 0.97, 0.97, 0.97), (0.6, 0, 0, 0.6)),
    "stories differ much": Answerer((0.6, 0.6, 0.6, 0.6), (0.5, 0.5, 0.5, 0.5), 3.0),
}


def answers(rng: np.random.Generator, answerer: Answerer, clusters: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Whether the answerer and the rule are right [answers, 2], and chance, type of task and cluster [answers]."""
    counts = np.tile(np.asarray(QUESTIONS), (clusters, 1))
    counts[:, RARE] *= np.arange(clusters) % EVERY == 0
    cluster = np.repeat(np.arange(clusters), counts.sum(axis=1))
    task = np.concatenate([np.repeat(np.arange(len(CHANCE)), one) for one in counts])
    chance = np.asarray(CHANCE)[task]
    common = rng.normal(size=clusters)[cluster]
    sides = []
    for above in (answerer.own, answerer.rule):
        share = np.clip(chance + np.asarray(above)[task] * (1 - chance), 0.01, 0.999)
        moved = 0.7 * common + math.sqrt(1 - 0.7**2) * rng.normal(size=clusters)[cluster]
        sides.append(rng.random(share.size) < expit(logit(share) * widened(answerer.spread) + answerer.spread * moved))
    return np.column_stack(sides).astype(float), chance, task, cluster


def widened(spread: float) -> float:
    """By what log odds are multiplied so that their mean over stories stays about where it was (Zeger et al. 1988)."""
    return math.sqrt(1 + (16 * math.sqrt(3) / (15 * math.pi)) ** 2 * spread**2)


def truth(answerer: Answerer) -> Floats:
    """B of the answerer and of the rule in (nearly) endlessly many stories [2].

    The average over stories is at chance only about, so that a type that is meant to be at chance is set there.
    """
    right, _, task, _ = answers(np.random.default_rng(1), answerer, 100_000)
    meant = np.array([answerer.own, answerer.rule]).T  # [types, 2]
    shares = np.array([right[task == one].mean(axis=0) for one in range(len(CHANCE))])
    guess = np.asarray(CHANCE)[:, None]
    found = np.where(meant == 0, 0.0, (shares - guess) / (1 - guess))
    return np.asarray(np.clip(found, 0, 1).mean(axis=0), dtype=np.float64)


def drawn(rng: np.random.Generator, answerer: Answerer, clusters: int) -> TaskMean:
    """B of answerer and rule from one draw, with a seed of its own for the clusters that are drawn anew."""
    right, chance, task, cluster = answers(rng, answerer, clusters)
    return task_mean(right, chance, task, cluster, RESAMPLES, int(rng.integers(1 << 30)))


def simulated(name: str, clusters: int, replications: int, seed: int) -> dict[str, tuple[float, float, float]]:
    """By the name of the interval how often it holds the truth, how often it lies above 0, and its mean width."""
    answerer = ANSWERERS[name]
    rng = np.random.default_rng([seed, clusters, list(ANSWERERS).index(name)])
    own, rule = truth(answerer)
    held: dict[str, list[tuple[bool, bool, float]]] = {}
    for _ in range(replications):
        parts = [drawn(rng, answerer, clusters) for _ in range(BENCHMARKS)]
        one = parts[0]
        plain = np.quantile(one.draws[:, 0], [0.025, 0.975])
        intervals = {
            "B": (one.interval(), own),
            "B - rule": (one.difference(0, 1), own - rule),
            "B, mean of benchmarks": (mean_of(parts), own),
        }
        ends = {key: (found.low, found.high, true) for key, (found, true) in intervals.items()}
        ends["(B, plain percentiles)"] = (float(plain[0]), float(plain[1]), own)
        for key, (low, high, true) in ends.items():
            covers = low - 1e-9 <= true <= high + 1e-9
            held.setdefault(key, []).append((covers, low > 1e-9, high - low))
    return {key: tuple(float(one) for one in np.mean(found, axis=0)) for key, found in held.items()}  # type: ignore[misc]


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, print every figure, and return 1 where a method that the table uses misses its target."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--replications", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clusters", type=int, nargs="*", default=CLUSTERS)
    given = parser.parse_args(arguments)
    began, missed, shares = time.monotonic(), 0, list[float]()
    print(
        f"{'answerer':26s} {'stories':>7s} {'interval':24s} {'truth':>6s} {'holds':>6s} {'above 0':>7s} {'width':>6s}"
    )
    for name, answerer in ANSWERERS.items():
        own, rule = truth(answerer)
        for clusters in given.clusters:
            for key, (held, above, width) in simulated(name, clusters, given.replications, given.seed).items():
                true = own - rule if key == "B - rule" else own
                error = math.sqrt(max(held * (1 - held), 0.3 / given.replications) / given.replications)
                level = math.sqrt(LEVEL * (1 - LEVEL) / given.replications)
                misses = held + ERRORS * error < TARGET or (abs(true) < 0.01 and above - ERRORS * level > LEVEL)
                misses = misses and not key.startswith("(")
                missed += misses
                line = f"{name:26s} {clusters:7d} {key:24s} {true:6.3f} {held:6.3f} {above:7.3f} {width:6.3f}"
                print(line + ("  MISSES" if misses else ""), flush=True)
                if not key.startswith("("):
                    shares.append(held)
    spread_figure("coverage of 95% intervals", shares)
    figure("intervals that miss their target", missed, at_most=0, rounds=given.replications)
    print(f"{given.replications} draws each, {time.monotonic() - began:.0f} s; {missed} miss their target")
    return int(missed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
