"""Containers for millions of rows that take a few bytes an entry: a multimap of integers, and a set built on it.

A Python set of a million identities takes some 400 MB; these containers take 13 bytes an entry. Entries are spread over
buckets that are kept sorted, so that an insertion moves a few kilobytes. Nothing is ever rebuilt, and so there is
neither a pause nor a moment of doubled memory.

    >>> index = Index(64, 64)
    >>> index.add(7, 100)
    >>> list(index.get(7)), list(index.get(8))
    ([100], [])
    >>> seen = Seen()
    >>> seen.add(("a", "cot", 0, 0)), seen.add(("a", "cot", 0, 0))
    (True, False)
    >>> ("a", "cot", 0, 0) in seen, ("b", "cot", 0, 0) in seen, len(seen)
    (True, False, 1)
"""

from __future__ import annotations

import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import Literal

BUCKETS = 256
"""Over how many buckets the entries are spread; a power of two."""

_TYPES = {32: "I", 64: "Q"}
"""The type code of an array by the number of bits of its integers."""

_MASK = 2**64 - 1
"""Makes a hash, which may be negative, an unsigned integer of 64 bits."""


class Index:
    """A multimap from unsigned integers to unsigned integers.

    keys, values: how many bits they have. Keys should be spread evenly, as hashes are: their first bits choose the
    bucket.
    """

    def __init__(self, keys: Literal[32, 64], values: Literal[32, 64]) -> None:
        self._shift = keys - BUCKETS.bit_length() + 1
        self._keys = [array(_TYPES[keys]) for _ in range(BUCKETS)]
        self._values = [array(_TYPES[values]) for _ in range(BUCKETS)]
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, key: int, value: int) -> None:
        """Add a value to a key. The values of one key have no particular order."""
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
    """A checksum of a text: CRC-32, an integer of 32 bits."""
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


class Seen:
    """A set of identities (item, strategy, turn, sample) that keeps 96 bits of each.

    64 of these bits are Python's hash of the identity, 32 are a checksum of the item. The probability that any two of a
    million identities agree in all of them is less than 1 in 10**16. The set is valid within this process only, because
    Python's hashes of texts differ between processes.
    """

    def __init__(self) -> None:
        self._index = Index(64, 32)

    def __len__(self) -> int:
        return len(self._index)

    def __contains__(self, identity: tuple[str, str, int, int]) -> bool:
        return short(identity[0]) in self._index.get(hash(identity) & _MASK)

    def add(self, identity: tuple[str, str, int, int]) -> bool:
        """Add an identity. Returns whether it was new."""
        key, value = hash(identity) & _MASK, short(identity[0])
        if value in self._index.get(key):
            return False
        self._index.add(key, value)
        return True
