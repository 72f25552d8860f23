"""How many GPUs a model takes: the arithmetic, what it reads from disk, and the GPUs that users name."""

from pathlib import Path

import orjson
import pytest

from tomserve.errors import ConfigError, MachineError
from tomserve.serving import sizing
from tomserve.serving.hardware import Gpu, parse_gpus
from tomserve.serving.presets import Preset, Shape
from tomserve.serving.sizing import IN_FLIGHT, choose, describe, divides, shape_of, snapshot

A100 = parse_gpus("8xA100-80GB")


def test_the_sum_is_what_it_says() -> None:
    layout = choose(Preset.load("llama3-70b"), A100)
    assert (layout.tensor, layout.pipeline) == (4, 1)
    assert layout.weights_gb == pytest.approx(141 / 4)
    assert layout.token_kb == pytest.approx(2 * 80 * 8 * 128 * 2 / 1e3)
    left = 81920 * 2**20 / 1e9 * 0.92 - 141 / 4 - 5
    assert layout.cache_gb == pytest.approx(left)
    assert layout.questions == pytest.approx(4 * left * 1e9 / (2 * 80 * 8 * 128 * 2 * 2048))


def test_kv_heads_are_repeated_on_more_gpus_than_there_are() -> None:
    layout = choose(Preset.load("qwen3-235b-a22b"), A100, 0)
    assert layout.model.shape is not None
    assert (layout.tensor, layout.model.shape.kv_heads) == (8, 4)
    assert layout.questions == pytest.approx(4 * layout.cache_gb * 1e6 / (layout.token_kb * layout.tokens_each))


@pytest.mark.parametrize("number", [1, 2, 4, 8])
@pytest.mark.parametrize("name", ["llama3-70b", "vicuna-33b", "qwen3-235b-a22b", "qwen3-8b", "mixtral-8x7b"])
def test_what_is_chosen_fits_and_nothing_smaller_does(name: str, number: int) -> None:
    preset = Preset.load(name)
    try:
        layout = choose(preset, A100[:number])
    except MachineError:
        assert preset.weights_gb / number > A100[0].memory_gb * 0.92 - 2 * sizing.SPARE_GB
        return
    assert layout.gpus <= number
    assert layout.weights_gb + sizing.SPARE_GB < A100[0].memory_gb * 0.92
    assert preset.shape is not None
    assert preset.shape.heads % layout.tensor == 0
    for fewer in range(1, layout.gpus):
        try:
            other = choose(preset, A100[:fewer])
            assert not other.comfortable or other.pipeline > 1  # which is slower, so only a last resort
        except MachineError:
            continue


def test_few_gpus_serve_slowly_rather_than_not_at_all() -> None:
    layout = choose(Preset.load("qwen3-30b-a3b"), A100[:1])
    assert layout.gpus == 1
    assert not layout.comfortable
    assert 0 < layout.questions < IN_FLIGHT
    assert choose(Preset.load("qwen3-30b-a3b"), A100).gpus == 2
    assert choose(Preset.load("qwen3-30b-a3b"), A100[:1], thinking=0).comfortable  # thinking takes the memory


def test_heads_are_divided_and_pipelines_come_last() -> None:
    for heads, kv_heads, over in ((52, 52, [1, 2, 4]), (64, 4, [1, 2, 4, 8]), (48, 3, [1])):  # each kv head twice
        shape = Shape(layers=1, heads=heads, kv_heads=kv_heads, head_dim=128)
        assert [n for n in (1, 2, 4, 8) if divides(shape, n)] == over
    six = {"shape": Shape(layers=60, heads=6, kv_heads=6, head_dim=64), "weights_gb": 200.0}
    layout = choose(Preset.load("vicuna-33b").model_copy(update=six), A100)
    assert (layout.tensor, layout.pipeline) == (2, 2)


def write_model(folder: Path, config: dict, gigabytes: float | None = None) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_bytes(orjson.dumps(config))
    if gigabytes is not None:
        index = {"metadata": {"total_size": int(gigabytes * 1e9)}, "weight_map": {}}
        (folder / "model.safetensors.index.json").write_bytes(orjson.dumps(index))
    return folder


LLAMA = {"num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "hidden_size": 8192}


@pytest.mark.parametrize(
    ("config", "shape"),
    [
        (LLAMA, (80, 64, 8, 128)),
        ({**LLAMA, "head_dim": 64}, (80, 64, 8, 64)),
        ({"text_config": LLAMA}, (80, 64, 8, 128)),
        ({"n_layers": 40, "n_heads": 48, "d_model": 6144, "attn_config": {"kv_n_heads": 8}}, (40, 48, 8, 128)),
        ({"num_hidden_layers": 60, "num_attention_heads": 52, "hidden_size": 6656}, (60, 52, 52, 128)),
    ],
)
def test_shapes_of_real_config_files(config: dict, shape: tuple[int, ...]) -> None:
    found = shape_of(config)
    assert found is not None
    assert (found.layers, found.heads, found.kv_heads, found.head_dim) == shape


@pytest.mark.parametrize("config", [{}, {"num_hidden_layers": "x"}, {**LLAMA, "hidden_size": None}])
def test_a_config_that_does_not_tell(config: dict) -> None:
    assert shape_of(config) is None


def test_what_is_on_disk_counts_more_than_the_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    preset = Preset.load("llama2-70b")
    assert snapshot(preset.model, None) is None
    assert describe(preset).source == "the preset's figure"
    cache = tmp_path / "hub/models--meta-llama--Llama-2-70b-chat-hf"
    folder = write_model(cache / "snapshots/0ff1ce", {**LLAMA, "num_hidden_layers": 40}, 70.5)
    (cache / "refs").mkdir()
    (cache / "refs/main").write_text("0ff1ce")
    assert snapshot(preset.model, None) == folder
    found = describe(preset)
    assert (found.weights_gb, found.commit, found.source) == (70.5, "0ff1ce", "the size of its files")
    assert found.shape is not None
    assert found.shape.layers == 40
    assert choose(preset, A100).gpus == 2
    assert snapshot(preset.model, "0ff1ce") == folder
    assert snapshot(preset.model, "other") is None


def test_a_folder_as_model(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "weights", LLAMA)
    (folder / "model.safetensors").write_bytes(b"x" * 4096)
    assert describe(Preset.load("llama2-70b"), str(folder)).weights_gb == pytest.approx(4e-6)
    for odd in ({"text_config": "x"}, {**LLAMA, "attn_config": ["x"]}, {**LLAMA, "num_attention_heads": 99999}):
        (folder / "config.json").write_bytes(orjson.dumps(odd))
        choose(Preset.load("llama2-70b").model_copy(update={"model": str(folder)}), A100)
    (folder / "config.json").write_text("{broken")
    assert describe(Preset.load("llama2-70b"), str(folder)).weights_gb == 138


@pytest.mark.parametrize(
    ("text", "count", "name"),
    [
        ("8xA100-80GB", 8, "A100-80GB"),
        ("H200", 1, "H200"),
        ("2 x NVIDIA L40S", 2, "L40S"),
        ("4xH100", 4, "H100"),
        ("2xH100-94GB", 2, "H100-94GB"),
        ("16X48GB", 16, "48GB"),
        ("8×H100 SXM5", 8, "H100"),
        ("8xA100-SXM4-80GB", 8, "A100-80GB"),
    ],
)
def test_gpus_as_users_write_them(text: str, count: int, name: str) -> None:
    found = parse_gpus(text)
    assert (len(found), found[0].name) == (count, name)
    assert found[0].memory_gb > 20


def test_an_unknown_gpu_of_known_memory() -> None:
    (gpu,) = parse_gpus("XYZ-48GB")
    assert gpu.memory_gb == pytest.approx(48 * 1.073741824 * 0.97)
    assert gpu.compute is None
    assert gpu.bfloat16
    assert not gpu.batch_invariant
    assert parse_gpus("H100-94GB")[0].batch_invariant


@pytest.mark.parametrize(
    "text",
    [
        *("", "8x", "A100", "0xH100", "8xH1OO", "x", "3;rm", "99999xH100", "2xA100-80GB+H100"),
        *("0x8xH100", "2x0xH100", "2x2x2xH100", "2x8x", "1000x8xH100"),
    ],
)
def test_gpus_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--gpus .*(COUNTxNAME-MEMORY|how much memory)"):
        parse_gpus(text)


def test_the_smallest_gpu_decides() -> None:
    mixed = [Gpu("big", 200.0), Gpu("small", 25.0)]
    assert choose(Preset.load("llama3.1-8b"), mixed).gpu.name == "small"
