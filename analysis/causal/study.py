"""The study of interventions: is there a perspective-taking map inside a model, and does it cause the answer?

    tomserve causal MODEL --items worlds      # measures, and prints these tables
    tomserve analyze RUN --study causal       # the tables of a run that was measured

It reads the table of a measurement (tomserve.causal.table), not answers. The number to judge by is `adjusted`, the
net effect of the map minus that of the largest control in the same cell, at a layer and strength that other scenarios
chose. NOTES says what each table means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import polars as pl

from tomserve.causal.table import (
    FALSE,
    FEW_ITEMS,
    NO_OP,
    OWN,
    OWN_TWIN,
    PATCH,
    SCHEMA,
    TWIN,
    Outcomes,
    Record,
    read_outcomes,
)
from tomserve.stats.selection import NOTHING
from tomserve.studies import BAD, GOOD, OPEN, Card, Context, Excerpt, Layout, Study, Verdict, published_tables
from tomserve.studies.presentation import (
    Row,
    Tables,
    capitalize_first,
    cell_of,
    finite_or_none,
    first_names,
    interval_cell,
    one_line,
    p_value,
    percent,
    readable_name,
    several,
    signed_interval,
    signed_points,
)

from . import tables as causal_tables
from .figures import figures
from .tables import ALL

MARGIN = 0.10
"""A net effect that is surely below this is called no effect; a convention."""

LEVEL = 0.05

CAUSES, REPRODUCES, NO_EFFECT, NOT_SETTLED, NOT_MEASURED = OUTCOMES = (
    "a map takes the perspective and causes the answer",
    "a control reproduces it",
    "no effect",
    "not settled",
    "cannot be measured",
)
TONES = {CAUSES: GOOD, REPRODUCES: BAD, NO_EFFECT: BAD, NOT_SETTLED: OPEN, NOT_MEASURED: OPEN}


def outcome(row: Row) -> tuple[str, str]:
    """The outcome of a row of the table `headline`, and the sentence that says why.

    It cannot be measured with fewer than 50 eligible items, where adding nothing changes answers, where a control was
    not measured in every cell of the map, and where the direct patch of the true-belief state does not clearly move
    answers either. The map causes the answer where the interval of
    adjusted lies above 0 and both max-statistics have p < .05. A control reproduces it where the net effect is above 0,
    the interval of adjusted holds 0 and excludes half of the net effect, so that no cell is left in which the map has
    half of it for itself, and some control does anything in the map's best cell. There is no effect where the interval
    of the net effect lies below MARGIN and is not above 0.
    """
    if why := _why_not_judged(row):
        return NOT_MEASURED, why
    net, low, high = (finite_or_none(row.get(name)) for name in ("net", "net_low", "net_high"))
    adjusted, least, most = (finite_or_none(row.get(name)) for name in ("adjusted", "adjusted_low", "adjusted_high"))
    if net is None or low is None or high is None or adjusted is None or least is None or most is None:
        return NOT_SETTLED, "The intervals are undefined, because the items do not vary or their scenarios are too few."
    p, over = finite_or_none(row.get("p_net")), finite_or_none(row.get("p_over_controls"))
    tested = p is not None and over is not None and max(p, over) < LEVEL
    bounds = f"{signed_interval(row, 'adjusted')} points"
    if least > 0 and tested:
        return CAUSES, (
            f"In its cell the map exceeds the largest control by {bounds}, and so it does over all cells at "
            f"once ({p_value(over or 0.0)} against every control)."
        )
    if low > 0 and least <= 0 and most < max(net / 2, MARGIN / 2) and row.get("control") != NOTHING:
        return REPRODUCES, (
            f"Moves by the map do flip answers ({signed_points(net)} points), but {readable_name(row.get('control'))} "
            f"flips {signed_points(row.get('control_net'))} at the same layer and length; nowhere has the map more "
            f"than {bounds} over its largest control."
        )
    if low <= 0 and high <= MARGIN:
        return NO_EFFECT, (
            f"The net effect is {signed_interval(row, 'net')} points, so that it is at most {signed_points(high)} "
            f"points, which is below the {signed_points(MARGIN)} that would count."
        )
    return NOT_SETTLED, _why_not_settled(row, bounds, least > 0)


def _why_not_judged(row: Row) -> str:
    """Why a row cannot be judged; empty where it can."""
    eligible = int(finite_or_none(row.get("eligible")) or 0)
    if eligible < FEW_ITEMS:
        return (
            f"Only {eligible} of {row.get('items')} items are answered by the false-belief choice in both orders; with "
            f"fewer than {FEW_ITEMS} nothing is said. Measure items that the model gets right before it is moved."
        )
    changed = finite_or_none(row.get("no_op_changes")) or 0.0
    if changed > 0:
        return (
            f"Adding nothing changes {percent(changed)} of the answers, so that the apparatus itself moves them; "
            "measure again in float32 or on another backend."
        )
    if lacking := row.get("controls_lacking"):
        named = ", ".join(readable_name(name) for name in str(lacking).split(", "))
        return (
            f"Not every control was measured in every cell of the map (lacking: {named}), so that nobody knows how "
            "much the largest one does; measure again with all of them."
        )
    ceiling = finite_or_none(row.get("ceiling_low"))
    if ceiling is None or ceiling <= 0:
        reached = signed_points(row.get("ceiling"))
        return (
            f"Even the whole step to the true-belief state has a net effect of only {reached} "
            "points, whose interval does not lie above 0: the answer is not read from the last token of these layers."
        )
    return ""


def _why_not_settled(row: Row, bounds: str, above: bool) -> str:
    text = f"Where it does most, the map exceeds the largest control by {bounds}"
    if above:
        text += ", but over all cells at once it is not clearly above every control"
        p = finite_or_none(row.get("p_over_controls"))
        text += f" ({p_value(p)})" if p is not None else ""
    else:
        text += ", which neither shows an effect nor excludes one"
    needed = finite_or_none(row.get("items_needed"))
    if needed is None:
        return f"{text}."
    return f"{text}. About {max(int(needed), 1):,} eligible items would give an interval of 5 points on either side."


_CAUSE = (
    "Net effect: the share of items whose answer becomes the true-belief choice when the state of the last token is "
    "moved towards the true-belief state, minus that when it is moved as far towards the false-belief state. The map "
    "is fitted without the item's scenario, the layer and strength are chosen on other scenarios, and the largest "
    "control of the same size is taken off. What an edited model does is not what the model computes by itself: the "
    "map is linear, only the last token of one layer was moved, and that a direction can move the answer does not "
    f"say that the model uses it. No effect means below {signed_points(MARGIN)} points, which is a convention."
)
_SPECIFIC = (
    "Each control moves every state as far as the map does, by a map of shuffled pairs, towards another item's target, "
    "by a random map or direction, by no map at all (identity), or by the same step for every item (mean difference). "
    "A difference above 0 says that the control does less, not that nothing else could do as much."
)
_TRANSFER = (
    "The map was fitted on one family of stories and tried on another, against shuffled pairs and identity fitted "
    "alike. That it transfers does not say that it is about belief: families share wording and the form of the choices."
)
_READABLE = (
    "A linear probe was trained on other scenarios; selectivity is its accuracy minus that of a probe of shuffled "
    "labels, in percentage points. It is judged in the layer that the intervention chose, so that no layer is picked "
    "because its probe is good. It reads the words of one of the choices, so that a state which holds the answer "
    "that is about to be given is enough. What can be read is not thereby used: a probe is no evidence about answers."
)


def verdicts(tables: Tables, context: Context) -> Sequence[Verdict]:
    """The verdict of each model, with four cards for each benchmark on which it was measured.

    tables: by name. context: what a guesser scores, which is not needed: nothing here is about being right.
    """
    del context
    frame = tables.get("headline", pl.DataFrame())
    if not {"model", "benchmark", "eligible"} <= set(frame.columns):
        return []
    found = []
    for model in frame["model"].unique(maintain_order=True):
        rows = frame.filter(model=model).to_dicts()
        cards = [card for row in rows for card in _cards(row, tables, several=len(rows) > 1)]
        lead = tuple(_lead(row, several=len(rows) > 1) for row in rows)
        found.append(Verdict(str(model), lead, tuple(cards)))
    return found


def _lead(row: Row, *, several: bool) -> str:
    where = f"{readable_name(row['benchmark'])}: " if several and row["benchmark"] else ""
    counted = f"{row['eligible']} of {row['items']} items eligible"
    if finite_or_none(row.get("net")) is None:
        return f"{where}{counted}; {outcome(row)[0]}"
    net, adjusted = signed_points(row["net"]), signed_interval(row, "adjusted")
    return f"{where}{counted}; net effect {net} points, at most {adjusted} above its largest control"


def _own(tables: Tables, name: str, row: Row) -> list[Row]:
    frame = tables.get(name, pl.DataFrame())
    if not {"model", "benchmark"} <= set(frame.columns):
        return []
    return frame.filter(model=row["model"], benchmark=row["benchmark"]).to_dicts()


def _cards(row: Row, tables: Tables, *, several: bool) -> list[Card]:
    where = f" ({readable_name(row['benchmark'])})" if several and row["benchmark"] else ""
    return [
        _cause(row, where),
        _specific(row, _own(tables, "controls", row), where),
        _transfers(row, _own(tables, "transfer", row), where),
        _readable(row, _own(tables, "probes", row), where),
    ]


def _cause(row: Row, where: str) -> Card:
    said, why = outcome(row)
    grounds = [("why", why)]
    if finite_or_none(row.get("net")) is not None:
        p, most = finite_or_none(row.get("p_net")), finite_or_none(row.get("null_95"))
        tested = "" if p is None or most is None else (
            f" The largest of all {row['cells']} cells has {p_value(p)}; by chance alone it stays below "
            f"{signed_points(most)} points in 95% of cases."
        )  # fmt: skip
        largest = f"{readable_name(row['control'])} with {signed_points(row['control_net'])} points"
        control = f"the largest control there is {largest}"
        if row["control"] == NOTHING:
            control = "no control is above 0 there"
        grounds.append(("net effect", f"It is {signed_interval(row, 'net')} points, and {control}.{tested}"))
    share = finite_or_none(row.get("adjusted_of_ceiling"))
    if share is not None:
        text = (
            f"The whole step to the true-belief state has {signed_points(row['ceiling'])} points; the most that the "
            f"map has over its largest control is {percent(max(0.0, share))} of that."
        )
        grounds.append(("ceiling", text))
    if (net := finite_or_none(row.get("published_net"))) is not None:
        grounds.append(("as published", _published_clause(row, net)))
    return Card(f"Does it cause the answer?{where}", capitalize_first(said), TONES[said], tuple(grounds), _CAUSE)


def _published_clause(row: Row, net: float) -> str:
    text = (
        "The source's NetEffect (fitted on the very items, the best of all cells, the likelier choice counts) would be "
        f"{net:.2f}".replace("-", "−")
    )
    if row.get("published_control") is None:
        return f"{text}."
    control, value = readable_name(row["published_control"]), finite_or_none(row["published_control_net"]) or 0.0
    verb = "reproduces it" if row.get("reproduced") else "comes closest"
    return f"{text}; {control} {verb} with {value:.2f}.".replace("-", "−")


def _specific(row: Row, rows: list[Row], where: str) -> Card:
    question = f"Is it specific?{where}"
    if not rows or outcome(row)[0] == NOT_MEASURED:
        why = (("controls", "There is no effect that could be compared."),)
        return Card(question, "Not judged", OPEN, why, _SPECIFIC)
    grounds = tuple(
        (
            readable_name(one["control"]),
            f"{signed_points(one['net'])} points by itself; the map exceeds it by {signed_interval(one, 'difference')} "
            "points.",
        )
        for one in rows
    )
    left = [readable_name(one["control"]) for one in rows if not (finite_or_none(one["difference_low"]) or 0.0) > 0]
    if not left and outcome(row)[0] == CAUSES:
        return Card(question, "Yes: every control does less", GOOD, grounds, _SPECIFIC)
    if not left:
        return Card(question, "Each control alone does less; together it is not settled", OPEN, grounds, _SPECIFIC)
    moved = (finite_or_none(row.get("net_low")) or 0.0) > 0
    verdict = f"Not shown against {first_names(left)}" if moved else "There is no effect to be specific"
    tone = BAD if moved and outcome(row)[0] != CAUSES and _is_equalled_by_control(rows) else OPEN
    return Card(question, verdict, tone, grounds, _SPECIFIC)


def _is_equalled_by_control(rows: list[Row]) -> bool:
    """Whether a control surely has more than half of what the map has."""
    return any(
        (finite_or_none(one["difference_low"]) or 0.0) <= 0
        and (most := finite_or_none(one["difference_high"])) is not None
        and most < (finite_or_none(one["net"]) or 0.0) / 2
        for one in rows
    )


def _transfers(row: Row, rows: list[Row], where: str) -> Card:
    question = f"Does it transfer?{where}"
    if not rows or outcome(row)[0] == NOT_MEASURED:
        why = "The effect cannot be measured." if rows else "There are no two families of stories with enough items."
        return Card(question, "Not measured", OPEN, (("families", why),), _TRANSFER)
    grounds = []
    clear, none = [], []
    for one in rows:
        name = f"{readable_name(one['fitted_on'])} to {readable_name(one['applied_to'])}"
        least, most = finite_or_none(one["adjusted_low"]), finite_or_none(one["adjusted_high"])
        net, more = signed_interval(one, "net"), signed_interval(one, "adjusted")
        text = f"Net effect {net} points, {more} above the larger control"
        if finite_or_none(one["within"]) is not None:
            text += f"; fitted across families it is {signed_points(one['within'])}"
        grounds.append((name, f"{text}; {one['items']} items."))
        clear.append(least is not None and least > 0)
        none.append(most is not None and most <= MARGIN)
    if all(clear):
        return Card(question, "Yes", GOOD, tuple(grounds), _TRANSFER)
    if any(clear):
        return Card(question, "In one direction, not shown in the other", OPEN, tuple(grounds), _TRANSFER)
    verdict, tone = ("No", BAD) if all(none) else ("Not shown", OPEN)
    return Card(question, verdict, tone, tuple(grounds), _TRANSFER)


def _readable(row: Row, rows: list[Row], where: str) -> Card:
    question = f"Is the belief readable?{where}"
    if not rows:
        why = "The items do not say whose belief is which, so that nothing could be probed."
        return Card(question, "Not measured", OPEN, (("probes", why),), _READABLE)
    grounds = []
    tone, verdict = OPEN, "Not shown"
    for probe in dict.fromkeys(str(one["probe"]) for one in rows):
        told = FALSE if probe == "protagonist" and any(one["told"] == FALSE for one in rows) else ALL
        own = [one for one in rows if one["probe"] == probe and one["told"] == told]
        if not own:
            continue
        layer = row.get("layer") if row.get("layer") in [one["layer"] for one in own] else own[len(own) // 2]["layer"]
        at = next(one for one in own if one["layer"] == layer)
        grounds.append((readable_name(probe), _probe_sentence(at, own)))
        if probe == "protagonist":
            low, high = finite_or_none(at["selectivity_low"]), finite_or_none(at["selectivity_high"])
            clear, none = low is not None and low > 0, high is not None and high < MARGIN
            verdict, tone = ("Yes", GOOD) if clear else ("No", BAD) if none else ("Not shown", OPEN)
    return Card(question, verdict, tone, tuple(grounds), _READABLE)


def _probe_sentence(at: Row, own: list[Row]) -> str:
    best = max(own, key=lambda one: finite_or_none(one["selectivity"]) or -1.0)
    where = " in false-belief stories" if at["told"] == FALSE else ""
    text = (
        f"In layer {at['layer']} it is read right in {percent(at['accuracy'])} of the items{where} (shuffled labels "
        f"{percent(at['shuffled'])}, by the label's frequency {percent(at['chance'])}): selectivity "
        f"{signed_interval(at, 'selectivity')} points."
    )
    if best["layer"] != at["layer"]:
        text += f" The largest of any layer is {signed_points(best['selectivity'])} (layer {best['layer']})."
    return text


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
_CONTROLS_READING = (
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
_TRANSFER_READING = "net and adjusted as above; within: maps fitted on both families, without the item's scenario."


def summary(tables: Tables) -> list[Excerpt]:
    """What the terminal prints: the headline, the controls, how else it could be read, references, probes, transfer."""
    return [excerpt for excerpt in _excerpts(tables) if excerpt.frame.height]


def _excerpts(tables: Tables) -> Iterator[Excerpt]:
    empty = pl.DataFrame()
    if (frame := tables.get("headline", empty)).height:
        yield Excerpt("does it cause the answer?", _headline(frame), ("headline",), _HEADLINE)
        counted = frame.filter(pl.col("published_net").is_not_null())
        yield Excerpt("as its source counts", _published_excerpt(counted), ("headline",), _PUBLISHED)
    if (frame := tables.get("controls", empty)).height:
        columns = (*_who(frame), _name("control"), _with("net"), _with("difference", "map minus it [95%]"), _p())
        yield Excerpt("the map beside its controls", frame.select(*columns), ("controls",), _CONTROLS_READING)
    if (frame := tables.get("readings", empty)).height:
        columns = (*_who(frame), pl.col("reading"), pl.col("items"), _with("net"), _with("adjusted"))
        yield Excerpt("the same under other readings", frame.select(*columns), ("readings",), _READINGS)
    if (frame := tables.get("references", empty)).height:
        yield Excerpt("what needs no map", _references(frame), ("references",), _REFERENCES)
    if (frame := tables.get("probes", empty)).height:
        yield Excerpt("what a linear probe reads", _probes(frame), ("probes",), _PROBES)
    if (frame := tables.get("transfer", empty)).height:
        names = (pl.col("fitted_on").alias("from"), pl.col("applied_to").alias("to"))
        columns = (*_who(frame), *names, pl.col("items"), _with("net"), _with("adjusted"), cell_of("within"))
        yield Excerpt("from one family of stories to another", frame.select(*columns), ("transfer",), _TRANSFER_READING)
    if (frame := tables.get("answers", empty)).height:
        columns = (cell_of("share_false", "false"), cell_of("share_true", "true"), cell_of("right"), cell_of("unread"))
        told = pl.col("told").cast(pl.String).replace(_TOLD)
        order = pl.col("order").cast(pl.String).replace({"0": "as listed", "1": "reversed"})
        kept = frame.select(*_who(frame), told, order, "items", *columns)
        yield Excerpt("before anything was moved", kept, ("answers",), _ANSWERS)


def _who(frame: pl.DataFrame) -> list[pl.Expr]:
    """The columns that tell models and benchmarks apart, as far as there are several."""
    return [pl.col("model"), *map(pl.col, several(frame, "benchmark"))]


def _name(column: str) -> pl.Expr:
    return pl.col(column).str.replace_all("_", " ", literal=True)


def _with(column: str, name: str = "") -> pl.Expr:
    return interval_cell(column, f"{column}_low", f"{column}_high", name or f"{column} [95%]")


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
        pl.format("{} {}", _name("control"), cell_of("control_net"))
    )  # fmt: skip
    return frame.select(
        *_who(frame),
        pl.format("{}/{}", "eligible", "items").alias("eligible"),
        *(_with("net"), control.alias("largest control"), _with("adjusted")),
    )


def _published_excerpt(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(
        *_who(frame),
        *(cell_of("published_net", "NetEffect"), pl.col("published_layer").alias("layer")),
        *(_alpha("published_alpha"), _name("published_control").alias("closest control")),
        *(cell_of("published_control_net", "its"), _yes("reproduced").alias("reproduces it")),
    )


def _references(frame: pl.DataFrame) -> pl.DataFrame:
    """Each reference in the layer in which it changes the most."""
    most = frame.sort("changed", descending=True, nulls_last=True, maintain_order=True)
    kept = most.unique([*("model", "benchmark"), "map"], keep="first", maintain_order=True)
    order = {name: place for place, name in enumerate(dict.fromkeys(frame["map"]))}
    kept = kept.sort("model", "benchmark", pl.col("map").replace_strict(order), maintain_order=True)
    named = _name("map").alias("reference")
    net = pl.when(pl.col("net").is_null()).then(pl.lit("–")).otherwise(cell_of("net")).alias("net")
    return kept.select(*_who(frame), named, pl.col("layer"), cell_of("changed"), cell_of("flip_true", "to true"), net)


def _probes(frame: pl.DataFrame) -> pl.DataFrame:
    """Each probe in the layer where it is most selective; the notes say that the best of several is too good."""
    own = frame.filter(told=ALL).sort("selectivity", descending=True, nulls_last=True, maintain_order=True)
    best = own.unique(["model", "benchmark", "probe"], keep="first", maintain_order=True)
    best = best.sort("model", "benchmark", "probe", maintain_order=True)
    shown = (pl.col("probe"), pl.col("layer").alias("best layer"), cell_of("accuracy", "right"))
    return best.select(*_who(frame), *shown, _with("selectivity", "minus shuffled [95%]"))


def warnings(tables: Tables) -> list[str]:
    """One line for each reason to doubt the numbers."""
    frame = tables.get("headline", pl.DataFrame())
    named = several(frame, "benchmark")
    found: list[str] = []
    for row in frame.iter_rows(named=True):
        who = f"{row['model']}, {readable_name(row['benchmark'])}" if named else str(row["model"])
        found += [f"{who}: {said}" for said in _doubts(row, tables.get("references", pl.DataFrame()))]
    return list(dict.fromkeys(found))


def _doubts(row: Row, references: pl.DataFrame) -> Iterator[str]:
    eligible, items = int(str(row["eligible"])), row["items"]
    if eligible < FEW_ITEMS:
        yield f"only {eligible} of {items} items are eligible; at least {FEW_ITEMS} are needed to say anything"
    if (changed := finite_or_none(row.get("no_op_changes"))) is not None and changed > 0:
        yield f"adding nothing changes {percent(changed)} of the answers, so that nothing here can be trusted"
    if not row.get("no_op_moves"):
        yield "it was not measured whether adding nothing changes answers (no_op)"
    if lacking := row.get("controls_lacking"):
        named = one_line(lacking, 160).replace("_", " ")
        yield f"controls that were not measured in every cell of the map: {named}; measure again"
    layer = row.get("layer")
    if (error := finite_or_none(row.get("error"))) is not None and error >= 1:
        yield f"in the chosen layer {layer} the leave-one-out error is {error:.2f}: no map at all (1 is a map to zero)"
    if (length := finite_or_none(row.get("displacement"))) is not None and length > 1:
        yield f"in the chosen cell a step is {length:.1f} times as long as the state that it moves"
    if row.get("alpha_at_edge") and (finite_or_none(row.get("net_low")) or 0.0) > 0:
        alpha = f"{finite_or_none(row.get('alpha')):g}"
        yield f"the chosen alpha, {alpha}, is at the edge of those tried; try more beyond it"
    lost = (finite_or_none(row.get("eligible")) or 0) - (finite_or_none(row.get("counted")) or 0)
    if finite_or_none(row.get("counted")) is not None and lost:
        yield f"{lost:.0f} eligible items lack some of the moves and are not counted"
    yield from _wide(row, references)


def _wide(row: Row, references: pl.DataFrame) -> Iterator[str]:
    low, high = finite_or_none(row.get("adjusted_low")), finite_or_none(row.get("adjusted_high"))
    if low is not None and high is not None and high - low > 4 * MARGIN / 2 and outcome(row)[0] == NOT_SETTLED:
        needed = finite_or_none(row.get("items_needed"))
        more = f"; about {needed:,.0f} eligible items would settle it" if needed is not None else ""
        yield f"the interval of adjusted is {100 * (high - low):.0f} points wide{more}"
    if references.height and not {NO_OP, PATCH} <= set(_maps(references, row)):
        absent = sorted({NO_OP, PATCH} - set(_maps(references, row)))
        yield f"references that were not measured: {', '.join(absent)}"


def _maps(references: pl.DataFrame, row: Row) -> Sequence[str]:
    return references.filter(model=row["model"], benchmark=row["benchmark"])["map"].unique().to_list()


_ELIGIBLE = (
    "An item is eligible if the model answered it by the false-belief choice before anything was moved, in both orders "
    "of its choices, where an answer counts only if the likeliest token of the whole vocabulary begins a choice."
)
_NET = (
    "net is the net effect: the share of eligible items whose answer becomes the true-belief choice when the state is "
    "moved towards the true-belief state, minus that when it is moved towards the false-belief state (each item is the "
    "mean over its two orders), from -1 to 1"
)
_CHOSEN = (
    "The layer and the strength alpha are chosen on half of the scenarios and measured on the other half, which then "
    "change places; the mean over several such splits is shown. net_low and net_high are the ends of the 95% interval "
    "over scenarios, which repeats the choice in every draw; layer and alpha are what was chosen most often, and "
    "chosen_share in which share of the splits"
)
_CONTROLS = (
    "shuffled_pairs: a map fitted on pairs put together at random; shuffled_target: the map, aimed at the state of "
    "another item; random_map: a random map with the same singular values; random_direction: a random direction; "
    "identity: no map at all; shifted_identity: the same after both means are taken off; seen_identity: the same "
    "within what the map sees, which leaves out what only the target's states vary in; mean_difference: the same step "
    "for every item. Each is scaled to move every state as far as the map does."
)

NOTES = {
    "headline": f"A row for each model and benchmark. {_ELIGIBLE} {_NET}. {_CHOSEN}. control is the control that was "
    "the largest most often in the cell that is the map's best one (nothing, where none was above 0), control_net the "
    "net effect of the largest one there, on the scenarios that did not choose it. adjusted is what the map has over "
    "the largest control in the cell where that is most (adjusted_layer, adjusted_alpha; mostly another cell than the "
    "map's best one, so that it is not net minus control_net), on the scenarios that did not choose it, with its "
    "interval: this is the number to judge by; adding nothing, whose effect is 0, is a control as well. p_net: how "
    "often the largest net effect of all cells is as large when the signs of whole scenarios are flipped at random; "
    "null_95: what that largest value stays below in 95% of the flips. p_over_controls is the same for "
    "what the map has over the largest control in one and the same cell. ceiling is the net effect of the patch, the "
    "whole step from the item's state to its true-belief state, in the best layer, chosen likewise; net_of_ceiling and "
    "adjusted_of_ceiling are shares of it, and empty where it is not clearly above 0. no_op_changes is the share of "
    "answers that change although nothing is added, and must be 0. counted: the eligible items that have every move. "
    "controls_lacking: controls that were not measured in every cell of the map; then nothing is said of the map. "
    "error is the leave-one-out error of the map in the chosen layer, displacement the length of its step relative "
    "to the state, alpha_at_edge whether the chosen strength is the weakest or the strongest that was tried. "
    "items_needed: so many eligible items would give intervals of 5 points on either side, if they vary as these do. "
    "published_net counts as the source does: the map is fitted on the items on which it is tried, the likelier "
    "choice counts whatever else the model would say, and the largest of all cells with alpha from 0.0001 to 0.01 is "
    "reported; published_control comes closest to it by the same measure (its map is fitted without the item), and "
    "reproduced says whether it reaches 80% of it.",
    "net_by_layer": f"The map, every control and the patch in each layer. {_NET}. Only alpha is chosen here, on the "
    "other half of the scenarios; alpha is the one chosen most often. mean_over_alphas is the mean over all of them, "
    f"without a choice. Many layers stand here, and the largest of them is too good. {_CONTROLS}",
    "controls": f"Each control with its own best layer and strength. {_NET}. difference is the net effect of the map "
    "minus that of this control alone (or minus 0, where the control is below that), in the cell where that is most, "
    "as the other half of the scenarios chooses it, with its 95% interval; p is that of the largest difference over "
    f"all cells. {_CONTROLS}",
    "cells": "Every layer and strength of every map, without any choice: flip_true and flip_false are the shares of "
    "the eligible items whose answer becomes the true-belief choice under a move towards the true-belief and the "
    "false-belief state, net is their difference, displacement the median length of the step relative to the state. "
    "fitted says whether the map was fitted without the item's scenario (held_out) or on all items (in_sample, as "
    "published). `replace` puts the moved mean of both orders in place of each order's own state.",
    "fits": "How well the maps of each layer fit, as means over folds. error is the leave-one-out error relative to "
    "the length of the states, where 1 is no better than a map to zero; as all states have much in common, one far "
    "below 1 says little by itself, and stands beside that of shuffled_pairs; worst_error the largest of any fold; "
    "penalty is the median ridge penalty that it chose, rank the rank of the map, gain its median singular "
    "value, norm the "
    "median length of the states.",
    "readings": "The headline under other readings of the same answers: over all items, where those that cannot flip "
    "count as 0; by the likelier choice alone, whatever token is the likeliest; in either order of the choices alone. "
    "Where the readings differ much, the answer depends on what is counted.",
    "references": "What needs no map, in each layer over the eligible items. no_op adds nothing, and must change "
    "nothing. patch goes the whole way to the true-belief state of the item (flip_true; the ceiling), or to the "
    "false-belief state as the protagonist saw it (flip_false); patch_twin to the true-belief state as told in the "
    "third person. replace_no_op puts the mean of both orders in place of each order's own: what it changes, "
    "replacement breaks by itself. changed is the share of answers that become another choice, or unreadable.",
    "probes": "What a linear classifier reads out of states of scenarios that it was not trained on. told: in which "
    "telling (all: in all of them). accuracy is the share right with its 95% interval over scenarios, shuffled that of "
    "the same classifier trained on labels shuffled between scenarios, chance that of one who knows only how often "
    "each label is right elsewhere. A label is the words of a choice, and one of the item's own choices is read. "
    "selectivity is accuracy minus shuffled, with a t interval over scenarios: what is read because the state says it, "
    "and not because a classifier can learn anything. What can be read is not thereby used.",
    "transfer": "A map that was fitted on one family of stories (fitted_on), tried on the eligible items of another "
    f"(applied_to). {_NET}. {_CHOSEN}. adjusted is what the map has over the larger of the controls "
    "that were fitted alike (shuffled_pairs and identity) in the cell where that is most; within is the net effect of "
    "maps that were fitted across families, without the item's scenario, on the same items.",
    "answers": "What the model said before anything was moved, by telling and order of the choices (0: as the item "
    "lists them, 1: reversed). false is the false-belief story, own the same as the protagonist saw it, told to you; "
    "own_twin and twin are the stories in which the protagonist noticed, told to you and in the third person. "
    "share_false, share_true and share_other are shares of all answers, unread is the rest; right is the share that "
    "is right there (the false belief in the first two tellings), with its 95% interval over scenarios. A model that "
    "does not answer the tellings to you rightly has no state in them that could be aimed at.",
    "published_causal": "What table 4 of the framework's source prints (Mohanty et al.): the largest NetEffect and the "
    "layers of the peak. Its items, code and answers are not public, it has no controls and no intervals, and its map "
    "was fitted on the items on which it was tried; so these cells cannot be compared with any number here but "
    "published_net, and with that only in how they were counted.",
}
"""The notes by the table's name."""


MADE: Mapping[str, Callable[[Outcomes], Iterator[Record]]] = {
    "headline": causal_tables.headline,
    "controls": causal_tables.controls,
    "net_by_layer": causal_tables.by_layer,
    "readings": causal_tables.readings,
    "references": causal_tables.references,
    "transfer": causal_tables.transfer,
    "probes": causal_tables.probes,
    "fits": causal_tables.fits,
    "cells": causal_tables.cells,
    "answers": causal_tables.answers,
}
"""What makes the rows of each table for one model and benchmark."""


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """Every table of the study, by name; those without rows are left out.

    scores: the table of a measurement (tomserve.causal.table.SCHEMA). intervals: the only way to count. Raises
    ConfigError for a table that is not one, or holds a move twice.
    """
    del intervals
    found = read_outcomes(scores)
    frames = {}
    for name, make in MADE.items():
        rows = [row for one in found for row in make(one)]
        schema = causal_tables.HEADLINE if name == "headline" else None
        frames[name] = pl.DataFrame(rows, schema, infer_schema_length=None).fill_nan(None)
    frames["published_causal"] = published_tables.causal().drop("alpha").drop_nulls()
    return {name: frame for name, frame in frames.items() if frame.height}


STUDY = Study(
    name="causal",
    tables=tables,
    columns=dict(SCHEMA),
    answers=False,
    intervals=("recommended",),
    notes=lambda intervals: NOTES,
    warnings=warnings,
    summary=summary,
    layouts={
        "net_by_layer": Layout("net", ("net_low", "net_high"), rows="map", by="benchmark", columns=("model", "layer")),
        "controls": Layout("difference", ("difference_low", "difference_high"), rows="control", by="benchmark",
                           columns=("model", "benchmark")),
    },
    figures=figures,
    verdicts=verdicts,
)  # fmt: skip
"""The value by which tomserve knows the study."""
