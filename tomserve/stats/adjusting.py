"""Adjusts the p values of one family of tests; what each method promises is told at `tomserve.stats.paired.adjust`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def step_up(p: Floats, *, by: bool) -> Floats:
    """The p values adjusted by Benjamini and Hochberg, or by Benjamini and Yekutieli [tests]."""
    order = np.argsort(p)
    ranks = np.arange(1, p.size + 1)
    raised = p[order] * (p.size / ranks) * (np.sum(1 / ranks) if by else 1.0)
    found = np.empty(p.size)
    found[order] = np.minimum(1.0, np.minimum.accumulate(raised[::-1])[::-1])  # none is above that of a larger p
    return found


def holm(p: Floats) -> Floats:
    """The p values adjusted by Holm: each times the number of tests that are left when it is its turn [tests]."""
    order = np.argsort(p)
    found = np.empty(p.size)
    found[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)))
    return found
