"""Finds out of which benchmark of ours the questions are that another tool asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tomserve import benchmarks
from tomserve.content.text import count_noun
from tomserve.errors import ConfigError
from tomserve.interop import beginnings
from tomserve.interop.matching import Known
from tomserve.interop.spool import Spool
from tomserve.runs.progress import Listener

NONE = "none"
"""The benchmark that says that questions are taken as they are."""

LOOKED_AT = 20
"""Whether questions may be those of a benchmark is seen by so many of them, spread over all."""


class Asked(NamedTuple):
    """Whose questions were asked. known: the benchmark; None where they are taken as they are. found: for each reply
    the id of its item, None for one that is none of the benchmark's. path: the benchmark's file, where it was given.
    nearly: in words, of which benchmark most questions are that are taken as they are, because some are not."""

    known: Known | None = None
    found: Sequence[str | None] = ()
    path: Path | None = None
    nearly: str = ""


class Benchmarks:
    """The benchmarks whose questions may have been asked, each loaded when it is first looked at.

    named: which one the user names, NONE for none, None to find out. path: its file. listener: is told what takes long.
    Raises ConfigError for a file without a benchmark.
    """

    def __init__(self, named: str | None, path: Path | None, listener: Listener) -> None:
        self._named, self._path, self._listener = named, path, listener
        if path is not None and named in (None, NONE):
            raise ConfigError("--path belongs to --benchmark NAME")
        if named not in (None, NONE):
            benchmarks.get(named)  # an unknown name is said before anything is read
        self._loaded: dict[str, Known] = {}

    def of(self, samples: Spool) -> Asked:
        """Whose questions these are. Raises ConfigError where a benchmark was named, and none of its questions is among
        them."""
        if self._named == NONE:
            return Asked()
        if self._named is None:
            return self._found_out(samples)
        known = self._known(self._named)
        found = _found(known, samples)
        if not any(found):
            raise ConfigError(
                f"--benchmark {self._named}: of {count_noun(len(found), 'question')} none is one of its items by story "
                "and question; leave --benchmark out, or give --benchmark none to take them as they are"
            )
        return Asked(known, found, self._path)

    def _found_out(self, samples: Spool) -> Asked:
        nearly, some = "", [(one.asked, one.item) for one in samples.spread(LOOKED_AT)]
        for name in beginnings.likely(asked for asked, _ in some):
            known = self._known(name)
            if not any(known.find(asked, item) for asked, item in some):
                continue
            found = _found(known, samples)
            if all(found):
                return Asked(known, found)
            place = next(one.place for one, item in zip(samples, found, strict=True) if item is None)
            count = len(found) - found.count(None)
            there = f"{count:,} of {len(found):,} replies {'is' if count == 1 else 'are'} to items of {name}"
            nearly = nearly or (
                f"{there}, the others are not (first: {place}), so that all were taken as they are; --benchmark {name} "
                "brings those alone"
            )
        return Asked(nearly=nearly)

    def _known(self, name: str) -> Known:
        if name not in self._loaded:
            self._listener.message(f"looking through the questions of {name}")
            items = benchmarks.load(name, self._path, None, benchmarks.ALL)
            self._loaded[name] = Known(benchmarks.get(name).name, items)
        return self._loaded[name]


def _found(known: Known, samples: Spool) -> list[str | None]:
    return [known.find(one.asked, one.item) for one in samples]
