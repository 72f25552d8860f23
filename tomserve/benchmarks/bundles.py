"""Bundles of sixteen (after Kosinski 2024): the stages of the perturbed benchmark, drawn and counted as whole tasks.

A bundle is a task of sixteen questions: a false belief and three true-belief controls, each told as written and with
the two labels exchanged, each with a question about what is so and one about what is believed. It is solved only if all
sixteen are right. ``--where perturbation=none`` asks the unchanged stories alone, as in the paper.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tomserve.benchmarks.perturbed.edition_1 import BENCHMARK as PERTURBED
from tomserve.benchmarks.perturbed.stages_1 import load_stages
from tomserve.items import Item
from tomserve.items.draw import Draw

NAME = "bundles"


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """All items of all stages, each with the factors `bundle` (its stage and class) and `options` (how many choices it
    has). path: a stage file or a folder of them, None for the dataset's own. gold: not used, as there is one set of
    right answers. Raises ConfigError and ContentError as the perturbed benchmark does."""
    del gold
    for stage in load_stages(path):
        for item in stage.items(NAME):
            bundle = f"{item.factors['stage']}/{item.factors['perturbation']}"
            factors = {**item.factors, "bundle": bundle, "options": len(item.choices)}
            yield item.model_copy(update={"factors": factors, "cluster": bundle})


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
