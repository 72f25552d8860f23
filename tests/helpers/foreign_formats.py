"""Tiny checkpoints whose tokenizers are not Hugging Face's: Mistral's own files, and gpt-oss's harmony vocabulary.

Both vocabularies come with packages that vLLM brings (mistral-common, oss-harmony), so nothing is downloaded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

TEKKEN_VOCABULARY = 4096
HARMONY_VOCABULARY = 201088
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
