"""Read items and responses from JSONL files that may be large, partly broken, or written by another tool.

Each file is indexed in one pass, and its lines are read again when they are needed, so that memory does not grow with
the length of the texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from tomserve.errors import ConfigError, ContentError
from tomserve.items import Item, nfc, read_line
from tomserve.items.automaton import Automaton
from tomserve.scoring.pinned import PinnedFile, changed
from tomserve.scoring.samples import sample_of
from tomserve.scoring.standard import automaton
from tomserve.status import KNOWN, LENGTH, OK, UNFINISHED

Row = dict[str, Any]

NOISE = "noise.jsonl"
"""Name of the file in a run folder that holds the replies of the noise check (see tomserve.runs.noise_check)."""

CACHED = 4096
"""How many items are kept in memory. Rows are scored in the order of their items, so a few are enough."""


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
            read_line(self.path, number, line)  # raises an error that says what is wrong with the line
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
        self.varied = self.varied or data.get("base") is not None
        for name, value in factors.items():
            self.factors.setdefault(name, set()).add(type(value))

    def place(self, identifier: str) -> int | None:
        """The position of the item with that id in `ids`, None where there is none."""
        return self._place.get(nfc(identifier))

    def _load(self, place: int) -> Item:
        number, offset, _ = self._lines[place]
        return read_line(self.path, number, self.file.line(offset).removeprefix(_BOM))

    def original(self, item: Item) -> Item | None:
        """The item that a variant was made from; None for what is no variant, and where the file does not hold it."""
        return None if item.base is None or (place := self.place(item.base)) is None else self.item(place)

    def others(self, place: int) -> list[Automaton]:
        """The compiled gold rationales of the other questions about the story of the item at `place`, each once."""
        own = self.item(place).gold
        siblings = (self.item(other).gold for other in self._told[self._lines[place][2]] if other != place)
        return list(dict.fromkeys(automaton(gold) for gold in siblings if gold is not None and gold != own))


class Problems:
    """The lines of a file that could not be read: for each kind of problem how many, and which was the first."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._counts: Counter[str] = Counter()
        self._first: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._counts)

    def add(self, kind: str, line: int) -> None:
        """Count one line, given by its number, with that kind of problem."""
        self._counts[kind] += 1
        self._first.setdefault(kind, line)

    def __str__(self) -> str:
        listed = ", ".join(f"{count} {kind} (line {self._first[kind]})" for kind, count in sorted(self._counts.items()))
        return f"{self.path}: {self._counts.total()} lines not read: {listed}"


class ResponseFile:
    """The responses of a run's journal, or of another tool's JSONL file, by item, strategy, model and sample.

    Of two responses to the same question the later counts, unless they are different samples of it (`sample`). A line
    needs `item`, and `text` or a `status` that says why there is none; `strategy` ("vanilla"), `model`, `turn` (0),
    `sample` (0) and `status` ("ok") may be left out. Any text is a status; an unknown one is a failure (see
    tomserve.status). Lines that are no such rows, or name unknown items, are counted in `problems`.

    path: the file. known: the items. model: the model of lines that name none. foreign: whether another tool wrote the
    file; then lines that replace others are counted, which in a journal are retries. size: how many bytes to read; None
    for all that the file has when it is opened. talking: the strategies whose questions take conversations of several
    turns. Of a conversation the row that ended it counts (field `closes`), with the text that the conversation came to
    (`conclusion`) where that is another one than the row's own; where no row ended it, it is a row of status
    "unfinished" without an answer.

    Raises ConfigError where the file, or every line of it, cannot be read, or where a status is no text.
    """

    _needed = True
    """Whether a file without any usable line is refused."""

    def __init__(
        self,
        path: Path,
        known: ItemFile,
        model: str,
        *,
        foreign: bool = False,
        size: int | None = None,
        talking: Collection[str] = (),
    ) -> None:
        self.problems = Problems(path)
        self.repeated = 0  # rows of another tool that a later row replaces; in a journal these are retries
        self.foreign = foreign
        self._talking = frozenset(talking)
        self._defaults = {"model": model, "strategy": "vanilla", "status": OK, "turn": 0}
        self._arms: dict[tuple[Any, str, int], int] = {}
        self._first: dict[int, str] = {}
        self.of_people = False
        """Whether any response was given by a person (field `person`) rather than a model."""
        self._known = known
        self._at: dict[
            int, int
        ] = {}  # packed into integers, because tuples would need more memory than everything else
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
            found = repr(row["status"])[:60]  # without the row, the model would look better than it is
            raise ConfigError(f"{self.problems.path}:{number}: field 'status' is {found}; expected text: {KNOWN}")
        if (place := self._known.place(row["item"])) is None:
            self.problems.add("of unknown items", number)
            return False
        arm = self._arms.setdefault(self._arm(row), len(self._arms))
        closes = "closes" in row
        self.of_people = self.of_people or isinstance(row.get("person"), str)
        key, value = place << 20 | arm, (closes << 15 | row["turn"]) << 48 | offset
        # The row that ended a conversation is scored, else the last turn; of two rows of one turn the later one.
        if self.foreign and key in self._at and self._at[key] >> 48 == value >> 48:
            self.repeated += 1
        self._at[key] = max(value, self._at.get(key, 0))
        return True

    @property
    def sampled(self) -> bool:
        """Whether any question was asked several times, so that it has several samples."""
        return any(sample for _, _, sample in self._arms)

    def _arm(self, row: Row) -> tuple[Any, str, int]:
        return row["model"], row["strategy"], sample_of(row)

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
        if not self.foreign and type(row.get("sample", 0)) is not int:
            return "with a sample that is no whole number"
        if not 0 <= sample_of(row) < 2**15:
            return "with a sample out of range"
        for name, wanted in _CLOSING.items():
            if "closes" in row and name in row and type(row[name]) is not wanted:
                return f"with a {name} that is no {_KINDS[wanted]}"
        text = row.get("text")
        read = row["status"] == OK or (row["status"] == LENGTH and text is not None)
        if read and not isinstance(text, str):
            return "without text"
        return row

    def __len__(self) -> int:
        return len(self._at)

    def rows(self, places: Collection[int] | None = None) -> Iterator[tuple[int, Row]]:
        """The rows that count, each with the place of its item in `ItemFile.ids`, sorted by item, model, strategy
        and sample.

        places: yield only the rows of these items; None for all.
        """
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
        except orjson.JSONDecodeError:  # it was JSON when the file was opened
            raise changed(self.file.path) from None
        row = {**self._defaults, **{name: value for name, value in row.items() if value is not None}}
        if "closes" in row:
            row["text"] = row.get("conclusion", row.get("text"))
        elif row["strategy"] in self._talking:  # an earlier turn is no answer
            row |= {"status": UNFINISHED, "text": None, "reasoning": None}
        if key in self._first:
            row["key"] = self._first[key]
        return row

    @property
    def places(self) -> set[int]:
        """The places of the items that have a row."""
        return {key >> 20 for key in self._at}

    def key_by_first_turn(self, places: Collection[int]) -> None:
        """From now on give a row that stands for a conversation about one of these items the key of its first turn.

        Two conversations are comparable where they began with the same request: what they ask later follows from the
        replies.
        """
        for _, _, line in self.file.lines() if self._talking else ():
            row = self._parse(line) if line.endswith(b"\n") else ""
            if not isinstance(row, str) and row["turn"] == 0 and row["strategy"] in self._talking:
                place, arm = self._known.place(row["item"]), self._arms.get(self._arm(row))
                if place is not None and place in places and arm is not None and isinstance(key := row.get("key"), str):
                    self._first[place << 20 | arm] = key


class NoiseFile(ResponseFile):
    """The replies of the noise check, by item, strategy and number of requests in flight (`concurrency`).

    Of two the later counts. They are compared with the scored replies and are not scored themselves, so that a file
    without any usable line is no error: nothing was asked again.
    """

    _needed = False

    def _arm(self, row: Row) -> tuple[Any, str, int]:
        return row["concurrency"], row["strategy"], sample_of(row)

    def _parse(self, line: bytes) -> Row | str:
        row = super()._parse(line)
        return row if isinstance(row, str) or type(row.get("concurrency")) is int else "without concurrency"

    def again(self, place: int, strategy: str) -> list[tuple[int, Row]]:
        """Pairs of (requests in flight, row), one for each time that the item was asked again by that strategy."""
        arms = sorted((level, arm) for (level, name, _), arm in self._arms.items() if name == strategy)
        return [(level, self._row(place << 20 | arm)) for level, arm in arms if place << 20 | arm in self._at]


_CLOSING: dict[str, type] = {"closes": int, "conclusion": str}
_KINDS: dict[type, str] = {str: "text", int: "whole number"}
_BOM = b"\xef\xbb\xbf"


def _is_json(line: bytes) -> bool:
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return True
