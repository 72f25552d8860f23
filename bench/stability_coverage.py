"""Simulates what the intervals of stability are worth: how often they hold the truth.

    python bench/stability_coverage.py                       # everything, some minutes on one core
    python bench/stability_coverage.py --replications 100    # less, with more Monte-Carlo error

Answerers of known behaviour are asked the questions of 20, 60 or 200 stories of 1 to 8 questions, the originals, their
variants, and a part of the originals once more among other requests (the noise floor, T0). They give always the first
choice, always the same label, any choice at random, or an answer that they keep with some probability, which differs
from story to story. The functions are those that make the study's tables (tomserve.stats.stability); a nominal 95%
interval should hold the truth in .93 of the draws or more. The exit code is 1 where one does not, by more than 2.5
Monte-Carlo errors. Methods in brackets were tried and left.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence

import _alone  # noqa: F401  (first: it sets the number of threads)
import numpy as np
import numpy.typing as npt
from _figures import figure, spread_figure
from scipy.special import expit, logit
from scipy.stats import t as student

from tomserve.stats.proportions import Interval
from tomserve.stats.stability import agreement, difference_to_floor, stability, weighted_share

Array = npt.NDArray[np.int64]
CLUSTERS = (20, 60, 200)
CHOICES, KINDS = 3, 4
KEPT = (0.5, 0.8, 0.95, 0.99)
ANSWERERS = ("random", *(f"keeps {share:g}" for share in KEPT), "keeps .9, habits", "changes only when wrong", "noisy")
AGAIN = 0.3
"""The share of originals that is asked again."""
TARGET, ERRORS = 0.93, 2.5


def answers(rng: np.random.Generator, answerer: str, clusters: int) -> tuple[Array, Array, Array, Array]:
    """Categories of originals, of their variants [kinds, originals], of the same again (-2: not asked again), and the
    clusters. The last kind is kept less often than the others."""
    index = np.repeat(np.arange(clusters), rng.integers(1, 9, clusters))
    n = index.size
    lean = rng.normal(0, 1, (clusters, CHOICES))  # what a story suggests
    habit = np.array([2.0, 0, -1]) if "habits" in answerer else np.zeros(CHOICES)
    draw = rng.gumbel(size=(n, CHOICES)) + lean[index] + habit
    original = draw.argmax(axis=1)
    other = (rng.gumbel(size=(n, CHOICES)) + lean[index] + habit).argmax(axis=1)
    right = rng.random(n) < 0.7
    if answerer == "random":
        original, other = rng.integers(0, CHOICES, (2, n))
        keep = np.zeros(n)
    elif answerer.startswith("keeps"):
        keep = expit(logit(float(answerer.split()[1].strip(","))) + rng.normal(0, 1, clusters))[index]
    elif answerer == "noisy":
        keep = expit(logit(0.9) + rng.normal(0, 1.5, clusters))[index]
    else:
        keep = np.where(right, 1.0, 0.6)
    kept = np.array([1.0] * (KINDS - 1) + [0.9])[:, None] * keep
    variant = np.where(rng.random((KINDS, n)) < kept, original, other)
    noise = np.where(rng.random(n) < (keep if answerer in ("noisy", "random") else 0.995), original, other)
    again = np.where(rng.random(n) < AGAIN, noise, -2)
    unread = rng.random((2, n)) < (0.02 if "habits" in answerer else 0)
    return np.where(unread[0], -1, original), np.where(unread[1], -1, variant), again, index


def mean_of(original: Array, variants: Array, index: Array) -> Interval:
    """The mean of S over the kinds."""
    same = np.concatenate([agreement(original, one) for one in variants])
    return weighted_share(same, np.tile(index, KINDS), np.repeat(np.arange(KINDS), index.size))


def floor_of(original: Array, again: Array, index: Array) -> Interval:
    asked = again != -2
    return weighted_share(agreement(original, again)[asked], index[asked], np.zeros(int(asked.sum())))


def bootstrap(original: Array, variant: Array, index: Array, rng: np.random.Generator, draws: int = 400) -> Interval:
    """Kappa by drawing clusters again and again, its 2.5th and 97.5th percentile: printed for comparison."""
    m, k = int(index.max()) + 1, CHOICES
    cells = np.zeros((m, k + 1, k + 1))
    np.add.at(cells, (index, original, variant), 1)
    drawn = np.tensordot(rng.multinomial(m, [1 / m] * m, size=draws), cells, axes=1)
    n = drawn.sum(axis=(1, 2))
    share = np.trace(drawn[:, :k, :k], axis1=1, axis2=2) / n
    expected = (drawn.sum(axis=2)[:, :k] * drawn.sum(axis=1)[:, :k]).sum(axis=1) / n**2
    with np.errstate(invalid="ignore"):  # where all answers are one
        low, high = np.nanquantile((share - expected) / (1 - expected), [0.025, 0.975])
    return Interval(math.nan, float(low), float(high), "bootstrap")


def linear(original: Array, variant: Array, index: Array) -> Interval:
    """Kappa by the delta method over clusters, t: printed for comparison."""
    from tomserve.stats.stability import _expected_agreement, _sums

    same = agreement(original, variant).astype(float)
    moved, expected = _expected_agreement(original, variant)
    share = same.mean()
    kappa = (share - expected) / (1 - expected)
    sums = _sums((same - share - (1 - kappa) * moved) / (1 - expected), index)
    m = sums.size
    half = student.ppf(0.975, m - 1) * math.sqrt(m / (m - 1) * float(sums @ sums)) / same.size
    return Interval(kappa, kappa - half, kappa + half, "delta")


def truth(answerer: str) -> tuple[float, float, float, float]:
    """S, kappa, S minus the floor, and the mean of S over the kinds, in (nearly) endlessly many stories."""
    original, variants, again, index = answers(np.random.default_rng(1), answerer, 100_000)
    found, floor = stability(original, variants[0], index), floor_of(original, again, index)
    share = found.share.estimate
    return share, found.kappa.estimate, share - floor.estimate, mean_of(original, variants, index).estimate


def simulated(answerer: str, clusters: int, replications: int, seed: int) -> dict[str, tuple[float, float]]:
    """By the name of the interval how often it holds the truth, and its mean width."""
    rng = np.random.default_rng([seed, clusters, ANSWERERS.index(answerer)])
    true_share, true_kappa, true_gap, true_mean = truth(answerer)
    held: dict[str, list[tuple[bool, float]]] = {}
    for _ in range(replications):
        original, variants, again, index = answers(rng, answerer, clusters)
        variant = variants[0]
        found = stability(original, variant, index)
        intervals = {
            "S": (found.share, true_share),
            "kappa": (found.kappa, true_kappa),
            "S minus the floor": (difference_to_floor(found.share, floor_of(original, again, index)), true_gap),
            "S, mean of kinds": (mean_of(original, variants, index), true_mean),
            "(kappa, bootstrap)": (bootstrap(original, variant, index, rng), true_kappa),
            "(kappa, delta)": (linear(original, variant, index), true_kappa),
        }
        for name, (interval, true) in intervals.items():
            covers = interval.low - 1e-9 <= true <= interval.high + 1e-9
            held.setdefault(name, []).append((covers, interval.high - interval.low))
    return {
        name: (float(np.mean([one for one, _ in all_])), float(np.nanmean([w for _, w in all_])))
        for name, all_ in held.items()
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, print every figure, and return 1 where a method that the tables use misses its target."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--replications", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clusters", type=int, nargs="*", default=CLUSTERS)
    given = parser.parse_args(arguments)
    began, missed, shares = time.monotonic(), 0, list[float]()
    print(f"{'answerer':26s} {'stories':>7s} {'interval':22s} {'holds':>6s} {'width':>6s}")
    for answerer in ANSWERERS:
        for clusters in given.clusters:
            for name, (held, width) in simulated(answerer, clusters, given.replications, given.seed).items():
                error = math.sqrt(max(held * (1 - held), 0.3 / given.replications) / given.replications)
                misses = not name.startswith("(") and held + ERRORS * error < TARGET
                missed += misses
                line = f"{answerer:26s} {clusters:7d} {name:22s} {held:6.3f} {width:6.3f}"
                print(line + ("  MISSES" if misses else ""))
                if not name.startswith("("):
                    shares.append(held)
    spread_figure("coverage of 95% intervals", shares)
    figure("intervals that miss their target", missed, at_most=0, rounds=given.replications)
    print(f"{given.replications} draws each, {time.monotonic() - began:.0f} s; {missed} below {TARGET:g}")
    return int(missed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
