"""Read responses from JSONL files that may be large, partly broken, or written by another tool.

Each file is indexed in one pass, and its lines are read again when they are needed, so that memory does not grow with
the length of the texts (tomserve.scoring.itemfile reads the items).
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from tomserve.errors import ConfigError
from tomserve.scoring.graded import FIELD
from tomserve.scoring.itemfile import BOM, ItemFile
from tomserve.scoring.latest import OFFSET, Latest, Ordered, key_of, offset_of, place_of
from tomserve.scoring.pinned import Mark, PinnedFile, changed
from tomserve.scoring.samples import sample_of
from tomserve.status import KNOWN, LENGTH, OK, UNFINISHED

__all__ = ["NOISE", "ItemFile", "NoiseFile", "Problems", "ResponseFile", "Row"]

Row = dict[str, Any]

NOISE = "noise.jsonl"
"""Name of the file in a run folder that holds the replies of the noise check (see tomserve.runs.noise_check)."""


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

    def as_json(self) -> dict[str, list[int]]:
        """For each kind of problem how many lines have it, and which was the first."""
        return {kind: [count, self._first[kind]] for kind, count in sorted(self._counts.items())}

    def after(self, counted: Mapping[str, Sequence[int]]) -> Problems:
        """These problems after those of earlier lines, which are given as `as_json` gives them."""
        found = Problems(self.path)
        for kind, (count, first) in (*counted.items(), *self.as_json().items()):
            found._counts[kind] += count
            found._first.setdefault(kind, first)
        return found

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
    "unfinished" without an answer. after: the mark behind which rows are read.

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
        after: Mark | None = None,
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
        self.alone = not self._talking
        """Whether every row alone is the whole reply to its question: no turn of a conversation, no sample, and
        given by no person nor graded by another tool."""
        self.graded = False
        """Whether another tool has graded any of the replies (field `graded`)."""
        self._known = known
        self._continued = after is not None
        try:
            self.file = PinnedFile(path, size, after)
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
        self._latest = self._indexed()

    def _indexed(self) -> Latest:
        """The rows that count, after all lines were read."""
        keys, values = array("Q"), array("Q")
        example = b""
        for number, offset, line in self.file.lines():
            if not line.endswith(b"\n") and not _is_json(line):
                self.problems.add("torn off at the end", number)
            elif (found := self._index(number, line)) is not None:
                keys.append(found[0])
                values.append(found[1] << OFFSET | offset)
            elif line.strip():
                example = example or line
        if (example or self.foreign) and not keys and self._needed and not self._continued:
            raise ConfigError(
                f"{self.problems.path}: no line of it is a response to a known item"
                + (f"; {self.problems}" if self.problems else "")
                + ". A line needs item and text, "
                'e.g. {"item": "...", "strategy": "vanilla", "text": "..."}'
            )
        # The row that ended a conversation is scored, else the last turn; of two rows of one turn the later one.
        latest, repeated = Latest.of(keys, values)
        self.repeated = repeated if self.foreign else 0
        return latest

    def _index(self, number: int, line: bytes) -> tuple[int, int] | None:
        """The key of the row on a line, and its rank among the rows of that key; None where there is no row."""
        row = self._parse(line)
        if isinstance(row, str):
            if line.strip():
                self.problems.add(row, number)
            return None
        if type(row["status"]) is not str or not row["status"]:
            if not self._needed:
                self.problems.add("with a status that is no text", number)
                return None
            found = repr(row["status"])[:60]  # without the row, the model would look better than it is
            raise ConfigError(f"{self.problems.path}:{number}: field 'status' is {found}; expected text: {KNOWN}")
        if (place := self._known.place(row["item"])) is None:
            self.problems.add("of unknown items", number)
            return None
        arm = self._arms.setdefault(self._arm(row), len(self._arms))
        self.of_people = self.of_people or isinstance(row.get("person"), str)
        self.graded = self.graded or type(row.get(FIELD)) is dict
        rank = ("closes" in row) << 15 | row["turn"]
        if rank or self.of_people or self.graded or "sample" in row:
            self.alone = False
        return key_of(place, arm), rank

    @property
    def sampled(self) -> bool:
        """Whether any question was asked several times, so that it has several samples."""
        return any(sample for _, _, sample in self._arms)

    @property
    def strategies(self) -> set[str]:
        """The strategies that have a row."""
        return {strategy for _, strategy, _ in self._arms}

    def _arm(self, row: Row) -> tuple[Any, str, int]:
        return row["model"], row["strategy"], sample_of(row)

    def _loaded(self, line: bytes) -> Any:
        """The JSON of a line, with the defaults of fields that are left out or null. Raises JSONDecodeError."""
        row = orjson.loads(line.removeprefix(BOM))
        if type(row) is dict:
            if None in row.values():
                row = {name: value for name, value in row.items() if value is not None}
            for name, value in self._defaults.items():
                if name not in row:
                    row[name] = value
        return row

    def _parse(self, line: bytes) -> Row | str:
        try:
            row = self._loaded(line)
        except orjson.JSONDecodeError:
            return "not JSON"
        if not isinstance(row, dict):
            return "not a response"
        if row.get("schema", 1) != 1:
            return "of another schema"
        for name, kind in _NEEDED:
            if type(row.get(name)) is not kind:
                return f"without {name}" if row.get(name) is None else f"with a {name} that is no {_KINDS[kind]}"
        if not 0 <= row["turn"] < 2**15:
            return "with a turn out of range"
        if "sample" in row:
            if not self.foreign and type(row["sample"]) is not int:
                return "with a sample that is no whole number"
            if not 0 <= sample_of(row) < 2**15:
                return "with a sample out of range"
        if "closes" in row:
            for name, wanted in _CLOSING.items():
                if name in row and type(row[name]) is not wanted:
                    return f"with a {name} that is no {_KINDS[wanted]}"
        if "error" in row and type(row["error"]) is not str:
            return "with an error that is no text"
        if type(text := row.get("text")) is not str:
            status = row["status"]
            if status == OK or (status == LENGTH and text is not None):
                return "without text"
        return row

    def __len__(self) -> int:
        return len(self._latest.keys)

    def ordered(self, places: Collection[int] | None = None) -> Ordered:
        """Which rows count, sorted by item, model, strategy and sample (`row` reads one of them).

        places: only the rows of these items; None for all.
        """
        ids = self._known.ids
        items, arms = array("Q", bytes(8 * len(ids))), array("Q", bytes(8 * len(self._arms)))
        for rank, place in enumerate(sorted(range(len(ids)), key=ids.__getitem__)):
            items[place] = rank
        questions, asked = array("Q", arms), dict[tuple[Any, str], int]()
        for rank, ((model, strategy, _), arm) in enumerate(sorted(self._arms.items())):
            arms[arm] = rank
            questions[arm] = asked.setdefault((model, strategy), len(asked))
        return self._latest.ordered(items, arms, questions, places)

    def rows(self, places: Collection[int] | None = None) -> Iterator[tuple[int, Row]]:
        """The rows that count, each with the place of its item in `ItemFile.ids`, in the order of `ordered`."""
        keys, values, _ = self.ordered(places)
        for key, value in zip(keys, values, strict=True):
            yield place_of(key), self.row(key, value)

    def row(self, key: int, value: int) -> Row:
        """The row of that key and value (see tomserve.scoring.latest)."""
        try:
            row: Row = self._loaded(self.file.line(offset_of(value)))
        except orjson.JSONDecodeError:  # it was JSON when the file was opened
            raise changed(self.file.path) from None
        if "closes" in row:
            row["text"] = row.get("conclusion", row.get("text"))
        elif row["strategy"] in self._talking:  # an earlier turn is no answer
            row |= {"status": UNFINISHED, "text": None, "reasoning": None}
        if self._first and key in self._first:
            row["key"] = self._first[key]
        return row

    @property
    def places(self) -> set[int]:
        """The places of the items that have a row."""
        return self._latest.places()

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
                    self._first[key_of(place, arm)] = key


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
        keys = [(level, key_of(place, arm)) for level, arm in arms]
        return [(level, self.row(key, value)) for level, key in keys if (value := self._latest.find(key)) is not None]


_NEEDED = (("item", str), ("strategy", str), ("model", str), ("turn", int))
_CLOSING: dict[str, type] = {"closes": int, "conclusion": str}
_KINDS: dict[type, str] = {str: "text", int: "whole number"}


def _is_json(line: bytes) -> bool:
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return True
