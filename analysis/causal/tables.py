"""The tables of interventions: net effects of maps and controls with selected layer and strength, answers, fits,
probes, and NetEffect as published.

The layer and the strength are chosen on other scenarios than those that are counted. NetEffect is that of Mohanty et
al., "Functional Theory of Mind Evaluation in Large Language Models: A Behavioral and Causal Stability Framework"
(layer 2 and table 4), after Aoki and Kawahara 2025.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from tomserve.causal import table as t
from tomserve.stats.clustered import clustered_mean, repeated_share
from tomserve.stats.distributions import t_quantile, t_tails
from tomserve.stats.proportions import Interval
from tomserve.stats.selection import Selection, above_all, select_best, sign_flips
from tomserve.studies.contrasts import interval_columns

# The choice that is right in a telling: that of the false belief where the protagonist missed the change
REFERENCE_MEANINGS = {t.FALSE: "false", t.OWN: "false"}

FIXED = tuple(name for name in t.REFERENCES if name != t.REPLACE)  # the references that have no strength


def answers(found: t.Outcomes) -> Iterator[t.Record]:
    """The table `answers`: what the model said before any intervention, by telling and order of the choices."""
    for told in t.TOLD:
        own = found.answers.filter(pl.col("told") == told)
        for order in (0, 1):
            part = own.filter(pl.col("order") == order)
            if not part.height:
                continue
            read = part.filter("strict")["role"].cast(pl.String)
            meant = REFERENCE_MEANINGS.get(told, "true")
            right = (part["strict"] & (part["role"].cast(pl.String) == meant)).fill_null(value=False)
            said = _share(right, part["cluster"])
            yield {
                **{**found.arm, "told": told, "order": order, "items": part.height},
                **{f"share_{role}": (read == role).sum() / part.height for role in ("false", "true", "other")},
                "unread": 1 - read.len() / part.height,
                **interval_columns("right", said),
            }


def _share(right: pl.Series, cluster: pl.Series) -> Interval:
    """The mean over answers, as of the shares beside it, with an interval over scenarios."""
    _, of, sizes = np.unique(cluster.to_numpy(), return_inverse=True, return_counts=True)
    return repeated_share(np.asarray(np.bincount(of, weights=right.cast(pl.Float64).to_numpy()), dtype=float), sizes)


def cells(found: t.Outcomes) -> Iterator[t.Record]:
    """The table `cells`: the flips of the eligible items in every layer and strength, for every map that has one."""
    own = pl.col("alpha").is_not_null() & (pl.col("fitted") == t.HELD_OUT)
    keys = ("map", "fitted", "layer", "alpha")
    for row in _flips(found, own, keys).drop("changed").sort(keys).iter_rows(named=True):
        yield {**found.arm, **row}


def _flips(found: t.Outcomes, chosen: pl.Expr, keys: Sequence[str]) -> pl.DataFrame:
    """What the chosen moves of eligible items flip and change, by the keys."""
    moves = found.moves.filter(chosen).join(found.items.filter("eligible").select("item"), on="item", how="semi")
    counted = moves.group_by(keys).agg(
        items=pl.len(),
        flip_true=pl.col("strict_true").sort().mean(),
        flip_false=pl.col("strict_false").sort().mean(),
        changed=pl.col("changed_true").sort().mean(),
        displacement=pl.col("displacement_true").median(),
    )
    return counted.with_columns(net=pl.col("flip_true") - pl.col("flip_false"))


def references(found: t.Outcomes) -> Iterator[t.Record]:
    """The table `references`: what no map moves, in every layer, counted over the eligible items."""
    counted = _flips(found, pl.col("map").is_in(FIXED), ("map", "layer"))
    for row in counted.sort(pl.col("map").cast(pl.Enum(FIXED)), "layer").iter_rows(named=True):
        yield {**found.arm, **row}


def no_op_changes(found: t.Outcomes) -> tuple[float, int]:
    """Of the moves that add nothing, over all items, the share that changed an answer, and their number."""
    own = found.moves.filter(pl.col("map") == t.NO_OP)["changed_true"].drop_nulls()
    return (float(np.mean(np.sort(own.to_numpy()))), own.len()) if own.len() else (0.0, 0)


def fits(found: t.Outcomes) -> Iterator[t.Record]:
    """The table `fits`: how well the maps of every layer fit, as means over folds; the penalty as its median."""
    counted = (
        found.maps.with_columns(pl.col("map").cast(pl.String))
        .group_by("map", "fitted", "layer")
        .agg(
            folds=pl.len(),
            error=pl.col("error").sort().mean(),
            worst_error=pl.col("error").max(),
            penalty=pl.col("penalty").median(),
            rank=pl.col("rank").median(),
            gain=pl.col("gain").sort().mean(),
            norm=pl.col("norm").sort().mean(),
        )
        .sort(pl.col("map") != t.PPT, "map", pl.col("fitted") != t.HELD_OUT, "fitted", "layer")
    )
    for row in counted.iter_rows(named=True):
        yield {**found.arm, **row}


DRAWS, FEWER = 1000, 200  # bootstrap draws for a headline, and for the many intervals that stand beside it

LEVEL = 0.05  # of tests, and 1 less that of intervals

FEW_SCENARIOS = 8  # with fewer scenarios they cannot be halved into a part that chooses and a part that is measured


@dataclass(frozen=True)
class CellEffect:
    """What `cell_effect` finds, each with its 95% interval: the net effect, that of each control, that of the control
    that is the largest in the map's best cell, and what the map has over the largest control where that is most.
    `largest`: the control that was the largest most often, NOTHING where none was above 0. `layer`, `alpha`, `share`:
    the cell that was chosen most often, and in which share of the splits. `where`: the cell that was chosen most often
    for `adjusted`. `items`, of `scenarios`: how many were counted; those that lack a cell are not."""

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
    scenarios: int


def cell_effect(
    own: t.NetEffects, controls: Mapping[str, t.NetEffects], scenarios: t.Ints, *, draws: int = DRAWS, splits: int = 20
) -> CellEffect | None:
    """Net effects at the cell that the other half of the scenarios chooses; see tomserve.stats.selection. A control
    stands against the map in its layer at any length up to the map's own. own: of the map. controls: by name, of the
    same items. scenarios: of each item [items]. draws: of the bootstrap. splits: into
    halves. None where there is no cell, or fewer than FEW_SCENARIOS scenarios, and where a control was not measured in
    exactly the cells of the map: without it, what the map has over the largest control looks larger."""
    if t.find_incomplete(own, controls):
        return None
    kept = t.find_complete(own, *controls.values())
    named = {name: effects.values[kept] for name, effects in controls.items()}
    if not own.values.shape[1] or len(np.unique(scenarios[kept])) < FEW_SCENARIOS:
        return None
    found: Selection = select_best(
        own.values[kept], named, scenarios[kept], ladders=own.layers, splits=splits, draws=draws
    )
    place = int(np.argmax(found.chosen))
    layer, alpha = own.cells[place]
    return CellEffect(
        *(found.net, found.controls, found.control, found.adjusted, found.largest),
        *(layer, alpha, float(found.chosen[place]), own.cells[int(np.argmax(found.adjusted_cells))], int(kept.sum())),
        len(np.unique(scenarios[kept])),
    )


def over_cells(own: t.NetEffects, controls: Mapping[str, t.NetEffects], scenarios: t.Ints) -> dict[str, float | None]:
    """p of the max-statistic over all cells, without any choice: of the net effect, and of what it has over controls.

    p_net: of the largest mean net effect. p_over_controls: of what the map has over every control at any length up to
    its own, and over doing nothing, in the cell where that is clearest (see tomserve.stats.selection.above_all); None
    where a control was not measured in every cell. null_95: what
    the largest mean net effect stays below in 95% of the sign flips, that is, what a maximum over so many cells comes
    to by itself."""
    tested = {} if t.find_incomplete(own, controls) else controls
    kept = t.find_complete(own, *tested.values())
    if not own.values.shape[1] or len(np.unique(scenarios[kept])) < FEW_SCENARIOS:
        return {}
    values, of = own.values[kept], scenarios[kept]
    whole = sign_flips(values, of)
    against = [effects.values[kept] for effects in tested.values()]
    over = above_all(values, against, of, ladders=own.layers).p if against else None
    return {"p_net": whole.p, "null_95": whole.null_95, "p_over_controls": over}


def agree(found: Interval, p: float | None, scenarios: int) -> tuple[Interval, float | None]:
    """An interval and the p of the same effect over all cells at once, so that they say the same: the interval reaches
    down to 0 where p is LEVEL or more, and p is the larger of the two, as both have to show the effect."""
    if p is None or math.isnan(found.low):
        return found, p
    half = (found.estimate - found.low) / t_quantile(1 - LEVEL / 2, scenarios - 1)
    if found.estimate <= 0:
        p = 1.0
    elif half > 0:
        p = max(p, float(t_tails(found.estimate / half, scenarios - 1)))
    return (found if p < LEVEL else replace(found, low=min(found.low, 0.0))), p


REPRODUCED = 0.8  # a control reproduces NetEffect where it reaches this share of it by the same measure; a convention

NEAR = 0.9  # layers whose NetEffect reaches this share of the largest are those of the peak; a convention
PUBLISHED = {t.REPLACE: t.PPT, t.SHUFFLED_PAIRS: t.SHUFFLED_PAIRS, t.IDENTITY: t.IDENTITY}
"""The moves that are made as the source says, and whose map they make."""


def published_cells(found: t.Outcomes) -> Iterator[t.Record]:
    """The table `published_cells`: NetEffect by the source's rules in every layer and at each of its strengths.

    The map is fitted on all items with the printed ridge penalty, the moved mean of both orders stands in place of each
    order's own state, an answer is the likeliest choice, and the shares are of all answers, in either order, that were
    the false-belief choice before. Controls are made by the same rules."""
    items = found.items.filter(pl.col("answered") > 0)
    for name, shown in PUBLISHED.items():
        moves = found.moves.filter(map=name, fitted=t.IN_SAMPLE).join(items.select("item", "answered"), on="item")
        counted = moves.group_by("layer", "alpha").agg(
            items=pl.len(),
            flip_true=pl.col("choices_true").sort().sum() / pl.col("answered").sort().sum(),
            flip_false=pl.col("choices_false").sort().sum() / pl.col("answered").sort().sum(),
        )
        counted = counted.with_columns(net=pl.col("flip_true") - pl.col("flip_false")).sort("layer", "alpha")
        for row in counted.iter_rows(named=True):
            yield {**found.arm, "map": shown, **row}


def published_effects(found: t.Outcomes) -> t.Record:
    """NetEffect of the source, the largest over all layers and its strengths, the layers of the peak (NEAR), and the
    control that comes closest to it by the same rules, at its own largest."""
    best: dict[str, t.Record] = {}
    every = list(published_cells(found))
    for row in every:
        if row["net"] is not None and row["net"] > best.get(row["map"], {"net": -math.inf})["net"]:
            best[row["map"]] = row
    own = best.pop(t.PPT, None)
    if own is None:
        return {}
    value = own["net"]
    made: t.Record = {"published_items": own["items"], "published_net": value, "published_layer": own["layer"]}
    near = {one["layer"] for one in every if one["map"] == t.PPT and (one["net"] or -1.0) >= NEAR * value > 0}
    made |= {"published_layers": _ranges(sorted(near)) or None, "published_alpha": own["alpha"]}
    if not best:
        return made
    name = max(best, key=lambda one: float(best[one]["net"]))
    made |= {"published_control": name, "published_control_net": best[name]["net"]}
    return {**made, "reproduced": best[name]["net"] >= REPRODUCED * value if value > 0 else None}


def _ranges(layers: Sequence[int]) -> str:
    """Layers in ascending order as ranges, such as "4-6, 9"."""
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][-1] + 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def published(found: t.Outcomes) -> Iterator[t.Record]:
    """The table `published_net`: NetEffect of a model and benchmark by the source's rules."""
    if made := published_effects(found):
        yield {**found.arm, **dict.fromkeys(("published_control", "published_control_net", "reproduced")), **made}


GROWS = 0.02  # by so much an effect has to differ from that at the next strength to be called still growing
WHOLE = 0.05  # half the width of an interval that settles the question: what `items_needed` is computed for


def _columns(kind: type[pl.DataType], names: str) -> dict[str, type[pl.DataType]]:
    return dict.fromkeys(names.split(), kind)


# The columns of the table `headline`, in their order; those that cannot be known of a model are empty
HEADLINE: Mapping[str, type[pl.DataType]] = {
    **_columns(pl.String, "model benchmark"),
    **_columns(pl.Int64, "items scenarios eligible eligible_scenarios counted"),
    **_columns(pl.Float64, "net net_low net_high"),
    **_columns(pl.String, "control"),
    **_columns(pl.Float64, "control_net control_net_low control_net_high adjusted adjusted_low adjusted_high"),
    **_columns(pl.Float64, "p_net p_over_controls null_95 ceiling ceiling_low ceiling_high"),
    **_columns(pl.String, "ceiling_move"),
    **_columns(pl.Float64, "over_others over_others_low over_others_high understood"),
    **_columns(pl.Int64, "parted_items"),
    **_columns(pl.Float64, "parted_adjusted parted_adjusted_low parted_adjusted_high"),
    **_columns(pl.String, "least"),
    **_columns(pl.Int64, "least_items"),
    **_columns(pl.Float64, "least_net least_net_low least_net_high"),
    **_columns(pl.Float64, "net_of_ceiling adjusted_of_ceiling"),
    **_columns(pl.Int64, "layer layers adjusted_layer"),
    **_columns(pl.Float64, "alpha chosen_share adjusted_alpha"),
    **_columns(pl.Boolean, "alpha_at_edge"),
    **_columns(pl.Float64, "error displacement no_op_changes"),
    **_columns(pl.Int64, "no_op_moves cells ceiling_layer items_needed"),
    **_columns(pl.String, "controls_lacking verdict"),
    **_columns(pl.Boolean, "causes"),
    **_columns(pl.Int64, "published_items published_layer"),
    **_columns(pl.String, "published_layers"),
    **_columns(pl.Float64, "published_net published_alpha"),
    **_columns(pl.String, "published_control"),
    **_columns(pl.Float64, "published_control_net"),
    **_columns(pl.Boolean, "reproduced"),
}


def control_effects(found: t.Outcomes, reading: str = t.STRICT, *, items: pl.DataFrame) -> dict[str, t.NetEffects]:
    """The net effects of every control by its name, without cells where it was not measured."""
    return {name: t.net_effects(found, name, reading, t.HELD_OUT, items=items) for name in t.CONTROLS}


def headline(found: t.Outcomes) -> Iterator[t.Record]:
    """The row of the table `headline` for a model and benchmark."""
    items = found.select()
    changed, tried = no_op_changes(found)
    row: t.Record = {
        **found.arm,
        **{"items": found.items.height, "scenarios": found.items["cluster"].n_unique()},
        **{"eligible": items.height, "eligible_scenarios": items["cluster"].n_unique()},
        **{"no_op_changes": changed, "no_op_moves": tried},
    }
    own, controls, of = _map_effects(found, items), control_effects(found, items=items), t.number_scenarios(items)
    row["controls_lacking"] = ", ".join(t.find_incomplete(own, controls)) or None
    best, tested = cell_effect(own, controls, of), dict.fromkeys(("p_net", "null_95", "p_over_controls"))
    tested |= over_cells(own, controls, of)
    if best is not None:
        net, tested["p_net"] = agree(best.net, tested["p_net"], best.scenarios)
        adjusted, tested["p_over_controls"] = agree(best.adjusted, tested["p_over_controls"], best.scenarios)
        best = replace(best, net=net, adjusted=adjusted)
    patch = cell_effect(t.net_effects(found, t.PATCH, t.STRICT, items=items), {}, of)
    row |= {"cells": len(own.cells), "layers": len({layer for layer, _ in own.cells})}
    ceiling, top, at = _ceiling(best, patch)
    row |= _cell_columns(best) | interval_columns("ceiling", top) | {"ceiling_move": ceiling, "ceiling_layer": at}
    row |= _where_cues_part(found, items) | {"understood": items["understood"].mean()}
    others = {name: effects for name, effects in controls.items() if name not in t.NO_MAP}
    row |= interval_columns("over_others", _over(own, others, of))
    row |= tested | _of_ceiling(best, top) | _at(found, items, best, own) | {"items_needed": _items_needed(best)}
    yield {**dict.fromkeys(HEADLINE), **row, **published_effects(found)}


def _cell_columns(best: CellEffect | None) -> t.Record:
    if best is None:
        return {}
    return {
        **interval_columns("net", best.net),
        "control": best.largest,
        **interval_columns("control_net", best.control),
        **interval_columns("adjusted", best.adjusted),
        **{"counted": best.items, "layer": best.layer, "alpha": best.alpha, "chosen_share": best.share},
        **dict(zip(("adjusted_layer", "adjusted_alpha"), best.where, strict=True)),
    }


def _over(own: t.NetEffects, controls: Mapping[str, t.NetEffects], of: t.Ints) -> Interval | None:
    """What the map has over the largest of these controls."""
    best = cell_effect(own, controls, of, draws=FEWER, splits=8)
    if best is None:
        return None
    return agree(best.adjusted, over_cells(own, controls, of).get("p_over_controls"), best.scenarios)[0]


def _where_cues_part(found: t.Outcomes, items: pl.DataFrame) -> t.Record:
    """The items in which a surface cue parts from the belief: how many, and what the map has over its largest control
    there; of all sorts of such items that were measured, the one in which its net effect is surely the least, and that
    effect. items: those counted."""
    parted = items.filter(pl.col("parted").is_not_null())
    every = control_effects(found, items=parted)
    over = _over(_map_effects(found, parted), every, t.number_scenarios(parted))
    made: t.Record = {"parted_items": parted.height, **interval_columns("parted_adjusted", over)}
    lowest = math.inf
    for sort in found.items["parted"].drop_nulls().unique().sort():
        own = parted.filter(parted=sort)
        best = cell_effect(_map_effects(found, own), {}, t.number_scenarios(own), draws=FEWER, splits=8)
        low = -1.0 if best is None or math.isnan(best.net.low) else best.net.low
        if low < lowest:
            net = None if best is None else best.net
            lowest, made = low, made | {"least": sort, "least_items": own.height, **interval_columns("least_net", net)}
    return made


def _map_effects(found: t.Outcomes, items: pl.DataFrame, reading: str = t.STRICT) -> t.NetEffects:
    return t.net_effects(found, t.PPT, reading, t.HELD_OUT, items=items)


def _ceiling(best: CellEffect | None, patch: CellEffect | None) -> tuple[str | None, Interval | None, int | None]:
    """The move that has the largest net effect of the direct patch and all controls, each where it does most; its
    interval, and for the patch its layer."""
    found = {} if best is None else dict(best.controls)
    if patch is not None:
        found = {t.PATCH: patch.net, **found}
    known = {name: one for name, one in found.items() if not math.isnan(one.estimate)}
    if not known:
        return None, patch.net if patch else None, patch.layer if patch else None
    name = max(known, key=lambda one: known[one].estimate)
    return name, known[name], patch.layer if patch is not None and name == t.PATCH else None


def _of_ceiling(best: CellEffect | None, top: Interval | None) -> t.Record:
    """The net effect and its excess over the largest control, as shares of the ceiling; None where that is not
    significantly above zero."""
    if best is None or top is None or not top.low > 0:
        return {"net_of_ceiling": None, "adjusted_of_ceiling": None}
    return {
        "net_of_ceiling": best.net.estimate / top.estimate,
        "adjusted_of_ceiling": best.adjusted.estimate / top.estimate,
    }


def _at(found: t.Outcomes, items: pl.DataFrame, best: CellEffect | None, own: t.NetEffects) -> t.Record:
    """What stands beside the cell that was chosen most often: the leave-one-out error, displacement, and whether it is
    at the edge of the strengths while the effect still grows there."""
    if best is None:
        return {}
    maps = found.maps.filter(layer=best.layer, map=t.PPT, fitted=t.HELD_OUT)
    moves = found.moves.filter(map=t.PPT, fitted=t.HELD_OUT, layer=best.layer).join(items, on="item", how="semi")
    means = np.nan_to_num(np.nanmean(own.at(best.layer), axis=0))
    place = [alpha for layer, alpha in own.cells if layer == best.layer].index(best.alpha)
    edge = len(means) > 1 and place in (0, len(means) - 1)
    edge = edge and bool(means[place] > means[1 if place == 0 else -2] + GROWS)
    return {
        "error": maps["error"].sort().mean(),
        "displacement": moves.filter(alpha=best.alpha)["displacement_true"].median(),
        "alpha_at_edge": edge,
    }


def _items_needed(best: CellEffect | None) -> int | None:
    """So many eligible items would narrow the wider of the two intervals to WHOLE on either side."""
    if best is None:
        return None
    half = max((one.high - one.low) / 2 for one in (best.net, best.adjusted))
    return round(best.items * (half / WHOLE) ** 2) if half == half else None


def by_layer(found: t.Outcomes) -> Iterator[t.Record]:
    """The table `net_by_layer`: the map and every control, in each layer with the alpha that the other half chooses."""
    items = found.select()
    of = t.number_scenarios(items)
    every = {t.PPT: _map_effects(found, items), **control_effects(found, items=items)}
    every[t.PATCH] = t.net_effects(found, t.PATCH, t.STRICT, items=items)
    for name, effects in every.items():
        for layer in dict.fromkeys(layer for layer, _ in effects.cells):
            cells = tuple(cell for cell in effects.cells if cell[0] == layer)
            best = cell_effect(t.NetEffects(effects.at(layer), cells), {}, of, draws=FEWER, splits=4)
            if best is None:
                continue
            mean = float(effects.at(layer).mean())
            yield {
                **{**found.arm, "map": name, "layer": layer, "items": best.items, **interval_columns("net", best.net)},
                **{"alpha": best.alpha, "chosen_share": best.share, "mean_over_alphas": mean},
            }


def controls(found: t.Outcomes) -> Iterator[t.Record]:
    """The table `controls`: each control, and the difference between the map and that control alone."""
    items = found.select()
    own, of = _map_effects(found, items), t.number_scenarios(items)
    for name, effects in control_effects(found, items=items).items():
        best = cell_effect(own, {name: effects}, of, draws=FEWER, splits=8)
        alone = cell_effect(effects, {}, of, draws=FEWER, splits=8)
        if best is None or alone is None:
            continue
        p = over_cells(own, {name: effects}, of).get("p_over_controls")
        difference, p = agree(best.adjusted, p, best.scenarios)
        yield {
            **{**found.arm, "control": name, "items": best.items, **interval_columns("net", alone.net)},
            **{"layer": alone.layer, "alpha": alone.alpha, **interval_columns("difference", difference), "p": p},
        }


# The readings of the table, each with the flips that it counts, and whether it counts only those of the eligible items
# whose tellings to "you" are answered rightly, too
_READ: Mapping[str, tuple[str, bool]] = {
    "strict, eligible items": (t.STRICT, False),
    'strict, right as "you", too': (t.STRICT, True),
    "choices only, eligible items": (t.CHOICES, False),
    "strict, choices as listed": ("order_0", False),
    "strict, choices reversed": ("order_1", False),
}


def readings(found: t.Outcomes) -> Iterator[t.Record]:
    """The table `readings`: the headline again under other readings of the same answers."""
    for name, (reading, understood) in _READ.items():
        items = found.select(reading)
        items = items.filter("understood") if understood else items
        own = _map_effects(found, items, reading)
        same = reading == t.STRICT and not understood  # the headline itself, which must say the same twice
        more = {} if same else {"draws": FEWER}
        best = cell_effect(own, control_effects(found, reading, items=items), t.number_scenarios(items), **more)
        if best is not None:
            kept = {"items": best.items, **_cell_columns(best)}
            yield {**found.arm, "reading": name, **{key: kept[key] for key in _SHOWN}}


_SHOWN = (
    *("items", "net", "net_low", "net_high", "control", "control_net"),
    *("adjusted", "adjusted_low", "adjusted_high"),
)


def transfer(found: t.Outcomes) -> Iterator[t.Record]:
    """The table `transfer`: a map that was fitted on one family of stories, tried on the eligible items of another."""
    fitted = set(found.moves["fitted"].drop_nulls().unique()) - {t.HELD_OUT, t.TRUE_PAIRS, t.IN_SAMPLE}
    eligible = found.select()
    for source in sorted(fitted):
        for family in sorted(set(eligible["family"]) - {source}):
            items = eligible.filter(family=family)
            of = t.number_scenarios(items)
            own = t.net_effects(found, t.PPT, t.STRICT, source, items=items)
            others = {
                name: t.net_effects(found, name, t.STRICT, source, items=items)
                for name in (t.SHUFFLED_PAIRS, t.IDENTITY)
            }
            best = cell_effect(own, others, of, draws=DRAWS // 2, splits=8)
            within = cell_effect(_map_effects(found, items), {}, of, draws=FEWER, splits=8)
            if best is not None:
                yield {
                    **{**found.arm, "fitted_on": source, "applied_to": family, "items": best.items},
                    **{"scenarios": items["cluster"].n_unique(), **_cell_columns(best)},
                    **interval_columns("within", within.net if within else None),
                }


def true_pairs(found: t.Outcomes) -> Iterator[t.Record]:
    """The table `true_pairs`: a map that was fitted on pairs of true beliefs, too, beside its own controls."""
    items, names = found.select(), (t.PPT, t.SHUFFLED_TARGET, t.SHUFFLED_PAIRS, t.IDENTITY)
    every = {name: t.net_effects(found, name, t.STRICT, t.TRUE_PAIRS, items=items) for name in names}
    own, of = every.pop(t.PPT), t.number_scenarios(items)
    best = cell_effect(own, every, of, draws=FEWER, splits=8)
    if best is None:
        return
    adjusted, p = agree(best.adjusted, over_cells(own, every, of).get("p_over_controls"), best.scenarios)
    yield {
        **{**found.arm, "items": best.items, **_cell_columns(replace(best, adjusted=adjusted))},
        **{"p_over_controls": p, **interval_columns(t.SHUFFLED_TARGET, best.controls[t.SHUFFLED_TARGET])},
    }


ALL = "all"  # all tellings whose states were probed: the false-belief story and its true-belief twin


def probes(found: t.Outcomes) -> Iterator[t.Record]:
    """The table `probes`: accuracy with the labels as they are and with shuffled ones, by layer, holder and telling.
    Selectivity is the mean over items of right with true labels minus right with shuffled ones (Hewitt and Liang, EMNLP
    2019), with a t interval over scenarios. All of them are counted over the answers that have both."""
    key = ["probe", "layer", "told", "item"]
    true = pl.col("labels") == t.TRUE_LABELS
    rows = found.probes.filter(pl.col("right").is_not_null()).with_columns(pl.col("probe", "told").cast(pl.String))
    if rows.is_empty():
        return
    paired = (
        rows.group_by(*key, "order")
        .agg(
            pl.col("cluster").first(),
            right=pl.col("right").filter(true).cast(pl.Float64).mean(),
            shuffled=pl.col("right").filter(~true).cast(pl.Float64).mean(),
            chance=pl.col("chance").cast(pl.Float64).max(),
        )
        .drop_nulls(["right", "shuffled"])
        .group_by(key)
        .agg(pl.col("cluster").first(), pl.col("right", "shuffled", "chance").sort().mean())
        .sort("cluster", "item", "told")
    )
    for probe in t.PROBES:
        for layer in sorted(paired["layer"].unique()):
            own = paired.filter(probe=probe, layer=layer)
            for told in (ALL, t.FALSE, t.TWIN):
                part = own if told == ALL else own.filter(told=told)
                if part.height:
                    yield {**found.arm, "probe": probe, "told": told, "layer": layer, **_accuracy(part)}


def _accuracy(part: pl.DataFrame) -> t.Record:
    scenario = part["cluster"].to_numpy()
    share = _share(part["right"], part["cluster"])
    gain = clustered_mean((part["right"] - part["shuffled"]).to_numpy(), scenario)
    return {
        **{"items": part["item"].n_unique(), "scenarios": part["cluster"].n_unique()},
        **interval_columns("accuracy", share),
        **{"shuffled": part["shuffled"].mean(), "chance": part["chance"].mean()},
        **interval_columns("selectivity", gain),
    }
