"""What the terminal shows of the study of interventions, and what it warns of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from tomserve.causal.table import FALSE, FEW_ITEMS, NO_OP, OWN, OWN_TWIN, PATCH, TWIN
from tomserve.studies import Excerpt
from tomserve.studies.showing import Row, Tables
from tomserve.studies.words import cell, finite, p_value, percent, plain, readable

from .outcomes import MARGIN, NOT_SETTLED, outcome
from .probes import ALL

_HEADLINE = (
    "eligible: items that the model answers by the false belief before it is moved. net: the share of them that the "
    "map moves to the true belief, minus the share that it moves when it aims at the false belief. largest "
    "control: in the same cell. adjusted: what the map has over its largest control in the cell where that is most, "
    "with its 95% interval: the number to judge by."
)
_PUBLISHED = (
    "The source's NetEffect: the map is fitted on the very items, the likelier choice counts, and the largest of all "
    "cells is reported. By the same measure the control beside it comes closest. It is no evidence by itself."
)
_CONTROLS = (
    "Controls move every state as far as the map does. map minus it: what the map has over it in the layer and at "
    "the strength where that is most, with its 95% interval over scenarios; cells are chosen by other scenarios."
)
_ANSWERS = (
    "Shares of the answers before anything was moved, by how the story is told and how its choices are ordered. false, "
    "true: by the false and by the true belief. right: by what is right in that telling. unread: the likeliest token "
    "begins none of the choices."
)
_TOLD = {FALSE: "false belief", OWN: "its p, to you", OWN_TWIN: "its twin, to you", TWIN: "its twin"}
"""How the tellings of a case are called in a narrow table."""
_READINGS = "The same effect, counted otherwise. Where these rows differ much, it depends on what is counted."
_REFERENCES = (
    "changed: answers that become another one. Adding nothing (no op) must change nothing; patch goes the whole way "
    "to the true-belief state, and is what a map could reach; replace no op shows what replacing a state breaks by "
    "itself. net: – where a reference has no side that aims at the false belief."
)
_PROBES = (
    "right: share of held-out items that a linear probe reads right; minus shuffled: how much less one of shuffled "
    "labels does, with its 95% interval. What can be read is not thereby used."
)
_TRANSFER = "net and adjusted as above; within: maps fitted on both families, without the item's scenario."


def summary(tables: Tables) -> list[Excerpt]:
    """What the terminal prints: the headline, the controls, how else it could be read, references, probes, transfer."""
    return [excerpt for excerpt in _excerpts(tables) if excerpt.frame.height]


def _excerpts(tables: Tables) -> Iterator[Excerpt]:
    empty = pl.DataFrame()
    if (frame := tables.get("headline", empty)).height:
        yield Excerpt("does it cause the answer?", _headline(frame), ("headline",), _HEADLINE)
        counted = frame.filter(pl.col("published_net").is_not_null())
        yield Excerpt("as its source counts", _published(counted), ("headline",), _PUBLISHED)
    if (frame := tables.get("controls", empty)).height:
        columns = (*_who(frame), _name("control"), _with("net"), _with("difference", "map minus it [95%]"), _p())
        yield Excerpt("the map beside its controls", frame.select(*columns), ("controls",), _CONTROLS)
    if (frame := tables.get("readings", empty)).height:
        columns = (*_who(frame), pl.col("reading"), pl.col("items"), _with("net"), _with("adjusted"))
        yield Excerpt("the same under other readings", frame.select(*columns), ("readings",), _READINGS)
    if (frame := tables.get("references", empty)).height:
        yield Excerpt("what needs no map", _references(frame), ("references",), _REFERENCES)
    if (frame := tables.get("probes", empty)).height:
        yield Excerpt("what a linear probe reads", _probes(frame), ("probes",), _PROBES)
    if (frame := tables.get("transfer", empty)).height:
        names = (pl.col("fitted_on").alias("from"), pl.col("applied_to").alias("to"))
        columns = (*_who(frame), *names, pl.col("items"), _with("net"), _with("adjusted"), _of("within"))
        yield Excerpt("from one family of stories to another", frame.select(*columns), ("transfer",), _TRANSFER)
    if (frame := tables.get("answers", empty)).height:
        columns = (_of("share_false", "false"), _of("share_true", "true"), _of("right"), _of("unread"))
        told = pl.col("told").cast(pl.String).replace(_TOLD)
        order = pl.col("order").cast(pl.String).replace({"0": "as listed", "1": "reversed"})
        kept = frame.select(*_who(frame), told, order, "items", *columns)
        yield Excerpt("before anything was moved", kept, ("answers",), _ANSWERS)


def _who(frame: pl.DataFrame) -> list[pl.Expr]:
    """The columns that tell models and benchmarks apart, as far as there are several."""
    return [pl.col("model"), *([pl.col("benchmark")] if frame["benchmark"].n_unique() > 1 else [])]


def _name(column: str) -> pl.Expr:
    return pl.col(column).str.replace_all("_", " ", literal=True)


def _of(column: str, name: str = "") -> pl.Expr:
    return pl.col(column).map_elements(cell, pl.String, skip_nulls=False).alias(name or column)


def _with(column: str, name: str = "") -> pl.Expr:
    ends = pl.format("{} [{}, {}]", *(_of(f"{column}{end}") for end in ("", "_low", "_high")))
    alone = pl.when(pl.col(column).is_null()).then(pl.lit("?")).otherwise(_of(column))
    return pl.when(pl.col(f"{column}_low").is_null()).then(alone).otherwise(ends).alias(name or f"{column} [95%]")


def _alpha(column: str) -> pl.Expr:
    """A strength as it is written, since three decimals would make the small ones 0."""
    return pl.col(column).map_elements(lambda alpha: f"{alpha:g}", pl.String).alias("alpha")


def _yes(column: str) -> pl.Expr:
    return pl.when(pl.col(column).is_null()).then(pl.lit("?")).otherwise(
        pl.when(pl.col(column)).then(pl.lit("yes")).otherwise(pl.lit("no"))
    )  # fmt: skip


def _p() -> pl.Expr:
    shown = pl.col("p").map_elements(lambda p: p_value(p).removeprefix("p ").removeprefix("= "), pl.String)
    return shown.fill_null("?").alias("p")


def _headline(frame: pl.DataFrame) -> pl.DataFrame:
    control = pl.when(pl.col("control").is_null()).then(pl.lit("")).otherwise(
        pl.format("{} {}", _name("control"), _of("control_net"))
    )  # fmt: skip
    return frame.select(
        *_who(frame),
        pl.format("{}/{}", "eligible", "items").alias("eligible"),
        *(_with("net"), control.alias("largest control"), _with("adjusted")),
    )


def _published(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(
        *_who(frame),
        *(_of("published_net", "NetEffect"), pl.col("published_layer").alias("layer")),
        *(_alpha("published_alpha"), _name("published_control").alias("closest control")),
        *(_of("published_control_net", "its"), _yes("reproduced").alias("reproduces it")),
    )


def _references(frame: pl.DataFrame) -> pl.DataFrame:
    """Each reference in the layer in which it changes the most."""
    most = frame.sort("changed", descending=True, nulls_last=True, maintain_order=True)
    kept = most.unique([*("model", "benchmark"), "map"], keep="first", maintain_order=True)
    order = {name: place for place, name in enumerate(dict.fromkeys(frame["map"]))}
    kept = kept.sort("model", "benchmark", pl.col("map").replace_strict(order), maintain_order=True)
    named = _name("map").alias("reference")
    net = pl.when(pl.col("net").is_null()).then(pl.lit("–")).otherwise(_of("net")).alias("net")
    return kept.select(*_who(frame), named, pl.col("layer"), _of("changed"), _of("flip_true", "to true"), net)


def _probes(frame: pl.DataFrame) -> pl.DataFrame:
    """Each probe in the layer where it is most selective; the notes say that the best of several is too good."""
    own = frame.filter(told=ALL).sort("selectivity", descending=True, nulls_last=True, maintain_order=True)
    best = own.unique(["model", "benchmark", "probe"], keep="first", maintain_order=True)
    best = best.sort("model", "benchmark", "probe", maintain_order=True)
    shown = (pl.col("probe"), pl.col("layer").alias("best layer"), _of("accuracy", "right"))
    return best.select(*_who(frame), *shown, _with("selectivity", "minus shuffled [95%]"))


def warnings(tables: Tables) -> list[str]:
    """One line for each reason to doubt the numbers."""
    frame = tables.get("headline", pl.DataFrame())
    several = frame.height and frame["benchmark"].n_unique() > 1
    found: list[str] = []
    for row in frame.iter_rows(named=True):
        who = f"{row['model']}, {readable(row['benchmark'])}" if several else str(row["model"])
        found += [f"{who}: {said}" for said in _doubts(row, tables.get("references", pl.DataFrame()))]
    return list(dict.fromkeys(found))


def _doubts(row: Row, references: pl.DataFrame) -> Iterator[str]:
    eligible, items = int(str(row["eligible"])), row["items"]
    if eligible < FEW_ITEMS:
        yield f"only {eligible} of {items} items are eligible; at least {FEW_ITEMS} are needed to say anything"
    if (changed := finite(row.get("no_op_changes"))) is not None and changed > 0:
        yield f"adding nothing changes {percent(changed)} of the answers, so that nothing here can be trusted"
    if not row.get("no_op_moves"):
        yield "it was not measured whether adding nothing changes answers (no_op)"
    if lacking := row.get("controls_lacking"):
        named = plain(lacking, 160).replace("_", " ")
        yield f"controls that were not measured in every cell of the map: {named}; measure again"
    layer = row.get("layer")
    if (error := finite(row.get("error"))) is not None and error >= 1:
        yield f"in the chosen layer {layer} the leave-one-out error is {error:.2f}: no map at all (1 is a map to zero)"
    if (length := finite(row.get("displacement"))) is not None and length > 1:
        yield f"in the chosen cell a step is {length:.1f} times as long as the state that it moves"
    if row.get("alpha_at_edge") and (finite(row.get("net_low")) or 0.0) > 0:
        yield f"the chosen alpha, {finite(row.get('alpha')):g}, is at the edge of those tried; try more beyond it"
    lost = (finite(row.get("eligible")) or 0) - (finite(row.get("counted")) or 0)
    if finite(row.get("counted")) is not None and lost:
        yield f"{lost:.0f} eligible items lack some of the moves and are not counted"
    yield from _wide(row, references)


def _wide(row: Row, references: pl.DataFrame) -> Iterator[str]:
    low, high = finite(row.get("adjusted_low")), finite(row.get("adjusted_high"))
    if low is not None and high is not None and high - low > 4 * MARGIN / 2 and outcome(row)[0] == NOT_SETTLED:
        needed = finite(row.get("items_needed"))
        more = f"; about {needed:,.0f} eligible items would settle it" if needed is not None else ""
        yield f"the interval of adjusted is {100 * (high - low):.0f} points wide{more}"
    if references.height and not {NO_OP, PATCH} <= set(_maps(references, row)):
        absent = sorted({NO_OP, PATCH} - set(_maps(references, row)))
        yield f"references that were not measured: {', '.join(absent)}"


def _maps(references: pl.DataFrame, row: Row) -> Sequence[str]:
    return references.filter(model=row["model"], benchmark=row["benchmark"])["map"].unique().to_list()
