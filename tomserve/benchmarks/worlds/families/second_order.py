"""What one thinks that another thinks: two people learn of a change apart, and neither knows that the other knows.

P puts a thing away in front of Q and S, S moves it twice, the second time in front of R, who has just arrived. Q leaves
before the first move, and P before the second; Q alone looks between the moves ("middle"), or each of them looks after
both ("late"). Or they leave together between the moves, and each looks later ("joint"). Nobody learns of these looks:
what P thinks that Q thinks is then neither what Q thinks, nor what is so, nor what P thinks (Perner and Wimmer 1985).
In the twin "together" they look together; in "told" P tells Q; in "no_transfer" nothing is moved. T is away, or leaves
with one of them or before the first move.

Asked is only what the story settles. So nobody is asked what somebody thinks of a person who stayed behind, once that
somebody has secretly found the thing moved: the one who stayed may or may not have seen the move.
"""

from __future__ import annotations

from collections.abc import Sequence

from tomserve.benchmarks.worlds.draft import Draft
from tomserve.benchmarks.worlds.family import Family
from tomserve.benchmarks.worlds.record import Key, Part, World
from tomserve.items import UNKNOWN

PLACES = ("x", "y", "z")
CHOICES = (*PLACES, UNKNOWN)
VERSIONS = (("secret", "together"), ("secret", "told"), ("secret", "no_transfer"))


def draw(draft: Draft, scenario: str) -> World:
    """A world of beliefs about beliefs; see the module for the scenarios."""
    rng = draft.rng
    places = rng.sample(PLACES, 3)
    _words(draft)
    course = rng.choices(("middle", "late", "joint"), (45, 20, 35))[0]
    companion = rng.choice((None, None, None, None, "Q", "P"))  # with whom T leaves; T is away where there is none
    swap, extra, deep = rng.random() < 0.5, rng.randrange(6), rng.random()
    draft.scene("places", _listed("abc", rng.sample(PLACES, 3)))
    draft.scene("people", _listed("ABCDE", rng.sample("PQRST", 5)), part="filler")
    draft.scene("wants", _listed("AB", rng.sample("PQ", 2)), "seek P, Q place")
    draft.scene("late", {"A": "R"})
    if companion is None:
        draft.scene("absent", {"A": "T"})
    _before(draft, places, scenario, course, companion)
    if scenario == "no_transfer":
        draft.scene("elsewhere", {"A": "S", "l": places[2]}, part="cause")
    else:
        slots = {"A": "S", "B": "R", "l": places[2]}
        draft.scene("move_again", slots, f"fact place={places[2]} seen S, R", part="cause")
    if course != "middle":
        _find(draft, scenario, places[2], ["Q", "P"] if swap else ["P", "Q"])
    everybody = _listed("ABCDE", rng.sample("PQRST", 5))
    draft.scene("closing", everybody | _listed("abc", rng.sample(PLACES, 3)), part="filler")
    _ask(draft, scenario, course, swap, extra)
    if scenario != "no_transfer" and course != "late" and deep < 0.5:
        chain = _third(course, companion, deep)
        slots = {"C": chain[1]}
        draft.ask(
            "belief", "place", CHOICES, chain, role="third", slots=slots, dimension="belief", task="third_order_belief"
        )
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


def _before(draft: Draft, places: Sequence[Key], scenario: str, course: str, companion: Key | None) -> None:
    """All that happens before the second move."""
    group = ["Q", "S"] if companion is None else ["Q", "S", "T"]
    draft.scene(
        "put",
        {"A": "P", "W": _together(draft, group), "l": places[0]},
        f"fact place={places[0]} seen P, {', '.join(group)}",
    )
    if course == "joint":
        if companion is not None:
            draft.scene("goes", {"A": "T"}, part="percept")
        _move(draft, places[1], scenario, ["P", "Q"], part="plain")  # neither of them misses it
        draft.scene("go_both", {"A": "P", "B": "Q"}, part="percept")
        return
    _goes(draft, "Q", companion)
    _move(draft, places[1], scenario, ["P", "T"] if companion == "P" else ["P"])
    if course == "middle":
        _find(draft, scenario, places[1], ["Q"])
    _goes(draft, "P", companion)


def _together(draft: Draft, group: Sequence[Key]) -> Key:
    """The key of these people, as a phrase where they are several."""
    if len(group) == 1:
        return group[0]
    *others, last = (f"{{{name}}}" for name in group)
    key = f"all{len(group)}{group[-1]}"
    draft.words[key] = f"{', '.join(others)} and {last}"
    return key


def _goes(draft: Draft, name: Key, companion: Key | None) -> None:
    """Somebody goes away, with T as companion or alone."""
    if companion == name:
        draft.scene("go_both", {"A": name, "B": "T"}, part="percept")
    else:
        draft.scene("goes", {"A": name}, part="percept")


def _move(draft: Draft, place: Key, scenario: str, watching: Sequence[Key], part: Part = "cause") -> None:
    """S moves the thing in front of these people for the first time, or in "no_transfer" leaves it where it is."""
    watchers = _together(draft, watching)
    if scenario == "no_transfer":
        draft.scene("elsewhere", {"A": "S", "l": place}, part=part)
    else:
        slots = {"A": "S", "W": watchers, "l": place}
        draft.scene("move", slots, f"fact place={place} seen S, {', '.join(watching)}", part=part)


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


def _ask(draft: Draft, scenario: str, course: str, swap: bool, extra: int) -> None:
    """The questions but for those of third order."""
    both_ways = swap and scenario in ("told", "no_transfer")  # there P and Q think the same of one another
    pair = ("Q", "P") if both_ways else ("P", "Q")
    second, actions, first = [pair], [pair], ["P", "Q", "T"] if course == "middle" else ["Q" if swap else "P", "T"]
    if scenario == "no_transfer":
        first = [pair[0], "R"]
    elif scenario == "secret":
        other = ("Q", "P") if course == "joint" and swap else ("S", "P")
        second += [(("S", "P"), ("P", "S"), ("S", "Q"))[extra % 3] if course == "middle" else other, ("P", "R")]
        second += [("R", "S") if swap else ("S", "R")] if course != "middle" and extra < 3 else []
        actions.append(("S", "Q") if course == "middle" and extra % 3 else other)
    else:
        second += [("S", "P") if course == "joint" else ("S", "Q"), ("P", "R")]
        second += [("S", "P")] if course == "late" else []
        actions.append(("S", "P") if course == "late" else ("S", "Q"))
    draft.ask("reality", "place", PLACES, dimension="reality", task="reality")
    for name in first:
        draft.ask("belief", "place", CHOICES, (name,), dimension="belief", task="belief")
    for chain in second:
        draft.ask("belief", "place", CHOICES, chain, role="second", dimension="belief", task="second_order_belief")
    for chain in actions:
        draft.ask(
            "action", "place", PLACES, chain, role="second_action", dimension="action", task="second_order_action"
        )


def _third(course: str, companion: Key | None, deep: float) -> tuple[Key, Key, Key]:
    """A chain of three people."""
    if course == "middle" and companion == "P":
        return ("S", "T", "P")
    return ("S", "P", "R") if deep < 0.15 else ("S", "P", "Q")


FAMILY = Family(
    "second_order",
    draw,
    VERSIONS,
    twins={"secret": "together"},
    reasons={("reality", "always reality"): (1.0, "it is the question")},
)
"""The value by which worlds knows the family."""
