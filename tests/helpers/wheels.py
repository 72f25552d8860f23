"""A wheel of this checkout, built once for all processes that share the tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from tests.conftest import ROOT


def built_wheel(factory: pytest.TempPathFactory) -> Path:
    """Build the wheel, by the build tools of this environment, unless another process has."""
    base = factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = base / "wheel"
    with FileLock(base / "wheel.lock"):
        if not folder.exists():
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
            scratch = factory.mktemp("wheel")
            command = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", scratch, ROOT]
            subprocess.run(command, check=True, cwd=scratch)
            scratch.rename(folder)
    (wheel,) = folder.glob("tomserve-*.whl")
    return wheel
