"""Net effects of chosen cells: the layer and the strength are chosen on other scenarios than those that are counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tomserve.causal.flips import Ints, Net, complete
from tomserve.stats.maximum import sign_flips
from tomserve.stats.proportions import Interval
from tomserve.stats.selected import Selected, selected

DRAWS, FEWER = 1000, 200
"""Bootstrap draws for a headline, and for the many intervals that stand beside it."""

FEW_SCENARIOS = 8
"""With fewer scenarios they cannot be halved into a part that chooses and a part that is measured."""


@dataclass(frozen=True)
class Chosen:
    """What `chosen` finds, each with its 95% interval: the net effect, that of each control, that of the control that
    is the largest in the map's best cell, and what the map has over the largest control where that is most.

    `largest`: the control that was the largest most often, NOTHING where none was above 0. `layer`, `alpha`, `share`:
    the cell that was chosen most often, and in which share of the splits. `where`: the cell that was chosen most often
    for `adjusted`. `items`: how many were counted; those that
    lack a cell are not.
    """

    net: Interval
    controls: Mapping[str, Interval]
    control: Interval
    adjusted: Interval
    largest: str
    layer: int
    alpha: float | None
    share: float
    where: tuple[int, float | None]
    items: int


def chosen(
    own: Net, controls: Mapping[str, Net], scenarios: Ints, *, draws: int = DRAWS, splits: int = 20
) -> Chosen | None:
    """Net effects at the cell that the other half of the scenarios chooses; see tomserve.stats.selected.

    own: of the map. controls: by name, of the same items in the same cells; others are left out. scenarios: of each
    item [items]. draws: of the bootstrap. splits: into halves. None where there is no cell, or fewer than FEW_SCENARIOS
    scenarios.
    """
    kept = complete(own, *controls.values())
    named = {name: effects.values[kept] for name, effects in controls.items() if effects.cells == own.cells}
    if not own.values.shape[1] or len(np.unique(scenarios[kept])) < FEW_SCENARIOS:
        return None
    found: Selected = selected(own.values[kept], named, scenarios[kept], splits=splits, draws=draws)
    place = int(np.argmax(found.chosen))
    layer, alpha = own.cells[place]
    return Chosen(
        *(found.net, found.controls, found.control, found.adjusted, found.largest),
        *(layer, alpha, float(found.chosen[place]), own.cells[int(np.argmax(found.where))], int(kept.sum())),
    )


def over_cells(own: Net, controls: Mapping[str, Net], scenarios: Ints) -> dict[str, float | None]:
    """p of the max-statistic over all cells, without any choice: of the net effect, and of what it has over controls.

    p_net: of the largest mean net effect. p_over_controls: the largest p, over the controls, of the largest mean
    difference between the map and that control in the same cell, so that it is small only where the map beats every
    one (an intersection-union test; Berger, Technometrics 24:295, 1982). null_95: what the largest mean net effect
    stays below in 95% of the sign flips, that is, what a maximum over so many cells comes to by itself.
    """
    kept = complete(own, *controls.values())
    if not own.values.shape[1] or len(np.unique(scenarios[kept])) < FEW_SCENARIOS:
        return {}
    values, of = own.values[kept], scenarios[kept]
    whole = sign_flips(values, of)
    against = [
        sign_flips(values - effects.values[kept], of).p for effects in controls.values() if effects.cells == own.cells
    ]
    return {"p_net": whole.p, "null_95": whole.null_95, "p_over_controls": max(against, default=None)}


def interval(name: str, found: Interval | None) -> dict[str, float | None]:
    """An estimate with its ends, as the columns NAME, NAME_low and NAME_high."""
    if found is None:
        return dict.fromkeys((name, f"{name}_low", f"{name}_high"))
    ends = (found.estimate, found.low, found.high)
    return dict(zip((name, f"{name}_low", f"{name}_high"), map(float, ends), strict=True))
