"""Where a function of one number is zero."""

from __future__ import annotations

from collections.abc import Callable


def root(f: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that rises through zero between two values does so, by halving, to the last digit; the nearer of
    both ends where it never does.
    """
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if f(middle) >= 0 else (middle, high)
    return (low + high) / 2
