"""A set of millions of identities that takes a few bytes each.

A Python set of a million identities takes some 400 MB; this one takes 13 bytes an entry (see tomserve.content.compact_index).

    >>> seen = Seen()
    >>> seen.add(("a", "cot", 0, 0)), seen.add(("a", "cot", 0, 0))
    (True, False)
    >>> ("a", "cot", 0, 0) in seen, ("b", "cot", 0, 0) in seen, len(seen)
    (True, False, 1)
"""

from __future__ import annotations

from tomserve.content.compact_index import MASK, Index, text_checksum


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
        return self._index.has(hash(identity) & MASK, text_checksum(identity[0]))

    def add(self, identity: tuple[str, str, int, int]) -> bool:
        """Add an identity. Returns whether it was new."""
        return self._index.add_once(hash(identity) & MASK, text_checksum(identity[0]))
