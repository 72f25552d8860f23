"""Keeps foreign replies on disk while it is found out what they are, so that memory does not grow with their texts."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import orjson

from tomserve.interop.foreign import Grade, Sample

_NAMES = tuple(one.name for one in fields(Sample))


class Spool:
    """The replies of one task by one model, in the order in which they came. path: a file to write.

    Of two replies to the same question, repeat and way of asking the later one counts; `repeated` says how many were
    replaced.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b")
        self._offsets = array("Q")
        self._place: dict[tuple[str, int, str | None], int] = {}
        self._end = 0
        self.repeated = 0

    def add(self, sample: Sample) -> None:
        """Keep a reply. Raises OSError where the disk is full."""
        line = orjson.dumps(asdict(sample), option=orjson.OPT_NON_STR_KEYS) + b"\n"
        key = sample.id, sample.repeat, sample.strategy
        if (place := self._place.get(key)) is None:
            self._place[key] = len(self._offsets)
            self._offsets.append(self._end)
        else:
            self._offsets[place] = self._end
            self.repeated += 1
        self._file.write(line)
        self._end += len(line)

    def __len__(self) -> int:
        return len(self._offsets)

    def __iter__(self) -> Iterator[Sample]:
        self._file.flush()
        for offset in self._offsets:
            self._file.seek(offset)
            yield _sample(orjson.loads(self._file.readline()))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _sample(values: dict[str, Any]) -> Sample:
    for name in ("choices", "story"):
        values[name] = tuple(values[name])
    values["grade"] = None if values["grade"] is None else Grade(**values["grade"])
    values["grades"] = {name: Grade(**one) for name, one in values["grades"].items()}
    return Sample(**{name: values[name] for name in _NAMES})
