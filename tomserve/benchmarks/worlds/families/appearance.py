"""Appearance: what somebody shows and what they feel differ, and onlookers know of it or do not.

Somebody decides on one of two outcomes and then on the other. P, Q and R each want one of them, R hears of no decision,
and the face of P or of Q is all that F sees. One of P and Q is glad, the other sad, and R neither; one face looks glad
and the other sad, either because both show what they feel or because both hide it. So nothing but what somebody wants
and heard tells what they feel, and nothing but what an onlooker knows or saw tells what that one takes it to be.

masked, sincere: P and Q want different things and hear both decisions. false_belief: P and Q want the same, and P
misses the second decision; noticed: Q misses it, P does not. wrong_culprit: what P, Q and R made is spoilt on purpose;
Q sees who did it, P is told by the culprit that it was somebody else; right_culprit: P sees it, Q is told.
"""

from __future__ import annotations

from tomserve.benchmarks.worlds.draft import Draft
from tomserve.benchmarks.worlds.family import Family
from tomserve.benchmarks.worlds.record import Key, Part, World
from tomserve.benchmarks.worlds.rules import DISAPPOINTED, GLAD, INDIFFERENT, RELIEVED, SAD, SURPRISED, UNSURPRISED
from tomserve.items import UNKNOWN

OUTCOMES, SUSPECTS, FACES = ("x", "y"), ("U", "V"), (GLAD, SAD)
VERSIONS = (("masked", "sincere"), ("false_belief", "noticed"), ("wrong_culprit", "right_culprit"))


def draw(draft: Draft, scenario: str) -> World:
    """A world of appearance; see the module for the scenarios."""
    if scenario in ("wrong_culprit", "right_culprit"):
        return _spoilt(draft, scenario)
    rng = draft.rng
    _decision(draft)
    first, second = rng.sample(OUTCOMES, 2)
    wish, others, masked = rng.choice(OUTCOMES), rng.choice(OUTCOMES), rng.random() < 0.5
    both = scenario in ("masked", "sincere")
    wants = {"P": wish, "Q": _other(wish) if both else wish, "R": others if both else _other(wish)}
    knows = {"P": first if scenario == "false_belief" else second, "Q": first if scenario == "noticed" else second}
    if both:
        masked = scenario == "masked"
    draft.scene("people4", _named("ABCD", rng.sample("PQRF", 4)))
    draft.scene("open", _named("ab", rng.sample(OUTCOMES, 2)))
    order, pair, seen, target = rng.sample("PQR", 3), rng.sample("PQ", 2), rng.sample("PQ", 2), rng.sample("PQ", 2)
    slots = _named("ABC", order) | {slot: wants[name] for slot, name in zip("abc", order, strict=True)}
    draft.scene("wishes", slots, *(f"want {name} result={wants[name]}" for name in order))
    draft.scene("away", {"A": "R"})
    draft.scene("first", {**_named("AB", pair), "l": first}, f"fact result={first} seen P, Q")
    if both:
        draft.scene("both", {**_named("AB", pair[::-1]), "l": second}, f"fact result={second} seen P, Q", part="cause")
    else:
        told, left = ("Q", "P") if scenario == "false_belief" else ("P", "Q")
        draft.scene("leaves", {"A": left}, part="percept")
        slots = {"A": told, "B": left, "l": second}
        draft.scene("one", slots, f"fact result={second} seen {told}", part="cause")
    feels = {name: GLAD if knows[name] == wants[name] else SAD for name in "PQ"}
    shows = {name: _turned(feels[name]) if masked else feels[name] for name in "PQ"}
    _faces(draft, seen, {name: f"{'mask' if masked else 'open'}_{shows[name]}" for name in "PQ"})
    draft.scene("closing", _named("ab", rng.sample(OUTCOMES, 2)), part="filler")
    for name in "PQR":
        draft.ask("feeling", "result", (*FACES, INDIFFERENT), (name,), dimension="emotion", task="feeling")
    if both:
        _ask_both(draft, target, masked)
        _ask_faces(draft, "result")
    else:
        _ask_one(draft, target[0])
    return draft.world(scenario=scenario, shown="masked" if masked else "sincere")


def _decision(draft: Draft) -> None:
    rng = draft.rng
    draft.cast(("P", "Q", "R", "F"))
    matter = rng.choice(draft.lexicon.extra("appearance", "decisions"))
    draft.words |= {key: matter[key] for key in ("boss", "sub", "go", "the")}
    draft.words |= _named("xy", rng.sample(matter["values"], 2))
    draft.facts = {"result": OUTCOMES}


def _spoilt(draft: Draft, scenario: str) -> World:
    """A world in which somebody is angry at a person; see the module for the scenarios."""
    rng = draft.rng
    draft.cast(("P", "Q", "R", "F", "U", "V"))
    work = rng.choice(draft.lexicon.extra("appearance", "works"))
    draft.words |= {key: work[key] for key in ("work", "spoils", "spoilt")}
    draft.facts = {"culprit": SUSPECTS}
    witness, misled = ("Q", "P") if scenario == "wrong_culprit" else ("P", "Q")
    draft.scene("people6", _named("ABCDEG", rng.sample("PQRFUV", 6)))
    draft.scene("made", _named("ABC", rng.sample("PQR", 3)))
    draft.scene("away", {"A": "R"})
    slots = {"A": witness, "B": misled}
    draft.scene("parts", slots, part="percept")
    draft.scene("spoils", slots, f"fact culprit=U seen U, {witness}", part="cause")
    draft.scene("blames", slots, f"tell U {misled} culprit=V")
    seen, smiling, target = rng.sample("PQ", 2), rng.choice("PQ"), rng.choice("PQ")
    _faces(draft, seen, {name: "mask_glad" if name == smiling else "open_sad" for name in "PQ"})
    draft.scene("evening", part="filler")
    for name in "PQR":
        draft.ask("belief", "culprit", (*SUSPECTS, UNKNOWN), (name,), role="culprit", dimension="belief", task="belief")
    for name in "PQ":
        draft.ask("blame", "culprit", SUSPECTS, (name,), dimension="emotion", task="blame")
        _ask_seen(draft, "culprit", "F", name)
    _ask_seen(draft, "culprit", "R", target)
    _ask_faces(draft, "culprit")
    return draft.world(scenario=scenario)


def _ask_both(draft: Draft, target: list[Key], masked: bool) -> None:
    """Ask where P and Q know it all: what Q thinks that P feels, or P of Q, and F and R; glad, sad and unknown once
    each."""
    one, other = target
    changed = one if masked else other
    draft.ask(
        "feeling", "result", (RELIEVED, DISAPPOINTED), (changed,), role="relief", dimension="emotion", task="relief"
    )
    _ask_seen(draft, "result", other, one)
    _ask_seen(draft, "result", "F", one if masked else other)
    _ask_seen(draft, "result", "R", one)


def _ask_one(draft: Draft, target: Key) -> None:
    """Ask where P or Q missed something: what they believe, too, and whether one of them will be surprised."""
    for name in "PQR":
        draft.ask("belief", "result", (*OUTCOMES, UNKNOWN), (name,), dimension="belief", task="belief")
    for name in "PQ":
        _ask_seen(draft, "result", "F", name)
    _ask_seen(draft, "result", "R", target)
    draft.ask("surprise", "result", (SURPRISED, UNSURPRISED), (target,), dimension="emotion", task="surprise")


def _ask_seen(draft: Draft, fact: str, onlooker: Key, name: Key) -> None:
    choices = (*FACES, UNKNOWN)
    draft.ask("seen_feeling", fact, choices, (onlooker, name), dimension="emotion", task="seen_feeling")


def _ask_faces(draft: Draft, fact: str) -> None:
    for name in "PQ":
        draft.ask("face", fact, FACES, (name,), dimension="emotion", task="face")


def _faces(draft: Draft, seen: list[Key], roles: dict[Key, str]) -> None:
    """F meets P and Q, whose faces show something; the roles end in what it is."""
    draft.scene("stranger", _named("AB", seen))
    for name in seen:
        event = f"show {name} {roles[name].partition('_')[2]} seen F"
        # An open face is about the change; so it goes where the change is left out, but for the one who missed that.
        part: Part = "percept" if roles[name].startswith("open") and name != "P" else "plain"
        draft.scene(roles[name], {"A": name}, event, part=part)


def _named(slots: str, keys: list[Key]) -> dict[str, Key]:
    return dict(zip(slots, keys, strict=True))


def _other(outcome: Key) -> Key:
    return OUTCOMES[1 - OUTCOMES.index(outcome)]


def _turned(feeling: Key) -> Key:
    return SAD if feeling == GLAD else GLAD


FAMILY = Family(
    "appearance",
    draw,
    VERSIONS,
    # wrong_culprit has no twin in this sense: without the deed itself, nothing would make P's belief true.
    twins={"false_belief": "noticed"},
)
"""The value by which worlds knows the family."""
