"""Anybody's items: a file of Items (see tomserve.items.read_items), JSONL or YAML, given by ``--path``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tomserve.benchmarks.benchmark import Benchmark
from tomserve.errors import ConfigError
from tomserve.items import Item, read_items


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """The items of `path`. Raises ConfigError without a path, ContentError for a bad line."""
    del gold  # they have one set of answers
    if path is None:
        raise ConfigError("benchmark 'items' needs a file: --path FILE.jsonl")
    return read_items(path)


BENCHMARK = Benchmark("items", load, stratum="perturbation", mixed=True)
"""Exported items of the perturbed benchmark are spread over its classes; items without that factor are one stratum."""
