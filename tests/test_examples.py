"""What the examples in docstrings say comes out is what comes out, in every module."""

import doctest
import importlib
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.helpers.examples import copied_example

ROOMS = ("tomserve", "analysis", "bench", "tests/helpers")
SHOWN = sorted(
    path.relative_to(ROOT)
    for room in ROOMS
    for path in (ROOT / room).rglob("*.py")
    if "\n>>> " in path.read_text("utf-8").replace("\n    >>> ", "\n>>> ").replace("\n        >>> ", "\n>>> ")
)


@pytest.mark.parametrize("path", SHOWN, ids=lambda path: path.as_posix())
def test_the_examples_of_the_docstrings_are_true(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied_example(tmp_path / "runs")  # the run that examples of the Python interface read
    monkeypatch.syspath_prepend(str(ROOT / "bench"))  # benches are programs, which find each other beside them
    parts = path.with_suffix("").parts
    name = path.stem if parts[0] == "bench" else ".".join(parts).removesuffix(".__init__")
    assert not doctest.testmod(importlib.import_module(name)).failed
