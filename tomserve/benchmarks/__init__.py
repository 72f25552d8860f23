"""Benchmarks: one module each, with ``load(path) -> Iterator[Item]`` and ``STUDY``, the study that reads its scores.

To add one, put a module beside these; its name is its name on the command line. It may name in ``STRATUM`` the factor
over whose values ``--limit`` is spread. Where the answers of its questions are
disputed, it names the sets of answers in ``GOLDS``, the default first, and takes ``load(path, gold=name)``.

What else a module may have, each found by name:

    STRATEGIES              the strategies that `tomserve eval` asks by default
    LETTERED                True where choices are offered by letter, so that a reply may name one by it
    SCORE_COLUMNS, score_columns(item)
                            columns (name -> type) of the score table beside the factors, computed when it is made
    beliefs(item)           more beliefs after every sentence, for the report: (heading, labels) pairs
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol, cast

from tomserve.errors import ConfigError, one_of
from tomserve.items import Factor, Item

DEFAULT_STRATEGIES = ("vanilla", "cot")

DEFAULT = "perturbed"
"""The benchmark that `tomserve eval` asks unless the user names one."""


class Benchmark(Protocol):
    """What a benchmark module offers."""

    STUDY: str

    @staticmethod
    def load(path: Path | None = None) -> Iterator[Item]:
        """Yield the items; `path` is the user's ``--path``."""
        ...


def load(name: str, path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """The items of the benchmark of that name; `gold` is the user's ``--gold``. Raises ConfigError, ContentError."""
    module = get(name)
    if gold is None:
        return module.load(path)
    golds: tuple[str, ...] = getattr(module, "GOLDS", ())
    if not golds:
        raise ConfigError(f"--gold {gold!r}: benchmark {name!r} has one set of answers; leave --gold out")
    if gold not in golds:
        raise ConfigError(one_of(f"--gold of benchmark {name!r}", gold, golds))
    return cast(Callable[..., Iterator[Item]], module.load)(path, gold=gold)


def names() -> list[str]:
    """Every benchmark module of this package."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def get(name: str) -> Benchmark:
    """The benchmark of that name. Raises ConfigError listing the known ones."""
    if name not in names():
        raise ConfigError(one_of("benchmark", name, names()))
    return cast(Benchmark, importlib.import_module(f"{__name__}.{name}"))


def strategies(name: str) -> tuple[str, ...]:
    """The strategies that a benchmark is asked with unless the user names some. Raises ConfigError."""
    get(name)
    found: tuple[str, ...] = _offered(name, "STRATEGIES") or DEFAULT_STRATEGIES
    return found


def lettered(name: str) -> bool:
    """Whether items of that benchmark offer their choices by letter; False for a name that is none of ours."""
    return bool(_offered(name, "LETTERED"))


def score_kinds(names: Iterable[str]) -> dict[str, type]:
    """Names and types of the columns that these benchmarks add to a score table."""
    found: dict[str, type] = {}
    for name in sorted(names):
        found |= _offered(name, "SCORE_COLUMNS") or {}
    return found


def score_columns(item: Item) -> Mapping[str, Factor]:
    """What the item's benchmark adds to its rows of a score table."""
    made = _offered(item.benchmark, "score_columns")
    return made(item) if made is not None else {}


def beliefs(item: Item) -> Sequence[tuple[str, Sequence[str]]]:
    """What the item's benchmark knows of beliefs beside the gold chain: headings, each with a label a sentence."""
    made = _offered(item.benchmark, "beliefs")
    return made(item) if made is not None else ()


@cache
def _offered(name: str, what: str) -> Any:
    """That part of a benchmark module, None where it (or the benchmark) is missing: anybody may name his own items."""
    return getattr(get(name), what, None) if name in names() else None
