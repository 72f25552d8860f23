"""A turn of a conversation, and the reply to it.

A strategy asks about an item in one turn or in several. A turn says what is sent to the model; a reply says what came
back, so that the next turn can be made from it.

>>> turn = Turn(({"role": "user", "content": "Who saw the box?"},), max_tokens=64)
>>> turn.number, turn.schema
(0, None)
>>> Reply('{"seen": ["Ann"]}').json()
{'seen': ['Ann']}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from tomserve.scoring.thoughts import split_thoughts
from tomserve.status import LENGTH, OK

Message = dict[str, str]
"""One message of a chat, with its `role` and its `content`."""


class Turn(NamedTuple):
    """What one request of a strategy asks.

    messages: what is sent, each with `role` and `content`.
    schema: the JSON schema of the reply; None for a reply in free text.
    max_tokens: how many tokens the reply may have; 0 for the number of the strategy.
    fields: further fields of the request body, such as ``stop`` or ``temperature``, which replace those of the run.
    number: the place of the turn in its conversation, from 0; a conversation numbers its turns itself.
    """

    messages: Sequence[Message]
    schema: dict[str, Any] | None = None
    max_tokens: int = 0
    fields: Mapping[str, Any] = {}
    number: int = 0


class Reply(NamedTuple):
    """What came back for a turn.

    text: what the model said, "" where it said nothing.
    reasoning: its thinking, where the server returns it apart from the answer.
    status: "ok", or "length" for a text that was cut off at its number of tokens.
    tokens: where the turn asked for them, the tokens of the prompt or the reply with their log-probabilities, as
    pairs (token, log-probability or None where the server gives none). skipped: how many tokens stood before these,
    where only the last ones were kept.
    """

    text: str = ""
    reasoning: str | None = None
    status: str = OK
    tokens: Sequence[tuple[str, float | None]] | None = None
    skipped: int = 0

    @property
    def cut(self) -> bool:
        """Whether the text was cut off at its number of tokens."""
        return self.status == LENGTH

    def said(self) -> Reply:
        """The reply without thoughts that a server left in its text (see tomserve.scoring.thoughts).

        >>> Reply("<think>Ann left.</think>\\n\\ntea").said().text
        'tea'

        Thoughts that were cut off leave no text.
        """
        said = split_thoughts(self.text)
        return self if said.text is self.text else self._replace(text=said.text.lstrip())

    def json(self) -> Any:
        """The text as JSON. Raises ValueError where it is none, such as a text that was cut off."""
        return orjson.loads(self.text)
