"""The command line's `dataset` commands: prove a dataset's structure or labels, and score shortcuts on it.

tomserve dataset validate

What is proved or audited, each benchmark says itself (see tomserve.benchmarks.Benchmark: validate, audit).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tomserve.cli.options import PathOption
from tomserve.errors import ConfigError

if TYPE_CHECKING:
    from tomserve.benchmarks import Benchmark

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Check the dataset.")

NameArgument = Annotated[
    str | None, typer.Argument(help="Benchmark, or FILE.py of your own, whose dataset to check [the default one].")
]


@app.command()
def validate(name: NameArgument = None, path: PathOption = None) -> int:
    """Prove the dataset's structure; a mistake is named with file, line and field. Exit code 1 for problems."""
    from tomserve import benchmarks
    from tomserve.cli.findings import show

    found = benchmarks.get(name)
    if found.validate is None:
        raise _nothing(found, "validate", [one for one in _built_in() if one.validate])
    return show(found.validate(path, _say))


@app.command()
def audit(name: NameArgument = None, path: PathOption = None) -> int:
    """Score shortcuts that track nobody's belief, and compare gold with events or labels with a tracker.

    Exit code 1 where a shortcut passes for tracking beliefs, or a label is not what the tracker says.
    """
    from tomserve import benchmarks
    from tomserve.cli.findings import show

    found = benchmarks.get(name)
    if found.audit is None:
        raise _nothing(found, "audit", [one for one in _built_in() if one.audit])
    return show(found.audit(path, _say))


def _built_in() -> list[Benchmark]:
    from tomserve import benchmarks

    return [benchmarks.get(name) for name in benchmarks.names()]


def _nothing(asked: Benchmark, field: str, offering: list[Benchmark]) -> ConfigError:
    """The error where a benchmark has no such check: which ones have it, and how one of one's own gets it."""
    names = " and ".join(benchmark.name for benchmark in offering)
    own = f"; give its Benchmark a function `{field}`" if asked.file else ""
    ones = "benchmarks" if len(offering) > 1 else "benchmark"
    return ConfigError(f"dataset {asked.name!r}: only the {names} {ones} can be checked by {field!r}{own}")


def _say(message: str) -> None:
    print(message, file=sys.stderr)
