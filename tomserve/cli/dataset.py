"""The commands `tomserve dataset validate` and `tomserve dataset audit`, which check a benchmark's dataset.

What is checked each benchmark says itself, by the fields `validate` and `audit` of tomserve.benchmarks.Benchmark.

    tomserve dataset validate
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tomserve.cli import questionnaire
from tomserve.cli.options import ContentOption, PathOption, with_content
from tomserve.errors import ConfigError

if TYPE_CHECKING:
    from tomserve.benchmarks import Benchmark

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Check the dataset of a benchmark.")

NameArgument = Annotated[
    str | None,
    typer.Argument(help="Name of a benchmark, or a FILE.py that declares one. If left out: tomserve's own tasks."),
]


@app.callback()
def _dataset(content: ContentOption = None) -> None:
    del content  # it was dealt with while the line was read


@app.command()
@with_content
def validate(name: NameArgument = None, path: PathOption = None) -> int:
    """Check that a dataset is built as its design says.

    A mistake is named with file, line and field. The exit code is 1 where a problem was found.
    """
    from tomserve import benchmarks
    from tomserve.cli.findings import show

    found = benchmarks.get(name)
    if found.validate is None:
        raise _nothing(found, "validate", [one for one in _built_in() if one.validate])
    return show(found.validate(path, _say))


@app.command()
@with_content
def audit(name: NameArgument = None, path: PathOption = None) -> int:
    """Check what a dataset measures and whether its answers hold.

    It answers the questions by simple rules that follow nobody's belief (shortcuts), and compares the dataset's right
    answers with those that a program derives from the events of each story. The exit code is 1 where a shortcut passes
    for tracking beliefs, or where an answer is not what the events give.
    """
    from tomserve import benchmarks
    from tomserve.cli.findings import show

    found = benchmarks.get(name)
    if found.audit is None:
        raise _nothing(found, "audit", [one for one in _built_in() if one.audit])
    return show(found.audit(path, _say))


app.command()(questionnaire.questionnaire)
app.command()(questionnaire.answers)


def _built_in() -> list[Benchmark]:
    from tomserve import benchmarks

    return [benchmarks.get(name) for name in benchmarks.names()]


def _nothing(asked: Benchmark, field: str, offering: list[Benchmark]) -> ConfigError:
    """The error where a benchmark has no such check; it names those that have it, and how a user's own would get it."""
    names = " and ".join(benchmark.name for benchmark in offering)
    own = f"; give its Benchmark a function `{field}`" if asked.file else ""
    ones = "benchmarks" if len(offering) > 1 else "benchmark"
    return ConfigError(f"dataset {asked.name!r}: only the {names} {ones} can be checked by {field!r}{own}")


def _say(message: str) -> None:
    print(message, file=sys.stderr)
