"""What a strategy's first turn offers for an answer: which of an item's choices, and whether behind letters.

>>> item = Item(id="q", story=["Tea."], question="What?", choices=["tea", "salt", "unknown"], answer="tea")
>>> offered(item, "Tea.\\nWhat?\\nA. tea\\nB. salt")
Offered(choices=('tea', 'salt'), lettered=True)
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import NamedTuple

from tomserve.items import UNKNOWN, Item
from tomserve.prompting.conversation import Message
from tomserve.scoring.labels import find_prompt_order

LETTERS = string.ascii_uppercase
"""The letters that options can have."""


class Offered(NamedTuple):
    """choices: those that are offered, in order. lettered: whether they stand behind letters, as A, B, C."""

    choices: tuple[str, ...]
    lettered: bool = False


def asked(messages: Sequence[Message]) -> tuple[int, str]:
    """The last message of the user: its place and its text; an empty text where there is none."""
    places = [place for place, message in enumerate(messages) if message["role"] == "user"]
    return (places[-1], messages[places[-1]]["content"]) if places else (0, "")


def offered(item: Item, text: str, *, lettered: bool = False) -> Offered:
    """What a message offers. text: the message that asks about the item. lettered: whether its strategy says that it
    shows letters; found out from the text otherwise.

    A strategy may keep "unknown" for chains, and then its message does not say it. The word may also stand in the story
    or the question, where it offers nothing.
    """
    told = sum(part.count(UNKNOWN) for part in (*item.story, item.question, *item.choices)) - item.choices.count(
        UNKNOWN
    )
    keeps = UNKNOWN in item.choices and text.count(UNKNOWN) <= told
    choices = tuple(choice for choice in item.choices if not (keeps and choice == UNKNOWN))
    return Offered(choices, lettered or find_prompt_order(text, choices) == choices)
