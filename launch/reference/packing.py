"""Pack training examples into trees of tokens: one story with several questions.

The project's prompts put the story before the question. So a story is read once, and each of its questions with the
reply is a branch that sees the story and itself. The opening (`tokens.opening`) stands before every story of a strategy
and is the same for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson
from stories import AnnotatedStory
from tokenizers import Tokenizer
from tokens import GLUE, loaded

from tomserve.items import UNKNOWN, Item

Note = tuple[str, int, int]
"""A hint (see hints.py), the place where it is due, and the token that the layer's output should be read as."""


@dataclass
class Branch:
    """One question with its reply: `tokens` [n], the next tokens `targets` [n], and the `weights` [n] of the loss on
    them.

    `checks`: (place, class) where a label is told from the other choices, for measuring accuracy. The class is that of
    `kind_of`, with "chain " before it in a chain and "final " for the answer after a chain. Where a label is about to
    be said, `notes` say whose it is and, in a chain, after which sentence; `looks` (place, inside, source) say at which
    place it is to be found, in the story (0) or in this branch (1).
    """

    tokens: list[int]
    targets: list[int]
    weights: list[float]
    checks: list[tuple[int, str]]
    notes: list[Note]
    looks: list[tuple[int, int, int]]


@dataclass
class Tree:
    """The tokens of a story, its branches, and the `notes` at the end of each sentence.

    A sentence's notes are its number, who learns something from it (a note for each person, or one that says nobody),
    and the label that they learn.
    """

    story: list[int]
    branches: list[Branch]
    notes: list[Note]


_GLUE_WEIGHT, _LABEL_WEIGHT, _REST_WEIGHT, _ANSWER_WEIGHT = 0.05, 0.4, 0.1, 1.0
"""Weights of the loss: on what the form forces, on the deciding token of a belief, on other tokens, and on the deciding
token of the answer.
"""


EVERY = "cot_every_sentence"
"""The strategy in whose form chains are learned."""


class Packer:
    """Turns stories into trees of tokens."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.end, self.pad = self.ids("<|im_end|>")[0], self.ids("<|endoftext|>")[0]
        parts = [tokenizer.encode(text, add_special_tokens=False).ids for text in GLUE]
        self._glue = {part[0] for part in parts if len(part) == 1} | {self.end}
        self._belief = {self.ids(text)[0] for text in (',"belief":"', ', "belief": "')}
        self._before_label = self._belief | {
            self.ids(text)[0] for text in ('{"answer":"', '{"answer": "', '"}],"answer":"', '"}], "answer": "')
        }
        self._break = self.ids("\n")[0]
        self._between = {token for text in "0123456789 " for token in self.ids(text)}

    def short_words(self) -> tuple[list[str], list[str]]:
        """Names and other words that are one token each, for the stories of the first lesson."""
        names, others = [], []
        for word in sorted(self.tokenizer.get_vocab()):
            if 2 <= len(word) <= 6 and word.isascii() and word.isalpha() and len(self.ids(word)) == 1:
                if word.islower() and word not in ("un", "known"):
                    others.append(word)
                elif word.istitle():
                    names.append(word)
        return names, others

    def ids(self, text: str) -> list[int]:
        """The token ids of a text; chat marks in it are read as such."""
        tokens: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return tokens

    def tree(
        self,
        items: Sequence[Item],
        strategy: str,
        *,
        told: AnnotatedStory | None = None,
        bare: bool = False,
        compact: bool = True,
        change: float = 1.0,
    ) -> Tree:
        """The tree of items that share a story, as the strategy's prompt shows them.

        items: the questions; strategy: the name of a strategy.
        told: the generated story, from which hints are taken; without it there are none.
        bare: leave out chat marks and labels: short, and an answer can only come out of the story.
        compact: write replies without spaces, see `reply`.
        change: factor on the loss where a belief differs from the one before.
        """
        texts = []
        for item in items:
            user = loaded(strategy).turn(item).messages[-1]["content"]
            before, question = user.split("\n\nQuestion: ", 1)
            question += "<|im_end|>\n<|im_start|>assistant\n"
            if bare:
                question = question.split("\nLabels: ")[0]
            texts.append((before, f"Question: {question}", reply(item, strategy, compact=compact)))
        branches = []
        story = self.ids(f"<|im_start|>user\n{texts[0][0]}\n\n")
        ends = [place for place, token in enumerate(story) if token == self._break][2:]  # after "user" and "Story:"
        for item, (_, question, answer) in zip(items, texts, strict=True):
            prompt, response = self.ids(question), [*self.ids(answer), self.end]
            weights = [0.0] * (len(prompt) - 1)
            checks: list[tuple[int, str]] = []
            name, chained = kind_of(item), loaded(strategy).chain
            factor, sentence = _class_weight(item), -1
            sets = ((UNKNOWN,), *_sets(item)) if item.gold else ()
            notes: list[Note] = []
            looks: list[tuple[int, int, int]] = []
            for token, weight in zip(response, self._reply_weights(item, response), strict=True):
                sentence += token in self._belief
                if weight in (_LABEL_WEIGHT, _ANSWER_WEIGHT):
                    final = weight == _ANSWER_WEIGHT
                    checks.append((len(weights), ("final " if final else "chain ") + name if chained else name))
                    if not final and sets[sentence] != sets[sentence + 1]:
                        weight *= change
                weights.append(weight * factor)
                if told and item.id in told.asked and token in self._before_label:
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
            branches.append(Branch([*prompt, *response[:-1]], [*prompt[1:], *response], weights, checks, notes, looks))
        return Tree(
            story, branches, self._notes(max(items, key=lambda item: len(item.choices)), ends, told) if told else []
        )

    def _source(self, told: AnnotatedStory, name: str, sentence: int | None, ends: list[int]) -> tuple[int, int] | None:
        """The place (0, token) of the sentence from which somebody has a belief; None where there is none.

        It is the last sentence that lets them know something; in a chain, this `sentence` if it does.
        """
        numbers = range(len(told.learned)) if sentence is None else (sentence,)
        telling = [number for number in numbers if name in told.learned[number].who]
        return (0, ends[telling[-1]]) if telling else None

    def _name(self, name: str) -> int:
        """The token that stands for a person, which is the first of the name; for the world (an empty name), one that
        no name begins with.
        """
        return self.ids(" really" if not name else " you" if name == "you" else name)[0]

    def _number(self, sentence: int) -> int:
        """The token that stands for a sentence: the last digit of its number, counted from 1."""
        return self.ids(str(sentence + 1))[-1]

    def _notes(self, item: Item, ends: list[int], told: AnnotatedStory) -> list[Note]:
        """What each sentence of the story lets whom know, at the line break that ends it."""
        told_labels = sorted({one.what for one in told.learned if one.what is not None})
        texts = [choice.removeprefix("the ") for choice in item.choices if choice != UNKNOWN]
        labels = [self.ids(text) for text in (told_labels if len(told_labels) > 1 else texts)]
        apart = next((place for place, heads in enumerate(zip(*labels, strict=False)) if len(set(heads)) > 1), 0)
        notes: list[Note] = []
        for number, (place, learned) in enumerate(zip(ends, told.learned, strict=False)):
            notes.append(("number", place, self._number(number)))
            notes += [("who", place, self._name(name)) for name in learned.who] or [("who", place, self.pad)]
            if learned.what is not None:
                told_ids = self.ids(learned.what)
                notes.append(("what", place, told_ids[min(apart, len(told_ids) - 1)]))
        return notes

    def _reply_weights(self, item: Item, response: list[int]) -> list[float]:
        """A weight of the loss for each token of a reply (`response`).

        What the form forces counts little; the token that tells a label from the other choices counts much, in the
        answer more than in a belief.
        """
        choices = [self.ids(choice) for choice in item.choices]
        weights: list[float] = []
        last_glue = max((place for place, token in enumerate(response[:-2]) if token in self._glue), default=0)
        label: list[int] = []
        for place, token in enumerate(response):
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
    """The sets of an item's gold rationale, which every item that is answered by a chain has."""
    assert item.gold is not None and item.gold.sets is not None  # noqa: PT018
    return item.gold.sets


def _class_weight(item: Item) -> float:
    """The factor on an item's loss, by its class.

    Answering what is really so would be right for three questions in four, and is learned first. With these factors
    beliefs that differ from reality count as much as those that do not.
    """
    if item.factors["question_kind"] == "reality":
        return 0.7
    return 2.0 if item.factors["belief_is_false"] and item.answer != UNKNOWN else 1.2


def kind_of(item: Item) -> str:
    """The class under which an item is measured: reality, control, false_belief, informed_other or uninformed_other; of
    a world story, "world" and what it asks about, a belief by whether it is true."""
    if "family" in item.factors:
        asked = item.factors["condition"] if item.factors["dimension"] == "belief" else item.factors["dimension"]
        return f"world {asked}"
    if item.factors["question_kind"] == "reality":
        return "reality"
    if item.factors["asked_role"] == "protagonist":
        return "false_belief" if item.factors["belief_is_false"] else "control"
    return str(item.factors["asked_role"])


def reply(item: Item, strategy: str, *, compact: bool = True) -> str:
    """The gold reply to an item; `compact` leaves out spaces, as guided decoding does.

    A chain has every sentence, also where the prompt allows to leave out those that change nothing: which those are
    would be one thing more to learn.
    """
    chained = loaded(strategy).chain
    text = loaded(EVERY).exchange(item)[1]["content"] if chained else f'{{"answer": "{item.answer}"}}'
    return orjson.dumps(orjson.loads(text)).decode() if compact else text
