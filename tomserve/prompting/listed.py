"""A strategy whose turns are listed in strategy.yaml: one after the other, each with the replies to those before it.

>>> replies = Replies()
>>> replies.add("who", Reply('{"seen": [1, 2]}'))
>>> replies[0].text, replies["who"].json
('{"seen": [1, 2]}', {'seen': [1, 2]})
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tomserve.items import Item
from tomserve.prompting.conversation import Program
from tomserve.prompting.named import NamedTurn
from tomserve.prompting.program import continued
from tomserve.prompting.turn import Message, Reply


class Shown(NamedTuple):
    """A reply as templates see it.

    text: what the model said. json: that as data, None where it is no JSON, such as where it was cut off. cut: whether
    it was cut off at its number of tokens.
    """

    text: str
    json: Any
    cut: bool


class Replies:
    """The replies so far as templates see them, by place (from 0) and by the name of the turn."""

    def __init__(self) -> None:
        self._shown: list[Shown] = []
        self._names: dict[str, int] = {}

    def add(self, name: str, reply: Reply) -> None:
        """Take the reply to the turn of that name."""
        try:
            data = reply.json()
        except ValueError:
            data = None
        self._names[name] = len(self._shown)
        self._shown.append(Shown(reply.text, data, reply.cut))

    def __getitem__(self, key: int | str) -> Shown:
        """The reply at a place or to a turn. Raises LookupError where there is none."""
        return self._shown[self._names[key] if isinstance(key, str) else key]

    def __iter__(self) -> Iterator[Shown]:
        return iter(self._shown)

    def __len__(self) -> int:
        return len(self._shown)


def listed(turns: Mapping[str, NamedTurn], continues: Mapping[str, bool], item: Item) -> Program:
    """Ask the turns one after the other.

    turns: the turns by their names, in order. continues: which of them follow the chat so far. item: asked about.
    """
    replies = Replies()
    chat: list[Message] = []
    *_, last = turns
    for name, named in turns.items():
        variables = named.variables(item)
        if named.shared is None:
            variables["replies"] = replies
        turn = named.turn(variables, chat if continues[name] else None)
        reply: Reply = yield turn
        if name == last:  # nobody needs what its reply says
            break
        replies.add(name, reply)
        chat = continued(turn, reply)
    return None
