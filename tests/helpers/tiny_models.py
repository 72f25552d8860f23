"""Tiny random causal language models of many architectures, made from configurations, for tests of what reads them."""

from typing import Any

VOCABULARY, WIDTH, LAYERS = 97, 32, 4
WINDOW = 9
"""Tokens that a layer with a sliding window looks back at: fewer than a test's prompt has."""


def _fields(**more: Any) -> dict[str, Any]:
    """The fields that most configurations share. The initial weights are spread widely, so that logits differ clearly."""
    sizes = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 48, "num_hidden_layers": LAYERS}
    sizes |= {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 256}
    return {**sizes, "initializer_range": 0.2, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, **more}


CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", _fields()),
    "qwen2": ("Qwen2Config", _fields()),
    "qwen3": ("Qwen3Config", _fields()),
    "mistral": ("MistralConfig", _fields(sliding_window=WINDOW)),
    # As many experts as layers, so that a list of experts is as long as that of the blocks.
    "mixtral": ("MixtralConfig", _fields(num_local_experts=LAYERS, num_experts_per_tok=2)),
    "dbrx": (
        "DbrxConfig",
        {"d_model": WIDTH, "n_heads": 4, "n_layers": LAYERS, "max_seq_len": 256, "vocab_size": VOCABULARY}
        | {"attn_config": {"clip_qkv": 8, "kv_n_heads": 2, "rope_theta": 10000.0}, "initializer_range": 0.2}
        | {"ffn_config": {"ffn_hidden_size": 24, "moe_num_experts": 4, "moe_top_k": 2}},
    ),
    "gemma3_text": ("Gemma3TextConfig", _fields(sliding_window=WINDOW, query_pre_attn_scalar=8)),
    "gemma2": ("Gemma2Config", _fields(sliding_window=64, query_pre_attn_scalar=8)),
    "gpt_neox": ("GPTNeoXConfig", _fields()),
    "gpt2": (
        "GPT2Config",
        {"vocab_size": VOCABULARY, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": 4, "n_positions": 256}
        | {"initializer_range": 0.2, "bos_token_id": 1, "eos_token_id": 2},
    ),
}


def tiny(name: str, dtype: str = "float32", seed: int = 0, device: str = "cpu", **changed: Any) -> Any:
    """A random model of that architecture, the same on every device; `changed` are fields of its configuration."""
    import torch
    import transformers

    kind, fields = CONFIGS[name]
    torch.manual_seed(seed)
    config = getattr(transformers, kind)(**{**fields, **changed})
    attention = "eager" if name == "gemma2" else None
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention)
    return model.to(device, getattr(torch, dtype)).eval()
