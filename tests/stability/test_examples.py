"""The examples in the docstrings of the room are true."""

import doctest
import importlib
from pathlib import Path

import pytest

import tomserve.stability

MODULES = sorted(path.stem for path in Path(tomserve.stability.__file__).parent.glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_the_modules_are_true(name: str) -> None:
    module = importlib.import_module(f"tomserve.stability.{name}")
    assert doctest.testmod(module).failed == 0
