"""The intra-class correlation, effective numbers of answers, and the share that is built on them."""

import math

import numpy as np
import pytest

from tomserve.stats.clustered import clustered_share, effective_share
from tomserve.stats.intraclass import effective_n, intraclass
from tomserve.stats.proportions import wilson


def test_anova_by_hand() -> None:
    """Two classes; clusters of 2, 3 | 2, 2, 1 answers, means 1, 1/3 | 1/2, 0, 1."""
    y = [1, 1, 1, 0, 0, 1, 0, 0, 0, 1]
    cluster = list("aabbbccdde")
    group = ["x"] * 5 + ["y"] * 5
    msb = (2 * 0.4**2 + 3 * (1 / 3 - 0.6) ** 2 + 2 * 0.1**2 + 2 * 0.4**2 + 0.6**2) / 3
    msw = (2 / 3 + 0.5) / 5
    n0 = (5 - 13 / 5 + 5 - 9 / 5) / 3
    expected = (msb - msw) / (msb + (n0 - 1) * msw)
    assert intraclass(y, cluster, group) == pytest.approx(expected)
    assert intraclass([*y, math.nan], [*cluster, "z"], [*group, "z"]) == pytest.approx(expected)


def test_extremes() -> None:
    equal = intraclass([1, 1, 0, 0], list("aabb"), ["x"] * 4)
    opposite = intraclass([1, 0, 1, 0], list("aabb"), ["x"] * 4)
    assert (equal, opposite) == (1.0, 0.0), "a negative estimate is cut to 0"
    nothing = (
        intraclass([1, 1, 1, 1], list("aabb"), ["x"] * 4),  # nothing varies
        intraclass([1, 0], list("ab"), ["x"] * 2),  # one answer a cluster
        intraclass([1, 0], list("aa"), ["x"] * 2),  # one cluster a group
        intraclass([], [], []),
    )
    assert all(math.isnan(value) for value in nothing)
    with pytest.raises(ValueError, match="equal lengths"):
        intraclass([1.0], ["a", "b"], ["x"])


def test_a_cluster_in_two_groups_is_two() -> None:
    once = intraclass([1, 1, 0, 0, 1, 0, 1, 1], list("aabbaabb"), list("xxxxyyyy"))
    renamed = intraclass([1, 1, 0, 0, 1, 0, 1, 1], list("aabbccdd"), list("xxxxyyyy"))
    assert once == renamed


def test_effective_n() -> None:
    assert effective_n([16] * 7, 0.0) == 112
    assert effective_n([16] * 7, 1.0) == 7
    assert effective_n([16] * 7, math.nan) == 7
    assert effective_n([16] * 7, 0.1) == pytest.approx(112 / 2.5)
    assert effective_n([2, 16], 0.5) == pytest.approx(18 / (1 + (260 / 18 - 1) / 2))
    assert effective_n([1, 99], 1.0) == 2, "never fewer than the clusters"
    assert effective_n([], 0.5) == 0
    with pytest.raises(ValueError, match="expected a number from 0 to 1"):
        effective_n([2], 1.5)


def test_effective_share_lies_between_clusters_and_answers() -> None:
    y, cluster = np.tile([1.0, 1, 1, 0], 28), np.repeat(np.arange(7), 16)
    found = effective_share(y, cluster, 0.2)
    same = wilson(21, 28)
    assert (found.estimate, found.low, found.high) == (0.75, pytest.approx(same.low), pytest.approx(same.high))
    assert found.method == "Wilson, effective n = 28.0 of 112"
    assert effective_share(y, cluster, math.nan).low == pytest.approx(clustered_share(y, cluster).low)
    assert effective_share(y, cluster, 0.0).low == pytest.approx(wilson(84, 112).low)
    assert math.isnan(effective_share([math.nan], ["a"], 0.2).estimate)


def test_effective_share_covers_with_a_pooled_correlation() -> None:
    """Eleven classes of seven tasks x 16 answers, a beta-binomial with the correlation .2: near 95%, and narrow."""
    rng, hits, width = np.random.default_rng(4), [], []
    levels = np.linspace(0.2, 0.9, 11)
    group, cluster = np.repeat(np.arange(11), 112), np.repeat(np.arange(77), 16)
    for _ in range(25):
        p = rng.beta(np.repeat(levels, 7) * 4, np.repeat(1 - levels, 7) * 4)
        y = (rng.random(1232) < np.repeat(p, 16)).astype(float)
        icc = intraclass(y, cluster, group)
        for index, level in enumerate(levels):
            here = group == index
            found = effective_share(y[here], cluster[here], icc)
            hits.append(found.low <= level <= found.high)
            width.append((found.high - found.low) / np.ptp(clustered_interval(y[here], cluster[here])))
    assert 0.925 <= np.mean(hits) <= 0.97
    assert np.mean(width) < 0.65


def clustered_interval(y: np.ndarray, cluster: np.ndarray) -> tuple[float, float]:
    """The bounds with n = tasks."""
    found = clustered_share(y, cluster)
    return found.low, found.high
