"""What all tests of benchmarks share: the stage files of the dataset are read and checked once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tomserve.benchmarks import perturbed, perturbed_2
from tomserve.benchmarks.perturbed import benchmark as first
from tomserve.benchmarks.perturbed_2 import benchmark as second
from tomserve.items import Item


@pytest.fixture(autouse=True, scope="session")
def _stages_are_read_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        for module in (first, second):
            read = cache(lambda path, content, load=module.load_stage: load(path))

            def load_stage(path: Path, read: Any = read) -> Any:
                return read(path, path.read_bytes())

            patched.setattr(module, "load_stage", load_stage)
        yield


@pytest.fixture(scope="session")
def first_edition(_stages_are_read_once: None) -> list[Item]:
    """The items of the perturbed benchmark."""
    return list(perturbed.load())


@pytest.fixture(scope="session")
def second_edition(_stages_are_read_once: None) -> list[Item]:
    """The items of its second edition."""
    return list(perturbed_2.load())
