"""Whether one side of a comparison failed (gave no usable answer) more often than the other.

Failures count as wrong, so that a side that failed more often looks worse without being so. The test must see this in a
class of seven tasks, where an exact test over seven units hardly can: with 2% of failures against 15%, sign flips over
seven stages find .27 to .46, t on the arcsine scale .55 to .76, and moderated over ten classes .64 to .85 (sixteen
questions a task, SDs of the logits between .7 and 1.1; bench/coverage.py measures it on its own).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tomserve.stats.clusters import Codes, cells_of
from tomserve.stats.paired import SHARED, moderate_tests, sign_flip, t_p, varies

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Failures:
    """How often both sides of a comparison failed, and the test that they fail equally often; nan where undefined.

    `rate_treated`, `rate_control`: mean over the units of each unit's share of failures, in [0, 1]. `p`: two-sided, of
    the test described in `matched_failures`. `units`: independent units. `mean`, `sd`: of the units' differences on the
    arcsine scale, which is what `family_p` needs.
    """

    rate_treated: float
    rate_control: float
    p: float
    units: int
    mean: float
    sd: float


def matched_failures(means: Floats, of_cell: Codes, sizes: npt.NDArray[np.integer]) -> Failures:
    """Test whether treated and control clusters of the same strata fail equally often, for further strata.

    A t test over the strata (strata - 1 df) of the difference of the arms' means of arcsin(sqrt((n f + 3/8) / (n +
    3/4))), where f is a cluster's share of failures and n the least number of answers of a cluster of that stratum
    (Anscombe, Biometrika 35:246, 1948). On this scale the spread of a share hardly depends on the share, so that rare
    failures in one arm and frequent ones in the other are compared without one stratum deciding all. It assumes
    independent strata whose mean difference is about normal. Where all strata differ by the same amount p is that of
    sign flips. It suits arms of about as many clusters: with ten treated clusters to one of control and 2% of failures
    it rejected a true hypothesis in .09 to .10; there take `strata.permutation_p` of the failures.

    means, of_cell, sizes: as `clusters.cells_of` has them, of failures [clusters]; strata without both arms are left
        out.
    """
    if not means.size:
        return _failures(*(np.empty(0),) * 4)
    shares = cells_of(means, of_cell, sizes).means
    least = np.full(int(of_cell.max()) // 2 + 1, np.inf)
    np.minimum.at(least, of_cell // 2, sizes)
    cells = cells_of(_arcsine_scale(means, least[of_cell // 2]), of_cell, np.ones(means.size)).means
    return _failures(shares[:, 1], shares[:, 0], cells[:, 1], cells[:, 0])


def paired_failures(
    failed_treated: npt.NDArray[Any], failed_control: npt.NDArray[Any], sizes: npt.NDArray[np.integer]
) -> Failures:
    """Test whether two conditions fail equally often on the same items, for further units (clusters or strata).

    The test of `matched_failures`, with the share of failures of each unit under both conditions. Under the hypothesis
    the conditions could be exchanged in every unit, so that differences are symmetric around zero, where a t test over
    few units rejects seldom rather than often.

    failed_treated, failed_control: how many of its items failed under either condition, and sizes: how many it has, of
        each unit [units].
    """
    shares = failed_treated / sizes, failed_control / sizes
    return _failures(*shares, *(_arcsine_scale(share, sizes) for share in shares))


def family_p(found: Sequence[Failures], shared: float = SHARED) -> list[float]:
    """p of each class's test with the variances of all classes shared (`moderate_tests`), which finds more.

    found: the classes' own results. shared: as in `moderate_tests`: .5, the default, for classes that are compared with
    the same control tasks; 0 for classes that have no answer in common. Where a class cannot be moderated, its own p
    stands.
    """
    together = moderate_tests(
        [one.mean for one in found], [one.sd for one in found], [one.units for one in found], shared=shared
    )
    return [one.p if math.isnan(p) else float(p) for one, p in zip(found, together.p, strict=True)]


def _failures(t: Floats, c: Floats, scaled_t: Floats, scaled_c: Floats) -> Failures:
    """The result from the units' shares of failures on both sides, plain and on the arcsine scale [units]."""
    m = t.size
    if not m:
        return Failures(math.nan, math.nan, math.nan, 0, math.nan, math.nan)
    d = scaled_t - scaled_c
    p = t_p(d) if m > 1 and varies(d) else sign_flip(d).p
    sd = float(d.std(ddof=1)) if m > 1 else math.nan
    return Failures(float(t.mean()), float(c.mean()), p, m, float(d.mean()), sd)


def _arcsine_scale(share: Floats, answers: npt.NDArray[np.number]) -> Floats:
    """Shares of so many answers on the arcsine scale."""
    return np.asarray(np.arcsin(np.sqrt((answers * share + 0.375) / (answers + 0.75))), dtype=float)
