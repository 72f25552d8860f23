"""What all tests of benchmarks share: the items of both editions, made once."""

import pytest

from tomserve.benchmarks import perturbed, perturbed_2
from tomserve.items import Item


@pytest.fixture(scope="session")
def first_edition(_stages_are_read_once: None) -> list[Item]:
    """The items of the perturbed benchmark."""
    return list(perturbed.load())


@pytest.fixture(scope="session")
def second_edition(_stages_are_read_once: None) -> list[Item]:
    """The items of its second edition."""
    return list(perturbed_2.load())
