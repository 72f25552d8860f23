"""Containers for millions of entries that take a few bytes each: a multimap of integers, and one of texts.

A Python dictionary of a million texts takes some 200 MB; these containers take 13 to 18 bytes an entry. Entries are
spread over buckets that are kept sorted, so that an insertion moves a few kilobytes. Nothing is ever rebuilt, and so
there is neither a pause nor a moment of doubled memory.

    >>> index = Index(64, 64)
    >>> index.add(7, 100)
    >>> list(index.get(7)), list(index.get(8))
    ([100], [])
    >>> firsts = FirstPlaces(["a", "b", "a"])
    >>> firsts.add("c", 7), firsts.add("b", 8), firsts.find("a"), firsts.find("d"), len(firsts)
    (7, 1, 0, None, 3)
"""

from __future__ import annotations

import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Literal

BUCKETS = 256
"""Over how many buckets the entries are spread; a power of two."""

_TYPES = {32: "I", 64: "Q"}
"""The type code of an array by the number of bits of its integers."""

MASK = 2**64 - 1
"""Makes a hash, which may be negative, an unsigned integer of 64 bits."""


class Index:
    """A multimap from unsigned integers to unsigned integers. keys, values: how many bits they have. Keys should be
    spread evenly, as hashes are: their first bits choose the bucket."""

    def __init__(self, keys: Literal[32, 64], values: Literal[32, 64]) -> None:
        self._shift = keys - BUCKETS.bit_length() + 1
        self._keys = [array(_TYPES[keys]) for _ in range(BUCKETS)]
        self._values = [array(_TYPES[values]) for _ in range(BUCKETS)]
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, key: int, value: int) -> None:
        """Add a value to a key. The values of one key have no particular order."""
        keys, values, at = self._found(key)
        keys.insert(at, key)
        values.insert(at, value)
        self._size += 1

    def add_once(self, key: int, value: int) -> bool:
        """Add a value to a key unless it has it. Returns whether that was new."""
        keys, values, at = self._found(key)
        same = at
        while same < len(keys) and keys[same] == key:
            if values[same] == value:
                return False
            same += 1
        keys.insert(at, key)
        values.insert(at, value)
        self._size += 1
        return True

    def has(self, key: int, value: int) -> bool:
        """Whether that key has that value. It is quicker than a look into what `get` returns, and is asked of every
        question of a run that is resumed."""
        bucket = key >> self._shift
        keys = self._keys[bucket]
        at = bisect_left(keys, key)
        while at < len(keys) and keys[at] == key:
            if self._values[bucket][at] == value:
                return True
            at += 1
        return False

    def get(self, key: int) -> Sequence[int]:
        """All values of that key."""
        keys, values, at = self._found(key)
        if at == len(keys) or keys[at] != key:
            return ()
        return values[at : bisect_right(keys, key, at)]

    def first(self, key: int, value: int, same: int) -> int:
        """The value of that key that agrees with this one in the bits of `same`; this one, which is added, where there
        is none. It is quicker than `get` and `add`."""
        keys, values, at = self._found(key)
        while at < len(keys) and keys[at] == key:
            if not (values[at] ^ value) & same:
                return values[at]
            at += 1
        keys.insert(at, key)
        values.insert(at, value)
        self._size += 1
        return value

    def _found(self, key: int) -> tuple[array[int], array[int], int]:
        """The bucket of a key, and the place in it where the key stands first, or would."""
        bucket = key >> self._shift
        keys = self._keys[bucket]
        return keys, self._values[bucket], bisect_left(keys, key)


def text_checksum(text: str) -> int:
    """A checksum of a text: CRC-32, an integer of 32 bits."""
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


_PLACE = 2**32 - 1
_CHECKSUM = _PLACE << 32
"""The bits of a place, and those of a checksum, in a value of 64 bits."""


class FirstPlaces:
    """The place at which each of many texts came first, where texts come one after the other. It keeps 96 bits of each
    text that is new: Python's hash of it, and a checksum. The probability that any two of a million different texts
    agree in all of them is less than 1 in 10**16. texts: the first of them, at the places from 0."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._index = Index(64, 64)
        for place, text in enumerate(texts):
            self.add(text, place)

    def __len__(self) -> int:
        """How many different texts there are."""
        return len(self._index)

    def __contains__(self, text: str) -> bool:
        return self.find(text) is not None

    def add(self, text: str, place: int) -> int:
        """Take a text that comes at that place, which is below 2**32. Returns the place at which it came first."""
        return self._index.first(hash(text) & MASK, text_checksum(text) << 32 | place, _CHECKSUM) & _PLACE

    def find(self, text: str) -> int | None:
        """The place at which a text came first; None where it did not come."""
        check = text_checksum(text)
        for value in self._index.get(hash(text) & MASK):
            if value >> 32 == check:
                return value & _PLACE
        return None
