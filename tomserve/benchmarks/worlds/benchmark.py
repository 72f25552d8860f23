"""The benchmark of generated worlds: its fixed release, and files of fresh ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tomserve.benchmarks.benchmark import Benchmark
from tomserve.benchmarks.findings import Findings, Say
from tomserve.benchmarks.worlds import keeping
from tomserve.benchmarks.worlds.cases import cases
from tomserve.benchmarks.worlds.drawing import worlds
from tomserve.benchmarks.worlds.generating import generate
from tomserve.benchmarks.worlds.lexicon import built_in
from tomserve.benchmarks.worlds.release import released
from tomserve.benchmarks.worlds.rendering import NAME, items
from tomserve.benchmarks.worlds.retelling import retelling
from tomserve.benchmarks.worlds.showing import shown
from tomserve.benchmarks.worlds.surface import RULES
from tomserve.benchmarks.worlds.variants import record
from tomserve.errors import ContentError
from tomserve.items import Item, read_items
from tomserve.items.draw import Draw


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """The items of the fixed release, or of a file that `tomserve generate worlds` wrote.

    gold: not used, as there is one set of right answers. Raises ContentError for an item of another benchmark.
    """
    del gold
    if path is None:
        yield from keeping.items(released(), generated)
        return
    for item in read_items(path):
        if item.benchmark != NAME:
            raise ContentError(f"item {item.id!r} is of benchmark {item.benchmark!r}; use --benchmark items", path=path)
        checked(item, path)
        yield item


def generated() -> Iterator[Item]:
    """The items of the fixed release, generated anew, which takes seconds."""
    lexicon, release = built_in(), released()
    for world in worlds(lexicon, release.worlds, release.seed):
        for item in items(world, lexicon):
            yield item.model_copy(update={"canary": release.canary})


def checked(item: Item, path: Path) -> None:
    """Refuse an item whose record or family is none, as a file of somebody else may have it. Raises ContentError."""
    family = item.factors.get("family")
    if not isinstance(family, str):
        raise ContentError(
            f"item {item.id!r}: its factor family is {family!r}; expected the name of a family", path=path
        )
    record(item, path)


def audit(path: Path | None, say: Say) -> Findings:
    """Score readers who follow nobody's mind (see tomserve.benchmarks.worlds.auditing)."""
    from tomserve.benchmarks.worlds.auditing import findings  # imported here, because it imports scipy

    found = list(load(path))
    say(f"fitting and scoring readers of {len(found):,} questions, about a minute ...")
    return findings(found)


def validate(path: Path | None, say: Say) -> Findings:
    """Check that all phrasings can be said and the release is what it was (tomserve.benchmarks.worlds.validating)."""
    from tomserve.benchmarks.worlds.validating import findings  # imported here, because asking needs none of it

    del say
    return findings(list(generated()) if path is None else None)


def show(path: Path | None, where: Sequence[str]) -> Findings:
    """Print stories for reading. where: a family, the number of a world, a scenario; raises ConfigError for others."""
    return shown(load(path), where)


DRAW = Draw(over=("family",), unit=("world", "worlds"), group=("family", "families"))
"""Whole worlds are drawn, all scenarios of one together, and equally many of each family."""

BENCHMARK = Benchmark(
    NAME,
    load,
    study="worlds",
    reasoned=("condition=false_belief", "dimension=belief"),
    draw=DRAW,
    rules=RULES,
    validate=validate,
    audit=audit,
    show=show,
    generate=generate,
    retelling=retelling,
    cases=cases,
    usual_cases=("family=contents,transfer", "scenario=false_belief", "kind=belief,action"),
)
"""The value by which tomserve knows the benchmark."""
