"""A hierarchical model of accuracy over factors and their pairs: Beta-binomial with partial pooling, in closed form.

A level of a factor is drawn towards the share of all questions, a pair of levels towards what its two levels predict
together on the logit scale; how far is chosen for each factor, and for all pairs at once, by the marginal likelihood
(empirical Bayes: Morris, JASA 78:47, 1983).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from tomserve.weakness.design import Cell, Levels

Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]

RAREST = 0.02  # cells of a smaller share of the questions are not looked at: too few fresh questions could confirm them
STRENGTHS = np.geomspace(2, 2048, 21)  # how many questions the prior may count for


@dataclass(frozen=True)
class Cells:
    """The cells of some questions: the levels of every factor, then the pairs of levels."""

    names: tuple[Cell, ...]
    member: Booleans  # whether a question lies in a cell [questions, cells]
    factor: npt.NDArray[np.intp]  # of a single level the number of its factor, of a pair -1 [cells]
    parents: npt.NDArray[np.intp]  # of a pair the places of its two levels [cells, 2]

    @classmethod
    def of(cls, questions: Sequence[Levels], rarest: float = RAREST) -> Cells:
        """The cells that are not rarer than that share of the questions and hold others than a cell before them."""
        names: list[Cell] = []
        columns: list[Booleans] = []
        factors: list[int] = []
        parents: list[tuple[int, int]] = []
        known: set[bytes] = set()

        def add(name: Cell, column: Booleans, factor: int, pair: tuple[int, int]) -> None:
            share, key = float(column.mean()), column.tobytes()
            if rarest <= share < 1 and key not in known:
                known.add(key)
                names.append(name)
                columns.append(column)
                factors.append(factor)
                parents.append(pair)

        for number, factor in enumerate(questions[0]):
            values = np.array([levels[factor] for levels in questions])
            for level in sorted(set(values)):
                add(((factor, str(level)),), values == level, number, (-1, -1))
        for first, second in combinations(range(len(names)), 2):
            if factors[first] != factors[second]:
                add((*names[first], *names[second]), columns[first] & columns[second], -1, (first, second))
        return cls(tuple(names), np.array(columns).T, np.array(factors), np.array(parents))

    def count(self, places: npt.ArrayLike, right: npt.ArrayLike) -> tuple[Floats, Floats]:
        """How many of these questions lie in each cell, and how many of them are right. places: of the questions that
        were asked. right: 1 or 0 for each."""
        asked = self.member[np.asarray(places, dtype=int)].astype(float)
        return asked.sum(axis=0), np.asarray(right, dtype=float) @ asked


@dataclass(frozen=True)
class Posterior:
    """The Beta distribution of the accuracy of each cell [cells]."""

    a: Floats
    b: Floats

    @property
    def mean(self) -> Floats:
        """The expected accuracy of each cell."""
        return self.a / (self.a + self.b)


def fit(cells: Cells, asked: Floats, right: Floats, overall: float) -> Posterior:
    """The distributions given the counts of `Cells.count`. overall: the share right of all questions, in (0, 1)."""
    a, b = np.ones(len(cells.names)), np.ones(len(cells.names))
    for number in dict.fromkeys(cells.factor):
        chosen = cells.factor == number
        if number >= 0:
            centre = np.full(int(chosen.sum()), overall)
        else:  # the levels come before their pairs, so that they are fitted by now
            levels = _logit(a / (a + b))[cells.parents[chosen]]
            centre = 1 / (1 + np.exp(_logit(overall) - levels.sum(axis=1)))
        strength = _strength(asked[chosen], right[chosen], centre)
        a[chosen] = strength * centre + right[chosen]
        b[chosen] = strength * (1 - centre) + asked[chosen] - right[chosen]
    return Posterior(a, b)


def _strength(asked: Floats, right: Floats, centre: Floats) -> float:
    """How many questions the prior counts for: of STRENGTHS that under which the counts are the likeliest."""
    from scipy.special import betaln

    a, b = STRENGTHS[:, None] * centre, STRENGTHS[:, None] * (1 - centre)
    likelihood = (betaln(a + right, b + asked - right) - betaln(a, b)).sum(axis=1)
    return float(STRENGTHS[int(np.argmax(likelihood))])


def _logit(share: npt.ArrayLike) -> Floats:
    share = np.clip(share, 1e-6, 1 - 1e-6)
    return np.asarray(np.log(share / (1 - share)))


def scan(cells: Cells, places: npt.ArrayLike, right: npt.ArrayLike) -> Floats:
    """For each cell twice the logarithm by which it is likelier that the questions inside are right less often than
    those outside than that all are alike (the scan statistic: Kulldorff, Comm Stat 26:1481, 1997); 0 where the inside
    is no worse [cells]. Arguments: see `Cells.count`."""
    asked, correct = cells.count(places, right)
    n, k = float(np.size(places)), float(np.sum(right))
    with np.errstate(divide="ignore", invalid="ignore"):
        worse = correct / asked < (k - correct) / (n - asked)
        gain = _likelihood(correct, asked) + _likelihood(k - correct, n - asked)
    return np.where(worse, 2 * (gain - _likelihood(np.array(k), np.array(n))), 0.0)


def _likelihood(right: Floats, asked: Floats) -> Floats:
    from scipy.special import xlogy

    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(asked > 0, right / asked, 0.0)
    return np.asarray(xlogy(right, share) + xlogy(asked - right, 1 - share))
