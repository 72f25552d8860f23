"""Tiny Llama checkpoints whose mechanism is known, because their weights were set by hand.

map      A perspective-taking map exists and carries the answer. What others believe is written into a space A, what
         "you" believe into a space B, by codes with b = M a for a non-symmetric M of gain 6. The last block adds M A to
         B, and the answer is read from B. So moving A as the map says changes the answer. Going the same distance
         towards the state of the twin told to "you" does not: that state lies far off, because it is LOUD about how
         "you" feel, which differs from story to story and has no part in the map.
shared   Whose belief it is makes no difference: both are written into B, and names say nothing. A patch, or W = I, does
         all that a map does.
deaf     The story makes no difference: of the labels that are offered, some are always preferred to others.

In all of them the first block's attention is uniform, so that the last token gets the sum over what all tokens say; the
blocks in the middle do nothing; only phrases such as "fills it with tea", which are one token, say anything about labels
(see tests.helpers.mechanism). Noticing weighs three times as much as what was put there, so that it decides.
"""

from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tests.helpers.mechanism import FAMILIES, FEELINGS, FILLERS, NAMES, PHRASES
from tomserve.items import UNKNOWN

Floats = NDArray[np.float64]
Kind = Literal["map", "shared", "deaf"]

LAYERS, WIDTH, CODE, CONTEXT = 4, 64, 8, 1024
CONST, PAD, LOUD, THEY = range(4)
A, B, OFFERED, REAL = (slice(4 + n * CODE, 4 + (n + 1) * CODE) for n in range(4))
NOISE = slice(4 + 4 * CODE, WIDTH)
"""Where what stands in the residual stream. CONST: the last token of every prompt alone; PAD: what makes all embeddings
equally long; OFFERED: what the deaf one does not hear; REAL: what is really so; NOISE: names, which say nothing."""

NORM, GAIN, NOTICED, TOKENS = 25.0, 6.0, 3.0, 220
"""The norm of every embedding, the gain of the map, the weight of noticing, and a usual number of tokens of a prompt."""

REPLY = '{"answer":"'
SPECIAL = ("<pad>", "<unk>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def build(kind: Kind, folder: Path, seed: int = 1, gain: float = GAIN) -> Path:
    """Write a subject (weights, tokenizer, chat template) into the folder, and return the folder. gain: of its map."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    made = tokenizer()
    made.save_pretrained(folder)
    vocabulary = made.get_vocab()
    sizes = {"vocab_size": len(vocabulary), "hidden_size": WIDTH, "intermediate_size": 2 * CODE}
    sizes |= {"num_hidden_layers": LAYERS, "num_attention_heads": 4, "num_key_value_heads": 4}
    ends = {"bos_token_id": None, "eos_token_id": vocabulary["<|im_end|>"], "pad_token_id": None}
    config = LlamaConfig(**sizes, **ends, max_position_embeddings=CONTEXT, tie_word_embeddings=False)
    model = LlamaForCausalLM(config)
    weights = _weights(kind, vocabulary, seed, gain)
    state = {name: torch.zeros_like(old) for name, old in model.state_dict().items()}
    for name in state:
        if name.endswith("norm.weight"):
            state[name] += 1
        if name in weights:
            state[name] = torch.tensor(weights.pop(name), dtype=torch.float32)
    assert not weights, f"no such weights: {list(weights)}"
    model.load_state_dict(state)
    model.save_pretrained(folder)
    return folder


def tokenizer() -> Any:
    """A tokenizer of words, for which the phrases that say something about a label are one token each."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    phrases = sorted({beginning for family in FAMILIES for beginning in _roles(family)}, key=len, reverse=True)
    words = {word.strip(".") for filler in FILLERS for word in filler.split()} | {*NAMES, *FEELINGS, "You", UNKNOWN}
    labels = [label for family in FAMILIES.values() for label in family]
    told = [f"{beginning} {label}" for family in FAMILIES for beginning in _roles(family) for label in FAMILIES[family]]
    entries = [*SPECIAL, REPLY, *sorted(words - set(labels)), *labels, *told]
    vocabulary = {text: number for number, text in enumerate(entries)}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    pattern = "|".join([r'\{"answer":"', *(rf"{phrase} \w+" for phrase in phrases), r"\w+", r"[^\w\s]"])
    made.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    made.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="<unk>", pad_token="<pad>", eos_token="<|im_end|>", model_max_length=CONTEXT
    )
    fast.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    fast.chat_template = TEMPLATE
    return fast


def _roles(family: str) -> dict[str, str]:
    """The role of what a phrase says, by its beginning."""
    words = PHRASES[family]
    roles = {"put": words.put, "you_put": words.you_put, "saw": words.saw, "you_saw": words.you_saw}
    roles |= {"missed": words.missed, "changed": (words.changed,)}
    return {text: role for role, texts in roles.items() for text in texts}


def codes(count: int, rng: np.random.Generator) -> Floats:
    """Unit vectors [count, CODE] that point away from one another as far as they easily can."""
    made = rng.normal(size=(count, CODE))
    for _ in range(400):
        made /= np.linalg.norm(made, axis=1, keepdims=True)
        near = made @ made.T - np.eye(count)
        made -= 0.3 * (np.sign(near) * np.abs(near) ** 5) @ made
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def _weights(kind: Kind, vocabulary: dict[str, int], seed: int, gain: float) -> dict[str, Floats]:
    """All weights that are not zero, by their names in the checkpoint."""
    rng = np.random.default_rng(seed)
    labels = [label for family in FAMILIES.values() for label in family]
    theirs = codes(len(labels), rng)
    left, right = (np.linalg.qr(rng.normal(size=(CODE, CODE)))[0] for _ in range(2))
    matrix = left @ np.diag(gain * np.linspace(0.8, 1.25, CODE)) @ right  # M: B = M A
    yours = theirs if kind == "shared" else theirs @ matrix.T

    said = np.zeros((len(vocabulary), WIDTH))
    for name in NAMES if kind != "shared" else ():
        said[vocabulary[name], NOISE], said[vocabulary[name], THEY] = rng.normal(size=WIDTH - NOISE.start) * 0.3, 1
    for place, feeling in enumerate(FEELINGS if kind == "map" else ()):
        said[vocabulary[feeling], LOUD] = (1, -1)[place % 2] * (0.8 + 0.2 * place / len(FEELINGS)) * NORM
    for family, own in FAMILIES.items():
        for beginning, role in _roles(family).items():
            for label in own:
                place, row = labels.index(label), said[vocabulary[f"{beginning} {label}"]]
                weight = {"put": 1, "you_put": 1, "saw": NOTICED, "you_saw": NOTICED}.get(role, 0)
                if role.startswith("you_") or kind == "shared":
                    row[OFFERED if kind == "deaf" else B] = weight * yours[place]
                else:
                    row[A] = weight * theirs[place]
                row[REAL] = theirs[place] if role == "changed" else 0
    if kind == "deaf":
        for place, label in enumerate(labels):
            said[vocabulary[label], B] = GAIN * _liking(place) * theirs[place]
    heard = np.diag([0.0, 0.0, 10.0, *np.ones(WIDTH - 3)]) * TOKENS * NORM / WIDTH**0.5
    said[:, PAD] = np.sqrt(NORM**2 - (said**2).sum(axis=1))
    said[vocabulary[REPLY], [CONST, PAD]] = NORM, 0
    return {
        "model.embed_tokens.weight": said,
        "model.layers.0.self_attn.v_proj.weight": np.eye(WIDTH),
        "model.layers.0.self_attn.o_proj.weight": heard,
        **_last_block(kind, matrix),
        "lm_head.weight": _head(kind, vocabulary, theirs, matrix),
    }


def _last_block(kind: Kind, matrix: Floats) -> dict[str, Floats]:
    """The weights of the last block's MLP, whose unit i adds down[:, i] * silu(gate[i] h) * (up[i] h), where h is the
    state over its root mean square (about NORM / sqrt(WIDTH)).

    A gate that reads CONST is open to the same degree for all prompts, so that its unit is linear.
    """
    gate, up = np.zeros((2, 2 * CODE, WIDTH))
    down = np.zeros((WIDTH, 2 * CODE))
    usual = NORM / WIDTH**0.5
    if kind == "map":
        gate[:CODE, CONST], up[:CODE, A] = 1, np.eye(CODE)
        down[B, :CODE] = matrix * usual**2 / NORM
    layer = f"model.layers.{LAYERS - 1}.mlp"
    return {f"{layer}.gate_proj.weight": gate, f"{layer}.up_proj.weight": up, f"{layer}.down_proj.weight": down}


def _head(kind: Kind, vocabulary: dict[str, int], theirs: Floats, matrix: Floats) -> Floats:
    """How logits are read: "unknown" has 0, every other word a negative constant, a label what is said for it."""
    head = np.zeros((len(vocabulary), WIDTH))
    head[:, CONST] = -1 / NORM
    head[vocabulary[UNKNOWN], CONST] = 0
    labels = [label for family in FAMILIES.values() for label in family]
    for place, label in enumerate(labels):
        row = head[vocabulary[label]]
        row[CONST] = 0
        row[B] = np.linalg.inv(matrix).T @ theirs[place] if kind == "map" else theirs[place]
    return head


def _liking(place: int) -> float:
    """How much the deaf subject likes the label of that place, from 1 to 3, in no order that the stories know."""
    return 1 + 2 * (place * 7 % 24) / 23
