"""The score of functional Theory of Mind (`ftom-1`) over three layers: behaviour B, mechanism C and stability S.

B is the mean over types of task of the share right, corrected for chance. C is how much more a perspective-taking map
moves answers than the largest control, as a share of what putting the target state itself in place reaches; layer and
strength are chosen on other scenarios. S is the mean over the kinds of variants of the share answered like the
original. FToM = .5 B + .3 C + .2 S where all are defined; FToM_BS = (.5 B + .2 S)/.7 also where C is not. Definitions
follow Mohanty et al.; docs/explanation/functional.md gives the corrections."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from tomserve.stats.accuracy import task_mean
from tomserve.stats.distributions import t_quantile
from tomserve.stats.effects import FEW_CHANGES
from tomserve.stats.proportions import UNDEFINED, Interval, wilson
from tomserve.stats.selection import select_again
from tomserve.stats.stability import weighted_share

Floats = npt.NDArray[np.float64]
Names = npt.NDArray[np.str_]
SPLITS, SPLITS_AGAIN = 20, 8  # Into how many random halves scenarios are parted for the estimate of C, and in each draw
FEW_ITEMS = 50  # With fewer eligible items nothing is said of a model's mechanism
FEW_PAIRS = 8  # With fewer pairs of a kind of variant, one of them would be a large part of S
FEW_SCENARIOS = 8  # With fewer scenarios they cannot be parted into those that choose and those that are measured
BELOW = 0.975  # A task is below chance where so large a share of the draws is; it then counts as 0 in all of them


@dataclass(frozen=True)
class Behaviour:
    """The answers that B counts: right (1 or 0), a blind guess's chance in [0, 1), type of task, scenario [n]."""

    right: npt.ArrayLike
    chance: npt.ArrayLike
    task: npt.ArrayLike
    scenario: npt.ArrayLike


@dataclass(frozen=True)
class Mechanism:
    """Net effects on the eligible items in every cell of layer and strength, of the map, of every control, and of the
    direct patch (the ceiling) [n, cells]; scenario [n]. unproven: why the verdict on it does not let C count. ladders:
    as for `select_best`, of the cells of the map."""

    net: npt.ArrayLike
    controls: Mapping[str, npt.ArrayLike]
    ceiling: npt.ArrayLike
    scenario: npt.ArrayLike
    items: int
    broken: float | None = 0.0
    lacking: str = ""
    unproven: str = ""
    ladders: npt.ArrayLike | None = None


@dataclass(frozen=True)
class Stability:
    """Pairs of an original and a variant: whether both are answered alike, kind of variant, scenario [n]."""

    same: npt.ArrayLike
    kind: npt.ArrayLike
    scenario: npt.ArrayLike
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class LayerEstimate:
    """One layer: its interval; its draws around the estimate, not cut at 0 and 1; why it is undefined or does not
    count; the two sides of C."""

    interval: Interval
    draws: Floats | None = None
    why: str = ""
    adjusted: float = math.nan
    ceiling: float = math.nan


def scenario_names(part: Behaviour | Mechanism | Stability) -> Names:
    return np.asarray(part.scenario, dtype=np.str_)


def undefined_layer(why: str, adjusted: float = math.nan, ceiling: float = math.nan) -> LayerEstimate:
    return LayerEstimate(Interval(*UNDEFINED, method=f"undefined: {why}"), None, why, adjusted, ceiling)


def _around(estimate: float, draws: Floats) -> Floats:
    """The draws moved so that their mean is the estimate: a choice among cells, and a clip, are biased in a draw."""
    return np.asarray(draws - draws.mean() + estimate, dtype=np.float64)


def behaviour(part: Behaviour, weights: Floats) -> LayerEstimate:
    """B, for weights of its scenarios in the order of their names [draws, scenarios]."""
    right, chance = np.asarray(part.right, dtype=float), np.asarray(part.chance, dtype=float)
    if not right.size:
        return undefined_layer("no answers")
    if not np.isfinite(chance).all():
        return undefined_layer("chance is not known of every question")
    own = task_mean(right, chance, part.task, scenario_names(part)).interval()
    tasks, t = np.unique(np.asarray(part.task), return_inverse=True)
    scenarios, index = np.unique(scenario_names(part), return_inverse=True)
    sums = np.zeros((len(scenarios), len(tasks), 3))
    np.add.at(sums, (index, t), np.column_stack([right, chance, np.ones_like(right)]))
    shares = _correct_shares(weights, sums)
    whole = _correct_shares(np.ones((1, len(scenarios))), sums)[0]
    open_ = (shares < 0).mean(axis=0) < BELOW  # a task that is surely below chance counts as 0 and not as less
    counted = np.where(open_[None], shares, np.clip(shares, 0, 1))
    centre = np.nanmean(np.where(open_, whole, np.clip(whole, 0, 1)))
    draws = np.nanmean(counted, axis=1)
    return LayerEstimate(own, np.asarray(draws + (own.estimate - centre), dtype=np.float64))


def _correct_shares(weights: Floats, sums: Floats) -> Floats:
    """Shares right of each task, corrected for chance and not clipped [draws, tasks]; nan where no answer counts."""
    scenarios, tasks, _ = sums.shape
    cells = (weights @ sums.reshape(scenarios, tasks * 3)).reshape(-1, tasks, 3)
    count = cells[:, :, 2]
    with np.errstate(invalid="ignore", divide="ignore"):
        found = (cells[:, :, 0] - cells[:, :, 1]) / (count - cells[:, :, 1])
    return np.asarray(np.where(count > 0, found, np.nan), dtype=np.float64)


def stability(part: Stability, weights: Floats) -> LayerEstimate:
    """S, for weights of its scenarios in the order of their names [draws, scenarios]."""
    kinds = np.asarray(part.kind, dtype=np.str_)
    if absent := [name for name in part.kinds if name not in set(kinds.tolist())]:
        return undefined_layer(f"no variants of the kinds {', '.join(absent)}" if len(absent) < len(part.kinds) else
                          "no variants")  # fmt: skip
    counts = {name: int((kinds == name).sum()) for name in part.kinds}
    if few := [f"{count} pair{'s' * (count != 1)} of kind {name}" for name, count in counts.items()
               if count < FEW_PAIRS]:  # fmt: skip
        return undefined_layer(f"only {', '.join(few)}, and {FEW_PAIRS} are needed")
    own = weighted_share(part.same, scenario_names(part), kinds)
    told, k = np.unique(kinds, return_inverse=True)
    scenarios, index = np.unique(scenario_names(part), return_inverse=True)
    same = np.asarray(part.same, dtype=float)
    sums = np.zeros((len(scenarios), len(told), 2))
    np.add.at(sums, (index, k), np.column_stack([same, np.ones_like(same)]))
    cells = (weights @ sums.reshape(len(scenarios), -1)).reshape(-1, len(told), 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        draws = np.nanmean(cells[:, :, 0] / cells[:, :, 1], axis=1)
    return LayerEstimate(own, _around(own.estimate, draws))


def mechanism(part: Mechanism, weights: Floats) -> LayerEstimate:
    """C, for weights of its scenarios in the order of their names [draws, scenarios]: adjusted / ceiling, both measured
    on the same halves."""
    m = weights.shape[1]
    if part.items < FEW_ITEMS:
        return undefined_layer(f"{part.items} eligible items, and {FEW_ITEMS} are needed")
    if m < FEW_SCENARIOS:
        return undefined_layer(f"{m} scenarios, and {FEW_SCENARIOS} are needed")
    if part.lacking:
        return undefined_layer(part.lacking)
    if part.broken is None:
        return undefined_layer("the no-op was not measured")
    if part.broken > 0:
        return undefined_layer(f"adding nothing changes {part.broken:.1%} of the answers")
    if not np.asarray(part.net).shape[1] or not np.asarray(part.ceiling).shape[1]:
        return undefined_layer("no moves by the map, or no direct patch")
    sides, names = [], scenario_names(part)
    for effects, controls, ladders in ((part.net, part.controls, part.ladders), (part.ceiling, {}, None)):
        whole = select_again(effects, controls, names, np.ones((1, m)), ladders=ladders, splits=SPLITS)
        drawn = select_again(effects, controls, names, weights, ladders=ladders, splits=SPLITS_AGAIN)
        sides.append((whole.adjusted, drawn.adjusted, whole.moved))
    (value, moved, few), (ceiling, above, _) = sides
    adjusted, top = float(value[0]), float(ceiling[0])
    quantile = t_quantile(0.975, m - 1)
    if not top - quantile * float(above.std(ddof=1)) > 0:
        return undefined_layer("the direct patch, which is the ceiling, does not clearly move answers", adjusted, top)
    ratio = adjusted / top
    spread = (moved - ratio * above) / top  # the ratio's linear approximation around its estimate
    half = quantile * float(spread.std(ddof=1))
    if few < FEW_CHANGES:
        half = max(half, wilson(0, m).high / top)
    low, high = (min(1.0, max(0.0, end)) for end in (ratio - half, ratio + half))
    method = f"t, {m - 1} df, bootstrap of {m} scenarios with the choice made again"
    found = Interval(min(1.0, max(0.0, ratio)), low, high, method)
    draws = None if part.unproven else _around(found.estimate, spread)
    return LayerEstimate(found, draws, part.unproven, adjusted, top)


DRAWS = 1000  # How many times all scenarios are weighted anew
LAYERS = ("b", "c", "s")
OTHERS = "ftom-1 with weights"  # How the name of a formula with other weights begins


@dataclass(frozen=True)
class Formula:
    """A score by name: the weights of B, C and S, not negative and of the sum 1. A name stands for its weights:
    `ftom-1` for .5, .3, .2, "ftom-1 with weights ..." for its own. Raises ValueError otherwise."""

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
        """The score of all three layers; nan where one is."""
        return math.fsum(w * part for w, part in zip(self.weights, (b, c, s), strict=True))

    def without_c(self, b: float, s: float) -> float:
        """The score of B and S alone, by their weights; nan where one is nan, or both weights are 0."""
        b_weight, _, s_weight = self.weights
        total = b_weight + s_weight
        return (b_weight * b + s_weight * s) / total if total > 0 else math.nan


FTOM_1 = Formula()  # The score by its name and version


def weighted_formula(b: float, c: float, s: float) -> Formula:
    """The formula with these weights, under a name that says them. Raises ValueError for negative weights or another
    sum."""
    weights = (b + 0.0, c + 0.0, s + 0.0)  # -0.0 becomes 0.0
    return FTOM_1 if weights == FTOM_1.weights else Formula(_name(weights), weights)


def _name(weights: Sequence[float]) -> str:
    """The name of a formula by its weights; two formulas have one name only where all their weights are equal."""
    told = (np.format_float_positional(abs(w), unique=True, min_digits=2).removeprefix("0") for w in weights)
    return f"{OTHERS} {', '.join(told)}"


@dataclass(frozen=True)
class ModelLayers:
    """What is known of one model; None for a layer of which nothing is."""

    b: Behaviour | None = None
    c: Mechanism | None = None
    s: Stability | None = None


@dataclass(frozen=True)
class ModelScore:
    """The layers and scores of one model with 95% intervals; nan where undefined. A layer that is known and does not
    count is in `missing_layers`, too."""

    b: Interval
    c: Interval
    s: Interval
    ftom: Interval
    ftom_bs: Interval
    adjusted: float
    ceiling: float
    draws: Mapping[str, Floats]
    missing_layers: Mapping[str, str]
    few: Mapping[str, int] = field(default_factory=dict)


def score_models(
    models: Mapping[str, ModelLayers],
    formula: Formula = FTOM_1,
    *,
    draws: int = DRAWS,
) -> dict[str, ModelScore]:
    """The layers and scores of models, with intervals for further scenarios like these (neither other benchmarks nor
    other controls).

    Every draw weights all scenarios anew, alike in every layer and for every model: the Bayesian bootstrap (Rubin, Ann
    Stat 9:130, 1981). B and S have the intervals of their own studies; C its estimate plus and minus t times the spread
    of the draws, in which cells are chosen again. A score's interval is `weighted_sum`, honest where a layer does not
    vary (bench/functional_coverage.py).

    A layer that cannot be counted is nan, with the reason in `missing_layers`; one of fewer than FEW_SCENARIOS
    scenarios has no interval and no draws. Raises ValueError for columns of unequal length."""
    every = sorted(
        {
            str(name)
            for one in models.values()
            for part in (one.b, one.c, one.s)
            if part is not None
            for name in np.unique(scenario_names(part))
        }
    )
    weights = scenario_weights(len(every), draws)
    place = {name: column for column, name in enumerate(every)}
    return {name: _score_model(one, formula, weights, place) for name, one in models.items()}


def scenario_weights(scenarios: int, draws: int) -> Floats:
    """How much each scenario counts in each draw, with the mean 1 [draws, scenarios]."""
    return np.asarray(np.random.default_rng(0).exponential(size=(draws, scenarios)), dtype=np.float64)


def weighted_sum(parts: Sequence[Interval], weights: Sequence[float], correlation: npt.ArrayLike) -> Interval:
    """A weighted sum of estimates from their intervals and correlations [k, k], cut to [0, 1]: distances to the bounds
    added in squares (Zou, Huang and Zhang, Comput Stat Data Anal 53:3755, 2009)."""
    w, r = np.asarray(weights, dtype=float), np.asarray(correlation, dtype=float)
    value = math.fsum(float(a) * one.estimate for a, one in zip(w, parts, strict=True))
    if not all(math.isfinite(end) for one in parts for end in (one.low, one.high)):
        return Interval(value, math.nan, math.nan, "undefined: an interval of a layer is")
    down = w * np.array([one.estimate - one.low for one in parts])
    up = w * np.array([one.high - one.estimate for one in parts])
    low, high = (value + sign * math.sqrt(max(0.0, float(gap @ r @ gap))) for sign, gap in ((-1, down), (1, up)))
    return Interval(value, max(0.0, low), min(1.0, high), "square-and-add of the layers, correlated as over scenarios")


def _score_model(one: ModelLayers, formula: Formula, weights: Floats, place: Mapping[str, int]) -> ModelScore:
    def of(part: Behaviour | Mechanism | Stability) -> Floats:
        return weights[:, [place[str(name)] for name in np.unique(scenario_names(part))]]

    found = {
        "b": undefined_layer("not measured") if one.b is None else behaviour(one.b, of(one.b)),
        "c": undefined_layer("not measured") if one.c is None else mechanism(one.c, of(one.c)),
        "s": undefined_layer("not measured") if one.s is None else stability(one.s, of(one.s)),
    }
    few = {name: len(np.unique(scenario_names(part))) for name, part in (("b", one.b), ("s", one.s))
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
        ftom_bs = _sum_layers(found, shares, draws, "ftom_bs")
    if not lacking:
        ftom = _sum_layers(found, dict(zip(LAYERS, formula.weights, strict=True)), draws, "ftom")
    return ModelScore(b, c, s, ftom, ftom_bs, found["c"].adjusted, found["c"].ceiling, draws, lacking, few)


def _alone(layer: LayerEstimate, scenarios: int) -> LayerEstimate:
    """A layer of too few scenarios: its estimate, without an interval and draws."""
    why = f"undefined: {scenarios} scenarios, and {FEW_SCENARIOS} are needed"
    return replace(layer, interval=Interval(layer.interval.estimate, math.nan, math.nan, why), draws=None)


def _sum_layers(
    found: Mapping[str, LayerEstimate], weights: Mapping[str, float], draws: dict[str, Floats], name: str
) -> Interval:
    """A score from its layers; its draws are added to `draws` where it has an interval."""
    parts = [found[layer].interval for layer in weights]
    if not set(weights) <= set(draws):
        return weighted_sum(parts, list(weights.values()), np.eye(len(parts)))
    score = weighted_sum(parts, list(weights.values()), correlation([draws[layer] for layer in weights]))
    if math.isfinite(score.low):
        draws[name] = np.sum([weight * draws[layer] for layer, weight in weights.items()], axis=0)
    return score


def correlation(draws: Sequence[Floats]) -> Floats:
    """Correlations of the draws of k estimates [k, k]; 0 where one does not vary."""
    values = np.array(draws)
    values = values - values.mean(axis=1, keepdims=True)
    sizes = np.sqrt((values**2).sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        found = (values @ values.T) / np.outer(sizes, sizes)
    found = np.where(np.outer(sizes > 1e-9, sizes > 1e-9), found, 0.0)
    np.fill_diagonal(found, 1.0)
    return np.asarray(found, dtype=np.float64)
