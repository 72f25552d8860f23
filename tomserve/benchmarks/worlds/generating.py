"""The command `tomserve generate worlds`: write items of fresh worlds that no model can have seen.

The parameters of `generate` are the options of the command line, so they are annotated as typer wants it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from tomserve.benchmarks.findings import Findings
from tomserve.benchmarks.worlds.drawing import worlds
from tomserve.benchmarks.worlds.families import BY_NAME, FAMILIES
from tomserve.benchmarks.worlds.lexicon import built_in
from tomserve.benchmarks.worlds.release import released
from tomserve.benchmarks.worlds.rendering import items
from tomserve.content import output_path
from tomserve.content.output_path import parse_file
from tomserve.errors import ConfigError, one_of
from tomserve.items import write_chunks

SEEDS = 2**63


def generate(
    out: Annotated[Path, typer.Option(parser=parse_file, help="JSONL file to write.")],
    number: Annotated[
        int, typer.Option("--worlds", min=1, max=1_000_000, help="How many worlds to write, families in turn.")
    ] = 200,
    seed: Annotated[
        int,
        typer.Option(min=0, max=SEEDS - 1, help="Seed of the random draws. The same seed gives the same bytes."),
    ] = 0,
    family: Annotated[
        list[str] | None, typer.Option(help="Family of worlds; repeat it. If left out: all families.")
    ] = None,
) -> Findings:
    """Generate social stories about belief, desire, intention, emotion and action, with proven answers.

    How many questions of each family were written is printed at the end.
    """
    for name in family or ():
        if name not in BY_NAME:
            raise ConfigError(one_of("--family", name, BY_NAME))
    if seed == released().seed:
        raise ConfigError(
            f"--seed {seed} is that of the release {released().name}, which tomserve items worlds --out FILE writes; "
            "choose another, so that the stories are new"
        )
    output_path.check_output(out)
    chosen = [BY_NAME[name] for name in dict.fromkeys(family)] if family else list(FAMILIES)
    lexicon, counts = built_in(), Counter[str]()

    def lines() -> Iterator[bytes]:
        for world in worlds(lexicon, number, seed, chosen):
            for item in items(world, lexicon):
                counts[world.family] += 1
                yield item.to_json() + b"\n"

    write_chunks(out, lines(), output_path.open_output)
    listed = ", ".join(f"{name} {count:,}" for name, count in counts.items())
    return Findings(lines=(f"written: {counts.total():,} items of {number:,} worlds by seed {seed} to {out}", listed))
