"""Simulates what tomserve's intervals and tests are worth, through the functions that make its tables.

    python bench/coverage.py                                   # everything, about a quarter of an hour on two cores
    python bench/coverage.py --only effects --replications 200 # one section, with less Monte-Carlo error
    python bench/coverage.py --exceptions                      # the exceptions as the docs list them

Answers are drawn from a model with random effects for stage, task, item, class in stage and strategy in stage (see
bench/_answers.py), for 4, 7, 14 and 21 stages, rates from .05 to .99, three sets of standard deviations, classes that
some stages lack, effects that differ between classes, and failures that are likelier where an item is hard. Then the
records of the studies' tables are computed (tomserve.studies.contrasts), and compared with what is true of the model.

A figure is pooled over cells of equal weight (bases and standard deviations): its Monte-Carlo error follows from the
spread of the replications within cells, and `worst` is the most unfavourable cell, of few replications. `high or low`
are bases of .2, .8 and .9; `at the edge` those of .05, .95 and .99. Methods in brackets were tried and left, or are
printed for comparison with a paper.

Targets: coverage of a recommended 95% interval from .93 to .97, a test's level (or the share of false discoveries)
at most .05, power at the minimum detectable effect from .75 to .85, each give or take 2.5 Monte-Carlo errors. The exit
code is 1 where a recommended method misses its target, unless bench/_exceptions.py and the docs name the exception.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import _alone  # noqa: F401  (first: it sets the number of threads)
import _elsewhere
import _exceptions
import _families
import _missing
import _perturbed
import _prompting
import _samples
import numpy as np
from _figures import figure as hand_over
from _tally import TARGETS, Cell, Figure, Key, Tally, lines, record


@dataclass(frozen=True)
class Section:
    """A part of the simulation: its cells, what one replication of a cell does, and its share of the replications."""

    name: str
    cells: Sequence[Any]
    once: Callable[[Tally, np.random.Generator, Any, int], None]
    weight: float


SECTIONS = (
    Section("shares", _perturbed.DESIGNS, _perturbed.shares, 1.5),
    Section("effects", _perturbed.DESIGNS, _perturbed.effects, 1.8),
    Section("pooled", _perturbed.DESIGNS, _perturbed.pooled, 0.6),
    Section("prompting", _prompting.DESIGNS, _prompting.prompting, 0.6),
    Section("rare", _prompting.RARE_DESIGNS, _prompting.rare, 3.0),
    Section("failures", _missing.FAILURE_DESIGNS, _missing.failures, 0.6),
    Section("noise", _missing.NOISE_DESIGNS, _missing.noise, 0.2),
    Section("planning", _families.PLANNED, _families.planning_power, 1.5),
    Section("stories", _elsewhere.STORIES, _elsewhere.stories, 10.0),
    Section("chains", _elsewhere.CHAINS, _elsewhere.chains, 5.0),
    Section("samples", _samples.SAMPLES, _samples.samples, 20.0),
)


def simulated(job: tuple[int, int, int, int]) -> dict[tuple[Key, str], Cell]:
    """Simulate one cell of a section. The same job gives the same figures in whatever process it runs.

    job: places of the section and of the cell, number of replications, seed.
    """
    section, cell, replications, seed = job
    chosen, tally = SECTIONS[section], Tally()
    rng = np.random.default_rng([seed, section, cell])
    for index in range(replications):
        chosen.once(tally, rng, chosen.cells[cell], index)
        tally.close()
    return dict(tally.cells)


def verdict(figure: Figure) -> str:
    """An empty text where the figure meets its target or nothing is asked of it, else what is wrong, in words."""
    key, (low, high) = figure.key, TARGETS[figure.key.kind]
    named = _exceptions.exception_for(key)
    if not key.recommended or not figure.misses(low, high):
        return ""
    if named is None:
        return f"MISSES {low:g} to {high:g}"
    return f"MISSES its exception, {named.low:g} to {named.high:g}" if figure.misses(named.low, named.high) else "named"


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, print every figure, and return 1 where a recommended method misses its target."""
    given = _options(arguments)
    if given.exceptions:
        print(_exceptions.markdown())
        return 0
    began, tally = time.monotonic(), Tally()
    jobs = [
        (place, cell, max(1, round(given.replications * section.weight)), given.seed)
        for place, section in enumerate(SECTIONS)
        if not given.only or section.name in given.only
        for cell in _spread(len(section.cells), given.cells)
    ]
    if given.jobs == 1:
        for job in jobs:
            tally.merge(simulated(job))
    else:
        with ProcessPoolExecutor(given.jobs) as pool:
            for found in pool.map(simulated, jobs, chunksize=1):
                tally.merge(found)
    figures = sorted(tally.figures(), key=_order(tally))
    verdicts = {figure.key: verdict(figure) for figure in figures}
    print("\n".join(lines(figures, verdicts)))
    missed = [figure for figure in figures if verdicts[figure.key].startswith("MISSES")]
    hand_over("figures that miss their target", len(missed), at_most=0, rounds=len(figures))
    for section in SECTIONS:
        mine = [one for one in figures if (one.key.section, one.key.kind) == (section.name, "coverage")]
        held = [one.value for one in mine if one.key.recommended]
        if held:
            hand_over(f"{section.name}, coverage of 95% intervals", sum(held) / len(held), min(held), max(held))
    print(f"\n{len(figures)} figures in {time.monotonic() - began:.0f} s; {len(missed)} miss their target")
    for figure in missed:
        key = figure.key
        print(f"- {key.section}, {key.kind}: {key.method}, {key.where}: {figure.value:.3f} (error {figure.error:.3f})")
    if given.json:
        given.json.write_text(json.dumps([record(figure, verdicts[figure.key]) for figure in figures], indent=1) + "\n")
    return 1 if missed else 0


def _spread(cells: int, wanted: int | None) -> list[int]:
    """The places of the wanted number of cells, spread evenly over all."""
    count = min(cells, wanted or cells)
    return [index * cells // count for index in range(count)]


def _order(tally: Tally) -> Callable[[Figure], tuple[int, ...]]:
    """Sections, kinds and methods stay together, each in the order in which it was first met."""
    places: dict[object, int] = {}
    for key, _ in tally.cells:
        for part in (key.section, (key.section, key.kind), (key.section, key.kind, key.method)):
            places.setdefault(part, len(places))

    def place(figure: Figure) -> tuple[int, ...]:
        key = figure.key
        parts = (key.section, (key.section, key.kind), (key.section, key.kind, key.method))
        return tuple(places[part] for part in parts)

    return place


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="coverage, levels and power of tomserve's intervals and tests")
    parser.add_argument("--replications", type=int, default=20, help="a cell; sections take multiples (default: 20)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", choices=[section.name for section in SECTIONS], metavar="SECTION",
                        help="one section, repeatable: " + ", ".join(section.name for section in SECTIONS))  # fmt: skip
    parser.add_argument("--cells", type=int, metavar="N", help="only N cells of each section, to try the bench itself")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    parser.add_argument("--exceptions", action="store_true", help="print the named exceptions, and simulate nothing")
    given = parser.parse_args(arguments)
    if min(given.replications, given.jobs, 1 if given.cells is None else given.cells) < 1:
        parser.error("--replications, --jobs and --cells are at least 1")
    return given


if __name__ == "__main__":
    sys.exit(main())
