"""What tests of the engine share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tomserve.runs.journal import Journal


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """An open journal in the folder of the test."""
    with Journal(tmp_path / "responses.jsonl") as opened:
        yield opened
