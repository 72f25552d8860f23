"""Draws of variants: the same everywhere, for every scenario of a world, and whatever else is drawn.

A draw is the order of the digests of what is drawn from. So a scene that stands in one telling of a world and not in
another changes nothing for the others.

>>> ranked(["tin", "box"], "transfer-1-0007") == ranked(["box", "tin"], "transfer-1-0007")
True
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def ranked(texts: Iterable[str], *seed: str) -> list[str]:
    """The texts in an order that follows from the seed alone. Equal texts stay beside each other."""
    beginning = hashlib.blake2b("\x1f".join(seed).encode(), digest_size=16)

    def digest(text: str) -> bytes:
        whole = beginning.copy()
        whole.update(b"\x1f" + text.encode())
        return whole.digest()

    return sorted(texts, key=digest)
