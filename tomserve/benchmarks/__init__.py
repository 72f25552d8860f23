"""Benchmarks: one module each, with ``load(path) -> Iterator[Item]`` and ``STUDY``, the study that reads its scores.

To add one, put a module beside these; its name is its name on the command line. It may name in ``STRATUM`` the factor
over whose values ``--limit`` is spread. Where the answers of its questions are
disputed, it names the sets of answers in ``GOLDS``, the default first, and takes ``load(path, gold=name)``.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, cast

from tomserve.errors import ConfigError, one_of
from tomserve.items import Item


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
