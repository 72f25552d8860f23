"""Finding and loading studies: ``analysis/NAME.py``, ``analysis/NAME/study.py``, or a path to such a file or folder.

>>> load_study("accuracy").intervals
('recommended', 'effective', 'published')
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterable, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl

from tomserve import benchmarks, content
from tomserve.content.python_file import describe_failure, load_module
from tomserve.errors import ConfigError, ContentError, Interrupted, one_of
from tomserve.scoring.table import MEASURED
from tomserve.studies.study import FIELDS, Study

FILE = "study.py"
"""The file of a study that is a folder."""


def names() -> list[str]:
    """The names of all studies that can be found, sorted."""
    return sorted(_places())


def _places() -> dict[str, Path]:
    """The file of every study by the study's name; where several have one name, that of the first folder."""
    files: dict[str, Path] = {}
    for root in content.roots():
        folder = root / "analysis"
        for path in (*sorted(folder.glob("*.py")), *sorted(folder.glob(f"*/{FILE}"))):
            name = path.parent.name if path.parent != folder else path.stem
            if not name.startswith("_"):
                files.setdefault(name, path)
    return files


def load_study(name: str) -> Study:
    """The study of that name, or at that path: a ``.py`` file, or a folder that holds ``study.py``.

    Raises ConfigError for what cannot be found, and ContentError, with file and line, for a file that declares no
    study.
    """
    path = _given(name) or _places().get(name)
    if path is None:
        raise ConfigError(f"{one_of('study', name, names())}; a path ends in .py or, of a folder, in /")
    module = _folder(path) if path.name == FILE else load_module(path, "study")
    study = vars(module).get("STUDY")
    if not isinstance(study, Study):
        raise ContentError(_no_study(module, study), path=path)
    return dataclasses.replace(study, path=path)


def _given(name: str) -> Path | None:
    """The file of a study given by path, None for a name. A folder counts as a path only if it is written with a
    slash."""
    path = Path(name).expanduser()
    if name.endswith(".py"):
        return path
    return path / FILE if "/" in name else None


def _no_study(module: ModuleType, found: object) -> str:
    if found is not None:
        return f"STUDY is a {type(found).__name__}; expected STUDY = Study(name=..., tables=...)"
    if not callable(vars(module).get("tables")):
        return "has no STUDY; write STUDY = Study(name=..., tables=...), with Study from tomserve.studies"
    older = [name for name in FIELDS if name != "tables" and ({name, name.upper()} & set(vars(module)))]
    handed = "".join(f", {name}={name if name in vars(module) else name.upper()}" for name in older if name != "name")
    return (
        "has a function tables(scores, intervals) but no STUDY; write below it: from tomserve.studies import Study; "
        f"STUDY = Study(name={Path(str(module.__file__)).stem!r}, tables=tables{handed})"
    )


def _folder(path: Path) -> ModuleType:
    """Run a study that is a folder, as a package of its own whose modules import each other (``from .rows import x``).

    The package is named after the folder's place, so that studies do not see each other's modules. It stays loaded, so
    that a function of the study can import one of its modules when it is called. Loading it again reads the files anew.
    """
    if not path.is_file():
        raise ConfigError(f"study {str(path.parent)!r}: no such file ({path})")
    folder = path.resolve().parent
    package = f"tomserve_study_{folder.name}_{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        del sys.modules[name]
    importlib.invalidate_caches()
    start = folder / "__init__.py"
    spec = importlib.util.spec_from_file_location(package, start) if start.is_file() else None
    if spec is None:
        spec = ModuleSpec(package, None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    module = importlib.util.module_from_spec(spec)
    sys.modules[package] = module
    try:
        if spec.loader is not None:
            spec.loader.exec_module(module)
        return importlib.import_module(f"{package}.{path.stem}")
    except Interrupted:
        raise
    except (Exception, SystemExit) as error:
        raise failure(error, path, "cannot be loaded") from None


def failure(error: BaseException, path: Path, what: str) -> ContentError:
    """An error of a study's code as one line, which names the last line of the study's own files that was reached.

    path: the study's file. what: what happened, such as "cannot be loaded".
    """
    own = path.resolve().parent
    places = [Path(one.filename) for one in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        places.append(Path(error.filename))
    reached = [place for place in places if place.resolve().parent == own]
    return describe_failure(error, reached[-1] if reached else path, what)


ANSWERED = frozenset(("strategy", "status", "correct"))
"""Columns of which a table of answers has at least one, and a measured table none."""


def measured_studies(scores: pl.DataFrame) -> list[str]:
    """The names of the studies of measurements whose columns this table has, those that need most of them first; none
    where the table holds answers.

    A study whose file has a mistake in it is passed over.
    """
    if not ANSWERED.isdisjoint(scores.columns):
        return []
    fitting: list[tuple[int, str]] = []
    for name in names():
        with contextlib.suppress(ConfigError):
            study = load_study(name)
            if not study.answers and set(study.required) <= set(scores.columns):
                fitting.append((-len(study.required), name))
    return [name for _, name in sorted(fitting)]


def readers_of_both() -> list[str]:
    """The names of the studies that read answers and measurements in one table; one whose file has a mistake in it is
    passed over."""
    found = []
    for name in names():
        with contextlib.suppress(ConfigError):
            if load_study(name).together:
                found.append(name)
    return found


def named_by(manifests: Iterable[Mapping[str, Any]]) -> str | None:
    """The study that these runs name to read what they have measured; None where they do not name one, and the same.

    manifests: of all runs. A manifest may be a stranger's: only a study that is found by its name counts, and a path
    never does.
    """
    named = {manifest.get("study") if manifest.get("kind") == MEASURED else None for manifest in manifests}
    return next((name for name in names() if {name} == named), None)


def default_study(scores: pl.DataFrame) -> str:
    """The name of the study that the benchmark of these answers declares or, for a measured table, of the study that
    reads its columns.

    Where the answers are of several benchmarks, or of one that is not known by name, it is the study that fits any
    items. Raises ConfigError where several studies read a measured table equally well.
    """
    if fitting := measured_studies(scores):
        needed = [len(load_study(name).required) for name in fitting[:2]]
        if len(needed) > 1 and needed[0] == needed[1]:
            raise ConfigError(f"score table: several studies read it ({', '.join(fitting)}); choose one by --study")
        return fitting[0]
    asked = scores["benchmark"].drop_nulls().unique().to_list() if "benchmark" in scores.columns else []
    known = benchmarks.find(asked[0]) if len(asked) == 1 else None
    return benchmarks.Benchmark.study if known is None else known.study
