"""Runs of a scripted model whose chains are edited: each made once a session, and copied."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.answerers import finished, some_items
from tomserve.items import Item

Source = Callable[..., Path]


@pytest.fixture(scope="session")
def items() -> list[Item]:
    return some_items()


@pytest.fixture(scope="session")
def _finished(items: list[Item], tmp_path_factory: pytest.TempPathFactory) -> Source:
    base, made = tmp_path_factory.mktemp("sources"), dict[tuple[str, float], Path]()

    def make(strategy: str, wrong: float) -> Path:
        if (strategy, wrong) not in made:
            made[strategy, wrong] = finished(items, strategy, base / f"{strategy}-{wrong}", wrong)
        return made[strategy, wrong]

    return make


@pytest.fixture
def source(_finished: Source, tmp_path: Path) -> Source:
    """A finished run called `mine` of the test's own, by strategy and by the share of wrong answers."""

    def copy(strategy: str = "cot", wrong: float = 0.0) -> Path:
        return Path(shutil.copytree(_finished(strategy, wrong), tmp_path / "runs/mine"))

    return copy
