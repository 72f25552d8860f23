"""Simulates what the intervals of the score over three layers are worth: how often they hold the truth.

    python bench/functional_coverage.py                       # everything, about six minutes on one core
    python bench/functional_coverage.py --replications 20     # less, with more Monte-Carlo error
    python bench/functional_coverage.py --only pairs          # only differences and ranks, about three minutes

Models of known behaviour answer questions about 24, 60 or 120 scenarios, with variants of each, and moves of a state
flip their answers in some cells of layer and strength, more often than controls do. How easy a scenario is shifts all
three layers at once, so that they depend on each other. The truth of C is adjusted/ceiling at the best cell. The first
rows are the functions that make the study's tables (tomserve.stats.functional), with the weights of scenarios drawn in
either way; methods in brackets were tried and left: percentiles of the same draws, and Student's t times their spread.
Then two models answer about the same scenarios. How often does the interval of their difference hold its truth, and how
often is one of them called first with more than .975: the wrong one, or either where both are equally good? Where they
are equal, a copy in nine of ten answers is tried as well. [percentile] is the interval of the drawn differences, which
was used before.

The exit code is 1 where an interval that is used holds the truth in less than .93 of the draws, or where one of two
equal models is called first in more than .05 for each side, by more than 2.5 Monte-Carlo errors.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from unittest import mock

import _alone  # noqa: F401  (first: it sets the number of threads)
import numpy as np
import numpy.typing as npt
from _figures import figure
from scipy.special import expit
from scipy.stats import t as student

from tomserve.stats import functional
from tomserve.stats.functional import FTOM_1, Behaviour, Mechanism, ModelLayers, ModelScore, Stability, score_models
from tomserve.stats.ranks import compare_scores

Array = npt.NDArray[np.float64]
SCENARIOS = (24, 60, 120)
DRAWS, TARGET, ERRORS = 300, 0.93, 2.5
TASKS, CHANCE = ("a", "b", "c"), (0.5, 0.5, 0.25)
FADE = np.array([0.1, 0.3, 0.6, 1.0, 0.6, 0.3])
PARTS = ("b", "c", "s", "ftom", "ftom_bs")


@dataclass(frozen=True)
class Answerer:
    """How often, in an average scenario, a question is right, a variant kept, and an answer moved by the map, by the
    largest control and by the patch, at the best cell."""

    right: tuple[float, float, float]
    kept: float
    works: float
    control: float
    ceiling: float = 0.95
    spread: float = 0.8


ANSWERERS = {
    "good": Answerer((0.9, 0.8, 0.7), 0.9, 0.6, 0.1),
    "guesses": Answerer(CHANCE, 0.5, 0.0, 0.0),
    "reproduced by a control": Answerer((0.8, 0.7, 0.5), 0.8, 0.5, 0.5),
    "nearly perfect": Answerer((0.99, 0.99, 0.97), 0.99, 0.9, 0.05),
    "below chance in one task": Answerer((0.8, 0.2, 0.5), 0.7, 0.3, 0.2),
}


def chances(of: float, ease: Array, spread: float) -> Array:
    """The probability in each scenario, given how easy it is."""
    if of in (0.0, 1.0):
        return np.full(ease.shape, of)
    return np.asarray(expit(math.log(of / (1 - of)) + spread * ease), dtype=float)


def drawn(rng: np.random.Generator, of: Answerer, scenarios: int, ease: Array | None = None) -> ModelLayers:
    """The layers of one model that was asked once. ease: of the scenarios, where another model was asked the same."""
    ease = rng.normal(size=scenarios) if ease is None else ease
    names = np.array([f"s{number:04d}" for number in range(scenarios)])
    right = np.concatenate([rng.random(scenarios) < chances(share, ease, of.spread) for share in of.right])
    b = Behaviour(right, np.repeat(CHANCE, scenarios), np.repeat(TASKS, scenarios), np.tile(names, len(TASKS)))
    kinds = ("T1", "T2", "T3", "T4")
    kept = np.tile(chances(of.kept, ease, of.spread), 12)
    s = Stability(rng.random(12 * scenarios) < kept, np.repeat(kinds, 3 * scenarios), np.tile(names, 12), kinds)
    twice = np.repeat(ease, max(2, math.ceil(50 / scenarios)))
    whose = np.repeat(names, max(2, math.ceil(50 / scenarios)))

    def flips(share: float, fade: Array) -> Array:
        return (rng.random((twice.size, fade.size)) < chances(share, twice, of.spread)[:, None] * fade).astype(float)

    controls = {"one": flips(of.control, FADE), "other": flips(of.control / 3, FADE)}
    ceiling = flips(of.ceiling, np.array([0.4, 1.0, 0.7]))
    return ModelLayers(b, Mechanism(flips(of.works, FADE), controls, ceiling, whose, twice.size), s)


def truth(of: Answerer) -> dict[str, float]:
    """What so many scenarios would give that chance plays no part."""
    ease = np.random.default_rng(0).normal(size=400_000)

    def mean(share: float) -> float:
        return float(chances(share, ease, of.spread).mean())

    b = float(np.mean([max(0.0, (mean(share) - chance) / (1 - chance))
                       for share, chance in zip(of.right, CHANCE, strict=True)]))  # fmt: skip
    c = min(1.0, max(0.0, mean(of.works) - mean(of.control)) / mean(of.ceiling))
    s = mean(of.kept)
    return {"b": b, "c": c, "s": s, "ftom": FTOM_1.full(b, c, s), "ftom_bs": FTOM_1.without_c(b, s)}


def intervals(found: ModelScore, scenarios: int, weights: str) -> Iterator[tuple[str, str, float, float]]:
    """Every part, method and interval."""
    quantile = float(student.ppf(0.975, scenarios - 1))
    for part in PARTS:
        own = {"b": found.b, "c": found.c, "s": found.s, "ftom": found.ftom, "ftom_bs": found.ftom_bs}[part]
        yield part, f"used, {weights}", own.low, own.high
        if part in found.draws:
            draws = found.draws[part]
            low, high = np.quantile(draws, (0.025, 0.975))
            yield part, f"[percentile, {weights}]", max(0.0, float(low)), min(1.0, float(high))
            half = quantile * float(draws.std(ddof=1))
            yield part, f"[t, {weights}]", max(0.0, own.estimate - half), min(1.0, own.estimate + half)


PAIRS = (
    *(("nearly perfect", "nearly perfect"), ("good", "good"), ("guesses", "guesses")),
    *(("nearly perfect", "good"), ("good", "reproduced by a control")),
)
"""Two models that answer about the same scenarios, the better one first."""
COPIED = 0.9
"""The share of its answers that a copy has from the other."""


@dataclass(frozen=True)
class Pair:
    """What became of two models: the shares of the replications in which the interval of the difference of their scores
    holds its truth, in which it leaves out 0 (wrong where both are equal), and in which the first is first with more
    than .975 (sure); the mean probability that it is first; and the first two of percentile intervals."""

    holds: float
    wrong: float
    sure: float
    first: float
    percentile_holds: float
    percentile: float


def pairs_of(
    names: tuple[str, str],
    scenarios: int,
    replications: int,
    *,
    part: str = "ftom_bs",
    copied: float = 0.0,
    weights: int = DRAWS,
) -> Pair:
    """Ask two models about the same scenarios. part: the score that is compared. copied: the share of answers that the
    second has from the first."""
    one, other = names
    rng = np.random.default_rng([scenarios, round(100 * copied), *map(ord, one + other)])
    true = truth(ANSWERERS[one])[part] - truth(ANSWERERS[other])[part]
    rows = []
    for _ in range(replications):
        ease = rng.normal(size=scenarios)
        first, second = (drawn(rng, ANSWERERS[name], scenarios, ease) for name in (one, other))
        if part == "ftom_bs":
            first, second = replace(first, c=None), replace(second, c=None)
        second = _copy(rng, first, second, copied)
        found = score_models({"x": first, "y": second}, draws=weights)
        draws = {name: each.draws[part] for name, each in found.items()}
        both = compare_scores({name: getattr(each, part) for name, each in found.items()}, draws)
        low, high, p = both.low[0, 1], both.high[0, 1], both.rank_probabilities()["x"][0]
        below, above = np.quantile(draws["x"] - draws["y"], (0.025, 0.975))
        used = low <= true <= high, not low <= 0 <= high, p > 0.975, p
        rows.append((*used, below <= true <= above, not below <= 0 <= above))
    return Pair(*map(float, np.mean(rows, axis=0)))


def _copy(rng: np.random.Generator, first: ModelLayers, second: ModelLayers, share: float) -> ModelLayers:
    """The second model with so large a share of the first one's answers."""

    def mixed(mine: npt.ArrayLike, theirs: npt.ArrayLike) -> Array:
        return np.where(rng.random(np.shape(mine)) < share, theirs, mine)

    if first.b is None or first.s is None or second.b is None or second.s is None:
        return second
    b = replace(second.b, right=mixed(second.b.right, first.b.right))
    return replace(second, b=b, s=replace(second.s, same=mixed(second.s.same, first.s.same)))


def pairs(replications: int) -> bool:
    """Print what becomes of two models; whether the intervals that are used hold the truth often enough, and equal
    models are seldom called first."""
    passed = True
    low = TARGET - ERRORS * math.sqrt(TARGET * (1 - TARGET) / replications)
    most = 0.05 + ERRORS * math.sqrt(0.05 * 0.95 / replications)
    titles = ("holds", "not 0", ">.975", "p 1st", "[perc. holds]", "[perc. not 0]")
    print(f"{'score':7} {'pair':42} {'scenarios':>9} " + " ".join(f"{title:>6}" for title in titles))
    alike = [names for names in PAIRS if names[0] == names[1]]
    cases = [(names, "ftom_bs", 0.0) for names in PAIRS] + [(names, "ftom_bs", COPIED) for names in alike]
    cases += [(names, "ftom", 0.0) for names in PAIRS if "guesses" not in names]
    for names, part, copied in cases:
        equal = names[0] == names[1]
        for scenarios in SCENARIOS:
            found = pairs_of(names, scenarios, replications, part=part, copied=copied)
            bad = found.holds < low or (equal and found.sure > most)
            passed &= not bad
            name = f"{names[0]}, {'a copy' if copied else 'its equal' if equal else names[1]}"
            told = (found.holds, found.wrong, found.sure, found.first)
            shown = " ".join(f"{value:6.3f}" for value in told)
            former = f"{found.percentile_holds:13.3f} {found.percentile:13.3f}"
            print(f"{part:7} {name:42} {scenarios:9} {shown} {former}{'  BAD' if bad else ''}", flush=True)
    return passed


def main() -> int:
    """Print how often each interval holds the truth; 1 where one that is used does so too seldom."""
    parser = argparse.ArgumentParser(description="Simulates what the intervals of the score are worth.")
    parser.add_argument("--replications", type=int, default=150)
    parser.add_argument("--only", choices=("layers", "pairs"), help="only intervals of models, or only of differences")
    chosen = parser.parse_args()
    fine = True
    if chosen.only != "pairs":
        fine &= layers(chosen.replications)
    if chosen.only != "layers":
        fine &= pairs(chosen.replications)
    figure("parts of which a figure misses its target", int(not fine), at_most=0, rounds=chosen.replications)
    return int(not fine)


def classic_weights(scenarios: int, draws: int) -> Array:
    """How often each scenario is drawn by the classic bootstrap, in place of the Bayesian one [draws, scenarios]."""
    rng = np.random.default_rng(0)
    return np.asarray(rng.multinomial(scenarios, np.full(scenarios, 1 / scenarios), size=draws), dtype=float)


def layers(replications: int) -> bool:
    """Print how often each interval of one model holds the truth; whether those that are used do so often enough."""
    began, failed, undefined = time.perf_counter(), 0, 0
    pooled: dict[tuple[str, str], list[float]] = {}
    worst: dict[tuple[str, str], tuple[float, str]] = {}
    for name, of in ANSWERERS.items():
        true = truth(of)
        for scenarios in SCENARIOS:
            rng = np.random.default_rng([scenarios, *map(ord, name)])
            held: dict[tuple[str, str], list[float]] = {}
            for _ in range(replications):
                layers = drawn(rng, of, scenarios)
                for weights, weigh in {"bayesian": functional.scenario_weights, "classic": classic_weights}.items():
                    with mock.patch.object(functional, "scenario_weights", weigh):
                        found = score_models({"m": layers}, draws=DRAWS)["m"]
                    for part, method, low, high in intervals(found, scenarios, weights):
                        if math.isnan(low):
                            undefined += 1
                            continue
                        holds = low - 1e-9 <= true[part] <= high + 1e-9
                        held.setdefault((part, method), []).append(float(holds))
            for key, each in held.items():
                share = float(np.mean(each))
                pooled[key] = [*pooled.get(key, []), share]
                if key not in worst or share < worst[key][0]:
                    worst[key] = share, f"{name}, {scenarios}"
    error = ERRORS * math.sqrt(TARGET * (1 - TARGET) / replications)
    print(f"{'part':8} {'method':24} {'mean':>6} {'least':>6}  where")
    for (part, method), shares in sorted(pooled.items(), key=lambda one: (PARTS.index(one[0][0]), one[0][1])):
        least, where = worst[part, method]
        bad = method == "used, bayesian" and least < TARGET - error
        failed += bad
        if method == "used, bayesian":
            figure(
                f"{part}, coverage of 95% intervals", float(np.mean(shares)), least, max(shares), rounds=replications
            )
        print(f"{part:8} {method:24} {np.mean(shares):6.3f} {least:6.3f}  {where}{'  BELOW' if bad else ''}")
    seconds = time.perf_counter() - began
    cases = len(ANSWERERS) * len(SCENARIOS)
    print(f"{cases} cases of {replications} draws in {seconds:.0f} s; {undefined} intervals were undefined")
    return not failed


if __name__ == "__main__":
    raise SystemExit(main())
