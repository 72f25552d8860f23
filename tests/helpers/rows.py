"""Estimators over clusters of answers, from one row for each answer."""

import numpy as np
import numpy.typing as npt

from tomserve.stats import clustered, failures, strata
from tomserve.stats.clusters import ArmSums, cluster_means
from tomserve.stats.effects import Effect
from tomserve.stats.proportions import Interval


def _sums(outcome: npt.ArrayLike, cluster: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Of each cluster the sum of the outcomes that are not missing, and their number."""
    y = np.asarray(outcome, dtype=float)
    known = ~np.isnan(y)
    _, codes, sizes = np.unique(np.asarray(cluster)[known], return_inverse=True, return_counts=True)
    return np.bincount(codes, y[known], minlength=sizes.size), sizes


def clustered_share(outcome: npt.ArrayLike, cluster: npt.ArrayLike, icc: float | None = None) -> Interval:
    sums, sizes = _sums(outcome, cluster)
    return clustered.clustered_share(float(sums.sum()), sizes, icc)


def repeated_share(values: npt.ArrayLike, cluster: npt.ArrayLike) -> Interval:
    return clustered.repeated_share(*_sums(values, cluster))


def unmatched_effect(outcome: npt.ArrayLike, treated: npt.ArrayLike, cluster: npt.ArrayLike) -> Effect:
    arm = np.asarray(treated, dtype=np.intp)
    return clustered.unmatched_effect(*cluster_means(np.asarray(outcome, dtype=float), np.asarray(cluster), arm))


def matched_effect(*columns: npt.ArrayLike) -> Effect:
    """columns: outcome, treated, cluster, stratum."""
    return clustered.cells_effect(ArmSums.of(*columns).cells())


def paired_effect(
    treated: npt.ArrayLike, control: npt.ArrayLike, cluster: npt.ArrayLike, stratum: npt.ArrayLike | None = None
) -> Effect:
    sums = clustered.pair_sums(treated, control, cluster, stratum)
    return clustered.pairs_effect(sums, strata=stratum is not None)


def pooled_effect(*columns: npt.ArrayLike, level: float = 0.95) -> Effect:
    return strata.pooled_effect(ArmSums.of(*columns), level)


def these_strata_effect(*columns: npt.ArrayLike) -> Effect:
    return strata.these_strata_effect(ArmSums.of(*columns))


def permutation_p(*columns: npt.ArrayLike, draws: int = 9999) -> float:
    return strata.permutation_p(ArmSums.of(*columns), draws)


def mantel_haenszel(*columns: npt.ArrayLike) -> tuple[float, float]:
    return strata.mantel_haenszel(ArmSums.of(*columns))


def matched_failures(*columns: npt.ArrayLike) -> failures.Failures:
    """columns: failed, treated, cluster, stratum."""
    return failures.matched_failures(ArmSums.of(*columns))


def paired_failures(treated: npt.ArrayLike, control: npt.ArrayLike, unit: npt.ArrayLike) -> failures.Failures:
    (one, sizes), (other, _) = _sums(treated, unit), _sums(control, unit)
    return failures.paired_failures(one, other, sizes)
