"""What several tests of studies share."""

import pytest

from tests.helpers.functional_tables import without_layer_tables


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The study of functional Theory of Mind without the tables of single layers, which take most of its time."""
    without_layer_tables(monkeypatch)
