"""Agreement of two annotators who may give several labels to a sentence: Krippendorff's alpha with the MASI distance.

MASI: Passonneau, "Measuring Agreement on Set-valued Items (MASI) for Semantic and Pragmatic Annotation", LREC 2006.
Alpha: Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), which allows any distance.
"""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Labels = frozenset[str]  # The set of labels that one annotator gives to one unit (here a sentence)


def masi_distance(a: Labels, b: Labels) -> float:
    """1 - Jaccard index x monotonicity (1 for equal sets, 2/3 where one contains the other, 1/3 where they overlap).

    >>> round(masi_distance(frozenset("x"), frozenset("xy")), 3)
    0.667
    """
    if a == b:
        return 0.0
    common = a & b
    if not common:
        return 1.0
    monotonicity = 2 / 3 if a < b or b < a else 1 / 3
    return 1 - len(common) / len(a | b) * monotonicity


def krippendorff_alpha(pairs: Sequence[tuple[Labels, Labels]]) -> float:
    """1 - observed / expected disagreement of two annotators: 1 is perfect, 0 is chance; nan where all values are
    equal. pairs: one (first, second) a unit, without gaps."""
    pool = Counter(value for pair in pairs for value in pair)
    total = sum(pool.values())
    if len(pool) < 2:
        return math.nan
    observed = sum(masi_distance(a, b) for a, b in pairs) / len(pairs)
    expected = sum(n * m * masi_distance(a, b) for a, n in pool.items() for b, m in pool.items()) / (
        total * (total - 1)
    )
    return 1 - observed / expected


def resampled_alpha(groups: Sequence[Sequence[tuple[Labels, Labels]]], draws: int, seed: int) -> tuple[float, float]:
    """A 95% percentile interval of alpha by so many seeded draws of groups of units that depend on each other (Efron
    and Tibshirani 1993, chapter 13); nan where alpha is undefined in every draw. Few groups make it too short."""
    chosen = np.random.default_rng(seed).multinomial(len(groups), [1 / len(groups)] * len(groups), size=draws)
    alphas = drawn_alphas(groups, chosen)
    alphas = alphas[np.isfinite(alphas)]
    if not alphas.size:
        return math.nan, math.nan
    low, high = np.quantile(alphas, [0.025, 0.975])
    return float(low), float(high)


def drawn_alphas(
    groups: Sequence[Sequence[tuple[Labels, Labels]]], chosen: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Alpha of each draw of groups [draws]; not finite where undefined. chosen: how often each group is drawn [draws,
    groups]."""
    distinct = sorted({pair for group in groups for pair in group}, key=lambda pair: [sorted(one) for one in pair])
    values = sorted({value for pair in distinct for value in pair}, key=sorted)
    place = {pair: index for index, pair in enumerate(distinct)}
    counts = np.zeros((len(groups), len(distinct)))
    for row, group in zip(counts, groups, strict=True):
        for pair in group:
            row[place[pair]] += 1
    drawn = chosen @ counts
    pool = drawn @ np.array([[float(pair.count(value)) for value in values] for pair in distinct])
    apart = np.array([[masi_distance(a, b) for b in values] for a in values])
    total = pool.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        observed = drawn @ np.array([masi_distance(a, b) for a, b in distinct]) / drawn.sum(axis=1)
        expected = ((pool @ apart) * pool).sum(axis=1) / (total * (total - 1))
        alphas: npt.NDArray[np.float64] = 1 - observed / expected
    return alphas
