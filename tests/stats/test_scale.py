"""Many units: what is computed in batches, from sums or by size is what rows by rows give, and memory stays bounded."""

import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.rows import permutation_p, these_strata_effect
from tomserve.stats import association, paired, strata
from tomserve.stats.clusters import ArmSums

Columns = tuple[npt.NDArray[Any], ...]


def design(seed: int, strata: int, questions: int = 4, tasks: int = 5) -> Columns:
    """(outcome, treated, cluster, stratum) of tasks by stratum, the first of each the control; a tenth unanswered."""
    rng = np.random.default_rng(seed)
    stratum = np.repeat(np.arange(strata), tasks * questions)
    cluster = np.repeat(np.arange(strata * tasks), questions)
    treated = cluster % tasks != 0
    level = rng.uniform(0.2, 0.9, strata * tasks)[cluster] - 0.1 * treated
    outcome = (rng.random(cluster.size) < level).astype(float)
    kept = rng.random(cluster.size) > 0.1
    return outcome[kept], treated[kept], cluster[kept], stratum[kept]


# sign flips


@pytest.mark.parametrize("cells", [100, 12_345])
def test_the_size_of_a_batch_changes_no_p(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    d = np.random.default_rng(3).normal(0.1, 1, 40)
    columns = design(1, 6)
    wanted = paired.sign_flip_p(d, 500, seed=2), permutation_p(*columns, draws=500)
    monkeypatch.setattr(paired, "CELLS", cells)
    assert (paired.sign_flip_p(d, 500, seed=2), permutation_p(*columns, draws=500)) == wanted


@pytest.mark.parametrize("round_from", [100, 2000, 10_000])
def test_flips_by_size_have_the_distribution_of_flips_one_by_one(
    round_from: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mean of 3,000 differences of two sizes: normal with the standard deviation of the root of their squares."""
    from scipy.stats import kstest

    monkeypatch.setattr(paired, "ROUND", round_from)
    d = np.repeat([0.25, -0.25, 0.5], 1000)
    sizes, counts = paired._sizes(d)
    assert (sizes.tolist(), counts.tolist()) == ([0.25, 0.5], [2000, 1000])
    spread = math.sqrt(float(np.sum(d**2))) / d.size
    for made in (paired._by_size(sizes, counts, 4000, np.random.default_rng(0)), paired._singly(d, 4000, 1)):
        means = np.concatenate(list(made))
        assert means.size == 4000
        # half a step of the lattice, on which the means lie, is added to what chance allows
        assert kstest(means / spread, "norm").statistic < 1.63 / math.sqrt(4000) + 0.01


# sums instead of rows


@pytest.mark.parametrize("binomial", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_estimating_equations_from_sums_are_those_of_statsmodels(seed: int, binomial: bool) -> None:
    from statsmodels.genmod.cov_struct import Exchangeable
    from statsmodels.genmod.families import Binomial, Gaussian
    from statsmodels.genmod.generalized_estimating_equations import GEE

    y, arm, cluster, stage = design(seed, 5)
    matrix = np.column_stack([np.eye(5)[stage], arm])
    family = Binomial() if binomial else Gaussian()
    fit = GEE(y, matrix, groups=cluster, family=family, cov_struct=Exchangeable()).fit(cov_type="bias_reduced")
    rows = [np.column_stack([np.eye(5), np.full(5, side)]) for side in (1, 0)]
    fitted = [family.link.inverse(one @ fit.params) for one in rows]
    slopes = [(p * (1 - p) if binomial else np.ones(5))[:, None] * one for p, one in zip(fitted, rows, strict=True)]
    gradients = np.array([one.mean(axis=0) for one in slopes])
    found = strata.fit_shares(ArmSums.of(y, arm, cluster, stage), binomial=binomial)
    assert (found.treated, found.control) == pytest.approx([p.mean() for p in fitted], rel=1e-5)
    assert found.covariance.ravel() == pytest.approx((gradients @ fit.cov_params() @ gradients.T).ravel(), rel=1e-4)


def test_clusters_that_lie_in_several_arms_have_no_effect_of_these_strata() -> None:
    outcome, _, cluster, stratum = design(5, 8)
    mixed = these_strata_effect(outcome, np.arange(outcome.size) % 2 == 0, cluster, stratum)
    assert math.isnan(mixed.estimate)


def test_a_design_of_many_strata_takes_no_matrix() -> None:
    """Rows x strata would be 1.4 GB here."""
    columns = design(7, 3000)
    tracemalloc.start()
    effect = these_strata_effect(*columns)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert effect.low < -0.1 < effect.high
    assert peak < 60e6


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(3, 9), st.booleans())
def test_leaving_out_by_subtraction_is_leaving_out(seed: int, groups: int, binary: bool) -> None:
    rng = np.random.default_rng(seed)
    size = 20 * groups
    group, stratum = rng.integers(0, groups, size), rng.integers(0, 4, size)
    group[:groups] = np.arange(groups)
    score = rng.integers(0, 2, size).astype(float) if binary else rng.integers(0, 5, size) / 4
    right = (rng.random(size) < 0.3 + 0.4 * score).astype(float)
    score[rng.random(size) < 0.05] = np.nan

    def anew(statistic: Callable[..., float], *columns: npt.NDArray[Any]) -> list[float]:
        return [statistic(*(column[group != code] for column in columns)) for code in range(groups)]

    def same(found: npt.NDArray[np.float64], wanted: list[float]) -> bool:
        return found.tolist() == pytest.approx(wanted, abs=1e-9, nan_ok=True)

    r = association.separation
    assert same(association.correlations(score, right, group), anew(lambda x, y: r(x, y).point_biserial, score, right))
    assert same(association.aucs(score, right, group), anew(lambda x, y: r(x, y).auc, score, right))
    within = anew(association.within_correlation, score, right, stratum)
    assert same(association.correlations(score, right, group, stratum), within)


@pytest.mark.parametrize("treated", [1, 4])
def test_a_lone_cluster_is_drawn_with_the_moves_of_a_shuffle(treated: int) -> None:
    means = np.array([0.1, 0.35, 0.6, 0.8, 0.95])
    rng = np.random.default_rng(4)
    moves = [np.concatenate(list(made(means, treated, 5000, rng))).round(9) for made in (strata._alone, strata._moves)]
    (drawn, often), (shuffled, usual) = (np.unique(found, return_counts=True) for found in moves)
    assert np.array_equal(drawn, shuffled)
    assert np.abs(often - 1000).max() < 130
    assert np.abs(usual - 1000).max() < 130
