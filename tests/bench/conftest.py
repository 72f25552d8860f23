"""A bench as a module, under a name of its own: some have the names of packages."""

import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType

import pytest

from tests.conftest import ROOT


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Import the bench of that name."""
    monkeypatch.syspath_prepend(ROOT / "bench")

    def imported(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"bench_{name}", ROOT / f"bench/{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, f"bench_{name}", module)
        spec.loader.exec_module(module)
        return module

    return imported
