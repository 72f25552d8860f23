"""Power analysis: the smallest effect that a design can detect, and how many units or people a study needs. For
planning only: observed power says nothing that the p does not (Hoenig and Heisey, Am Stat 55:19, 2001)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tomserve.stats.distributions import find_root, t_power, t_quantile

MOST = 2000  # No more people than these are thought about; whoever needs more needs more stories, or another question


@dataclass(frozen=True)
class Spread:
    """How the answers of people are assumed to vary: parts of an answer's variance that go with the person, the person
    in this class, and the story. People and stories are both samples (Westfall, Kenny and Judd, J Exp Psychol Gen
    143:2020, 2014). The defaults are assumptions for planning; a pilot tells better ones (`spread_of`)."""

    share: float = 0.8
    people: float = 0.1
    people_by_class: float = 0.05
    stories: float = 0.15

    @property
    def rest(self) -> float:
        """The part that goes with the single answer."""
        return max(0.0, 1 - self.people - self.people_by_class - self.stories)


ASSUMED = Spread()


def class_power(
    people: int,
    answers: tuple[float, float],
    tasks: tuple[float, float],
    effect: float,
    spread: Spread = ASSUMED,
    alpha: float = 0.05,
) -> float:
    """The probability of finding a difference between two classes of stories, of which each person answers some: t with
    min(people, tasks) - 1 df, variance v (2 people_by_class / P + stories (1 / t1 + 1 / t2) + rest (1 / (P a1) + 1 / (P
    a2))), v that of the mean share.

    answers: of each person in either class. tasks: how many in either class. effect: difference of the shares. nan
    where a side has no answers."""
    if min(*answers, *tasks) <= 0 or people < 2:
        return math.nan
    used = [min(there, people * each) for there, each in zip(tasks, answers, strict=True)]
    v = _variance(spread.share - abs(effect) / 2)
    variance = 2 * spread.people_by_class / people + spread.stories * sum(1 / count for count in used)
    variance += spread.rest * sum(1 / (people * each) for each in answers)
    return _power(effect, v * variance, int(min(people, sum(used))) - 1, alpha)


def model_power(
    people: int,
    answers: float,
    tasks: float,
    questions: float,
    effect: float,
    spread: Spread = ASSUMED,
    alpha: float = 0.05,
) -> float:
    """The probability of finding a difference between people and a model on the same questions: variance v (people / P
    + stories / t + rest / (P a)) + w (stories / t + (1 - stories) / q), w that of the model's answers.

    answers: of each person. tasks, questions: how many there are to choose from. nan where there are no answers."""
    if min(answers, tasks, questions) <= 0 or people < 2:
        return math.nan
    t, q = min(tasks, people * answers), min(questions, people * answers)
    own = spread.people / people + spread.stories / t + (spread.rest + spread.people_by_class) / (people * answers)
    theirs = spread.stories / t + (1 - spread.stories) / q
    variance = _variance(spread.share) * own + _variance(spread.share - abs(effect)) * theirs
    return _power(effect, variance, int(min(people, t)) - 1, alpha)


def least_number(power_at: Callable[[int], float], power: float, most: int = MOST) -> int | None:
    """The least number, from 2 to `most`, at which a rising power reaches `power`; None where none does."""
    if not power_at(most) >= power:
        return None
    low, high = 2, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if power_at(middle) >= power else (middle + 1, high)
    return low


def spread_of(
    right: npt.ArrayLike, people: npt.ArrayLike, stories: npt.ArrayLike, classes: npt.ArrayLike
) -> Spread | None:
    """The spread that a study with people has shown, by the method of moments: mean products of deviations from the
    class means, over pairs of answers that share only the person, the person and class, or the task. right: 1 or 0
    [answers]. None without such pairs, or where all are right or all wrong."""
    y = np.asarray(right, dtype=float)
    if not y.size or not 0 < y.mean() < 1:
        return None
    person, story, group = (np.unique(np.asarray(one), return_inverse=True)[1] for one in (people, stories, classes))
    means = np.bincount(group, weights=y) / np.bincount(group)
    left = y - means[group]
    total = float((left @ left) / y.size)
    in_class = _both(person, group)
    by_class = _mean_product(left, in_class, _both(person, story))
    who = _mean_product(left, person, in_class)
    what = _mean_product(left, story, _both(story, person))
    if what is None or (who is None and by_class is None) or not total:
        return None
    alone = max(0.0, (who if who is not None else by_class) or 0.0)
    parts = [max(0.0, value) / total for value in (alone, (by_class or alone) - alone, what)]
    scale = max(1.0, sum(parts))
    return Spread(float(y.mean()), *(part / scale for part in parts))


def _mean_product(
    left: npt.NDArray[np.float64], group: npt.NDArray[np.intp], within: npt.NDArray[np.intp]
) -> float | None:
    """The mean product of two deviations in one group but not in one group of `within`; None without such pairs."""
    products = pairs = 0.0
    for codes, sign in ((group, 1.0), (within, -1.0)):
        sums, sizes = np.bincount(codes, weights=left), np.bincount(codes)
        products += sign * float(sums @ sums)
        pairs += sign * float(sizes @ sizes)
    return products / pairs if pairs > 0 else None


def _both(a: npt.NDArray[np.intp], b: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    codes: npt.NDArray[np.intp] = np.unique(a * (int(b.max()) + 1) + b, return_inverse=True)[1]
    return codes


def _variance(share: float) -> float:
    share = min(0.99, max(0.01, share))
    return share * (1 - share)


def _power(effect: float, variance: float, df: int, alpha: float) -> float:
    if df < 1:
        return math.nan
    limit, shift = -t_quantile(alpha / 2, df), abs(effect) / math.sqrt(variance)
    _, found = t_power(limit, df, shift)
    return 1.0 if math.isnan(found) else found


MOST_UNITS = 100_000  # No more units than these are thought about; whoever needs more needs another design


def minimum_detectable_effect(units: int, sd: float, alpha: float = 0.05, power: float = 0.8, family: int = 1) -> float:
    """Smallest mean difference of probabilities that a two-sided t test over independent units detects with this power;
    nan for fewer than two units, an unknown sd, or above 1. sd: of a unit's difference. family: tests by which alpha is
    divided, as Benjamini and Hochberg's method asks of the only class that is affected.

    >>> round(minimum_detectable_effect(7, 0.2), 3), round(minimum_detectable_effect(7, 0.2, family=10), 3)
    (0.255, 0.413)
    """
    found = detectable_sd(units, alpha, power, family) * sd
    return found if found <= 1 else math.nan


def count_units(effect: float, sd: float, alpha: float = 0.05, power: float = 0.8, family: int = 1) -> int | None:
    """Fewest units, at least two, with which that test detects this effect; None where it is zero, a number is unknown,
    or 100,000 units do not suffice.

    >>> count_units(0.2, 0.2), count_units(0.2, 0.2, family=10)
    (10, 18)
    """
    size = abs(effect)
    if math.isnan(size) or math.isnan(sd) or not size:
        return None
    return least_number(lambda units: -detectable_sd(units, alpha, power, family) * sd, -size, MOST_UNITS)


def detectable_sd(units: int, alpha: float = 0.05, power: float = 0.8, family: int = 1) -> float:
    """That difference in standard deviations of the units' differences; nan for fewer than two units. Raises ValueError
    unless alpha and power lie in (0, 1) and the family has a test.

    >>> round(detectable_sd(7), 2), round(detectable_sd(4), 2)
    (1.27, 2.13)
    """
    if not (0 < alpha < 1 and 0 < power < 1 and family >= 1):
        raise ValueError(f"alpha {alpha}, power {power}, family {family}: expected two numbers in (0, 1) and a count")
    return math.nan if units < 2 else _detectable(int(units), alpha / family, power)


@lru_cache(maxsize=4096)
def _detectable(units: int, alpha: float, power: float) -> float:
    """Solve the power function for the effect; the same few designs are asked for in every row of a table."""
    df, scale = units - 1, math.sqrt(units)
    limit = -t_quantile(alpha / 2, df)

    def missing(shift: float) -> float:
        other, found = t_power(limit, df, shift)  # `other` has the wrong sign
        return found + (0.0 if math.isnan(other) else other) - power

    if missing(0.0) >= 0:  # a power below the level is had without any effect
        return 0.0
    most = limit + 1.0
    while missing(most) < 0:
        most *= 2
    return find_root(missing, 0.0, most) / scale
