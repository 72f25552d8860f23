"""Counts the parameters of a language model by its config.json, for models whose weights are not at hand.

Counted are embeddings, attention, feed-forward layers, experts and their routers. Left out are norms, biases and other
vectors (below 0.1 % together), and the vision part of a model that has one. The arithmetic is that of the published
architectures: Llama (Touvron et al. 2023, section 2), mixtures of experts (Mixtral, Jiang et al. 2024, section 2; DBRX;
gpt-oss), and multi-head latent attention with shared experts (DeepSeek-V3, DeepSeek-AI 2024, section 2.1).

>>> count({"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64, "intermediate_size": 256,
...        "vocab_size": 1000})
259072
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tomserve.serving.checkpoint import Json, section, shape_of, text_part, whole
from tomserve.serving.presets import Shape

_TIED = ("gemma", "cohere", "falcon", "opt", "bloom", "gpt2", "gpt_bigcode", "starcoder2")
"""Beginnings of `model_type` whose input and output embeddings are one table unless config.json says otherwise."""
_TWO_MATRICES = (
    *("gpt2", "gpt_neox", "gptj", "gpt_bigcode", "opt", "falcon", "starcoder2", "phi", "bloom", "mpt", "nemotron"),
    "arcee",
)
"""Values of `model_type` whose feed-forward layers have two matrices; those of all others have a gate as the third."""
_FULL = {"full_attention", "sliding_attention", "chunked_attention", "attention"}
"""Values of `layer_types` that are attention over keys and values."""
_RECURRENT = ("mamba", "ssm_", "linear_num_", "lru_", "rwkv", "hybrid_override")
"""Beginnings of the fields that only models with recurrent layers have."""


_MOST_LAYERS = 10_000
"""More layers than any model has; a file that states more is broken, and would keep the loop over layers busy."""


def recurrent(config: Json) -> bool:
    """Whether some layers are recurrent (Mamba, linear attention) instead of attention over keys and values."""
    text = text_part(config)
    kinds = text.get("layer_types")
    if isinstance(kinds, list) and not _FULL.issuperset(map(str, kinds)):
        return True
    return any(name.startswith(_RECURRENT) and value for name, value in text.items())


def count(config: Json) -> int | None:
    """The number of parameters of the language model, or None where config.json does not tell enough.

    config: the parsed config.json of a model in Hugging Face's format; where it has a `text_config`, that part counts.
    Recurrent layers and encoders are not counted: for models that have them the result is None.
    """
    text = text_part(config)
    shape, width = shape_of(text), whole(text, "hidden_size", "d_model", "n_embd")
    vocabulary = whole(text, "vocab_size")
    if shape is None or width is None or vocabulary is None or recurrent(text) or text.get("is_encoder_decoder"):
        return None
    if shape.layers > _MOST_LAYERS:
        return None
    kind = str(text.get("model_type", ""))
    layers = [_attention(text, shape, width) + one for one in _feed_forward(text, shape.layers, width, kind)]
    if len(layers) != shape.layers:
        return None
    tied = text.get("tie_word_embeddings", config.get("tie_word_embeddings"))
    tables = 1 if (kind.startswith(_TIED) if tied is None else tied) else 2
    return tables * vocabulary * width + sum(layers)


def in_words(parameters: int) -> str:
    """A number of parameters as people say it.

    >>> in_words(8_190_000_000)
    '8.19 billion'
    """
    return f"{parameters / 1e9:.3g} billion" if parameters >= 1e9 else f"{parameters / 1e6:.3g} million"


def _attention(text: Json, shape: Shape, width: int) -> int:
    """The parameters of one layer's attention."""
    compressed, value = whole(text, "kv_lora_rank"), whole(text, "v_head_dim")
    rope, nope = whole(text, "qk_rope_head_dim"), whole(text, "qk_nope_head_dim")
    if compressed and value and rope and nope:
        queries = shape.heads * (nope + rope)
        rank = whole(text, "q_lora_rank")
        return (
            (width * rank + rank * queries if rank else width * queries)
            + width * (compressed + rope)
            + compressed * shape.heads * (nope + value)
            + shape.heads * value * width
        )
    return 2 * width * shape.head_dim * (shape.heads + shape.kv_heads)


def _feed_forward(text: Json, layers: int, width: int, kind: str) -> Iterator[int]:
    """The parameters of each layer's feed-forward part, experts and router included; nothing where it is not told."""
    matrices = 2 if kind in _TWO_MATRICES else 3
    own = section(text, "ffn_config")
    inner = whole(text, "intermediate_size", "ffn_dim", "n_inner") or (4 * width if matrices == 2 else None)
    experts = whole(text, "num_local_experts", "num_experts", "n_routed_experts") or whole(own, "moe_num_experts")
    if experts is None:
        if inner is not None:
            yield from [matrices * width * inner] * layers
        return
    each = whole(text, "moe_intermediate_size") or whole(own, "ffn_hidden_size") or inner
    if each is None:
        return
    shared = (whole(text, "n_shared_experts", "num_shared_experts") or 0) * each
    shared = whole(text, "shared_expert_intermediate_size") or shared
    for layer in range(layers):
        if _dense(text, layer):
            yield matrices * width * (inner or each)
        else:
            yield experts * (matrices * width * each + width) + matrices * width * shared


def _dense(text: Json, layer: int) -> bool:
    """Whether that layer (from 0) of a mixture of experts has a single feed-forward part instead of experts."""
    if layer < (whole(text, "first_k_dense_replace") or 0):
        return True
    only: Any = text.get("mlp_only_layers")
    if isinstance(only, list) and layer in only:
        return True
    step = whole(text, "decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_freq") or 1
    return (layer + 1) % step != 0


def stored_bytes(config: Json, parameters: int, each: float) -> float:
    """Bytes that so many parameters take as they are stored; an estimate where the weights are quantized.

    each: bytes of a number that is not quantized. Quantized weights carry scales: 1/16 more is reckoned for them. Of a
    mixture of experts in mxfp4 (Rouhani et al. 2023: 4 bits and 8 more for every 32 numbers) only the experts are
    quantized.
    """
    method = section(config, "quantization_config") or section(text_part(config), "quantization_config")
    name, bits = str(method.get("quant_method", "")), whole(method, "bits", "w_bit")
    if name == "mxfp4":
        text = text_part(config)
        experts = {"num_local_experts", "num_experts", "n_routed_experts"}
        rest = count({**{key: value for key, value in text.items() if key not in experts}, "intermediate_size": 1})
        return (parameters - (rest or 0)) * (4 + 8 / 32) / 8 + (rest or 0) * each
    if name == "fp8":
        return float(parameters)
    if name == "bitsandbytes":
        bits = 4 if method.get("load_in_4bit") else 8
    return parameters * bits / 8 * (1 + 1 / 16) if bits and name else parameters * each
