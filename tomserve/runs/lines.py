"""Many lines in little memory: up to 16 MB of them are held, the rest lie in a temporary file that nobody else sees.
And many short texts, which are held as one.

>>> lines = Lines()
>>> for line in (b"one", b"two", b"three"):
...     lines.append(line)
>>> lines[1], lines[-1], list(lines.part([2, 0]).joined(lines.part([1])))
(b'two', b'three', [b'three', b'one', b'two'])
>>> names = Texts(["one", "two"])
>>> names[1], list(names + names.part([1]))
('two', ['one', 'two', 'two'])
"""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import IO, overload

from tomserve.errors import MachineError

HELD = 1 << 24
"""So many bytes of lines are held in memory at most before they go to the file."""

_STORE = 1 << 48
"""A line's number in its store is below this, so that one integer tells the store and the number."""


class _Store:
    """Lines that are appended, and read in any order; a line keeps its number for good."""

    def __init__(self) -> None:
        self.ends = array("Q")
        self._held = bytearray()
        self._filed = 0  # bytes in the file
        self._file: IO[bytes] | None = None

    def append(self, line: bytes) -> int:
        """Keep a line. Returns its number; raises MachineError where the file cannot be written."""
        self._held += line
        self.ends.append(self._filed + len(self._held))
        if len(self._held) > HELD:
            self._file_away()
        return len(self.ends) - 1

    def length(self, number: int) -> int:
        """How many bytes the line of that number has."""
        return self.ends[number] - (self.ends[number - 1] if number else 0)

    def line(self, number: int) -> bytes:
        """The line of that number."""
        start, end = self.ends[number - 1] if number else 0, self.ends[number]
        if self._file is None or start >= self._filed:
            return bytes(self._held[start - self._filed : end - self._filed])
        return os.pread(self._file.fileno(), end - start, start)

    def _file_away(self) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="tomserve-items-")  # noqa: SIM115  # open as long as this
            self._file.write(self._held)
            self._file.flush()
        except OSError as error:
            raise MachineError(
                f"the items take more than {HELD >> 20} MB, and no temporary file can take them ({error.strerror}); "
                "free space, or name another folder by TMPDIR"
            ) from None
        self._filed += len(self._held)
        self._held = bytearray()


class Lines(Sequence[bytes]):
    """A sequence of lines. Parts and sums of sequences share the lines, so that they take 8 bytes a line."""

    def __init__(self) -> None:
        self._stores: tuple[_Store, ...] = (_Store(),)
        self._places = array("Q")

    def append(self, line: bytes) -> None:
        """Add a line at the end. Raises MachineError where there is no room for it."""
        last = len(self._stores) - 1
        self._places.append(last * _STORE + self._stores[last].append(line))

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> list[bytes]: ...
    def __getitem__(self, place: int | slice) -> bytes | list[bytes]:
        if isinstance(place, slice):
            return [self._line(one) for one in self._places[place]]
        return self._line(self._places[place])

    def _line(self, place: int) -> bytes:
        store, number = divmod(place, _STORE)
        return self._stores[store].line(number)

    @property
    def size(self) -> int:
        """How many bytes all these lines have together."""
        return sum(self._stores[place // _STORE].length(place % _STORE) for place in self._places)

    def part(self, places: Iterable[int]) -> Lines:
        """The lines at these places."""
        return self._sharing(self._stores, array("Q", (self._places[place] for place in places)))

    def joined(self, other: Lines) -> Lines:
        """These lines and then the others."""
        first = len(self._stores) * _STORE
        moved = array("Q", (first + place for place in other._places))
        return self._sharing(self._stores + other._stores, self._places + moved)

    @staticmethod
    def _sharing(stores: tuple[_Store, ...], places: array[int]) -> Lines:
        lines = Lines()
        lines._stores, lines._places = stores, places
        return lines


class Texts(Sequence[str]):
    """A sequence of short texts, such as ids, which takes 8 bytes a text besides its characters.

    texts: the first of them.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._held = bytearray()
        self._bounds = array("Q", [0])
        for text in texts:
            self.append(text)

    def append(self, text: str) -> None:
        """Add a text at the end."""
        self._held += text.encode()
        self._bounds.append(len(self._held))

    def __len__(self) -> int:
        return len(self._bounds) - 1

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        at = range(len(self))[place]
        return self._held[self._bounds[at] : self._bounds[at + 1]].decode()

    def __iter__(self) -> Iterator[str]:
        return (self._held[start:end].decode() for start, end in pairwise(self._bounds))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Texts):
            return self._bounds == other._bounds and self._held == other._held
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it can grow

    def __add__(self, other: Texts) -> Texts:
        both = Texts()
        both._held = self._held + other._held
        end = len(self._held)
        both._bounds = self._bounds + array("Q", (end + bound for bound in other._bounds[1:]))
        return both

    def part(self, places: Iterable[int]) -> Texts:
        """The texts at these places."""
        return Texts(self[place] for place in places)
