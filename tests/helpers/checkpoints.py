"""Tiny random checkpoints of the presets' architectures, with the tokens and the chat format that each preset relies on.

>>> build(family_of("dbrx"), folder)                                    # doctest: +SKIP
PosixPath('.../dbrx')

A family is what presets share: an architecture, special tokens, a chat template. Templates under
``tests/data/chat_templates/`` are written for these tests after the formats' descriptions; they stand in for those of
the repositories, which presets with a template of their own do not need.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import ROOT

TEMPLATES = ROOT / "tests/data/chat_templates"
VOCABULARY = 1536
CONTEXT = 4096
SEED = 20260222


@dataclass(frozen=True)
class Family:
    """Presets that differ in nothing but size.

    config: the name of its class in transformers and its settings. special: the tokens of its format. plain: more that
    are kept whole, but stay in the text when special tokens are left out of it. template: None where the preset names
    its own.
    """

    name: str
    presets: tuple[str, ...]
    config: tuple[str, dict[str, Any]]
    special: tuple[str, ...]
    bos: str | None
    eos: str
    template: str | None = None
    plain: tuple[str, ...] = ()


def settings(**more: Any) -> dict[str, Any]:
    """The settings that most configurations share. The initial weights are spread widely, so that logits differ clearly."""
    return {
        "vocab_size": VOCABULARY, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": CONTEXT,
        "tie_word_embeddings": False, "initializer_range": 0.15,
    } | more  # fmt: skip


def _like(name: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return name, settings(**more)


_DBRX = (
    "DbrxConfig",
    {
        # vLLM reads attn_config.rope_theta; transformers 5 reads rope_parameters alone and would fall back to 10000.
        "d_model": 128,
        "n_heads": 4,
        "n_layers": 4,
        "max_seq_len": CONTEXT,
        "vocab_size": VOCABULARY,
        "attn_config": {"clip_qkv": 8, "kv_n_heads": 2, "rope_theta": 500000.0},
        "ffn_config": {"ffn_hidden_size": 64, "moe_num_experts": 8, "moe_top_k": 4, "moe_normalize_expert_weights": 1.0},
        "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
        "initializer_range": 0.15,
    },
)  # fmt: skip

_LLAMA31_ROPE = {
    "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 2048,
}  # fmt: skip
_SENTENCEPIECE = ("<unk>", "<s>", "</s>")
_LLAMA3 = ("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
_CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "norm_topk_prob": True}
_THINK = ("<think>", "</think>")

FAMILIES = (
    Family("llama2", ("llama2-70b",), _like("LlamaConfig"), _SENTENCEPIECE, "<s>", "</s>", "llama2"),
    Family("vicuna", ("vicuna-33b",), _like("LlamaConfig"), _SENTENCEPIECE, "<s>", "</s>"),
    Family("llama3", ("llama3-70b",), _like("LlamaConfig"), _LLAMA3, _LLAMA3[0], "<|end_of_text|>", "llama3"),
    Family(
        "llama3.1", ("llama3.1-8b", "llama3.1-70b", "llama3.1-405b", "llama3.3-70b"),
        _like("LlamaConfig", rope_parameters=_LLAMA31_ROPE), _LLAMA3, _LLAMA3[0], "<|end_of_text|>", "llama3",
    ),
    Family(
        "deepseek-r1-llama", ("deepseek-r1-70b",), _like("LlamaConfig", rope_parameters=_LLAMA31_ROPE),
        ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"), "<｜begin▁of▁sentence｜>",
        "<｜end▁of▁sentence｜>", "deepseek_r1", _THINK,
    ),
    Family(
        "yi", ("yi-34b",), _like("LlamaConfig", rope_parameters={"rope_type": "default", "rope_theta": 5000000.0}),
        ("<|startoftext|>", *_CHATML), "<|startoftext|>", "<|endoftext|>", "chatml",
    ),
    Family(
        "mixtral", ("mixtral-8x7b",),
        _like("MixtralConfig", num_local_experts=8, num_experts_per_tok=2, sliding_window=None), _SENTENCEPIECE,
        "<s>", "</s>",
    ),
    Family("dbrx", ("dbrx",), _DBRX, _CHATML, None, "<|endoftext|>", "dbrx"),
    Family("qwen2", ("qwen2.5-72b",), _like("Qwen2Config"), _CHATML, None, "<|im_end|>", "chatml"),
    Family(
        "qwen3", ("qwen3-8b", "qwen3-32b"), _like("Qwen3Config", head_dim=32), _CHATML, None, "<|im_end|>", "qwen3",
        _THINK,
    ),
    Family(
        "qwen3-moe", ("qwen3-30b-a3b", "qwen3-235b-a22b"),
        _like("Qwen3MoeConfig", head_dim=32, decoder_sparse_step=1, mlp_only_layers=[], **_EXPERTS), _CHATML, None,
        "<|im_end|>", "qwen3", _THINK,
    ),
    Family(
        "gemma2", ("gemma2-27b",),
        _like("Gemma2Config", head_dim=32, query_pre_attn_scalar=32, sliding_window=1024, tie_word_embeddings=True),
        ("<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>"), "<bos>", "<eos>",
    ),
    Family(
        "mistral-v3", ("mistral-7b",), _like("MistralConfig", head_dim=32, sliding_window=None),
        (*_SENTENCEPIECE, "[INST]", "[/INST]"), "<s>", "</s>", "mistral_v3",
    ),
    Family(
        "reference", ("reference", "smollm2-360m", "smollm2-1.7b", "smollm2"), _like("LlamaConfig"), _CHATML, None,
        "<|im_end|>", "chatml",
    ),
)  # fmt: skip


def family_of(preset: str) -> Family:
    """The family that a preset belongs to; fails unless there is exactly one."""
    (found,) = (family for family in FAMILIES if preset in family.presets)
    return found


def template_of(family: Family) -> str | None:
    """The text of the chat template that stands in for the one in the model's repository."""
    return (TEMPLATES / f"{family.template}.jinja").read_text("utf-8") if family.template else None


def tokenizer(family: Family, template: str | None = None) -> Any:
    """Train a byte-level BPE tokenizer on a few sentences, and give it the family's special tokens."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(family.plain),
        special_tokens=list(family.special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator((ROOT / "tests/data/checkpoint_corpus.txt").read_text("utf-8").splitlines(), trainer)
    bpe.add_tokens([AddedToken(token, normalized=False) for token in family.plain])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token=family.eos, pad_token=family.eos, bos_token=family.bos
    )
    fast.chat_template = template
    return fast


def build(family: Family, folder: Path, seed: int = SEED) -> Path:
    """Write a random checkpoint (weights, tokenizer, template) of a family into `folder`, and return the folder."""
    fast = tokenizer(family, template_of(family))
    fast.save_pretrained(folder)
    ids = {token: fast.convert_tokens_to_ids(token) for token in family.special}
    build_model(family, folder, ids, seed)
    return folder


def build_model(family: Family, folder: Path, ids: dict[str, int], seed: int = SEED) -> Any:
    """Write only the weights and the configuration, for special tokens of these numbers, and return the model."""
    import torch
    import transformers

    name, fields = family.config
    ends = {"bos_token_id": ids.get(family.bos or ""), "eos_token_id": ids[family.eos], "pad_token_id": ids[family.eos]}
    torch.manual_seed(seed)
    config = getattr(transformers, name)(**fields, **ends)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.save_pretrained(folder)
    return model
