"""Benchmarks: the questions that models are asked. Each is one value, ``BENCHMARK = Benchmark(...)``.

To add one, write a file anywhere that declares it and name that file by ``--benchmark FILE.py``; or put the module or
folder into this package, where its name, with "-" for "_", is its name on the command line. The fields of
tomserve.benchmarks.Benchmark say what a benchmark may offer besides its items.

    >>> get("perturbed").draw.over, get("hitom").golds
    (('stage', 'perturbation'), ('corrected', 'tracked', 'released'))
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from tomserve.benchmarks.base import ALL, ANYBODYS, Benchmark, Findings, Say
from tomserve.benchmarks.counterfactuals import Case, NoCase
from tomserve.content import digest
from tomserve.content.python_file import load_module
from tomserve.errors import ConfigError, ContentError, one_of
from tomserve.items import Item
from tomserve.items.draw import Draw
from tomserve.scoring.baselines import Baseline
from tomserve.scoring.metrics import PLAIN, Scoring
from tomserve.variants import Retell

__all__ = [
    "ALL",
    "ANYBODYS",
    "DEFAULT",
    "Baseline",
    "Benchmark",
    "Case",
    "Draw",
    "Findings",
    "NoCase",
    "Say",
    "draw_of",
    "find",
    "get",
    "load",
    "names",
    "require_cases",
    "retelling",
    "scoring_of",
]

DEFAULT = "perturbed-2"
"""Name of the benchmark that is asked or checked where the user names none."""

_PARTS = ("base", "counterfactuals", "learned_baselines", "published")
"""Modules of this package and of published/ that declare no benchmark."""

_EXAMPLE = (
    "from tomserve.benchmarks import Benchmark",
    "def load(path, gold): yield from tomserve.read_items(path)",
    'BENCHMARK = Benchmark("my_tasks", load)',
)

_loaded: dict[str, Benchmark] = {}
"""Benchmarks from users' files that this process has loaded, by their names."""


def names() -> list[str]:
    """The names of all benchmarks of this package, sorted."""
    return sorted(modules())


def get(name: str | None = None) -> Benchmark:
    """The benchmark of that name, or the one that a file ending in ``.py`` declares; None for DEFAULT.

    The file is run as code, because the user named it, and from then on its benchmark is known by name, so that its
    metrics are computed wherever its items are scored. Raises ConfigError with the known names for an unknown one,
    ContentError by file and line for a file that declares no benchmark.
    """
    name = name or DEFAULT
    if name.endswith(".py"):
        return _from_file(Path(name).expanduser())
    if (found := find(name)) is None:
        raise ConfigError(f"{one_of('benchmark', name, names())}; a file of your own must end in .py")
    return found


def find(name: str) -> Benchmark | None:
    """The benchmark of that name, from this package or from a file that this process has loaded; None for any other,
    as the author of an item may call its benchmark anything."""
    return _loaded.get(name) or (_built_in(name) if name in modules() else None)


def load(
    name: str, path: Path | None = None, gold: str | None = None, where: Iterable[str] | None = None
) -> Iterator[Item]:
    """The items of a benchmark, by its name or file. path: file or folder to read instead of its own data. gold, where:
    which answers count, and what the items have to meet, as for `Benchmark.items`. Raises as that and `get` do."""
    return get(name).items(path, gold, where)


def require_cases(benchmark: Benchmark) -> Benchmark:
    """The benchmark, where it has counterfactual cases. Raises ConfigError that names those that have."""
    if benchmark.cases is None:
        known = [name for name in names() if (found := _built_in(name)).cases is not None and not found.mixed]
        reason = f"benchmark {benchmark.name!r} has no cases, which are false-belief items told in several ways"
        raise ConfigError(f"{reason}; those that have: {', '.join(known)}, and a file of items may")
    return benchmark


def scoring_of(name: str) -> Scoring:
    """What the benchmark of that name adds to the standard scoring; nothing where the name is unknown."""
    found = find(name)
    return found.scoring if found is not None else PLAIN


def retelling(benchmark: Benchmark, path: Path | None = None) -> Callable[[str], Retell]:
    """A function that gives, for the name of a benchmark, what makes variants of its items: that benchmark, from the
    user's ``--path`` if it is the one that is asked, else from its own data; rules of text where it has none."""

    def teller(name: str) -> Retell:
        found = benchmark if name == benchmark.name else find(name)
        own = None if found is None else found.retell(path if found is benchmark else None)
        if own is not None:
            return own
        from tomserve.variants import text_rules  # few runs have variants

        return text_rules.retell

    return teller


def draw_of(benchmark: Benchmark, names: Iterable[str]) -> Draw:
    """How a part of items is drawn. names: the benchmarks that the items name. Items of a file that is asked as `items`
    are drawn as the one known benchmark that they name says, and in whole clusters where they name none, or several."""
    if not benchmark.mixed:
        return benchmark.draw
    found = {one.draw for name in names if name != benchmark.name and (one := find(name)) is not None}
    return found.pop() if len(found) == 1 else benchmark.draw


@cache
def modules() -> dict[str, str]:
    """The modules that declare a benchmark, by its name."""
    published = f"{__name__}.published"  # whose modules are listed without importing it
    places = (__path__, f"{__name__}."), ([f"{path}/published" for path in __path__], f"{published}.")
    found = (one for path, prefix in places for one in pkgutil.iter_modules(path, prefix))
    named = {module.name.rpartition(".")[2]: module.name for module in found}
    return {name.replace("_", "-"): module for name, module in named.items() if name not in _PARTS}


@cache
def _built_in(name: str) -> Benchmark:
    found: Benchmark = importlib.import_module(modules()[name]).BENCHMARK
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
    benchmark = _loaded[found.name] = replace(found, file=path.resolve(), digest=code)
    return benchmark
