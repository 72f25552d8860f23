"""Agreement estimators against published worked examples."""

import math

import pytest

from tomserve.stats.agreement import krippendorff_alpha, masi_distance


def sets(text: str) -> list[frozenset[str]]:
    return [frozenset(word) for word in text.split()]


def test_masi_of_the_four_relations() -> None:
    same, inside, overlapping, apart = sets("a"), sets("a ab"), sets("ab bc"), sets("a b")
    assert masi_distance(same[0], same[0]) == 0
    assert masi_distance(*inside) == pytest.approx(1 - 1 / 2 * 2 / 3)
    assert masi_distance(*overlapping) == pytest.approx(1 - 1 / 3 * 1 / 3)
    assert masi_distance(*apart) == 1


def test_alpha_of_krippendorffs_binary_example() -> None:
    """Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability", section A: two observers, ten items, .095."""
    meg = "0 1 0 0 0 0 0 0 1 0"
    owen = "1 1 1 0 0 1 0 0 0 0"
    assert krippendorff_alpha(list(zip(sets(meg), sets(owen), strict=True))) == pytest.approx(0.095, abs=0.0005)


def test_alpha_of_krippendorffs_nominal_example() -> None:
    """Section B of the same: two observers, twelve items, five categories, .692."""
    ben = "a a b b d c c c e d d a"
    gerry = "b a b b b c c c e d d d"
    assert krippendorff_alpha(list(zip(sets(ben), sets(gerry), strict=True))) == pytest.approx(0.692, abs=0.0005)


def test_perfect_and_undefined() -> None:
    assert krippendorff_alpha([(frozenset("a"), frozenset("a")), (frozenset("b"), frozenset("b"))]) == 1.0
    assert math.isnan(krippendorff_alpha([(frozenset("a"), frozenset("a"))] * 3))
