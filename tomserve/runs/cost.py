"""What asking will take, before anything is asked: the size of prompts, and figures that say what they rest on."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tomserve.engine.prompt_tokens import BYTES_A_TOKEN, common_length
from tomserve.items import Item
from tomserve.prompting.conversation import Turn
from tomserve.prompting.strategy import Strategy
from tomserve.runs.item_store import ItemStore, sort_key, sort_places

TELL_EVERY = 100_000  # prompts, after which it is said how many were looked at


@dataclass(frozen=True)
class Figure:
    """One number of a plan. text: the number in words. why: what it rests on. options: those that change it."""

    name: str
    value: float
    unit: str
    text: str
    why: str
    options: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """The figure as JSON has it."""
        fields = {"name": self.name, "value": self.value, "unit": self.unit, "said": self.text, "why": self.why}
        return {**fields, "options": list(self.options)}


@dataclass(frozen=True)
class PromptCost:
    """The first prompts of a strategy about n items: those that do not depend on a reply."""

    order: array[int]  # [n] the places of the items in the order in which they are asked
    sizes: array[int]  # [n] bytes of the first prompt about each item, by its place
    shared: array[int]  # [n] bytes that the first prompt has in common with the one before it, by its number in `order`
    requests: int  # all first prompts; a program may have several about one item
    tokens: int  # of them together, about
    equal: tuple[int, int]  # how many of them ask the very same as the one before, whose reply is theirs; their tokens
    longest: int  # tokens of the longest, about
    reply: int  # the most tokens of one reply


def measure_prompts(
    items: ItemStore | Sequence[Item], strategy: Strategy, tell: Callable[[int], None] = lambda number: None
) -> PromptCost:
    """Render and measure the first prompts. tell: called now and then with how many items were looked at. Raises
    ContentError where a prompt cannot be rendered."""
    # Equal prompts stand in the order of their items' ids, so that the order of the items does not matter.
    order = sort_places(sort_key((*strategy.order(item), item.id)) for item in items)
    sizes, shared = array("Q", bytes(8 * len(items))), array("Q")
    before, requests, total, longest, reply = b"", 0, 0, 0, 0
    last, equal, same = None, 0, 0
    for looked, place in enumerate(order, 1):
        item = items[place]
        turns = strategy.conversation(item).open if strategy.is_multi_turn else [strategy.turn(item)]
        prompts = [_prompt(turn) for turn in turns]
        sizes[place] = len(prompts[0])
        shared.append(common_length(before, prompts[0]))
        before = prompts[0]
        if turns[0] == last:
            equal, same = equal + 1, same + len(prompts[0])
        last = turns[0]
        requests, total = requests + len(prompts), total + sum(map(len, prompts))
        longest = max(longest, *map(len, prompts))
        reply = max(reply, *(turn.max_tokens or strategy.max_tokens for turn in turns))
        if not looked % TELL_EVERY:
            tell(looked)
    repeated = (equal, same // BYTES_A_TOKEN)
    return PromptCost(order, sizes, shared, requests, total // BYTES_A_TOKEN, repeated, longest // BYTES_A_TOKEN, reply)


def _prompt(turn: Turn) -> bytes:
    return "\0".join(message["content"] for message in turn.messages).encode("utf-8", "surrogatepass")
