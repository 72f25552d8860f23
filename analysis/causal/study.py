"""The study of interventions: is there a perspective-taking map inside a model, and does it cause the answer?

    tomserve causal MODEL --items worlds      # measures, and prints these tables
    tomserve analyze RUN --study causal       # the tables of a run that was measured

It reads the table of a measurement (tomserve.causal.table), not answers. The number to judge by is `adjusted`, the
net effect of the map minus that of the largest control in the same cell, at a layer and strength that other scenarios
chose.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial

import polars as pl

from tomserve.causal import table as t
from tomserve.reporting.html.charts import draw_figures
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
    is_above,
    is_below,
    mark_of,
    one_line,
    p_value,
    percent,
    readable_name,
    several,
    signed_interval,
    signed_points,
)
from tomserve.studies.texts import Texts

from . import tables as causal_tables
from .figures import MAKERS
from .tables import ALL, LEVEL

UNDERSTOOD = 0.8  # so many of the eligible items should be answered rightly as the protagonist's own; a convention

MARGIN = 0.10  # a net effect that is surely below this is called no effect; a convention

TEXTS = Texts(__file__, margin=signed_points(MARGIN))

CAUSES, NOT_TOLD, NO_MAP, REPRODUCES, NO_EFFECT, NOT_SETTLED, NOT_MEASURED = OUTCOMES = (
    "a map takes the perspective and causes the answer",
    "cannot be told from the surface cue",
    "no map is needed",
    "a control reproduces it",
    "no effect",
    "not settled",
    "cannot be measured",
)
TONES = dict.fromkeys(OUTCOMES, OPEN) | {CAUSES: GOOD, REPRODUCES: BAD, NO_EFFECT: BAD}


def outcome(row: Row) -> tuple[str, str]:
    """The outcome of a row of the table `headline`, and the sentence that says why.

    It cannot be measured with fewer than 50 eligible items, where adding nothing changes answers, where a control was
    not measured in every cell of the map, and where the direct patch of the true-belief state does not clearly move
    answers either. The map causes the answer where the interval of adjusted lies above 0, which says the same as
    p_over_controls below .05 (see `tables.agree`), if it does so, too, where a surface cue parts from the belief, and
    flips answers in each sort of such items; else it cannot be told from the surface cue. A control reproduces it where
    the net effect is above 0, the interval of adjusted holds 0 and excludes half of the net effect, so that no cell is
    left in which the map has half of it for itself, and some control does anything in the map's best cell; no map is
    needed where only controls without a map do so, and the map exceeds all others. There is no effect where the
    interval of the net effect lies below MARGIN and is not above 0."""
    if why := _why_not_judged(row):
        return NOT_MEASURED, why
    net, low, high = (finite_or_none(row.get(name)) for name in ("net", "net_low", "net_high"))
    adjusted, least, most = (finite_or_none(row.get(name)) for name in ("adjusted", "adjusted_low", "adjusted_high"))
    if net is None or low is None or high is None or adjusted is None or least is None or most is None:
        return NOT_SETTLED, "The intervals are undefined, because the items do not vary or their scenarios are too few."
    over = finite_or_none(row.get("p_over_controls"))
    bounds = f"{signed_interval(row, 'adjusted')} points"
    if least > 0 and over is not None and over < LEVEL:
        text = (
            f"In its cell the map exceeds the largest control, at any length up to its own, by {bounds}; over all "
            f"cells at once it has {p_value(over)} against every control."
        )
        # It does its work where a surface cue parts from the belief: above every control over all such items, and
        # above 0 in each sort of them.
        told = is_above(row, "parted_adjusted_low") and is_above(row, "least_net_low")
        return (CAUSES if told else NOT_TOLD), f"{text} {_cue_sentence(row)}"
    if low > 0 and least <= 0 and most < max(net / 2, MARGIN / 2) and row.get("control") != NOTHING:
        does = f"{readable_name(row.get('control'))} flips {signed_points(row.get('control_net'))}"
        text = (
            f"Moves by the map do flip answers ({signed_points(net)} points), but {does} at the same layer and at most "
        )
        text += f"the same length; nowhere has the map more than {bounds} over its largest control."
        if row.get("control") in t.NO_MAP and is_above(row, "over_others_low"):
            return NO_MAP, (
                f"{text} It exceeds every control that does not go straight to the target by "
                f"{signed_interval(row, 'over_others')} points. Either the model holds another's belief as it holds "
                "its own, or the answer is read where its own belief stands."
            )
        return REPRODUCES, text
    if low <= 0 and high <= MARGIN:
        return NO_EFFECT, (
            f"The net effect is {signed_interval(row, 'net')} points, so that it is at most {signed_points(high)} "
            f"points, which is below the {signed_points(MARGIN)} that would count."
        )
    return NOT_SETTLED, _why_not_settled(row, bounds)


def _cue_sentence(row: Row) -> str:
    """What the map does where a surface cue parts from the belief."""
    if not row.get("least"):
        return (
            "In all items what is believed changes together with what the words show, so that a copy of these would do "
            "the same: measure cases in which they part."
        )
    over = ""
    if finite_or_none(row.get("parted_adjusted")) is not None:
        over = f", in which the map has {signed_interval(row, 'parted_adjusted')} points over its largest control"
    least = f"flips {signed_interval(row, 'least_net')} points"
    if finite_or_none(row.get("least_net_low")) is None:
        least = "cannot be measured"
    return (
        f"A surface cue parts from the belief in {row['parted_items']} eligible items{over}; it does least where they "
        f"are {readable_name(row['least'])} ({row['least_items']} items): there it {least}."
    )


def _why_not_judged(row: Row) -> str:
    """Why a row cannot be judged; empty where it can."""
    eligible = int(finite_or_none(row.get("eligible")) or 0)
    if eligible < t.FEW_ITEMS:
        return (
            f"Only {eligible} of {row.get('items')} items are answered by the false-belief choice in both orders; with "
            f"fewer than {t.FEW_ITEMS} nothing is said. Measure items that the model gets right before it is moved."
        )
    if is_above(row, "no_op_changes"):
        return (
            f"Adding nothing changes {percent(row['no_op_changes'])} of the answers, so that the apparatus itself "
            "moves them; measure again in float32 or on another backend."
        )
    if lacking := row.get("controls_lacking"):
        named = ", ".join(readable_name(name) for name in str(lacking).split(", "))
        return (
            f"Not every control was measured in every cell of the map (lacking: {named}), so that nobody knows how "
            "much the largest one does; measure again with all of them."
        )
    if is_above(row, "ceiling_low"):
        return ""
    return (
        f"Even the move that does most, {_ceiling_name(row)}, has a net effect of only "
        f"{signed_points(row.get('ceiling'))} points, whose interval does not lie above 0: the answer is not read from "
        "the last token of these layers."
    )


def _ceiling_name(row: Row) -> str:
    name = row.get("ceiling_move")
    return "the whole step to the true-belief state" if name in (None, t.PATCH) else readable_name(name)


def _why_not_settled(row: Row, bounds: str) -> str:
    text = f"Where it does most, the map exceeds the largest control by {bounds}, which neither shows an effect nor "
    text += "excludes one"
    needed = finite_or_none(row.get("items_needed"))
    if needed is None:
        return f"{text}."
    return f"{text}. About {max(int(needed), 1):,} eligible items would give an interval of 5 points on either side."


def verdicts(tables: Tables, context: Context) -> Sequence[Verdict]:
    """The verdict of each model, with four cards for each benchmark on which it was measured."""
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
        _cause(row, _own(tables, "true_pairs", row), where),
        _specific(row, _own(tables, "controls", row), where),
        _transfers(row, _own(tables, "transfer", row), where),
        _readable(row, _own(tables, "probes", row), where),
    ]


def _cause(row: Row, second: list[Row], where: str) -> Card:
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
            f"The move that does most, {_ceiling_name(row)}, has {signed_points(row['ceiling'])} points; the most that "
            f"the map has over its largest control is {percent(max(0.0, share))} of that."
        )
        grounds.append(("ceiling", text))
    grounds += [("with true-belief pairs", _second_clause(one)) for one in second]
    if (net := finite_or_none(row.get("published_net"))) is not None:
        grounds.append(("as published", _published_clause(row, net)))
    return Card(
        f"Does it cause the answer?{where}",
        capitalize_first(said),
        TONES[said],
        tuple(grounds),
        TEXTS["cause"],
        mark_of("net effect", row, "net", ("net_low", "net_high"), "control_net"),
        signed=True,
    )


def _second_clause(one: Row) -> str:
    text = (
        f"A map that was fitted on pairs of true beliefs, too, has a net effect of {signed_interval(one, 'net')} "
        f"points, {signed_interval(one, 'adjusted')} above its largest control; aimed at another item's target it has "
        f"{signed_interval(one, t.SHUFFLED_TARGET)}."
    )
    if is_above(one, f"{t.SHUFFLED_TARGET}_low") and not is_above(one, "adjusted_low"):
        text += " So it may be a pointer to the present state of a story, which says nothing of labels."
    return text


def _published_clause(row: Row, net: float) -> str:
    text = (
        "The source's NetEffect (fitted on the very items with its ridge penalty, states replaced, the best of all "
        f"cells, the likelier choice counts) would be {net:.2f}".replace("-", "−")
    )
    if row.get("published_control") is None:
        return f"{text}."
    control, value = readable_name(row["published_control"]), finite_or_none(row["published_control_net"]) or 0.0
    verb = "reproduces it" if row.get("reproduced") else "comes closest"
    return f"{text}; {control} {verb} with {value:.2f}.".replace("-", "−")


def _specific(row: Row, rows: list[Row], where: str) -> Card:
    verdict, tone = _how_specific(row, rows)
    grounds = tuple(
        (
            readable_name(one["control"]),
            f"{signed_points(one['net'])} points by itself; the map exceeds it by {signed_interval(one, 'difference')} "
            "points.",
        )
        for one in rows
    )
    if verdict == _NOT_JUDGED:
        grounds = (("controls", "There is no effect that could be compared."),)
    return Card(f"Is it specific?{where}", verdict, tone, grounds, TEXTS["specific"])


_NOT_JUDGED = "Not judged"


def _how_specific(row: Row, rows: list[Row]) -> tuple[str, str]:
    """The verdict on a map beside its controls, and its tone."""
    said = outcome(row)[0]
    if not rows or said == NOT_MEASURED:
        return _NOT_JUDGED, OPEN
    left = [readable_name(one["control"]) for one in rows if not is_above(one, "difference_low")]
    longer = _name_equals(row, rows)
    if not left and said in (CAUSES, NOT_TOLD):
        return f"Yes, at the same length; {longer} by a longer step" if longer else "Yes: every control does less", GOOD
    if said == NO_MAP:
        return f"Not distinguishable from moving straight to the target ({first_names(left)})", OPEN
    if not left:
        more = f"; {longer} by a longer step" if longer else ""
        return f"Each control of the same length does less; jointly undecided{more}", OPEN
    if not is_above(row, "net_low"):
        return "There is no effect", OPEN
    equalled = said not in (CAUSES, NOT_TOLD) and _is_equalled_by_control(rows)
    return f"Not shown against {first_names(left)}", BAD if equalled else OPEN


def _name_equals(row: Row, rows: list[Row]) -> str:
    """The control that does most anywhere, with its number, where that is as much as the map does; else empty."""
    most = max(rows, key=lambda one: finite_or_none(one["net"]) or -1.0)
    value, net = finite_or_none(most["net"]), finite_or_none(row.get("net"))
    if value is None or net is None or value < net:
        return ""
    return (
        f"{readable_name(most['control'])} does as much ({signed_points(value)} points, the map {signed_points(net)})"
    )


def _is_equalled_by_control(rows: list[Row]) -> bool:
    """Whether a control surely has more than half of what the map has."""
    return any(
        not is_above(one, "difference_low")
        and is_below(one, "difference_high", (finite_or_none(one["net"]) or 0.0) / 2)
        for one in rows
    )


def _transfers(row: Row, rows: list[Row], where: str) -> Card:
    question = f"Does it transfer?{where}"
    if not rows or outcome(row)[0] == NOT_MEASURED:
        why = "The effect cannot be measured." if rows else "There are no two families of stories with enough items."
        return Card(question, "Not measured", OPEN, (("families", why),), TEXTS["transfer"])
    grounds = []
    for one in rows:
        name = f"{readable_name(one['fitted_on'])} to {readable_name(one['applied_to'])}"
        net, more = signed_interval(one, "net"), signed_interval(one, "adjusted")
        text = f"Net effect {net} points, {more} above the larger control"
        if finite_or_none(one["within"]) is not None:
            text += f"; fitted across families it is {signed_points(one['within'])}"
        grounds.append((name, f"{text}; {one['items']} items."))
    clear = [is_above(one, "adjusted_low") for one in rows]
    most = [finite_or_none(one["adjusted_high"]) for one in rows]
    verdict, tone = ("No", BAD) if all(top is not None and top <= MARGIN for top in most) else ("Not shown", OPEN)
    if any(clear):
        verdict, tone = ("Yes", GOOD) if all(clear) else ("In one direction, not shown in the other", OPEN)
    return Card(question, verdict, tone, tuple(grounds), TEXTS["transfer"])


def _readable(row: Row, rows: list[Row], where: str) -> Card:
    question = f"Is the belief readable?{where}"
    if not rows:
        why = "The items do not say whose belief is which, so that nothing could be probed."
        return Card(question, "Not measured", OPEN, (("probes", why),), TEXTS["readable"])
    grounds = []
    tone, verdict = OPEN, "Not shown"
    for probe in dict.fromkeys(str(one["probe"]) for one in rows):
        told = t.FALSE if probe == "protagonist" and any(one["told"] == t.FALSE for one in rows) else ALL
        own = [one for one in rows if one["probe"] == probe and one["told"] == told]
        if not own:
            continue
        layer = row.get("layer") if row.get("layer") in [one["layer"] for one in own] else own[len(own) // 2]["layer"]
        at = next(one for one in own if one["layer"] == layer)
        grounds.append((readable_name(probe), _probe_sentence(at, own)))
        if probe == "protagonist":
            verdict, tone = ("No", BAD) if is_below(at, "selectivity_high", MARGIN) else ("Not shown", OPEN)
            if is_above(at, "selectivity_low"):
                verdict, tone = "Yes", GOOD
    return Card(question, verdict, tone, tuple(grounds), TEXTS["readable"])


def _probe_sentence(at: Row, own: list[Row]) -> str:
    if finite_or_none(at["selectivity_low"]) is None:
        return f"Only {at['items']} items of {at['scenarios']} stories have a label that is known elsewhere: too few."
    best = max(own, key=lambda one: finite_or_none(one["selectivity"]) or -1.0)
    where = " in false-belief stories" if at["told"] == t.FALSE else ""
    text = (
        f"In layer {at['layer']} it is read right in {percent(at['accuracy'])} of the items{where} (shuffled labels "
        f"{percent(at['shuffled'])}, by the label's frequency {percent(at['chance'])}): selectivity "
        f"{signed_interval(at, 'selectivity')} points."
    )
    if best["layer"] != at["layer"]:
        text += f" The largest of any layer is {signed_points(best['selectivity'])} (layer {best['layer']})."
    return text


# How the tellings of a case are called in a narrow table
_TOLD = {t.FALSE: "false belief", t.OWN: "its p, to you", t.OWN_TWIN: "its twin, to you", t.TWIN: "its twin"}


def summary(tables: Tables) -> Iterator[Excerpt]:
    """What the terminal prints: the headline, the controls, how else it could be read, references, probes, transfer."""
    empty = pl.DataFrame()
    if (frame := tables.get("published_net", empty)).height:
        yield Excerpt("as its source counts", _published_excerpt(frame), ("published_net",), TEXTS["published"])
    if (frame := tables.get("headline", empty)).height:
        yield Excerpt("does it cause the answer?", _headline(frame), ("headline",), TEXTS["headline"])
        counted = frame.filter(pl.col("published_net").is_not_null())
        yield Excerpt("as its source counts", _published_excerpt(counted), ("headline",), TEXTS["published"])
    if (frame := tables.get("controls", empty)).height:
        columns = (*_who(frame), _name("control"), _with("net"), _with("difference", "map minus it [95%]"), _p())
        yield Excerpt("the map against its controls", frame.select(*columns), ("controls",), TEXTS["controls_reading"])
    if (frame := tables.get("readings", empty)).height:
        columns = (*_who(frame), pl.col("reading"), pl.col("items"), _with("net"), _with("adjusted"))
        yield Excerpt("robustness to the way of counting", frame.select(*columns), ("readings",), TEXTS["readings"])
    if (frame := tables.get("references", empty)).height:
        yield Excerpt("interventions without a map", _references(frame), ("references",), TEXTS["references"])
    if (frame := tables.get("probes", empty)).height:
        yield Excerpt("linear probes", _probes(frame), ("probes",), TEXTS["probes"])
    if (frame := tables.get("transfer", empty)).height:
        names = (pl.col("fitted_on").alias("from"), pl.col("applied_to").alias("to"))
        columns = (*_who(frame), *names, pl.col("items"), _with("net"), _with("adjusted"), cell_of("within"))
        yield Excerpt(
            "transfer between families of stories", frame.select(*columns), ("transfer",), TEXTS["transfer_reading"]
        )
    if (frame := tables.get("answers", empty)).height:
        columns = (cell_of("share_false", "false"), cell_of("share_true", "true"), cell_of("right"), cell_of("unread"))
        told = pl.col("told").cast(pl.String).replace(_TOLD)
        order = pl.col("order").cast(pl.String).replace({"0": "as listed", "1": "reversed"})
        kept = frame.select(*_who(frame), told, order, "items", *columns)
        yield Excerpt("answers before any intervention", kept, ("answers",), TEXTS["answers"])


def _who(frame: pl.DataFrame) -> list[pl.Expr]:
    """The columns that tell models and benchmarks apart, as far as there are several."""
    return [pl.col("model"), *map(pl.col, several(frame, "benchmark"))]


def _name(column: str) -> pl.Expr:
    return pl.col(column).str.replace_all("_", " ", literal=True)


def _with(column: str, name: str = "") -> pl.Expr:
    return interval_cell(column, f"{column}_low", f"{column}_high", name or f"{column} [95%]")


def _p() -> pl.Expr:
    shown = pl.col("p").map_elements(lambda p: p_value(p).removeprefix("p ").removeprefix("= "), pl.String)
    return shown.fill_null("?").alias("p")


def _headline(frame: pl.DataFrame) -> pl.DataFrame:
    control = pl.format("{} {}", _name("control"), cell_of("control_net")).fill_null("")
    return frame.select(
        *_who(frame),
        pl.format("{}/{}", "eligible", "items").alias("eligible"),
        *(_with("net"), control.alias("largest control"), _with("adjusted")),
    )


def _published_excerpt(frame: pl.DataFrame) -> pl.DataFrame:
    alpha = pl.col("published_alpha").map_elements(lambda alpha: f"{alpha:g}", pl.String)  # three decimals may be 0
    return frame.select(
        *_who(frame),
        *(cell_of("published_net", "NetEffect"), pl.col("published_layers").alias("layers")),
        *(alpha.alias("alpha"), _name("published_control").alias("closest control")),
        cell_of("published_control_net", "its"),
        pl.col("reproduced").replace_strict({True: "yes", False: "no"}, default="?").alias("reproduces it"),
    )


def _references(frame: pl.DataFrame) -> pl.DataFrame:
    """Each reference in the layer in which it changes the most."""
    most = frame.sort("changed", descending=True, nulls_last=True, maintain_order=True)
    kept = most.unique([*("model", "benchmark"), "map"], keep="first", maintain_order=True)
    order = pl.Enum(frame["map"].unique(maintain_order=True))
    kept = kept.sort("model", "benchmark", pl.col("map").cast(order), maintain_order=True)
    named = _name("map").alias("reference")
    shares = (cell_of("changed"), cell_of("flip_true", "to true"), cell_of("net", missing="–"))
    return kept.select(*_who(frame), named, pl.col("layer"), *shares)


def _probes(frame: pl.DataFrame) -> pl.DataFrame:
    """Each probe in the layer where it is most selective; the notes say that the best of several is too good."""
    own = frame.filter(told=ALL).sort("selectivity", descending=True, nulls_last=True, maintain_order=True)
    best = own.unique(["model", "benchmark", "probe"], keep="first", maintain_order=True)
    best = best.sort("model", "benchmark", "probe", maintain_order=True)
    shown = (pl.col("probe"), pl.col("layer").alias("best layer"), cell_of("accuracy", "right"))
    return best.select(*_who(frame), *shown, _with("selectivity", "minus shuffled [95%]"))


def warnings(tables: Tables) -> Iterator[str]:
    """One line for each reason to doubt the numbers."""
    frame = tables.get("headline", pl.DataFrame())
    named = several(frame, "benchmark")
    for row in frame.iter_rows(named=True):
        who = f"{row['model']}, {readable_name(row['benchmark'])}" if named else str(row["model"])
        yield from (f"{who}: {said}" for said in _doubts(row, tables.get("references", pl.DataFrame())))


def _doubts(row: Row, references: pl.DataFrame) -> Iterator[str]:
    eligible, items = int(str(row["eligible"])), row["items"]
    if eligible < t.FEW_ITEMS:
        yield f"only {eligible} of {items} items are eligible; at least {t.FEW_ITEMS} are needed to say anything"
    if is_above(row, "no_op_changes"):
        yield (
            f"adding nothing changes {percent(row['no_op_changes'])} of the answers, so that nothing here can be "
            "trusted"
        )
    if not row.get("no_op_moves"):
        yield "it was not measured whether adding nothing changes answers (no_op)"
    if lacking := row.get("controls_lacking"):
        named = one_line(lacking, 160).replace("_", " ")
        yield f"controls that were not measured in every cell of the map: {named}; measure again"
    if (understood := finite_or_none(row.get("understood"))) is not None and understood < UNDERSTOOD:
        yield (
            f"only {percent(understood)} of the eligible items are answered rightly as the protagonist's own (p and "
            "its twin, told to you): where they are not, moves aim at states that do not hold what they should"
        )
    layer = row.get("layer")
    if (error := finite_or_none(row.get("error"))) is not None and error >= 1:
        yield f"in the chosen layer {layer} the leave-one-out error is {error:.2f}: no map at all (1 is a map to zero)"
    if (length := finite_or_none(row.get("displacement"))) is not None and length > 1:
        yield f"in the chosen cell a step is {length:.1f} times as long as the state that it moves"
    if row.get("alpha_at_edge") and is_above(row, "net_low"):
        yield f"the chosen alpha, {row['alpha']:g}, is at the edge of those tried; try more beyond it"
    if (counted := finite_or_none(row.get("counted"))) is not None and counted != eligible:
        yield f"{eligible - counted:.0f} eligible items lack some of the moves and are not counted"
    yield from _wide(row, references)


def _wide(row: Row, references: pl.DataFrame) -> Iterator[str]:
    low, high = finite_or_none(row.get("adjusted_low")), finite_or_none(row.get("adjusted_high"))
    if low is not None and high is not None and high - low > 4 * MARGIN / 2 and outcome(row)[0] == NOT_SETTLED:
        needed = finite_or_none(row.get("items_needed"))
        more = f"; about {needed:,.0f} eligible items would settle it" if needed is not None else ""
        yield f"the interval of adjusted is {100 * (high - low):.0f} points wide{more}"
    if references.height:
        measured = references.filter(model=row["model"], benchmark=row["benchmark"])["map"]
        if absent := sorted({t.NO_OP, t.PATCH} - set(measured)):
            yield f"references that were not measured: {', '.join(absent)}"


# What makes the rows of each table for one model and benchmark
MADE: Mapping[str, Callable[[t.Outcomes], Iterator[t.Record]]] = {
    "headline": causal_tables.headline,
    "controls": causal_tables.controls,
    "net_by_layer": causal_tables.by_layer,
    "readings": causal_tables.readings,
    "references": causal_tables.references,
    "transfer": causal_tables.transfer,
    "true_pairs": causal_tables.true_pairs,
    "probes": causal_tables.probes,
    "fits": causal_tables.fits,
    "cells": causal_tables.cells,
    "answers": causal_tables.answers,
}


# The same where everything is counted as the source does
PUBLISHED: Mapping[str, Callable[[t.Outcomes], Iterator[t.Record]]] = {
    "published_net": causal_tables.published,
    "published_cells": causal_tables.published_cells,
}


def tables(scores: pl.LazyFrame, intervals: str, names: Collection[str] | None = None) -> dict[str, pl.DataFrame]:
    """The tables of these names that have rows; None for every table. Raises ConfigError for a table that lacks a
    column."""
    found = t.read_outcomes(scores)
    frames = {}
    for name, make in (PUBLISHED if intervals == "published" else MADE).items():
        if names is not None and name not in names:
            continue
        rows = [row for one in found for row in make(one)]
        schema = causal_tables.HEADLINE if name == "headline" else None
        if name == "headline":
            rows = [{**row, "verdict": (said := outcome(row)[0]), "causes": said == CAUSES} for row in rows]
        frames[name] = pl.DataFrame(rows, schema, infer_schema_length=None).fill_nan(None)
    frames["published_causal"] = published_tables.causal().drop("alpha").drop_nulls()
    return {name: frame for name, frame in frames.items() if frame.height}


STUDY = Study(
    name="causal",
    tables=tables,
    columns=dict(t.SCHEMA),
    optional=t.OPTIONAL,
    answers=False,
    intervals=("recommended", "published"),
    notes=TEXTS.notes,
    warnings=warnings,
    summary=summary,
    layouts={
        "net_by_layer": Layout("net", ("net_low", "net_high"), rows="map", by="benchmark", columns=("model", "layer")),
        "controls": Layout("difference", ("difference_low", "difference_high"), rows="control", by="benchmark",
                           columns=("model", "benchmark")),
    },
    figures=partial(draw_figures, TEXTS.figure, MAKERS),
    verdicts=verdicts,
)  # fmt: skip
