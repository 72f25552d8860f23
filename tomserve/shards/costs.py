"""What it costs to ask: how long the prompts are, and how much of each a prefix cache has from the prompt before.

Every first prompt is rendered once, in the order in which a run asks (tomserve.runs.conversations), and compared with the
one before it. How much the prompts of any part share follows from these numbers alone: of two prompts in that order,
the beginning that they have in common is the shortest that any two neighbours between them have in common.

Tokens are counted as bytes over BYTES_A_TOKEN, since nothing that could count them need run yet. Of a conversation only
the first request is counted, as what follows depends on the replies.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tomserve.engine.prompt_tokens import common_length
from tomserve.prompting.strategy import Strategy
from tomserve.runs.conversations import Questions
from tomserve.runs.item_store import sort_key, sort_places
from tomserve.shards.record import EXPECTED

BYTES_A_TOKEN = 4
"""How many bytes of a prompt make a token, about: English text in the vocabularies of today's models."""

TELL_EVERY = 100_000
"""After so many prompts it is said how many were looked at."""

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Cost:
    """The first prompts of one strategy about n items.

    order [n]: the places of the items in the order in which they are asked. sizes [n]: bytes of the prompt of each
    item, by the item's place. shared [n]: how many bytes each prompt has in common with the one before it in the order,
    by its number in the order. reply: how many tokens a reply may have.
    """

    order: array[int]
    sizes: array[int]
    shared: array[int]
    reply: int

    def weights(self, repeats: int) -> Numbers:
        """What asking each item costs [n], in bytes: those of its prompt that are computed, and of expected replies."""
        shared = np.zeros(len(self.sizes), dtype=np.int64)
        shared[np.asarray(self.order, dtype=np.int64)] = np.asarray(self.shared, dtype=np.int64)
        replies = repeats * self.reply * BYTES_A_TOKEN // EXPECTED
        return np.asarray(self.sizes, dtype=np.int64) - shared + replies


class Tokens(NamedTuple):
    """About how many tokens a part takes: of its prompts, those that prompts share, and the most of its replies."""

    prompt: int
    shared: int
    reply: int


def costs_of(questions: Questions, tell: Callable[[int], None] = lambda number: None) -> list[Cost]:
    """What each strategy's first prompts cost. tell: called now and then with how many prompts were looked at.

    Raises ContentError where a prompt cannot be rendered.
    """
    return [_cost(questions, strategy, number, tell) for number, strategy in enumerate(questions.strategies)]


def _cost(questions: Questions, strategy: Strategy, number: int, tell: Callable[[int], None]) -> Cost:
    items = questions.items
    # Equal prompts stand in the order of their items' ids, so that the order of the items does not matter.
    order = sort_places(sort_key((*strategy.order(item), item.id)) for item in items)
    sizes, shared = array("Q", bytes(8 * len(items))), array("Q")
    before, reply = b"", 0
    for looked, place in enumerate(order, 1):
        turn = strategy.turn(items[place])
        prompt = "\0".join(message["content"] for message in turn.messages).encode("utf-8", "surrogatepass")
        sizes[place] = len(prompt)
        shared.append(common_length(before, prompt))
        before, reply = prompt, max(reply, turn.max_tokens or strategy.max_tokens)
        if not looked % TELL_EVERY:
            tell(number * len(items) + looked)
    return Cost(order, sizes, shared, reply)


def tokens_of(costs: Sequence[Cost], part_of: Sequence[int], parts: int, repeats: int) -> list[Tokens]:
    """What each part costs, over all strategies. part_of [n]: the part of each item, from 0. repeats: samples of each
    question, which share all of their prompt."""
    where = np.asarray(part_of, dtype=np.int64)
    counts = np.bincount(where, minlength=parts)
    prompts, saved, replies = (np.zeros(parts, dtype=np.int64) for _ in range(3))
    for cost in costs:
        sizes = np.zeros(parts, dtype=np.int64)
        np.add.at(sizes, where, np.asarray(cost.sizes, dtype=np.int64))
        prompts += repeats * sizes
        saved += np.asarray(_saved(cost, part_of, parts), dtype=np.int64) + (repeats - 1) * sizes
        replies += counts * cost.reply * repeats
    return [
        Tokens(int(prompt) // BYTES_A_TOKEN, int(save) // BYTES_A_TOKEN, int(reply))
        for prompt, save, reply in zip(prompts, saved, replies, strict=True)
    ]


def _saved(cost: Cost, part_of: Sequence[int], parts: int) -> list[int]:
    """How many bytes the prompts of each part share with the prompt of the same part before them."""
    saved, last = [0] * parts, [-1] * parts
    numbers: list[int] = []  # in the order, each with the least that is shared from the number before it up to here,
    lows: list[int] = []  # which grows from one to the next
    for number, place in enumerate(cost.order):
        shared = cost.shared[number]
        while lows and lows[-1] >= shared:
            lows.pop()
            numbers.pop()
        lows.append(shared)
        numbers.append(number)
        part = part_of[place]
        if last[part] >= 0:
            saved[part] += lows[bisect_right(numbers, last[part])]
        last[part] = number
    return saved
