"""What is decided of each group of edited chains, in words: does the answer follow the chain, or the chain it?"""

from __future__ import annotations

from collections.abc import Iterator

from tomserve.stats.interventions import (
    AFTERWARDS,
    ENOUGH_ITEMS,
    ENOUGH_UNITS,
    FILLER,
    FOLLOWS,
    KEPT,
    LAST,
    PARTLY,
    SWAPPED,
    TELLING,
    UNDECIDED,
    Contrast,
    Decision,
    decide,
    is_chain_needless,
    units_to_decide,
)
from tomserve.studies import GOOD, OPEN
from tomserve.studies.words import finite, percent

from .counting import beyond_contrasts, headline_contrasts
from .rows import Group, Record

WORDS = {
    FOLLOWS: "the answer follows the chain",
    AFTERWARDS: "the chain follows the answer",
    PARTLY: "partly",
    UNDECIDED: "cannot be decided",
}
TONES = {FOLLOWS: GOOD, AFTERWARDS: OPEN, PARTLY: OPEN, UNDECIDED: OPEN}

ESTIMANDS = {
    LAST: "last belief replaced",
    SWAPPED: "agents swapped",
    FILLER: "filler for the chain",
    KEPT: "no chain at all",
}
"""What was done to the chain for each of the four estimates, in the words of figures and verdicts."""


def verdict(group: Group) -> Iterator[Record]:
    """The table `verdict`: one row, with what was decided and why."""
    four = headline_contrasts(group)
    found = decide(four[LAST], four[SWAPPED], four[FILLER], four[KEPT], beyond_contrasts(group))
    needless = found.code == FOLLOWS and is_chain_needless(four[FILLER], four[KEPT])
    items, units = four[LAST].items, four[LAST].units
    words = WORDS[found.code]
    if found.code == UNDECIDED:
        words += f" with {items} item{'' if items == 1 else 's'}"
    needed = units_to_decide(*four.values()) if found.code == UNDECIDED and found.asked else None
    yield {
        **{**group.key, "verdict": found.code, "words": words, "why": " ".join(_why(found, four, needed, needless))},
        **{"units": units, "units_needed": needed, "obeyed": needless if found.code == FOLLOWS else None},
    }


def _why(found: Decision, four: dict[str, Contrast], needed: int | None, needless: bool) -> Iterator[str]:
    """Sentences on what the verdict rests on. needless: whether a chain that is followed is surely not needed."""
    if not found.asked:
        yield (
            "No chain whose last belief was replaced has a control beside it."
            if not four[LAST].items
            else "The model gives the answer of the edited chain anyway, so that an edit can show nothing."
        )
        return
    if found.code == FOLLOWS:
        yield f"The answer goes where the edited chain leads: {_shares(four, found.asked)} of what is possible."
        if needless:
            yield "Without a chain nothing is lost, so that the chain is obeyed rather than needed."
    elif found.code == AFTERWARDS:
        yield (
            f"Whatever is done to the chain, the answer stays: {_shares(four, found.asked)} of what is possible. It "
            "was settled before the chain, or is computed anew from the story where the chain is changed."
        )
    elif found.code == PARTLY:
        yield (
            f"The answer depends on the chain ({_listed(found.above)}), but not on its last belief alone: "
            f"{_shares(four, found.asked)} of what is possible."
        )
    else:
        yield f"The intervals are too wide: {_shares(four, found.asked)} of what is possible."
        if found.above:
            yield f"Something depends on the chain all the same ({_listed(found.above)})."
    if found.code != PARTLY and not (four[SWAPPED].items >= ENOUGH_ITEMS and four[SWAPPED].units >= ENOUGH_UNITS):
        yield (
            f"Agents could be swapped in {four[SWAPPED].items} items of {four[SWAPPED].units} units, which is too few, "
            "so that it is judged by the replaced last belief alone."
        )
    if found.code == UNDECIDED:
        weak = [name for name in (FILLER, KEPT) if four[name].items and not four[name].causal >= TELLING]
        if weak:
            yield f"Nothing could be lost without the chain by {_listed(weak)}, which thus tells nothing."
        if needed is not None:
            there = four[LAST].units
            yield f"With items like these about {needed:,} units would probably decide it; there are {there}."


def _shares(four: dict[str, Contrast], names: tuple[str, ...]) -> str:
    return ", ".join(
        f"{ESTIMANDS[name]} {_share(four[name].share)} [{_end(four[name], four[name].surely_low)}, "
        f"{_end(four[name], four[name].surely_high)}]"
        for name in names
    )


def _end(one: Contrast, end: float) -> str:
    return _share(end / one.causal) if one.share == one.share else "undefined"


def _share(value: float) -> str:
    return "undefined" if finite(value) is None else percent(value).replace("-", "−")


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(ESTIMANDS[name] for name in names)
