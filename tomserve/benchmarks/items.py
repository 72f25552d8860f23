"""The benchmark `items`: questions from a user's own JSONL or YAML file, which is given by ``--path``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tomserve.benchmarks.base import Benchmark
from tomserve.benchmarks.counterfactuals import Case, NoCase, read_cases
from tomserve.errors import ConfigError
from tomserve.items import Item, read_items


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """The items of the file `path`. Raises ConfigError without a path, ContentError by file and line for a mistake."""
    del gold  # the benchmark has one set of answers, so no other can be asked for
    return read_items(_require_path(path))


def cases(path: Path | None = None, where: Sequence[str] = ()) -> Iterator[Case | NoCase]:
    """The counterfactual cases of the file `path`, whatever the conditions. Raises as `load` does."""
    del where
    return read_cases(_require_path(path))


def _require_path(path: Path | None) -> Path:
    if path is None:
        raise ConfigError("benchmark 'items' needs a file: --path FILE.jsonl")
    return path


BENCHMARK = Benchmark("items", load, mixed=True, cases=cases)
"""Items that were exported from a benchmark are drawn as there (see tomserve.benchmarks.draw_of), others in whole
clusters."""
