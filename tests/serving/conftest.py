"""What tests of servers share."""

from collections.abc import Iterator

import pytest

from tests.helpers.forked import Forge


@pytest.fixture(scope="session")
def forge() -> Iterator[Forge]:
    with Forge() as made:
        yield made
