"""The proof that this workbench has queued an experiment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tomserve.content.places import runs_root
from tomserve.errors import ConfigError
from tomserve.web import sealing


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "experiment.yaml"
    path.write_bytes(b"model: m\n")
    return path


def test_a_seal_is_that_of_one_experiment_of_one_name(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = sealing.seal("r", file.read_bytes())
    assert sealing.sealed("r", file, mark)
    assert not sealing.sealed("s", file, mark)
    assert not sealing.sealed("r", file, "")
    assert not sealing.sealed("r", file, "\N{SNOWMAN}")
    file.write_bytes(b"model: n\n")
    assert not sealing.sealed("r", file, mark)
    mark = sealing.seal("r", file.read_bytes())
    monkeypatch.setenv("TOMSERVE_RUNS", str(tmp_path / "other"))
    assert not sealing.sealed("r", file, mark), "another workbench has another secret"


def test_the_secret_is_this_users_alone(file: Path) -> None:
    mark = sealing.seal("r", file.read_bytes())
    path = runs_root() / ".web/secret"
    assert path.stat().st_mode & 0o777 == 0o600
    assert sealing.seal("r", file.read_bytes()) == mark
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="is no secret of this user alone"):
        sealing.sealed("r", file, mark)
    path.chmod(0o600)
    path.write_bytes(b"")
    with pytest.raises(ConfigError, match="is no secret of this user alone"):
        sealing.sealed("r", file, mark)
    path.unlink()
    path.symlink_to(file)
    with pytest.raises(ConfigError, match="is a symbolic link"):
        sealing.secret()
    assert os.path.islink(path)
