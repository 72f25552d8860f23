"""Says in no time which benchmarks of ours a text may ask about: those whose stories begin somewhere in it.

To read all items of a benchmark takes seconds, of one that is generated half a minute, which a file about other things
should not cost. ``beginnings.json`` therefore keeps a checksum of the first words of every story of each benchmark that
needs no file. Of benchmarks with the same stories it keeps the one that is asked in the most ways: where another one is
meant, it has to be named. A test holds the file against the items; after a change of these it is written anew:

    python -m tomserve.interop.beginnings
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import orjson

from tomserve.interop.matching import story_words, words
from tomserve.items import Item

FILE = Path(__file__).with_name("beginnings.json")

FIRST = 6
"""So many words are the beginning of a story."""

_DIGITS = 8
"""How many hexadecimal digits a checksum has."""


def of(items: Iterable[Item]) -> frozenset[int]:
    """The checksums of the beginnings of these items' stories."""
    return frozenset(_checksum(story_words(item)[:FIRST]) for item in items)


def likely(texts: Iterable[str]) -> list[str]:
    """The benchmarks about which at least one of these texts may ask, in the order of the file.

    All benchmarks of the file where the user has content of his own, which may hold other stories.
    """
    known = kept()
    if os.environ.get("TOMSERVE_CONTENT"):
        return list(known)
    found: set[str] = set()
    for text in texts:
        told = words(text)
        windows = {_checksum(told[place : place + FIRST]) for place in range(len(told) - FIRST + 1)}
        found |= {name for name, begin in known.items() if name not in found and not begin.isdisjoint(windows)}
    return [name for name in known if name in found]


@cache
def kept() -> dict[str, frozenset[int]]:
    """The checksums that the file keeps of each benchmark."""
    kept = orjson.loads(FILE.read_bytes())
    return {
        name: frozenset(int(text[at : at + _DIGITS], 16) for at in range(0, len(text), _DIGITS))
        for name, text in kept.items()
    }


def written(benchmarks: dict[str, frozenset[int]]) -> bytes:
    """The text of the file for these benchmarks."""
    told = {name: "".join(f"{one:0{_DIGITS}x}" for one in sorted(found)) for name, found in benchmarks.items()}
    return orjson.dumps(told, option=orjson.OPT_INDENT_2) + b"\n"


def _checksum(begin: list[str]) -> int:
    return zlib.crc32(" ".join(begin).encode())


def _write() -> None:
    from tomserve import benchmarks
    from tomserve.errors import ConfigError

    found: dict[str, frozenset[int]] = {}
    for name in sorted(benchmarks.names(), key=lambda one: -len(benchmarks.get(one).strategies)):
        with contextlib.suppress(ConfigError):  # it needs a file of its own
            begin = of(benchmarks.load(name, None, None, benchmarks.ALL))
            if begin not in found.values():
                found[name] = begin
    FILE.write_bytes(written(dict(sorted(found.items()))))


if __name__ == "__main__":
    _write()
