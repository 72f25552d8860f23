"""The two sides of an effect: how much each answer counts in it, how many of its answers failed, and how far the
server's batching could move it.

An effect is a difference of two means. Each is a mean over units (stages, or the tasks themselves) of the means of the
unit's clusters (tasks), so that an answer counts the less, the more answers its task has and the more tasks its unit
has. Whatever is said beside an effect (failures, noise) is counted with these same weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tomserve.studies.noise import on_rows

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]


def weights(clusters: Codes, units: Codes) -> Floats:
    """How much each answer counts in a mean of the units' means of their clusters' means; the weights add up to 1.

    clusters, units: of each answer, as whole numbers [answers].

    >>> weights(np.array([0, 0, 1, 2]), np.array([0, 0, 0, 1])).tolist()
    [0.125, 0.125, 0.25, 0.5]
    """
    if not clusters.size:
        return np.zeros(0)
    _, unit = np.unique(units, return_inverse=True)
    _, cluster = np.unique(clusters, return_inverse=True)
    pairs, cell, answers = np.unique(unit * (int(cluster.max()) + 1) + cluster, return_inverse=True, return_counts=True)
    of_unit = pairs // (int(cluster.max()) + 1)
    in_unit = np.bincount(of_unit)
    return np.asarray(1 / (in_unit.size * in_unit[of_unit][cell] * answers[cell]), dtype=np.float64)


def of_arms(rows: pl.DataFrame, arm: npt.NDArray[np.bool_], clusters: Codes, units: Codes) -> dict[str, Any]:
    """What stands beside an effect between two sets of rows that share units: failed_treated and failed_control (the
    share of each side's answers that failed, with the effect's weights), noise and noise_high.

    rows: with `faulty` and, where the noise check is known, `re_asked` and `changed`. arm: whether a row is treated.
    Rows of units that lack one of the arms do not count, as in the effect.
    """
    both = np.isin(units, np.intersect1d(units[arm], units[~arm]))
    chosen = [np.flatnonzero(both & side) for side in (arm, ~arm)]
    counted = [weights(clusters[index], units[index]) for index in chosen]
    faulty = rows["faulty"].to_numpy()
    found = _failures(faulty[chosen[0]] @ counted[0], faulty[chosen[1]] @ counted[1], bool(both.any()))
    if not {"re_asked", "changed"} <= set(rows.columns):
        return {**found, **on_rows([((), (), ())])}
    again, changed = rows["re_asked"].to_numpy(), rows["changed"].to_numpy()
    sides = [(again[index], changed[index], weight) for index, weight in zip(chosen, counted, strict=True)]
    return {**found, **on_rows(sides)}


def of_pairs(pairs: pl.DataFrame, clusters: Codes, units: Codes) -> dict[str, Any]:
    """The same of an effect between two conditions on the same items.

    pairs: with `faulty` and `control_faulty` and, where the noise check is known, `re_asked`, `changed` and the same
    names with control_ before them.
    """
    weight = weights(clusters, units)
    failed, other = (pairs[name].to_numpy() @ weight for name in ("faulty", "control_faulty"))
    found = _failures(failed, other, bool(pairs.height))
    names = [(f"{side}re_asked", f"{side}changed") for side in ("", "control_")]
    if not {name for side in names for name in side} <= set(pairs.columns):
        return {**found, **on_rows([((), (), ())])}
    return {
        **found,
        **on_rows([(pairs[again].to_numpy(), pairs[changed].to_numpy(), weight) for again, changed in names]),
    }


def _failures(treated: Any, control: Any, known: bool) -> dict[str, Any]:
    return {
        "failed_treated": float(treated) if known else np.nan,
        "failed_control": float(control) if known else np.nan,
    }
