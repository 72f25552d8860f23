"""The tokenizer, and training examples as trees: one story, several questions, one mask.

The project's prompts put the story before the question. A story is therefore read once and every question with its
reply is a branch that sees the story and itself. `opening` is what stands before every story of a strategy (system
text, demonstration), the same for all.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import orjson
import phrases
import words
from stories import Told
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from tomserve.items import UNKNOWN, Item
from tomserve.prompting.strategy import Strategy

VOCABULARY = 2560
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_GLUE = [
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
"""The fixed parts of replies and label lists: one token each, so that a reply is short."""


def build_tokenizer(seed: int) -> Tokenizer:
    """A byte-level BPE that reads any text; the same seed gives the same tokenizer.

    Words of the phrasings and prompts carry the space before them. Every other word stands after a space token of its
    own: so names and labels are the same tokens after a space, after a quotation mark and at the beginning.
    """
    common = phrases.every_word()
    prompts = [message["content"] for name in ("vanilla", "cot") for message in _opening_messages(name, True)]
    for text in prompts:
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
    common -= {"Ravi", "Lotte", "Sam", "sandpit", "toolshed", "kite"}  # content of the demonstration, not wording
    alternatives = "|".join(sorted(common, key=lambda word: (-len(word), word)))
    glue = "|".join(
        re.escape(text).replace('"', '\\"').replace("\\ ", " ") for text in sorted(_GLUE, key=len, reverse=True)
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
    corpus = [f" {word}" for word in sorted(common)] * 60 + [text for text in _GLUE for _ in range(200)]
    corpus += words.SEEN * 4 + made_up + [word.capitalize() for word in made_up[:4500]]
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


@lru_cache(maxsize=4)
def _loaded(strategy: str) -> Strategy:
    return Strategy.load(strategy)


def _opening_messages(strategy: str, demonstration: bool) -> tuple[dict[str, str], ...]:
    messages = tuple(_loaded(strategy)._opening)
    return messages if demonstration else messages[:1]


def opening(strategy: str, *, demonstration: bool) -> str:
    """The text before a story in that strategy's prompts: system, then the demonstration where wanted and there."""
    return "".join(
        f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n"
        for message in _opening_messages(strategy, demonstration)
    )


Note = tuple[str, int, int]
"""A hint (hints.py), the place where it is due, and the token that it should be read as."""


@dataclass
class Branch:
    """One question with its reply: `tokens` [n], `targets` [n] the next tokens, `weights` [n] of the loss on them.

    `checks`: (place, class) where a label is told from the other choices, for measuring; the class is `kind_of`'s, in
    a chain with "chain " before it, for the answer after a chain with "final ". Where a label is about to be said,
    `notes` has whose it is and, in a chain, after which sentence, and `looks` (place, inside, source) the place where
    it is to be found, of the story or, `inside`, of this branch.
    """

    tokens: list[int]
    targets: list[int]
    weights: list[float]
    checks: list[tuple[int, str]]
    notes: list[Note]
    looks: list[tuple[int, int, int]]


@dataclass
class Tree:
    """A story's tokens and its branches. `notes` at the end of each sentence: its number, who learns something from it
    (one note a person, or one that says nobody), and the label they learn."""

    story: list[int]
    branches: list[Branch]
    notes: list[Note]


_GLUE_WEIGHT, _LABEL_WEIGHT, _REST_WEIGHT, _ANSWER_WEIGHT = 0.05, 0.4, 0.1, 1.0


class Packer:
    """Turns stories into trees."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.end, self.pad = self.ids("<|im_end|>")[0], self.ids("<|endoftext|>")[0]
        parts = [tokenizer.encode(text, add_special_tokens=False).ids for text in _GLUE]
        self._glue = {part[0] for part in parts if len(part) == 1} | {self.end}
        self._belief = {self.ids(text)[0] for text in (',"belief":"', ', "belief": "')}
        self._before_label = self._belief | {
            self.ids(text)[0] for text in ('{"answer":"', '{"answer": "', '"}],"answer":"', '"}], "answer": "')
        }
        self._break = self.ids("\n")[0]
        self._between = {token for text in "0123456789 " for token in self.ids(text)}

    def short_words(self) -> tuple[list[str], list[str]]:
        """Names and other words of a single token each, for the first stories."""
        names, others = [], []
        for word in sorted(self.tokenizer.get_vocab()):
            if 2 <= len(word) <= 6 and word.isascii() and word.isalpha() and len(self.ids(word)) == 1:
                if word.islower() and word not in ("un", "known"):
                    others.append(word)
                elif word.istitle():
                    names.append(word)
        return names, others

    def ids(self, text: str) -> list[int]:
        """Token ids of a text, chat marks read as such."""
        found: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return found

    def tree(
        self,
        items: Sequence[Item],
        strategy: str,
        *,
        told: Told | None = None,
        bare: bool = False,
        compact: bool = True,
        change: float = 1.0,
    ) -> Tree:
        """The tree of items that share a story, as the strategy's prompt shows them. `bare`: without chat marks and
        labels, short, and an answer can only come out of the story. `compact`: see `reply`. `change`: the factor on
        the loss where a belief is another than before."""
        texts = []
        for item in items:
            user = _loaded(strategy).turn(item).messages[-1]["content"]
            before, question = user.split("\n\nQuestion: ", 1)
            question += "<|im_end|>\n<|im_start|>assistant\n"
            if bare:
                question = question.split("\nLabels: ")[0]
            texts.append((before, f"Question: {question}", reply(item, strategy, compact=compact)))
        branches = []
        story = self.ids(f"<|im_start|>user\n{texts[0][0]}\n\n")
        ends = [place for place, token in enumerate(story) if token == self._break][2:]  # after "user" and "Story:"
        for item, (_, question, answer) in zip(items, texts, strict=True):
            asked, said = self.ids(question), [*self.ids(answer), self.end]
            weights = [0.0] * (len(asked) - 1)
            checks: list[tuple[int, str]] = []
            name, chained = kind_of(item), _loaded(strategy).chain
            factor, sentence, sets = _class_weight(item), -1, ((UNKNOWN,), *_sets(item))
            notes: list[Note] = []
            looks: list[tuple[int, int, int]] = []
            for token, weight in zip(said, self._reply_weights(item, said), strict=True):
                sentence += token in self._belief
                if weight in (_LABEL_WEIGHT, _ANSWER_WEIGHT):
                    final = weight == _ANSWER_WEIGHT
                    checks.append((len(weights), ("final " if final else "chain ") + name if chained else name))
                    if not final and sets[sentence] != sets[sentence + 1]:
                        weight *= change
                weights.append(weight * factor)
                if told and token in self._before_label:
                    at, person = len(weights), told.asked[item.id]
                    notes.append(("who", at, self._name(person)))
                    source = None
                    if token in self._belief:
                        notes.append(("number", at, self._number(sentence)))
                    if token in self._belief or not chained:
                        source = self._source(told, person, sentence if chained else None, ends)
                    if source is None:  # said before, or still unknown
                        source = (1, looks[-1][0] + 1 if looks else at)
                    looks.append((at, *source))
            branches.append(Branch([*asked, *said[:-1]], [*asked[1:], *said], weights, checks, notes, looks))
        return Tree(story, branches, self._notes(items[0], ends, told) if told else [])

    def _source(self, told: Told, name: str, sentence: int | None, ends: list[int]) -> tuple[int, int] | None:
        """Where the sentence ends from which somebody has a belief: the last one that lets them know something, or in a
        chain (`sentence`) that one, if it does."""
        numbers = range(len(told.learned)) if sentence is None else (sentence,)
        found = [number for number in numbers if name in told.learned[number].who]
        return (0, ends[found[-1]]) if found else None

    def _name(self, name: str) -> int:
        """The token that stands for a person, the first of the name; for the world one that no name begins with."""
        return self.ids(" really" if not name else " you" if name == "you" else name)[0]

    def _number(self, sentence: int) -> int:
        """The token that stands for a sentence: the last digit of its number."""
        return self.ids(str(sentence + 1))[-1]

    def _notes(self, item: Item, ends: list[int], told: Told) -> list[Note]:
        """What the story's sentences let whom know, at the line break after each."""
        labels = [self.ids(choice.removeprefix("the ")) for choice in item.choices if choice != UNKNOWN]
        apart = next((place for place, (x, y) in enumerate(zip(*labels, strict=False)) if x != y), 0)
        notes: list[Note] = []
        for number, (place, learned) in enumerate(zip(ends, told.learned, strict=False)):
            notes.append(("number", place, self._number(number)))
            notes += [("who", place, self._name(name)) for name in learned.who] or [("who", place, self.pad)]
            if learned.what is not None:
                notes.append(("what", place, self.ids(learned.what)[apart]))
        return notes

    def _reply_weights(self, item: Item, said: list[int]) -> list[float]:
        """A weight for each token of a reply: little for what the form forces, much for the token that tells a label
        from the other choices; the answer counts more than a belief."""
        choices = [self.ids(choice) for choice in item.choices]
        weights: list[float] = []
        last_glue = max((place for place, token in enumerate(said[:-2]) if token in self._glue), default=0)
        label: list[int] = []
        for place, token in enumerate(said):
            if token in self._glue or (token in self._between and not label):
                weights.append(_GLUE_WEIGHT)
                label = []
                continue
            before = sum(choice[: len(label)] == label for choice in choices)
            label = [*label, token]
            after = sum(choice[: len(label)] == label for choice in choices)
            chosen = _ANSWER_WEIGHT if place > last_glue else _LABEL_WEIGHT
            weights.append(chosen if 0 < after < before else _REST_WEIGHT)
        return weights


def _sets(item: Item) -> tuple[tuple[str, ...], ...]:
    assert item.gold is not None and item.gold.sets is not None  # noqa: PT018 - generated items have them
    return item.gold.sets


def _class_weight(item: Item) -> float:
    """The factor on an item's loss. "What is really so" would be right for three questions in four, and is learned
    first; with these factors beliefs that differ from reality have as much weight as those that do not."""
    if item.factors["question_kind"] == "reality":
        return 0.7
    return 2.0 if item.factors["belief_is_false"] and item.answer != UNKNOWN else 1.2


def kind_of(item: Item) -> str:
    """The class under which an item is measured: reality, control, false_belief, informed_other, uninformed_other."""
    if item.factors["question_kind"] == "reality":
        return "reality"
    if item.factors["asked_role"] == "protagonist":
        return "false_belief" if item.factors["belief_is_false"] else "control"
    return str(item.factors["asked_role"])


def reply(item: Item, strategy: str, *, compact: bool = True) -> str:
    """The gold reply of an item, in the strategy's own form; compact: without spaces, as guided decoding writes it."""
    loaded = _loaded(strategy)
    text = loaded._reply(item) if loaded.chain else f'{{"answer": "{item.answer}"}}'
    return orjson.dumps(orjson.loads(text)).decode() if compact else text
