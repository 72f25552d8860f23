"""Simulates how often the score over three layers says that all three are shown, and how often C counts.

    python bench/functional_shown.py                # everything, about six minutes on one core
    python bench/functional_shown.py --seeds 3      # less, with more Monte-Carlo error

Score tables and measurements of models whose truth is planted go through the study `functional`. "above 0" is what was
said before there was a margin: every layer surely above its control, and C counted under any verdict. "There" is the
mean of C where it counts, which is larger than that of all draws.

The exit code is 1 where a model that has all three layers is found in less than .8 of the seeds, or one that lacks a
layer in more than .05, by more than 2.5 Monte-Carlo errors.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass

import _alone  # noqa: F401  (first: it sets the number of threads)
import numpy as np
from _figures import figure

from tests.helpers import measured_tables as moved
from tests.helpers.functional_tables import answers, share
from tomserve.causal import table as t
from tomserve.studies import Context, compute
from tomserve.studies.comparison import combine_scores
from tomserve.studies.presentation import Tables

SEEDS, POWER, LEVEL, ERRORS = 20, 0.8, 0.05, 2.5


@dataclass(frozen=True)
class Planted:
    """A model: the share right, the share of variants kept, what moves do inside, and whether it has all layers."""

    right: float
    kept: float
    inside: moved.Truth
    has_all: bool = False
    scenarios: int = 80


PLANTED = {
    "has all three": Planted(0.85, 0.95, moved.WORKS, has_all=True),
    "right in 55%": Planted(0.55, 0.95, moved.WORKS),
    "right in 55%, 400 scenarios": Planted(0.55, 0.95, moved.WORKS, scenarios=400),
    "keeps 70% of its answers": Planted(0.85, 0.7, moved.WORKS),
    "a control reproduces its map": Planted(0.85, 0.95, moved.REPRODUCED),
    "its map is little above a control": Planted(0.85, 0.95, moved.Truth({t.PPT: 0.7, t.SHUFFLED_PAIRS: 0.6})),
    "no map": Planted(0.85, 0.95, moved.NOTHING),
}


@dataclass(frozen=True)
class Said:
    """What is said of one draw: C as it was measured and where it counts, nan where not; whether all three layers are
    shown; whether each is above 0."""

    measured: float
    counted: float
    shown: bool
    above: bool


def says(of: Planted, seed: int) -> Said:
    model = f"m{seed}"
    asked = answers(share(of.right, model), of.kept, model, scenarios=of.scenarios)
    inside = moved.measured(of.inside, model, layers=(1, 2), alphas=(1e-2,), seed=seed)
    found = compute(combine_scores([asked, inside]), "functional")
    (verdict,) = found.verdicts_with(Context())
    row = found.tables["score"].row(0, named=True)
    measured, counted = (math.nan if row[name] is None else float(row[name]) for name in ("c_measured", "c"))
    return Said(measured, counted, "All three layers" in verdict.cards[0].verdict, _is_above(found.tables))


def _is_above(tables: Tables) -> bool:
    beside = tables["layers"].filter(tables["layers"]["figure"].is_in(["over_rule", "kappa"]))["low"].drop_nulls()
    return bool((beside > 0).all()) and (tables["score"]["c_measured_low"][0] or 0.0) > 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    seeds = parser.parse_args().seeds
    head = ["C, as measured", "counts in", "mean C there", "all three are shown", "above 0 alone"]
    print(f"| planted, {seeds} seeds | {' | '.join(head)} |")
    print("|---|---|---|---|---|---|")
    wrong = False
    for name, of in PLANTED.items():
        found = [says(of, seed) for seed in range(seeds)]
        counted = [one.counted for one in found if not math.isnan(one.counted)]
        shown, above = (sum(getattr(one, name) for one in found) / seeds for name in ("shown", "above"))
        c, there = (
            f"{np.nanmean(values):.2f}" if values else "" for values in ([one.measured for one in found], counted)
        )
        print(f"| {name} | {c} | {len(counted) / seeds:.2f} | {there} | {shown:.2f} | {above:.2f} |", flush=True)
        aim = POWER if of.has_all else LEVEL
        spare = ERRORS * math.sqrt(aim * (1 - aim) / seeds)
        wrong |= shown < aim - spare if of.has_all else shown > aim + spare
        least, most = (POWER, None) if of.has_all else (None, LEVEL)
        figure(f"all three layers shown: {name}", shown, at_least=least, at_most=most, rounds=seeds)
    return int(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
