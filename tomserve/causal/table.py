"""The table of a causal measurement: its columns, and which items are eligible and which answers a move flips.

An item is *eligible* if it was answered by the false-belief choice before any intervention, strictly, in both
orders of its choices: only such an answer can become the true-belief one because of a move. A move *flips* an answer
that was the false-belief choice before and is the true-belief choice after. Strictly read, an answer counts only
where the likeliest token of the whole vocabulary begins one of the choices; read by the choices only, the likeliest
choice does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tomserve.errors import ConfigError

ANSWER, MOVE, MAP, PROBE = "answer", "move", "map", "probe"
"""`kind`: what a row is. Columns that a kind does not have are null in its rows.

answer  What the model answered before any intervention: `told`, `order`, `role`, `strict`, `gap`.
move    What it answered after its state was moved: `order`, `layer`, `alpha`, `map`, `target`, `fitted`, `role`,
        `strict`, `gap`, `displacement`, and of the answer before: `role_before`, `strict_before`, `gap_before`.
map     How well a map fits, one row for each layer, map, fold and `fitted`, without an item: `layer`, `map`,
        `fitted`, `fold`, `penalty`, `error`, `rank`, `gain`, `norm`.
probe   Whether a linear probe read a belief out of the state of an item it was not trained on: `told`, `layer`,
        `probe`, `labels`, `fold`, `right`."""

FALSE, OWN, OWN_TWIN, TWIN = "false", "own", "own_twin", "twin"
"""`told`: which telling of a case. false: the false-belief story f; own: p, as the protagonist saw it, told to "you";
own_twin: p~, the true-belief twin told to "you"; twin: the true-belief twin in the third person."""
TOLD = (FALSE, OWN, OWN_TWIN, TWIN)

TO_TRUE, TO_FALSE = "true", "false"
"""`target`: where a move aims: the true-belief state y~ ("true") or the false-belief state y ("false")."""

ROLES = ("false", "true", "other")
"""`role`: which choice is answered: that of the false belief, that of the true belief, or another one."""

PPT = "perspective"  # `map`: the perspective-taking map W itself, fitted without the item's scenario
SHUFFLED_PAIRS, SHUFFLED_TARGET, RANDOM_MAP, RANDOM_DIRECTION = (
    "shuffled_pairs",
    "shuffled_target",
    "random_map",
    "random_direction",
)
IDENTITY, SHIFTED_IDENTITY, SEEN_IDENTITY, MEAN_DIFFERENCE = (
    "identity",
    "shifted_identity",
    "seen_identity",
    "mean_difference",
)
CONTROLS = (
    *(SHUFFLED_PAIRS, SHUFFLED_TARGET, RANDOM_MAP, RANDOM_DIRECTION),
    *(IDENTITY, SHIFTED_IDENTITY, SEEN_IDENTITY, MEAN_DIFFERENCE),
)
"""`map`: controls with the same norm budget: the displacement of every item is scaled to that of `perspective` at the
same layer, alpha and target, those of the second line never beyond their own whole step. shuffled_pairs: W fitted on
pairs put together at random; shuffled_target: W as fitted, the target of another item; random_map: a random map with
W's singular values; random_direction: a random direction; identity: W = I; shifted_identity: W = I after both means are
taken off; seen_identity: W = I within what W sees, which is the move by W that aims at W y~ instead of y~, as if y~,
after both means are taken off, were a state like x: it moves what both kinds of states have in common, and not what
only y~ varies in; mean_difference: the same step for all."""
NO_MAP = (IDENTITY, SHIFTED_IDENTITY, SEEN_IDENTITY)  # the controls that go straight to the target, without a map
NO_OP, PATCH, PATCH_TWIN, REPLACE_NO_OP, REPLACE = REFERENCES = (
    "no_op",
    "patch",
    "patch_twin",
    "replace_no_op",
    "replace",
)
"""`map`: references at their own norm. no_op: nothing is added, and nothing may flip; patch: the target state itself
(y~ is the ceiling, y its false-belief side); patch_twin: the third-person true-belief state; replace_no_op: the state
averaged over both orders in place of each order's own (it lacks the symbol); replace: that state moved by W. All but
`replace` have no alpha."""
MAPS = (PPT, *CONTROLS, *REFERENCES)

HELD_OUT, TRUE_PAIRS, IN_SAMPLE = "held_out", "true_pairs", "in_sample"
"""`fitted`: W was fitted without the scenario's fold; the same on true-belief pairs, too, from the twin in the third
person to that told to "you" (PPT, shuffled_pairs, shuffled_target, identity); on all items (as published: replace,
shuffled_pairs and identity, which all replace the state); any other value is the name of the family on which it was
fitted, for items of another family (transfer: PPT, shuffled_pairs, identity)."""

TRUE_LABELS, SHUFFLED_LABELS = "true", "shuffled"
"""`labels`: whether a probe learned the labels as they are, or shuffled ones (the control task)."""
PROBES = ("protagonist", "other", "reality")
"""`probe`: whose belief (or what is really so) a probe reads: see tomserve.benchmarks.counterfactuals.Case.holders."""

_COLUMNS: dict[str, pl.DataType | type[pl.DataType]] = {
    "run": pl.String,
    "model": pl.String,
    "benchmark": pl.String,
    "asked_by": pl.String,
    "item": pl.String,
    "cluster": pl.String,
    "family": pl.String,
    "parted": pl.String,
    "kind": pl.Enum((ANSWER, MOVE, MAP, PROBE)),
    "told": pl.Enum(TOLD),
    "order": pl.Int8,
    "layer": pl.Int16,
    "alpha": pl.Float64,
    "map": pl.Enum(MAPS),
    "target": pl.Enum((TO_TRUE, TO_FALSE)),
    "fitted": pl.String,
    "role_before": pl.Enum(ROLES),
    "strict_before": pl.Boolean,
    "gap_before": pl.Float32,
    "role": pl.Enum(ROLES),
    "strict": pl.Boolean,
    "gap": pl.Float32,
    "displacement": pl.Float32,
    "fold": pl.Int8,
    "penalty": pl.Float64,
    "error": pl.Float64,
    "rank": pl.Int32,
    "gain": pl.Float64,
    "norm": pl.Float64,
    "probe": pl.Enum(PROBES),
    "labels": pl.Enum((TRUE_LABELS, SHUFFLED_LABELS)),
    "right": pl.Boolean,
    "chance": pl.Float32,
}
OPTIONAL = ("parted",)  # columns that older tables lack
SCHEMA = pl.Schema(_COLUMNS)
"""`asked_by`: the strategy whose prompt asked. `item`: of the false-belief item. `cluster`: its scenario, over which
folds and intervals are drawn. `parted`: how a surface cue parts from the belief in the item, in the rows of answers
(tomserve.benchmarks.counterfactuals.PARTED); null where none does, and in older tables. `order`: 0 as the item lists
its choices, 1 reversed. `role`: the likeliest choice. `strict`: the likeliest token of all begins a choice. `gap`:
logit of the true-belief choice minus that of the false-belief choice. `displacement`: norm of the step over that of the
(order-averaged) state. `penalty`: lambda, and `error`, relative to |y| (1: no better than a map to zero), by leaving
out scenarios. `gain`: the median singular value. `norm`: the median norm of the states. `chance`: of a probe, the share
of its fold that is right by how often each label was right in training."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Record = dict[str, Any]

ARM = ("model", "benchmark")  # the columns that tell apart what was measured: a model, on the items of a benchmark
ITEM = (*ARM, "item")
CELL = ("layer", "alpha", "map", "fitted")
"""The columns that tell apart the moves of one item: after which layer, how strong, by which map, fitted on what."""

STRICT, CHOICES = "strict", "choices"
"""How an answer is read: by the likeliest token of the whole vocabulary, or by the likeliest choice."""
READINGS = (STRICT, CHOICES, "order_0", "order_1")
"""The readings of a flip: strict and choices-only over both orders; strict in either order alone."""

FEW_ITEMS = 50  # with fewer eligible items nothing is said of a model's mechanism


@dataclass(frozen=True)
class Outcomes:
    """What was measured of one model on one benchmark.

    items: a row for each item with `cluster`, `family`, `parted`, `eligible` (strictly), `eligible_choices` (by the
    choices only), `answered`, the share of its orders answered by the false-belief choice (by the choices only), and
    `understood`, whether its tellings to "you" are answered rightly in both orders (strictly). moves: a row for each
    item, layer, alpha, map and `fitted`, with the shares of its orders that flipped under either target (`strict_true`,
    `strict_false`, ...; null where that was not measured), `changed_...`, the share whose answer became another one or
    unreadable, and `displacement_...`.
    """

    arm: Mapping[str, str]  # model and benchmark
    items: pl.DataFrame
    answers: pl.DataFrame
    moves: pl.DataFrame
    maps: pl.DataFrame
    probes: pl.DataFrame

    def select(self, reading: str = STRICT) -> pl.DataFrame:
        """The items that are eligible under a reading."""
        return self.items.filter(pl.col("eligible_choices" if reading == CHOICES else "eligible"))


@dataclass(frozen=True)
class NetEffects:
    """Net effects of one map: Flip_true minus Flip_false of each item in each cell."""

    values: Floats  # [items, cells] in [-1, 1], NaN where one was not measured
    cells: tuple[tuple[int, float | None], ...]  # (layer, alpha) of each column, in order; the longest step first

    @property
    def layers(self) -> tuple[int, ...]:
        """The layer of each column."""
        return tuple(layer for layer, _ in self.cells)

    def at(self, layer: int) -> Floats:
        """The columns of one layer [items, alphas]."""
        return self.values[:, [place for place, of in enumerate(self.layers) if of == layer]]


def read_outcomes(scores: pl.LazyFrame) -> list[Outcomes]:
    """What was measured, by model and benchmark in the order of their names; the order of the rows does not matter.
    Raises ConfigError for a table that lacks columns or answers to false-belief items, or holds a move twice."""
    known = set(scores.collect_schema().names())
    scores = scores.with_columns(pl.lit(None, SCHEMA[name]).alias(name) for name in OPTIONAL if name not in known)
    if absent := [name for name in SCHEMA if name not in {*known, *OPTIONAL}]:
        raise ConfigError(f"measured table: column {absent[0]!r} is missing; expected a table of tomserve causal")
    scores = scores.with_columns(pl.col(*ARM, "family").cast(pl.String).fill_null(""))
    kinds = scores.filter(pl.col("kind") != MOVE).select(list(SCHEMA)).collect()
    answers = kinds.filter(pl.col("kind") == ANSWER)
    if answers.filter(pl.col("told") == FALSE).is_empty():
        raise ConfigError(
            "measured table: no answers to false-belief items are in it; measure with tomserve causal MODEL"
        )
    items, moves = _items(answers), _moves(scores)
    found = []
    for arm in items.select(ARM).unique().sort(ARM).iter_rows(named=True):
        key = [pl.col(name) == value for name, value in arm.items()]
        found.append(
            Outcomes(
                arm,
                items.filter(key),
                answers.filter(key),
                moves.filter(key),
                kinds.filter(*key, pl.col("kind") == MAP),
                kinds.filter(*key, pl.col("kind") == PROBE),
            )
        )
    return found


def _items(answers: pl.DataFrame) -> pl.DataFrame:
    """A row for each item: its scenario, its family, and whether it is eligible."""
    false, yours = answers.filter(pl.col("told") == FALSE), answers.filter(pl.col("told").is_in((OWN, OWN_TWIN)))
    _once(false, (*ITEM, "order"))
    meant = pl.when(pl.col("told") == OWN).then(pl.lit("false")).otherwise(pl.lit("true"))
    right = pl.col("strict") & (pl.col("role").cast(pl.String) == meant)
    understood = yours.group_by(ITEM).agg(understood=right.all() & (pl.len() == 4))
    said = pl.col("role") == "false"
    both = pl.col("order").n_unique() == 2
    return (
        false.group_by(ITEM)
        .agg(
            pl.col("cluster", "family", "parted").first(),
            eligible=both & (said & pl.col("strict")).all(),
            eligible_choices=both & said.all(),
            answered=said.mean(),
        )
        .join(understood, on=ITEM, how="left")
        .with_columns(pl.col("understood").fill_null(value=False))
        .sort(*ARM, "cluster", "item")
    )


def _once(frame: pl.DataFrame, key: Sequence[str]) -> None:
    if frame.select(key).is_duplicated().any():
        first = frame.filter(pl.struct(key).is_duplicated()).sort(key).row(0, named=True)
        runs = sorted(frame.filter(pl.col("model") == first["model"])["run"].drop_nulls().unique())
        hint = " ".join(f"--label {run}=NAME" for run in runs)
        more = f"; tell the runs apart by {hint}" if len(runs) > 1 else ""
        raise ConfigError(
            f"measured table: item {first['item']!r} of model {first['model']!r} stands in it twice{more}"
        )


def _moves(scores: pl.LazyFrame) -> pl.DataFrame:
    """A row for each item and cell: of its orders, the share that flipped and the share that changed, by target.

    Everything is a sum over at most four rows (two targets in two orders), so that the order of the rows cannot matter.
    """
    columns = [*ITEM, *CELL, "order", "target", "displacement"]
    before, after = pl.col("role_before") == "false", pl.col("role") == "true"
    read = pl.col("strict") & pl.col("strict_before")
    lost = (pl.col("role") != pl.col("role_before")) | (pl.col("strict") != pl.col("strict_before"))
    rows = (
        scores.filter(pl.col("kind") == MOVE)
        .with_columns(choices=before & after, flip=before & after & read, lost=lost)
        .select(*columns, "choices", "flip", "lost")
    )
    parts = []
    for target in (TO_TRUE, TO_FALSE):
        to = (pl.col("target") == target).fill_null(target == TO_TRUE)
        count, first = to.sum(), to & (pl.col("order") == 0)

        def share(hits: str, of: pl.Expr) -> pl.Expr:
            return (pl.col(hits) & of).sum() / of.sum()

        parts += [
            share("flip", to).alias(f"strict_{target}"),
            share("choices", to).alias(f"choices_{target}"),
            share("flip", first).alias(f"order_0_{target}"),
            share("flip", to & ~first).alias(f"order_1_{target}"),
            share("lost", to).alias(f"changed_{target}"),
            (pl.when(to).then(pl.col("displacement")).otherwise(0.0).cast(pl.Float64).sum() / count).alias(
                f"displacement_{target}"
            ),
            count.alias(f"rows_{target}"),
        ]
    found = rows.group_by(*ITEM, *CELL).agg(parts).fill_nan(None).collect()
    double = found.filter(pl.max_horizontal("rows_true", "rows_false") > 2)
    if double.height:
        item = double.sort(ITEM)["item"][0]
        raise ConfigError(
            f"measured table: a move of item {item!r} stands in it more than once for one order and target"
        )
    return found.with_columns(pl.col("map").cast(pl.String))


def net_effects(
    found: Outcomes, name: str, reading: str = STRICT, fitted: str | None = None, *, items: pl.DataFrame
) -> NetEffects:
    """The net effects of the map of that name on these items, rows of `found.items`. reading: of READINGS. fitted: what
    the map was fitted on; None for any, which suits a map that is not fitted."""
    moves = found.moves.filter(pl.col("map") == name)
    if fitted is not None:
        moves = moves.filter(pl.col("fitted") == fitted)
    difference = pl.col(f"{reading}_{TO_TRUE}") - pl.col(f"{reading}_{TO_FALSE}")
    cells = moves.select("layer", "alpha").unique().sort("layer", "alpha", nulls_last=True)
    values = np.full((items.height, cells.height), np.nan)
    if cells.height and items.height:
        placed = (
            moves.select("item", "layer", "alpha", value=difference)
            .join(items.select("item").with_row_index("row"), on="item")
            .join(cells.with_row_index("column"), on=["layer", "alpha"], nulls_equal=True)
        )
        values[placed["row"].to_numpy(), placed["column"].to_numpy()] = placed["value"].to_numpy()
    return NetEffects(values, tuple(cells.rows()))


def find_incomplete(own: NetEffects, controls: Mapping[str, NetEffects]) -> list[str]:
    """The controls that were not measured in exactly the cells of the map, so that nobody knows the largest control."""
    return [name for name, effects in controls.items() if effects.cells != own.cells]


def number_scenarios(items: pl.DataFrame) -> Ints:
    """The scenario of each item as a number, in the order of their names."""
    names = items["cluster"].to_numpy()
    return np.unique(names, return_inverse=True)[1].astype(np.int64)


def find_complete(*effects: NetEffects) -> npt.NDArray[np.bool_]:
    """Which items have a value in every cell of all of these, so that cells can be compared [items]."""
    known: npt.NDArray[np.bool_] = np.all([~np.isnan(one.values).any(axis=1) for one in effects], axis=0)
    return known
