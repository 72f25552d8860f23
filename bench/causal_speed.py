"""Times the maps of one layer: of low rank against whole d x d matrices, and at the width of a large model.

    python bench/causal_speed.py

A map fitted with one penalty, with its error of leaving out every scenario, and the moved states at nine strengths: as
`tomserve.causal` makes them, and as formulas are first written down (a d x d system for the map, another for every
strength, and no error). Both in float64 on one thread, interleaved, at a width of 1024, where the other way still ends;
beside them ours with 31 penalties tried. Then ours alone at 8192. The bench checks that both ways move the states to
the same place.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import _alone  # noqa: F401  (first: it sets the number of threads)
import numpy as np
from _figures import figure, spread_figure

from tomserve.causal.projection import PENALTIES, Floats, Ridge, assign_folds
from tomserve.causal.steering import LayerStates, steps

ITEMS, WIDTH, LARGE = 200, 1024, 8192
ALPHAS = tuple(np.geomspace(1e-3, 10, 9).tolist())


def states(width: int) -> tuple[Floats, Floats, Floats]:
    """x, y and a target [items, width], of which y is a map of x, whose variance falls off as that of real states."""
    rng = np.random.default_rng(0)
    scales = np.arange(1, width + 1) ** -0.5
    x, target = (rng.normal(size=(ITEMS, width)) * scales for _ in range(2))
    w = rng.normal(size=(width, 20)), rng.normal(size=(20, width)) / width**0.5
    return x, x @ w[0] @ w[1] + 0.01 * rng.normal(size=x.shape), target @ w[0] @ w[1]


def ours(x: Floats, y: Floats, target: Floats, penalty: float | None = None) -> tuple[Floats, float]:
    found = Ridge(x, np.arange(ITEMS) // 2).fit(y, penalty)
    return x + found.map.displacements(x, target, ALPHAS), found.penalty


def whole(x: Floats, y: Floats, target: Floats, penalty: float) -> Floats:
    square = np.eye(x.shape[1])
    w = np.linalg.solve(x.T @ x + penalty * square, x.T @ y).T
    inner, off = w.T @ w, w.T @ (target - x @ w.T).T
    return np.array([x + np.linalg.solve(inner + alpha * square, off).T for alpha in ALPHAS])


def seconds(of: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    start = time.process_time()
    of()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    x, y, target = states(WIDTH)
    moved, penalty = ours(x, y, target)
    off = np.linalg.norm(moved - whole(x, y, target, penalty)) / np.linalg.norm(moved - x)
    assert off < 1e-6, f"the two ways differ by {off:.1e} of the displacement"
    ratios, low, high, search = [], [], [], []
    for _ in range(rounds):
        low.append(seconds(lambda: ours(x, y, target, penalty)))
        search.append(seconds(lambda: ours(x, y, target)))
        high.append(seconds(lambda: whole(x, y, target, penalty)))
        ratios.append(high[-1] / low[-1])
    print(f"width {WIDTH}, {ITEMS} items: {np.median(low):.2f} s of low rank, {np.median(high):.2f} s with d x d")
    print(f"  {np.median(search):.2f} s of low rank with {PENALTIES} penalties tried")
    print(
        f"  ratio {np.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f}); displacements differ by {off:.0e}"
    )
    spread_figure("d x d over low rank, width 1024", ratios, unit="times")
    spread_figure("a layer of low rank, width 1024", low, unit="s")
    x, y, target = states(LARGE)
    large = seconds(lambda: ours(x, y, target))
    figure(f"a layer of low rank, width {LARGE}", large, unit="s")
    print(f"width {LARGE}: {large:.2f} s a fit with nine strengths")
    clusters = np.arange(ITEMS) // 2
    layer = LayerStates(x, y, target, np.full(x.shape, np.nan), clusters, ("all",) * ITEMS)
    held = assign_folds(clusters)
    print(f"  {seconds(lambda: steps(layer, held, ALPHAS, 0)):.1f} s for a layer: five folds, every map and control")


if __name__ == "__main__":
    main()
