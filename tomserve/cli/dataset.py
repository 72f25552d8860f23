"""The commands `tomserve dataset validate`, `audit` and `show`, which check a benchmark's dataset, or print it.

What they do each benchmark says itself, by the fields of these names of tomserve.benchmarks.Benchmark.

    tomserve dataset validate
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tomserve.cli import questionnaire
from tomserve.cli.options import ContentOption, PathOption, with_content
from tomserve.content.text import say
from tomserve.errors import ConfigError

if TYPE_CHECKING:
    from tomserve.benchmarks import Benchmark

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Check or read the dataset of a benchmark.")

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


@app.command()
@with_content
def show(
    name: NameArgument = None,
    where: Annotated[
        list[str] | None,
        typer.Argument(help="Which part: a stage, or a stage and a class, or these and a version; all if left out."),
    ] = None,
    path: PathOption = None,
) -> int:
    """Show the stories of a dataset for reading.

    Behind every sentence stand the labels that the asked person may believe in by then, and those that may be so.
    """
    from tomserve import benchmarks
    from tomserve.cli.findings import show as print_findings

    found = benchmarks.get(name)
    if found.show is None:
        raise _nothing(found, "show", [one for one in _built_in() if one.show])
    return print_findings(found.show(path, where or ()))


app.command()(questionnaire.questionnaire)
app.command()(questionnaire.answers)


def _built_in() -> list[Benchmark]:
    from tomserve import benchmarks

    return [benchmarks.get(name) for name in benchmarks.names()]


def _nothing(asked: Benchmark, field: str, offering: list[Benchmark]) -> ConfigError:
    """The error where a benchmark has no such check; it names those that have it, and how a user's own would get it."""
    *most, last = (benchmark.name for benchmark in offering)
    names = f"{', '.join(most)} and {last}" if most else last
    own = f"; give its Benchmark a function `{field}`" if asked.file else ""
    ones = "benchmarks" if len(offering) > 1 else "benchmark"
    can = "shown" if field == "show" else f"checked by {field!r}"
    return ConfigError(f"dataset {asked.name!r}: only the {names} {ones} can be {can}{own}")


def _say(message: str) -> None:
    say(message, error=True)
