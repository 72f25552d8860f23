"""Build the reference checkpoint: a tiny seeded Llama with a byte-level BPE, for running everything without a GPU.

    python launch/reference/build.py OUT

It is a real checkpoint (safetensors, tokenizer, chat template) that any Llama-capable server loads, and it needs no
hub. Its weights are random: its answers say nothing about Theory of Mind, they only show that the machinery works.
Needs torch, transformers and tokenizers, which come with vLLM.
"""

from __future__ import annotations

import sys
from pathlib import Path

SEED = 20260222
VOCABULARY = 1536
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def build(out: Path) -> int:
    """Write the checkpoint into the folder `out`; returns its number of parameters."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    corpus = (Path(__file__).parent / "corpus.txt").read_text("utf-8")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus.splitlines(), trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(out)

    torch.manual_seed(SEED)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=5,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        initializer_range=0.15,  # large enough that logits of a random model are not all equal
        bos_token_id=None,
        eos_token_id=fast.convert_tokens_to_ids("<|im_end|>"),
        pad_token_id=fast.convert_tokens_to_ids("<|endoftext|>"),
    )
    model = LlamaForCausalLM(config).float()
    model.save_pretrained(out, safe_serialization=True)
    return sum(parameter.numel() for parameter in model.parameters())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python launch/reference/build.py OUT")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{folder}: {build(folder):,} parameters")
