"""The tables of net effects: the headline, by layer, by control, by reading, and across families of stories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from tomserve.causal.table import (
    CHOICES,
    CONTROLS,
    HELD_OUT,
    IDENTITY,
    IN_SAMPLE,
    PATCH,
    PPT,
    SHUFFLED_PAIRS,
    STRICT,
    NetEffects,
    Outcomes,
    Record,
    find_incomplete,
    net_effects,
    number_scenarios,
)

from .described import no_op_changes
from .published import published
from .selecting import DRAWS, FEWER, Chosen, chosen, interval, over_cells

WHOLE = 0.05
"""Half the width of an interval that settles the question: what `items_needed` is computed for."""


def _columns(kind: type[pl.DataType], names: str) -> dict[str, type[pl.DataType]]:
    return dict.fromkeys(names.split(), kind)


HEADLINE: Mapping[str, type[pl.DataType]] = {
    **_columns(pl.String, "model benchmark"),
    **_columns(pl.Int64, "items scenarios eligible eligible_scenarios counted"),
    **_columns(pl.Float64, "net net_low net_high"),
    **_columns(pl.String, "control"),
    **_columns(pl.Float64, "control_net control_net_low control_net_high adjusted adjusted_low adjusted_high"),
    **_columns(pl.Float64, "p_net p_over_controls null_95 ceiling ceiling_low ceiling_high"),
    **_columns(pl.Float64, "net_of_ceiling adjusted_of_ceiling"),
    **_columns(pl.Int64, "layer layers adjusted_layer"),
    **_columns(pl.Float64, "alpha chosen_share adjusted_alpha"),
    **_columns(pl.Boolean, "alpha_at_edge"),
    **_columns(pl.Float64, "error displacement no_op_changes"),
    **_columns(pl.Int64, "no_op_moves cells ceiling_layer items_needed"),
    **_columns(pl.String, "controls_lacking"),
    **_columns(pl.Int64, "published_items published_layer"),
    **_columns(pl.Float64, "published_net published_alpha"),
    **_columns(pl.String, "published_control"),
    **_columns(pl.Float64, "published_control_net"),
    **_columns(pl.Boolean, "reproduced"),
}
"""The columns of the table `headline`, in their order; those that cannot be known of a model are empty."""


def of_controls(found: Outcomes, reading: str = STRICT, *, items: pl.DataFrame) -> dict[str, NetEffects]:
    """The net effects of every control by its name, without cells where it was not measured."""
    return {name: net_effects(found, name, reading, HELD_OUT, items=items) for name in CONTROLS}


def headline(found: Outcomes) -> Iterator[Record]:
    """The row of the table `headline` for a model and benchmark."""
    items = found.chosen()
    changed, tried = no_op_changes(found)
    row: Record = {
        **found.arm,
        **{"items": found.items.height, "scenarios": found.items["cluster"].n_unique()},
        **{"eligible": items.height, "eligible_scenarios": items["cluster"].n_unique()},
        **{"no_op_changes": changed, "no_op_moves": tried},
    }
    own, controls, of = (
        net_effects(found, PPT, STRICT, HELD_OUT, items=items),
        of_controls(found, items=items),
        number_scenarios(items),
    )
    row["controls_lacking"] = ", ".join(find_incomplete(own, controls)) or None
    best = chosen(own, controls, of)
    patch = chosen(net_effects(found, PATCH, STRICT, items=items), {}, of)
    row |= {"cells": len(own.cells), "layers": len({layer for layer, _ in own.cells})}
    row |= (
        _chosen(best)
        | interval("ceiling", patch.net if patch else None)
        | {"ceiling_layer": patch.layer if patch else None}
    )
    row |= {"p_net": None, "null_95": None, "p_over_controls": None} | over_cells(own, controls, of)
    row |= _of_ceiling(best, patch) | _at(found, items, best) | {"items_needed": _needed(best)}
    yield {**dict.fromkeys(HEADLINE), **row, **published(found)}


def _chosen(best: Chosen | None) -> Record:
    if best is None:
        return {**interval("net", None), "control": None, **interval("control_net", None), **interval("adjusted", None)}
    return {
        **interval("net", best.net),
        "control": best.largest,
        **interval("control_net", best.control),
        **interval("adjusted", best.adjusted),
        **{"counted": best.items, "layer": best.layer, "alpha": best.alpha, "chosen_share": best.share},
        **dict(zip(("adjusted_layer", "adjusted_alpha"), best.where, strict=True)),
    }


def _of_ceiling(best: Chosen | None, patch: Chosen | None) -> Record:
    """The net effect and its excess over the largest control, as shares of what the direct patch reaches; None where
    the patch is not clearly above zero."""
    if best is None or patch is None or not patch.net.low > 0:
        return {"net_of_ceiling": None, "adjusted_of_ceiling": None}
    ceiling = patch.net.estimate
    return {"net_of_ceiling": best.net.estimate / ceiling, "adjusted_of_ceiling": best.adjusted.estimate / ceiling}


def _at(found: Outcomes, items: pl.DataFrame, best: Chosen | None) -> Record:
    """What stands beside the cell that was chosen most often: the leave-one-out error, displacement, and its edge."""
    if best is None:
        return {}
    maps = found.maps.filter(layer=best.layer, map=PPT, fitted=HELD_OUT)
    moves = found.moves.filter(map=PPT, fitted=HELD_OUT, layer=best.layer).join(items, on="item", how="semi")
    alphas = sorted(moves["alpha"].drop_nulls().unique())
    edge = len(alphas) > 1 and best.alpha in (alphas[0], alphas[-1])
    return {
        "error": maps["error"].sort().mean(),
        "displacement": moves.filter(alpha=best.alpha)["displacement_true"].median(),
        "alpha_at_edge": edge,
    }


def _needed(best: Chosen | None) -> int | None:
    """So many eligible items would narrow the wider of the two intervals to WHOLE on either side."""
    if best is None:
        return None
    half = max((one.high - one.low) / 2 for one in (best.net, best.adjusted))
    return round(best.items * (half / WHOLE) ** 2) if half == half else None


def by_layer(found: Outcomes) -> Iterator[Record]:
    """The table `net_by_layer`: the map and every control, in each layer with the alpha that the other half chooses."""
    items = found.chosen()
    of = number_scenarios(items)
    every = {PPT: net_effects(found, PPT, STRICT, HELD_OUT, items=items), **of_controls(found, items=items)}
    patch = net_effects(found, PATCH, STRICT, items=items)
    for name, effects in {**every, PATCH: patch}.items():
        for layer in dict.fromkeys(layer for layer, _ in effects.cells):
            cells = tuple(cell for cell in effects.cells if cell[0] == layer)
            best = chosen(NetEffects(effects.at(layer), cells), {}, of, draws=FEWER, splits=4)
            if best is None:
                continue
            mean = float(effects.at(layer).mean())
            yield {
                **{**found.arm, "map": name, "layer": layer, "items": best.items, **interval("net", best.net)},
                **{"alpha": best.alpha, "chosen_share": best.share, "mean_over_alphas": mean},
            }


def controls(found: Outcomes) -> Iterator[Record]:
    """The table `controls`: each control, and the difference between the map and that control alone."""
    items = found.chosen()
    own, every, of = (
        net_effects(found, PPT, STRICT, HELD_OUT, items=items),
        of_controls(found, items=items),
        number_scenarios(items),
    )
    for name, effects in every.items():
        best = chosen(own, {name: effects}, of, draws=FEWER, splits=8)
        alone = chosen(effects, {}, of, draws=FEWER, splits=8)
        if best is None or alone is None:
            continue
        p = over_cells(own, {name: effects}, of).get("p_over_controls")
        yield {
            **{**found.arm, "control": name, "items": best.items, **interval("net", alone.net)},
            **{"layer": alone.layer, "alpha": alone.alpha, **interval("difference", best.adjusted), "p": p},
        }


_READ: Mapping[str, tuple[str, bool]] = {
    "strict, eligible items": (STRICT, False),
    "strict, all items": (STRICT, True),
    "choices only, eligible items": (CHOICES, False),
    "strict, choices as listed": ("order_0", False),
    "strict, choices reversed": ("order_1", False),
}
"""The readings of the table, each with the flips that it counts and whether it counts all items."""


def readings(found: Outcomes) -> Iterator[Record]:
    """The table `readings`: the headline again under other readings of the same answers."""
    for name, (reading, everything) in _READ.items():
        items = found.chosen(reading, everything)
        own = net_effects(found, PPT, reading, HELD_OUT, items=items)
        same = reading == STRICT and not everything  # the headline itself, which must say the same twice
        more = {} if same else {"draws": FEWER}
        best = chosen(own, of_controls(found, reading, items=items), number_scenarios(items), **more)
        if best is not None:
            kept = {"items": best.items, **_chosen(best)}
            yield {**found.arm, "reading": name, **{key: kept[key] for key in _SHOWN}}


_SHOWN = (
    *("items", "net", "net_low", "net_high", "control", "control_net"),
    *("adjusted", "adjusted_low", "adjusted_high"),
)


def transfer(found: Outcomes) -> Iterator[Record]:
    """The table `transfer`: a map that was fitted on one family of stories, tried on the eligible items of another."""
    fitted = set(found.moves["fitted"].drop_nulls().unique()) - {HELD_OUT, IN_SAMPLE}
    eligible = found.chosen()
    for source in sorted(fitted):
        for family in sorted(set(eligible["family"]) - {source}):
            items = eligible.filter(family=family)
            of = number_scenarios(items)
            own = net_effects(found, PPT, STRICT, source, items=items)
            others = {
                name: net_effects(found, name, STRICT, source, items=items) for name in (SHUFFLED_PAIRS, IDENTITY)
            }
            best = chosen(own, others, of, draws=DRAWS // 2, splits=8)
            within = chosen(net_effects(found, PPT, STRICT, HELD_OUT, items=items), {}, of, draws=FEWER, splits=8)
            if best is not None:
                yield {
                    **{**found.arm, "fitted_on": source, "applied_to": family, "items": best.items},
                    **{"scenarios": items["cluster"].n_unique(), **_chosen(best)},
                    **interval("within", within.net if within else None),
                }
