"""The commands `tomserve generate NAME`: make new items of a benchmark whose stories are made by rules.

Each benchmark that has a field `generate` (see tomserve.benchmarks.Benchmark) becomes a command here, with the
parameters of that function as its options. The benchmarks are imported only when somebody asks for this command.

    tomserve generate hitom --stories 600 --seed 1 --out hitom.jsonl
"""

from __future__ import annotations

import functools
from typing import Any

import typer
from typer.core import TyperGroup

from tomserve.cli.options import ContentOption, with_content


class _Generators(TyperGroup):
    """A group with one command for each benchmark whose items can be generated."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of these benchmarks, sorted."""
        from tomserve import benchmarks

        return [name for name in benchmarks.names() if benchmarks.get(name).generate is not None]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, None where there is no such benchmark or nothing to generate."""
        return _command(cmd_name) if cmd_name in self.list_commands(ctx) else None


app = typer.Typer(
    cls=_Generators, no_args_is_help=True, rich_markup_mode=None, help="Generate new items of a benchmark."
)


@app.callback()
def _generate(content: ContentOption = None) -> None:
    """Typer makes a group of commands only where there is a callback."""
    del content  # it was dealt with while the line was read


def _command(name: str) -> Any:
    """The click command that runs the generator of that benchmark and prints what it reports."""
    from tomserve import benchmarks
    from tomserve.cli.findings import show

    made = benchmarks.get(name).generate
    assert made is not None

    @functools.wraps(made)
    def shown(**options: Any) -> int:
        return show(made(**options))

    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name)(with_content(shown))
    return typer.main.get_command(alone)
