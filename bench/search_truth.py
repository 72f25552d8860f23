"""Simulates what a search is worth: models with known weak cells answer the questions of generated worlds.

    python bench/search_truth.py                # 400 searches of each model: minutes on one core
    python bench/search_truth.py --searches 40  # fewer

Each search draws its stories from a stock of worlds by its seed, and everything else is what `tomserve search` does.
The models are right with the same probability everywhere (none), less often at one level, or less often where two
levels meet. Power is how often a search confirms a cell that lies in the weak one or holds at least half of it as its
own; a finding is false where the true accuracy in the cell is not below that elsewhere. The true accuracy of a cell is
the mean probability over all its questions in the stock. Random is the power of as many questions drawn at random, of
which every cell is tested at 5% over all cells. Coverage is how often the simultaneous intervals hold the true accuracy
of all reported cells. The exit code is 1 where false findings or coverage miss what is stated, or power misses both it
and the power of random questions.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count, islice
from random import Random

import _alone  # noqa: F401  (first: it sets the number of threads)
import numpy as np
import polars as pl
from _figures import figure

from tomserve.items import Item
from tomserve.stats.proportions import newcombe, wilson
from tomserve.weakness.design import DESIGNS, Cell, Levels, parse_cell, write_cell
from tomserve.weakness.estimate import LEVEL, Record, estimate_cells, level_rows
from tomserve.weakness.model import Cells, scan
from tomserve.weakness.rounds import CLEAR, Search, SearchSettings, lies_in

DESIGN = DESIGNS["worlds"]
STORIES = 400  # in the stock
USUAL = 0.8  # accuracy outside of a weak cell
MODELS: dict[str, tuple[Cell, float, int]] = {
    "no weak cell": ((), USUAL, 1),
    "a weak level": ((("family", "transfer"),), 0.55, 1),
    "a weak pair": ((("condition", "false_belief"), ("dimension", "emotion")), 0.5, 1),
    "a rarer pair": ((("family", "testimony"), ("condition", "false_belief")), 0.45, 1),
    "a rare pair": ((("family", "transfer"), ("missed", "2")), 0.6, 2),  # 2.5% of the questions, and not much weaker
}
"""Each model by its name: its weak cell, how often it is right there, and by how many budgets it is searched."""
LEAST_POWER, MOST_FALSE, COVERAGE = 0.8, 0.05, (0.93, 0.97)

Stock = list[list[Item]]


def make_stock(number: int) -> Stock:
    """Stories whose questions have no more than their levels, so that a search takes a moment."""
    stock = []
    for told in islice(DESIGN.stories(2**40, False, ()), number):
        stock.append([item.model_copy(update={"factors": DESIGN.read_levels(item), "world": None}) for item in told])
    return stock


def draw_stories(stock: Stock, seed: int, fresh: bool, families: Sequence[str]) -> Iterator[list[Item]]:
    """Stories of the stock, drawn by the seed, again and again. fresh: of its second half, so that a search has no
    story of those that confirm."""
    half = stock[len(stock) // 2 :] if fresh else stock[: len(stock) // 2]
    dice, chosen = Random(seed), [told for told in half if not families or told[0].factors["family"] in families]
    for number in count():
        told = chosen[dice.randrange(len(chosen))]
        yield [item.model_copy(update={"id": f"{seed}/{number}/{item.id}"}) for item in told]


def probability(levels: Levels, weak: Cell, share: float) -> float:
    return share if weak and lies_in(levels, weak) else USUAL


def true_accuracy(stock: Stock, cell: Cell, chance: Callable[[Levels], float], inside: bool) -> float:
    """The mean probability over the questions inside or outside of a cell; a story counts as often as it is drawn."""
    shares, weights = 0.0, 0.0
    for told in stock[len(stock) // 2 :]:
        own = [chance(item.factors) for item in told if lies_in(item.factors, cell) == inside]  # type: ignore[arg-type]
        weight = 1.0 if inside else len(own) / len(told)
        if own:
            shares, weights = shares + weight * sum(own) / len(own), weights + weight
    return shares / weights


def run_search(stock: Stock, model: str, seed: int, budget: int) -> list[Record]:
    """The reported cells of one search."""
    weak, share, _ = MODELS[model]
    design = replace(
        DESIGN, stories=partial(draw_stories, stock), levels=lambda item: {}, same=lambda item: item.cluster
    )
    dice, rows = Random(f"{model}/{seed}"), []

    def answer(item: Item) -> bool:
        right = dice.random() < probability(item.factors, weak, share)  # type: ignore[arg-type]
        rows.append({"item": item.id, "correct": right, **item.factors})
        return right

    search, answers = Search(SearchSettings("worlds", budget, seed), design), dict[str, bool]()
    while items := search.following(answers):
        answers |= {item.id: answer(item) for item in items}
    return estimate_cells(level_rows(pl.DataFrame(rows, infer_schema_length=None), design.factors), design.factors, ())


def draw_at_random(stock: Stock, model: str, seed: int, budget: int) -> list[str]:
    """The cells that a random design of the same size calls weak: each against the rest, at 5% over all cells."""
    weak, share, _ = MODELS[model]
    dice, asked = Random(f"{model}/{seed}/random"), []
    for told in islice(draw_stories(stock, seed, True, ()), budget):
        asked.append(dice.choice(told).factors)
    right = [int(dice.random() < probability(levels, weak, share)) for levels in asked]  # type: ignore[arg-type]
    cells, places = Cells.of(asked), range(budget)  # type: ignore[arg-type]
    inside, correct = cells.count(places, right)
    level, found = 1 - (1 - LEVEL) / len(cells.names), []
    for at in np.flatnonzero(scan(cells, places, right) > CLEAR):
        counts = int(correct[at]), int(inside[at]), sum(right) - int(correct[at]), budget - int(inside[at])
        if newcombe(*counts, level).high < 0:
            found.append(write_cell(cells.names[at]))
    return found


def simulate(stock: Stock, model: str, seeds: Sequence[int], budget: int) -> dict[str, float]:
    """By figure how often, of the searches by these seeds."""
    weak, share, _ = MODELS[model]
    chance = partial(probability, weak=weak, share=share)
    truths: dict[tuple[str, bool], float] = {}
    hit = false = covered = drawn = cells = 0

    def truth(name: str, inside: bool) -> float:
        if (name, inside) not in truths:
            truths[name, inside] = true_accuracy(stock, parse_cell(name), chance, inside)
        return truths[name, inside]

    searches = len(seeds)
    for seed in seeds:
        found = run_search(stock, model, seed, budget)
        own = [row for row in found if row["weak"]]
        gaps = [truth(row["cell"], False) - truth(row["cell"], True) for row in own]
        false += any(gap <= 1e-9 for gap in gaps)
        middle = (USUAL - share) / 2
        hit += any(gap >= middle for gap in gaps) if weak else 0
        random = draw_at_random(stock, model, seed, budget) if weak else []
        drawn += any(truth(name, False) - truth(name, True) >= middle for name in random)
        covered += all(row["ci_low"] <= truth(row["cell"], True) <= row["ci_high"] for row in found)
        cells += len(found)
    return {
        "power": hit / searches if weak else math.nan,
        "false": false / searches,
        "coverage": covered / searches,
        "cells": cells / searches,
        "random": drawn / searches if weak else math.nan,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, print every figure, and return 1 where one misses what is stated."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--searches", type=int, default=400)
    parser.add_argument("--first", type=int, default=0, help="seed of the first search")
    parser.add_argument("--budget", type=int, default=1000)
    parser.add_argument("--stories", type=int, default=STORIES)
    given = parser.parse_args(arguments)
    began, missed, stock = time.monotonic(), 0, make_stock(given.stories)
    totals = dict.fromkeys(("false", "coverage"), 0.0)
    print(f"{'model':18s} {'power':>6s} {'random':>6s} {'false':>6s} {'coverage':>8s} {'cells':>6s}")
    for model in MODELS:
        seeds, budget = range(given.first, given.first + given.searches), given.budget * MODELS[model][2]
        found = simulate(stock, model, seeds, budget)
        error = 2.5 * math.sqrt(0.05 * 0.95 / given.searches)  # of a share of .05 or .95
        wrong = found["power"] < min(LEAST_POWER, found["random"]) - error or found["false"] > MOST_FALSE + error
        wrong |= not COVERAGE[0] - error <= found["coverage"] <= COVERAGE[1] + error
        missed += wrong
        print(
            f"{model:18s} {found['power']:6.3f} {found['random']:6.3f} {found['false']:6.3f} {found['coverage']:8.3f} "
            f"{found['cells']:6.2f}{'  MISSES' * wrong}",
            flush=True,
        )
        for name in totals:
            totals[name] += found[name] * given.searches
        for name in ("power", "false", "coverage"):
            if not math.isnan(found[name]):
                figure(f"{name}, {model}", found[name], rounds=given.searches)
    for name, number in totals.items():
        share = wilson(round(number), given.searches * len(MODELS))
        print(f"{name}, all models: {share.estimate:.3f} [{share.low:.3f}, {share.high:.3f}]")
    print(
        f"{given.searches} searches of {given.budget} questions each, {time.monotonic() - began:.0f} s; {missed} miss"
    )
    return int(missed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
