"""The intra-class correlation and the effective number of answers, by hand."""

import math

import pytest

from tomserve.stats.clusters import effective_n, intraclass


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
