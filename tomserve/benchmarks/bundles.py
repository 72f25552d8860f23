"""Bundles of sixteen (after Kosinski 2024): the stages of the perturbed benchmark, drawn and counted as whole tasks.

A bundle is a task of sixteen questions: a false belief and three true-belief controls, each told as written and with
the two labels exchanged, each with a question about what is so and one about what is believed. It is solved only if all
sixteen are right. ``--where perturbation=none`` asks the unchanged stories alone, as in the paper.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tomserve.benchmarks.perturbed import BENCHMARK as PERTURBED
from tomserve.items import Item
from tomserve.items.draw import Draw

NAME = "bundles"


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """The items of the perturbed benchmark, each with the factors `bundle` (its stage and class) and `options` (how
    many choices it has). Takes and raises what that benchmark's function does."""
    for item in PERTURBED.load(path, gold):
        factors = {**item.factors, "bundle": item.cluster, "options": len(item.choices)}
        yield item.model_copy(update={"benchmark": NAME, "factors": factors})


BENCHMARK = replace(
    PERTURBED,
    name=NAME,
    load=load,
    study=NAME,
    strategies=("vanilla",),
    draw=Draw(over=("perturbation",), unit=("bundle", "bundles"), group=("class", "classes")),
    show=None,
    stratum=None,
)
"""The value by which tomserve knows the benchmark; a whole bundle is drawn or none of it."""
