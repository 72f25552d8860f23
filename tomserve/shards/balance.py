"""Cuts a row of weights into parts that are as even as possible, where a cut costs least.

The weights stand in the order in which prompts are asked. A part is a contiguous piece of that row, so that prompts
which share a beginning mostly stay together. The largest part is made as small as contiguous pieces allow: whether some
size suffices is seen by filling one part after the other up to it, and the smallest size that suffices is found by
bisection (parametric search; exact, as sizes are whole numbers). Within a tolerance of that size every cut then goes
where the two neighbours have least in common, as between two stories.

>>> [int(end) for end in ends([5, 5, 5, 5, 5, 5], [0, 9, 0, 9, 9, 9], 2)]
[3, 6]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

TOLERANCE = 0.05
"""By this share a part may be larger than the smallest possible largest part, where a better cut lies near."""


def ends(weights: Sequence[int] | Numbers, sharing: Sequence[int] | Numbers, parts: int) -> list[int]:
    """Where each part ends: part k holds the weights from the end of part k - 1 up to, but not including, its own.

    weights [n]: of each piece, whole numbers from 0. sharing [n]: how much each piece has in common with the one before
    it, which a cut between the two loses; the first number means nothing. parts: how many, from 1 to n. Each part holds
    at least one piece, and at most (1 + TOLERANCE) times as much as the largest part of the evenest cut, rounded up.
    """
    sums = np.concatenate(([0], np.cumsum(np.asarray(weights, dtype=np.int64))))
    shared = np.asarray(sharing, dtype=np.int64)
    count = len(sums) - 1
    if not 1 <= parts <= count:
        raise ValueError(f"{parts} parts of {count} pieces")
    most = int(smallest_largest(sums, parts) * (1 + TOLERANCE)) + 1
    firsts = _firsts(sums, parts, most)
    found, start = [], 0
    for number in range(1, parts):
        low = max(start + 1, firsts[parts - number])
        high = min(_reach(sums, start, most), count - (parts - number))
        ideal = int(sums[-1]) * number / parts
        slack = TOLERANCE / 2 * int(sums[-1]) / parts
        near_low = min(max(low, int(np.searchsorted(sums, ideal - slack, "left"))), high)
        near_high = max(min(high, int(np.searchsorted(sums, ideal + slack, "right")) - 1), near_low)
        window = np.arange(near_low, near_high + 1)
        # The least shared comes first, and among equals the place that is nearest to an even cut.
        order = np.lexsort((np.abs(sums[window] - ideal), shared[window]))
        start = int(window[order[0]])
        found.append(start)
    return [*found, count]


def smallest_largest(sums: Numbers, parts: int) -> int:
    """How heavy the largest of so many contiguous parts is at least. sums [n + 1]: of the first 0, 1, ... n weights."""
    total = int(sums[-1])
    low = max(-(-total // parts), int(np.max(np.diff(sums), initial=0)))
    high = total
    while low < high:
        middle = (low + high) // 2
        if needed(sums, middle, parts) <= parts:
            high = middle
        else:
            low = middle + 1
    return low


def needed(sums: Numbers, most: int, limit: int | None = None) -> int:
    """How many contiguous parts of at most `most` it takes; a piece that is heavier than that is a part of its own.

    limit: stop counting once there are more parts than this.
    """
    start, count, last = 0, 0, len(sums) - 1
    while start < last and (limit is None or count <= limit):
        start = max(start + 1, _reach(sums, start, most))
        count += 1
    return count


def _reach(sums: Numbers, start: int, most: int) -> int:
    """Where a part that begins at `start` has to end at the latest."""
    return int(np.searchsorted(sums, int(sums[start]) + most, "right")) - 1


def _firsts(sums: Numbers, parts: int, most: int) -> list[int]:
    """For 0, 1, ... parts, the first place from which on so many parts of at most `most` hold all that follows."""
    firsts: list[Any] = [len(sums) - 1]
    for _ in range(parts):
        firsts.append(int(np.searchsorted(sums, int(sums[firsts[-1]]) - most, "left")))
    return firsts
