"""Agreement estimators against published worked examples."""

import math

import numpy as np
import pytest

from tomserve.stats.agreement import drawn_alphas, krippendorff_alpha, masi_distance, resampled_alpha


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


def test_an_interval_resamples_whole_groups() -> None:
    """Two groups, of which one agrees and one does not: a draw holds either twice, or both."""
    agreeing = list(zip(sets("a b a b"), sets("a b a b"), strict=True))
    opposed = list(zip(sets("a b a b"), sets("b a b a"), strict=True))
    low, high = resampled_alpha([agreeing, opposed], draws=400, seed=1)
    assert low == pytest.approx(krippendorff_alpha(opposed + opposed))
    assert high == pytest.approx(krippendorff_alpha(agreeing + agreeing)) == 1
    assert resampled_alpha([agreeing + opposed], draws=20, seed=1) == pytest.approx(
        (krippendorff_alpha(agreeing + opposed),) * 2
    )


def test_a_draw_has_the_alpha_of_the_groups_that_are_in_it_as_often_as_they_are() -> None:
    agreeing = [(frozenset("a"), frozenset("a")), (frozenset("b"), frozenset("b"))]
    opposed = [(frozenset("a"), frozenset("b")), (frozenset("ab"), frozenset("a"))]
    found = drawn_alphas([agreeing, opposed, agreeing[:1]], np.array([[2, 1, 0], [0, 3, 0], [1, 1, 1], [0, 0, 2]]))
    expected = [agreeing * 2 + opposed, opposed * 3, agreeing + opposed + agreeing[:1]]
    assert found[:3].tolist() == pytest.approx([krippendorff_alpha(pairs) for pairs in expected])
    assert math.isnan(found[3]), "all values are equal"
