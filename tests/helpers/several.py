"""Some items of a benchmark, spread over its first part, without waiting for all of it."""

from functools import cache
from itertools import islice

from tests.conftest import ROOT
from tomserve import benchmarks
from tomserve.items import Item

FILES = {"bigtom": ROOT / "tests/data/bigtom_small.csv", "hitom": ROOT / "tests/data/hitom_small.json"}
"""Small files of benchmarks that tomserve does not hold."""

FIRST = 500
"""How many items are looked at."""


@cache
def _first(benchmark: str) -> tuple[Item, ...]:
    items = benchmarks.get(benchmark).load(FILES.get(benchmark), None)  # Benchmark.items would make all of them first
    return tuple(islice(items, FIRST))


def several(benchmark: str, count: int) -> tuple[Item, ...]:
    """About that many items, at even distances; fewer where the benchmark's small file has fewer."""
    found = _first(benchmark)
    return found[:: max(1, len(found) // count)]
