"""What is known of millions of rows in a few bytes each: a sorted multimap of integers, and a set built on it.

A Python set of a million identities takes some 400 MB, these 13 bytes an entry. Entries are spread over buckets that
stay sorted, so that an insertion moves a few kilobytes and nothing is ever rebuilt: no pause, no peak.

    >>> index = Index(64, 64)
    >>> index.add(7, 100)
    >>> list(index.get(7)), list(index.get(8))
    ([100], [])
    >>> seen = Seen()
    >>> seen.add(("a", "cot", 0)), seen.add(("a", "cot", 0))
    (True, False)
    >>> ("a", "cot", 0) in seen, ("b", "cot", 0) in seen, len(seen)
    (True, False, 1)
"""

from __future__ import annotations

import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import Literal

BUCKETS = 256
_TYPES = {32: "I", 64: "Q"}
_MASK = 2**64 - 1


class Index:
    """From keys to values, unsigned integers of that many bits; keys should be evenly spread, as hashes are."""

    def __init__(self, keys: Literal[32, 64], values: Literal[32, 64]) -> None:
        self._shift = keys - BUCKETS.bit_length() + 1
        self._keys = [array(_TYPES[keys]) for _ in range(BUCKETS)]
        self._values = [array(_TYPES[values]) for _ in range(BUCKETS)]
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, key: int, value: int) -> None:
        """Insert; several values of one key stay in no particular order."""
        bucket = key >> self._shift
        keys = self._keys[bucket]
        at = bisect_left(keys, key)
        keys.insert(at, key)
        self._values[bucket].insert(at, value)
        self._size += 1

    def get(self, key: int) -> Iterator[int]:
        """All values of that key."""
        bucket = key >> self._shift
        keys = self._keys[bucket]
        at = bisect_left(keys, key)
        while at < len(keys) and keys[at] == key:
            yield self._values[bucket][at]
            at += 1


def short(text: str) -> int:
    """32 bits of a text."""
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


class Seen:
    """A set of identities (item, strategy, turn), of which it keeps 96 bits each.

    64 of them are Python's own keyed hash, 32 a checksum of the item: the odds that any two of a million agree are less
    than 1 in 10**16. Good for this process only, as every hash of Python.
    """

    def __init__(self) -> None:
        self._index = Index(64, 32)

    def __len__(self) -> int:
        return len(self._index)

    def __contains__(self, identity: tuple[str, str, int]) -> bool:
        return short(identity[0]) in self._index.get(hash(identity) & _MASK)

    def add(self, identity: tuple[str, str, int]) -> bool:
        """Whether it was new."""
        key, value = hash(identity) & _MASK, short(identity[0])
        if value in self._index.get(key):
            return False
        self._index.add(key, value)
        return True
