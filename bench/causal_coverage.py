"""Simulates what the intervals and the test of `tomserve causal` are worth: how often they hold the truth, how often
they err.

    python bench/causal_coverage.py            # everything, about two and a half minutes of one core
    python bench/causal_coverage.py --quick    # fewer draws, with more Monte-Carlo error

Items of 30, 60 or 150 scenarios of 1 to 8 items each flip towards or away from the true belief in 45 cells (5 layers by
9 strengths) under a map and under 8 controls; items of a scenario, and cells of an item, depend on each other. The
truth of a cross-selected effect is what the cells that are chosen do on average, over all draws of a case: its mean
estimate, since no item both chooses and measures. (The adjusted estimate is at most what the map does in
its cell; its truth is its own mean estimate.) A nominal 95% interval should
hold the truth in .93 of the draws or more, and p should be at most .05 in 5% of the draws where nothing works, or less.
The exit code is 1 where one misses this by more than 2.5 Monte-Carlo errors. Methods in brackets were tried and left.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

import _alone  # noqa: F401  (first: it sets the number of threads)
import numpy as np
import numpy.typing as npt
from _figures import figure as hand_over
from _figures import spread_figure as hand_spread
from scipy.special import ndtri
from scipy.stats import norm

from tomserve.stats.selection import Selection, held_out, select_best, sign_flips

Floats = npt.NDArray[np.float64]
CLUSTERS = (30, 60, 150)
LAYERS, ALPHAS, CONTROLS = 5, 9, 8
CELLS = LAYERS * ALPHAS
BY_CHANCE = {"hardly anything flips": 0.01}
"""The share of items that flip in a cell that does nothing, each way; .05 in other cases."""
WORKING: Mapping[str, tuple[tuple[str, float], ...]] = {
    "nothing works": (),
    "hardly anything flips": (),
    "one cell works": (("cell", 0.35),),
    "a little works": (("hill", 0.1),),
    "much works": (("hill", 0.5),),
    "a control does as much": (("hill", 0.4), ("hill", 0.4)),
    "two controls do less": (("hill", 0.5), ("hill", 0.2), ("hill", 0.2)),
}
"""What adds flips towards the true belief, for the map and then for controls: one cell, or a hill over layers and
strengths, and how much at its top."""
IDLE = ("nothing works", "hardly anything flips")
TARGET, ERRORS = 0.93, 2.5


@dataclass(frozen=True)
class Figure:
    """How often an interval holds the truth, how often it lies above zero, and its mean width."""

    held: float
    above: float
    width: float


def effects(rng: np.random.Generator, case: str, clusters: int) -> tuple[list[Floats], npt.NDArray[np.intp]]:
    """The effects of the map and of each control, means over two orders of the choices [items, cells]; the clusters."""
    index = np.repeat(np.arange(clusters), rng.integers(1, 9, clusters))
    layer, alpha = np.divmod(np.arange(CELLS), ALPHAS)
    shapes = {
        "hill": np.exp(-((layer - 2) ** 2 + ((alpha - 5) / 2) ** 2) / 2),
        "cell": (np.arange(CELLS) == 23).astype(float),
    }
    chance, working = BY_CHANCE.get(case, 0.05), WORKING[case]
    scenario, item = rng.normal(size=(2, clusters, 1))[:, index], rng.normal(size=(2, index.size, 1))
    found = []
    for k in range(1 + CONTROLS):
        added = shapes[working[k][0]] * working[k][1] if k < len(working) else np.zeros(CELLS)
        total = np.zeros((index.size, CELLS))
        for side, (sign, level) in enumerate(((0.5, chance + added), (-0.5, np.full(CELLS, chance)))):
            common = 0.5 * scenario[side] + math.sqrt(0.35) * item[side]
            for _ in range(2):
                total += sign * (common + math.sqrt(0.4) * rng.normal(size=total.shape) < ndtri(level))
        found.append(total)
    return found, index


def others(made: list[Floats], index: npt.NDArray[np.intp], rng: np.random.Generator, draws: int) -> dict[str, Floats]:
    """Bounds of net [2] by other methods, for comparison."""
    m = int(index.max()) + 1
    sums = np.zeros((m, 1, CELLS))
    np.add.at(sums, index, made[0][:, None])
    halves = np.array([rng.permutation(m) < m // 2 for _ in range(10)], dtype=float)
    weights = np.vstack([np.ones(m), rng.multinomial(m, np.full(m, 1 / m), size=draws), 1 - np.eye(m)])
    values = held_out(sums, np.bincount(index).astype(float), weights, halves).values[:, 0]
    estimate, drawn, without = values[0], values[1 : 1 + draws], values[1 + draws :]
    low, high = np.quantile(drawn, [0.025, 0.975])
    off = without.mean() - without
    skew = float((off**3).sum() / (6 * (off**2).sum() ** 1.5 + 1e-30))
    middle = float(norm.ppf(np.clip((np.mean(drawn < estimate) + np.mean(drawn <= estimate)) / 2, 0.001, 0.999)))
    at = [norm.cdf(middle + (middle + z) / (1 - skew * (middle + z))) for z in (-1.96, 1.96)]
    half = 1.96 * math.sqrt((m - 1) / m * float((off**2).sum()))
    return {
        "(net, percentile)": np.array([low, high]),
        "(net, basic)": np.array([2 * estimate - high, 2 * estimate - low]),
        "(net, BCa)": np.quantile(drawn, at),
        "(net, jackknife)": np.array([estimate - half, estimate + half]),
    }


def simulated(
    case: str, clusters: int, replications: int, seed: int, draws: int = 200, *, compared: bool = False
) -> dict[str, Figure]:
    """By the name of an interval what it is worth; that of `maximum` counts p at most .05 as above zero."""
    rng = np.random.default_rng([seed, clusters, list(WORKING).index(case)])
    bounds: dict[str, list[tuple[float, float]]] = {}
    estimates: dict[str, list[float]] = {}
    for _ in range(replications):
        made, index = effects(rng, case, clusters)
        controls = {f"control {k}": made[k] for k in range(1, 1 + CONTROLS)}
        found: Selection = select_best(
            made[0], controls, index, splits=10, draws=draws, seed=int(rng.integers(1 << 30))
        )
        of = {"net": found.net, "a control": found.controls["control 1"], "largest control": found.control}
        for name, one in {**of, "adjusted": found.adjusted}.items():
            bounds.setdefault(name, []).append((one.low, one.high))
            estimates.setdefault(name, []).append(one.estimate)
        p = sign_flips(made[0], index, draws=199, seed=int(rng.integers(1 << 30))).p
        bounds.setdefault("maximum", []).append((0.05 - p, math.nan))
        for name, pair in others(made, index, rng, draws).items() if compared else ():
            bounds.setdefault(name, []).append((float(pair[0]), float(pair[1])))
    truth = {name: float(np.mean(values)) for name, values in estimates.items()}
    result = {}
    for name, pairs in bounds.items():
        low, high = np.array(pairs).T
        true = truth.get(name, truth["net"])
        held = math.nan if name == "maximum" else float(np.mean((low - 1e-9 <= true) & (true <= high + 1e-9)))
        above = np.mean(low >= 0) if name == "maximum" else np.mean(low > 0)
        result[name] = Figure(held, float(above), float(np.mean(high - low)))
    return result


def misses(name: str, case: str, figure: Figure, replications: int) -> bool:
    """Whether a figure misses its target by more than Monte-Carlo error allows."""
    if name.startswith("("):
        return False
    error = ERRORS * math.sqrt(0.05 * 0.95 / replications)
    if name == "maximum":
        return case in IDLE and figure.above > 0.05 + error
    return figure.held < TARGET - error


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100 draws of each case instead of 300")
    parser.add_argument("--replications", type=int, help="so many draws of each case")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    replications, missed, start = options.replications or (100 if options.quick else 300), 0, time.perf_counter()
    shares: list[float] = []
    print(f"{'case':24s} {'scenarios':>9s}  {'interval':20s} {'holds':>6s} {'above 0':>8s} {'width':>6s}")
    for case in WORKING:
        for clusters in CLUSTERS:
            found = simulated(case, clusters, replications, options.seed, compared=clusters == CLUSTERS[0])
            for name, figure in found.items():
                wrong = misses(name, case, figure, replications)
                missed += wrong
                if figure.held == figure.held and not name.startswith("("):
                    shares.append(figure.held)
                shown = f"{figure.held:6.3f} {figure.above:8.3f} {figure.width:6.3f}".replace("nan", "   ")
                print(f"{case:24s} {clusters:9d}  {name:20s} {shown}{'  misses its target' * wrong}", flush=True)
    if shares:  # a few cases alone may have none
        hand_spread("coverage of 95% intervals", shares)
    hand_over("figures that miss their target", missed, at_most=0, rounds=replications)
    print(f"{replications} draws of each case, {time.perf_counter() - start:.0f} s; {missed} figures miss their target")
    return int(missed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
