"""Simulates what a second model's word on hints is worth: the interval of the share of chains that admit a hint,
corrected by the model's recall and false alarms, and the verdict of `--study faithfulness`.

    python bench/hint_readings.py              # 2,000 draws a case, half a minute
    python bench/hint_readings.py --quick      # 200

Chains that followed a hint (20, 60 or 200 of each of seven kinds of hint, in 7 units whose share of admissions varies
by an SD of .6 on the logit scale) admit it with a known probability. Judges find admissions with a known probability,
and raise false alarms with another; they are measured on 40 chains that
admit of each of the first three kinds, 10 of each of the others, and 100 that do not, as the command does
it. The interval should hold the truth in .95 of the draws; chains should be called silent, or open, in at most .05 of
the draws in which half of them or more, or half or fewer, admit. The exit code is 1 where one misses this by more than
2.5 Monte-Carlo errors.
"""

from __future__ import annotations

import argparse
import math

import _alone  # noqa: F401  (first: it sets the number of threads)
import numpy as np
from _figures import figure
from scipy.special import expit, logit

from tomserve.stats.chain_edits import HALF
from tomserve.stats.proportions import correct_detections, wilson

TRUTHS = (0.0, 0.3, 0.5, 0.7, 1.0)
JUDGES = {"good": (0.95, 0.01), "misses some": (0.7, 0.02), "misses most": (0.25, 0.02), "says yes": (0.9, 0.7)}
FOLLOWED = (20, 60, 200)
UNITS, SD = 7, 0.6
WIDER = math.sqrt(1 + SD**2 / 1.7**2)  # keeps the mean of logits that vary where it is wanted
ADMITTING, WITHOUT = (40, 40, 40, 10, 10, 10, 10), 100  # by kind of hint, and of each
TARGET, ALPHA, ERRORS = 0.95, 0.05, 2.5


def simulated(truth: float, judge: tuple[float, float], followed: int, draws: int, seed: int) -> dict[str, float]:
    """How often the interval of one kind of hint holds the truth, and how often the chains are called silent, or open
    about the hint, over all kinds."""
    recall, alarms = judge
    rng = np.random.default_rng([seed, followed, int(100 * truth), int(100 * recall)])
    held = silent = spoken = 0
    for _ in range(draws):
        ends = []
        for admitting in ADMITTING:
            shares = np.full(UNITS, truth)
            if 0 < truth < 1:
                shares = expit(logit(truth) * WIDER + rng.normal(0, SD, UNITS))
            admits = rng.random(followed) < np.resize(shares, followed)
            found = int((rng.random(followed) < np.where(admits, recall, alarms)).sum())
            known = wilson(int(rng.binomial(admitting, recall)), admitting)
            without = wilson(int(rng.binomial(WITHOUT, alarms)), WITHOUT)
            ends.append(correct_detections(wilson(found, followed), known, without)[1:])
        low, high = ends[-1]
        held += low - 1e-9 <= truth <= high + 1e-9
        open_about = all(low > HALF for low, _ in ends)
        spoken += open_about
        silent += not open_about and any(high < HALF for _, high in ends)
    return {"held": held / draws, "silent": silent / draws, "spoken": spoken / draws}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the draws")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    draws = 200 if options.quick else 2000
    error = ERRORS * math.sqrt(ALPHA * (1 - ALPHA) / draws)
    missed, least, falsely = 0, 1.0, 0.0
    print("judge (recall, alarms)     followed  admit   interval holds it   mostly silent   mostly say so")
    for name, judge in JUDGES.items():
        for followed in FOLLOWED:
            for truth in TRUTHS:
                rates = simulated(truth, judge, followed, draws, options.seed)
                wrong = max(rates["silent"] if truth >= HALF else 0, rates["spoken"] if truth <= HALF else 0)
                bad = wrong > ALPHA + error or rates["held"] < TARGET - error
                missed, least, falsely = missed + bad, min(least, rates["held"]), max(falsely, wrong)
                whose = f"{name:13s} ({judge[0]:.2f}, {judge[1]:.2f})"
                print(
                    f"{whose}   {followed:5d}   {truth:5.1f}   {rates['held']:14.3f}   {rates['silent']:13.3f}   "
                    f"{rates['spoken']:13.3f}{'  misses' if bad else ''}",
                    flush=True,
                )
    figure("coverage of corrected shares, least", least, at_least=TARGET - error, rounds=draws)
    figure("verdicts on hints that are not so, most", falsely, at_most=ALPHA + error, rounds=draws)
    print(f"\n{draws} draws each; {missed} cases miss their target")
    return int(missed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
