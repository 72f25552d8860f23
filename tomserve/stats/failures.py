"""Whether one side of a comparison failed (gave no usable answer) more often than the other, which makes it look worse.
t on the arcsine scale, moderated over classes, sees this in seven tasks, where an exact test hardly can
(bench/coverage.py)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tomserve.stats.clusters import ArmSums
from tomserve.stats.paired import moderate_tests, sign_flip, t_p, varies

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Failures:
    """The test that both sides fail equally often, and what `family_p` needs: mean and SD of the units' differences on
    the arcsine scale; nan where undefined."""

    p: float
    units: int
    mean: float
    sd: float


def matched_failures(failed: ArmSums) -> Failures:
    """Test whether treated and control clusters of the same strata fail equally often, for further strata.

    A t test over the strata of the difference of the arms' means of arcsin(sqrt((n f + 3/8) / (n + 3/4))), f a
    cluster's share of failures, n the least number of answers in the stratum (Anscombe, Biometrika 35:246, 1948); sign
    flips where all differ alike. For arms of about as many clusters; with ten to one take `strata.permutation_p`.

    failed: numbers of failures in place of right answers."""
    least = np.full(int(failed.stratum.max(initial=-1)) + 1, np.inf)
    np.minimum.at(least, failed.stratum, failed.answers)
    scaled = _arcsine_scale(failed.right / failed.answers, least[failed.stratum])
    cells = failed.with_right(scaled * failed.answers).cells().means
    return _failures(cells[:, 1] - cells[:, 0])


def paired_failures(
    failed_treated: npt.NDArray[Any], failed_control: npt.NDArray[Any], sizes: npt.NDArray[np.integer]
) -> Failures:
    """The same for two conditions on the same items. failed_treated, failed_control, sizes: numbers of failures and of
    items [units]."""
    treated, control = (_arcsine_scale(failed / sizes, sizes) for failed in (failed_treated, failed_control))
    return _failures(treated - control)


def family_p(found: Sequence[Failures]) -> list[float]:
    """p of each class's test with the variances of all classes shared (`moderate_tests`); its own where it cannot be
    moderated."""
    together = moderate_tests([one.mean for one in found], [one.sd for one in found], [one.units for one in found])
    return [one.p if math.isnan(p) else float(p) for one, p in zip(found, together, strict=True)]


def _failures(d: Floats) -> Failures:
    """The result from the units' differences on the arcsine scale [units]."""
    m = d.size
    if not m:
        return Failures(math.nan, 0, math.nan, math.nan)
    p = t_p(d) if m > 1 and varies(d) else sign_flip(d)
    sd = float(d.std(ddof=1)) if m > 1 else math.nan
    return Failures(p, m, float(d.mean()), sd)


def _arcsine_scale(share: Floats, answers: npt.NDArray[np.number]) -> Floats:
    return np.asarray(np.arcsin(np.sqrt((answers * share + 0.375) / (answers + 0.75))), dtype=float)
