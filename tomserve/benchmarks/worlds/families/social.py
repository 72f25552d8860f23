"""Families about what others show or say: appearance (felt and shown emotion) and testimony (whom to trust)."""

from dataclasses import dataclass

from tomserve.benchmarks.worlds.draft import Draft, Family, by_slot
from tomserve.benchmarks.worlds.record import Key, Part, World
from tomserve.benchmarks.worlds.rules import (
    AFRAID,
    DISAPPOINTED,
    GLAD,
    HOPEFUL,
    INDIFFERENT,
    RELIEVED,
    SAD,
    SURPRISED,
    UNSURPRISED,
)
from tomserve.items import UNKNOWN

OUTCOMES, SUSPECTS, FACES = ("x", "y"), ("U", "V"), (GLAD, SAD)
APPEARANCE_VERSIONS = (("masked", "sincere"), ("false_belief", "noticed"), ("wrong_culprit", "right_culprit"))


OTHER_OUTCOME = dict(zip(OUTCOMES, reversed(OUTCOMES), strict=True))


def draw_appearance(draft: Draft, scenario: str) -> World:
    """Appearance: what somebody shows and what they feel differ, and onlookers know of it or do not.

    Somebody decides on one of two outcomes and then on the other. P, Q and R each want one of them, R hears of no
    decision, and the face of P or of Q is all that F sees. One of P and Q is glad, the other sad, and R neither; one
    face looks glad and the other sad, either because both show what they feel or because both hide it. So nothing but
    what somebody wants and heard tells what they feel, and nothing but what an onlooker knows or saw tells what that
    one takes it to be.

    masked, sincere: P and Q want different things and hear both decisions. false_belief: P and Q want the same, and P
    misses the second decision; noticed: Q misses it, P does not. wrong_culprit: what P, Q and R made is spoilt on
    purpose; Q sees who did it, P is told by the culprit that it was somebody else; right_culprit: P sees it, Q is told.
    """
    if scenario in ("wrong_culprit", "right_culprit"):
        return _spoilt(draft, scenario)
    rng = draft.rng
    _decision(draft)
    first, second = rng.sample(OUTCOMES, 2)
    wish, others, masked = rng.choice(OUTCOMES), rng.choice(OUTCOMES), rng.random() < 0.5
    both = scenario in ("masked", "sincere")
    wants = {"P": wish, "Q": OTHER_OUTCOME[wish] if both else wish, "R": others if both else OTHER_OUTCOME[wish]}
    knows = {"P": first if scenario == "false_belief" else second, "Q": first if scenario == "noticed" else second}
    if both:
        masked = scenario == "masked"
    draft.scene("people4", by_slot("ABCD", rng.sample("PQRF", 4)))
    draft.scene("open", by_slot("ab", rng.sample(OUTCOMES, 2)))
    order, pair, seen, target = rng.sample("PQR", 3), rng.sample("PQ", 2), rng.sample("PQ", 2), rng.sample("PQ", 2)
    slots = by_slot("ABCabc", [*order, *(wants[name] for name in order)])
    draft.scene("wishes", slots, *(f"want {name} result={wants[name]}" for name in order))
    draft.scene("away", {"A": "R"})
    draft.scene("first", {**by_slot("AB", pair), "l": first}, f"fact result={first} seen P, Q")
    if both:
        draft.scene("both", {**by_slot("AB", pair[::-1]), "l": second}, f"fact result={second} seen P, Q", part="cause")
    else:
        told, left = ("Q", "P") if scenario == "false_belief" else ("P", "Q")
        draft.scene("leaves", {"A": left}, part="percept")
        slots = {"A": told, "B": left, "l": second}
        draft.scene("one", slots, f"fact result={second} seen {told}", part="cause")
    feels = {name: GLAD if knows[name] == wants[name] else SAD for name in "PQ"}
    shows = {name: (SAD if (feels[name] == GLAD) is masked else GLAD) for name in "PQ"}
    _faces(draft, seen, {name: f"{'mask' if masked else 'open'}_{shows[name]}" for name in "PQ"})
    draft.scene("closing", by_slot("ab", rng.sample(OUTCOMES, 2)), part="filler")
    for name in "PQR":
        draft.ask("feeling", "result", (*FACES, INDIFFERENT), (name,))
    if both:
        _ask_both(draft, target, masked)
        for name in "PQ":
            draft.ask("face", "result", FACES, (name,))
    else:
        _ask_one(draft, target[0])
    return draft.world(scenario=scenario, shown="masked" if masked else "sincere")


def _decision(draft: Draft) -> None:
    rng = draft.rng
    draft.cast(("P", "Q", "R", "F"))
    matter = rng.choice(draft.lexicon.extra("appearance", "decisions"))
    draft.words |= {key: matter[key] for key in ("boss", "sub", "go", "the")}
    draft.words |= by_slot("xy", rng.sample(matter["values"], 2))
    draft.facts = {"result": OUTCOMES}


def _spoilt(draft: Draft, scenario: str) -> World:
    """A world in which somebody is angry at a person; see `draw_appearance` for the scenarios."""
    rng = draft.rng
    draft.cast(("P", "Q", "R", "F", "U", "V"))
    work = rng.choice(draft.lexicon.extra("appearance", "works"))
    draft.words |= {key: work[key] for key in ("work", "spoils", "spoilt")}
    draft.facts = {"culprit": SUSPECTS}
    witness, misled = ("Q", "P") if scenario == "wrong_culprit" else ("P", "Q")
    draft.scene("people6", by_slot("ABCDEG", rng.sample("PQRFUV", 6)))
    draft.scene("made", by_slot("ABC", rng.sample("PQR", 3)))
    draft.scene("away", {"A": "R"})
    slots = {"A": witness, "B": misled}
    draft.scene("parts", slots, part="percept")
    draft.scene("spoils", slots, f"fact culprit=U seen U, {witness}", part="cause")
    draft.scene("blames", slots, f"tell U {misled} culprit=V")
    seen, smiling, target = rng.sample("PQ", 2), rng.choice("PQ"), rng.choice("PQ")
    _faces(draft, seen, {name: "mask_glad" if name == smiling else "open_sad" for name in "PQ"})
    draft.scene("evening", part="filler")
    for name in "PQR":
        draft.ask("belief", "culprit", (*SUSPECTS, UNKNOWN), (name,), role="culprit")
    for name in "PQ":
        draft.ask("blame", "culprit", SUSPECTS, (name,))
        _ask_seen_feeling(draft, "culprit", "F", name)
    _ask_seen_feeling(draft, "culprit", "R", target)
    for name in "PQ":
        draft.ask("face", "culprit", FACES, (name,))
    return draft.world(scenario=scenario)


def _ask_both(draft: Draft, target: list[Key], masked: bool) -> None:
    """Ask where P and Q know it all: what Q thinks that P feels, or P of Q, and F and R; glad, sad and unknown once
    each."""
    one, other = target
    changed = one if masked else other
    draft.ask("feeling", "result", (RELIEVED, DISAPPOINTED), (changed,), role="relief", task="relief")
    _ask_seen_feeling(draft, "result", other, one)
    _ask_seen_feeling(draft, "result", "F", one if masked else other)
    _ask_seen_feeling(draft, "result", "R", one)


def _ask_one(draft: Draft, target: Key) -> None:
    """Ask where P or Q missed something: what they believe, too, and whether one of them will be surprised."""
    for name in "PQR":
        draft.ask("belief", "result", (*OUTCOMES, UNKNOWN), (name,))
    for name in "PQ":
        _ask_seen_feeling(draft, "result", "F", name)
    _ask_seen_feeling(draft, "result", "R", target)
    draft.ask("surprise", "result", (SURPRISED, UNSURPRISED), (target,))


def _ask_seen_feeling(draft: Draft, fact: str, onlooker: Key, name: Key) -> None:
    draft.ask("seen_feeling", fact, (*FACES, UNKNOWN), (onlooker, name))


def _faces(draft: Draft, seen: list[Key], roles: dict[Key, str]) -> None:
    """F meets P and Q, whose faces show something; the roles end in what it is."""
    draft.scene("stranger", by_slot("AB", seen))
    for name in seen:
        event = f"show {name} {roles[name].partition('_')[2]} seen F"
        # An open face is about the change; so it goes where the change is left out, but for the one who missed that.
        part: Part = "percept" if roles[name].startswith("open") and name != "P" else "plain"
        draft.scene(roles[name], {"A": name}, event, part=part)


APPEARANCE_FAMILY = Family(
    "appearance",
    draw_appearance,
    APPEARANCE_VERSIONS,
    # wrong_culprit has no twin in this sense: without the deed itself, nothing would make P's belief true.
    twins={"false_belief": ("noticed",)},
)


VALUES = ("x", "y", "z")
TESTIMONY_VERSIONS = (("trusted_false", "saw"), ("distrusted_true", "looked"), ("trusted_false", "trusted_true"))


@dataclass(frozen=True)
class Constellation:
    """Who trusts whom, what is so, and who looks. trusts: for P, Q and R the speaker whom they believe, "" for neither.
    noon, real: the value after the first change and after the second, as the key of the speaker who says so, "" for the
    old value. looks: who looks for themselves and who does not; None where nobody looks."""

    trusts: tuple[Key, Key, Key]
    noon: Key
    real: Key
    looks: tuple[Key, Key] | None

    def beliefs_of_listeners(self, looker: Key) -> dict[Key, Key]:
        """What each listener believes where `looker` looks ("" for nobody): the value that this speaker says, "" for
        the old one."""
        return {name: self.real if name == looker else whom for name, whom in zip("PQR", self.trusts, strict=True)}


def constellation(scenario: str, both_lie: bool) -> Constellation:
    """The constellation of a scenario. both_lie: whether in the scenarios about a trusted speaker who is wrong the
    other speaker is wrong, too."""
    if scenario == "trusted_true":
        return Constellation(("S", "T", ""), "S", "S", None)
    looks = ("P", "R") if scenario in ("saw", "looked") else ("R", "P")
    if scenario in ("distrusted_true", "looked"):
        return Constellation(("", "S", ""), "", "T", looks)
    return Constellation(("S", "T" if both_lie else "", "S"), "S", "" if both_lie else "T", looks)


def draw_testimony(draft: Draft, scenario: str) -> World:
    """Testimony: two speakers say different things about one matter, and every listener trusts one of them, or neither.

    Everybody knows the old value; while the listeners P, Q and R are away it may change twice, before the eyes of S and
    T. Then S says one value, T another, and nobody says the old one. Who trusts S or T believes what that one says, who
    trusts neither stays with the old value, and one listener may look for themselves. The constellations are such that
    P, Q and R always believe three different things, each of the three values is true equally often, and every value is
    named equally often; so nothing but following who trusts whom, and who saw, tells what somebody believes.

    trusted_false: P believes a speaker who says what is false, R looks. saw: P looks, R does not. distrusted_true: P
    stays with the old value, though somebody whom P distrusts says the truth, R looks. looked: P looks, R does not.
    trusted_true: P believes a speaker who says the truth.

    The matter is where a thing is, or a prospect for which every listener is ready in one of its values only, so that
    it makes them hopeful or afraid.
    """
    rng = draft.rng
    draft.cast(("P", "Q", "R", "S", "T"))
    ahead = _matter(draft)
    draft.facts = {"matter": VALUES}
    words = by_slot(("", "S", "T"), rng.sample(VALUES, 3))  # the old value, and what S and T say
    found = constellation(scenario, rng.random() < 2 / 3)
    orders = [rng.sample("PQR", 3) for _ in range(5)]
    crowd, closing, speakers = rng.sample("PQRST", 5), rng.sample(VALUES, 3), rng.sample("ST", 2)
    pairs = {name: rng.sample("ST", 2) for name in "PQR"}
    satisfied, asked, speaker = rng.random() < 0.5, rng.random() < 0.5, rng.choice("ST")

    draft.scene(
        "start", _all(draft, words[""]) | by_slot("ABCDE", crowd), f"fact matter={words['']} seen P, Q, R, S, T"
    )
    satisfied ^= scenario == "trusted_true"
    if ahead:
        # P and R wish for what they believe where R looks, or each for what the other believes then; where P looks, as
        # in the twin, their beliefs are the reverse.
        believed = found.beliefs_of_listeners("R" if found.looks else "")
        wished = believed if satisfied else believed | {"P": believed["R"], "R": believed["P"]}
        slots = by_slot("ABCabc", [*orders[0], *(words[wished[name]] for name in orders[0])])
        draft.scene("wishes", slots, *(f"want {name} matter={words[wished[name]]}" for name in orders[0]))
    else:
        draft.scene("needs", by_slot("ABC", orders[0]), "seek P, Q, R matter")
    for name in orders[1]:
        _trust(draft, name, found.trusts["PQR".index(name)], pairs[name])
    draft.scene("away", by_slot("ABC", orders[2]) | {"l": words[""]})
    draft.scene("noon", _all(draft, words[found.noon]), f"fact matter={words[found.noon]} seen S, T")
    real = words[found.real]
    draft.scene("later", _all(draft, real), f"fact matter={real} seen S, T", part="cause")
    for name, order in zip(speakers, orders[3:], strict=True):
        slots = by_slot("ABC", order) | {"I": name, "l": words[name]}
        draft.scene("tells", slots, f"tell {name} P, Q, R matter={words[name]}")
    if found.looks:
        draft.scene("looks", by_slot("EF", found.looks), f"see {found.looks[0]} matter", part="percept")
    draft.scene("closing", by_slot("abc", closing), part="filler")
    _ask(draft, found, ahead, speaker if asked else "")
    return draft.world(scenario=scenario, matter="prospect" if ahead else "place")


def _matter(draft: Draft) -> bool:
    """Draw the matter; whether it lies ahead of the listeners."""
    rng, ahead = draft.rng, draft.rng.random() < 0.5
    surrounding, thing = rng.choice(draft.lexicon.words["surroundings"]), rng.choice(draft.lexicon.words["objects"])
    matters = draft.lexicon.extra("testimony", "matters")
    matter = rng.choice(matters) if ahead else draft.lexicon.extra("testimony", "place")
    for key in ("sub", "in", "which", "at", "boss", "does", "look"):
        draft.words[key] = rng.choice(matter[key]) if isinstance(matter[key], list) else matter[key]
    if not ahead:
        draft.words |= {"room": surrounding["in"], "o": thing["name"], "for": rng.choice(thing["for"])}
        draft.plans = {"matter": {key: key for key in VALUES}}
    else:
        draft.words |= {AFRAID: "worried"}
        draft.prospects = ("matter",)
    values = matter["values"] if ahead else surrounding["places"]
    draft.words |= by_slot(VALUES, rng.sample(values, 3))
    return ahead


def _all(draft: Draft, value: Key) -> dict[str, Key]:
    """The slots of a sentence that names all values: l is what it is, m and n what it is not."""
    others = draft.rng.sample([key for key in VALUES if key != value], 2)
    return {"l": value, "m": others[0], "n": others[1]}


def _trust(draft: Draft, name: Key, trusted: Key, pair: list[Key]) -> None:
    distrusted = [speaker for speaker in pair if speaker != trusted]
    slots = {"A": name, "I": trusted or pair[0], "J": distrusted[-1]}
    draft.scene("trusts" if trusted else "doubts", slots, *(f"distrust {name} {other}" for other in distrusted))


def _ask(draft: Draft, found: Constellation, ahead: bool, speaker: Key) -> None:
    """Ask about P, Q and R, or, where another than P believes the truth, of a speaker instead of that one."""
    draft.ask("reality", "matter", VALUES)
    believed = found.beliefs_of_listeners(found.looks[0] if found.looks else "")
    for name in "PQR":
        who = speaker if speaker and name != "P" and believed[name] == found.real else name
        draft.ask("belief", "matter", VALUES, (who,))
    for name in "PR" if ahead else "PQR":
        kind, choices = ("feeling", (HOPEFUL, AFRAID)) if ahead else ("action", VALUES)
        task = "prospect" if ahead else "action"
        draft.ask(kind, "matter", choices, (name,), dimension="emotion" if ahead else "action", task=task)
    for name in "PR":
        draft.ask("surprise", "matter", (SURPRISED, UNSURPRISED), (name,))


TESTIMONY_FAMILY = Family(
    "testimony",
    draw_testimony,
    TESTIMONY_VERSIONS,
    twins={"trusted_false": ("saw",), "distrusted_true": ("looked",)},
    parted=("trusted_false", "distrusted_true"),
    reasons={("reality", "always reality"): (1.0, "it is the question")},
)
