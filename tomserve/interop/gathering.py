"""Puts the questions of runs, or of a benchmark, together for a dataset, and finds out what does not fit together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tomserve import benchmarks
from tomserve.content.compact_index import FirstPlaces
from tomserve.content.paths import run_name
from tomserve.errors import ConfigError
from tomserve.interop.answered import Replies
from tomserve.items import Item, read_items
from tomserve.runs.item_store import ItemStore

WAY_OUT = "export them one by one"


def of_runs(runs: Sequence[Replies]) -> ItemStore:
    """The questions of these runs, each once, sorted by their ids. Raises ConfigError where two runs call different
    questions by one id."""
    stock = ItemStore(_each_once(runs))
    return stock.part(sorted(range(len(stock)), key=lambda place: stock.ids[place]))


def _each_once(runs: Sequence[Replies]) -> Iterator[Item]:
    ids, lines = FirstPlaces(), list[int]()
    for run in runs:
        for item in read_items(run.folder / "items.jsonl"):
            place, told = ids.add(item.id, len(lines)), hash(item.to_json())
            if place == len(lines):
                lines.append(told)
                yield item
            elif lines[place] != told:
                raise ConfigError(
                    f"{run.folder}: calls another question {item.id!r:.80} than a run before it does, so that nobody "
                    f"could tell which one a reply answers; {WAY_OUT}"
                )


def of_benchmark(name: str, path: Path | None, runs: Sequence[Replies]) -> ItemStore:
    """All questions of a benchmark. runs: what answered some of them. Raises ConfigError where one of these asked
    something else."""
    stock = ItemStore(benchmarks.load(name, path, None, benchmarks.ALL))
    places = FirstPlaces(stock.ids)
    for run in runs:
        for item in read_items(run.folder / "items.jsonl"):
            place = places.find(item.id)
            if place is None or stock[place] != item:
                how = "is not among" if place is None else "is told otherwise by"
                raise ConfigError(
                    f"{run.folder}: its question {item.id!r:.80} {how} today's questions of {name}; leave --benchmark "
                    "out, so that the questions are taken from the runs"
                )
    return stock


def named(runs: Sequence[Replies]) -> list[str]:
    """What the runs are called. Raises ConfigError where two have one name."""
    names = [run_name(run.folder) for run in runs]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two runs are called {name!r:.100}; rename the folder of one, or {WAY_OUT}")
    return names
