"""Agreement of two annotators who give sets of labels.

MASI: Passonneau, "Measuring Agreement on Set-valued Items (MASI) for Semantic and Pragmatic Annotation", LREC 2006.
Alpha: Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), with an arbitrary distance.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

Labels = frozenset[str]


def masi_distance(a: Labels, b: Labels) -> float:
    """1 - Jaccard x monotonicity, in [0, 1]; monotonicity is 1, 2/3 (one contains the other), 1/3 (overlap) or 0.

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


def krippendorff_alpha(
    pairs: Sequence[tuple[Labels, Labels]], distance: Callable[[Labels, Labels], float] = masi_distance
) -> float:
    """Alpha of two annotators over units without gaps; nan where all values are equal (chance cannot disagree).

    Observed distance: the mean over units; expected: the mean over all pairs of values in the pool.
    """
    pool = Counter(value for pair in pairs for value in pair)
    total = sum(pool.values())
    if len(pool) < 2:
        return math.nan
    observed = sum(distance(a, b) for a, b in pairs) / len(pairs)
    expected = sum(n * m * distance(a, b) for a, n in pool.items() for b, m in pool.items()) / (total * (total - 1))
    return 1 - observed / expected
