"""The macro-averaged F1 of answers in classes, with an interval over clusters.

The F1 of a class is 2 x right / (times it is the right answer + times it is given): the harmonic mean of precision and
recall. The macro average is the mean over the classes that are the right answer or are given at least once, whatever
their size, so that a constant answer earns little where classes are many. An answer that is missing is given to no
class, and so costs recall.

>>> right, given = [0, 0, 0, 1, 1, 2], [0, 0, 1, 1, None, 2]
>>> round(macro_f1(right, given), 4)  # F1 of the classes: 2*2/(3+2), 2*1/(2+2), 2*1/(1+1)
0.7667
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tomserve.stats.proportions import Interval, wilson

DRAWS, SEED, PART = 2000, 0, 200
"""How often clusters are drawn anew for an interval, from which seed, and how many of these draws are held at once."""

Floats = npt.NDArray[np.float64]


def macro_f1(right: Sequence[int], given: Sequence[int | None]) -> float:
    """The macro-averaged F1 of answers; nan without answers.

    right, given: for each question the number of the right class and of the one given, None where none is [questions].
    Raises ValueError for sequences of unequal length.
    """
    return float(_averaged(_counts(right, given, np.zeros(len(right), dtype=np.int64)).sum(axis=0)))


def macro_f1_interval(
    right: Sequence[int], given: Sequence[int | None], cluster: npt.ArrayLike, level: float = 0.95
) -> Interval:
    """The interval of the macro-averaged F1 for further clusters like these: percentiles of DRAWS values, each from as
    many clusters as there are, drawn with replacement (Efron and Tibshirani 1993, chapter 13).

    right, given: as for `macro_f1`. cluster: a whole number for each question [questions]. level: of confidence. Where
    no draw differs from another, as where every answer is right, the draws say nothing of what is not yet seen, and the
    interval is Wilson's for the share of right answers with the number of clusters for that of questions. Raises
    ValueError for sequences of unequal length, or without questions.
    """
    counts = _counts(right, given, np.asarray(cluster))
    units = len(counts)
    if not units:
        raise ValueError("there are no questions")
    generator = np.random.default_rng(SEED)
    found = np.empty(DRAWS)
    for start in range(0, DRAWS, PART):
        weights = generator.multinomial(units, np.full(units, 1 / units), size=PART)
        drawn = np.tensordot(weights.astype(np.float64), counts, axes=1).astype(np.float64)
        found[start : start + PART] = _averaged(drawn)
    estimate = macro_f1(right, given)
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    if high - low > 0:
        return Interval(estimate, float(low), float(high), f"bootstrap, {units} clusters")
    share = sum(one == other for one, other in zip(right, given, strict=True)) / len(right)
    narrow = wilson(share * units, units, level)
    return Interval(estimate, min(narrow.low, estimate), max(narrow.high, estimate), f"wilson, {units} clusters")


def constant_f1(right: Sequence[int]) -> tuple[int, float]:
    """The class that earns most where it is always given, and the macro-averaged F1 that it earns.

    right: the right classes [questions]. Raises ValueError without questions.
    """
    sizes = np.bincount(right)
    best = int(sizes.argmax())
    return best, macro_f1(right, [best] * len(right))


def guessed_f1(right: Sequence[int], classes: int) -> float:
    """What a blind guess among the classes earns, where questions are many.

    right: the right classes [questions]. classes: how many there are to guess among.
    """
    shares = np.bincount(right, minlength=classes) / len(right)
    return float(np.mean(2 * shares / classes / (shares + 1 / classes)))


def _counts(right: Sequence[int], given: Sequence[int | None], cluster: npt.NDArray[np.int64]) -> Floats:
    """For each cluster and class: times right, times the right answer, times given [clusters, classes, 3]."""
    gold = np.asarray(right, dtype=np.int64)
    said = np.asarray([-1 if one is None else one for one in given], dtype=np.int64)
    if not len(gold) == len(said) == len(cluster):
        raise ValueError(f"columns of {len(gold)}, {len(said)} and {len(cluster)} values; expected one length")
    names, unit = np.unique(cluster, return_inverse=True)
    counts = np.zeros((len(names), max([*gold, *said], default=0) + 1, 3))
    for place, (rows, classes) in enumerate(((gold == said, gold), (gold >= 0, gold), (said >= 0, said))):
        np.add.at(counts, (unit[rows], classes[rows], place), 1)
    return counts


def _averaged(counts: Floats) -> Floats:
    """The macro averages of counts [..., classes, 3]; classes that never occur are left out."""
    hits, golds, saids = (counts[..., place] for place in range(3))
    seen = golds + saids > 0
    scores = np.divide(2 * hits, golds + saids, out=np.zeros_like(hits), where=seen)
    number = seen.sum(axis=-1)
    return np.asarray(np.divide(scores.sum(axis=-1), number, out=np.full(np.shape(number), np.nan), where=number > 0))
