"""The command `tomserve generate perturbed-2`: write a fresh edition, or check that every stage can be told anew.

The parameters of `generate` are the options of the command line, so they are annotated as typer wants it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tomserve.benchmarks.findings import Findings
from tomserve.benchmarks.perturbed_2 import fresh, freshcheck
from tomserve.benchmarks.perturbed_2.stage import Stage
from tomserve.content import output_path
from tomserve.content.output_path import parse_file
from tomserve.errors import ConfigError, ContentError
from tomserve.items import Item, items_digest, write_items

SEEDS = 2**63
RUN = 8
"""Words of a run by which it is counted how much of the released stories a fresh edition repeats."""


def generate(
    seed: Annotated[
        int | None,
        typer.Option("--fresh", metavar="SEED", min=0, max=SEEDS - 1, help="Tell every stage anew by this seed."),
    ] = None,
    out: Annotated[Path | None, typer.Option(parser=parse_file, help="JSONL file to write.")] = None,
    path: Annotated[
        Path | None, typer.Option(help="Stage file, or folder of them. If left out: those of the dataset.")
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Write nothing; list what keeps stages from being told anew, by file and line."),
    ] = False,
) -> Findings:
    """Write a fresh edition: the same events with other names, labels, things and wordings.

    No model can have seen it before it is published. The same seed gives the same bytes. The exit code is 1 where
    --check finds a problem.
    """
    from tomserve.benchmarks.perturbed_2.benchmark import stages  # it imports this module

    if check == (seed is not None) or (out is None) != check:
        raise ConfigError("give --fresh SEED and --out FILE, or --check alone")
    found = stages(path)
    names = fresh.read_names()
    if seed is None or out is None:
        return checked(found, names)
    output_path.check_output(out, path)
    for stage in found:
        if listed := freshcheck.problems(stage):
            raise _refused(listed)
    released = [item for stage in found for item in stage.items()]
    made = [item for stage in found for item in fresh.items(stage, seed, names)]
    write_items(out, made, lambda name: output_path.open_output(name, path))
    written = (
        f"written: {len(made)} items of {_many(len(found), 'stage')} by seed {seed} to {out}, {items_digest(made)[:19]}"
    )
    return Findings(lines=(*kept(released, made), written))


def _refused(listed: Sequence[ContentError]) -> ContentError:
    """The first of a stage's problems, with what to do."""
    first, more = listed[0], f" ({len(listed)} problems in this file)" if len(listed) > 1 else ""
    reason = f"{first.reason}{more}; tomserve generate perturbed-2 --check lists all"
    return ContentError(reason, path=first.path, line=first.line, field=first.field)


def checked(stages: Sequence[Stage], names: fresh.Names) -> Findings:
    """What keeps stages from being told anew, what is not used, and how much of the released stories would be kept."""
    listed = [problem for stage in stages for problem in freshcheck.problems(stage)]
    lines = [line for stage in stages for line in freshcheck.unused(stage)]
    lines += [f"problem: {problem}" for problem in listed]
    if not listed:
        released = [item for stage in stages for item in stage.items()]
        lines += kept(released, [item for stage in stages for item in fresh.items(stage, 0, names)])
    count = _many(len(listed), "problem") if listed else "every stage can be told anew"
    return Findings(lines=(*lines, f"{_many(len(stages), 'stage')}: {count}"), code=1 if listed else 0)


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def kept(released: Sequence[Item], made: Sequence[Item]) -> list[str]:
    """A line that says how much of the released stories a fresh edition repeats, and in which stage most."""
    shares = {
        stage: fresh.overlap(_of_stage(released, stage), _of_stage(made, stage), RUN)
        for stage in dict.fromkeys(str(item.factors["stage"]) for item in released)
    }
    most = max(shares, key=lambda stage: shares[stage])
    share = fresh.overlap(released, made, RUN)
    return [
        f"{share:.0%} of the runs of {RUN} words in the released stories occur in the fresh ones as well "
        f"(most in stage {most}: {shares[most]:.0%})"
    ]


def _of_stage(items: Sequence[Item], stage: str) -> list[Item]:
    return [item for item in items if item.factors["stage"] == stage]
