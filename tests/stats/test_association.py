"""Association of chains with right answers, and the placebo split: hand-made and degenerate cases.
Agreement estimators against published worked examples."""

import functools
import itertools
import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import ROOT
from tomserve.stats import association
from tomserve.stats.association import (
    jackknife,
    phi,
    phi_range,
    placebo_split,
    separation,
    within_auc,
    within_correlation,
)

sys.path.append(str(ROOT / "dataset/annotation"))
from alpha import krippendorff_alpha, masi_distance, resampled_alpha

NAN = math.nan


def test_phi_counts_and_range() -> None:
    found = phi([1] * 3 + [0] * 7, [1] * 5 + [0] * 5)
    assert (found.both, found.only_x, found.only_y, found.neither) == (3, 0, 2, 5)
    assert found.phi == pytest.approx(found.maximum) == pytest.approx(math.sqrt(0.3 * 0.5 / (0.5 * 0.7)))
    from scipy.stats import chi2_contingency

    assert found.p == pytest.approx(chi2_contingency([[3, 0], [2, 5]], correction=False).pvalue)
    assert math.isnan(phi([1, 1, 1], [1, 0, 1]).phi)
    assert math.isnan(phi([], []).phi)
    assert math.isnan(phi_range(0, 0.5)[0])


@settings(deadline=None)  # the first call imports scipy.stats
@given(st.integers(1, 9), st.integers(1, 9))
def test_phi_range_is_attained(a: int, b: int) -> None:
    x, y = np.arange(10) < a, np.arange(10) < b
    assert phi(x, y).phi == pytest.approx(phi_range(a / 10, b / 10)[1])
    assert phi(x, y[::-1]).phi == pytest.approx(phi_range(a / 10, b / 10)[0])


def test_separation() -> None:
    found = separation([0.1, 0.4, 0.4, 0.9], [0, 0, 1, 1])
    assert found.auc == pytest.approx(3.5 / 4)
    assert found.point_biserial == pytest.approx(np.corrcoef([0.1, 0.4, 0.4, 0.9], [0, 0, 1, 1])[0, 1])
    assert math.isnan(separation([0.5, 0.5], [0, 1]).auc)
    assert math.isnan(separation([0.1, 0.5], [1, 1]).auc)


def test_unequal_difficulty_creates_no_association_within_classes() -> None:
    """Chain and answer independent in each class; pooling an easy and a hard one correlates them."""
    mixed = [(1, 0)] * 3 + [(0, 1)] * 3
    pairs = [(1, 1)] * 9 + mixed + [(0, 0)] * 10 + mixed + [(1, 1)]
    x, y = (np.array(column) for column in zip(*pairs, strict=True))
    kind = np.repeat(["easy", "hard"], 16)
    assert phi(x, y).phi == pytest.approx(0.25)
    assert within_correlation(x, y, kind) == pytest.approx(0)
    assert within_auc(x, y, kind) == pytest.approx(0.5)
    assert math.isnan(within_correlation([1, 1, 0, 0], [1, 0, 1, 0], list("aabb")))
    assert math.isnan(within_auc([1, 0], [1, 0], ["a", "b"]))
    assert math.isnan(within_correlation([], [], []))


def test_jackknife_of_a_mean_is_its_t_interval() -> None:
    """On a scale so wide that atanh is linear, delete-one of a mean gives the t interval of the group means."""
    from scipy.stats import ttest_1samp

    x = np.array([0.1, 0.5, 0.2, 0.9, 0.4])
    found = jackknife(lambda v: float(v.mean()), (x,), np.arange(5), scale=(-1000.0, 1000.0))
    expected = ttest_1samp(x, 0).confidence_interval()
    assert (found.low, found.high) == (pytest.approx(expected.low, abs=1e-5), pytest.approx(expected.high, abs=1e-5))
    assert math.isnan(jackknife(lambda v: float(v.mean()), (x[:2],), np.arange(2)).low)
    assert math.isnan(jackknife(lambda v: NAN, (x,), np.arange(5)).low)


def test_a_large_jackknife_leaves_out_by_subtraction_and_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    given = rng.random(60), rng.integers(0, 2, 60), np.repeat(np.arange(12), rng.permutation([2, 3, 5, 10] * 3))
    correlation = functools.partial(jackknife, lambda x, y: separation(x, y).point_biserial, given[:2], given[2])
    whole = correlation()
    monkeypatch.setattr(association, "MOST_ROWS_RECOMPUTED", 0)
    found = correlation(without=association.correlations)
    assert (found.low, found.high) == pytest.approx((whole.low, whole.high), abs=1e-12)


def test_placebo_null_is_the_mean_over_all_permutations() -> None:
    v, c, p = [0, 0, 0, 1, 1, 1], [1, 0, 1, 1, 0, 1], [1, 1, 0, 1, 0, 0]
    effects = []
    for zeros in itertools.permutations(c[:3]):
        for ones in itertools.permutations(c[3:]):
            moved = [*zeros, *ones]
            effects.append(np.mean([m - a for m, a, kind in zip(moved, v, p, strict=True) if kind]))
    found, _ = placebo_split(v, c, p)
    assert found.effect == pytest.approx((1 + 0 + 0) / 3)
    assert found.null == pytest.approx(np.mean(effects))
    assert found.null_sd == pytest.approx(np.std(effects))
    assert math.isnan(placebo_split([1, 0], [1, 0], [1, 1])[1].effect)


def sets(text: str) -> list[frozenset[str]]:
    return [frozenset(word) for word in text.split()]


def test_masi_of_the_four_relations() -> None:
    same, inside, overlapping, apart = sets("a"), sets("a ab"), sets("ab bc"), sets("a b")
    assert masi_distance(same[0], same[0]) == 0
    assert masi_distance(*inside) == pytest.approx(1 - 1 / 2 * 2 / 3)
    assert masi_distance(*overlapping) == pytest.approx(1 - 1 / 3 * 1 / 3)
    assert masi_distance(*apart) == 1


@pytest.mark.parametrize(
    ("one", "other", "alpha"),
    [
        ("0 1 0 0 0 0 0 0 1 0", "1 1 1 0 0 1 0 0 0 0", 0.095),
        ("a a b b d c c c e d d a", "b a b b b c c c e d d d", 0.692),
    ],
)
def test_alpha_of_krippendorffs_examples(one: str, other: str, alpha: float) -> None:
    """Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability", sections A and B."""
    assert krippendorff_alpha(list(zip(sets(one), sets(other), strict=True))) == pytest.approx(alpha, abs=0.0005)


def test_perfect_and_undefined() -> None:
    assert krippendorff_alpha([(frozenset("a"), frozenset("a")), (frozenset("b"), frozenset("b"))]) == 1.0
    alike = [(frozenset("a"), frozenset("a"))]
    assert math.isnan(krippendorff_alpha(alike))
    assert all(map(math.isnan, resampled_alpha([alike], draws=5, seed=1)))
