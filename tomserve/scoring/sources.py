"""What is scored: items and responses in files that may be large, foreign or broken, read as far as they can be.

Both are indexed in one pass and read again where they are needed, so that memory does not grow with the texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from tomserve.errors import ConfigError, ContentError
from tomserve.items import Item, nfc, read_line
from tomserve.items.automaton import Automaton
from tomserve.scoring.pinned import PinnedFile, changed
from tomserve.scoring.standard import automaton
from tomserve.status import KNOWN, LENGTH, OK, UNFINISHED

Row = dict[str, Any]

NOISE = "noise.jsonl"
"""What was asked again lies beside the journal (see tomserve.runs.noise_check)."""

CACHED = 4096
"""Items kept at hand; rows are scored in the order of their items, so few are enough."""


class ItemFile:
    """The items of a JSONL file by id, and which of them tell the same story.

    Raises ContentError with file and line for a line that is no item, on opening (not JSON, no id, an id given twice)
    or when the item is asked for.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.factors: dict[str, set[type]] = {}
        self.benchmarks: set[str] = set()
        self.ids: list[str] = []
        self._place: dict[str, int] = {}
        self._lines: list[tuple[int, int, int]] = []  # line number, offset, hash of the story
        self._told: dict[int, list[int]] = {}
        try:
            self.file = PinnedFile(path)
        except OSError as error:
            raise ContentError(f"cannot be read ({error.strerror})", path=path) from None
        for number, offset, line in self.file.lines():
            if line.strip():
                self._index(number, offset, line)
        if not self._lines:
            raise ContentError("holds no items", path=path)
        self.item = lru_cache(maxsize=CACHED)(self._load)

    def _index(self, number: int, offset: int, line: bytes) -> None:
        try:
            data = orjson.loads(line.removeprefix(_BOM))
            identifier, factors = data["id"], data.get("factors") or {}
            story = hash((data.get("cluster"), *data["story"]))
            known = type(identifier) is str and isinstance(factors, dict)
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
            known = False
        if not known:
            read_line(self.path, number, line)  # says what is wrong with it
            raise ContentError("is not an item", path=self.path, line=number)
        identifier = nfc(identifier)
        if (first := self._place.get(identifier)) is not None:
            reason = f"{identifier!r} was already given in line {self._lines[first][0]}"
            raise ContentError(reason, path=self.path, line=number, field="id")
        place = self._place[identifier] = len(self.ids)
        self.ids.append(identifier)
        self._lines.append((number, offset, story))
        self._told.setdefault(story, []).append(place)
        self.benchmarks.add(str(data.get("benchmark")))
        for name, value in factors.items():
            self.factors.setdefault(name, set()).add(type(value))

    def place(self, identifier: str) -> int | None:
        """The position of that item in `ids`, None for an unknown one."""
        return self._place.get(nfc(identifier))

    def _load(self, place: int) -> Item:
        number, offset, _ = self._lines[place]
        return read_line(self.path, number, self.file.line(offset).removeprefix(_BOM))

    def others(self, place: int) -> list[Automaton]:
        """Rationales of the other questions about the story of this item, each once."""
        own = self.item(place).gold
        siblings = (self.item(other).gold for other in self._told[self._lines[place][2]] if other != place)
        return list(dict.fromkeys(automaton(gold) for gold in siblings if gold is not None and gold != own))


class Problems:
    """Lines of a file that could not be read: what was wrong, how many, and the first line of each kind."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._counts: Counter[str] = Counter()
        self._first: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._counts)

    def add(self, kind: str, line: int) -> None:
        """Count one line."""
        self._counts[kind] += 1
        self._first.setdefault(kind, line)

    def __str__(self) -> str:
        listed = ", ".join(f"{count} {kind} (line {self._first[kind]})" for kind, count in sorted(self._counts.items()))
        return f"{self.path}: {self._counts.total()} lines not read: {listed}"


class ResponseFile:
    """The rows of a journal, or of another tool's JSONL, by item, strategy and model; of two the later wins.

    A row needs `item` and `text` (or a `status` that says why there is none); `strategy` ("vanilla"), `model`,
    `turn` (0) and `status` ("ok") may be left out. Lines that are not such rows, or of unknown items, are counted in
    `problems`. size: how many bytes of the file are read, None for as many as it has when it is opened. turns: how many
    turns a conversation of a strategy has, where it is not one; where the last of them is missing the conversation is a
    row of status "unfinished", without an answer.
    A status that nobody knows is the row's outcome, a failure (see tomserve.status).
    Raises ConfigError where the file cannot be read, or no line of it can, or the status of a line is no text.
    """

    _needed = True
    """Whether a file without a usable line is refused."""

    def __init__(
        self,
        path: Path,
        known: ItemFile,
        model: str,
        *,
        foreign: bool = False,
        size: int | None = None,
        turns: Mapping[str, int] | None = None,
    ) -> None:
        self.problems = Problems(path)
        self.repeated = 0  # rows of a foreign file that a later row replaces; in a journal that is a retry
        self._foreign = foreign
        self._turns = turns or {}
        self._defaults = {"model": model, "strategy": "vanilla", "status": OK, "turn": 0}
        self._arms: dict[tuple[Any, str], int] = {}
        self._known = known
        self._at: dict[int, int] = {}  # packed: a tuple a row would cost more than the rest together
        try:
            self.file = PinnedFile(path, size)
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
        example = b""
        for number, offset, line in self.file.lines():
            if not line.endswith(b"\n") and not _is_json(line):
                self.problems.add("torn off at the end", number)
            elif line.strip() and not self._index(number, offset, line):
                example = example or line
        if (example or foreign) and not self._at and self._needed:
            raise ConfigError(
                f"{path}: no line of it is a response to a known item"
                + (f"; {self.problems}" if self.problems else "")
                + ". A line needs item and text, "
                'e.g. {"item": "...", "strategy": "vanilla", "text": "..."}'
            )

    def _index(self, number: int, offset: int, line: bytes) -> bool:
        row = self._parse(line)
        if isinstance(row, str):
            self.problems.add(row, number)
            return False
        if type(row["status"]) is not str or not row["status"]:
            if not self._needed:
                self.problems.add("with a status that is no text", number)
                return False
            found = repr(row["status"])[:60]  # left out of the table, the row would flatter its model
            raise ConfigError(f"{self.problems.path}:{number}: field 'status' is {found}; expected text: {KNOWN}")
        if (place := self._known.place(row["item"])) is None:
            self.problems.add("of unknown items", number)
            return False
        arm = self._arms.setdefault(self._arm(row), len(self._arms))
        key, value = place << 20 | arm, row["turn"] << 48 | offset
        # Of several turns the last is scored; of two rows of one turn the later wins.
        if self._foreign and key in self._at and self._at[key] >> 48 == row["turn"]:
            self.repeated += 1
        self._at[key] = max(value, self._at.get(key, 0))
        return True

    def _arm(self, row: Row) -> tuple[Any, str]:
        return row["model"], row["strategy"]

    def _parse(self, line: bytes) -> Row | str:
        try:
            row = orjson.loads(line.removeprefix(_BOM))
        except orjson.JSONDecodeError:
            return "not JSON"
        if not isinstance(row, dict):
            return "not a response"
        row = {**self._defaults, **{name: value for name, value in row.items() if value is not None}}
        if row.get("schema", 1) != 1:
            return "of another schema"
        for name, kind in (("item", str), ("strategy", str), ("model", str), ("turn", int)):
            if type(row.get(name)) is not kind:
                return f"without {name}" if row.get(name) is None else f"with a {name} that is no {_KINDS[kind]}"
        if not 0 <= row["turn"] < 2**15:
            return "with a turn out of range"
        text = row.get("text")
        read = row["status"] == OK or (row["status"] == LENGTH and text is not None)
        if read and not isinstance(text, str):
            return "without text"
        return row

    def __len__(self) -> int:
        return len(self._at)

    def rows(self, places: Collection[int] | None = None) -> Iterator[tuple[int, Row]]:
        """The rows that count with the place of their item, sorted by item, model and strategy; with `places` only
        those of these items."""
        items = {
            place: rank
            for rank, place in enumerate(sorted(range(len(self._known.ids)), key=self._known.ids.__getitem__))
        }
        arms = {arm: rank for rank, (_, arm) in enumerate(sorted(self._arms.items()))}
        wanted = self._at if places is None else [key for key in self._at if key >> 20 in places]
        for key in sorted(wanted, key=lambda key: items[key >> 20] << 20 | arms[key & 0xFFFFF]):
            yield key >> 20, self._row(key)

    def _row(self, key: int) -> Row:
        try:
            row = orjson.loads(self.file.line(self._at[key] & 0xFFFFFFFFFFFF).removeprefix(_BOM))
        except orjson.JSONDecodeError:  # it was a row when the file was opened
            raise changed(self.file.path) from None
        row = {**self._defaults, **{name: value for name, value in row.items() if value is not None}}
        if row["turn"] + 1 < self._turns.get(row["strategy"], 1):  # what was said before the last turn is no answer
            return {**row, "status": UNFINISHED, "text": None, "reasoning": None}
        return row


class NoiseFile(ResponseFile):
    """The rows of ``noise.jsonl`` by item, strategy and requests in flight (`concurrency`); of two the later wins.
    It is compared and never scored, so a file without a usable line is one in which nothing was asked again."""

    _needed = False

    def _arm(self, row: Row) -> tuple[Any, str]:
        return row["concurrency"], row["strategy"]

    def _parse(self, line: bytes) -> Row | str:
        row = super()._parse(line)
        return row if isinstance(row, str) or type(row.get("concurrency")) is int else "without concurrency"

    def again(self, place: int, strategy: str) -> list[tuple[int, Row]]:
        """(requests in flight, row) of every time that the item at `place` was asked again, by that strategy."""
        arms = sorted((level, arm) for (level, name), arm in self._arms.items() if name == strategy)
        return [(level, self._row(place << 20 | arm)) for level, arm in arms if place << 20 | arm in self._at]


_KINDS: dict[type, str] = {str: "text", int: "whole number"}
_BOM = b"\xef\xbb\xbf"


def _is_json(line: bytes) -> bool:
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return True
