"""Draws answers as a model would give them to the perturbed stories, where what is true is known.

The logit of a right answer to item i of the task of class c in stage s, asked with strategy k, is

    mean of (c, i, k) + stage s + task (s, c) + class in stage (s, c) + item (s, c, i) + strategy in stage (s, k)

All but the first are independent normal draws with the standard deviations of a `Spread`, so that strategies, which
share all of them but the last, are correlated; `class in stage` is what a class does in one stage and not in another,
and the unperturbed tasks have none. The means are solved so that the probability over new stages, tasks and items is
the wanted one for each of the sixteen kinds of item: questions about reality are easier, false-belief questions harder.
A class with an effect of 0 has therefore exactly the probability of the unperturbed tasks, in each kind of item.

Failures are missing not at random: the harder an item is for the model, the likelier its answer fails.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy.special import expit, logit

Floats = npt.NDArray[np.float64]
TASKS = (7, 7, 5, 4, 7, 7, 5, 7, 6, 6, 7)
"""Tasks of each class in seven stages, as in the paper's data: first the unperturbed stories, which every stage has.
The class of four exists in stages of one kind only; the others of fewer than seven lack stages at random."""
CLASSES = len(TASKS)
ITEMS = 16
BELIEF = slice(0, 2)
"""The two items of a task that are the false-belief subset."""
OFFSETS = np.array([-1.0] * 2 + [0.0] * 6 + [0.5] * 8)
"""How much easier than the average each kind of item is, in logits."""
SUBSETS = ((False, "all"), (True, "false-belief"))
"""Both parts of the questions that tables count: whether it is the false-belief subset, and its name."""
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
GRID = np.linspace(-14, 14, 2801)


@dataclass(frozen=True)
class Spread:
    """Standard deviations of the random effects, in logits (see the module)."""

    name: str
    stage: float
    task: float
    item: float
    own: float
    response: float

    def total(self, perturbed: bool) -> float:
        """The standard deviation of all random effects together."""
        own = self.own if perturbed else 0.0
        return float(np.sqrt(self.stage**2 + self.task**2 + self.item**2 + own**2 + self.response**2))


SPREADS = (
    Spread("low", 0.3, 0.3, 0.3, 0.0, 0.2),
    Spread("medium", 0.6, 0.6, 0.6, 0.4, 0.4),
    Spread("high", 1.0, 1.0, 1.0, 0.8, 0.7),
)
NOTHING = (0.0,) * (CLASSES - 1)
HALF = (-0.3, 0.0, 0.0, -0.3, -0.3, 0.0, -0.3, 0.0, -0.3, 0.0)
"""Five of ten classes at -.3, of which three are in all stages and two are not."""
MIXED = (-0.3, -0.2, 0.0, -0.1, 0.0, 0.1, -0.1, -0.2, 0.0, 0.05)


@dataclass(frozen=True)
class Design:
    """What is simulated: how many stages, how often the unperturbed tasks are right, by how much each class differs.

    base: probability of a right answer to an average unperturbed question. effects: of the ten classes, added to the
    probability. gain: what the second strategy adds to the probability, with its class effects. complete: whether every
    class has a task in every stage.
    """

    stages: int
    base: float
    spread: Spread
    effects: tuple[float, ...] = NOTHING
    gain: float = 0.0
    complete: bool = False

    @property
    def band(self) -> str:
        """Where the base lies, in words: in the middle, high or low, or at the edge."""
        distance = min(self.base, 1 - self.base)
        return "at the edge" if distance < 0.08 else "high or low" if distance < 0.3 else "middle"


@dataclass(frozen=True)
class Truth:
    """The means of the logits and the probabilities that they stand for, [strategies, classes, items]."""

    means: Floats
    rates: Floats

    def rate(self, belief: bool, name: int, strategy: int = 0) -> float:
        """The probability of a right answer to a question of a class in a new stage."""
        return float(self.rates[strategy, name, BELIEF if belief else slice(None)].mean())


def marginal_rate(mean: Floats | float, sd: float) -> Floats:
    """The expected value of expit(mean + sd * Z) for a standard normal Z, by Gauss-Hermite quadrature."""
    found: Floats = (expit(np.add.outer(np.asarray(mean), sd * NODES)) * (WEIGHTS / WEIGHTS.sum())).sum(axis=-1)
    return found


@lru_cache(maxsize=64)
def _curve(sd: float) -> Floats:
    return marginal_rate(GRID, sd)


def mean_for(rates: Floats | float, sd: float) -> Floats:
    """The means on the logit scale for which the marginal probabilities are `rates`."""
    return np.asarray(np.interp(rates, _curve(sd), GRID))


@lru_cache(maxsize=512)
def truth(design: Design) -> Truth:
    """What is true of a design: see `Truth`. Probabilities are kept between .004 and .996."""
    middle = float(np.interp(design.base, expit(GRID[:, None] + OFFSETS).mean(axis=1), GRID))
    base = expit(middle + OFFSETS)
    effects = np.array([0.0, *design.effects])
    rates = np.clip([base + effect + gain for gain in (0.0, design.gain) for effect in effects], 0.004, 0.996)
    sds = [design.spread.total(index > 0) for index in range(CLASSES)] * 2
    means = np.array([mean_for(row, sd) for row, sd in zip(rates, sds, strict=True)])
    exact = np.array([marginal_rate(row, sd) for row, sd in zip(means, sds, strict=True)])
    exact[np.abs(exact - rates) < 1e-5] = rates[np.abs(exact - rates) < 1e-5]
    shape = (2, CLASSES, ITEMS)
    return Truth(means.reshape(shape), exact.reshape(shape))


@dataclass
class Study:
    """What one simulated study asked and got, an element for each item: codes, and what two strategies answered.

    local: the probability given everything that belongs to the stage, [stages, strategies, classes, items], over new
    tasks and items; `there`: which tasks exist, [stages, classes].
    """

    design: Design
    there: npt.NDArray[np.bool_]
    local: Floats
    stage: npt.NDArray[np.intp]
    name: npt.NDArray[np.intp]
    item: npt.NDArray[np.intp]
    chance: Floats
    right: npt.NDArray[np.bool_] = field(repr=False)

    @property
    def truth(self) -> Truth:
        return truth(self.design)

    def frame(
        self,
        strategy: int = 0,
        failed: npt.NDArray[np.bool_] | None = None,
        again: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]] | None = None,
    ) -> pl.DataFrame:
        """The rows of one strategy as the tables take them (tomserve.studies.answer_rows.prepare_rows).

        failed: which answers failed. again: which were asked again by the noise check, and which of them changed.
        """
        none = np.zeros(self.stage.size, dtype=bool)
        lost, (re_asked, changed) = none if failed is None else failed, again or (none, none)
        columns = {
            "item": np.arange(self.stage.size),
            "correct": self.right[strategy] & ~lost,
            "faulty": lost,
            "cluster": self.stage * CLASSES + self.name,
            "stage": self.stage,
            "class": self.name,
            "belief": self.item < BELIEF.stop,
            "re_asked": re_asked,
            "changed": changed,
        }
        return pl.DataFrame(columns)

    def lost(
        self, rng: np.random.Generator, shares: Floats, strategy: int = 0, hardness: float = 1.0
    ) -> npt.NDArray[np.bool_]:
        """Which answers fail [answers]: of class c the share shares[c], over new stages; the harder the likelier.

        The logit of a failure falls by `hardness` for each logit by which the answer is likelier to be right than the
        mean of its kind.
        """
        means = self.truth.means[strategy][self.name, self.item]
        easier = logit(np.clip(self.chance[strategy], 1e-12, 1 - 1e-12)) - means
        sds = [self.design.spread.total(index > 0) for index in range(CLASSES)]
        middles = np.array([mean_for(share, hardness * sd) for share, sd in zip(shares, sds, strict=True)])
        chance = np.where(shares[self.name] > 0, expit(middles[self.name] - hardness * easier), 0.0)
        return np.asarray(rng.random(self.stage.size) < chance)


def present(design: Design, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Draw which class has a task in which stage, [stages, classes]."""
    there = np.ones((design.stages, CLASSES), dtype=bool)
    for index, tasks in enumerate(TASKS):
        count = max(2, round(design.stages * tasks / 7))
        if count < design.stages and not design.complete:
            chosen = np.arange(count) if tasks == 4 else rng.choice(design.stages, count, replace=False)
            there[:, index] = False
            there[chosen, index] = True
    return there


def draw(design: Design, rng: np.random.Generator) -> Study:
    """Draw one study: random effects, and the answers of two strategies to the same items."""
    spread, means, m = design.spread, truth(design).means, design.stages
    there = present(design, rng)
    own = rng.normal(0, 1, (m, CLASSES)) * spread.own * (np.arange(CLASSES) > 0)
    stage = rng.normal(0, spread.stage, (m, 1)) + own
    response = rng.normal(0, spread.response, (m, 2))
    given = means[None] + stage[:, None, :, None] + response[:, :, None, None]
    task = rng.normal(0, spread.task, (m, 1, CLASSES, 1)) + rng.normal(0, spread.item, (m, 1, CLASSES, ITEMS))
    chance = expit(given + task)
    right = rng.random(chance.shape) < chance
    stages, names, items = (index.ravel() for index in np.indices((m, CLASSES, ITEMS)))
    kept = there[stages, names]
    answers = [right[:, k].ravel()[kept] for k in range(2)]
    chances = np.array([chance[:, k].ravel()[kept] for k in range(2)])
    within = float(np.hypot(spread.task, spread.item))
    local = np.interp(given, GRID, _curve(within))
    return Study(design, there, local, stages[kept], names[kept], items[kept], chances, np.array(answers))


def where(design: Design, subset: str) -> str:
    """The part of the design over which figures are pooled."""
    return f"{design.stages} stages, {subset}, {design.band}"


def cell(design: Design) -> str:
    """One cell of the design."""
    return f"{design.stages} {design.base} {design.spread.name}"
