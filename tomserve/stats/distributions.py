"""Quantiles and tails of distributions, and where a function is zero, by scipy.special, which is imported where it is
used: scipy.stats takes half a second to import, and a hundred times as long for a value. tests/stats compares them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Number = TypeVar("Number", float, Floats)  # A number, or an array of numbers; what comes back has the same shape


@lru_cache(maxsize=64)
def normal_quantile(p: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(p))


def normal_cdf(x: float) -> float:
    from scipy.special import ndtr

    return float(ndtr(x))


@lru_cache(maxsize=4096)
def t_quantile(p: float, df: float) -> float:
    """The quantile of Student's t; normal for infinite df."""
    return float(t_quantiles(p, np.asarray(df, dtype=float)))


def freedom(level: float, df: float) -> float:
    """The squared ratio of the normal to the t quantile, at most 1: what an estimated error counts for beside a known
    one."""
    whole = t_quantile(0.5 + level / 2, df)
    return min(1.0, (normal_quantile(0.5 + level / 2) / whole) ** 2) if whole > 0 else 1.0


def t_quantiles(p: float, df: Floats) -> Floats:
    """`t_quantile` for several degrees of freedom [any shape]; nan where there are none above 0."""
    from scipy.special import ndtri, stdtrit

    limited = np.where(np.isinf(df), 1.0, df)
    with np.errstate(invalid="ignore"):
        found = np.where(np.isinf(df), ndtri(p), stdtrit(limited, p))
    return np.asarray(np.where(df > 0, found, np.nan), dtype=float)


def t_tails(t: Number, df: Number) -> Number:
    """The two-sided p of values of Student's t; nan where df is not above 0."""
    from scipy.special import ndtr, stdtr

    away, free = -np.abs(np.asarray(t, dtype=float)), np.asarray(df, dtype=float)
    limited = np.where(np.isinf(free), 1.0, free)
    with np.errstate(invalid="ignore"):
        tail = np.where(np.isinf(free), ndtr(away), stdtr(limited, away))
    found = np.where(free > 0, 2 * tail, np.nan)
    return cast("Number", float(found) if found.ndim == 0 else found)


def t_power(limit: float, df: float, shift: float) -> tuple[float, float]:
    """The probabilities that a noncentral t is below -limit and above limit; nan where too unlikely to be computed."""
    from scipy.special import nctdtr

    return float(nctdtr(df, shift, -limit)), 1.0 - float(nctdtr(df, shift, limit))


def chi2_tail(x: float, df: float) -> float:
    from scipy.special import chdtrc

    return float(chdtrc(df, x))


def beta_quantile(p: float, a: float, b: float) -> float:
    from scipy.special import betaincinv

    return float(betaincinv(a, b, p))


def binomial_cdf(k: int, n: int, p: float) -> float:
    from scipy.special import bdtr

    return float(bdtr(k, n, p))


def binomial_pmf(k: npt.ArrayLike, n: int, p: float) -> Floats:
    from scipy.special import gammaln, xlog1py, xlogy

    count = np.asarray(k, dtype=float)
    ways = gammaln(n + 1) - gammaln(count + 1) - gammaln(n - count + 1)
    return np.asarray(np.exp(ways + xlogy(count, p) + xlog1py(n - count, -p)), dtype=float)


def correlation_p(r: float, n: int) -> float:
    """The two-sided p of a correlation of n pairs of independent normal variables that are uncorrelated."""
    from scipy.special import betainc

    return float(2 * betainc(n / 2 - 1, n / 2 - 1, (1 - min(1.0, abs(r))) / 2))


def t_interval(estimate: float, error: float, df: float, level: float = 0.95) -> tuple[float, float, float]:
    """Low, high and two-sided p of an estimate whose error has Student's t with df degrees of freedom."""
    half = t_quantile(0.5 + level / 2, df) * error
    p = t_tails(estimate / error, df) if error > 0 else math.nan
    return estimate - half, estimate + half, p


def find_root(f: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that rises through zero between two values does so, to the last digit; the nearer end where it
    never does."""
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if f(middle) >= 0 else (middle, high)
    return (low + high) / 2
