"""Associations with each group left out in turn, from sums by group: one pass over the rows, however many groups.

Leaving out is subtracting: correlations are made of sums and sums of products, an AUC of pairs, of which those with a
row of the group are taken away. Values agree with computing each anew but for rounding. Columns are parallel, group and
stratum codes from 0; rows with a nan are left out; nan where the rest is constant. Results: one value a group.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]
NOTHING = 1e-12
"""A share of the whole variation below which the rest counts as constant: what subtracting leaves of equal values."""


def correlations(x: Floats, y: Floats, group: Codes, stratum: Codes | None = None) -> Floats:
    """Pearson's r (of 0/1 columns: phi); with `stratum` of deviations from the stratum means."""
    groups = int(group.max()) + 1
    known = ~(np.isnan(x) | np.isnan(y))
    x, y, group = x[known], y[known], group[known]
    if not x.size:
        return np.full(groups, np.nan)
    strata = np.zeros(x.size, dtype=np.intp) if stratum is None else stratum[known]
    x, y = x - x.mean(), y - y.mean()  # smaller numbers, smaller rounding
    cells, shape = group * (int(strata.max()) + 1) + strata, (groups, int(strata.max()) + 1)

    def rest(values: Floats) -> Floats:
        sums = np.bincount(cells, weights=values, minlength=shape[0] * shape[1]).reshape(shape)
        return np.asarray(sums.sum(axis=0) - sums, dtype=np.float64)

    counts, sum_x, sum_y = rest(np.ones_like(x)), rest(x), rest(y)
    sizes = np.maximum(counts, 1)

    def products(a: Floats, b: Floats, sum_a: Floats, sum_b: Floats) -> Floats:
        return np.asarray((rest(a * b) - sum_a * sum_b / sizes).sum(axis=1), dtype=np.float64)

    xx, yy, xy = products(x, x, sum_x, sum_x), products(y, y, sum_y, sum_y), products(x, y, sum_x, sum_y)
    constant = (xx <= NOTHING * float(x @ x)) | (yy <= NOTHING * float(y @ y))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(constant, np.nan, np.clip(xy / np.sqrt(xx * yy), -1.0, 1.0))


def aucs(score: Floats, right: Floats, group: Codes) -> Floats:
    """Chance that a right answer's score exceeds a wrong one's, ties half."""
    undefined = np.isnan(correlations(score, right, group))
    known = ~(np.isnan(score) | np.isnan(right))
    good, code, groups = right[known] > 0, group[known], int(group.max()) + 1
    values, rank = np.unique(score[known], return_inverse=True)

    def sums(of: npt.NDArray[np.bool_], weights: Floats | None = None) -> Floats:
        found = np.bincount(code[of], None if weights is None else weights[of], minlength=groups)
        return np.asarray(found, dtype=np.float64)

    whole = [np.bincount(rank[of], minlength=values.size).astype(float) for of in (good, ~good)]
    n1, n0 = sums(good), sums(~good)
    beaten = _below(whole[1])[rank]  # wrong answers that a score of this rank exceeds
    beating = (whole[0].sum() - _below(whole[0]))[rank]  # right answers that exceed it
    own = _within(good, rank, code, values.size, groups)
    pairs = float(beaten[good].sum()) - sums(good, beaten) - sums(~good, beating) + own
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(undefined, np.nan, pairs / ((n1.sum() - n1) * (n0.sum() - n0)))


def _below(counts: Floats) -> Floats:
    """How many are of a lower rank, and half of those of the same, for every rank."""
    return np.asarray(np.cumsum(counts) - counts / 2, dtype=np.float64)


def _within(good: npt.NDArray[np.bool_], rank: Codes, code: Codes, ranks: int, groups: int) -> Floats:
    """Pairs of a right and a wrong answer of one group in which the right one has the higher score, ties half."""
    cells, place = np.unique(code * ranks + rank, return_inverse=True)
    of = cells // ranks
    right, wrong = (np.bincount(place[flag], minlength=cells.size).astype(float) for flag in (good, ~good))
    before = np.concatenate(([0.0], np.cumsum(wrong)))[np.searchsorted(of, np.arange(groups))]
    return np.bincount(of, weights=right * (_below(wrong) - before[of]), minlength=groups).astype(float)
