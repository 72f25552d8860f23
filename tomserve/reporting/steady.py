r"""Makes the same PDF of the same figure: what draws it lists the parts of a page in another order in every process.

The order of the entries of a dictionary means nothing in a PDF, so that they can be sorted; since they only change
places, everything else stays where it was.

>>> steady(b"<<\n  /b 2 0 R\n  /a 1 0 R\n>>")
b'<<\n  /a 1 0 R\n  /b 2 0 R\n>>'
"""

from __future__ import annotations

import re

_STREAMS = re.compile(rb"(stream\r?\n.*?endstream)", re.S)
_ENTRIES = re.compile(rb"(?:^[ ]+/[\w.+-]+ \d+ \d+ R\n){2,}", re.M)
"""Entries of a dictionary below each other, each of which names another object."""


def steady(pdf: bytes) -> bytes:
    """The PDF with entries of dictionaries that stand below each other sorted, but for what is within streams."""
    parts = _STREAMS.split(pdf)
    parts[::2] = [_ENTRIES.sub(_sorted, part) for part in parts[::2]]
    return b"".join(parts)


def _sorted(found: re.Match[bytes]) -> bytes:
    return b"".join(sorted(found[0].splitlines(keepends=True)))
