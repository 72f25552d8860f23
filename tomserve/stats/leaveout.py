"""Correlations and AUCs with each group left out in turn, computed from sums by group in one pass over the rows.

They are the replicates of a jackknife (`association.jackknife`). Leaving a group out is a subtraction: a correlation is
made of sums and of sums of products, and an AUC counts pairs, of which those with a row of the group are taken away.
The values are those that computing each replicate anew gives, but for rounding.

Inputs are parallel columns [rows]; groups and strata are integer codes from 0. Rows with a nan are left out. Results
have one value a group [groups]; a value is nan where a column is constant once the group is left out.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]
NOTHING = 1e-12
"""A column counts as constant where its variation is below this share of the whole variation: subtracting leaves such
rounding errors of equal values.
"""


def correlations(x: Floats, y: Floats, group: Codes, stratum: Codes | None = None) -> Floats:
    """Pearson's r of x and y without each group in turn (phi, where both are 0/1); see
    `association.within_correlation`.

    x, y: the two columns, floats [rows].
    group: code of the group of each row [rows].
    stratum: code of the stratum of each row [rows]; where given, the correlation is that of the deviations from the
        stratum means.
    """
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
    """AUC without each group in turn: the chance that a right answer has a higher score than a wrong one, ties half.

    score: the score of each answer, floats [rows].
    right: 1 for a right answer, 0 for a wrong one [rows].
    group: code of the group of each row [rows].
    """
    undefined = np.isnan(correlations(score, right, group))
    known = ~(np.isnan(score) | np.isnan(right))
    good, of_group, groups = right[known] > 0, group[known], int(group.max()) + 1
    values, rank = np.unique(score[known], return_inverse=True)

    def sums(chosen: npt.NDArray[np.bool_], weights: Floats | None = None) -> Floats:
        totals = np.bincount(of_group[chosen], None if weights is None else weights[chosen], minlength=groups)
        return np.asarray(totals, dtype=np.float64)

    whole = [np.bincount(rank[chosen], minlength=values.size).astype(float) for chosen in (good, ~good)]
    n1, n0 = sums(good), sums(~good)
    beaten = _below(whole[1])[rank]  # wrong answers that a score of this rank exceeds
    beating = (whole[0].sum() - _below(whole[0]))[rank]  # right answers that exceed it
    own = _within(good, rank, of_group, values.size, groups)
    pairs = float(beaten[good].sum()) - sums(good, beaten) - sums(~good, beating) + own
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(undefined, np.nan, pairs / ((n1.sum() - n1) * (n0.sum() - n0)))


def _below(counts: Floats) -> Floats:
    """By rank, how many rows have a lower rank, plus half of those of the same rank. `counts`: rows of each rank."""
    return np.asarray(np.cumsum(counts) - counts / 2, dtype=np.float64)


def _within(good: npt.NDArray[np.bool_], rank: Codes, code: Codes, ranks: int, groups: int) -> Floats:
    """By group, the pairs of a right and a wrong answer of that group in which the right one scores higher, ties half.

    These pairs lose both of their rows when the group is left out, so that subtracting each row's pairs counts them
    twice.

    good: whether a row is a right answer; rank: the rank of its score; code: its group; ranks, groups: how many there
        are.
    """
    cells, cell = np.unique(code * ranks + rank, return_inverse=True)
    group_of = cells // ranks
    right, wrong = (np.bincount(cell[flag], minlength=cells.size).astype(float) for flag in (good, ~good))
    before = np.concatenate(([0.0], np.cumsum(wrong)))[np.searchsorted(group_of, np.arange(groups))]
    return np.bincount(group_of, weights=right * (_below(wrong) - before[group_of]), minlength=groups).astype(float)
