"""Benchmarks: what is asked. One module or folder each, which declares ``BENCHMARK = Benchmark(...)``; or anybody's
file.

To add one, put a module beside these; its name is its name on the command line. Or write a file anywhere and name it
with ``--benchmark FILE.py``. What a benchmark may offer beside its items is told field by field in
tomserve.benchmarks.benchmark.Benchmark.

    >>> get("perturbed").stratum, get("hitom").golds
    ('perturbation', ('corrected', 'tracked', 'released'))
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from tomserve.benchmarks.benchmark import ANYBODYS, Benchmark
from tomserve.benchmarks.findings import Findings, Say
from tomserve.content import digest
from tomserve.content.pyfile import load_module
from tomserve.errors import ConfigError, ContentError, one_of
from tomserve.items import Item
from tomserve.scoring.metric import PLAIN, Scoring

__all__ = ["ANYBODYS", "DEFAULT", "Benchmark", "Findings", "Say", "get", "known", "load", "names", "scoring"]

DEFAULT = "perturbed"
"""The benchmark that is asked, and the dataset that is checked, where none is named."""

_PARTS = ("benchmark", "findings")
"""Modules of this package that are no benchmarks."""

_EXAMPLE = (
    "from tomserve.benchmarks import Benchmark",
    "def load(path, gold): yield from tomserve.read_items(path)",
    'BENCHMARK = Benchmark("my_tasks", load)',
)

_given: dict[str, Benchmark] = {}
"""Benchmarks of files that this process was told to load, by their names."""


def names() -> list[str]:
    """Every benchmark of this package."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name not in _PARTS)


def get(name: str | None = None) -> Benchmark:
    """The benchmark of that name, or that the file at that path (``*.py``) declares; DEFAULT for None.

    A file is run as code, since it was named. From then on this process knows the benchmark by its name, too, so that
    its metrics are computed wherever its items are scored. Raises ConfigError listing the known ones, ContentError by
    file and line for a file that declares none.
    """
    name = name or DEFAULT
    if name.endswith(".py"):
        return _from_file(Path(name).expanduser())
    if (found := known(name)) is None:
        raise ConfigError(f"{one_of('benchmark', name, names())}; a file of your own must end in .py")
    return found


def known(name: str) -> Benchmark | None:
    """The benchmark of that name, of this package or of a file that this process has loaded; None for any other:
    anybody may call the benchmark of his items what he likes."""
    return _given.get(name) or (_built_in(name) if name in names() else None)


def load(name: str, path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """The items of the benchmark of that name or file. path: the user's ``--path``. gold: the user's ``--gold``.

    Raises ConfigError, ContentError."""
    return get(name).items(path, gold)


def scoring(name: str) -> Scoring:
    """What the benchmark of that name adds to the scoring of its items; nothing where nobody knows it."""
    found = known(name)
    return found.scoring if found is not None else PLAIN


@cache
def _built_in(name: str) -> Benchmark:
    found: Benchmark = importlib.import_module(f"{__name__}.{name}").BENCHMARK
    return found


def _from_file(path: Path) -> Benchmark:
    code = digest(path) if path.is_file() else None
    module = load_module(path, "benchmark")
    found = vars(module).get("BENCHMARK")
    if not isinstance(found, Benchmark):
        what = f"BENCHMARK is {found!r:.60}" if "BENCHMARK" in vars(module) else "declares no BENCHMARK"
        raise ContentError(f"{what}; expected a line such as the last of: {' | '.join(_EXAMPLE)}", path=path)
    if found.name in names():
        raise ContentError(f"the name {found.name!r} is that of a built-in benchmark; choose another", path=path)
    benchmark = _given[found.name] = replace(found, file=path.resolve(), digest=code)
    return benchmark
