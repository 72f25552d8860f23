"""Cases of the worlds as they are released, by their family and number."""

from __future__ import annotations

from tomserve.benchmarks.case import Case
from tomserve.benchmarks.worlds.families import BY_NAME
from tomserve.benchmarks.worlds.lexicon import built_in
from tomserve.benchmarks.worlds.triples import triples


def released(family: str, number: int) -> Case:
    """The first case of the release's world of that family and number."""
    world = BY_NAME[family].world(built_in(), f"{family}-1-{number:04}", "false_belief")
    first = next(iter(triples(world, built_in())))
    return Case(first.f, first.p, first.p_twin, family=family)
