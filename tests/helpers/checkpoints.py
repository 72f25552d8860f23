"""Tiny random checkpoints of the presets' architectures, with the tokens and the chat format that each preset relies on.

>>> build(family_of("dbrx"), folder)                                    # doctest: +SKIP
PosixPath('.../dbrx')

A family is what presets share: an architecture, special tokens, a chat template. Templates under
``tests/data/chat_templates/`` are written for these tests after the formats' descriptions; they stand in for those of
the repositories, which presets with a template of their own do not need. Two tokenizers are not Hugging Face's: Mistral's
own files, and gpt-oss's harmony vocabulary; both come with packages that vLLM brings.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson

from tests.conftest import ROOT

TEMPLATES = ROOT / "tests/data/chat_templates"
VOCABULARY = 1536
CONTEXT = 4096
SEED = 20260222
TEKKEN_VOCABULARY = 4096
HARMONY_VOCABULARY = 201088


@dataclass(frozen=True)
class Family:
    """Presets that differ in nothing but size.

    config: the name of its class in transformers and its fields. special: the tokens of its format. plain: more that
    are kept whole, but stay in the text when special tokens are left out of it. template: None where the preset names
    its own. vocabulary: one of our own training, or of the only kind that vLLM takes for such a model.
    """

    name: str
    presets: tuple[str, ...]
    config: tuple[str, dict[str, Any]]
    special: tuple[str, ...]
    bos: str | None
    eos: str
    template: str | None = None
    plain: tuple[str, ...] = ()
    vocabulary: Literal["bpe", "tekken", "harmony"] = "bpe"


def _fields(**more: Any) -> dict[str, Any]:
    """The fields that most configurations share. The initial weights are spread widely, so that logits differ clearly."""
    return {
        "vocab_size": VOCABULARY, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": CONTEXT,
        "tie_word_embeddings": False, "initializer_range": 0.15,
    } | more  # fmt: skip


def _like(name: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return name, _fields(**more)


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
        "gpt-oss",
        ("gpt-oss-20b", "gpt-oss-120b"),
        _like(
            "GptOssConfig", vocab_size=HARMONY_VOCABULARY, hidden_size=64, head_dim=64, num_local_experts=8,
            num_experts_per_tok=4,
        ),
        ("<|return|>",),
        None,
        "<|return|>",
        vocabulary="harmony",
    ),
    Family(
        "mistral-v3", ("mistral-7b",), _like("MistralConfig", head_dim=32, sliding_window=None),
        (*_SENTENCEPIECE, "[INST]", "[/INST]"), "<s>", "</s>", "mistral_v3",
    ),
    Family(
        "mistral", ("mistral-small-24b",),
        _like("MistralConfig", vocab_size=TEKKEN_VOCABULARY, head_dim=32, sliding_window=None),
        ("<unk>", "<s>", "</s>"), "<s>", "</s>", vocabulary="tekken",
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
    import torch
    import transformers

    ids = {token: number for number, token in enumerate(family.special)}
    if family.vocabulary != "tekken":
        fast = harmony_tokenizer() if family.vocabulary == "harmony" else tokenizer(family, template_of(family))
        fast.save_pretrained(folder)
        ids = {token: fast.convert_tokens_to_ids(token) for token in family.special}
    name, fields = family.config
    ends = {"bos_token_id": ids.get(family.bos or ""), "eos_token_id": ids[family.eos], "pad_token_id": ids[family.eos]}
    torch.manual_seed(seed)
    config = getattr(transformers, name)(**fields, **ends)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.save_pretrained(folder)
    if family.vocabulary == "tekken":
        add_mistral_files(model, folder)
    return folder


TOLERANCE = 1e-3
"""Logits closer than this may change places between two implementations of the same float32 arithmetic."""


def reference_model(folder: Path) -> Any:
    """The checkpoint loaded by transformers in float32, with eager attention, the only one with Gemma's soft caps."""
    import torch
    import transformers

    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()


def disagreements(model: Any, prompt: Sequence[int], tokens: Sequence[int]) -> list[int]:
    """Where in `tokens`, a greedy continuation of `prompt`, `model` would clearly have taken another token.

    Asked with the tokens before each place, so that one tie does not hide all that follows. A tie: the token is one
    of the model's best two, which are closer than TOLERANCE.
    """
    import torch

    with torch.no_grad():
        logits = model(torch.tensor([[*prompt, *tokens]])).logits[0, len(prompt) - 1 : -1]
    (values, best) = logits.topk(2)
    tied = values[:, 0] - values[:, 1] < TOLERANCE
    return [
        place
        for place, token in enumerate(tokens)
        if token != best[place, 0] and not (tied[place] and token == best[place, 1])
    ]


_WEIGHTS = {
    **{"model.embed_tokens": "tok_embeddings", "model.norm": "norm", "lm_head": "output", "model.layers": "layers"},
    **{f"self_attn.{one}_proj": f"attention.w{one}" for one in "qkvo"},
    **{"mlp.gate_proj": "feed_forward.w1", "mlp.down_proj": "feed_forward.w2", "mlp.up_proj": "feed_forward.w3"},
    **{"input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm"},
}


def add_mistral_files(model: Any, folder: Path) -> None:
    """Write the files that vLLM reads in Mistral's own format: weights, params.json and tekken.json."""
    from safetensors.torch import save_file

    config = model.config
    heads = {"wq": config.num_attention_heads, "wk": config.num_key_value_heads}
    weights = {}
    for name, weight in model.state_dict().items():
        for theirs, ours in _WEIGHTS.items():
            name = name.replace(theirs, ours)
        if (count := heads.get(name.split(".")[-2])) is not None:
            # Mistral rotates neighbours, transformers halves: the rows of a head are interleaved.
            weight = weight.view(count, 2, -1, weight.shape[1]).transpose(1, 2).reshape(weight.shape)
        weights[name] = weight.contiguous()
    save_file(weights, folder / "consolidated.safetensors")
    params = {
        **{"dim": config.hidden_size, "n_layers": config.num_hidden_layers, "head_dim": config.head_dim},
        **{"hidden_dim": config.intermediate_size, "n_heads": config.num_attention_heads},
        **{"n_kv_heads": config.num_key_value_heads, "norm_eps": config.rms_norm_eps},
        **{"rope_theta": config.rope_parameters["rope_theta"], "vocab_size": config.vocab_size},
        **dict.fromkeys(("max_position_embeddings", "max_seq_len"), config.max_position_embeddings),
    }
    (folder / "params.json").write_bytes(orjson.dumps(params))
    (folder / "tekken.json").write_bytes(orjson.dumps(_tekken()))


def _tekken() -> dict[str, Any]:
    """The beginning of the vocabulary that mistral-common ships, in the version that Mistral Small uses."""
    import mistral_common

    found = orjson.loads((Path(mistral_common.__file__).parent / "data/tekken_240911.json").read_bytes())
    found.pop("image", None)
    special = found["config"]["default_num_special_tokens"]
    found["vocab"] = found["vocab"][: TEKKEN_VOCABULARY - special]
    found["config"] |= {"version": "v7", "default_vocab_size": TEKKEN_VOCABULARY}
    found["config"]["num_vocab_tokens"] = len(found["vocab"])
    return found


def mistral_tokens(encoder: Any, messages: list[dict[str, str]]) -> list[int]:
    """The token ids of the prompt, as a MistralTokenizer renders and tokenizes the messages."""
    from mistral_common.protocol.instruct.messages import AssistantMessage, SystemMessage, UserMessage
    from mistral_common.protocol.instruct.request import ChatCompletionRequest

    kinds = {"system": SystemMessage, "user": UserMessage, "assistant": AssistantMessage}
    talk = [kinds[message["role"]](content=message["content"]) for message in messages]
    return list(encoder.encode_chat_completion(ChatCompletionRequest(messages=talk)).tokens)


def harmony_tokenizer() -> Any:
    """A tokenizer with gpt-oss's tokens but no merges: vLLM uses it only to decode, since harmony encodes the prompts."""
    from openai_harmony import HarmonyEncodingName, load_harmony_encoding
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    harmony = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
    numbers = {token: harmony._inner.encode(token, [token])[0] for token in harmony.special_tokens_set}
    special = {number: token for token, number in numbers.items() if number < HARMONY_VOCABULARY}
    first = min(special)
    letters = _letters()
    vocabulary = {}
    for number in range(HARMONY_VOCABULARY):
        if number in special:
            vocabulary[special[number]] = number
        elif number < first:
            vocabulary["".join(letters[byte] for byte in harmony._inner.decode_bytes([number]))] = number
    bpe = Tokenizer(models.BPE(vocabulary, []))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.add_special_tokens([AddedToken(special[number], special=True, normalized=False) for number in sorted(special)])
    return PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<|return|>", pad_token="<|endoftext|>")


def harmony_bias(tokenizer: Any) -> dict[str, int]:
    """A logit bias by which a random model, which would stay in the first channel, ends its thinking at once, then
    writes what the schema wants. Whitespace is discouraged, since disable_any_whitespace does not reach a schema inside
    harmony (vLLM 0.32). So is the header "final json", which vLLM's grammar allows, but whose text its parser drops."""
    vocabulary = tokenizer.get_vocab()
    wanted = {"<|return|>": 100, "<|end|>": 90, "<|start|>": 80, "<|channel|>": 60, "<|message|>": 50}
    wanted |= {"<|constrain|>": 50, "Ġ": -30}
    blank = {text for text in vocabulary if text != "Ġ" and text and set(text) <= set("ĠĊĉč")}
    refused = {str(vocabulary[text]): -100 for text in (*blank, "Ġj", "Ġjs", "Ġjson") if text in vocabulary}
    return refused | {str(vocabulary[token]): bias for token, bias in wanted.items()}


def _letters() -> dict[int, str]:
    """The letter by which a byte-level BPE writes each byte: its own where it is printable, else one above 255."""
    seen = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in seen]
    return {byte: chr(byte) for byte in seen} | {byte: chr(256 + place) for place, byte in enumerate(rest)}
