"""What a Parquet file makes its reader hold, added up from its end and the headers of pages, before any is unpacked.

A value that is repeated takes no room in such a file, and what the file's end says of its columns binds nobody: a page
of ten bytes may hold two thousand million values, whatever stands there. The headers of pages, written in Thrift's
compact protocol, are what a reader goes by, and short. The end itself may describe columns within columns without end,
in Parquet's words and once more in Arrow's (as a flatbuffer), where one may stand for many.
"""

import base64
from collections.abc import Iterator
from mmap import mmap
from typing import Any, NamedTuple

VALUE = 16  # bytes of the longest number, and of what stands for a text that is held elsewhere

# The structures of the format: of each the kinds of its fields, from number 1 on. i: a whole number; t: a text; b: true
# or false; d: a fraction; y: a byte; -: of encrypted files, which are not read. Polars reads a field of a known number
# as what it should be, whatever kind it is said to be; therefore one of another kind is refused here.
_EMPTY: tuple[Any, ...] = ()
_UNIT = (_EMPTY, _EMPTY, _EMPTY)
_LOGICAL = (*[_EMPTY] * 4, ("i", "i"), _EMPTY, ("b", _UNIT), ("b", _UNIT), "-", ("y", "b"), *[_EMPTY] * 5, ("y",),
            ("t",), ("t", "i"))  # fmt: skip
_STATISTICS = (*"ttiittbbi",)
_PAIR = ("t", "t")
_CHUNK = ("i", ["i"], ["t"], *"iiii", [_PAIR], *"iii", _STATISTICS, [("i", "i", "i")], *"ii", ("i", ["i"], ["i"]),
          ((*"dddddddd",), ["i"]))  # fmt: skip
_COLUMN = ("t", "i", _CHUNK, *"iiii--")
_GROUP = ([_COLUMN], "i", "i", [("i", "b", "b")], *"iii")
_END = ("i", [(*"iiitiiiii", _LOGICAL)], "i", [_GROUP], [_PAIR], "t", [(_EMPTY, _EMPTY)], "-", "-")
_PAGE = (*"iiii", (*"iiii", _STATISTICS), _EMPTY, ("i", "i", "b"), (*"iiiiiib", _STATISTICS))

_KINDS = {1: "b", 2: "b", 3: "y", 4: "i", 5: "i", 6: "i", 7: "d", 8: "t", 9: "list", 10: "list", 12: _EMPTY}

_BOUNDED = (0, 2, 3, 4, 8, 9)
"""The encodings in which a page has no more values than its header says. In those of differences (delta) the page says
it once more, and Polars goes by that; hardly anybody writes them without being told to."""


ARROW = b"ARROW:schema"  # the name under which the end describes the columns in Arrow's words
DEEPEST = 20  # columns within others
LEAST, PAIR = 24, 16  # bytes that Arrow's description of a column, and a pair of texts, take beside the texts
TEXTS, TIMES = 1 << 26, 100
"""The texts of that description may have so many bytes, or so many times its own: Polars writes equal ones once."""


LONGEST_END = 8 << 20
"""Bytes of an end that is read for what was written beside the table: reading one takes a second, in every list."""


class Claims(NamedTuple):
    """How many values the pages of a file have, those of lists one by one, and how many bytes they are unpacked to."""

    values: int
    bytes: int


def add_up(held: bytes | mmap) -> Claims:
    """What the pages of a Parquet file claim to hold. Raises ValueError where its end or a page cannot be read, where
    its columns share bytes, which is how a short file becomes a long table, and for encodings of differences."""
    values, size, stored = 0, 0, 0
    try:
        for chunk in (column[3] for group in _read_end(held)[4] for column in group[1]):
            start, length = chunk.get(11) or chunk[9], chunk[7]
            stored += length
            if min(start, length) < 0 or stored > len(held):
                raise ValueError("its columns have more bytes than the file")
            for unpacked, count, of_data in _pages(held, start, start + length):
                values += count if of_data else 0
                size += unpacked if of_data else unpacked + VALUE * count
    except (LookupError, RecursionError) as error:
        raise ValueError(f"what describes its pages cannot be read: {type(error).__name__}") from None
    return Claims(values, size)


def check_end(held: bytes | mmap) -> None:
    """Raise ValueError where the end of a Parquet file cannot be read, is longer than LONGEST_END, or could end the
    process."""
    if int.from_bytes(held[-8:-4], "little") > LONGEST_END:
        raise ValueError(f"its end has more than {LONGEST_END >> 20} MB")
    try:
        _read_end(held)
    except (LookupError, RecursionError) as error:
        raise ValueError(f"its end cannot be read: {type(error).__name__}") from None


def _read_end(held: bytes | mmap) -> dict[int, Any]:
    end = len(held) - 8
    if end < 4 or held[end + 4 :] != b"PAR1":
        raise ValueError("it does not end as a Parquet file does; it may be cut off")
    about, _ = _read_struct(held, max(end - int.from_bytes(held[end : end + 4], "little"), 0), _END)
    left: list[int] = []  # of each column that the next one lies in, how many more it has
    for children in (column.get(5, 0) for column in about[2]):
        while left and left[-1] <= 0:
            left.pop()
        if left:
            left[-1] -= 1
        left += [children] if children else []
        if len(left) > DEEPEST:
            raise ValueError(f"it has columns within more than {DEEPEST} others")
    for pair in about.get(5, ()):
        if held[pair[1]] == ARROW:
            _check_arrow(base64.b64decode(held[pair[2]], validate=True))
    return about


def _check_arrow(held: bytes) -> None:
    """Raise ValueError where Arrow's description of the columns stands for more than it holds: as its parts are found
    by their places, one part can stand in many."""
    left, room = len(held), max(TEXTS, TIMES * len(held))

    def take(size: int, *texts: int) -> None:
        nonlocal left, room
        left, room = left - size, room - sum(_count(held, text) for text in texts)
        if min(left, room) < 0:
            raise ValueError("what it says of its columns in Arrow's words stands for more than it holds")

    message = _follow(held, 8 if held[:4] == b"\xff" * 4 else 0)
    waiting = [(1, 2, _follow(held, _slot(held, message, 2)), 0)]  # where its columns and further texts stand; the root
    while waiting:
        columns, texts, table, deep = waiting.pop()
        for pair in _listed(held, table, texts):
            take(PAIR, _slot(held, pair, 0), _slot(held, pair, 1))
        for column in _listed(held, table, columns):
            kind, about = _slot(held, column, 2), _slot(held, column, 3)
            more = about and _slot(held, _follow(held, about), 1) if kind and held[kind] in _TEXTED else 0
            take(LEAST, _slot(held, column, 0), more)
            waiting.append((5, 6, column, deep + 1))
            if deep > DEEPEST:
                raise ValueError(f"it has columns within more than {DEEPEST} others in Arrow's words")


_TEXTED = (10, 14)  # the kinds of columns in whose description the second place is a text or list: times and unions


def _follow(held: bytes, place: int) -> int:
    """Where a flatbuffer's part stands that is named at a place."""
    if not 0 <= place <= len(held) - 4:
        raise ValueError("what it says of its columns in Arrow's words cannot be read")
    return place + int.from_bytes(held[place : place + 4], "little")


def _slot(held: bytes, table: int, number: int) -> int:
    """Where a table of a flatbuffer holds its field of that number; 0 for nowhere."""
    _follow(held, table)
    names = table - int.from_bytes(held[table : table + 4], "little", signed=True)
    _follow(held, names)
    at = 4 + 2 * number
    known = at < int.from_bytes(held[names : names + 2], "little")
    offset = int.from_bytes(held[names + at : names + at + 2], "little") if known else 0
    return table + offset if offset else 0


def _count(held: bytes, place: int) -> int:
    """How many letters or entries the text or list has that is named at a place; none for place 0."""
    return _follow(held, start := _follow(held, place)) - start if place else 0


def _listed(held: bytes, table: int, number: int) -> Iterator[int]:
    """Where the tables stand that are listed in a table's field."""
    if place := _slot(held, table, number):
        start = _follow(held, place) + 4
        yield from (_follow(held, start + 4 * entry) for entry in range(_count(held, place)))


def _pages(held: bytes | mmap, at: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """Of each page the number of bytes that it is unpacked to, that of its values, and whether it is no dictionary."""
    while at < end:
        header, at = _read_struct(held, at, _PAGE)
        for name, encoding in ((5, 2), (8, 4), (7, 2)):
            if (about := header.get(name)) is not None:
                if about[encoding] not in _BOUNDED:
                    raise ValueError("it is written in differences (delta); write it in a plain or dictionary encoding")
                if min(header[2], header[3], about[1]) < 0:
                    raise ValueError("a page has fewer than no bytes or values")
                yield header[2], about[1], name != 7
        at += header[3]
    if at > end:
        raise ValueError("a page has more bytes than its column")


def _read_struct(held: bytes | mmap, at: int, form: tuple[Any, ...]) -> tuple[dict[int, Any], int]:
    """The fields of a structure by their numbers, of texts where they stand, of fractions that they are there; and
    where it ends."""
    fields: dict[int, Any] = {}
    number, known = 0, len(form)
    while head := held[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _read_number(held, at)
        kind = _KINDS[head & 15]
        wanted = form[number - 1] if number <= known else kind
        if number in fields or not 0 < number < 1 << 15:
            raise ValueError("a structure has a field twice")
        if kind != wanted and kind != ("list" if isinstance(wanted, list) else isinstance(wanted, tuple) and _EMPTY):
            raise ValueError("a field is of another kind than it should be")
        fields[number], at = (True, at) if kind == "b" else _read(held, at, wanted)
    return fields, at + 1


def _read(held: bytes | mmap, at: int, form: Any) -> tuple[Any, int]:
    if form == "i":
        return _read_number(held, at)
    if form == "t":
        size, at = _read_size(held, at)
        return slice(at, at + size), at + size
    if isinstance(form, tuple):
        return _read_struct(held, at, form)
    if form in ("d", "y", "b"):
        return True, at + (8 if form == "d" else 1)
    size, one = held[at] >> 4, form[0] if isinstance(form, list) else _KINDS[held[at] & 15]
    size, at = _read_size(held, at + 1) if size == 15 else (size, at + 1)
    found = []
    for _ in range(size):
        value, at = _read(held, at, one)
        found.append(value)
    return found, at


def _read_number(held: bytes | mmap, at: int) -> tuple[int, int]:
    found, at = _read_size(held, at)
    return found >> 1 ^ -(found & 1), at


def _read_size(held: bytes | mmap, at: int) -> tuple[int, int]:
    if (found := held[at]) < 128:
        return found, at + 1
    found &= 127
    for place in range(1, 10):
        byte = held[at + place]
        found |= (byte & 127) << 7 * place
        if byte < 128:
            return found, at + place + 1
    raise ValueError("a number has more than ten bytes")
