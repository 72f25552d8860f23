"""Studies: scripts in ``analysis/`` that turn scored records into a paper's tables.

A study has ``tables(scores, intervals) -> {name: frame}``, ``REQUIRED`` columns, allowed ``VALUES`` and ``INTERVALS``,
and may have ``summary(tables) -> {title: frame}``, what the terminal shows. It is found by name, or given by path.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import polars as pl

from tomserve import content
from tomserve.errors import ConfigError, ContentError, one_of

KEY = ["run", "model", "strategy", "item"]


def names() -> list[str]:
    """Every study that can be found."""
    return list(content.names("analysis", ".py"))


def load_study(name: str) -> ModuleType:
    """The study of that name, or at that path (``*.py``). Raises ConfigError, ContentError."""
    path = Path(name).expanduser() if name.endswith(".py") else content.names("analysis", ".py").get(name)
    if path is None:
        raise ConfigError(f"{one_of('study', name, names())}; a path must end in .py")
    if not path.is_file():
        raise ConfigError(f"study {name!r}: no such file")
    spec = importlib.util.spec_from_file_location(f"tomserve_study_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ContentError("is not a Python file", path=path)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # a study is the user's code: say where it failed rather than how we called it
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        line = trace.tb_lineno if trace else None
        raise ContentError(f"cannot be loaded ({type(error).__name__}: {error})", path=path, line=line) from None
    if not callable(getattr(module, "tables", None)):
        raise ContentError("has no function tables(scores, intervals)", path=path)
    return module


def analyze(scores: pl.DataFrame, study: ModuleType, intervals: str) -> dict[str, pl.DataFrame]:
    """Check the table against what the study needs, then compute its tables. Raises ConfigError by name."""
    check(scores, getattr(study, "REQUIRED", ()), getattr(study, "VALUES", {}))
    offered = getattr(study, "INTERVALS", (intervals,))
    if intervals not in offered:
        raise ConfigError(one_of("intervals", intervals, offered))
    found: dict[str, pl.DataFrame] = study.tables(scores.lazy(), intervals)
    return found


def check(scores: pl.DataFrame, required: Sequence[str], values: dict[str, Sequence[str]]) -> None:
    """Refuse missing columns, unknown values and duplicate rows."""
    for name in required:
        if name not in scores.columns:
            raise ConfigError(f"score table: column {name!r} is missing; required: {', '.join(required)}")
    for name, known in values.items():
        strange = scores.filter(pl.col(name).is_null() | ~pl.col(name).is_in(list(known)))
        if strange.height:
            item, found = strange.select("item", name).row(0)
            raise ConfigError(f"score table: item {item!r}: {one_of(name, str(found), known)}")
    keys = [name for name in KEY if name in scores.columns]
    double = scores.filter(pl.struct(keys).is_duplicated())
    if double.height:
        shown = ", ".join(f"{name} {value!r}" for name, value in zip(keys, double.select(keys).row(0), strict=True))
        raise ConfigError(f"score table: more than one row for {shown}")
