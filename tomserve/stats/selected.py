"""What the best of many cells does on items that did not choose it, beside the best of every control."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tomserve.stats.cells import same_length
from tomserve.stats.effects import FEW_CHANGES
from tomserve.stats.proportions import UNDEFINED, Interval, wilson

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]

NOTHING = "nothing"
"""The control that adds nothing and so changes nothing: its effect is 0."""
CHUNK = 1 << 22
"""About how many sums are held at a time."""


@dataclass(frozen=True)
class Selected:
    """What was chosen, and what it does where it was not chosen; nan where undefined.

    net: the mean effect of the best cell on the clusters that did not choose it. controls: the same for each control,
    by name, at its own best cell. control: that of the control that was the largest where cells were chosen. adjusted:
    net less control, at most net. Each with its interval. largest: the name of the control that was the largest most
    often, NOTHING where none was above 0. chosen: the share of choices that fell on each cell of the measure [cells].
    """

    net: Interval
    controls: dict[str, Interval]
    control: Interval
    adjusted: Interval
    largest: str
    chosen: Floats


def selected(
    effects: npt.ArrayLike,
    controls: Mapping[str, npt.ArrayLike],
    clusters: npt.ArrayLike,
    *,
    splits: int = 20,
    draws: int = 1000,
    seed: int = 0,
) -> Selected:
    """Choose the best cell on one half of the clusters, measure it on the other, swap, and average over random splits.

    Each control is given its own best cell in the half that chooses, and the largest control is chosen there, too;
    doing nothing, whose effect is 0, is one of them. So no figure is taken from the items that picked it, neither the
    measure's nor a control's. Every item counts once in every split.

    The intervals are the estimate plus and minus Student's t with m - 1 degrees of freedom for m clusters, times the
    standard deviation of `draws` bootstrap samples of clusters, in each of which all cells and the largest control are
    chosen again; a cluster drawn twice lies in one half, so that it never chooses and measures. Of the percentile,
    basic, BCa, jackknife and normal intervals this one covered best: a choice among discrete effects is biased in the
    bootstrap, which moves percentiles and still more BCa's and the basic ones, but hardly the spread
    (bench/causal_coverage.py). They are for what the chosen cells do on average, in as many further clusters. Where
    fewer than five clusters differ from the others, so that a bootstrap says hardly anything, the half width is at
    least Wilson's upper bound for none of m.

    effects: one number for each item and cell of the measure, such as whether it flipped as hoped (1) or against it
    (-1) [n, c]. controls: by name, the same of each control [n, its own cells]. clusters: of each item [n].

    Of equal cells the first is chosen. Undefined (nan) with fewer than two clusters. Raises ValueError for columns of
    unequal length, no cells, effects that are not finite, or a control with the name NOTHING.
    """
    values, names = _columns(effects, controls, clusters)
    _, index, sizes = np.unique(names, return_inverse=True, return_counts=True)
    m, widths = sizes.size, [one.shape[1] for one in values]
    if m < 2:
        nothing = Interval(*UNDEFINED, method="undefined: fewer than two clusters")
        return Selected(
            nothing, dict.fromkeys(controls, nothing), nothing, nothing, NOTHING, np.full(widths[0], np.nan)
        )
    every = np.concatenate(values, axis=1)
    sums = np.zeros((m, every.shape[1]))
    np.add.at(sums, index, every)
    ends = np.cumsum(widths)
    parts = tuple(slice(int(end - width), int(end)) for end, width in zip(ends, widths, strict=True))
    rng = np.random.default_rng(seed)
    halves = np.array([rng.permutation(m) < m // 2 for _ in range(splits)], dtype=float)
    drawn = np.vstack([np.ones(m), rng.multinomial(m, np.full(m, 1 / m), size=draws)])
    held = held_out(_Sums(sums, parts, sizes.astype(float)), drawn, halves)
    moved = [_moved(sums[:, part] / sizes[:, None]) for part in parts]
    limit = 1.0 if np.abs(every).max() <= 1 else math.inf
    shown = {name: _interval(held.values[:, k], m, moved[k], limit) for k, name in enumerate(controls, start=1)}
    net, anything = held.values[:, 0], np.any(moved, axis=0)
    return Selected(
        _interval(net, m, moved[0], limit),
        shown,
        _interval(held.largest, m, anything, limit),
        _interval(np.minimum(net, net - held.largest), m, anything, 2 * limit),
        (NOTHING, *controls)[int(held.names.argmax())],
        held.cells,
    )


def _columns(
    effects: npt.ArrayLike, controls: Mapping[str, npt.ArrayLike], clusters: npt.ArrayLike
) -> tuple[list[Floats], npt.NDArray[np.generic]]:
    """The effects of the measure and of every control, checked, and the clusters."""
    values = [np.asarray(one, dtype=float) for one in (effects, *controls.values())]
    names = np.asarray(clusters)
    for name, one in zip(("the measure", *controls), values, strict=True):
        if one.ndim != 2 or not one.shape[1] or not np.isfinite(one).all():
            raise ValueError(f"effects of {name} of shape {one.shape}: expected finite numbers [items, cells]")
    if NOTHING in controls:
        raise ValueError(f"a control is called {NOTHING!r}, which stands for doing nothing: expected another name")
    same_length(*values, names)
    return values, names


def _moved(means: Floats) -> npt.NDArray[np.bool_]:
    """Whether a cluster differs from the median one in any cell [clusters]. means: [clusters, cells]."""
    return np.asarray((np.abs(means - np.median(means, axis=0)) > 1e-12).any(axis=1))


def _interval(values: Floats, m: int, moved: npt.NDArray[np.bool_], limit: float) -> Interval:
    """The interval of the first of the values from the spread of the others (draws of m clusters)."""
    from scipy.stats import t as student

    estimate, half = float(values[0]), float(student.ppf(0.975, m - 1)) * float(values[1:].std(ddof=1))
    method = f"t, {m - 1} df, bootstrap of {m} clusters with the choice made again"
    if int(moved.sum()) < FEW_CHANGES:
        least = wilson(0, m).high
        half, method = (
            max(half, least),
            f"Wilson's bound for none of {m} clusters, since fewer than {FEW_CHANGES} differ",
        )
    return Interval(estimate, max(-limit, estimate - half), min(limit, estimate + half), method)


@dataclass(frozen=True)
class _Sums:
    """Effects summed over clusters [clusters, cells], those of the measure first, then those of every control; `parts`:
    the columns of each; `sizes`: items a cluster [clusters]."""

    sums: Floats
    parts: tuple[slice, ...]
    sizes: Floats


@dataclass(frozen=True)
class _Held:
    """Held-out means for every draw of clusters: `values` [draws, 1 + controls], of the measure and each control, and
    `largest` [draws], of the control that was the largest where cells were chosen. For the first draw alone `cells`
    [cells], how often each cell of the measure was chosen, and `names` [1 + controls], how often nothing, or each
    control, was the largest."""

    values: Floats
    largest: Floats
    cells: Floats
    names: Floats


def held_out(of: _Sums, weights: Floats, halves: Floats) -> _Held:
    """Choose in one half of the clusters, measure in the other, swap, and average over splits.

    weights: how often each cluster is drawn [draws, clusters]. halves: 1 for clusters of the first half [splits, m].
    """
    draws, splits, width = len(weights), len(halves), of.sums.shape[1]
    total, n = weights @ of.sums, weights @ of.sizes
    values, largest = np.zeros((draws, len(of.parts))), np.zeros(draws)
    cells, names = np.zeros(of.parts[0].stop), np.zeros(len(of.parts))
    step = max(1, CHUNK // width)
    for half in halves:
        for start in range(0, draws, step):
            rows = slice(start, start + step)
            first = (weights[rows] * half) @ of.sums
            for one, other in ((first, total[rows] - first), (total[rows] - first, first)):
                best, found = _measured(one, other, of.parts)
                values[rows] += found
                best[:, 0] = 0.0  # "nothing" stands in the place of the measure
                found = found.copy()
                found[:, 0] = 0.0
                top = best.argmax(axis=1)
                largest[rows] += np.take_along_axis(found, top[:, None], axis=1)[:, 0]
                if start == 0:
                    cells[one[0, of.parts[0]].argmax()] += 1
                    names[top[0]] += 1
    scale = (n * splits)[:, None]
    return _Held(values / scale, largest / scale[:, 0], cells / (2 * splits), names / (2 * splits))


def _measured(one: Floats, other: Floats, parts: tuple[slice, ...]) -> tuple[Floats, Floats]:
    """The best sum of each part in one half, and the sum of the same cell in the other [draws, parts]."""
    best, found = np.empty((len(one), len(parts))), np.empty((len(one), len(parts)))
    rows = np.arange(len(one))
    for k, part in enumerate(parts):
        chosen = part.start + one[:, part].argmax(axis=1)
        best[:, k], found[:, k] = one[rows, chosen], other[rows, chosen]
    return best, found


@dataclass(frozen=True)
class Again:
    """What `again` finds: for every draw the held-out mean of the measure and that of the largest control [draws], and
    how many clusters differ from the median one in any cell."""

    net: Floats
    largest: Floats
    moved: int


def again(
    effects: npt.ArrayLike,
    controls: Mapping[str, npt.ArrayLike],
    clusters: npt.ArrayLike,
    weights: npt.ArrayLike,
    *,
    splits: int = 20,
    seed: int = 0,
) -> Again:
    """The means of `selected` for given weights of the clusters, with the same halves; all cells are chosen again.

    effects, controls, clusters, splits, seed: as there. weights: how much each cluster counts in each draw, clusters in
    the order of their names [draws, clusters]; such as those that several measures share.

    Raises ValueError as `selected` does, for fewer than two clusters, and for weights of another shape.
    """
    values, names = _columns(effects, controls, clusters)
    _, index, sizes = np.unique(names, return_inverse=True, return_counts=True)
    m, drawn = sizes.size, np.asarray(weights, dtype=float)
    if m < 2 or drawn.ndim != 2 or drawn.shape[1] != m:
        raise ValueError(f"weights of shape {drawn.shape} for {m} clusters: expected [draws, clusters], at least two")
    sums = np.zeros((m, sum(one.shape[1] for one in values)))
    np.add.at(sums, index, np.concatenate(values, axis=1))
    ends = np.cumsum([one.shape[1] for one in values])
    parts = tuple(slice(int(end - one.shape[1]), int(end)) for end, one in zip(ends, values, strict=True))
    rng = np.random.default_rng(seed)
    halves = np.array([rng.permutation(m) < m // 2 for _ in range(splits)], dtype=float)
    found = held_out(_Sums(sums, parts, sizes.astype(float)), drawn, halves)
    moved = np.any([_moved(sums[:, part] / sizes[:, None]) for part in parts], axis=0)
    return Again(found.values[:, 0], found.largest, int(moved.sum()))
