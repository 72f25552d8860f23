"""In which share of simulated measurements a map that the answer uses is found, by the number of eligible items.

The states are planted, at width 1024, with fresh noise in every telling (`python bench/causal_truth.py --power`). Where
noise is small and the gain is, too, going straight to the target is as short a step as the map's (with a code of length
1, gain g and noise v about sqrt(1 + g^2 + 2 v^2) against sqrt(2)), so that no number of items tells the two apart.
"""

from collections.abc import Mapping

import numpy as np

BOUND = 1.25  # of g^2 + 2 v^2, below which nothing is found
ITEMS = (60, 100, 150, 250)
POWER: Mapping[float, Mapping[float, tuple[float, ...]]] = {
    0.5: {0.5: (0.0, 0.0, 0.0, 0.0), 1.0: (0.65, 0.97, 1.0, 1.0), 2.0: (1.0, 1.0, 1.0, 1.0)},
    1.0: {0.5: (0.12, 0.42, 0.93, 1.0), 1.0: (1.0, 1.0, 1.0, 1.0), 2.0: (1.0, 1.0, 1.0, 1.0)},
}
"""Shares of 40 draws, so within .16, by the length of the noise relative to a belief's code and the gain of the map."""


def found_share(items: int, noise: float, gain: float) -> float:
    """The share in which a map is found, beyond the numbers of items as at the nearest of ITEMS; none without items."""
    return float(np.interp(items, ITEMS, POWER[noise][gain])) if items else 0.0


def describe_power(cases: int) -> tuple[str, str]:
    """What so many cases, in which a surface cue parts from the belief, can find if all are eligible, and what that
    rests on.

    >>> describe_power(60)[0].partition(";")[0]
    'if all 60 cases can flip, a map of gain 0.5, 1 and 2 is found in 0%, 65% and 100% of the measurements at noise 0.5'
    """
    if not cases:
        return "no case can show that a map causes the answer", "in none does a surface cue part from the belief"
    told = []
    for noise, by_gain in POWER.items():
        shares = [f"{found_share(cases, noise, gain):.0%}" for gain in by_gain]
        told.append(f"{', '.join(shares[:-1])} and {shares[-1]} of the measurements at noise {noise:g}")
    gains = [f"{gain:g}" for gain in next(iter(POWER.values()))]
    text = f"if all {cases} cases can flip, a map of gain {', '.join(gains[:-1])} and {gains[-1]} is found in "
    return text + "; in ".join(told), (
        "of cases in which a surface cue parts from the belief; simulated in 40 draws, so within 16 points, the noise "
        "relative to what the state holds of a belief; no number finds a map where the squared gain and twice the "
        f"squared noise are together below {BOUND}"
    )
