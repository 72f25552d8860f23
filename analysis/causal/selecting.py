"""Net effects of chosen cells: the layer and the strength are chosen on other scenarios than those that are counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tomserve.causal.table import Ints, NetEffects, find_complete, find_incomplete
from tomserve.stats.proportions import Interval
from tomserve.stats.selection import Selection, above_all, select_best, sign_flips

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
    own: NetEffects, controls: Mapping[str, NetEffects], scenarios: Ints, *, draws: int = DRAWS, splits: int = 20
) -> Chosen | None:
    """Net effects at the cell that the other half of the scenarios chooses; see tomserve.stats.selection.

    own: of the map. controls: by name, of the same items. scenarios: of each item [items]. draws: of the bootstrap.
    splits: into halves. None where there is no cell, or fewer than FEW_SCENARIOS scenarios, and where a control was not
    measured in exactly the cells of the map: without it, what the map has over the largest control looks larger.
    """
    if find_incomplete(own, controls):
        return None
    kept = find_complete(own, *controls.values())
    named = {name: effects.values[kept] for name, effects in controls.items()}
    if not own.values.shape[1] or len(np.unique(scenarios[kept])) < FEW_SCENARIOS:
        return None
    found: Selection = select_best(own.values[kept], named, scenarios[kept], splits=splits, draws=draws)
    place = int(np.argmax(found.chosen))
    layer, alpha = own.cells[place]
    return Chosen(
        *(found.net, found.controls, found.control, found.adjusted, found.largest),
        *(layer, alpha, float(found.chosen[place]), own.cells[int(np.argmax(found.where))], int(kept.sum())),
    )


def over_cells(own: NetEffects, controls: Mapping[str, NetEffects], scenarios: Ints) -> dict[str, float | None]:
    """p of the max-statistic over all cells, without any choice: of the net effect, and of what it has over controls.

    p_net: of the largest mean net effect. p_over_controls: of what the map has over the largest control, and over doing
    nothing, in the cell where that is most, so that it is small only where the map beats every one in one and the same
    cell (see tomserve.stats.selection.above_all); None where a control was not measured in every cell. null_95: what the
    largest mean net effect stays below in 95% of the sign flips, that is, what a maximum over so many cells comes to by
    itself.
    """
    tested = {} if find_incomplete(own, controls) else controls
    kept = find_complete(own, *tested.values())
    if not own.values.shape[1] or len(np.unique(scenarios[kept])) < FEW_SCENARIOS:
        return {}
    values, of = own.values[kept], scenarios[kept]
    whole = sign_flips(values, of)
    against = [effects.values[kept] for effects in tested.values()]
    over = above_all(values, against, of).p if against else None
    return {"p_net": whole.p, "null_95": whole.null_95, "p_over_controls": over}


def interval(name: str, found: Interval | None) -> dict[str, float | None]:
    """An estimate with its ends, as the columns NAME, NAME_low and NAME_high."""
    if found is None:
        return dict.fromkeys((name, f"{name}_low", f"{name}_high"))
    ends = (found.estimate, found.low, found.high)
    return dict(zip((name, f"{name}_low", f"{name}_high"), map(float, ends), strict=True))
