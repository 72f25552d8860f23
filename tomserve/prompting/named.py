"""A named turn: the templates and settings from which a strategy makes the turns of one name."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson

from tomserve.errors import ContentError
from tomserve.items import Item
from tomserve.prompting.people import people_of
from tomserve.prompting.templates import Template, variables_used
from tomserve.prompting.turn import Message, Turn

VARIABLES = ("story", "question", "choices", "factors", "benchmark", "people", "person")
"""The variables that the templates of every part see; a shared turn's see only those that it is shared by."""

_PLAIN = frozenset({"story", "question", "choices", "benchmark"})
"""Variables whose values can be keys of a cache."""

REMEMBERED = 1024
"""How many texts of a template that many items share are kept, by the variables that it uses."""

ROTATION_SEED = b"rotation-1"
"""The seed by which stories get their demonstrations; it never changes, so that a prompt can be made again."""


def variables_of(item: Item, used: frozenset[str]) -> dict[str, Any]:
    """The variables of an item. Who is asked about is only found out where that is used, since it takes time."""
    known: dict[str, Any] = {
        "story": item.story,
        "question": item.question,
        "choices": item.choices,
        "factors": item.factors,
        "benchmark": item.benchmark,
    }
    if "people" in used or "person" in used:
        people = people_of(item)
        known["people"], known["person"] = people, people[0] if people else ""
    return known


class NamedTurn:
    """Makes turns.

    system, user, schema: the templates; system and schema may be missing (None).
    max_tokens: how many tokens a reply may have. fields: further fields of the request.
    shared: the variables of an item that the templates see; None for all.
    demonstrations: messages that follow the system message. Of several alternatives a story gets one (see
    `alternative`).
    system_role: False for models without a system role: the system text then goes into the first user message.

    Raises ContentError where a template of a shared turn uses another variable.
    """

    def __init__(
        self,
        templates: Mapping[str, Template],
        *,
        max_tokens: int,
        fields: Mapping[str, Any],
        system_role: bool,
        shared: Sequence[str] | None = None,
        demonstrations: Sequence[Sequence[Message]] = ((),),
    ) -> None:
        self.max_tokens, self.fields, self.shared = max_tokens, fields, shared
        self.user, self.system, self.schema = templates["user"], templates.get("system"), templates.get("schema")
        self.templates = list(templates.values())
        self.uses = variables_used(self.templates)
        self._varies = self.system is not None and bool(self.system.uses)
        self._system_role, self._demonstrations = system_role, [list(one) for one in demonstrations]
        texts = [tuple(message["content"] for message in one) for one in self._demonstrations]
        self._ranks = [sorted(texts).index(text) for text in texts]
        self._systems: dict[str, Message] = {}
        self._schema = _cached(self.schema, self._parsed_schema)
        self._opening = _cached(self.system, self._rendered_opening)

    def variables(self, item: Item) -> dict[str, Any]:
        """The variables of an item that the templates see."""
        known = variables_of(item, self.uses)
        return known if self.shared is None else {name: known[name] for name in self.shared if name in known}

    def turn(self, variables: Mapping[str, Any], after: Sequence[Message] | None = None) -> Turn:
        """The turn for these variables. after: the messages that it continues; None where it begins a chat."""
        text = self.user.render(variables)
        if after is not None:
            messages = (*after, {"role": "user", "content": text})
        else:
            opening = self.opening(variables)
            if not self._system_role and opening and opening[0]["role"] == "system":
                first = opening[0]["content"]
                if len(opening) == 1:
                    text, opening = f"{first}\n\n{text}", []
                else:
                    opening = [{**opening[1], "content": f"{first}\n\n{opening[1]['content']}"}, *opening[2:]]
            messages = (*opening, {"role": "user", "content": text})
        return Turn(messages, self._schema(variables), self.max_tokens, self.fields)

    def opening(self, variables: Mapping[str, Any]) -> list[Message]:
        """The messages that begin a chat: the system message, if any, and the demonstrations."""
        opening = self.fixed_opening(variables)
        if len(self._demonstrations) == 1:  # they are part of what is remembered
            return opening
        return [*opening, *self._demonstrations[self.alternative(variables)]]

    def openings(self, variables: Mapping[str, Any]) -> list[list[Message]]:
        """Every opening that a story may get: as many as there are alternative demonstrations."""
        if len(self._demonstrations) == 1:
            return [self.fixed_opening(variables)]
        return [[*self.fixed_opening(variables), *shown] for shown in self._demonstrations]

    def fixed_opening(self, variables: Mapping[str, Any]) -> list[Message]:
        """What of the opening is the same for all stories: all of it, unless demonstrations are drawn for each."""
        opening: list[Message] = self._opening(variables)
        return opening

    def alternative(self, variables: Mapping[str, Any]) -> int:
        """Which of the alternative demonstrations a story gets.

        It is drawn by a digest of the story's sentences and a fixed seed, so that all questions about a story get the
        same one, and that over many stories each comes up about equally often, whatever the stories are about.
        """
        several = len(self._demonstrations)
        return _drawn(tuple(variables["story"])) % several if several > 1 else 0

    def varying(self, variables: Mapping[str, Any]) -> tuple[Any, ...]:
        """What of the opening depends on the item: the system text, the place of the demonstration among all of them in
        the order of their texts (so that those which begin alike stand together); or nothing."""
        system = (self._opening(variables)[0]["content"],) if self._varies else ()
        return (*system, self._ranks[self.alternative(variables)]) if len(self._demonstrations) > 1 else system

    def _rendered_opening(self, variables: Mapping[str, Any]) -> list[Message]:
        shown = self._demonstrations[0] if len(self._demonstrations) == 1 else []
        if self.system is None:
            return [*shown]
        text = self.system.render(variables)
        if len(self._systems) >= REMEMBERED:
            self._systems.clear()
        # The same message for the same text, so that what was made of it before is found again.
        return [self._systems.setdefault(text, {"role": "system", "content": text}), *shown]

    def _parsed_schema(self, variables: Mapping[str, Any]) -> dict[str, Any] | None:
        if self.schema is None:
            return None
        return _parse_schema(self.schema.render(variables), self.schema.path)


def _cached(template: Template | None, make: Callable[[Mapping[str, Any]], Any]) -> Callable[[Mapping[str, Any]], Any]:
    """The function `make`, of the variables that the template uses, with a memory: many items share these."""
    uses = sorted(template.uses) if template is not None else []
    if not uses:
        made: list[Any] = []

        def constant(variables: Mapping[str, Any]) -> Any:
            if not made:
                made.append(make(variables))
            return made[0]

        return constant
    if not _PLAIN.issuperset(uses):
        return make
    key, memory = itemgetter(*uses), dict[Any, Any]()

    def remembered(variables: Mapping[str, Any]) -> Any:
        try:
            return memory[key(variables)]
        except (KeyError, TypeError):  # it is new, or a program gave a list, or a shared turn lacks the variable
            found = make(variables)
        if len(memory) >= REMEMBERED:
            memory.clear()
        with contextlib.suppress(TypeError):
            memory[key(variables)] = found
        return found

    return remembered


@lru_cache(maxsize=REMEMBERED)
def _drawn(story: tuple[str, ...]) -> int:
    """A number that is drawn for a story by a fixed seed."""
    digest = hashlib.blake2b("\x1f".join(story).encode(), digest_size=8, salt=ROTATION_SEED).digest()
    return int.from_bytes(digest, "big")


@lru_cache(maxsize=REMEMBERED)  # many items share a schema, which mostly depends on choices and sentence count
def _parse_schema(text: str, path: Path) -> dict[str, Any]:
    try:
        schema = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ContentError(f"does not render to JSON: {error.msg}", path=path, line=error.lineno) from None
    if not isinstance(schema, dict):
        raise ContentError("does not render to a JSON object", path=path)
    return schema
