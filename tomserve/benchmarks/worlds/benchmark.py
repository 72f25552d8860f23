"""The benchmark of generated worlds: its fixed release, and files of fresh ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tomserve.benchmarks.benchmark import Benchmark
from tomserve.benchmarks.findings import Findings, Say
from tomserve.benchmarks.worlds.drawing import worlds
from tomserve.benchmarks.worlds.lexicon import built_in
from tomserve.benchmarks.worlds.rendering import NAME, items
from tomserve.benchmarks.worlds.surface import RULES
from tomserve.errors import ContentError
from tomserve.items import Item, read_items
from tomserve.items.draw import Draw

NUMBER, SEED = 1000, 1
"""How many worlds the fixed release worlds-1 has, and the seed that it is drawn by."""

CANARY = "tomserve-worlds-1-3d0b7c52-8e1f-4a96-9f2e-c47d1ab06e93: benchmark data; do not train on it"


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """The items of the fixed release, or of a file that `tomserve generate worlds` wrote.

    gold: not used, as there is one set of right answers. Raises ContentError for an item of another benchmark.
    """
    del gold
    if path is None:
        lexicon = built_in()
        for world in worlds(lexicon, NUMBER, SEED):
            for item in items(world, lexicon):
                yield item.model_copy(update={"canary": CANARY})
        return
    for item in read_items(path):
        if item.benchmark != NAME:
            raise ContentError(f"item {item.id!r} is of benchmark {item.benchmark!r}; use --benchmark items", path=path)
        yield item


def audit(path: Path | None, say: Say) -> Findings:
    """Score readers who follow nobody's mind (see tomserve.benchmarks.worlds.auditing)."""
    from tomserve.benchmarks.worlds.auditing import findings  # imported here, because it imports scipy

    found = list(load(path))
    say(f"fitting and scoring readers of {len(found):,} questions, about a minute ...")
    return findings(found)


BENCHMARK = Benchmark(NAME, load, draw=Draw(over=("family",)), rules=RULES, audit=audit)
"""The value by which tomserve knows the benchmark."""
