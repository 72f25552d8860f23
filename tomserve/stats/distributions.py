"""Quantiles and tails of distributions, and where a function is zero, by the compiled functions of scipy.special, which
are loaded when first used. tests/stats compares them with scipy.stats, which takes a hundred times as long a value."""

import math
import sys
import threading
from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Number = TypeVar("Number", float, Floats)  # A number, or an array of numbers; what comes back has the same shape


@lru_cache(maxsize=1)
def special() -> Any:
    """scipy.special's compiled functions, loaded without the package around them where that can be done: it imports
    numpy's tests and its reader of Fortran, which takes as long as numpy and polars together."""
    import scipy

    name = "scipy.special"
    if name not in sys.modules and threading.current_thread() is threading.main_thread():
        sys.modules[name] = bare = ModuleType(name)  # other threads import the whole package, and never see it
        bare.__path__ = [f"{folder}/special" for folder in scipy.__path__]
        try:
            from scipy.special import _ufuncs

            return _ufuncs
        except ImportError:
            pass
        finally:
            del sys.modules[name]
    import scipy.special

    return scipy.special


@lru_cache(maxsize=64)
def normal_quantile(p: float) -> float:
    return float(special().ndtri(p))


def normal_cdf(x: float) -> float:
    return float(special().ndtr(x))


@lru_cache(maxsize=4096)
def t_quantile(p: float, df: float) -> float:
    """The quantile of Student's t; normal for infinite df, nan where there are none above 0."""
    if not df > 0:
        return math.nan
    return float(special().ndtri(p) if math.isinf(df) else special().stdtrit(df, p))


def freedom(level: float, df: float) -> float:
    """The squared ratio of the normal to the t quantile, at most 1: what an estimated error counts for beside a known
    one."""
    whole = t_quantile(0.5 + level / 2, df)
    return min(1.0, (normal_quantile(0.5 + level / 2) / whole) ** 2) if whole > 0 else 1.0


def t_tails(t: Number, df: Number) -> Number:
    """The two-sided p of values of Student's t; nan where df is not above 0."""
    away, free = -np.abs(np.asarray(t, dtype=float)), np.asarray(df, dtype=float)
    limited = np.where(np.isinf(free), 1.0, free)
    with np.errstate(invalid="ignore"):
        tail = np.where(np.isinf(free), special().ndtr(away), special().stdtr(limited, away))
    found = np.where(free > 0, 2 * tail, np.nan)
    return cast("Number", float(found) if found.ndim == 0 else found)


def t_power(limit: float, df: float, shift: float) -> tuple[float, float]:
    """The probabilities that a noncentral t is below -limit and above limit; nan where too unlikely to be computed."""
    return float(special().nctdtr(df, shift, -limit)), 1.0 - float(special().nctdtr(df, shift, limit))


def chi2_tail(x: float, df: float) -> float:
    return float(special().chdtrc(df, x))


def digamma(x: Number) -> Number:
    return cast("Number", special().psi(x))


def trigamma(x: Number) -> Number:
    zeta = getattr(special(), "_zeta", None) or special().zeta  # Hurwitz's, which only the package calls by this name
    return cast("Number", zeta(2.0, x))


def beta_quantile(p: float, a: float, b: float) -> float:
    return float(special().betaincinv(a, b, p))


def binomial_cdf(k: int, n: int, p: float) -> float:
    return float(special().bdtr(k, n, p))


def binomial_pmf(k: npt.ArrayLike, n: int, p: float) -> Floats:
    count = np.asarray(k, dtype=float)
    ways = special().gammaln(n + 1) - special().gammaln(count + 1) - special().gammaln(n - count + 1)
    return np.asarray(np.exp(ways + special().xlogy(count, p) + special().xlog1py(n - count, -p)), dtype=float)


def correlation_p(r: float, n: int) -> float:
    """The two-sided p of a correlation of n pairs of independent normal variables that are uncorrelated."""
    return float(2 * special().betainc(n / 2 - 1, n / 2 - 1, (1 - min(1.0, abs(r))) / 2))


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
