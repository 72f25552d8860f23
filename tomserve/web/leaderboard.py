"""The leaderboard: models in rows, what they were asked in columns, and in one column only what can be compared.

What is known of each run is computed beside and kept (tomserve.web.tallying); the board is put together from that each
time somebody looks (tomserve.web.ranking), so that it never speaks of runs that are gone.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path

from tomserve.causal.settings import ITEMS
from tomserve.errors import ConfigError
from tomserve.web import beside, tallying
from tomserve.web.people import Person
from tomserve.web.ranking import UNFINISHED, Apart, Board, Filters, Making
from tomserve.web.register import Line, Register
from tomserve.web.tallying import Tally

CACHE = "cache"
REMEMBERED = 4096
"""How many tallies are kept in memory."""

_known: OrderedDict[Path, Tally] = OrderedDict()
_lock = threading.Lock()


def board(register: Register, person: Person, filters: Filters) -> Board:
    """The leaderboard of the runs that a person may see. What is not counted yet is begun to be counted, and said.

    Raises ConfigError where nothing can be kept in the workbench's folder.
    """
    lines = [line for line in register.lines(person) if line.kind != "measured"]
    cache = register.folder / CACHE
    found: list[tuple[Line, Tally]] = []
    layered: list[tuple[str, str, Tally]] = []
    missing: list[beside.Work] = []
    apart: list[Apart] = []
    for line in lines:
        if line.broken or not line.complete:
            apart += _unranked(line)
            continue
        if (tally := _tally(line.folder, cache, missing)) is not None:
            found.append((line, tally))
    for folder, name in _layered(lines, register, person):
        if (tally := _tally(folder, cache, missing, layers=True)) is not None:
            layered.append((folder.name if "/" not in name else name.rpartition("/")[0], name, tally))
    tallying.begin_all(missing)
    named = ({line.benchmark for line in lines}, {one for line in lines for one in line.strategies},
             {line.model for line in lines})  # fmt: skip
    for names, chosen in zip(named, (filters.benchmark, filters.strategy, filters.model), strict=True):
        names.add(chosen)
        names.discard("")
    return Making(filters, found, layered, apart, len(missing), len(lines), named).board()


def _tally(folder: Path, cache: Path, missing: list[beside.Work], *, layers: bool = False) -> Tally | None:
    """The tally, where it is there; else None, and its work is among the missing ones."""
    work = tallying.work(folder, cache, layers=layers)
    with _lock:
        if work.path in _known:
            _known.move_to_end(work.path)
            return _known[work.path]
    try:
        path = beside.there(work)
        tally = None if path is None else tallying.read(path)
    except ConfigError as error:
        return Tally(broken=str(error))
    if tally is None:
        missing.append(work)
        return None
    with _lock:
        _known[work.path] = tally
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
        runs = [path.name for path in folder.iterdir() if (path / tallying.READ[0]).exists()]
        if parent and all(f"{parent}/{name}" in names for name in runs):
            yield folder, line.name
