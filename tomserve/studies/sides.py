"""The two sides of an effect: how much each answer counts in it, how many of its answers failed, and how far the
server's batching could move it.

An effect is a difference of two means. Each is a mean over units (stages, or the tasks themselves) of the means of the
unit's clusters (tasks), so that an answer counts the less, the more answers its task has and the more tasks its unit
has. Whatever is said beside an effect (failures, noise) is counted with these same weights. All of it is counted from
sums over clusters, since all answers of a cluster within a unit count the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tomserve.studies.noise import on_sums

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]


class Weighed(NamedTuple):
    """One side of an effect, by cluster: how many answers failed, how much each answer counts, how many the noise check
    asked again, and how many of these changed [clusters]; the last two are None where nothing is known of a check."""

    failed: npt.NDArray[np.number]
    weight: Floats
    re_asked: npt.NDArray[np.number] | None = None
    changed: npt.NDArray[np.number] | None = None


def weights(unit: Codes, answers: npt.NDArray[np.number]) -> Floats:
    """How much each answer of a cluster counts in a mean of the units' means of their clusters' means; over all answers
    the weights add up to 1.

    unit: of each cluster, as whole numbers. answers: how many it has [clusters].

    >>> weights(np.array([0, 0, 1]), np.array([2, 1, 1])).tolist()
    [0.125, 0.25, 0.5]
    """
    if not unit.size:
        return np.zeros(0)
    _, of_unit, clusters = np.unique(unit, return_inverse=True, return_counts=True)
    return np.asarray(1 / (clusters.size * clusters[of_unit] * answers), dtype=np.float64)


def beside(treated: Weighed, control: Weighed, known: bool) -> dict[str, Any]:
    """What stands beside an effect: failed_treated and failed_control (the share of each side's answers that failed,
    with the effect's weights), noise and noise_high. known: whether there is an effect at all."""
    failed = [float(side.failed @ side.weight) if known else np.nan for side in (treated, control)]
    answers = [
        (side.re_asked, side.changed, side.weight)
        for side in (treated, control)
        if side.re_asked is not None and side.changed is not None
    ]
    noise = on_sums(answers if len(answers) == 2 else [(np.zeros(0), np.zeros(0), np.zeros(0))])
    return {"failed_treated": failed[0], "failed_control": failed[1], **noise}
