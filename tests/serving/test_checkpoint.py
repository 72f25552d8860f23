"""What a model's files tell: chat template, thinking, ends of a reply, context, and numbers of parameters as published.
The plugin that lets vLLM load DBRX: repairs names only where vLLM's own loader misses them, never in anybody's way."""

import re
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.conftest import ROOT
from tomserve.serving import dbrx, install
from tomserve.serving.checkpoint import (
    PARSERS,
    count_parameters,
    is_recurrent,
    read_chat_format,
    read_context,
    read_shape,
    stored_bytes,
    weight_names,
)
from tomserve.serving.presets import Preset
from tomserve.serving.sizing import choose_layout, parse_gpus

CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
ASKS = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
DEEPSEEK = "{% if thinking %}<think>{% else %}</think>{% endif %}"
SWITCH = "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}"


def folder_of(folder: Path, template: str | None, kind: str = "llama", **files: Any) -> Path:
    """A folder with a chat template, a config.json of that `model_type`, and further JSON files."""
    if template is not None:
        (folder / "chat_template.jinja").write_text(template)
    for name, value in {"config": {"model_type": kind}, **files}.items():
        (folder / f"{name}.json").write_bytes(orjson.dumps(value))
    return folder


@pytest.mark.parametrize(
    ("template", "knows"),
    [
        ("{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}{{ messages }}", False),
        ("{{ messages[-1].content }}", False),
        (CHATML + ASKS, True),
        ("{% generation %}{% endgeneration %}{% for m in messages %}{{ bos_token + m.content }}{% endfor %}", True),
        ("{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m.content }}{% endfor %}", False),
        ("{{ strftime_now('%d %b %Y') }}{% for m in messages %}{{ m['content'] }}{% endfor %}", True),
    ],
)
def test_the_system_role_is_found_by_rendering(template: str, knows: bool, tmp_path: Path) -> None:
    chat = read_chat_format(folder_of(tmp_path, template))
    assert (chat.template, chat.system_role, chat.remarks) == ("chat_template.jinja", knows, ())
    assert (chat.reasoning, chat.request, chat.stop) == (None, None, ())


@pytest.mark.parametrize(
    ("kind", "template", "parser", "enforced", "switch"),
    [
        ("qwen3", CHATML + ASKS + SWITCH, "qwen3", True, "enable_thinking"),
        ("unheard_of", CHATML + ASKS + SWITCH, "qwen3", True, "enable_thinking"),
        ("glm4_moe", CHATML + ASKS + SWITCH, "glm45", False, "enable_thinking"),
        ("deepseek_v3", CHATML + DEEPSEEK, "deepseek_v3", None, "thinking"),
        ("llama", CHATML + ASKS + "<think>\n", "deepseek_r1", True, None),  # a thought that the template opens
        ("gpt_oss", None, "openai_gptoss", False, None),  # with or without a template
    ],
)
def test_thinking(
    kind: str, template: str | None, parser: str, enforced: bool | None, switch: str | None, tmp_path: Path
) -> None:
    reasoning = read_chat_format(folder_of(tmp_path, template, kind)).reasoning
    assert reasoning.parser == parser
    assert enforced in (None, reasoning.enforced)
    if switch is not None:
        assert reasoning.enable == {"chat_template_kwargs": {switch: True}}
        assert reasoning.disable == {"chat_template_kwargs": {switch: False}}
    elif kind != "gpt_oss":
        assert reasoning.disable is None


@pytest.mark.parametrize(
    "template",
    [
        CHATML + ASKS + "{% set x = 'a</think>b'.split('</think>') %}",
        "{% set enable_thinking = 1 %}" + CHATML + "{{ enable_thinking }}</think>",
    ],
)
def test_a_template_without_a_switch_is_not_taken_for_thinking(template: str, tmp_path: Path) -> None:
    """A parser of thoughts would take every answer of a model that does not think for a thought."""
    chat = read_chat_format(folder_of(tmp_path, template))
    assert chat.reasoning is None
    assert "neither opens a thought nor has a switch" in chat.remarks[0]


def test_where_templates_stand(tmp_path: Path) -> None:
    several = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": CHATML}]
    folder_of(tmp_path, None, tokenizer_config={"chat_template": several})
    assert read_chat_format(tmp_path).template == "tokenizer_config.json: chat_template"
    folder_of(tmp_path, None, tokenizer_config={"chat_template": [{"name": "tool_use", "template": "t"}]})
    assert read_chat_format(tmp_path).template is None
    folder_of(tmp_path, None, chat_template={"chat_template": CHATML})
    assert read_chat_format(tmp_path).template == "chat_template.json: chat_template"


LLAMA3 = {
    "eos_token": "<|end_of_text|>",
    "added_tokens_decoder": {"1": {"content": "<|end_of_text|>"}, "9": {"content": "<|eot_id|>"}},
}


NAMED = [{"id": 9, "content": "<|eot_id|>"}, {"id": 1, "content": "<|end_of_text|>"}]


@pytest.mark.parametrize(
    ("ends", "files", "stop", "request_fields"),
    [
        ([1, 9], {"tokenizer_config": LLAMA3}, ("<|eot_id|>",), None),
        (1, {"tokenizer_config": LLAMA3}, (), None),
        (9, {"tokenizer_config": LLAMA3}, ("<|eot_id|>",), None),
        ([1, 9], {}, (), {"stop_token_ids": [1, 9]}),
        (9, {}, (), None),
        (["x", None, -1], {}, (), None),
        ([1, 9], {"tokenizer_config": {"eos_token": NAMED[1]}, "tokenizer": {"added_tokens": NAMED}}, ("<|eot_id|>",), None),
    ],
)  # fmt: skip
def test_what_ends_a_reply(
    ends: Any, files: dict[str, Any], stop: tuple[str, ...], request_fields: dict[str, Any] | None, tmp_path: Path
) -> None:
    chat = read_chat_format(folder_of(tmp_path, CHATML, generation_config={"eos_token_id": ends}, **files))
    assert (chat.stop, chat.request) == (stop, request_fields)


@pytest.mark.skipif(install.installed_engine() is None, reason="vLLM is not installed (`make test` installs it)")
def test_vllm_has_the_parsers() -> None:
    import importlib.util

    vllm = importlib.util.find_spec("vllm")
    assert vllm.origin is not None
    listed = (Path(vllm.origin).parent / "reasoning/__init__.py").read_text("utf-8")
    names = set(re.findall(r'^    "(\w+)": \(', listed, re.M))
    assert {*PARSERS.values(), "deepseek_r1", "openai_gptoss"} <= names
    assert install.supports_architecture("LlamaForCausalLM")
    assert install.supports_architecture("NobodysForCausalLM") is False


CONFIGS = ROOT / "tests/data/model_configs"
PUBLISHED = {  # billions of parameters, and decimal gigabytes of weights, by the publishers
    "qwen3-8b": (8.19, 16.4),
    "qwen3-30b-a3b": (30.5, 61.1),
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
        ({"vocab_size": "x"}, False),
        ({"intermediate_size": None}, False),
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
    assert (shape.heads, shape.head_dim, shape.latent, shape.numbers_per_token) == (128, 192, 576, 576)
    fields = {"schema": 1, "name": "v3", "model": "a/b", "weights_gb": 671, "shape": shape, "max_model_len": 8192}
    preset = Preset.model_validate(fields | {"batch_invariant": False})
    eight = choose_layout(preset, parse_gpus("8xH200"))
    assert eight.token_kb == pytest.approx(61 * 576 * 2 / 1e3)
    assert eight.questions == pytest.approx(eight.cache_gb * 1e9 / (61 * 576 * 2 * 2048))


@pytest.mark.parametrize(
    ("config", "tokenizer", "tokens"),
    [
        ({"max_position_embeddings": 4096}, None, 4096),
        ({"max_position_embeddings": 4096}, {"model_max_length": 2048}, 2048),
        ({"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": 4.0}}, None, 16384),
        ({"max_position_embeddings": 4096, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, None, 4096),
        ({"max_position_embeddings": 4096, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, None, 4096),
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


def test_the_plugin_is_declared() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["vllm.general_plugins"]
    point = EntryPoint("tomserve_dbrx", declared["tomserve_dbrx"], "vllm.general_plugins")
    assert point.load() is dbrx.register
