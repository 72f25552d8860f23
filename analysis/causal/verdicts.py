"""The verdicts of the study of interventions: does a map inside the model cause its answer, and what is known besides.

A verdict never says more than its table; each card says what it does not show.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tomserve.causal.table import FALSE
from tomserve.stats.selection import NOTHING
from tomserve.studies import BAD, GOOD, OPEN, Card, Context, Verdict
from tomserve.studies.showing import Row, Tables
from tomserve.studies.words import finite, p_value, percent, readable, signed

from .outcomes import CAUSES, MARGIN, NOT_MEASURED, TONES, outcome
from .probes import ALL

_CAUSE = (
    "Net effect: the share of items whose answer becomes the true-belief choice when the state of the last token is "
    "moved towards the true-belief state, minus that when it is moved as far towards the false-belief state. The map "
    "is fitted without the item's scenario, the layer and strength are chosen on other scenarios, and the largest "
    "control of the same size is taken off. What an edited model does is not what the model computes by itself: the "
    "map is linear, only the last token of one layer was moved, and that a direction can move the answer does not "
    f"say that the model uses it. No effect means below {signed(MARGIN)} points, which is a convention."
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
    where = f"{readable(row['benchmark'])}: " if several and row["benchmark"] else ""
    counted = f"{row['eligible']} of {row['items']} items eligible"
    if finite(row.get("net")) is None:
        return f"{where}{counted}; {outcome(row)[0]}"
    adjusted = f"{signed(row['adjusted'])} [{signed(row['adjusted_low'])}, {signed(row['adjusted_high'])}]"
    return f"{where}{counted}; net effect {signed(row['net'])} points, at most {adjusted} above its largest control"


def _own(tables: Tables, name: str, row: Row) -> list[Row]:
    frame = tables.get(name, pl.DataFrame())
    if not {"model", "benchmark"} <= set(frame.columns):
        return []
    return frame.filter(model=row["model"], benchmark=row["benchmark"]).to_dicts()


def _cards(row: Row, tables: Tables, *, several: bool) -> list[Card]:
    where = f" ({readable(row['benchmark'])})" if several and row["benchmark"] else ""
    return [
        _cause(row, where),
        _specific(row, _own(tables, "controls", row), where),
        _transfers(row, _own(tables, "transfer", row), where),
        _readable(row, _own(tables, "probes", row), where),
    ]


def _cause(row: Row, where: str) -> Card:
    said, why = outcome(row)
    grounds = [("why", why)]
    if finite(row.get("net")) is not None:
        p, most = finite(row.get("p_net")), finite(row.get("null_95"))
        tested = "" if p is None or most is None else (
            f" The largest of all {row['cells']} cells has {p_value(p)}; by chance alone it stays below "
            f"{signed(most)} points in 95% of cases."
        )  # fmt: skip
        net = f"{signed(row['net'])} [{signed(row['net_low'])}, {signed(row['net_high'])}] points"
        control = f"the largest control there is {readable(row['control'])} with {signed(row['control_net'])} points"
        if row["control"] == NOTHING:
            control = "no control is above 0 there"
        grounds.append(("net effect", f"It is {net}, and {control}.{tested}"))
    share = finite(row.get("adjusted_of_ceiling"))
    if share is not None:
        grounds.append(
            (
                "ceiling",
                f"The whole step to the true-belief state has {signed(row['ceiling'])} points; the most that the "
                f"map has over its largest control is {percent(max(0.0, share))} of that.",
            )
        )
    if (printed := finite(row.get("published_net"))) is not None:
        grounds.append(("as published", _published(row, printed)))
    return Card(f"Does it cause the answer?{where}", _sentence(said), TONES[said], tuple(grounds), _CAUSE)


def _published(row: Row, printed: float) -> str:
    text = (
        "The source's NetEffect (fitted on the very items, the best of all cells, the likelier choice counts) would "
        "be "
        f"{printed:.2f}".replace("-", "−")
    )
    if row.get("published_control") is None:
        return f"{text}."
    control, value = readable(row["published_control"]), finite(row["published_control_net"]) or 0.0
    verb = "reproduces it" if row.get("reproduced") else "comes closest"
    return f"{text}; {control} {verb} with {value:.2f}.".replace("-", "−")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _specific(row: Row, rows: list[Row], where: str) -> Card:
    question = f"Is it specific?{where}"
    if not rows or outcome(row)[0] == NOT_MEASURED:
        return Card(
            question, "Not judged", OPEN, (("controls", "There is no effect that could be compared."),), _SPECIFIC
        )
    grounds = tuple(
        (
            readable(one["control"]),
            f"{signed(one['net'])} points by itself; the map exceeds it by {signed(one['difference'])} "
            f"[{signed(one['difference_low'])}, {signed(one['difference_high'])}] points.",
        )
        for one in rows
    )
    left = [readable(one["control"]) for one in rows if not (finite(one["difference_low"]) or 0.0) > 0]
    if not left and outcome(row)[0] == CAUSES:
        return Card(question, "Yes: every control does less", GOOD, grounds, _SPECIFIC)
    if not left:
        return Card(question, "Each control alone does less; together it is not settled", OPEN, grounds, _SPECIFIC)
    listed = ", ".join(left[:3]) + (f" and {len(left) - 3} more" if len(left) > 3 else "")
    moved = (finite(row.get("net_low")) or 0.0) > 0
    verdict = f"Not shown against {listed}" if moved else "There is no effect to be specific"
    tone = BAD if moved and outcome(row)[0] != CAUSES and _equalled(rows) else OPEN
    return Card(question, verdict, tone, grounds, _SPECIFIC)


def _equalled(rows: list[Row]) -> bool:
    """Whether a control surely has more than half of what the map has."""
    return any(
        (finite(one["difference_low"]) or 0.0) <= 0
        and (most := finite(one["difference_high"])) is not None
        and most < (finite(one["net"]) or 0.0) / 2
        for one in rows
    )


def _transfers(row: Row, rows: list[Row], where: str) -> Card:
    question = f"Does it transfer?{where}"
    if not rows or outcome(row)[0] == NOT_MEASURED:
        why = (
            "There are no two families of stories with enough items." if not rows else "The effect cannot be measured."
        )
        return Card(question, "Not measured", OPEN, (("families", why),), _TRANSFER)
    grounds = []
    clear, none = [], []
    for one in rows:
        name = f"{readable(one['fitted_on'])} to {readable(one['applied_to'])}"
        net, low, high = (signed(one[key]) for key in ("net", "net_low", "net_high"))
        least, most = finite(one["adjusted_low"]), finite(one["adjusted_high"])
        more = f"{signed(one['adjusted'])} [{signed(least)}, {signed(most)}] above the larger control"
        within = f"; fitted across families it is {signed(one['within'])}" if finite(one["within"]) is not None else ""
        grounds.append((name, f"Net effect {net} [{low}, {high}] points, {more}{within}; {one['items']} items."))
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
        grounds.append((readable(probe), _probed(at, own)))
        if probe == "protagonist":
            low, high = finite(at["selectivity_low"]), finite(at["selectivity_high"])
            clear, none = low is not None and low > 0, high is not None and high < MARGIN
            verdict, tone = ("Yes", GOOD) if clear else ("No", BAD) if none else ("Not shown", OPEN)
    return Card(question, verdict, tone, tuple(grounds), _READABLE)


def _probed(at: Row, own: list[Row]) -> str:
    best = max(own, key=lambda one: finite(one["selectivity"]) or -1.0)
    low, high = signed(at["selectivity_low"]), signed(at["selectivity_high"])
    where = " in false-belief stories" if at["told"] == FALSE else ""
    text = (
        f"In layer {at['layer']} it is read right in {percent(at['accuracy'])} of the items{where} (shuffled labels "
        f"{percent(at['shuffled'])}, by the label's frequency {percent(at['chance'])}): selectivity "
        f"{signed(at['selectivity'])} [{low}, {high}] points."
    )
    if best["layer"] != at["layer"]:
        text += f" The largest of any layer is {signed(best['selectivity'])} (layer {best['layer']})."
    return text
