"""Read responses and items from large JSONL files: each is indexed in one pass, the latest row of a question counts,
and lines are read again when needed.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import polars as pl

from tomserve.content.files import FileSnapshot, changed_error, load_json, refuse_os_errors
from tomserve.errors import ConfigError, ContentError
from tomserve.items import Gold, Item, nfc, read_line, refuse_factors, wrong_factor
from tomserve.items.rationale import Automaton
from tomserve.scoring.grades import FIELD
from tomserve.scoring.metrics import compile_gold
from tomserve.scoring.score import sample_of
from tomserve.status import KNOWN, LENGTH, OK, UNFINISHED

CACHED = 1024
"""How many items are kept in memory. Rows are scored in the order of their items, so a few are enough."""

BOM = b"\xef\xbb\xbf"  # the bytes with which some programs begin a file of UTF-8


class ItemFile:
    """The items of a JSONL file by id, and which of them tell the same story. Raises ContentError by line: on opening
    for what is not JSON, has no id or one given before, else when the item is read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.factors: dict[str, set[type]] = {}
        self.benchmarks: set[str] = set()
        self.varied = False  # whether any item is a variant of another one
        self.ids: list[str] = []
        self._place: dict[str, int] = {}
        self._numbers, self._offsets = array("I"), array("Q")  # of each item's line
        self._next = array("I")  # for each item the next one with the same story, and for the last of them the first
        self._first = array("I")  # for each item the first one with the same story
        last: dict[int, int] = {}  # story -> the place of the last item that told it
        with refuse_os_errors(path):
            self.file = FileSnapshot(path)
        for number, offset, line in self.file.lines():
            if line.strip():
                self._index(number, offset, line, last)
        if not self.ids:
            raise ContentError("holds no items", path=path)
        self._remember()

    def _remember(self) -> None:
        self.item = lru_cache(maxsize=CACHED)(self._load)
        self.others = lru_cache(maxsize=CACHED)(self._others)
        self.rationales = lru_cache(maxsize=CACHED)(self._rationales)

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs to read items by their places: not their names, unless variants name others."""
        kept = {name: value for name, value in vars(self).items() if name not in _MEMORIES}
        return kept if self.varied else {**kept, "ids": [], "_place": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._remember()

    def _index(self, number: int, offset: int, line: bytes, last: dict[int, int]) -> None:
        try:
            data = load_json(line.removeprefix(BOM))
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
            self._first.append(place)
        else:
            self._next.append(self._next[before])
            self._first.append(self._first[before])
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
        refuse_factors(self.factors, self.path, number)

    def place(self, identifier: str) -> int | None:
        """The position of the item with that id in `ids`, None where there is none."""
        return self._place.get(nfc(identifier))

    @cached_property
    def ranks(self) -> pl.Series:
        """The rank of the item at each place [n], in the order of their ids."""
        order = np.array(sorted(range(len(self.ids)), key=self.ids.__getitem__), dtype=np.uint32)
        ranks = np.empty_like(order)
        ranks[order] = np.arange(len(order), dtype=np.uint32)
        return pl.Series(ranks)

    def _load(self, place: int) -> Item:
        return read_line(self.path, self._numbers[place], self.file.line(self._offsets[place]).removeprefix(BOM))

    def original(self, item: Item) -> Item | None:
        """The item that a variant was made from; None for what is no variant, and where the file does not hold it."""
        return None if item.base is None or (place := self.place(item.base)) is None else self.item(place)

    def _others(self, place: int) -> tuple[Automaton, ...]:
        """The compiled gold rationales of the other questions about the story of the item at `place`, each once."""
        own, told = self.item(place).gold, self.rationales(self._first[place])
        return tuple(dict.fromkeys(compiled for gold, compiled in told.items() if gold != own))

    def _rationales(self, first: int) -> dict[Gold, Automaton]:
        """The compiled gold rationales of the questions about a story, each once. first: the place of its first one."""
        found: dict[Gold, Automaton] = {}
        place = first
        while True:
            if (gold := self.item(place).gold) is not None and gold not in found:
                found[gold] = compile_gold(gold)
            place = self._next[place]
            if place == first or len(found) == MOST_RATIONALES:
                return found


MOST_RATIONALES = 1000  # of one story that are told apart from an item's own
_MEMORIES = ("item", "others", "rationales")  # what a process of its own makes anew


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

    @classmethod
    def from_json(cls, path: Path, counted: Mapping[str, Sequence[int]]) -> Problems:
        """The problems of a file as `as_json` gave them."""
        found = cls(path)
        for kind, (count, first) in counted.items():
            found._counts[kind], found._first[kind] = count, first
        return found

    def __str__(self) -> str:
        listed = ", ".join(f"{count} {kind} (line {self._first[kind]})" for kind, count in sorted(self._counts.items()))
        return f"{self.path}: {self._counts.total()} lines not read: {listed}"


class ResponseFile:
    """The responses of a run's journal, or of another tool's JSONL file, by item, strategy, model and sample. Of two to
    the same question the later counts. A line needs `item`, and `text` or a `status` that says why there is none;
    `strategy` ("vanilla"), `model`, `turn` (0), `sample` (0) and `status` ("ok") may be left out. Lines that are no
    such rows, or name unknown items, are counted in `problems`. foreign: whether another tool wrote it; then lines that
    replace others are counted (`repeated`), which in a journal are retries. size: how many bytes to read. talking: the
    strategies that take several turns: of a conversation the row that ended it counts (`closes`), with what it came to
    (`conclusion`); without one it is "unfinished". Raises ConfigError where the file, or every line of it, cannot be
    read, or where a status is no text."""

    _needed = True  # whether a file without any usable line is refused

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
        self.foreign = foreign
        self.of_people = False  # whether any response was given by a person (field `person`) rather than a model
        self.graded = False  # whether another tool has graded any of the replies (field `graded`)
        self._talking = frozenset(talking)
        self._defaults = {"model": model, "strategy": "vanilla", "status": OK, "turn": 0}
        self._arms: dict[tuple[Any, str, int], int] = {}  # model, strategy and sample
        self._first: dict[tuple[int, int], str] = {}  # by place and arm
        self._known = known
        with refuse_os_errors(path):
            self.file = FileSnapshot(path, size)
        rows = self._read_rows()
        self._latest, same = rows, ["place", "arm"]
        if rows.select(same).is_duplicated().any():
            # The row that ended a conversation is scored, else the last turn; of two rows of one turn the later one.
            best = pl.col("rank").cum_max().shift(1).over(same)
            self.repeated = rows.select((pl.col("rank") == best).sum()).item() if foreign else 0
            self._latest = rows.sort("rank", maintain_order=True).unique(same, keep="last")
        else:
            self.repeated = 0

    def _read_rows(self) -> pl.DataFrame:
        """Where each row stands, in the order of the file: the `place` of its item, its `arm`, its `rank` among the
        rows of both, and the `offset` of its line."""
        places, arms, ranks, offsets = array("I"), array("I"), array("I"), array("Q")
        example = b""
        for number, offset, line in self.file.lines():
            if not line.endswith(b"\n") and not _is_json(line):
                self.problems.add("torn off at the end", number)
            elif (found := self._index(number, line)) is not None:
                for column, value in zip((places, arms, ranks, offsets), (*found, offset), strict=True):
                    column.append(value)
            elif line.strip():
                example = example or line
        if (example or self.foreign) and not places and self._needed:
            raise ConfigError(
                f"{self.problems.path}: no line of it is a response to a known item"
                + (f"; {self.problems}" if self.problems else "")
                + ". A line needs item and text, "
                'e.g. {"item": "...", "strategy": "vanilla", "text": "..."}'
            )
        columns = {"place": places, "arm": arms, "rank": ranks, "offset": offsets}
        return pl.DataFrame({name: np.array(held) for name, held in columns.items()})

    def _index(self, number: int, line: bytes) -> tuple[int, int, int] | None:
        """The place of the item of the row on a line, its arm and its rank; None where there is no row."""
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
        self.of_people = self.of_people or isinstance(row.get("person"), str)
        self.graded = self.graded or type(row.get(FIELD)) is dict
        return place, self._arms.setdefault(self._arm(row), len(self._arms)), ("closes" in row) << 15 | row["turn"]

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

    def _load_row(self, line: bytes) -> Any:
        """The JSON of a line, with the defaults of fields that are left out or null. Raises JSONDecodeError."""
        row = load_json(line.removeprefix(BOM))
        if type(row) is dict:
            if None in row.values():
                row = {name: value for name, value in row.items() if value is not None}
            for name, value in self._defaults.items():
                if name not in row:
                    row[name] = value
            if self.foreign and (sample := _whole_number(row.get("sample"))) is not None:
                row["sample"] = sample
        return row

    def _parse(self, line: bytes) -> Row | str:
        try:
            row = self._load_row(line)
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
        return self._latest.height

    def sort_rows(self, places: Collection[int] | None = None) -> pl.DataFrame:
        """The rows that count, sorted by item, model, strategy and sample: `place` of the item, `arm`, `offset` of the
        line, and the number of the `question` whose samples they are. places: only the rows of these items."""
        rows = self._latest
        if places is not None:
            rows = rows.filter(pl.col("place").is_in(pl.Series(list(places), dtype=pl.UInt32).implode()))
        turns, asked = [0] * len(self._arms), dict[tuple[Any, str], int]()
        questions = [*turns]
        for turn, ((model, strategy, _), arm) in enumerate(sorted(self._arms.items())):
            turns[arm] = turn
            questions[arm] = asked.setdefault((model, strategy), len(asked))
        rank, arms = (
            self._known.ranks.gather(rows["place"]),
            {"arm": range(len(turns)), "turn": turns, "asks": questions},
        )
        types = dict.fromkeys(arms, pl.UInt32)
        rows = rows.with_columns(rank=rank).join(pl.DataFrame(arms, schema=types), on="arm")
        rows = rows.sort("rank", "turn").with_columns(question=pl.struct("place", "asks").rle_id())
        return rows.select("place", "arm", "offset", "question")

    def rows(self, places: Collection[int] | None = None) -> Iterator[tuple[int, Row]]:
        """The rows that count, each with the place of its item in `ItemFile.ids`, in the order of `sort_rows`."""
        for place, arm, offset, _ in self.sort_rows(places).iter_rows():
            yield place, self.row(place, arm, offset)

    def row(self, place: int, arm: int, offset: int) -> Row:
        """The row at that offset, whose place and arm are these."""
        try:
            row: Row = self._load_row(self.file.line(offset))
        except orjson.JSONDecodeError:  # it was JSON when the file was opened
            raise changed_error(self.file.path) from None
        if "closes" in row:
            row["text"] = row.get("conclusion", row.get("text"))
        elif row["strategy"] in self._talking:  # an earlier turn is no answer
            row |= {"status": UNFINISHED, "text": None, "reasoning": None}
        if (first := self._first.get((place, arm))) is not None:
            row["key"] = first
        return row

    @property
    def places(self) -> set[int]:
        """The places of the items that have a row."""
        return set(self._latest["place"].unique())

    def key_by_first_turn(self, places: Collection[int]) -> None:
        """From now on give rows of conversations about these items the key of their first turn: two are comparable
        where they began with the same request, as what is asked later follows from the replies."""
        for _, _, line in self.file.lines() if self._talking else ():
            row = self._parse(line) if line.endswith(b"\n") else ""
            if not isinstance(row, str) and row["turn"] == 0 and row["strategy"] in self._talking:
                place, arm = self._known.place(row["item"]), self._arms.get(self._arm(row))
                if place is not None and place in places and arm is not None and isinstance(key := row.get("key"), str):
                    self._first[place, arm] = key


class NoiseFile(ResponseFile):
    """The replies of the noise check, by item, strategy and number of requests in flight (`concurrency`). They are
    compared and not scored, so that a file without any usable line is no error."""

    _needed = False
    _again: dict[tuple[int, str], list[tuple[int, int, int]]] | None = None

    def _arm(self, row: Row) -> tuple[Any, str, int]:
        return row["concurrency"], row["strategy"], sample_of(row)

    def _parse(self, line: bytes) -> Row | str:
        row = super()._parse(line)
        if isinstance(row, str) or (type(level := row.get("concurrency")) is int and 0 <= level < 2**31):
            return row
        return "without concurrency"

    def find_repeats(self, place: int, strategy: str) -> list[tuple[int, Row]]:
        """Pairs of (requests in flight, row), one for each time that the item was asked again by that strategy."""
        if self._again is None:
            self._again, names = {}, {arm: (level, name) for (level, name, _), arm in self._arms.items()}
            for at, arm, _, offset in self._latest.select("place", "arm", "rank", "offset").iter_rows():
                self._again.setdefault((at, names[arm][1]), []).append((names[arm][0], arm, offset))
        found = sorted(self._again.get((place, strategy), ()))
        return [(level, self.row(place, arm, offset)) for level, arm, offset in found]


_NEEDED = (("item", str), ("strategy", str), ("model", str), ("turn", int))
_CLOSING: dict[str, type] = {"closes": int, "conclusion": str}
_KINDS: dict[type, str] = {str: "text", int: "whole number"}


def _whole_number(value: Any) -> int | None:
    """A whole number as other tools write it, such as "1" or 1.0; None for anything else."""
    if type(value) is str and value.isascii() and value.isdecimal() and len(value) < 10:
        return int(value)
    return int(value) if type(value) is float and value.is_integer() else None


def _is_json(line: bytes) -> bool:
    try:
        load_json(line)
    except orjson.JSONDecodeError:
        return False
    return True
