"""Simulates what a comparison of two models says: tests against a margin, flips, churn and grades.

    python bench/margin_coverage.py                       # everything, eight minutes on one core
    python bench/margin_coverage.py --replications 100    # less, with more Monte-Carlo error

Two models answer the questions of 10, 20, 40 or 100 clusters (texts, sheets), each of one question, of four, or of one
to sixteen. An answer is right where a normal score is below a limit; the cluster and the question add the same to the
scores of both models, and each model something of its own, by which a cluster may suit one of them better (`own`). So
the chance of a right answer is exact whatever the design; A's is .5, .9 or .98. The functions are those that make the
tables.

- *size*: B is worse by exactly the margin, which is the one that so many clusters are just enough for; how often the
  tests say "not inferior" (level .025) and "equivalent" (level .05) all the same. Where B is better by the margin,
  equivalence errs as often, since exchanging A and B mirrors the interval.
- *power*: both are right equally often; how often the same tests find that with as many clusters as
  `units_for_margin` says, for a power of .80; from a quarter of the draws, since there are many clusters.
- *coverage*: how often a nominal 95% interval holds A's true share of right answers (`--intervals effective`), the
  true shares of harmful flips and of churn, and the true difference of grades between 0 and 1.

A figure is the mean over the designs with as many clusters; the worst design stands beside it. The exit code is 1 where
a mean size exceeds its level, a size in the worst design exceeds it by half, a mean power is below .75, or an interval
holds the truth in less than .93 of the draws on average or .90 in the worst design, each by more than 2.5 Monte-Carlo
errors. Methods in brackets were tried and left.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import _alone  # noqa: F401  (first: it sets the number of threads)
import numpy as np
import numpy.typing as npt
from _figures import figure
from scipy.stats import multivariate_normal, norm

from tomserve.stats.clustered import (
    PairSums,
    clustered_share,
    designed_share,
    margin_intervals,
    pair_sums,
    pairs_intervals,
)
from tomserve.stats.equivalence import ONE_SIDED, TOST, units_for_margin, verdict
from tomserve.stats.power import detectable_sd
from tomserve.stats.proportions import Interval
from tomserve.studies.comparison_tables import GRADES, PairedGrades

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
CLUSTERS = (10, 20, 40, 100)
SIZES = ("1", "4", "1 to 16")
SHARES = (0.5, 0.9, 0.98)
OWN = (0.0, 0.2)
"""How much of the variance of a score a cluster adds for one model alone."""
CLUSTER, QUESTION = 0.25, 0.35
"""How much a cluster, and a question, add for both models alike."""
SAME_WRONG = 0.3
"""How often two wrong answers are the same."""
GRADED = 0.8
"""The standard deviation of the normal scores whose probabilities are grades."""
ERRORS = 2.5
LEVELS = {"not inferior": ONE_SIDED, "equivalent": TOST}


@dataclass(frozen=True)
class Design:
    """A design of the simulation. clusters: how many. sizes: of how many questions, one of SIZES. share: A's chance of
    a right answer. own: one of OWN."""

    clusters: int
    sizes: str
    share: float
    own: float

    def index(self, rng: np.random.Generator) -> Codes:
        """The cluster of each question [questions]."""
        varied = self.sizes == "1 to 16"
        sizes = rng.integers(1, 17, self.clusters) if varied else np.full(self.clusters, int(self.sizes))
        return np.repeat(np.arange(self.clusters), sizes)

    def rng(self, *seed: int) -> np.random.Generator:
        """The random numbers of this design, the same in whatever order designs are simulated."""
        return np.random.default_rng([*seed, *map(ord, repr(self))])


def designs(clusters: Sequence[int]) -> Iterator[Design]:
    """All designs with these numbers of clusters."""
    for given in itertools.product(clusters, SIZES, SHARES, OWN):
        yield Design(*given)


def scores(rng: np.random.Generator, design: Design, index: Codes) -> tuple[Floats, Floats]:
    """The standard normal scores of both models [questions]."""
    clusters, n = int(index[-1]) + 1, index.size
    shared = math.sqrt(CLUSTER) * rng.normal(size=clusters)[index] + math.sqrt(QUESTION) * rng.normal(size=n)

    def one() -> Floats:
        own = math.sqrt(design.own) * rng.normal(size=clusters)[index]
        found: Floats = shared + own + math.sqrt(1 - CLUSTER - QUESTION - design.own) * rng.normal(size=n)
        return found

    return one(), one()


def spread(design: Design) -> float:
    """The standard deviation of a cluster's difference where both models are right equally often, from so many clusters
    that it is known."""
    many = replace(design, clusters=20_000)
    rng = many.rng(0)
    index = many.index(rng)
    one, other = scores(rng, many, index)
    limit = norm.ppf(design.share)
    d = (other < limit).astype(float) - (one < limit)
    return float((np.bincount(index, d) / np.bincount(index)).std(ddof=1))


def both_right(design: Design) -> float:
    """The chance that both models have a question right where they are right equally often."""
    limit, together = norm.ppf(design.share), CLUSTER + QUESTION
    return float(multivariate_normal.cdf([limit, limit], cov=[[1, together], [together, 1]]))


def changed(design: Design) -> float:
    """The share of questions that only one of them has right."""
    return 2 * (design.share - both_right(design))


def shown(pairs: PairSums, margin: float, *, plain: bool = False) -> tuple[bool, bool]:
    """Whether B is shown not to be inferior, and to be equivalent. plain: by the t interval alone."""
    interval = pairs_intervals(pairs) if plain else margin_intervals(pairs)
    wide, narrow = interval(1 - 2 * ONE_SIDED), interval(1 - 2 * TOST)
    return wide.low > -margin, verdict(wide, narrow, margin) == "equivalent"


def size(design: Design, replications: int, seed: int) -> dict[str, float]:
    """How often the tests err, by their name; nothing where B could not be worse by the margin."""
    rng, margin = design.rng(seed, 1), detectable_sd(design.clusters) * spread(design)
    if margin > 0.9 * design.share:
        return {}
    upper, lower = norm.ppf(design.share), norm.ppf(design.share - margin)
    wrong: Counter[str] = Counter(dict.fromkeys(LEVELS, 0))
    for _ in range(replications):
        index = design.index(rng)
        one, other = scores(rng, design, index)
        pairs = pair_sums(other < lower, one < upper, index)
        for name, tested, alone in zip(LEVELS, shown(pairs, margin), shown(pairs, margin, plain=True), strict=True):
            wrong[name] += tested
            wrong[f"({name}, t alone)"] += alone
    return {name: float(count / replications) for name, count in wrong.items()}


def power(design: Design, replications: int, seed: int) -> dict[str, float]:
    """How often the tests find that there is no difference, with as many clusters as are needed."""
    sd = spread(design)
    margin = detectable_sd(design.clusters) * sd
    found: dict[str, float] = {}
    for place, name in enumerate(LEVELS) if margin < 1 else ():
        many = replace(design, clusters=units_for_margin(margin, sd, changed(design))[place] or 0)
        rng, limit, succeeded = design.rng(seed, 2, place), norm.ppf(design.share), 0
        for _ in range(draws := max(1, replications // 4)):
            index = many.index(rng)
            one, other = scores(rng, many, index)
            succeeded += shown(pair_sums(other < limit, one < limit, index), margin)[place]
        found[name] = float(succeeded / draws)
    return found


def graded(one: Floats, other: Floats, index: Codes) -> tuple[float, float]:
    """The 95% interval of the difference of grades that are probabilities of the scores."""
    sizes = np.bincount(index)
    a, b = (np.bincount(index, norm.cdf(GRADED * values)) / sizes for values in (one, other))
    found = PairedGrades("", GRADES, a, b, (0.0, 0.0), a, b, True, "clusters", 0, index.size).interval()
    return found.low, found.high


def share_by_clusters(outcome: npt.ArrayLike, index: Codes) -> Interval:
    """The share of an outcome with the interval that counts clusters."""
    return clustered_share(float(np.sum(outcome)), np.bincount(index))


def coverage(design: Design, replications: int, seed: int) -> dict[str, float]:
    """How often intervals hold the truth, by what they are of."""
    rng, limit = design.rng(seed, 3), norm.ppf(design.share)
    both = both_right(design)
    flip, wrong = design.share - both, 1 - 2 * design.share + both
    truth = {"right": design.share, "harmful flips": flip, "churn": 2 * flip + wrong * (1 - SAME_WRONG)}
    # B's grades are lower on average: those of scores that are moved by .3
    low, high = (float(norm.cdf(GRADED * moved / math.sqrt(1 + GRADED**2))) for moved in (limit - 0.3, limit))
    held: Counter[str] = Counter({**dict.fromkeys(truth, 0), "grades": 0})
    for _ in range(replications):
        index = design.index(rng)
        one, other = scores(rng, design, index)
        a, b = one < limit, other < limit
        same = rng.random(index.size) < SAME_WRONG
        seen = {"right": a, "harmful flips": a & ~b, "churn": (a != b) | (~a & ~b & ~same)}
        for name, outcome in seen.items():
            for called, interval in ((name, designed_share), (f"({name}, n = clusters)", share_by_clusters)):
                found = interval(outcome, index)
                held[called] += found.low - 1e-9 <= truth[name] <= found.high + 1e-9
        ends = graded(one + limit, other + limit - 0.3, index)
        held["grades"] += ends[0] <= low - high <= ends[1]
    return {name: float(count / replications) for name, count in held.items()}


PARTS = {"size": size, "power": power, "coverage": coverage}


def misses(part: str, name: str, found: Mapping[Design, float], replications: int) -> bool:
    """Whether a method that the tables use misses its aim, by more than its Monte-Carlo error."""
    if name.startswith("("):
        return False

    def error(value: float, designs: int = 1) -> float:
        draws = max(1, replications // 4) if part == "power" else replications
        return ERRORS * math.sqrt(max(value * (1 - value), 0.02) / draws / designs)

    values = list(found.values())
    mean, least, most = sum(values) / len(values), min(values), max(values)
    of_mean = error(mean, len(values))
    if part == "size":
        return mean - of_mean > LEVELS[name] or most - error(most) > 1.5 * LEVELS[name]
    if part == "power":
        return mean + of_mean < 0.75
    return mean + of_mean < 0.93 or least + error(least) < 0.90


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, print every figure, and return 1 where a method that the tables use misses its aim."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--replications", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clusters", type=int, nargs="*", default=CLUSTERS)
    parser.add_argument("--only", choices=PARTS, nargs="*", default=list(PARTS))
    given = parser.parse_args(arguments)
    began, missed = time.monotonic(), 0
    print(f"{'':9s} {'what':32s} {'clusters':>8s} {'mean':>6s} {'worst':>6s}  in the design")
    for part, clusters in itertools.product(given.only, given.clusters):
        found: dict[str, dict[Design, float]] = {}
        for design in designs([clusters]):
            for name, value in PARTS[part](design, given.replications, given.seed).items():
                found.setdefault(name, {})[design] = value
        for name, values in found.items():
            worst = (max if part == "size" else min)(values, key=lambda one: values[one])
            mean, bad = sum(values.values()) / len(values), misses(part, name, values, given.replications)
            missed += bad
            where = f"{worst.sizes} questions, share {worst.share:g}, own {worst.own:g}"
            line = f"{part:9s} {name:32s} {clusters:8d} {mean:6.3f} {values[worst]:6.3f}  {where}"
            print(line + "  MISSES" * bad, flush=True)
            if not name.startswith("("):
                figure(f"{part}, {name}, {clusters} clusters", mean, min(values.values()), max(values.values()))
    figure("methods that miss their aim", missed, at_most=0, rounds=given.replications)
    print(f"{given.replications} draws a design, {time.monotonic() - began:.0f} s; {missed} miss their aim")
    return int(missed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
