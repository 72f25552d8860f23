"""What one thinks that another thinks: two people learn of a change apart, and neither knows that the other knows.

P puts a thing away in front of Q and S. Q leaves, S moves the thing in front of P, P leaves, R arrives, S moves it once
more in front of R. Either Q alone looks in between the moves, or P and Q each look after them, always without anybody's
knowledge: what P thinks that Q thinks is then neither what Q thinks, nor what is so, nor what P thinks (Perner and
Wimmer 1985). In the twin "together" they look together; in "told" P tells Q; in "no_transfer" nothing is moved. T is
away, or leaves with Q or with P.

Asked is only what the story settles. So nobody is asked what somebody thinks of a person who stayed behind, once that
somebody has secretly found the thing moved: the one who stayed may or may not have seen the move.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tomserve.benchmarks.worlds.draft import Draft
from tomserve.benchmarks.worlds.family import Family
from tomserve.benchmarks.worlds.record import Key, World
from tomserve.items import UNKNOWN

PLACES = ("x", "y", "z")
CHOICES = (*PLACES, UNKNOWN)
VERSIONS = (("secret", "together"), ("secret", "told"), ("secret", "no_transfer"))


def draw(draft: Draft, scenario: str) -> World:
    """A world of beliefs about beliefs; see the module for the scenarios."""
    rng = draft.rng
    places = rng.sample(PLACES, 3)
    _words(draft)
    late, swap, deep = rng.random() < 0.3, rng.random() < 0.5, rng.random()
    companion = rng.choice((None, None, None, None, "Q", "P"))  # with whom T leaves; T is away where there is none
    draft.scene("places", _listed("abc", rng.sample(PLACES, 3)))
    draft.scene("people", _listed("ABCDE", rng.sample("PQRST", 5)), part="filler")
    draft.scene("wants", _listed("AB", rng.sample("PQ", 2)), "seek P, Q place")
    draft.scene("late", {"A": "R"})
    if companion is None:
        draft.scene("absent", {"A": "T"})
    group = ["Q", "S"] if companion is None else ["Q", "S", "T"]
    _put(draft, places[0], group)
    _goes(draft, "Q", companion)
    _first_move(draft, places[1], scenario, companion)
    if not late:
        _find(draft, scenario, places[1], ["Q"])
    _goes(draft, "P", companion)
    if scenario == "no_transfer":
        draft.scene("elsewhere", {"A": "S", "l": places[2]}, part="cause")
    else:
        slots = {"A": "S", "B": "R", "l": places[2]}
        draft.scene("move_again", slots, f"fact place={places[2]} seen S, R", part="cause")
    if late:
        _find(draft, scenario, places[2], ["Q", "P"] if swap else ["P", "Q"])
    everybody = _listed("ABCDE", rng.sample("PQRST", 5))
    draft.scene("closing", everybody | _listed("abc", rng.sample(PLACES, 3)), part="filler")
    _ask(draft, scenario, late=late, swap=swap)
    if scenario != "no_transfer" and not late and deep < 0.5:
        chain = _third(companion, deep)
        draft.ask("belief", "place", CHOICES, chain, role="third", slots={"C": chain[1]}, **_of("third_order_belief"))
    return draft.world(scenario=scenario)


def _words(draft: Draft) -> None:
    """People and words; whoever wants the thing looks for it where they believe it to be."""
    rng = draft.rng
    draft.cast(("P", "Q", "R", "S", "T"))
    surrounding, thing = rng.choice(draft.lexicon.words["surroundings"]), rng.choice(draft.lexicon.words["objects"])
    draft.words |= {"room": surrounding["in"], "o": thing["name"], "for": rng.choice(thing["for"])}
    draft.words |= _listed("xyz", rng.sample(surrounding["places"], 3))
    draft.facts, draft.plans = {"place": PLACES}, {"place": {key: key for key in PLACES}}


def _listed(slots: str, keys: Sequence[str]) -> dict[str, str]:
    return dict(zip(slots, keys, strict=True))


def _put(draft: Draft, place: Key, group: Sequence[Key]) -> None:
    """P puts the thing away in front of the group."""
    *others, last = (f"{{{name}}}" for name in group)
    draft.words["group"] = f"{', '.join(others)} and {last}"
    slots = {"A": "P", "W": "group", "l": place}
    draft.scene("put", slots, f"fact place={place} seen {', '.join(('P', *group))}")


def _goes(draft: Draft, name: Key, companion: Key | None) -> None:
    """Somebody goes away, with T as companion or alone."""
    if companion == name:
        draft.scene("go_both", {"A": name, "B": "T"}, part="percept")
    else:
        draft.scene("goes", {"A": name}, part="percept")


def _first_move(draft: Draft, place: Key, scenario: str, companion: Key | None) -> None:
    """S moves the thing in front of P, and of T who leaves with P; or does not, in "no_transfer"."""
    if scenario == "no_transfer":
        draft.scene("elsewhere", {"A": "S", "l": place}, part="cause")
        return
    watching = ["P", "T"] if companion == "P" else ["P"]
    draft.words["pair"] = "{P} and {T}"
    slots = {"A": "S", "W": "pair" if companion == "P" else "P", "l": place}
    draft.scene("move", slots, f"fact place={place} seen {', '.join(('S', *watching))}", part="cause")


def _find(draft: Draft, scenario: str, place: Key, finders: Sequence[Key]) -> None:
    """The finders find out that the thing is in the place now: each alone, or P and Q together, or Q from P."""
    if scenario == "together":
        draft.scene("together", {"A": "P", "B": "Q"}, "see P, Q place", part="percept")
        return
    for name in finders:
        if scenario != "told" or name == "P":
            draft.scene("peek", {"A": name}, f"alone {name} place", part="percept")
    if scenario == "told":
        draft.scene("told", {"A": "P", "B": "Q"}, f"tell P Q place={place}", part="percept")


def _of(task: str, dimension: str = "belief") -> dict[str, Any]:
    return {"task": task, "dimension": dimension}


def _ask(draft: Draft, scenario: str, *, late: bool, swap: bool) -> None:
    """The questions but for those of third order."""
    both_ways = scenario in ("told", "no_transfer") and swap  # there P and Q think the same of one another
    first, pair = (
        ("P", "Q", "R") if scenario == "no_transfer" else ("P", "Q", "T"),
        ("Q", "P") if both_ways else ("P", "Q"),
    )
    second, actions = [pair], [pair]
    if scenario == "secret":
        second += [("P", "S") if swap and not late else ("S", "P"), ("P", "R")]
        if late:
            second.append(("R", "S") if swap else ("S", "R"))
            actions.append(("S", "P"))
    elif scenario != "no_transfer":
        second += [("S", "Q"), ("P", "R"), *([("S", "P")] if late else [])]
        actions.append(("S", "Q"))
    draft.ask("reality", "place", PLACES, **_of("reality", "reality"))
    for name in first:
        draft.ask("belief", "place", CHOICES, (name,), **_of("belief"))
    for chain in second:
        draft.ask("belief", "place", CHOICES, chain, role="second", **_of("second_order_belief"))
    for chain in actions:
        draft.ask("action", "place", PLACES, chain, role="second_action", **_of("second_order_action", "action"))


def _third(companion: Key | None, deep: float) -> tuple[Key, Key, Key]:
    """A chain of three people: the last moment that they were together is the second, none, or the first."""
    if companion == "P":
        return ("S", "T", "P")
    return ("S", "P", "R") if deep < 0.15 else ("S", "P", "Q")


FAMILY = Family(
    "second_order",
    draw,
    VERSIONS,
    twins={"secret": "together"},
    reasons={("reality", "always reality"): "it is the question"},
)
"""The value by which worlds knows the family."""
