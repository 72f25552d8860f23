"""Testimony: two speakers say different things about one matter, and every listener trusts one of them, or neither.

Everybody knows the old value; while the listeners P, Q and R are away it may change twice, before the eyes of S and T.
Then S says one value, T another, and nobody says the old one. Who trusts S or T believes what that one says, who trusts
neither stays with the old value, and one listener may look for themselves. The constellations are such that P, Q and R
always believe three different things, each of the three values is true equally often, and every value is named equally
often; so nothing but following who trusts whom, and who saw, tells what somebody believes.

trusted_false: P believes a speaker who says what is false, R looks. saw: P looks, R does not. distrusted_true: P stays
with the old value, though somebody whom P distrusts says the truth, R looks. looked: P looks, R does not. trusted_true:
P believes a speaker who says the truth.

The matter is where a thing is, or a prospect for which every listener is ready in one of its values only, so that it
makes them hopeful or afraid.
"""

from __future__ import annotations

from dataclasses import dataclass

from tomserve.benchmarks.worlds.draft import Draft
from tomserve.benchmarks.worlds.family import Family
from tomserve.benchmarks.worlds.record import Key, World
from tomserve.benchmarks.worlds.rules import AFRAID, HOPEFUL, SURPRISED, UNSURPRISED

VALUES = ("x", "y", "z")
VERSIONS = (("trusted_false", "saw"), ("distrusted_true", "looked"), ("trusted_false", "trusted_true"))


@dataclass(frozen=True)
class Constellation:
    """Who trusts whom, what is so, and who looks.

    trusts: for P, Q and R the speaker whom they believe, "" for neither. noon, real: the value after the first change
    and after the second, as the key of the speaker who says so, "" for the old value. looks: who looks for themselves
    and who does not; None where nobody looks.
    """

    trusts: tuple[Key, Key, Key]
    noon: Key
    real: Key
    looks: tuple[Key, Key] | None

    def believed(self, looker: Key) -> dict[Key, Key]:
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


def draw(draft: Draft, scenario: str) -> World:
    """A world of testimony; see the module for the scenarios."""
    rng = draft.rng
    draft.cast(("P", "Q", "R", "S", "T"))
    ahead = _matter(draft)
    draft.facts = {"matter": VALUES}
    words = dict(zip(("", "S", "T"), rng.sample(VALUES, 3), strict=True))  # the old value, and what S and T say
    found = constellation(scenario, rng.random() < 2 / 3)
    orders = [rng.sample("PQR", 3) for _ in range(5)]
    crowd, closing, speakers = rng.sample("PQRST", 5), rng.sample(VALUES, 3), rng.sample("ST", 2)
    pairs = {name: rng.sample("ST", 2) for name in "PQR"}
    satisfied, asked, speaker = rng.random() < 0.5, rng.random() < 0.5, rng.choice("ST")

    draft.scene(
        "start",
        _all(draft, words[""]) | dict(zip("ABCDE", crowd, strict=True)),
        f"fact matter={words['']} seen P, Q, R, S, T",
    )
    satisfied ^= scenario == "trusted_true"
    if ahead:
        _wishes(draft, {name: words[word] for name, word in _wished(found, satisfied).items()}, orders[0])
    else:
        draft.scene("needs", dict(zip("ABC", orders[0], strict=True)), "seek P, Q, R matter")
    for name in orders[1]:
        _trust(draft, name, found.trusts["PQR".index(name)], pairs[name])
    draft.scene("away", dict(zip("ABC", orders[2], strict=True)) | {"l": words[""]})
    draft.scene("noon", _all(draft, words[found.noon]), f"fact matter={words[found.noon]} seen S, T")
    real = words[found.real]
    draft.scene("later", _all(draft, real), f"fact matter={real} seen S, T", part="cause")
    for name, order in zip(speakers, orders[3:], strict=True):
        slots = dict(zip("ABC", order, strict=True)) | {"I": name, "l": words[name]}
        draft.scene("tells", slots, f"tell {name} P, Q, R matter={words[name]}")
    if found.looks:
        draft.scene("looks", dict(zip("EF", found.looks, strict=True)), f"see {found.looks[0]} matter", part="percept")
    draft.scene("closing", dict(zip("abc", closing, strict=True)), part="filler")
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
    draft.words |= dict(zip(VALUES, rng.sample(values, 3), strict=True))
    return ahead


def _all(draft: Draft, value: Key) -> dict[str, Key]:
    """The slots of a sentence that names all values: l is what it is, m and n what it is not."""
    others = draft.rng.sample([key for key in VALUES if key != value], 2)
    return {"l": value, "m": others[0], "n": others[1]}


def _wished(found: Constellation, satisfied: bool) -> dict[Key, Key]:
    """What P, Q and R wish for: P and R for what they believe where R looks, or each for what the other believes then.
    Where P looks, as in the twin, their beliefs are the reverse."""
    believed = found.believed("R" if found.looks else "")
    return believed if satisfied else believed | {"P": believed["R"], "R": believed["P"]}


def _wishes(draft: Draft, wished: dict[Key, Key], order: list[Key]) -> None:
    slots = dict(zip("ABC", order, strict=True)) | {slot: wished[name] for slot, name in zip("abc", order, strict=True)}
    draft.scene("wishes", slots, *(f"want {name} matter={wished[name]}" for name in order))


def _trust(draft: Draft, name: Key, trusted: Key, pair: list[Key]) -> None:
    distrusted = [speaker for speaker in pair if speaker != trusted]
    slots = {"A": name, "I": trusted or pair[0], "J": distrusted[-1]}
    draft.scene("trusts" if trusted else "doubts", slots, *(f"distrust {name} {other}" for other in distrusted))


def _ask(draft: Draft, found: Constellation, ahead: bool, speaker: Key) -> None:
    """Ask about P, Q and R, or, where another than P believes the truth, of a speaker instead of that one."""
    draft.ask("reality", "matter", VALUES, dimension="reality", task="reality")
    believed = found.believed(found.looks[0] if found.looks else "")
    for name in "PQR":
        who = speaker if speaker and name != "P" and believed[name] == found.real else name
        draft.ask("belief", "matter", VALUES, (who,), dimension="belief", task="belief")
    for name in "PR" if ahead else "PQR":
        kind, choices = ("feeling", (HOPEFUL, AFRAID)) if ahead else ("action", VALUES)
        task = "prospect" if ahead else "action"
        draft.ask(kind, "matter", choices, (name,), dimension="emotion" if ahead else "action", task=task)
    for name in "PR":
        draft.ask("surprise", "matter", (SURPRISED, UNSURPRISED), (name,), dimension="emotion", task="surprise")


FAMILY = Family(
    "testimony",
    draw,
    VERSIONS,
    twins={"trusted_false": "saw", "distrusted_true": "looked"},
    reasons={("reality", "always reality"): (1.0, "it is the question")},
)
"""The value by which worlds knows the family."""
