"""The score of functional Theory of Mind over three layers: behaviour B, mechanism C and stability S, as `ftom-1`.

B is the mean over types of task of the share right, corrected for chance (tomserve.stats.corrected). C is how much more
a perspective-taking map moves a model's answers than the largest control does, as a share of what putting the target
state itself in place reaches; layer and strength are chosen on other scenarios (tomserve.stats.selected). S is the mean
over the kinds of variants T1 to T4 of the share answered like the original. FToM = .5 B + .3 C + .2 S is defined only
where all three are; FToM_BS = (.5 B + .2 S)/.7 also where the mechanism cannot be measured, so that it alone ranks open
and closed models together. Definitions follow Mohanty et al., "Functional Theory of Mind Evaluation in Large Language
Models", with the corrections that docs/explanation/functional.md gives reasons for.

>>> FTOM_1.name, round(FTOM_1.full(0.6, 0.4, 0.8), 4), round(FTOM_1.without_c(0.6, 0.8), 4)
('ftom-1', 0.58, 0.6571)
>>> weighted(0.6, 0.2, 0.2).name
'ftom-1 with weights .60, .20, .20'
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from tomserve.stats.layers import (
    FEW_SCENARIOS,
    Behaviour,
    Found,
    Mechanism,
    Stability,
    behaviour,
    mechanism,
    names,
    stability,
    undefined,
)
from tomserve.stats.proportions import UNDEFINED, Interval

Floats = npt.NDArray[np.float64]

DRAWS = 1000
"""How many times all scenarios are weighted anew."""
LAYERS = ("b", "c", "s")
OTHERS = "ftom-1 with weights"
"""How the name of a formula with other weights begins."""


@dataclass(frozen=True)
class Formula:
    """A score by name: the weights of B, C and S, not negative and of the sum 1.

    A name stands for its weights: `ftom-1` is .5, .3, .2 and nothing else, and "ftom-1 with weights ..." says its own
    (see `weighted`). Raises ValueError for other weights, and for such a name with other weights than it stands for.
    """

    name: str = "ftom-1"
    weights: tuple[float, float, float] = (0.5, 0.3, 0.2)

    def __post_init__(self) -> None:
        if len(self.weights) != 3 or not all(math.isfinite(w) and w >= 0 for w in self.weights):
            raise ValueError(f"weights {self.weights}: expected three numbers that are not negative")
        if abs(math.fsum(self.weights) - 1) > 1e-9:
            raise ValueError(f"weights {self.weights}: expected the sum 1, found {math.fsum(self.weights):g}")
        if self.name == "ftom-1" and self.weights != (0.5, 0.3, 0.2):
            raise ValueError(f"ftom-1 is the name of the weights .5, .3, .2; give {self.weights} another name")
        if self.name.startswith(OTHERS) and self.name != _name(self.weights):
            raise ValueError(
                f"{self.name} is not the name of the weights {self.weights}, which is {_name(self.weights)}"
            )

    def full(self, b: float, c: float, s: float) -> float:
        """The score of all three layers, each from 0 to 1; nan where one is."""
        return math.fsum(w * part for w, part in zip(self.weights, (b, c, s), strict=True))

    def without_c(self, b: float, s: float) -> float:
        """The score of B and S alone, with their weights divided by their sum; nan where one is nan, or both weights
        are 0."""
        b_weight, _, s_weight = self.weights
        total = b_weight + s_weight
        return (b_weight * b + s_weight * s) / total if total > 0 else math.nan


FTOM_1 = Formula()
"""The score by its name and version."""


def weighted(b: float, c: float, s: float) -> Formula:
    """The formula with these weights, under a name that says them with as many digits as they have; `ftom-1` only for
    its own. Raises ValueError for weights that are negative or do not sum to 1."""
    weights = (b + 0.0, c + 0.0, s + 0.0)  # -0.0 becomes 0.0
    return FTOM_1 if weights == FTOM_1.weights else Formula(_name(weights), weights)


def _name(weights: Sequence[float]) -> str:
    """The name of a formula by its weights; two formulas have one name only where all their weights are equal."""
    told = (np.format_float_positional(abs(w), unique=True, min_digits=2).removeprefix("0") for w in weights)
    return f"{OTHERS} {', '.join(told)}"


@dataclass(frozen=True)
class Layers:
    """What is known of one model; None for a layer of which nothing is."""

    b: Behaviour | None = None
    c: Mechanism | None = None
    s: Stability | None = None


@dataclass(frozen=True)
class Scored:
    """The layers and scores of one model, each with its 95% interval; nan where undefined.

    adjusted, ceiling: the two sides of C, whose ratio it is. draws: the layers and scores ("b", "c", "s", "ftom",
    "ftom_bs") for scenarios weighted anew, around their estimates and neither corrected at 0 nor at 1, so that models
    can be compared over the same draws (tomserve.stats.ranks) [draws]; those without an interval are left out.
    lacking: why a layer is undefined, by its name. few: of how many scenarios a layer is, where these are too few for
    an interval or a rank.
    """

    b: Interval
    c: Interval
    s: Interval
    ftom: Interval
    ftom_bs: Interval
    adjusted: float
    ceiling: float
    draws: Mapping[str, Floats]
    lacking: Mapping[str, str]
    few: Mapping[str, int] = field(default_factory=dict)


def score(
    models: Mapping[str, Layers], formula: Formula = FTOM_1, *, draws: int = DRAWS, seed: int = 0, bayesian: bool = True
) -> dict[str, Scored]:
    """The layers and scores of models, with intervals for further scenarios like these.

    Every draw weights all scenarios anew, and a scenario has the same weight in every layer and for every model that
    has it, with all that belongs to it: the Bayesian bootstrap (Rubin, Ann Stat 9:130, 1981) over clusters, whose
    weights are independent exponentials, or, with bayesian=False, the multinomial one. The intervals of B and S are
    those of their own studies (`corrected.task_mean`, `stability.weighted_share`); that of C is its estimate plus and
    minus Student's t times the spread of the draws, in which cells are chosen again. A score's interval adds those of
    its layers in squares, with the correlations that the draws show (`weighted_sum`), so that it is honest where a
    layer does not vary at all (all variants kept), where a bootstrap has no width; simulated coverage decided this
    (bench/functional_coverage.py). They speak for further scenarios, and neither for other benchmarks nor for other
    controls.

    models: by name. formula: the weights. draws, seed: of the bootstrap. A layer that cannot be counted is nan, and
    `lacking` says why; one of fewer than FEW_SCENARIOS scenarios has an estimate and neither interval nor draws, since
    no number of draws makes a few scenarios many. Raises ValueError for columns of unequal length.
    """
    every = sorted({str(name) for one in models.values() for part in _parts(one) for name in np.unique(names(part))})
    weights = scenario_weights(len(every), draws, seed, bayesian=bayesian)
    place = {name: column for column, name in enumerate(every)}
    return {name: _scored(one, formula, weights, place) for name, one in models.items()}


def scenario_weights(scenarios: int, draws: int, seed: int = 0, *, bayesian: bool = True) -> Floats:
    """How much each scenario counts in each draw, with the mean 1 [draws, scenarios]."""
    rng = np.random.default_rng(seed)
    if bayesian:
        return np.asarray(rng.exponential(size=(draws, scenarios)), dtype=np.float64)
    return np.asarray(rng.multinomial(scenarios, np.full(scenarios, 1 / max(1, scenarios)), size=draws), dtype=float)


def weighted_sum(parts: Sequence[Interval], weights: Sequence[float], correlation: npt.ArrayLike) -> Interval:
    """A weighted sum of estimates from their intervals and correlations; in [0, 1] where the weights sum to 1.

    The method of variance estimates recovery for sums (Zou, Huang and Zhang, Comput Stat Data Anal 53:3755, 2009):
    distances to the lower bounds are added in squares, and so are those to the upper ones. parts: of each [k]. weights:
    not negative [k]. correlation: of the estimates [k, k].
    """
    w, r = np.asarray(weights, dtype=float), np.asarray(correlation, dtype=float)
    value = math.fsum(float(a) * one.estimate for a, one in zip(w, parts, strict=True))
    if not all(math.isfinite(end) for one in parts for end in (one.low, one.high)):
        return Interval(value, math.nan, math.nan, "undefined: an interval of a layer is")
    down = w * np.array([one.estimate - one.low for one in parts])
    up = w * np.array([one.high - one.estimate for one in parts])
    low, high = (value + sign * math.sqrt(max(0.0, float(gap @ r @ gap))) for sign, gap in ((-1, down), (1, up)))
    return Interval(value, max(0.0, low), min(1.0, high), "square-and-add of the layers, correlated as over scenarios")


def _parts(one: Layers) -> Iterator[Behaviour | Mechanism | Stability]:
    yield from (part for part in (one.b, one.c, one.s) if part is not None)


def _scored(one: Layers, formula: Formula, weights: Floats, place: Mapping[str, int]) -> Scored:
    def of(part: Behaviour | Mechanism | Stability) -> Floats:
        return weights[:, [place[str(name)] for name in np.unique(names(part))]]

    found = {
        "b": undefined("not measured") if one.b is None else behaviour(one.b, of(one.b)),
        "c": undefined("not measured") if one.c is None else mechanism(one.c, of(one.c)),
        "s": undefined("not measured") if one.s is None else stability(one.s, of(one.s)),
    }
    few = {name: len(np.unique(names(part))) for name, part in (("b", one.b), ("s", one.s))
           if part is not None and not found[name].why}  # fmt: skip
    few = {name: count for name, count in few.items() if count < FEW_SCENARIOS}
    found |= {name: _alone(found[name], count) for name, count in few.items()}
    lacking = {name: layer.why for name, layer in found.items() if layer.why}
    b, c, s = (found[name].interval for name in LAYERS)
    draws = {name: layer.draws for name, layer in found.items() if layer.draws is not None}
    ftom = ftom_bs = Interval(*UNDEFINED, method="undefined: a layer is missing")
    b_weight, _, s_weight = formula.weights
    if not {"b", "s"} & set(lacking) and b_weight + s_weight > 0:
        shares = {"b": b_weight / (b_weight + s_weight), "s": s_weight / (b_weight + s_weight)}
        ftom_bs = _summed(found, shares, draws, "ftom_bs")
    if not lacking:
        ftom = _summed(found, dict(zip(LAYERS, formula.weights, strict=True)), draws, "ftom")
    return Scored(b, c, s, ftom, ftom_bs, found["c"].adjusted, found["c"].ceiling, draws, lacking, few)


def _alone(layer: Found, scenarios: int) -> Found:
    """A layer of too few scenarios: its estimate, without an interval and draws."""
    why = f"undefined: {scenarios} scenarios, and {FEW_SCENARIOS} are needed"
    return replace(layer, interval=Interval(layer.interval.estimate, math.nan, math.nan, why), draws=None)


def _summed(found: Mapping[str, Found], weights: Mapping[str, float], draws: dict[str, Floats], name: str) -> Interval:
    """A score from its layers; its draws are added to `draws` where it has an interval."""
    parts = [found[layer].interval for layer in weights]
    if not set(weights) <= set(draws):
        return weighted_sum(parts, list(weights.values()), np.eye(len(parts)))
    score = weighted_sum(parts, list(weights.values()), correlation([draws[layer] for layer in weights]))
    if math.isfinite(score.low):
        draws[name] = np.sum([weight * draws[layer] for layer, weight in weights.items()], axis=0)
    return score


def correlation(draws: Sequence[Floats]) -> Floats:
    """Correlations of the draws of k estimates, [draws] each, as a matrix [k, k]; 0 where one does not vary."""
    values = np.array(draws)
    values = values - values.mean(axis=1, keepdims=True)
    sizes = np.sqrt((values**2).sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        found = (values @ values.T) / np.outer(sizes, sizes)
    found = np.where(np.outer(sizes > 1e-9, sizes > 1e-9), found, 0.0)
    np.fill_diagonal(found, 1.0)
    return np.asarray(found, dtype=np.float64)
