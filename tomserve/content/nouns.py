"""Numbers with the nouns that they count.

>>> counted(1, "reply", "replies"), counted(1200, "question")
('1 reply', '1,200 questions')
"""

from __future__ import annotations


def counted(count: int, one: str, several: str | None = None) -> str:
    """A number and what it counts. one: the noun for one. several: for any other number; with an s where it is left
    out."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"
