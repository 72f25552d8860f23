"""The number of parameters by config.json: against published figures."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.conftest import ROOT
from tomserve.serving.checkpoint import (
    count_parameters,
    is_recurrent,
    read_context,
    read_shape,
    stored_bytes,
    weight_names,
)
from tomserve.serving.presets import Preset
from tomserve.serving.sizing import choose_layout, parse_gpus

CONFIGS = ROOT / "tests/data/model_configs"
PUBLISHED = {  # billions of parameters, and decimal gigabytes of weights, by the publishers
    "llama-3-70b": (70.6, 141.1),
    "qwen3-8b": (8.19, 16.4),
    "qwen3-30b-a3b": (30.5, 61.1),
    "mixtral-8x7b": (46.7, 93.4),
    "gemma-2-27b": (27.2, 54.5),
    "gemma-3-27b": (27.0, 54.0),
    "dbrx": (131.6, 263.2),
    "gpt-oss-20b": (20.9, 13.8),
    "deepseek-v3": (671.0, 671.0),
}


def config_of(name: str) -> dict[str, Any]:
    return orjson.loads((CONFIGS / f"{name}.json").read_bytes())


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_sizes(name: str) -> None:
    config, (billions, gigabytes) = config_of(name), PUBLISHED[name]
    number = count_parameters(config)
    assert number is not None
    assert number / 1e9 == pytest.approx(billions, rel=0.005)
    assert stored_bytes(config, number, 2) / 1e9 == pytest.approx(gigabytes, rel=0.01)


@pytest.mark.parametrize(
    ("more", "recurs"),
    [
        ({"layer_types": ["linear_attention", "full_attention"]}, True),
        ({"mamba_d_state": 16}, True),
        ({"ssm_cfg": {"a": 1}}, True),
        ({"vocab_size": "x"}, False),
        ({"intermediate_size": None}, False),
        ({"is_encoder_decoder": True}, False),
    ],
)
def test_what_is_not_known_is_not_counted(more: dict[str, Any], recurs: bool) -> None:
    config = {**config_of("qwen3-8b"), **more}
    assert (is_recurrent(config), count_parameters(config)) == (recurs, None)
    assert not is_recurrent(config_of("gpt-oss-20b"))  # sliding windows are attention


def test_dense_layers_and_shared_experts() -> None:
    sparse = {
        **{"num_hidden_layers": 4, "num_attention_heads": 2, "hidden_size": 8, "intermediate_size": 16},
        **{"vocab_size": 10, "num_experts": 3, "moe_intermediate_size": 4},
    }
    attention, expert, dense = 4 * 8 * 8, 3 * 8 * 4, 3 * 8 * 16
    rest = 2 * 10 * 8 + 4 * attention
    assert count_parameters(sparse) == rest + 4 * 3 * (expert + 8)
    assert count_parameters({**sparse, "mlp_only_layers": [0]}) == rest + 3 * 3 * (expert + 8) + dense
    assert count_parameters({**sparse, "decoder_sparse_step": 2}) == rest + 2 * 3 * (expert + 8) + 2 * dense
    assert count_parameters({**sparse, "n_shared_experts": 2}) == rest + 4 * (3 * (expert + 8) + 2 * expert)


def test_quantized_weights_are_smaller() -> None:
    four = ({"quant_method": "awq", "bits": 4}, {"quant_method": "bitsandbytes", "load_in_4bit": True})
    for about, size in ((four[0], 4.25e9), (four[1], 4.25e9), ({"quant_method": "own"}, 16e9)):
        config = {**config_of("qwen3-8b"), "quantization_config": about}
        assert stored_bytes(config, 8_000_000_000, 2) == pytest.approx(size)


def test_latent_attention_keeps_one_vector_on_every_gpu(tmp_path: Path) -> None:
    shape = read_shape(config_of("deepseek-v3"))
    assert (shape.heads, shape.head_dim, shape.latent, shape.kept) == (128, 192, 576, 576)
    fields = {"schema": 1, "name": "v3", "model": "a/b", "weights_gb": 671, "shape": shape, "max_model_len": 8192}
    preset = Preset.model_validate(fields | {"batch_invariant": False})
    eight = choose_layout(preset, parse_gpus("8xH200"))
    assert eight.token_kb == pytest.approx(61 * 576 * 2 / 1e3)
    assert eight.questions == pytest.approx(eight.cache_gb * 1e9 / (61 * 576 * 2 * 2048))
    assert "576 numbers (latent attention)" in " ".join(eight.lines())


@pytest.mark.parametrize(
    ("config", "tokenizer", "tokens"),
    [
        ({"max_position_embeddings": 4096}, None, 4096),
        ({"max_position_embeddings": 4096}, {"model_max_length": 2048}, 2048),
        ({"max_position_embeddings": 4096}, {"model_max_length": 1e30}, 4096),
        ({"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": 4.0}}, None, 16384),
        ({"max_position_embeddings": 4096, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, None, 4096),
        ({"max_position_embeddings": 4096, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, None, 4096),
        ({"max_seq_len": 512, "rope_scaling": {"factor": "x"}}, None, 512),
        ({"max_position_embeddings": "x"}, None, None),
    ],
)
def test_context(config: dict[str, Any], tokenizer: dict[str, Any] | None, tokens: int | None) -> None:
    found = read_context(config, tokenizer)
    assert (found and found[0]) == tokens
    assert read_context(config_of("gemma-3-27b")) == (131072, "config.json: max_position_embeddings")


def test_weights_in_two_formats_count_once() -> None:
    both = ["consolidated.safetensors", "model-1.safetensors", "pytorch_model-1.bin", "original/model.safetensors"]
    assert weight_names(iter(both)) == ["model-1.safetensors"]
    assert weight_names(iter(both[:1])) == ["consolidated.safetensors"]
    assert weight_names(iter(both[2:3])) == ["pytorch_model-1.bin"]
    assert weight_names(iter(["training_args.bin", "config.json"])) == []
