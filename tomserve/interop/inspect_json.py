r"""Reads JSON that Inspect wrote: files of any length part by part, and numbers that JSON has no name for.

Inspect writes a score that is no number as ``NaN``, which JSON does not know; here it becomes null. A whole number of
more than 64 bits becomes one with a fraction.

>>> loads(b'{"value": NaN, "text": "NaN"}')
{'value': None, 'text': 'NaN'}
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import IO, Any

import ijson
import orjson

from tomserve.content import files
from tomserve.errors import ConfigError
from tomserve.interop.foreign import Origin

LARGEST = 1 << 27
"""The most bytes of one part that is held in memory. A sample with all its events has rarely more than a few
megabytes."""

DEEPEST = 1000
"""How deeply values may lie in each other. ijson names each by the names of all around it, so that a small file of
nothing but brackets would take all memory."""

_BLOCK, _MORE = 1 << 16, 1 << 12
"""How many bytes a block has, and how many more so that it does not end in the middle of a number."""

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.S)
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\Z)|-?(?:NaN|Infinity)|(?<![\d.])\d{19,}(?![\d.eE])', re.S)
_ODD = re.compile(rb"[NI]|\d{19}")
"""What is in a block, outside of texts, only where it holds a number that is none, or one of more than 64 bits."""

_SPLIT = frozenset(b"NaInfity-\\0123456789.")
"""Bytes at which a block does not end, since what follows may belong to them."""

_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def loads(data: bytes) -> Any:
    """What JSON holds, also where Inspect wrote a number that JSON has no name for. Raises ValueError."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        if b"NaN" not in data and b"Infinity" not in data:
            raise ValueError("is no JSON") from None
    try:
        return orjson.loads(_TOKEN.sub(_null, data))
    except orjson.JSONDecodeError:
        raise ValueError("is no JSON") from None


def _null(found: re.Match[bytes]) -> bytes:
    text = found[0]
    if text.startswith(b'"'):
        return text
    if not text.isdigit():
        return b"null"
    return text if len(text) < 20 and int(text) < 2**63 else text + b".0"


def opened(path: Path) -> IO[bytes]:
    """The file, opened. Raises ConfigError where it cannot be, or is no regular file."""
    files.refuse_hole(path)
    try:
        return files.open_for_reading(path)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None


def parts(path: Path, place: str) -> Iterator[Any]:
    """The values at a place of a large file of JSON, such as ``samples.item``, one at a time.

    Raises ConfigError where the file cannot be opened, and ValueError, after the values that stand before it, where it
    is no JSON, or a value is longer than LARGEST or deeper than DEEPEST.
    """
    with opened(path) as file:
        source = _Blocks(file)
        try:
            for value in ijson.items(source, place, use_float=True):
                source.held = 0
                yield value
        except (ijson.JSONError, UnicodeDecodeError) as error:
            raise ValueError(" ".join(str(error).split("(right here)")[0].split())[:100]) from None


class _Blocks:
    """A file as ijson reads it, in blocks. held: how many bytes were read since the last value was complete."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._inside, self._depth = file, False, 0
        self.held = 0

    def read(self, size: int = -1) -> bytes:
        """The next block, with null for numbers that JSON has no name for. Raises ValueError where a value is too long
        or too deep."""
        if size == 0:  # asked first, to see what kind of file it is
            return b""
        block = bytearray(self._file.read(_BLOCK))
        while block and block[-1] in _SPLIT and len(block) < _BLOCK + _MORE and (more := self._file.read(1)):
            block += more
        if not block:
            return b""
        self.held += len(block)
        if self.held > LARGEST:
            raise ValueError(f"has more than {LARGEST >> 20:,} MB in one part")
        begun = self._inside
        text = b'"' + block if begun else bytes(block)
        plain = _STRING.sub(b"", text)  # all but texts
        self._inside = (at := plain.find(b'"')) >= 0
        plain = plain[:at] if self._inside else plain
        self._go_deeper(plain)
        if _ODD.search(plain):
            text = _TOKEN.sub(_null, text)
        return text[1:] if begun else text

    def _go_deeper(self, plain: bytes) -> None:
        depths = list(accumulate(map(_STEPS.__getitem__, plain.translate(None, _NO_BRACKETS)), initial=self._depth))
        if max(depths) > DEEPEST:
            raise ValueError(f"has values that lie more than {DEEPEST:,} deep in each other")
        self._depth = depths[-1]


def origin(path: Path, file: IO[bytes]) -> Origin:
    """An open file with the digest of its content."""
    file.seek(0)
    sha, size = hashlib.sha256(), 0
    for block in iter(lambda: file.read(1 << 20), b""):
        sha.update(block)
        size += len(block)
    return Origin(path.name, size, f"sha256:{sha.hexdigest()}")
