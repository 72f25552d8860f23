"""Tiny checkpoints with the two vocabularies that are not Hugging Face's: Mistral's own files, and gpt-oss's harmony.

Both vocabularies come with packages that vLLM brings; it takes such models with no other.
"""

from pathlib import Path
from typing import Any

import orjson

from tests.helpers import checkpoints
from tests.helpers.checkpoints import Family, settings

TEKKEN_VOCABULARY, HARMONY_VOCABULARY = 4096, 201088

GPT_OSS = Family(
    "gpt-oss", ("gpt-oss-20b", "gpt-oss-120b"),
    ("GptOssConfig", settings(vocab_size=HARMONY_VOCABULARY, hidden_size=64, head_dim=64, num_local_experts=8)),
    ("<|return|>",), None, "<|return|>",
)  # fmt: skip
MISTRAL = Family(
    "mistral", ("mistral-small-24b",),
    ("MistralConfig", settings(vocab_size=TEKKEN_VOCABULARY, head_dim=32, sliding_window=None)),
    ("<unk>", "<s>", "</s>"), "<s>", "</s>",
)  # fmt: skip
FAMILIES = (*checkpoints.FAMILIES, GPT_OSS, MISTRAL)


def family_of(preset: str) -> Family:
    """The family that a preset belongs to; fails unless there is exactly one."""
    (found,) = (family for family in FAMILIES if preset in family.presets)
    return found


def build(family: Family, folder: Path) -> Path:
    """Write a random checkpoint of any family into `folder`, with the vocabulary that it has, and return the folder."""
    if family is GPT_OSS:
        fast = harmony_tokenizer()
        fast.save_pretrained(folder)
        checkpoints.build_model(family, folder, {family.eos: fast.eos_token_id})
    elif family is MISTRAL:
        ids = {token: number for number, token in enumerate(family.special)}
        add_mistral_files(checkpoints.build_model(family, folder, ids), folder)
    else:
        checkpoints.build(family, folder)
    return folder


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
    vocab = found["vocab"][: TEKKEN_VOCABULARY - found["config"]["default_num_special_tokens"]]
    sizes = {"default_vocab_size": TEKKEN_VOCABULARY, "num_vocab_tokens": len(vocab)}
    return {"config": {**found["config"], **sizes, "version": "v7"}, "vocab": vocab}


def mistral_tokens(folder: Path, messages: list[dict[str, str]]) -> list[int]:
    """The token ids of the prompt, as Mistral's own library renders and tokenizes the messages."""
    from mistral_common.protocol.instruct.request import ChatCompletionRequest
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

    encoder = MistralTokenizer.from_file(str(folder / "tekken.json"))
    return list(encoder.encode_chat_completion(ChatCompletionRequest.from_openai(messages)).tokens)


def harmony_tokenizer() -> Any:
    """A tokenizer with gpt-oss's tokens but no merges: vLLM uses it only to decode, since harmony encodes the prompts."""
    from openai_harmony import HarmonyEncodingName, load_harmony_encoding
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    harmony = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)._inner
    numbers = {token: harmony.encode(token, [token])[0] for token in harmony.special_tokens()}
    special = {token: number for token, number in numbers.items() if number < HARMONY_VOCABULARY}
    letters = bytes_to_unicode()
    pieces = [harmony.decode_bytes([number]) for number in range(min(special.values()))]
    plain = {"".join(letters[byte] for byte in piece): number for number, piece in enumerate(pieces)}
    bpe = Tokenizer(models.BPE(plain | special, []))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
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
