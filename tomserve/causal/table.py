"""The table that a measurement writes: tidy, a row for each case, order, layer, strength and map, and some more.

`kind` says what a row is:

answer  what the model answered before anything was moved. `told`, `order`, `role`, `strict`, `gap`.
move    what it answered after its state was moved. `order`, `layer`, `alpha`, `map`, `target`, `fitted`, `role`,
        `strict`, `gap`, `displacement`, and of the answer before: `role_before`, `strict_before`, `gap_before`.
map     how well a map fits: one row for each layer, map, fold and `fitted`; no item. `layer`, `map`, `fitted`, `fold`,
        `penalty`, `error`, `rank`, `gain`, `norm`.
probe   whether a linear probe read a belief out of the state of an item it was not trained on. `told`, `layer`,
        `probe`, `labels`, `fold`, `right`.

Columns that a kind does not have are null in its rows.
"""

from __future__ import annotations

import polars as pl

ANSWER, MOVE, MAP, PROBE = "answer", "move", "map", "probe"

FALSE, OWN, OWN_TWIN, TWIN = "false", "own", "own_twin", "twin"
"""`told`: which telling of a case. false: the false-belief story f; own: p, as the protagonist saw it, told to "you";
own_twin: p~, the true-belief twin told to "you"; twin: the true-belief twin in the third person."""
TOLD = (FALSE, OWN, OWN_TWIN, TWIN)

TO_TRUE, TO_FALSE = "true", "false"
"""`target`: where a move aims: the true-belief state y~ ("true") or the false-belief state y ("false")."""

ROLES = ("false", "true", "other")
"""`role`: which choice is answered: that of the false belief, that of the true belief, or another one."""

PPT = "perspective"
"""`map`: the perspective-taking map W itself, fitted without the item's scenario."""
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
same layer, alpha and target. shuffled_pairs: W fitted on pairs put together at random; shuffled_target: W as fitted,
the target of another item; random_map: a random map with W's singular values; random_direction: a random direction;
identity: W = I; shifted_identity: W = I after both means are taken off; seen_identity: W = I within what W sees, which
is the move by W that aims at W y~ instead of y~, as if y~, after both means are taken off, were a state like x: it
moves what both kinds of states have in common, and not what only y~ varies in; mean_difference: the same step for
all."""
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

HELD_OUT, IN_SAMPLE = "held_out", "in_sample"
"""`fitted`: W was fitted without the scenario's fold; on all items (as published, for PPT only); any other value is the
name of the family on which it was fitted, for items of another family (transfer: PPT, shuffled_pairs, identity)."""

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
SCHEMA = pl.Schema(_COLUMNS)
"""The columns. `asked_by`: the strategy whose prompt asked. `item` is the id of the false-belief item, `cluster` its
scenario, over which folds and intervals are drawn. `order`: 0 as the item lists its choices, 1 reversed. `role`: which
choice has the highest logit among the choices. `strict`: the likeliest token of the whole vocabulary begins one of the
choices. `gap`: logit of the true-belief choice minus that of the false-belief choice. `displacement`: norm of the step
over the norm of the (order-averaged) state. `penalty`: the ridge penalty lambda chosen by leave-one-out; `error`: the
leave-one-out error of W relative to |y|, where 1 is no better than a map to zero; `rank`: of W; `gain`: the median
singular value; `norm`: the median norm of the states. `chance`: of a probe, the share of its fold that is right by the
most frequent label, of a state's choices, among those the probe was trained on."""
