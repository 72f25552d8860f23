"""Inference for the best of many cells: the maximum statistic, and what the best cell does on items that did not choose
it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tomserve.stats.clusters import check_same_length
from tomserve.stats.distributions import t_quantile
from tomserve.stats.effects import FEW_CHANGES
from tomserve.stats.proportions import UNDEFINED, Interval, wilson

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
NOTHING = "nothing"  # The control that adds nothing and so changes nothing: its effect is 0
CHUNK = 1 << 22  # About how many sums are held at a time


@dataclass(frozen=True)
class Selection:
    """What was chosen, and what it does where it was not chosen; nan where undefined."""

    net: Interval
    controls: dict[str, Interval]
    control: Interval
    adjusted: Interval
    largest: str
    chosen: Floats
    adjusted_cells: Floats


def select_best(
    effects: npt.ArrayLike,
    controls: Mapping[str, npt.ArrayLike],
    clusters: npt.ArrayLike,
    *,
    ladders: npt.ArrayLike | None = None,
    splits: int = 20,
    draws: int = 1000,
    seed: int = 0,
) -> Selection:
    """Choose the best cell on one half of the clusters, measure it on the other, swap, and average over random splits.

    Measure and controls are compared in the same cell, or, where cells stand on ladders, each control on the step of
    the same ladder that suits it best, up to the measure's own. `adjusted` is from the cell in which the measure
    exceeds the largest control (or doing nothing) most, chosen in the half that chooses; so it is not `net` less
    `control`. No figure is taken from the items that picked it.

    Intervals: Student's t (m - 1 df) times the SD of bootstrap samples of clusters, in each of which all is chosen
    again; a cluster drawn twice lies in one half. bench/causal_coverage.py compares them with percentiles, basic and
    BCa intervals. Where fewer than five clusters differ, the half width is at least Wilson's bound for none of m.

    effects: [items, cells]. controls: by name, the same. clusters: [items]. ladders: the ladder of each cell [cells];
    the cells of one stand together, the highest step first. nan with fewer than two clusters. Raises ValueError for
    unequal lengths, no cells, effects that are not finite, or a control called NOTHING."""
    values = _columns(effects, controls, clusters)
    sums, sizes = _sum_clusters(values, clusters)
    (m, parts, cells), rng = sums.shape, np.random.default_rng(seed)
    if m < 2:
        nothing = Interval(*UNDEFINED, method="undefined: fewer than two clusters")
        none = np.full(cells, np.nan)
        return Selection(nothing, dict.fromkeys(controls, nothing), nothing, nothing, NOTHING, none, none)
    halves = _halves(rng, m, splits)
    drawn = np.vstack([np.ones(m), rng.multinomial(m, np.full(m, 1 / m), size=draws)])
    held = held_out(sums, sizes, drawn, halves, _find_ladders(ladders, cells))
    moved = [_find_movers(sums[:, k] / sizes[:, None]) for k in range(parts)]
    limit = 1.0 if np.abs(values).max() <= 1 else math.inf
    shown = {name: _interval(held.values[:, k], m, moved[k], limit) for k, name in enumerate(controls, start=1)}
    anything = np.any(moved, axis=0)
    apart = [moved[0], *(_find_movers((sums[:, 0] - sums[:, k]) / sizes[:, None]) for k in range(1, parts))]
    fewest = min(apart, key=lambda one: int(one.sum()))  # a control that the measure hardly ever differs from
    return Selection(
        _interval(held.values[:, 0], m, moved[0], limit),
        shown,
        _interval(held.control, m, anything, limit),
        _interval(held.adjusted, m, fewest, limit, -2 * limit),
        (NOTHING, *controls)[int(held.names.argmax())],
        held.cells,
        held.adjusted_cells,
    )


def _columns(effects: npt.ArrayLike, controls: Mapping[str, npt.ArrayLike], clusters: npt.ArrayLike) -> Floats:
    """The effects of the measure and of every control, checked [items, 1 + controls, cells]."""
    values = [np.asarray(one, dtype=float) for one in (effects, *controls.values())]
    for name, one in zip(("the measure", *controls), values, strict=True):
        if one.ndim != 2 or not one.shape[1] or not np.isfinite(one).all():
            raise ValueError(f"effects of {name} of shape {one.shape}: expected finite numbers [items, cells]")
        if one.shape[1] != values[0].shape[1]:
            raise ValueError(
                f"effects of {name} in {one.shape[1]} cells: expected {values[0].shape[1]}, as the measure"
            )
    if NOTHING in controls:
        raise ValueError(f"a control is called {NOTHING!r}, which stands for doing nothing: expected another name")
    check_same_length(*values, np.asarray(clusters))
    return np.stack(values, axis=1)


def _sum_clusters(values: Floats, clusters: npt.ArrayLike) -> tuple[Floats, Floats]:
    """The values summed over the clusters of their items, in the order of their names [clusters, ...], and the
    clusters' sizes."""
    names, index, sizes = np.unique(np.asarray(clusters), return_inverse=True, return_counts=True)
    sums = np.zeros((names.size, *values.shape[1:]))
    np.add.at(sums, index, values)
    return sums, sizes.astype(float)


def _find_ladders(ladders: npt.ArrayLike | None, cells: int) -> Ints:
    """The last cell of the ladder of each cell [cells]; each cell itself where none are told."""
    if ladders is None:
        return np.arange(cells)
    names = np.asarray(ladders)
    if names.shape != (cells,):
        raise ValueError(f"ladders of shape {names.shape}: expected one for each of {cells} cells")
    ends = np.flatnonzero(np.append(names[1:] != names[:-1], True))
    if ends.size != np.unique(names).size:
        raise ValueError("ladders whose cells stand apart: expected those of each one together")
    return ends[np.searchsorted(ends, np.arange(cells))]


def _halves(rng: np.random.Generator, m: int, splits: int) -> Floats:
    """1 for the clusters of the first half, in so many random halvings [splits, m]."""
    return np.array([rng.permutation(m) < m // 2 for _ in range(splits)], dtype=float)


def _find_movers(means: Floats) -> npt.NDArray[np.bool_]:
    """Whether a cluster differs from the median one in any cell [clusters]. means: [clusters, cells]."""
    return np.asarray((np.abs(means - np.median(means, axis=0)) > 1e-12).any(axis=1))


def _interval(
    values: Floats, m: int, moved: npt.NDArray[np.bool_], most: float, least_of_all: float | None = None
) -> Interval:
    """The interval of the first of the values from the spread of the others (draws of m clusters), within what values
    there can be: up to `most`, and down to minus that unless it is told."""
    estimate, half = float(values[0]), t_quantile(0.975, m - 1) * float(values[1:].std(ddof=1))
    method = f"t, {m - 1} df, bootstrap of {m} clusters with the choice made again"
    if int(moved.sum()) < FEW_CHANGES:
        least = wilson(0, m).high
        half, method = (
            max(half, least),
            f"Wilson's bound for none of {m} clusters, since fewer than {FEW_CHANGES} differ",
        )
    lowest = -most if least_of_all is None else least_of_all
    return Interval(estimate, max(lowest, estimate - half), min(most, estimate + half), method)


@dataclass(frozen=True)
class _Held:
    """Held-out means for every draw of clusters: `values` [draws, 1 + controls], of the measure and each control, each
    in its own best cell; `control` [draws], of the largest control up to the measure's best cell; `adjusted` [draws],
    of the measure less the largest control in the cell where that is most, at most of the measure."""

    values: Floats
    control: Floats
    adjusted: Floats
    cells: Floats
    adjusted_cells: Floats
    names: Floats


def held_out(sums: Floats, sizes: Floats, weights: Floats, halves: Floats, ends: Ints | None = None) -> _Held:
    """Choose in one half of the clusters, measure in the other, swap, and average over splits. sums: over clusters, of
    the measure and every control [clusters, 1 + controls, cells]. sizes: items [clusters]. weights: [draws, clusters].
    halves: 1 for clusters of the first half [splits, clusters]. ends: the last of the cells, from its own on, in which
    a control stands against the measure in a cell [cells]; None for its own alone."""
    ends = np.arange(sums.shape[2]) if ends is None else ends
    draws, splits, (m, parts, count) = len(weights), len(halves), sums.shape
    flat = sums.reshape(m, -1)
    total, n = weights @ flat, weights @ sizes
    values, control, own, less = np.zeros((draws, parts)), np.zeros(draws), np.zeros(draws), np.zeros(draws)
    cells, adjusted_cells, names = np.zeros(count), np.zeros(count), np.zeros(parts)
    step = max(1, CHUNK // flat.shape[1])
    for half in halves:
        for start in range(0, draws, step):
            rows = slice(start, start + step)
            first = ((weights[rows] * half) @ flat).reshape(-1, parts, count)
            whole = total[rows].reshape(-1, parts, count)
            for one, other in ((first, whole - first), (whole - first, first)):
                best = one.argmax(axis=2)
                values[rows] += np.take_along_axis(other, best[:, :, None], axis=2)[:, :, 0]
                against, every = one.copy(), np.arange(len(one))
                against[:, 0] = 0.0  # "nothing" stands in the place of the measure
                at = (one[:, 0] - _reach(against.max(axis=1), ends)).argmax(axis=1)
                there = other[every, 0, at]
                own[rows] += there
                less[rows] += there - _largest(against, other, at, ends)[0]
                found, names_there = _largest(against, other, best[:, 0], ends)
                control[rows] += found
                if start == 0:
                    cells[best[0, 0]] += 1
                    adjusted_cells[at[0]] += 1
                    names[names_there[0]] += 1
    scale, choices = n * splits, 2 * splits
    adjusted = np.minimum(own, less) / scale
    shares = cells / choices, adjusted_cells / choices, names / choices
    return _Held(values / scale[:, None], control / scale, adjusted, *shares)


def _reach(values: Floats, ends: Ints) -> Floats:
    """The largest of the values from each cell to the last of its ladder. values: [draws, cells]."""
    found = values.copy()
    for cell in np.flatnonzero(ends > np.arange(ends.size))[::-1]:
        np.maximum(found[:, cell], found[:, cell + 1], out=found[:, cell])
    return found


def _largest(against: Floats, other: Floats, cells: Ints, ends: Ints) -> tuple[Floats, Ints]:
    """What the control that is largest in one half, up to a cell of each draw, does in the other half [draws], and
    which it is, 0 for nothing [draws]. against, other: sums of the halves [draws, 1 + controls, cells], the first of
    `against` 0 throughout."""
    found, names = np.zeros(len(cells)), np.zeros(len(cells), dtype=np.intp)
    for cell in np.unique(cells) if against.shape[1] > 1 else ():
        rows, ladder = np.flatnonzero(cells == cell), slice(cell, ends[cell] + 1)
        part = against[rows, :, ladder]
        top = part.reshape(len(rows), -1).argmax(axis=1)
        name, step = np.divmod(top, part.shape[2])
        names[rows] = name
        found[rows] = np.where(name > 0, other[rows, name, cell + step], 0.0)
    return found, names


@dataclass(frozen=True)
class ReweightedSelection:
    """For every draw the held-out means of the measure and over the largest control [draws], and how many clusters
    differ from the median one."""

    net: Floats
    adjusted: Floats
    moved: int


def select_again(
    effects: npt.ArrayLike,
    controls: Mapping[str, npt.ArrayLike],
    clusters: npt.ArrayLike,
    weights: npt.ArrayLike,
    *,
    ladders: npt.ArrayLike | None = None,
    splits: int = 20,
) -> ReweightedSelection:
    """The means of `select_best` for given weights of the clusters, in the order of their names [draws, clusters], with
    the same halves; all cells are chosen again. Raises ValueError as that does, for fewer than two clusters and another
    shape."""
    sums, sizes = _sum_clusters(_columns(effects, controls, clusters), clusters)
    (m, parts, cells), drawn = sums.shape, np.asarray(weights, dtype=float)
    if m < 2 or drawn.ndim != 2 or drawn.shape[1] != m:
        raise ValueError(f"weights of shape {drawn.shape} for {m} clusters: expected [draws, clusters], at least two")
    halves = _halves(np.random.default_rng(0), m, splits)
    found = held_out(sums, sizes, drawn, halves, _find_ladders(ladders, cells))
    moved = np.any([_find_movers(sums[:, k] / sizes[:, None]) for k in range(parts)], axis=0)
    return ReweightedSelection(found.values[:, 0], found.adjusted, int(moved.sum()))


# Sums of the same numbers in another order differ by less than this, relative to the largest, and count as equal.
TIES = 1e-12


@dataclass(frozen=True)
class Maximum:
    """The largest mean over cells, its cell, its p where nothing works, and the 95% quantile of the maximum."""

    value: float
    cell: int
    p: float
    null_95: float


def sign_flips(effects: npt.ArrayLike, clusters: npt.ArrayLike, draws: int = 2000, seed: int = 0) -> Maximum:
    """Test the largest mean over all cells against that under random signs of whole independent clusters, one-sided,
    for any dependence between cells (Westfall and Young 1993; Nichols and Holmes, Hum Brain Mapp 15:1, 2002).

    effects: [items, cells]. clusters: [items]. Raises ValueError for unequal lengths, no items or cells, or effects
    that are not finite."""
    values, sums, _ = _sums(effects, clusters)
    n, means = len(values), sums.sum(axis=0) / len(values)
    null = _flip(sums, draws, seed) / n
    cell = int(means.argmax())
    reached = int((null >= means[cell] - TIES * float(np.abs(sums).sum(axis=0).max())).sum())
    return Maximum(float(means[cell]), cell, (1 + reached) / (1 + draws), float(np.quantile(null, 0.95)))


def above_all(
    effects: npt.ArrayLike,
    others: Sequence[npt.ArrayLike],
    clusters: npt.ArrayLike,
    draws: int = 2000,
    seed: int = 0,
    *,
    ladders: npt.ArrayLike | None = None,
) -> Maximum:
    """Test whether in some cell the effects are above 0 and above those of every other measure: the largest, over
    cells, of the smallest t of a difference, against the largest t of all differences, each less its mean, under random
    signs of whole clusters (the intersection of one-sided tests in a cell, Berger, Technometrics 24:295, 1982; the
    maximum over cells by a multiplier bootstrap, Chernozhukov et al., Ann Statist 41:2786, 2013). bench/causal_truth.py
    gives its size and its power.

    effects: [items, cells]. others: the same of each other measure. ladders: as for `select_best`. `value` is the
    smallest difference in the cell, null_95 the same for a t. Raises ValueError as `sign_flips`, and for another shape.
    """
    values, own, sizes = _sums(effects, clusters)
    cells = values.shape[1]
    ends = _find_ladders(ladders, cells)
    pairs = np.array([(cell, step) for cell in range(cells) for step in range(cell, ends[cell] + 1)]).T
    sums, of = [own], [np.arange(cells)]
    for one in others:
        if np.shape(one) != values.shape:
            raise ValueError(f"effects to compare with of shape {np.shape(one)}: expected {values.shape}")
        sums.append(own[:, pairs[0]] - _sums(one, clusters)[1][:, pairs[1]])
        of.append(pairs[0])
    every, cell_of = np.hstack(sums), np.concatenate(of)
    means = every.sum(axis=0) / len(values)
    rest = every - sizes[:, None] * means
    spread = np.sqrt((rest**2).sum(axis=0))
    t = np.divide(
        means * len(values), np.maximum(spread, np.abs(every).max()), out=np.zeros_like(means), where=means != 0
    )
    least = np.full(cells, np.inf)
    np.minimum.at(least, cell_of, t)
    cell = int(least.argmax())
    varied = spread > TIES * max(1.0, float(np.abs(every).max()))
    null = _flip(rest[:, varied] / spread[varied], draws, seed) if varied.any() else np.zeros(draws)
    reached = int((null >= least[cell] - TIES).sum()) if least[cell] > 0 else draws
    return Maximum(
        float(means[cell_of == cell].min()), cell, (1 + reached) / (1 + draws), float(np.quantile(null, 0.95))
    )


def _sums(effects: npt.ArrayLike, clusters: npt.ArrayLike) -> tuple[Floats, Floats, Floats]:
    """The effects as numbers, checked [n, c], their sums over clusters [clusters, c], and the clusters' sizes."""
    values = np.asarray(effects, dtype=float)
    check_same_length(values, np.asarray(clusters))
    if values.ndim != 2 or not values.size or not np.isfinite(values).all():
        raise ValueError(f"effects of shape {values.shape}: expected finite numbers [items, cells], at least one")
    return values, *_sum_clusters(values, clusters)


def _flip(sums: Floats, draws: int, seed: int) -> Floats:
    """The largest sum over clusters under random signs of them [draws]. sums: [clusters, columns]."""
    rng = np.random.default_rng(seed)
    null = np.empty(draws)
    step = max(1, CHUNK // sums.shape[1])
    for start in range(0, draws, step):
        signs = 1 - 2 * rng.integers(0, 2, (min(step, draws - start), len(sums)))
        null[start : start + step] = (signs @ sums).max(axis=1)
    return null
