"""NetEffect as its source counts it, and which control reproduces it.

The source is Mohanty et al., "Functional Theory of Mind Evaluation in Large Language Models: A Behavioral and Causal
Stability Framework" (layer 2 and table 4), after Aoki and Kawahara 2025. Its items and code are not public.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from tomserve.causal.table import CHOICES, CONTROLS, HELD_OUT, IN_SAMPLE, PPT, NetEffects, Outcomes, Record, net_effects

WINDOW = (1e-4, 1e-2)
"""The strengths alpha among which the source looks for the largest net effect, ends included."""

REPRODUCED = 0.8
"""A control reproduces NetEffect where it reaches this share of it by the same measure; a convention."""

PRINTED = {"llama3.1-70b": (0.23, "65-75"), "qwen2.5-72b": (0.20, "70-80"), "mistral-7b": (0.11, "28-32")}
"""Table 4 of the source: the peak net effect and the layers of the peak, by model."""


def table() -> pl.DataFrame:
    """The table `published_causal`: the cells that the source prints."""
    rows = [{"model": name, "net_effect": value, "layers": layers} for name, (value, layers) in PRINTED.items()]
    return pl.DataFrame(rows)


def published(found: Outcomes) -> Record:
    """NetEffect of the source and the control that comes closest to it, by the same measure.

    The map is fitted on all items, those included on which it is tried; an answer is the likeliest choice, whatever the
    likeliest token is; the largest value over all layers and all alpha in WINDOW is reported. A control has its own
    largest value; it is fitted without the item, since only the map itself is measured in-sample.
    """
    items = found.chosen(CHOICES)
    own = _largest(net_effects(found, PPT, CHOICES, IN_SAMPLE, items=items))
    if own is None:
        return {"published_net": None, "published_layer": None, "published_alpha": None}
    value, layer, alpha = own
    made: Record = {"published_items": items.height, "published_net": value, "published_layer": layer}
    made |= {"published_alpha": alpha}
    controls = {
        name: largest[0]
        for name in CONTROLS
        if (largest := _largest(net_effects(found, name, CHOICES, HELD_OUT, items=items))) is not None
    }
    if not controls:
        return made
    name = max(controls, key=lambda one: controls[one])
    made |= {"published_control": name, "published_control_net": controls[name]}
    return {**made, "reproduced": controls[name] >= REPRODUCED * value if value > 0 else None}


def _largest(effects: NetEffects) -> tuple[float, int, float] | None:
    """The largest mean over items among the cells of the window, with its layer and alpha; None where there is none."""
    kept = [
        (place, cell[0], cell[1])
        for place, cell in enumerate(effects.cells)
        if cell[1] is not None and WINDOW[0] * (1 - 1e-9) <= cell[1] <= WINDOW[1] * (1 + 1e-9)
    ]
    found = [
        (float(column[known].mean()), layer, alpha)
        for place, layer, alpha in kept
        if (known := ~np.isnan(column := effects.values[:, place])).any()
    ]
    return max(found, key=lambda one: one[0]) if found else None
