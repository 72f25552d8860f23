"""Millions of items in little memory: lines of JSON spill to a temporary file, and SQLite sorts them by long keys.

>>> lines = LineStore()
>>> for line in (b"one", b"two", b"three"):
...     lines.append(line)
>>> lines[1], lines[-1], list(lines.part([2, 0]).concat(lines.part([1])))
(b'two', b'three', [b'three', b'one', b'two'])
>>> list(sort_places([sort_key(("b", 2)), sort_key(("a", 10)), sort_key(("a", 9)), sort_key(("a", 9))]))
[2, 3, 1, 0]
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import tempfile
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, overload

import orjson

from tomserve.content import PACKAGE, cache, code_digest, digest_of, files
from tomserve.errors import ConfigError, MachineError
from tomserve.items import Factor, Item, is_variant, read_written_lines, where
from tomserve.items.draw import WHOLE_CLUSTERS, Draw, describe, draw_places, share_of

HELD = 1 << 24  # so many bytes of lines are held in memory at most before they go to the file


class LineStore(Sequence[bytes]):
    """A sequence of lines, in memory up to HELD bytes and else in a temporary file. Parts and sums of sequences share
    the file, so that they take 16 bytes a line; it is read by one thread at a time."""

    def __init__(self, file: tempfile.SpooledTemporaryFile[bytes] | None = None) -> None:
        self._file = file or tempfile.SpooledTemporaryFile(HELD, prefix="tomserve-items-")  # noqa: SIM115
        self._starts, self._ends = array("Q"), array("Q")

    def append(self, line: bytes) -> None:
        """Add a line at the end. Raises MachineError where there is no room for it."""
        try:
            self._starts.append(self._file.seek(0, os.SEEK_END))
            self._file.write(line)
        except OSError as error:
            raise MachineError(
                f"the items take more than {HELD >> 20} MB, and no temporary file can take them ({error.strerror}); "
                "free space, or name another folder by TMPDIR"
            ) from None
        self._ends.append(self._starts[-1] + len(line))

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> list[bytes]: ...
    def __getitem__(self, place: int | slice) -> bytes | list[bytes]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        start = self._starts[place]
        self._file.seek(start)
        return self._file.read(self._ends[place] - start)

    @property
    def size(self) -> int:
        """How many bytes all these lines have together."""
        return sum(self._ends) - sum(self._starts)

    def part(self, places: Iterable[int]) -> LineStore:
        """The lines at these places."""
        part = LineStore(self._file)
        for place in places:
            part._starts.append(self._starts[place])
            part._ends.append(self._ends[place])
        return part

    def concat(self, other: LineStore) -> LineStore:
        """These lines and then the others."""
        both = self.part(range(len(self)))
        for line in other:
            both.append(line)
        return both


_END, _TEXT, _NUMBER, _SEVERAL = b"\x00", b"\x02", b"\x03", b"\x04"
"""What ends a text or a tuple, and what begins a text, a number and a tuple, within a key. The end comes before all
others, so that what is shorter comes before what goes on."""


def sort_key(key: tuple[Any, ...]) -> bytes:
    """Bytes that are ordered as the tuple is, which holds texts, integers of 64 bits, and tuples of these."""
    return b"".join(map(_part, key))


def _part(value: Any) -> bytes:
    if isinstance(value, str):  # in UTF-8, bytes are ordered as the characters are
        text = value.encode("utf-8", "surrogatepass")
        return _TEXT + (text.replace(_END, b"\x00\xff") if _END in text else text) + _END
    if isinstance(value, int):
        return _NUMBER + (value + (1 << 63)).to_bytes(8, "big")
    return _SEVERAL + b"".join(map(_part, value)) + _END


def sort_places(keys: Iterable[bytes]) -> array[int]:
    """The places of the keys, from 0, in the order of their bytes; equal ones as they came. SQLite sorts them, in a
    temporary file where they need more room. Raises MachineError where there is none."""
    try:
        with closing(sqlite3.connect("", isolation_level=None)) as file:
            for setting in (
                "journal_mode = OFF",
                "synchronous = OFF",
                "temp_store = FILE",
                f"cache_size = -{HELD >> 10}",
            ):
                file.execute(f"PRAGMA {setting}")
            file.execute("CREATE TABLE keys (place INTEGER PRIMARY KEY, key BLOB)")
            file.execute("BEGIN")
            file.executemany("INSERT INTO keys VALUES (?, ?)", enumerate(keys))
            return array("Q", (place for (place,) in file.execute("SELECT place FROM keys ORDER BY key, place")))
    except sqlite3.Error as error:
        raise MachineError(
            f"the questions cannot be sorted in a temporary file ({error}); free space, or name another folder by "
            "SQLITE_TMPDIR"
        ) from None


class DrawEntry(NamedTuple):
    """What a draw needs to know of an item, read from its line without making the whole item; the id of its original,
    where it is a variant; and its place among the items."""

    id: str
    cluster: str
    factors: Mapping[str, Factor]
    base: str | None = None
    place: int = 0

    @property
    def kind(self) -> str:
        """The kind of variant that it is; empty for what is none, or does not say."""
        return str(self.factors.get("variant") or "") if self.base is not None else ""


class ItemStore(Sequence[Item]):
    """A sequence of items, each kept as its line of JSON; reading an item makes it anew. draw: how a part of the items
    is drawn; None draws whole clusters."""

    def __init__(self, items: Iterable[Item] = (), draw: Draw | None = None) -> None:
        self.ids: list[str] = []
        self.lines = LineStore()
        self.characters = array("I")
        self.parts = array("I")
        self.draw = draw or WHOLE_CLUSTERS
        self.benchmarks: set[str] = set()
        self.may_have_variants = False
        self._digest: str | None = None
        for item in items:
            self._append(item.to_json(), vars(item))

    @classmethod
    def of_checked(cls, lines: Iterable[bytes], digest: str) -> ItemStore:
        """The items of lines that `Item.to_json` wrote and that were checked then. digest: as `digest` gives it."""
        store = cls()
        for line in lines:
            store._append(line, orjson.loads(line))
        store._digest = digest
        return store

    def _append(self, line: bytes, fields: Mapping[str, Any]) -> None:
        """Add an item that was checked: its line, and its fields by name."""
        story, question, choices = fields["story"], fields["question"], fields["choices"]
        self.benchmarks.add(fields["benchmark"])
        self.lines.append(line)
        self.ids.append(fields["id"])
        self.characters.append(sum(map(len, story)) + len(question) + sum(map(len, choices)))
        self.parts.append(len(story) + len(choices))
        if fields.get("base") is not None:
            self.may_have_variants = True

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> list[Item]: ...
    def __getitem__(self, place: int | slice) -> Item | list[Item]:
        if isinstance(place, slice):
            return [Item.from_json(line) for line in self.lines[place]]
        return Item.from_json(self.lines[place])

    def __iter__(self) -> Iterator[Item]:
        return map(Item.from_json, self.lines)

    def digest(self) -> str:
        """A digest of the items that does not depend on their order; the same as that of `items.items_digest`."""
        if self._digest is not None:
            return self._digest
        # The id comes first in a line and no two items have the same, so that its JSON alone tells the lines' order.
        # It is copied, because the bytes that orjson returns occupy the whole buffer in which they were written.
        ids = (bytes(bytearray(orjson.dumps(one))) for one in self.ids)
        self._digest = digest_of(self.lines[place] for place in sort_places(ids))
        return self._digest

    @property
    def size(self) -> int:
        """How many bytes a file of these items has, with one on each line."""
        return self.lines.size + len(self)

    def where(self, conditions: Sequence[str]) -> ItemStore:
        """The items that meet all these conditions (see items.where); raises ConfigError where none does."""
        if not conditions:
            return self
        return self.part(array("Q", (entry.place for entry in where(self.entries(), conditions))))

    def take(self, limit: int | None, asked: Collection[str] = frozenset()) -> ItemStore:
        """At most `limit` items, chosen by `items.draw.draw_places` and in their order; all of them for None. asked:
        ids of items that a run asks already, which come first."""
        if limit is None or limit >= len(self):
            return self
        return self.part(draw_places(self.entries(), limit, self.draw, asked))

    def part(self, places: Sequence[int]) -> ItemStore:
        """The items at these places."""
        part = ItemStore(draw=self.draw)
        part.may_have_variants = self.may_have_variants
        part.ids = [self.ids[place] for place in places]
        part.lines = self.lines.part(places)
        part.characters = array("I", (self.characters[place] for place in places))
        part.parts = array("I", (self.parts[place] for place in places))
        return part

    def concat(self, other: ItemStore) -> ItemStore:
        """These items and then the others, drawn as these are."""
        both = ItemStore(draw=self.draw)
        both.may_have_variants = self.may_have_variants or other.may_have_variants
        both.ids, both.lines = self.ids + other.ids, self.lines.concat(other.lines)
        both.characters, both.parts = self.characters + other.characters, self.parts + other.parts
        return both

    def split_variants(self) -> tuple[ItemStore, ItemStore]:
        """The items that are no variants, and those that are."""
        if not self.may_have_variants:
            return self, ItemStore(draw=self.draw)
        variants, others = array("Q"), array("Q")
        for place, line in enumerate(self.lines):
            (variants if is_variant(line) else others).append(place)
        if not variants:
            return self, ItemStore(draw=self.draw)
        return self.part(others), self.part(variants)

    def take_share(self, share: float, asked: Collection[str] = frozenset()) -> ItemStore:
        """That share of the items, from above 0 to 1, chosen in the same way as `take` does."""
        return self.take(share_of(len(self), share), asked)

    def describe(self, every: ItemStore) -> str:
        """In words, which of all items these are (see items.draw.describe)."""
        return describe(self.entries(), every.entries(), self.draw)

    def entries(self) -> Iterator[DrawEntry]:
        """What a draw needs to know of each item."""
        for place, line in enumerate(self.lines):
            data = orjson.loads(line)
            yield DrawEntry(data["id"], data["cluster"], data["factors"], data.get("base"), place)


CHECKED = 1 << 24
"""It is kept of a file of at least so many bytes that its items were checked."""


def read_checked(path: Path, read: Callable[[], Iterable[Item]]) -> ItemStore:
    """The items of a file, which `read` yields. Where a large file holds just what `Item.to_json` writes, the user's
    cache keeps its digest, and the next time its items need not be checked before they are used. Raises as `read`
    does, and ConfigError for a file that is a hole, or was changed while it was read."""
    if not os.path.isfile(path) or os.path.getsize(path) < CHECKED:  # a pipe can be read but once
        return ItemStore(read())
    files.refuse_hole(path)
    try:
        found = files.digest_file(path)[1]
    except (OSError, ConfigError):
        return ItemStore(read())
    place = cache.place("checked", found.encode(), code_digest([PACKAGE / "items"]).encode())
    written = hashlib.sha256()
    if (kept := cache.find(place)) is not None:
        with kept:
            store = ItemStore.of_checked(_digested(read_written_lines(path), written), kept.read().decode())
        if found != f"sha256:{written.hexdigest()}":
            raise files.changed_error(path)
        return store
    store = ItemStore(read())
    for _ in _digested(store.lines, written):
        pass
    if found == f"sha256:{written.hexdigest()}":
        cache.keep(place, store.digest().encode())
    return store


def _digested(lines: Iterable[bytes], into: hashlib._Hash) -> Iterator[bytes]:
    """The lines of a file without their ends. into: gets the file's bytes."""
    for line in lines:
        into.update(line + b"\n")
        yield line
