"""Sorts millions of things by long keys in little memory: SQLite sorts them in a temporary file.

>>> list(places_in_order([ordered(("b", 2)), ordered(("a", 10)), ordered(("a", 9)), ordered(("a", 9))]))
[2, 3, 1, 0]
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterable
from contextlib import closing
from itertools import chain
from typing import Any

from tomserve.errors import MachineError

HELD = 1 << 24
"""So many bytes of keys are sorted in memory at most; SQLite holds as many at a time where there are more."""

_END, _TEXT, _NUMBER, _SEVERAL = b"\x00", b"\x02", b"\x03", b"\x04"
"""What ends a text or a tuple, and what begins a text, a number and a tuple, within a key. The end comes before all
others, so that what is shorter comes before what goes on."""


def ordered(key: tuple[Any, ...]) -> bytes:
    """Bytes that are ordered as the tuple is: of two such tuples, the smaller one has the smaller bytes.

    key: texts, integers of 64 bits, and tuples of these. As in any comparison of tuples, what stands at the same place
    has to be of one type.
    """
    return b"".join(map(_part, key))


def _part(value: Any) -> bytes:
    if isinstance(value, str):  # in UTF-8, bytes are ordered as the characters are
        text = value.encode("utf-8", "surrogatepass")
        return _TEXT + (text.replace(_END, b"\x00\xff") if _END in text else text) + _END
    if isinstance(value, int):
        return _NUMBER + (value + (1 << 63)).to_bytes(8, "big")
    return _SEVERAL + b"".join(map(_part, value)) + _END


def places_in_order(keys: Iterable[bytes]) -> array[int]:
    """The places of the keys, from 0, in the order of their bytes; equal ones as they came.

    Raises MachineError where there is no room for a temporary file.
    """
    held: list[bytes] = []
    size, left = 0, iter(keys)
    for key in left:
        held.append(key)
        size += len(key)
        if size > HELD:
            return _filed(chain(held, left))
    return array("Q", sorted(range(len(held)), key=held.__getitem__))


def _filed(keys: Iterable[bytes]) -> array[int]:
    """What `places_in_order` returns, sorted by SQLite in a temporary file that nobody else sees."""
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
