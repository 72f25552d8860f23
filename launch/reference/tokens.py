"""The tokenizer of the reference model, its chat template, and the text that stands before every story."""

from __future__ import annotations

import random
import re
from functools import lru_cache

import phrases
import words
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from tomserve.items import Item
from tomserve.items.item import UNKNOWN
from tomserve.prompting.strategy import Strategy

VOCABULARY = 2560
"""Number of tokens."""
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
GLUE = [
    '{"beliefs":[',
    '{"sentence":',
    ',"belief":"',
    '"},',
    '"}],"answer":"',
    '{"answer":"',
    '{"beliefs": [',
    '{"sentence": ',
    ', "belief": "',
    '"}, ',
    '"}], "answer": "',
    '{"answer": "',
    '"}',
    '["',
    '", "',
    '"]',
]
"""The fixed parts of replies and of label lists. Each is one token, so that a reply is short."""
PROMPTS = ("vanilla", "cot", "cot_every_sentence", "vanilla_advised", "vanilla_1", "cot_1")
"""The strategies whose prompts are learned."""
ANY = Item(id="any", story=["."], question="?", choices=["yes", UNKNOWN], answer=UNKNOWN)
OTHER = Item(id="other", story=["."], question="?", choices=["yes", "no"], answer="no")
"""Items like any other here: what comes before a story depends only on whether the choices offer "unknown" (ANY)."""


def build_tokenizer(seed: int) -> Tokenizer:
    """A byte-level BPE tokenizer that can encode any text; the same seed gives the same tokenizer.

    Words of the phrasings and prompts include the space before them. All other words stand after a space token of their
    own, so that names and labels are the same tokens after a space, after a quotation mark and at the beginning.
    """
    common = phrases.every_word()
    for text in (message["content"] for name in PROMPTS for shown in _openings(name) for message in shown):
        common |= set(re.findall(r"[A-Za-z]+", text))
    common |= {
        *words.JOBS,
        *words.ADJECTIVES,
        "he",
        "him",
        "his",
        "she",
        "her",
        "you",
        "your",
        "He",
        "She",
        "You",
        "Your",
    }
    common -= {"Ravi", "Lotte", "Sam", "sandpit", "toolshed", "kite"}  # they are content of the demonstrations
    common -= {"Oyku", "Tarek", "clarinet", "flute", "clarinets", "flutes", "green", "blue", "ferry"}
    alternatives = "|".join(sorted(common, key=lambda word: (-len(word), word)))
    glue = "|".join(
        re.escape(text).replace('"', '\\"').replace("\\ ", " ") for text in sorted(GLUE, key=len, reverse=True)
    )
    pattern = rf"{glue}| (?:{alternatives})(?!\p{{L}})|\p{{L}}+|\p{{N}}| |\n|[^\p{{L}}\p{{N}}\s]|\s"
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(False, False, False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    rng = random.Random(seed)
    made_up = [words.invent(rng) for _ in range(9000)]
    corpus = [f" {word}" for word in sorted(common)] * 60 + [text for text in GLUE for _ in range(200)]
    corpus += words.SEEN * 4 + made_up + [word.capitalize() for word in made_up[:4500]]
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


@lru_cache(maxsize=8)
def loaded(strategy: str) -> Strategy:
    """The strategy of that name, read once."""
    return Strategy.load(strategy)


def _openings(strategy: str, item: Item = ANY) -> list[list[dict[str, str]]]:
    """The messages before a story's: the system text and a demonstration, once for each that a story may get."""
    return loaded(strategy).openings(item)


def openings(strategy: str, *, demonstration: bool, unknown: bool = True) -> list[str]:
    """The texts that may stand before a story in that strategy's prompts: the system text, then a demonstration.

    demonstration: whether to include it, where the strategy has one; without it there is one text. unknown: whether the
        choices offer "unknown".
    """
    found = _openings(strategy, ANY if unknown else OTHER)
    shown = found if demonstration else [found[0][:1]]
    return [
        "".join(f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n" for message in messages)
        for messages in shown
    ]
