"""Unexpected transfer: a thing is put away and moved twice, and every person last saw it at another moment.

P puts it into x before the eyes of the others, Q moves it to y, S moves it to z. P stays for none, one or both of the
moves; R sees the first moment, or nothing at all. So the beliefs asked about are x, y, z or unknown, whoever is asked,
and what a person believes cannot be read off how often or how late a place is named: every place is named in a list at
the beginning, where it matters, and in a list at the end, both in random order. In the scenario "no_transfer" Q and S
only do something to y and z.
"""

from __future__ import annotations

from tomserve.benchmarks.worlds.draft import Draft
from tomserve.benchmarks.worlds.family import Family
from tomserve.benchmarks.worlds.record import Key, Part, World
from tomserve.benchmarks.worlds.rules import SURPRISED, UNSURPRISED
from tomserve.items import UNKNOWN

PLACES = ("x", "y", "z")
CHOICES = (*PLACES, UNKNOWN)
VERSIONS = (("false_belief", "present"), ("false_belief", "informed"), ("false_belief", "no_transfer"))


def draw(draft: Draft, scenario: str) -> World:
    """A world of unexpected transfer; see the module for the scenarios."""
    rng = draft.rng
    draft.cast(("P", "Q", "R", "S"))
    surrounding = rng.choice(draft.lexicon.words["surroundings"])
    thing = rng.choice(draft.lexicon.words["objects"])
    draft.words |= {"room": surrounding["in"], "o": thing["name"], "for": rng.choice(thing["for"])}
    draft.words |= dict(zip(PLACES, rng.sample(surrounding["places"], 3), strict=True))
    draft.facts, draft.plans = {"place": PLACES}, {"place": {key: key for key in PLACES}}
    missed = rng.choice((1, 2, 2))  # the first move that P misses: x is the right answer in "no_transfer", too
    late = rng.random() < 0.75  # R sees nothing at all: "unknown" is right once in four
    onlookers = rng.sample("QS" if late else "QRS", 2 if late else 3)
    draft.words["crowd"] = " and ".join([", ".join(f"{{{key}}}" for key in onlookers[:-1]), f"{{{onlookers[-1]}}}"])
    mover, finder = rng.choice("QS"), rng.random() < 0.5
    first, last, crowd = rng.sample(PLACES, 3), rng.sample(PLACES, 3), rng.sample("PQRS", 4)
    draft.scene("places", _listed("abc", first))
    draft.scene("people", _listed("ABCD", crowd))
    draft.scene("wants", {"A": "P"}, "seek P place")
    until = {
        "P": missed - 1 if scenario in ("false_belief", "informed") else 2,
        "R": -1 if late else 0,
    }
    if until["R"] < 0:
        draft.scene("absent", {"A": "R"}, part="percept")
    draft.scene("put", {"A": "P", "l": "x"}, f"fact place=x seen {_present(until, 0, 'P', 'Q', 'S')}")
    for moment, actor, place in ((1, "Q", "y"), (2, "S", "z")):
        _leave(draft, until, moment)
        if scenario == "no_transfer":
            draft.scene("elsewhere", {"A": actor, "l": place}, part="cause")
            continue
        here, seen = until["P"] >= moment, _present(until, moment, "S" if moment == 1 else "", actor)
        role = "move_seen" if here else "move_unseen"
        part: Part = "plain" if moment < missed else "cause"  # what P sees in all of these stories is no cause
        draft.scene(role, {"A": actor, "W": "P", "l": place}, f"fact place={place} seen {seen}", part=part)
        if moment == 1:
            draft.scene("goes", {"A": "Q"}, part="percept")
    if scenario == "informed":
        for place in ("x", "y"):  # so that no place is named more often than another
            draft.scene("elsewhere", {"A": "S", "l": place}, part="filler")
        draft.scene("told", {"A": "P", "I": "S", "l": "z"}, "tell S P place=z", part="percept")
    draft.scene("closing", _listed("abc", last), part="filler")
    draft.ask("reality", "place", PLACES, dimension="reality", task="reality")
    for name in ("P", "R", mover):
        draft.ask("belief", "place", CHOICES, (name,), dimension="belief", task="belief")
    draft.ask("action", "place", PLACES, ("P",), dimension="action", task="action")
    if scenario != "no_transfer":  # there nobody would be surprised; elsewhere one person is and another is not
        other = "S" if scenario == "false_belief" else "Q"
        asked = "P" if finder else other
        draft.ask("surprise", "place", (SURPRISED, UNSURPRISED), (asked,), dimension="emotion", task="surprise")
    return draft.world(scenario=scenario)


def _listed(slots: str, keys: list[Key]) -> dict[str, Key]:
    return dict(zip(slots, keys, strict=True))


def _present(until: dict[Key, int], moment: int, *always: Key) -> str:
    """Those who see the moment: the ones named, and P and R as long as they stay."""
    here = [name for name in always if name] + [name for name, last in until.items() if last >= moment]
    return ", ".join(dict.fromkeys(here))


def _leave(draft: Draft, until: dict[Key, int], moment: int) -> None:
    """P and R leave once they have seen the last that they will see."""
    for name in ("P", "R"):
        if until[name] == moment - 1:
            draft.scene("leaves", {"A": name}, part="percept")


HALF = (0.55, "half of the stories are told with a true belief by design; read it beside the condition, and jointly")
NAMED = (0.55, "whoever the sentence of a move names sees it in half of the stories and misses it in the other half")

FAMILY = Family(
    "transfer",
    draw,
    VERSIONS,
    twins={"false_belief": "present"},
    reasons={
        ("reality", "always reality"): (1.0, "it is the question"),
        ("belief", "always reality"): HALF,
        ("action", "always reality"): HALF,
        ("action", "beside the name"): NAMED,
        ("belief", "beside the name"): NAMED,
    },
)
"""The value by which worlds knows the family."""
