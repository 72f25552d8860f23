"""Finding the model that is to be measured, what its small files tell, and what is refused before anything is loaded."""

import re
import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.conftest import ROOT
from tomserve.causal import checkpoints
from tomserve.causal.checkpoints import digest_of, resolve_model
from tomserve.errors import ConfigError
from tomserve.serving import checkpoint
from tomserve.serving.checkpoint import ModelFiles

CONFIGS = ROOT / "tests/data/model_configs"
SHIPPED = ROOT / "launch/reference/model"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the model that is shipped, in a folder of the user's."""
    return Path(shutil.copytree(SHIPPED, tmp_path / "mine"))


def described(tmp_path: Path, name: str) -> Path:
    """A folder with the config.json of a large model, and a chat template; no weights."""
    made = tmp_path / name
    made.mkdir()
    shutil.copy(CONFIGS / f"{name}.json", made / "config.json")
    (made / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    return made


def test_the_model_that_is_shipped() -> None:
    found = resolve_model("reference")
    assert (found.name, found.place) == ("reference", str(SHIPPED))
    assert found.digest == found.revision == (SHIPPED / "digest.txt").read_text().strip()
    assert (found.layers, found.width, found.vocabulary, found.dtype) == (5, 128, 2560, "float32")
    assert found.cache_numbers == 5 * 2 * 4 * 32
    assert 4 * found.parameters == pytest.approx((SHIPPED / "model.safetensors").stat().st_size, rel=0.01)


@pytest.mark.parametrize(
    ("name", "total", "active", "cache"),
    [
        # Totals and active parameters as published (DBRX: 132 and 36 billion; Mixtral: 46.7 and 12.9).
        ("llama-3-70b", 70.6e9, 70.6e9, 80 * 2 * 8 * 128),
        ("dbrx", 131.6e9, 36.5e9, 40 * 2 * 8 * 128),
        ("mixtral-8x7b", 46.7e9, 12.9e9, 32 * 2 * 8 * 128),
        ("qwen3-30b-a3b", 30.5e9, 3.3e9, 48 * 2 * 4 * 128),
        ("gemma-3-27b", 27.0e9, 27.0e9, 62 * 2 * 16 * 128),
    ],
)
def test_sizes_of_large_models_by_arithmetic(tmp_path, name: str, total: float, active: float, cache: int) -> None:
    found = resolve_model(str(described(tmp_path, name)))
    assert (found.parameters, found.active) == pytest.approx((total, active), rel=0.02)
    assert found.cache_numbers == cache


def test_a_folder_and_its_digest(folder: Path) -> None:
    found = resolve_model(str(folder))
    assert (found.place, found.revision, found.template) == (str(folder), None, None)
    assert found.digest == digest_of(folder) == resolve_model(str(folder)).digest
    weights = bytearray((folder / "model.safetensors").read_bytes())
    weights[-5] ^= 1
    (folder / "model.safetensors").write_bytes(weights)
    other = digest_of(folder)
    assert other != found.digest
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    assert digest_of(folder) != other


def test_a_large_file_counts_by_its_length_its_ends_and_samples(tmp_path: Path, monkeypatch) -> None:
    for name, value in (("WHOLE_BYTES", 100), ("STRIDE", 64), ("SAMPLE", 8)):
        monkeypatch.setattr(checkpoints, name, value)
    weights = bytearray(300)

    def digest(*at: int, size: int = 300) -> str:
        data = bytearray(weights[:size])
        for place in at:
            data[place] ^= 1
        (tmp_path / "model.safetensors").write_bytes(data)
        return digest_of(tmp_path)

    plain = digest()
    assert plain == digest() == digest(40)
    assert len({plain, digest(0), digest(64), digest(135), digest(299), digest(size=299)}) == 6


def test_a_preset_and_its_template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str | None]] = []
    copy = ModelFiles(described(tmp_path, "mixtral-8x7b"), "0" * 40)
    (copy.folder / "chat_template.jinja").unlink()
    monkeypatch.setattr(
        checkpoint, "fetch_model_files", lambda model, revision: asked.append((model, revision)) or copy
    )
    found = resolve_model("mixtral-8x7b")
    assert (found.name, found.revision, found.digest) == ("mixtral-8x7b", "0" * 40, "0" * 40)
    assert found.template == (ROOT / "launch/chat_templates/mixtral.jinja").read_text()
    assert resolve_model(found.place, "abc").template == found.template  # by its id the preset is known as well
    assert asked[1] == (found.place, "abc")
    with pytest.raises(ConfigError, match="no chat template"):
        resolve_model("some/model")


@pytest.mark.parametrize(
    ("fields", "renamed", "told"),
    [
        ({"quantization_config": {"quant_method": "awq\nbits"}}, {}, r"quantised \(awq\\nbits\).*original"),
        ({"architectures": ["WhisperForConditionalGeneration"]}, {}, "no causal language model"),
        ({"num_hidden_layers": 10**12}, {}, "1,000,000,000,000 layers; expected at most 9,999"),
        ({"vocab_size": None}, {}, "does not tell layers"),
        ({}, {"chat_template.jinja": "gone"}, "no chat template.*instruct"),
        ({}, {"config.json": "gone"}, "no config.json"),
        ({}, {"digest.txt": "adapter_config.json"}, r"an adapter \(LoRA.*whose model may be another one"),
        ({}, {"model.safetensors": "pytorch_model.bin"}, "pickles.*safetensors"),
    ],
)
def test_what_cannot_be_measured_is_told_in_one_line(
    folder: Path, fields: dict[str, Any], renamed: dict[str, str], told: str
) -> None:
    config = orjson.loads((folder / "config.json").read_bytes())
    (folder / "config.json").write_bytes(orjson.dumps({**config, **fields}))
    for old, new in renamed.items():
        (folder / old).rename(folder / new)
    with pytest.raises(ConfigError, match=told) as caught:
        resolve_model(str(folder))
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize("name", ["other.bin", "../model.safetensors"])
def test_an_index_names_no_pickle_and_nothing_elsewhere(folder: Path, name: str) -> None:
    (folder / "model.safetensors.index.json").write_bytes(orjson.dumps({"weight_map": {"a": name}}))
    with pytest.raises(
        ConfigError, match=rf"index\.json names '{re.escape(name)}'; expected files \*\.safetensors beside"
    ):
        resolve_model(str(folder))


@pytest.mark.parametrize(
    ("name", "revision", "told"),
    [
        ("refrence", None, "reference"),
        ("./nowhere", None, "no such folder"),
        ("mine", None, r"write \./mine"),
        ("./mine", "main", "no revisions"),
    ],
)
def test_names_that_stand_for_nothing(folder: Path, name: str, revision: str | None, told: str, monkeypatch) -> None:
    monkeypatch.chdir(folder.parent)
    with pytest.raises(ConfigError, match=told):
        resolve_model(name, revision)
