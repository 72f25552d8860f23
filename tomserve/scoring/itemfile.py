"""Read the items of a JSONL file that may be large: it is indexed in one pass, and a line is read again when its item
is needed, so that memory does not grow with the length of the texts.
"""

from __future__ import annotations

from array import array
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from tomserve.errors import ContentError
from tomserve.items import Item, nfc, read_line, wrong_factor
from tomserve.items.automaton import Automaton
from tomserve.scoring.pinned import PinnedFile
from tomserve.scoring.standard import automaton

CACHED = 1024
"""How many items are kept in memory. Rows are scored in the order of their items, so a few are enough."""

BOM = b"\xef\xbb\xbf"
"""The bytes with which some programs begin a file of UTF-8."""


class ItemFile:
    """The items of a JSONL file by id, and which of them tell the same story.

    path: the file. Raises ContentError with file and line for a line that is no item: when the file is opened, if it is
    not JSON, has no id or one that was given before, else when the item is read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.factors: dict[str, set[type]] = {}
        self.benchmarks: set[str] = set()
        self.varied = False  # whether any item is a variant of another one
        self.ids: list[str] = []
        self._place: dict[str, int] = {}
        self._numbers, self._offsets = array("I"), array("Q")  # of each item's line
        self._next = array("I")  # for each item the next one with the same story, and for the last of them the first
        last: dict[int, int] = {}  # story -> the place of the last item that told it
        try:
            self.file = PinnedFile(path)
        except OSError as error:
            raise ContentError(f"cannot be read ({error.strerror})", path=path) from None
        for number, offset, line in self.file.lines():
            if line.strip():
                self._index(number, offset, line, last)
        if not self.ids:
            raise ContentError("holds no items", path=path)
        self._remember()

    def _remember(self) -> None:
        self.item = lru_cache(maxsize=CACHED)(self._load)
        self.others = lru_cache(maxsize=CACHED)(self._others)

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs to read items by their places: not their names, unless variants name others."""
        kept = {name: value for name, value in vars(self).items() if name not in ("item", "others")}
        return kept if self.varied else {**kept, "ids": [], "_place": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._remember()

    def _index(self, number: int, offset: int, line: bytes, last: dict[int, int]) -> None:
        try:
            data = orjson.loads(line.removeprefix(BOM))
            identifier, factors = data["id"], data.get("factors") or {}
            story = hash((data.get("cluster"), *data["story"]))
            known = type(identifier) is str and isinstance(factors, dict)
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
            known = False
        if not known:
            read_line(self.path, number, line)  # raises an error that says what is wrong with the line
            raise ContentError("is not an item", path=self.path, line=number)
        identifier = nfc(identifier)
        place = len(self.ids)
        if (first := self._place.setdefault(identifier, place)) != place:
            reason = f"{identifier!r} was already given in line {self._numbers[first]}"
            raise ContentError(reason, path=self.path, line=number, field="id")
        self.ids.append(identifier)
        self._numbers.append(number)
        self._offsets.append(offset)
        if (before := last.get(story)) is None:
            self._next.append(place)
        else:
            self._next.append(self._next[before])
            self._next[before] = place
        last[story] = place
        self.benchmarks.add(str(data.get("benchmark")))
        self.varied = self.varied or data.get("base") is not None
        for name, value in factors.items():
            if (kinds := self.factors.get(name)) is None:
                if (wrong := wrong_factor(name)) is not None:  # items without any answer are never checked as a whole
                    raise ContentError(wrong, path=self.path, line=number, field="factors")
                kinds = self.factors[name] = set()
            kinds.add(type(value))

    def place(self, identifier: str) -> int | None:
        """The position of the item with that id in `ids`, None where there is none."""
        return self._place.get(nfc(identifier))

    def _load(self, place: int) -> Item:
        return read_line(self.path, self._numbers[place], self.file.line(self._offsets[place]).removeprefix(BOM))

    def original(self, item: Item) -> Item | None:
        """The item that a variant was made from; None for what is no variant, and where the file does not hold it."""
        return None if item.base is None or (place := self.place(item.base)) is None else self.item(place)

    def _others(self, place: int) -> tuple[Automaton, ...]:
        """The compiled gold rationales of the other questions about the story of the item at `place`, each once."""
        told, other = [], self._next[place]
        while other != place:
            told.append(other)
            other = self._next[other]
        own = self.item(place).gold
        siblings = (self.item(other).gold for other in sorted(told))
        return tuple(dict.fromkeys(automaton(gold) for gold in siblings if gold is not None and gold != own))
