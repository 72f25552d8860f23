"""The command line's `generate` commands: make new items of a benchmark that is made by rules.

tomserve generate hitom --stories 600 --seed 1 --out hitom.jsonl

Which benchmarks there are, and with which options, they say themselves (see tomserve.benchmarks.Benchmark.generate);
they are imported when somebody asks for this command.
"""

from __future__ import annotations

import functools
from typing import Any

import typer
from typer.core import TyperGroup


class _Generators(TyperGroup):
    """A command a benchmark that can be generated."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names, sorted."""
        from tomserve import benchmarks

        return [name for name in benchmarks.names() if benchmarks.get(name).generate is not None]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, None where there is no such benchmark or nothing to generate."""
        return _command(cmd_name) if cmd_name in self.list_commands(ctx) else None


app = typer.Typer(
    cls=_Generators, no_args_is_help=True, rich_markup_mode=None, help="Generate new items of a benchmark."
)


@app.callback()
def _generate() -> None:
    """Here so that `generate` is a group of commands."""


def _command(name: str) -> Any:
    from tomserve import benchmarks
    from tomserve.cli.findings import show

    made = benchmarks.get(name).generate
    assert made is not None

    @functools.wraps(made)
    def shown(**options: Any) -> int:
        return show(made(**options))

    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name)(shown)
    return typer.main.get_command(alone)
