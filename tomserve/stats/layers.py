"""The three layers of functional Theory of Mind, each with its interval and its draws for scenarios weighted anew.

Definitions: tomserve.stats.functional, which makes a score of them. Weights of scenarios are given, so that a scenario
has the same weight in every layer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tomserve.stats.corrected import task_mean
from tomserve.stats.distributions import t_quantile
from tomserve.stats.effects import FEW_CHANGES
from tomserve.stats.proportions import UNDEFINED, Interval, wilson
from tomserve.stats.selected import again
from tomserve.stats.stability import weighted_share

Floats = npt.NDArray[np.float64]
Names = npt.NDArray[np.str_]

SPLITS, SPLITS_AGAIN = 20, 8
"""Into how many random halves scenarios are parted for the estimate of C, and in each draw."""
FEW_ITEMS = 50
"""With fewer eligible items nothing is said of a model's mechanism."""
FEW_PAIRS = 8
"""With fewer pairs of a kind of variant, one of them would be a large part of S."""
FEW_SCENARIOS = 8
"""With fewer scenarios they cannot be parted into those that choose and those that are measured."""
BELOW = 0.975
"""A task is below chance where so large a share of the draws is; it then counts as 0 in all of them."""
_AT_ONCE = 250


@dataclass(frozen=True)
class Behaviour:
    """The answers that B counts: right, 1 or 0 [n]; chance, what a blind guess scores at the question, in [0, 1) [n];
    task, its type [n]; scenario, what it is about [n]."""

    right: npt.ArrayLike
    chance: npt.ArrayLike
    task: npt.ArrayLike
    scenario: npt.ArrayLike


@dataclass(frozen=True)
class Mechanism:
    """Net effects on the eligible items, in every cell of layer and strength: of the map [n, cells], of every control
    [n, cells] and of the direct patch, the ceiling [n, its cells]; scenario [n]. items: how many are eligible,
    where some lack a cell and are not among the n. broken: the share of answers that change where nothing is added,
    which has to be 0, and None where that was not measured. lacking: why nothing can be counted although there are net
    effects, empty where there is no such reason."""

    net: npt.ArrayLike
    controls: Mapping[str, npt.ArrayLike]
    ceiling: npt.ArrayLike
    scenario: npt.ArrayLike
    items: int
    broken: float | None = 0.0
    lacking: str = ""


@dataclass(frozen=True)
class Stability:
    """Pairs of an original and a variant: same, whether both are answered alike [n]; kind of variant [n]; scenario [n].
    kinds: those that have to be there, each with FEW_PAIRS pairs."""

    same: npt.ArrayLike
    kind: npt.ArrayLike
    scenario: npt.ArrayLike
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class Found:
    """One layer: its interval; its draws around the estimate, not cut at 0 and 1 (None where undefined); why it is
    undefined; and of C the two sides, whose ratio it is."""

    interval: Interval
    draws: Floats | None = None
    why: str = ""
    adjusted: float = math.nan
    ceiling: float = math.nan


def names(part: Behaviour | Mechanism | Stability) -> Names:
    """The scenario of each row of a layer, as text [n]."""
    return np.asarray(part.scenario, dtype=np.str_)


def undefined(why: str, adjusted: float = math.nan, ceiling: float = math.nan) -> Found:
    """A layer that cannot be counted. why: in a few words. adjusted, ceiling: of C, where they are known."""
    return Found(Interval(*UNDEFINED, method=f"undefined: {why}"), None, why, adjusted, ceiling)


def _around(estimate: float, draws: Floats) -> Floats:
    """The draws moved so that their mean is the estimate: a choice among cells, and a clip, are biased in a draw."""
    return np.asarray(draws - draws.mean() + estimate, dtype=np.float64)


def behaviour(part: Behaviour, weights: Floats) -> Found:
    """B, for weights of its scenarios in the order of their names [draws, scenarios]. Raises ValueError for columns of
    unequal length."""
    right, chance = np.asarray(part.right, dtype=float), np.asarray(part.chance, dtype=float)
    if not right.size:
        return undefined("no answers")
    if not np.isfinite(chance).all():
        return undefined("chance is not known of every question")
    own = task_mean(right, chance, part.task, names(part)).interval()
    tasks, t = np.unique(np.asarray(part.task), return_inverse=True)
    scenarios, index = np.unique(names(part), return_inverse=True)
    sums = np.zeros((len(scenarios), len(tasks), 3))
    np.add.at(sums, (index, t), np.column_stack([right, chance, np.ones_like(right)]))
    shares = np.concatenate([_corrected(chunk, sums) for chunk in _chunks(weights)])
    whole = _corrected(np.ones((1, len(scenarios))), sums)[0]
    open_ = (shares < 0).mean(axis=0) < BELOW  # a task that is surely below chance counts as 0 and not as less
    counted = np.where(open_[None], shares, np.clip(shares, 0, 1))
    centre = np.nanmean(np.where(open_, whole, np.clip(whole, 0, 1)))
    draws = np.nanmean(counted, axis=1)
    return Found(own, np.asarray(draws + (own.estimate - centre), dtype=np.float64))


def _corrected(weights: Floats, sums: Floats) -> Floats:
    """Shares right of each task, corrected for chance and not clipped [draws, tasks]; nan where no answer counts."""
    scenarios, tasks, _ = sums.shape
    cells = (weights @ sums.reshape(scenarios, tasks * 3)).reshape(-1, tasks, 3)
    count = cells[:, :, 2]
    with np.errstate(invalid="ignore", divide="ignore"):
        found = (cells[:, :, 0] - cells[:, :, 1]) / (count - cells[:, :, 1])
    return np.asarray(np.where(count > 0, found, np.nan), dtype=np.float64)


def stability(part: Stability, weights: Floats) -> Found:
    """S, for weights of its scenarios in the order of their names [draws, scenarios]. Raises ValueError for columns of
    unequal length."""
    kinds = np.asarray(part.kind, dtype=np.str_)
    if absent := [name for name in part.kinds if name not in set(kinds.tolist())]:
        return undefined(f"no variants of the kinds {', '.join(absent)}" if len(absent) < len(part.kinds) else
                          "no variants")  # fmt: skip
    counts = {name: int((kinds == name).sum()) for name in part.kinds}
    if few := [f"{count} pair{'s' * (count != 1)} of kind {name}" for name, count in counts.items()
               if count < FEW_PAIRS]:  # fmt: skip
        return undefined(f"only {', '.join(few)}, and {FEW_PAIRS} are needed")
    own = weighted_share(part.same, names(part), kinds)
    told, k = np.unique(kinds, return_inverse=True)
    scenarios, index = np.unique(names(part), return_inverse=True)
    same = np.asarray(part.same, dtype=float)
    sums = np.zeros((len(scenarios), len(told), 2))
    np.add.at(sums, (index, k), np.column_stack([same, np.ones_like(same)]))
    flat = sums.reshape(len(scenarios), -1)
    draws = []
    for chunk in _chunks(weights):
        cells = (chunk @ flat).reshape(-1, len(told), 2)
        with np.errstate(invalid="ignore", divide="ignore"):
            draws.append(np.nanmean(cells[:, :, 0] / cells[:, :, 1], axis=1))
    return Found(own, _around(own.estimate, np.concatenate(draws)))


def mechanism(part: Mechanism, weights: Floats) -> Found:
    """C, for weights of its scenarios in the order of their names [draws, scenarios]: adjusted / ceiling, both measured
    on the same halves. Raises ValueError for columns of unequal length."""
    m = weights.shape[1]
    if part.items < FEW_ITEMS:
        return undefined(f"{part.items} eligible items, and {FEW_ITEMS} are needed")
    if m < FEW_SCENARIOS:
        return undefined(f"{m} scenarios, and {FEW_SCENARIOS} are needed")
    if part.lacking:
        return undefined(part.lacking)
    if part.broken is None:
        return undefined("the no-op was not measured")
    if part.broken > 0:
        return undefined(f"adding nothing changes {part.broken:.1%} of the answers")
    if not np.asarray(part.net).shape[1] or not np.asarray(part.ceiling).shape[1]:
        return undefined("no moves by the map, or no direct patch")
    sides = []
    for effects, controls in ((part.net, part.controls), (part.ceiling, {})):
        whole = again(effects, controls, names(part), np.ones((1, m)), splits=SPLITS)
        drawn = again(effects, controls, names(part), weights, splits=SPLITS_AGAIN)
        sides.append((whole.adjusted, drawn.adjusted, whole.moved))
    (value, moved, few), (ceiling, above, _) = sides
    adjusted, top = float(value[0]), float(ceiling[0])
    quantile = t_quantile(0.975, m - 1)
    if not top - quantile * float(above.std(ddof=1)) > 0:
        return undefined("the direct patch, which is the ceiling, does not clearly move answers", adjusted, top)
    ratio = adjusted / top
    spread = (moved - ratio * above) / top  # the ratio's linear approximation around its estimate
    half = quantile * float(spread.std(ddof=1))
    if few < FEW_CHANGES:
        half = max(half, wilson(0, m).high / top)
    low, high = (min(1.0, max(0.0, end)) for end in (ratio - half, ratio + half))
    method = f"t, {m - 1} df, bootstrap of {m} scenarios with the choice made again"
    found = Interval(min(1.0, max(0.0, ratio)), low, high, method)
    return Found(found, _around(found.estimate, spread), "", adjusted, top)


def _chunks(weights: Floats) -> Iterator[Floats]:
    for start in range(0, len(weights), _AT_ONCE):
        yield weights[start : start + _AT_ONCE]
