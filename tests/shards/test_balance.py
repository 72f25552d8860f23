"""A row of weights is cut as evenly as contiguous parts allow, and where a cut costs least."""

from itertools import combinations, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tomserve.distributed import planning

WEIGHTS = st.lists(st.integers(0, 1000), min_size=1, max_size=60)


def summed(weights: list[int], found: list[int]) -> list[int]:
    return [sum(weights[start:end]) for start, end in pairwise([0, *found])]


def best(weights: list[int], parts: int) -> int:
    """The weight of the largest part where the row is cut in the evenest way, found by trying all ways."""
    places = range(1, len(weights))
    return min(max(summed(weights, [*cuts, len(weights)])) for cuts in combinations(places, parts - 1))


@given(st.lists(st.integers(0, 50), min_size=1, max_size=9), st.integers(1, 5))
def test_the_smallest_largest_part_is_that_of_the_best_of_all_cuts(weights: list[int], parts: int) -> None:
    parts = min(parts, len(weights))
    sums = np.concatenate(([0], np.cumsum(weights)))
    assert planning.smallest_largest_part(sums, parts) == best(weights, parts)


@given(WEIGHTS, st.integers(1, 60))
def test_every_piece_is_in_one_part_and_parts_are_even(weights: list[int], parts: int) -> None:
    parts = min(parts, len(weights))
    sharing = [hash((place, weight)) % 100 for place, weight in enumerate(weights)]
    found = planning.part_ends(weights, sharing, parts)
    assert len(found) == parts
    assert found[-1] == len(weights)
    assert all(end > start for start, end in pairwise([0, *found]))
    sums = np.concatenate(([0], np.cumsum(weights)))
    assert max(summed(weights, found)) <= planning.smallest_largest_part(sums, parts) * (1 + planning.TOLERANCE) + 1


def test_a_cut_goes_where_least_is_shared_where_that_costs_little() -> None:
    stories = [5, 4, 6, 5, 5, 5]  # questions of each story, which share it
    weights, sharing = [], []
    for questions in stories * 20:
        weights += [10] * questions
        sharing += [1] + [90] * (questions - 1)
    found = planning.part_ends(weights, sharing, 7)
    assert all(sharing[end] == 1 for end in found[:-1])
    even = planning.part_ends(weights, [0] * len(weights), 7)
    assert any(sharing[end] == 90 for end in even[:-1])  # an even cut alone would tear stories
