"""Some items of a benchmark, spread over its first part, without waiting for all of it."""

from __future__ import annotations

from functools import cache
from itertools import islice

from tests.conftest import ROOT
from tomserve import benchmarks
from tomserve.items import Item

FILES = {"bigtom": ROOT / "tests/data/bigtom_small.csv", "hitom": ROOT / "tests/data/hitom_small.json"}
"""Small files of benchmarks that tomserve does not hold."""

FIRST = 2000
"""How many items are looked at: of generated ones, families in turn, every family is among them."""


@cache
def several(benchmark: str, count: int) -> tuple[Item, ...]:
    """About that many items, at even distances; fewer where the benchmark's small file has fewer."""
    items = benchmarks.get(benchmark).load(FILES.get(benchmark), None)  # Benchmark.items would make all of them first
    found = list(islice(items, FIRST))
    return tuple(found[:: max(1, len(found) // count)])
