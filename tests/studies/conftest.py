"""What several tests of studies share."""

import pytest

from tests.helpers.functional_tables import without_layer_tables


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """See there."""
    without_layer_tables(monkeypatch)
