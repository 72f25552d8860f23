"""The leaderboard: models in rows, what they were asked in columns, and in one column only what can be compared.

What is known of each run is computed beside and kept (tomserve.web.tallying); the board is put together from that each
time somebody looks (tomserve.web.ranking), so that it never speaks of runs that are gone.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path

import pydantic

from tomserve.causal.settings import ITEMS
from tomserve.web import computing, tallying
from tomserve.web.computing import Result, Wish
from tomserve.web.people import Person
from tomserve.web.ranking import UNFINISHED, Apart, Board, Filters, Making
from tomserve.web.register import Line, Register
from tomserve.web.tallying import Tally

REMEMBERED = 4096
"""How many tallies are kept in memory."""

_known: OrderedDict[Path, Tally] = OrderedDict()
_lock = threading.Lock()


def board(register: Register, person: Person, filters: Filters) -> Board:
    """The leaderboard of the runs that a person may see. What is not counted yet is begun to be counted, and said.

    A run of which nothing can be kept is said to be broken.
    """
    lines = [line for line in register.lines(person) if line.kind != "measured"]
    apart = [one for line in lines if line.broken or not line.complete for one in _unranked(line)]
    ranked = [line for line in lines if not line.broken and line.complete]
    folders = list(_layered(lines, register, person))
    wishes = [tallying.wish(line.folder) for line in ranked]
    tallies = _tallies([*wishes, *(tallying.wish(folder, layers=True) for folder, _ in folders)])
    found = [(line, tally) for line, tally in zip(ranked, tallies, strict=False) if tally is not None]
    layered = [
        (folder.name if "/" not in name else name.rpartition("/")[0], name, tally)
        for (folder, name), tally in zip(folders, tallies[len(ranked) :], strict=True)
        if tally is not None
    ]
    pending = sum(tally is None for tally in tallies)
    named = ({line.benchmark for line in lines}, {one for line in lines for one in line.strategies},
             {line.model for line in lines})  # fmt: skip
    for names, chosen in zip(named, (filters.benchmark, filters.strategy, filters.model), strict=True):
        names.add(chosen)
        names.discard("")
    return Making(filters, found, layered, apart, pending, len(lines), named).board()


def _tallies(wishes: Sequence[Wish]) -> list[Tally | None]:
    """The tallies, None for those that are being made."""
    return [None if made is None else _tally(made) for made in computing.beside().every(wishes)]


def _tally(made: Result) -> Tally:
    if made.error:
        return Tally(broken=made.error)
    with _lock:
        if made.folder in _known:
            _known.move_to_end(made.folder)
            return _known[made.folder]
    try:
        tally = tallying.read(made.facts)
    except pydantic.ValidationError:
        return Tally(broken="what was kept of it is no tally; delete runs/.web/cache, and it is made anew")
    with _lock:
        _known[made.folder] = tally
        while len(_known) > REMEMBERED:
            _known.popitem(last=False)
    return tally


def _unranked(line: Line) -> Iterable[Apart]:
    """A run that cannot be ranked, and why; nothing of one that has only been queued."""
    if line.broken:
        yield Apart(line.name, line.model, line.benchmark, line.broken)
    elif line.kind:
        why = "it is running" if line.running else UNFINISHED
        yield Apart(line.name, line.model, line.benchmark, why)


def _layered(lines: Sequence[Line], register: Register, person: Person) -> Iterable[tuple[Path, str]]:
    """The folders with the layers of one model, each with the name of one of its runs; those of which somebody may see
    every run."""
    names = {line.name for line in register.lines(person)}
    for line in lines:
        folder = line.folder.parent
        if line.folder.name != ITEMS or not line.complete or not tallying.is_layered(folder):
            continue
        parent = line.name.rpartition("/")[0]
        runs = [path.name for path in folder.iterdir() if (path / tallying.MANIFEST).exists()]
        if parent and all(f"{parent}/{name}" in names for name in runs):
            yield folder, line.name
