"""Simulated questions that were asked several times each: the shares of the table `samples`."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from _tally import Key, Tally
from scipy.special import expit, logit

from tomserve.stats.clustered import repeated_share

SAMPLES = [(clusters, base) for clusters in (12, 40) for base in (0.1, 0.5, 0.8, 0.95)]
ITEMS, ASKED = 4, 5
"""Questions of a cluster, and samples of a question."""


def samples(tally: Tally, rng: np.random.Generator, given: tuple[int, float], index: int) -> None:
    """The mean of all samples and the majority, for further clusters sampled anew."""
    count, base = given
    right = _drawn(rng, count, base)
    cluster = np.repeat(np.arange(count), ITEMS)
    for (measure, values), true in zip(_measures(right).items(), _true(base), strict=True):
        found = repeated_share(np.bincount(cluster, values).astype(float), np.bincount(cluster))
        key = Key("samples", "coverage", f"{measure} of {ASKED} samples", f"{count} clusters", measure == "mean")
        tally.interval(key, str(base), (found.low, found.high), true)


def _drawn(rng: np.random.Generator, clusters: int, base: float) -> npt.NDArray[np.int64]:
    """How many samples of each question are right, with random effects of cluster and question on the logit scale."""
    shape = (clusters, ITEMS)
    chance = expit(logit(base) + rng.normal(0, 0.8, (clusters, 1)) + rng.normal(0, 1.2, shape))
    return np.asarray(rng.binomial(ASKED, chance), dtype=np.int64).ravel()


def _measures(right: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[np.float64]]:
    return {"mean": right / ASKED, "majority": (2 * right > ASKED).astype(float), "all": (right == ASKED).astype(float)}


@lru_cache(maxsize=8)
def _true(base: float) -> tuple[float, ...]:
    """The shares in (nearly) endlessly many clusters."""
    return tuple(float(v.mean()) for v in _measures(_drawn(np.random.default_rng(1), 200_000, base)).values())
