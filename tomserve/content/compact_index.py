"""A multimap of millions of entries that takes 18 bytes an entry, where a dictionary of texts takes some 200.

>>> index = Index()
>>> index.add("tea", 100)
>>> "tea" in index, list(index.get("tea")), list(index.get("salt"))
(True, [100], [])
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Sequence

MANY = 10_000
"""Entries that came since the last look-up are sorted together where there are more than so many."""


class Index:
    """A multimap from anything hashable to integers below 2**64, valid within this process. Of a key only its hash is
    kept: that any two of a million are taken for one has a probability of 3 in 10**8."""

    def __init__(self) -> None:
        self._buckets = [(array("Q"), array("Q")) for _ in range(256)]
        self._new = (array("Q"), array("Q"))  # what was added since the last look-up
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __contains__(self, key: Hashable) -> bool:
        if self._new[0]:
            self._sort_new()
        number = hash(key) & 0xFFFFFFFFFFFFFFFF
        keys, _ = self._buckets[number >> 56]
        at = bisect_left(keys, number)
        return at < len(keys) and keys[at] == number

    def add(self, key: Hashable, value: int = 0) -> None:
        """Add a value to a key."""
        keys, values = self._new
        keys.append(hash(key) & 0xFFFFFFFFFFFFFFFF)
        values.append(value)
        self._size += 1

    def get(self, key: Hashable) -> Sequence[int]:
        """All values of that key, in the order in which they were added."""
        if self._new[0]:
            self._sort_new()
        number = hash(key) & 0xFFFFFFFFFFFFFFFF
        keys, values = self._buckets[number >> 56]
        at = bisect_left(keys, number)
        return values[at : bisect_right(keys, number, at)]

    def _sort_new(self) -> None:
        """Put what was added into its buckets."""
        new = self._new
        self._new = (array("Q"), array("Q"))
        if len(new[0]) > MANY:
            self._sort_all(*new)
            return
        for number, value in zip(*new, strict=True):
            keys, values = self._buckets[number >> 56]
            at = bisect_right(keys, number)
            keys.insert(at, number)
            values.insert(at, value)

    def _sort_all(self, *new: array[int]) -> None:
        """Make the buckets anew, with these keys and values."""
        import numpy

        parts = zip(*self._buckets, new, strict=True)
        keys, values = (numpy.concatenate([numpy.frombuffer(one, "u8") for one in part]) for part in parts)
        order = numpy.argsort(keys, kind="stable")
        keys, values = keys[order], values[order]
        ends = numpy.searchsorted(keys, numpy.arange(1, 256, dtype="u8") << numpy.uint64(56)).tolist()
        self._buckets = [
            (array("Q", keys[start:end].tobytes()), array("Q", values[start:end].tobytes()))
            for start, end in zip([0, *ends], [*ends, len(keys)], strict=True)
        ]
