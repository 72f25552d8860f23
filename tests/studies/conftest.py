"""What several tests of studies share."""

from types import SimpleNamespace

import pytest

from analysis.functional import layers


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The study of functional Theory of Mind without the tables of single layers, which take most of its time."""
    monkeypatch.setattr(layers, "load_study", lambda name: SimpleNamespace(tables=lambda *given, **named: {}))
