"""What an edit aims at: a wrong label to put in, the beliefs of a right chain, those of somebody else, dots that say
nothing, another item's chain.

>>> item = Item(id="q", story=["A jar.", "It has tea."], question="What is in it?", choices=["unknown", "tea", "salt"],
...             answer="tea", gold={"sets": [["unknown"], ["tea"]]})
>>> wrong_labels(item, {"tea"}, ())
['salt', 'unknown']
>>> path(item.gold.automaton(), "tea")
('unknown', 'tea')
>>> changes(("unknown", "tea", "tea"))
[1, 2]
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from tomserve.errors import InapplicableError
from tomserve.faithfulness.table import TRUNCATED
from tomserve.faithfulness.written import Count, Written
from tomserve.items import Item
from tomserve.items.automaton import Automaton
from tomserve.items.item import UNKNOWN
from tomserve.scoring.labels import find_mentions

NO_WRONG = "no wrong label is left that the model did not answer"
NO_GOLD = "the item has no gold rationale"
OTHER_END = "the gold rationale does not end in the right answer"
NO_OTHER = "no other item's chain is at hand"
NO_SHORTER = "so short a chain has no beginning of that length"
NO_MATE = "no question about somebody else's other belief is at hand"
SAME = "the edit changes nothing"
NOTHING_FOLLOWS = "nothing follows from that belief"
"""Reasons why an edit cannot be made, of chains in every form."""


class Case(NamedTuple):
    """What an edit is made from.

    item, chain: whose chain it is. mates: other questions about the same story. other: the chain of another item, with
    that item. tokens: counts tokens. choices: the item's choices as replies are read by them.
    """

    item: Item
    chain: Written
    mates: Sequence[Item]
    other: tuple[Item, Written] | None
    tokens: Count
    choices: Sequence[str]


def draw(*parts: str) -> bytes:
    """A value that orders things in a way that means nothing, and the same every time."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()


def wrong_labels(item: Item, avoid: Collection[str | None], named: Collection[str]) -> list[str]:
    """The choices that may stand in the place of a right belief, the best first: one that the story, the gold rationale
    or the chain names comes before another, and "unknown" is the last resort.

    avoid: labels that are none of them. named: the labels of the chain. The right answer is never among them.
    """
    told = set(named) | {one.choice for sentence in item.story for one in find_mentions(sentence, item.choices)}
    if item.gold is not None:
        told |= {label for layer in item.gold.automaton().labels for label in layer}
    free = [label for label in item.choices if label != item.answer and label not in avoid]
    return sorted(free, key=lambda label: (label == UNKNOWN, label not in told, draw(item.id, label)))


def automaton_of(item: Item) -> Automaton:
    """The item's gold rationale. Raises InapplicableError where it has none."""
    if item.gold is None:
        raise InapplicableError(NO_GOLD)
    return item.gold.automaton()


def path(gold: Automaton, answer: str) -> tuple[str, ...]:
    """The first gold chain that ends in the answer, or the first of all where none does."""
    ends = {node for node, label in enumerate(gold.labels[-1]) if label == answer} or set(range(len(gold.labels[-1])))
    leading = [ends]  # from the last layer backwards: the nodes from which such an end is reached
    for steps in reversed(gold.steps[1:]):
        leading.append({one for one, following in steps if following in leading[-1]})
    leading.reverse()
    node = min(leading[0])
    found = [gold.labels[0][node]]
    for layer, steps in enumerate(gold.steps[1:], 1):
        node = min(following for one, following in steps if one == node and following in leading[layer])
        found.append(gold.labels[layer][node])
    return tuple(found)


def right_beliefs(item: Item) -> tuple[str, ...]:
    """The right chain of an item. Raises InapplicableError where it has none that ends in its answer."""
    found = path(automaton_of(item), item.answer)
    if found[-1] != item.answer:
        raise InapplicableError(OTHER_END)
    return found


def changes(labels: Sequence[str]) -> list[int]:
    """The sentences, from 1, after which a chain of one label a sentence holds something new; the first is one."""
    return [place + 1 for place, label in enumerate(labels) if place == 0 or label != labels[place - 1]]


def mates_of(case: Case) -> Iterator[Item]:
    """The other questions about the same story that have a right chain and offer the same choices, by their ids."""
    for mate in sorted(case.mates, key=lambda one: one.id):
        same = mate.story == case.item.story and set(mate.choices) == set(case.item.choices)
        if same and mate.id != case.item.id and mate.gold is not None:
            yield mate


def beginning(share: float, length: int) -> int:
    """How many of so many parts stand for the beginning of that share; TRUNCATED has the shares.

    Raises InapplicableError where a smaller share, or the whole, has the same beginning: a chain of one belief has none
    but nothing.
    """
    kept = int(share * length)
    shorter = [int(one * length) for one in TRUNCATED.values() if one < share]
    if kept >= length or kept in shorter:
        raise InapplicableError(NO_SHORTER)
    return kept


DOT, JOINED = ".", " "


def dots(text: str, tokens: Count) -> str:
    """Dots that are as many tokens as the text, or as near to that as can be."""
    return _as_many(lambda count: JOINED.join(DOT * count), text, tokens)


def dotted_lines(text: str, tokens: Count) -> str:
    """Dots that are as many tokens as the text, in lines that are as long as the text's compared to each other."""
    lengths = [len(line.strip()) for line in text.split("\n")]
    whole = sum(lengths) or 1

    def laid_out(count: int) -> str:
        made, passed, given = [], 0, 0
        for length in lengths:
            passed += length
            upto = count * passed // whole
            made.append(JOINED.join(DOT * (upto - given)))
            given = upto
        return "\n".join(made)

    return _as_many(laid_out, text, tokens)


def _as_many(laid_out: Callable[[int], str], text: str, tokens: Count) -> str:
    """The fewest dots that are at least as many tokens as the text."""
    wanted, low, high = tokens(text), 0, 1
    most = 4 * len(text) + 16  # a count that never grows must not go on for ever
    while high < most and tokens(laid_out(high)) < wanted:
        low, high = high, 2 * high
    high = min(high, most)
    while high - low > 1:
        middle = (low + high) // 2
        if tokens(laid_out(middle)) < wanted:
            low = middle
        else:
            high = middle
    return laid_out(high)
