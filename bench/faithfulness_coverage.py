"""Simulates what the intervals, the test and the verdict of `--study faithfulness` are worth, for answerers whose
faithfulness is known.

    python bench/faithfulness_coverage.py                       # 500 draws a case, a quarter of an hour on one core
    python bench/faithfulness_coverage.py --replications 50     # less, with more Monte-Carlo error
    python bench/faithfulness_coverage.py --case "7 units"      # one case

Questions of 7 to 21 units (stages), whose difficulty varies by an SD of .3 to 1 on the logit scale, are answered after
a chain as it was written, its paraphrase, filler, nothing, and chains with the last belief replaced or agents swapped
(which three of five chains allow). The answerers: one that ignores its chain, one that answers from the story afresh
each time, one that takes the last belief it reads with probability .25, .5, .75 or always (that probability varies over
units, too) and else ignores the chain, one that takes it always but knows the answer without it as well, a mixture of
questions that follow and questions that do not; one that needs room (filler will do), one that needs some text of that
length, whatever it says, one that needs its own chain and mends a wrong belief in it, one that takes the first belief,
and one that answers otherwise after any disturbance. Every answer changes at random in 2% of cases.

A nominal 95% interval should hold the truth (the mean estimate over very many units) in .93 of the draws or more; the
test corrected by Holm should find an effect that is not there in 5% of the draws or less; and so should the verdict say
what is not so. The exit code is 1 where one misses this by more than 2.5 Monte-Carlo errors.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import _alone  # noqa: F401  (first: it sets the number of threads)
import numpy as np
import numpy.typing as npt
from _figures import figure, spread_figure
from scipy.special import expit, logit

from tomserve.stats.chain_edits import (
    AFTERWARDS,
    DEPENDS,
    DISTURBED,
    ESTIMANDS,
    FILLER,
    FOLLOWS,
    KEPT,
    LAST,
    LOCAL,
    MENDS,
    OTHER,
    PARTLY,
    PROPAGATED,
    ROOM,
    SWAPPED,
    UNDECIDED,
    Contrast,
    contrast,
    correct_p,
    decide,
    follow_effect,
    loss_effect,
)

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

TRUE: Mapping[str, tuple[str, ...]] = {
    "inert": (AFTERWARDS,),
    "from the story": (AFTERWARDS,),
    "follows .25": (PARTLY, DEPENDS),
    "follows .5": (PARTLY, DEPENDS),
    "follows .75": (PARTLY, FOLLOWS, DEPENDS),
    "follows": (FOLLOWS,),
    "follows, knows": (FOLLOWS,),
    "half of the items": (PARTLY, DEPENDS),
    "needs room": (ROOM, DEPENDS),
    "needs any text": (ROOM, DEPENDS),
    "mends": (MENDS, DEPENDS),
    "first belief": (DEPENDS,),
    "disturbed": (DISTURBED, DEPENDS),
}
"""The answerers, and what may be said of them beside that it is undecided; DEPENDS is true of all but the first two."""
TARGET, ALPHA, ERRORS = 0.93, 0.05, 2.5
MANY = 6000
"""Units of the draw that gives the truth."""
SWAPS = 0.6
"""The share of chains that speak of several agents."""
SHORT = 0.4
"""The share of chains whose belief in the middle is the first one."""
EFFECT = 0.02
"""A smaller truth than this is no effect, for the test."""


@dataclass(frozen=True)
class Design:
    """What is asked: units, items of each, choices, share right, SD of units on the logit scale, shares of random
    answers and of failed ones, and the latter after a replaced belief or swapped agents, and without a chain."""

    units: int = 14
    items: int = 4
    choices: int = 3
    right: float = 0.8
    sd: float = 0.6
    noise: float = 0.02
    failed: float = 0.0
    failed_edited: float = 0.0
    failed_without: float = 0.0


BASE = Design()
CASES: Mapping[str, Design] = {
    "14 units of 4 items": BASE,
    "7 units": replace(BASE, units=7),
    "21 units": replace(BASE, units=21),
    "2 items a unit": replace(BASE, items=2),
    "10 items a unit": replace(BASE, items=10),
    "21 units of 10 items": replace(BASE, units=21, items=10),
    "SD .3": replace(BASE, sd=0.3),
    "SD 1": replace(BASE, sd=1.0),
    "2 choices": replace(BASE, choices=2),
    ".6 right": replace(BASE, right=0.6),
    ".95 right": replace(BASE, right=0.95),
    "5% fail": replace(BASE, failed=0.05, failed_edited=0.05),
    "20% of edited fail": replace(BASE, failed_edited=0.2),
    "20% without chain fail": replace(BASE, items=10, failed_without=0.2),
}


@dataclass
class Figures:
    """What came of the draws of one answerer: by estimate the truth, how often the interval held it and the test found
    an effect; how often any effect was found that is not there; and the verdicts."""

    truth: dict[str, float]
    held: dict[str, float] = field(default_factory=dict)
    found: dict[str, float] = field(default_factory=dict)
    falsely: float = 0.0
    verdicts: Counter[str] = field(default_factory=Counter)

    def wrong(self, answerer: str) -> float:
        """The share of draws whose verdict is not so."""
        said = sum(count for code, count in self.verdicts.items() if code not in (*TRUE[answerer], UNDECIDED))
        return said / max(1, self.verdicts.total())


class World:
    """Items, chains and answers of one draw; label 0 is right, and -1 is no answer."""

    def __init__(self, rng: np.random.Generator, answerer: str, design: Design) -> None:
        self.rng, self.design = rng, design
        self.unit = np.repeat(np.arange(design.units), design.items)
        n = self.unit.size
        stage = rng.normal(0, design.sd, design.units)[self.unit]
        self.known = expit(logit(design.right) + stage + rng.normal(0, 0.7, n))
        self.own = self._from_story()
        self.implied = self._other(self.own)
        self.swapped = self._other(self.own)
        self.swaps = rng.random(n) < SWAPS
        self.answerer = answerer
        self.afresh, self.knows = answerer == "from the story", answerer == "follows, knows"
        self.first = self.rng.random(n) < SHORT
        self.follows = np.zeros(n)
        if answerer.startswith("follows"):
            share = answerer.removeprefix("follows").strip(" ,knows")
            own = rng.normal(0, design.sd, design.units)[self.unit]
            self.follows = expit(logit(float(share)) + own) if share else np.ones(n)
        elif answerer == "half of the items":
            own = rng.normal(0, design.sd, design.units)[self.unit]
            self.follows = (rng.random(n) < expit(own)).astype(float)

    def _from_story(self) -> Labels:
        wrong = self.rng.integers(1, self.design.choices, self.known.size)
        return np.where(self.rng.random(self.known.size) < self.known, 0, wrong)

    def _other(self, labels: Labels) -> Labels:
        return (labels + self.rng.integers(1, self.design.choices, labels.size)) % self.design.choices

    def answers(self, last: Labels | None, failed: float, edit: str = "") -> Labels:
        """What is answered after a chain whose last belief is that (None: it says none). edit: what was done to it; ""
        for nothing."""
        rng, n = self.rng, self.own.size
        guess = rng.integers(0, self.design.choices, n)
        alone = self._from_story() if self.afresh else self.own
        lost: Labels | None = None
        if edit in LOSES.get(self.answerer, ()):
            lost = self._other(self.own) if self.answerer == "disturbed" else guess
        if edit in (LOCAL, PROPAGATED) and self.answerer == "first belief":
            lost = np.where(self.first, self.implied, self.own)
        alone = alone if lost is None else lost
        said = last if last is not None else alone if self.knows else guess
        given = np.where(rng.random(n) < self.follows, said, alone)
        given = np.where(rng.random(n) < self.design.noise, self._other(given), given)
        return np.where(rng.random(n) < failed, -1, given)

    def contrasts(self) -> tuple[dict[str, Contrast], dict[str, list[Contrast]], dict[str, Contrast]]:
        """The four estimates, what replaced beliefs and swapped agents do beyond filler and no chain, and the further
        ones."""
        design, unit = self.design, self.unit
        full, paraphrase = (self.answers(self.own, design.failed) for _ in range(2))
        filler, nothing = (self.answers(None, design.failed + design.failed_without, edit) for edit in (FILLER, KEPT))
        last, swapped = (
            self.answers(label, design.failed_edited, edit)
            for label, edit in ((self.implied, LAST), (self.swapped, SWAPPED))
        )
        other = self.answers(self._other(self.own), design.failed, OTHER)
        middle = {
            LOCAL: self.answers(self.own, design.failed_edited, LOCAL),
            PROPAGATED: self.answers(self.implied, design.failed_edited, PROPAGATED),
        }
        guess, some = np.full(unit.size, 1 / design.choices), self.swaps
        replaced, exchanged = _is(last, self.implied), _is(swapped, self.swapped)[some]
        beyond = {
            LAST: [follow_effect(replaced, _is(one, self.implied), unit) for one in (filler, nothing)],
            SWAPPED: [follow_effect(exchanged, _is(one, self.swapped)[some], unit[some]) for one in (filler, nothing)],
        }
        own = _is(full, self.own)
        four = {
            LAST: follow_effect(replaced, _is(paraphrase, self.implied), unit),
            SWAPPED: follow_effect(exchanged, _is(paraphrase, self.swapped)[some], unit[some]),
            FILLER: loss_effect(_is(full, 0), _is(filler, 0), guess, unit),
            KEPT: loss_effect(own, _is(nothing, self.own), guess, unit),
        }
        further = {OTHER: loss_effect(own, _is(other, self.own), guess, unit)}
        kept = _is(paraphrase, self.own)
        for name, given in middle.items():
            further[name] = contrast(kept, _is(given, self.own), unit, np.nan_to_num(kept))
        return four, beyond, further


LOSES: Mapping[str, tuple[str, ...]] = {
    "needs room": (KEPT,),
    "needs any text": (FILLER, KEPT),
    "mends": (FILLER, KEPT, OTHER),
    "first belief": (FILLER, KEPT, OTHER),
    "disturbed": (FILLER, KEPT, OTHER, LAST, SWAPPED, LOCAL, PROPAGATED),
}
"""The edits after which some answerers have nothing to answer by."""


def _is(answers: Labels, labels: Labels | int) -> Floats:
    return np.where(answers < 0, math.nan, answers == labels)


def simulated(answerer: str, design: Design, replications: int, seed: int) -> Figures:
    """What the estimates of that many draws are worth."""
    rng = np.random.default_rng([seed, list(TRUE).index(answerer), design.units, design.items])
    many = World(rng, answerer, replace(design, units=MANY)).contrasts()[0]
    result = Figures({name: one.value for name, one in many.items()})
    # an inert chain changes nothing on average where failures do not differ
    none = [name for name in ESTIMANDS if abs(result.truth[name]) < EFFECT]
    held, found, falsely = Counter[str](), Counter[str](), 0
    for _ in range(replications):
        four, beyond, further = World(rng, answerer, design).contrasts()
        ps = dict(zip(ESTIMANDS, correct_p(list(four.values())), strict=True))
        for name, one in four.items():
            held[name] += one.low - 1e-9 <= result.truth[name] <= one.high + 1e-9
            found[name] += ps[name] <= ALPHA
        falsely += any(ps[name] <= ALPHA for name in none)
        result.verdicts[decide(four, beyond, further).code] += 1
    result.held = {name: held[name] / replications for name in ESTIMANDS}
    result.found = {name: found[name] / replications for name in ESTIMANDS}
    result.falsely = falsely / replications
    return result


def misses(answerer: str, figures: Figures, replications: int) -> list[str]:
    """Which figures miss their targets by more than Monte-Carlo error allows."""
    error = ERRORS * math.sqrt(ALPHA * (1 - ALPHA) / replications)
    missed = [f"interval of {name}" for name, held in figures.held.items() if held < TARGET - error]
    if figures.falsely > ALPHA + error:
        missed.append("Holm")
    if figures.wrong(answerer) > ALPHA + error:
        missed.append("verdict")
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=500, help="draws of each answerer in each case (500)")
    parser.add_argument("--case", action="append", choices=list(CASES), help="only this case; may be repeated")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    missed, start, shares = 0, time.perf_counter(), list[float]()
    print("By answerer: the truth of four estimates, how often their intervals hold it and the test finds an effect")
    print(f"({', '.join(ESTIMANDS)}), how often it finds one that is not there, and the verdicts.")
    for case in options.case or CASES:
        print(f"\n{case}", flush=True)
        for answerer in TRUE:
            figures = simulated(answerer, CASES[case], options.replications, options.seed)
            wrong = misses(answerer, figures, options.replications)
            shares += figures.held.values()
            missed += len(wrong)
            shown = "  ".join(
                " ".join(f"{of[name]:5.2f}" if of is figures.truth else f"{of[name]:.3f}" for name in ESTIMANDS)
                for of in (figures.truth, figures.held, figures.found)
            )
            verdicts = ", ".join(
                f"{code} {figures.verdicts[code] / options.replications:.3f}"
                for code in (FOLLOWS, AFTERWARDS, ROOM, MENDS, DISTURBED, PARTLY, DEPENDS, UNDECIDED)
                if figures.verdicts[code]
            )
            noted = f"  misses: {', '.join(wrong)}" if wrong else ""
            print(f"{answerer:18s} {shown}  {figures.falsely:.3f}  {verdicts}{noted}", flush=True)
    took = time.perf_counter() - start
    spread_figure("coverage of 95% intervals", shares)
    figure("figures that miss their target", missed, at_most=0, rounds=options.replications)
    print(f"\n{options.replications} draws each, {took:.0f} s; {missed} figures miss their target")
    return int(missed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
