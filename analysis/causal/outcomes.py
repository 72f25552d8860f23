"""What a row of the headline says: the five outcomes, and what each rests on."""

from __future__ import annotations

from tomserve.causal.table import FEW_ITEMS
from tomserve.stats.selection import NOTHING
from tomserve.studies import BAD, GOOD, OPEN
from tomserve.studies.showing import Row
from tomserve.studies.words import finite, p_value, percent, readable, signed

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
    if why := _unmeasured(row):
        return NOT_MEASURED, why
    net, low, high = (finite(row.get(name)) for name in ("net", "net_low", "net_high"))
    adjusted, least, most = (finite(row.get(name)) for name in ("adjusted", "adjusted_low", "adjusted_high"))
    if net is None or low is None or high is None or adjusted is None or least is None or most is None:
        return NOT_SETTLED, "The intervals are undefined, because the items do not vary or their scenarios are too few."
    p, over = finite(row.get("p_net")), finite(row.get("p_over_controls"))
    tested = p is not None and over is not None and max(p, over) < LEVEL
    bounds = f"{signed(adjusted)} [{signed(least)}, {signed(most)}] points"
    if least > 0 and tested:
        return CAUSES, (
            f"In its cell the map exceeds the largest control by {bounds}, and so it does over all cells at "
            f"once ({p_value(over or 0.0)} against every control)."
        )
    if low > 0 and least <= 0 and most < max(net / 2, MARGIN / 2) and row.get("control") != NOTHING:
        return REPRODUCES, (
            f"Moves by the map do flip answers ({signed(net)} points), but {readable(row.get('control'))} flips "
            f"{signed(row.get('control_net'))} at the same layer and length; nowhere has the map more than "
            f"{bounds} over its largest control."
        )
    if low <= 0 and high <= MARGIN:
        return NO_EFFECT, (
            f"The net effect is {signed(net)} [{signed(low)}, {signed(high)}] points, so that it is at most "
            f"{signed(high)} points, which is below the {signed(MARGIN)} that would count."
        )
    return NOT_SETTLED, _unsettled(row, bounds, least > 0)


def _unmeasured(row: Row) -> str:
    """Why a row cannot be judged; empty where it can."""
    eligible = int(finite(row.get("eligible")) or 0)
    if eligible < FEW_ITEMS:
        return (
            f"Only {eligible} of {row.get('items')} items are answered by the false-belief choice in both orders; with "
            f"fewer than {FEW_ITEMS} nothing is said. Measure items that the model gets right before it is moved."
        )
    changed = finite(row.get("no_op_changes")) or 0.0
    if changed > 0:
        return (
            f"Adding nothing changes {percent(changed)} of the answers, so that the apparatus itself moves them; "
            "measure again in float32 or on another backend."
        )
    if lacking := row.get("controls_lacking"):
        named = ", ".join(readable(name) for name in str(lacking).split(", "))
        return (
            f"Not every control was measured in every cell of the map (lacking: {named}), so that nobody knows how "
            "much the largest one does; measure again with all of them."
        )
    ceiling = finite(row.get("ceiling_low"))
    if ceiling is None or ceiling <= 0:
        reached = signed(row.get("ceiling"))
        return (
            f"Even the whole step to the true-belief state has a net effect of only {reached} "
            "points, whose interval does not lie above 0: the answer is not read from the last token of these layers."
        )
    return ""


def _unsettled(row: Row, bounds: str, above: bool) -> str:
    text = f"Where it does most, the map exceeds the largest control by {bounds}"
    if above:
        text += ", but over all cells at once it is not clearly above every control"
        p = finite(row.get("p_over_controls"))
        text += f" ({p_value(p)})" if p is not None else ""
    else:
        text += ", which neither shows an effect nor excludes one"
    needed = finite(row.get("items_needed"))
    if needed is None:
        return f"{text}."
    return f"{text}. About {max(int(needed), 1):,} eligible items would give an interval of 5 points on either side."
