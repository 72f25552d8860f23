"""Keeps foreign replies on disk while it is found out what they are, so that memory does not grow with their texts."""

from __future__ import annotations

import hashlib
import re
from array import array
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import orjson

from tomserve.content.compact_index import FirstPlaces
from tomserve.errors import ConfigError
from tomserve.interop.foreign import Grade, Sample

_HALF = re.compile("[\ud800-\udfff]")
"""Half of a pair that together is a character; JSON can name it, and no file can hold it."""

_NAMES = tuple(one.name for one in fields(Sample))
_DIGEST = 8
"""How many bytes of a digest say whether two texts are the same."""


class Spool:
    """The replies of one task by one model, in the order in which they came. path: a file to write.

    Of two replies to the same question, repeat and way of asking the later one counts; `repeated` says how many were
    replaced.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b")
        self._offsets, self._sources = array("Q"), array("I")
        self._places = FirstPlaces()
        self._texts = bytearray()
        self._end = 0
        self.repeated = 0

    def add(self, sample: Sample, source: int = 0) -> int | None:
        """Keep a reply. source: the number of the file that it is from. Returns that of the file whose reply it
        replaces, None where it replaces none.

        Raises ConfigError where that one answers another question, although both have the same id, and OSError where
        the disk is full.
        """
        sample, line = _written(sample)
        name = orjson.dumps([sample.id, sample.repeat, sample.strategy]).decode()
        text = text_digest(sample)
        place = self._places.add(name, len(self._offsets))
        before: int | None = None
        if place == len(self._offsets):
            self._offsets.append(self._end)
            self._sources.append(source)
            self._texts += text
        elif self._texts[_DIGEST * place : _DIGEST * (place + 1)] != text:
            raise other_text(sample, self[place])
        else:
            before = self._sources[place]
            self._offsets[place], self._sources[place] = self._end, source
            self.repeated += 1
        self._file.seek(self._end)
        self._file.write(line)
        self._end += len(line)
        return before

    def __len__(self) -> int:
        return len(self._offsets)

    def __iter__(self) -> Iterator[Sample]:
        return map(self.__getitem__, range(len(self._offsets)))

    def spread(self, count: int) -> Iterator[Sample]:
        """Some of the replies, about so many, spread over all."""
        return map(self.__getitem__, range(0, len(self), max(1, len(self) // count)))

    def __getitem__(self, place: int) -> Sample:
        self._file.seek(self._offsets[place])
        return _sample(orjson.loads(self._file.readline()))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def text_digest(sample: Sample) -> bytes:
    """Says whether two replies are to the same question: a digest of the question as the task states it."""
    return hashlib.blake2b((sample.given or sample.asked).encode(), digest_size=_DIGEST).digest()


def other_text(sample: Sample, before: Sample) -> ConfigError:
    """The error for two questions of one id that ask different things."""
    return ConfigError(
        f"{sample.place}: question {sample.id!r:.80} has another text than at {before.place}; give every question an "
        "id of its own, or bring the files one by one, each with --run NAME"
    )


def _written(sample: Sample) -> tuple[Sample, bytes]:
    """The sample as JSON can hold it, and its line."""
    try:
        return sample, orjson.dumps(sample) + b"\n"
    except TypeError:  # half of a surrogate pair, a number of more than 64 bits, a name that is no text
        plain = _plain({name: _raw(sample, name) for name in _NAMES})
        return _sample(dict(plain)), orjson.dumps(plain) + b"\n"


def _raw(sample: Sample, name: str) -> Any:
    value = vars(sample)[name]
    if isinstance(value, Grade):
        return vars(value)
    return {key: vars(one) for key, one in value.items()} if name == "grades" else value


def _plain(value: Any) -> Any:
    """The value as JSON can hold it: half characters become signs, and numbers that are too long become texts."""
    if isinstance(value, str):
        return _HALF.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, dict):
        return {str(_plain(str(name))): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        return f"{value:.6g}" if abs(value) < 10**300 else "a number of more than 300 digits"
    return value if isinstance(value, bool | int | float) else None


def _sample(values: dict[str, Any]) -> Sample:
    for name in ("choices", "story"):
        values[name] = tuple(values[name])
    values["grade"] = None if values["grade"] is None else Grade(**values["grade"])
    values["grades"] = {name: Grade(**one) for name, one in values["grades"].items()}
    return Sample(**{name: values[name] for name in _NAMES})
