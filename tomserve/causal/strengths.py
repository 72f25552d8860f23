"""At which strengths a layer is moved: dense between the longest step by which the map flips nothing and the shortest
by which it flips all that it can.

A strength alpha says little by itself, since what it does depends on the gains of the map, which the ridge penalty
shrinks. Lengths of steps are comparable: LENGTHS are shares of the whole step from x to y~. Each is tried on a few
cases towards y~, and the strengths are put between the first that flips something and the first that flips nearly as
many as any. What controls do takes no part in the choice.
"""

from collections.abc import Callable, Sequence

import numpy as np

from tomserve.causal.projection import Floats, Ints, Map
from tomserve.causal.settings import STRENGTHS

LENGTHS = np.geomspace(0.02, 1.0, 24)
"""The lengths that are tried, as shares of the median length of the whole step, or of the longest that the map can make
where that is shorter; the ratio of two is 1.19."""
USUAL = 0.1  # from which length on the strengths stand where nothing that was tried flips anything
FEW, MOST = 0.05, 0.95  # the shares of the largest effect that count as nothing and as everything
LITTLE = 0.1  # an effect below this is none that strengths could be chosen by
TRIED = 40  # on how many cases lengths are tried
SPAN = np.geomspace(1e4, 1e-8, 97)  # alpha over about the largest squared gain, among which that of a length is found

Trial = Callable[[Floats], Floats]
"""The share of the cases tried that flips under each displacement [k]. displacements: [k, cases, d]."""


def choose_strengths(
    maps: Sequence[tuple[Map, Floats, Floats]], tried: tuple[Sequence[tuple[Map, Floats, Floats]], Trial] | None
) -> tuple[float, ...]:
    """STRENGTHS values of alpha, the smallest first, whose steps have lengths in equal ratios.

    maps: each fold's map with the states x and y~ of its cases [cases, d]. tried: the same of the cases to try lengths
    on, and how; None where there are none. Lengths are medians over all cases.
    """
    top = max((float(w.gains[0]) for w, _, _ in maps if w.rank), default=0.0)
    whole, far = (
        float(np.median(np.concatenate([np.linalg.norm(one, axis=1) for one in of])))
        for of in ([y - x for _, x, y in maps], [y for _, _, y in maps])
    )
    if not (top > 0 and whole > 0):
        return tuple(float(alpha) for alpha in np.geomspace(1e-4, 1.0, STRENGTHS))
    alphas = SPAN * max(top**2, top * far / whole)
    lengths = np.median(np.concatenate([w.lengths(x, y, alphas) for w, x, y in maps], axis=1), axis=1)
    lengths = np.maximum.accumulate(np.maximum(lengths, whole * 1e-12))
    longest = min(whole, float(lengths[-1]))

    def reach(shares: Floats) -> Floats:
        """The alpha of each length."""
        return np.asarray(np.exp(np.interp(np.log(shares * longest), np.log(lengths), np.log(alphas))))

    window = USUAL, 1.0
    if tried is not None:
        cases, ask = tried
        strong = reach(LENGTHS)
        window = _window(ask(np.concatenate([w.displacements(x, y, strong) for w, x, y in cases], axis=1)))
    return tuple(sorted(float(alpha) for alpha in reach(np.geomspace(*window, STRENGTHS))))


def _window(shares: Floats) -> tuple[float, float]:
    """Between which of LENGTHS the effect goes from nothing to everything, one step further on either side."""
    top = float(shares.max())
    if top < LITTLE:
        return USUAL, 1.0
    first, last = int((shares > FEW * top).argmax()), int((shares >= MOST * top).argmax())
    return float(LENGTHS[max(first - 1, 0)]), float(LENGTHS[min(last + 1, LENGTHS.size - 1)])


def spread(eligible: Sequence[bool]) -> Ints:
    """The places of at most TRIED of the cases that are eligible, spread over all of them."""
    places = np.flatnonzero(eligible)
    return np.asarray(places[np.unique(np.linspace(0, places.size - 1, min(TRIED, places.size)).astype(np.int64))])
