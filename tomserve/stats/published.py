"""The perturbed false-belief paper's own intervals (arXiv 2602.22072), kept under their own name.

They treat the questions of a task as independent, which they are not; they stand beside better ones for comparison.
"""

from __future__ import annotations

import math

Z = 1.96  # exactly, as published; not 1.959964


def accuracy_interval(correct: int, total: int) -> tuple[float, float]:
    """Agresti-Coull-like interval: p = (k + 2) / (n + 4), p -+ 1.96 sqrt(p (1 - p) / (n + 4)), clamped to [0, 1].

    nan, nan where total is 0. Raises ValueError unless 0 <= correct <= total.

        >>> [round(bound, 3) for bound in accuracy_interval(8, 14)]
        [0.326, 0.785]
    """
    if not 0 <= correct <= total:
        raise ValueError(f"correct {correct} of total {total}: expected 0 <= correct <= total")
    if total == 0:
        return math.nan, math.nan
    p = (correct + 2) / (total + 4)
    half = Z * math.sqrt(p * (1 - p) / (total + 4))
    return max(0.0, p - half), min(1.0, p + half)
