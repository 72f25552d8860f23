"""The command line's `dataset` commands: prove a dataset's structure or labels, and score shortcuts on it.

tomserve dataset validate
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tomserve.cli.options import PathOption
from tomserve.errors import ConfigError

if TYPE_CHECKING:
    from tomserve.benchmarks.perturbed.stagefile import Stage

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Check the dataset.")

NameArgument = Annotated[str, typer.Argument(help="Benchmark whose dataset to check.")]


@app.command()
def validate(name: NameArgument = "perturbed", path: PathOption = None) -> int:
    """Prove the dataset's structure; a mistake is named with file, line and field. Exit code 1 for problems."""
    from tomserve.benchmarks.perturbed import validate as validation
    from tomserve.items import items_digest

    _only_perturbed(name)
    stages = _stages(path)
    found = list(validation.problems(stages))
    for stage in stages:
        tasks = stage.file.tasks
        print(f"{stage.file.stage}: {len(tasks)} tasks, {16 * len(tasks)} items, {stage.file.kind}")
    for problem in found:
        print(f"problem: {problem}")
    total = 16 * sum(len(stage.file.tasks) for stage in stages)
    digest = items_digest(item for stage in stages for item in stage.items("perturbed"))
    print(f"{total} items in {len(stages)} stages, {digest[:19]}: {f'{len(found)} problems' if found else 'ok'}")
    return 1 if found else 0


@app.command()
def audit(name: NameArgument = "perturbed", path: PathOption = None) -> int:
    """Score shortcuts that track nobody's belief, and compare gold with events.

    perturbed: exit code 1 when a constant or positional rule reaches limited robust ToM on the false-belief subset.
    hitom: exit code 1 when a label of the file is not the belief tracker's.
    """
    if name == "hitom":
        return _audit_hitom(path)

    from rich.console import Console

    from tomserve.reporting import auditing

    _only_perturbed(name)
    stages = _stages(path)
    print("scoring shortcuts, about 20 s ...", file=sys.stderr)
    return auditing.show(stages, Console(width=200, highlight=False))


def _audit_hitom(path: Path | None) -> int:
    from rich.console import Console

    from tomserve.benchmarks.hitom.audit import Audit
    from tomserve.benchmarks.hitom.reader import read_records
    from tomserve.reporting import hitom_auditing

    if path is None:
        raise ConfigError("the audit of 'hitom' needs the official file: --path Hi-ToM_data.json")
    return hitom_auditing.show(Audit(read_records(path)), Console(width=200, highlight=False))


def _only_perturbed(name: str) -> None:
    from tomserve import benchmarks

    benchmarks.get(name)
    if name != "perturbed":
        raise ConfigError(f"dataset {name!r}: only the perturbed benchmark has stages to check")


def _stages(path: Path | None) -> list[Stage]:
    from tomserve.benchmarks import perturbed

    return perturbed.stages(path)
