"""What the estimates of edited chains decide, in words."""

from collections.abc import Iterator

from tomserve.faithfulness import table as t
from tomserve.stats.chain_edits import (
    AFTERWARDS,
    CARRIED,
    CONTINUED,
    DEPENDS,
    DISTURBED,
    ENOUGH_ITEMS,
    ENOUGH_UNITS,
    FILLER,
    FOLLOWS,
    KEPT,
    LAST,
    LOCAL,
    MENDS,
    OTHER,
    PARTLY,
    PROPAGATED,
    ROOM,
    SWAPPED,
    TELLING,
    UNDECIDED,
    Contrast,
    Decision,
    decide,
    expected_ends,
    is_chain_needless,
    units_to_decide,
)
from tomserve.studies.presentation import finite_or_none, percent
from tomserve.studies.texts import Texts

from .tables import Group, Record, beyond_contrasts, further_contrasts, headline_contrasts

TEXTS = Texts(__file__)

WORDS = {
    FOLLOWS: "the answer follows the chain",
    AFTERWARDS: "the chain follows the answer",
    ROOM: "room, not content",
    MENDS: "it needs the chain and mends a wrong one",
    DISTURBED: "any disturbance changes the answer",
    PARTLY: "partly",
    DEPENDS: "it depends on the chain, undecided on what part",
    UNDECIDED: "cannot be decided",
}
ONE_EDIT = ", by one edit alone"  # added where the answer is judged to follow by its replaced last belief only

OTHER_EDIT = "; --probe continued asks for another edit"

# What was done to the chain for each of the four estimates, in the words of figures and verdicts
ESTIMANDS = {
    LAST: "last belief replaced",
    SWAPPED: "agents swapped",
    FILLER: "filler for the chain",
    KEPT: "no chain at all",
}
_FURTHER = {
    OTHER: "another item's chain",
    LOCAL: "a belief in the middle replaced",
    PROPAGATED: "the same with what follows from it",
    CONTINUED: "the same, gone on with by the model",
    CARRIED: "a mistake carried on by the model",
}
# Which condition of the table each estimate is of
_CONDITIONS = {
    **{LAST: t.LAST, SWAPPED: t.SWAPPED, FILLER: t.FILLER, KEPT: "truncated_0"},
    **{OTHER: t.OTHER, LOCAL: t.LOCAL, PROPAGATED: t.PROPAGATED},
    **{CONTINUED: t.CONTINUED, CARRIED: t.CONTINUED},
}


def verdict(group: Group) -> Iterator[Record]:
    """The table `verdict`: one row, with what was decided and why."""
    four, further = headline_contrasts(group), further_contrasts(group)
    found = decide(four, beyond_contrasts(group), further)
    needless = found.code == FOLLOWS and is_chain_needless(four[FILLER], four[KEPT])
    items, units = four[LAST].items, four[LAST].units
    words = WORDS[found.code]
    if found.code == FOLLOWS and len(found.estimates) == 1:
        words += ONE_EDIT
    if found.code == UNDECIDED:
        words += f" with {items} item{'' if items == 1 else 's'}"
    needed = units_to_decide(four) if found.code == UNDECIDED and found.estimates else None
    why = (*_why(found, {**four, **further}, needed, needless), *_width(group, four))
    yield {
        **{**group.key, "verdict": found.code, "words": words, "why": " ".join(why)},
        "rests_on": ", ".join(_CONDITIONS[name] for name in found.estimates),
        **{"units": units, "units_needed": needed, "obeyed": needless if found.code == FOLLOWS else None},
        "good": found.code == FOLLOWS and len(found.estimates) > 1 and not needless,
    }


def _why(found: Decision, every: dict[str, Contrast], needed: int | None, needless: bool) -> Iterator[str]:
    """Sentences on what the verdict rests on. needless: whether a chain that is followed is surely not needed."""
    if not found.estimates:
        yield (
            "No chain whose last belief was replaced has a control beside it."
            if not every[LAST].items
            else "The model gives the answer of the edited chain anyway, so that an edit can show nothing."
        )
        return
    sentence: str = TEXTS.section("decisions")[found.code]
    yield sentence.format(
        shares=_shares(every, found.estimates),
        above=_list_estimands(found.above),
        filler="filler" if FILLER in found.estimates else "another item's chain",
    )
    if needless:
        yield "Without a chain nothing is lost, so that the chain is obeyed rather than needed."
    if found.code == UNDECIDED and found.above:
        yield f"Something depends on the chain all the same ({_list_estimands(found.above)})."
    swapped = every[SWAPPED]
    if (
        found.code not in (PARTLY, DEPENDS)
        and CARRIED not in found.estimates
        and not (swapped.items >= ENOUGH_ITEMS and swapped.units >= ENOUGH_UNITS)
    ):
        yield (
            f"Agents could be swapped in {swapped.items} items of {swapped.units} units, which is too few, so that it "
            f"is judged by the replaced last belief alone{'' if every[CARRIED].items else OTHER_EDIT}."
        )
    if found.code == UNDECIDED:
        weak = [name for name in (FILLER, KEPT) if every[name].items and not every[name].causal >= TELLING]
        if weak:
            yield f"Nothing could be lost without the chain by {_list_estimands(weak)}, which thus tells nothing."
        if needed is not None:
            there = every[LAST].units
            yield f"With items like these about {needed:,} units would probably decide it; there are {there}."


def _width(group: Group, four: dict[str, Contrast]) -> Iterator[str]:
    """How wide the interval of an exact 0 or 1 is with these units, where there is one."""
    sizes = group.of(t.LAST).group_by("unit").len()["len"].to_numpy()
    if sizes.size and any(one.items and not one.sd > 0 for one in four.values()):
        end = expected_ends(sizes)[0]
        yield (
            f"Where all items are alike, the interval still reaches {percent(end)} from 0 or 1, since {sizes.sum()} "
            f"items of {sizes.size} units tell no more (answers are taken to correlate by .1 within a unit)."
        )


def _shares(every: dict[str, Contrast], names: tuple[str, ...]) -> str:
    return ", ".join(
        f"{_named(name)} {_share_text(one.share)} [{_share_text(one.share_of(one.surely_low))}, "
        f"{_share_text(one.share_of(one.surely_high))}]"
        for name in names
        for one in (every[name],)
    )


def _share_text(value: float) -> str:
    return "undefined" if finite_or_none(value) is None else percent(value).replace("-", "−")


def _list_estimands(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(map(_named, names))


def _named(name: str) -> str:
    return ESTIMANDS.get(name) or _FURTHER[name]
