"""World stories as lessons: drawn by the families of tomserve.benchmarks.worlds, told in words of training.

The phrasings are those of dataset/worlds, but for every fourth of a role, which training never shows. The words are
others: names, things, places and contents of words.yaml, or invented ones, none of which the release has. A phrasing
with eight words in a row outside its slots is not shown, and a story that has eight words in a row with the release
because of two neighbouring sentences is drawn again. Roles that would be left with few have more in social.yaml.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import words
import yaml
from stories import AnnotatedStory, Learned

from tomserve.benchmarks.worlds.benchmark import load
from tomserve.benchmarks.worlds.draft import Draft
from tomserve.benchmarks.worlds.families import BY_NAME
from tomserve.benchmarks.worlds.generator import items, label, question_text, sentences
from tomserve.benchmarks.worlds.lexicon import Lexicon, built_in, expand_phrasing
from tomserve.benchmarks.worlds.record import World
from tomserve.benchmarks.worlds.rules import read_world
from tomserve.items import UNKNOWN, Item

FAMILIES = ("contents", "transfer", "second_order", "testimony", "appearance")
"""The families that are learned: those whose words all stand in slots, so that they can be told in other words."""

HELD_OUT_EVERY = 4
"""The phrasings at positions 3, 7, 11, ... of each role are held out, where a role has so many."""

RUN = 8
"""So many words in a row must not stand in a training story and in the release."""

END = 5
"""So many words at an end of a phrasing make it one that is avoided where there are others."""

MOST = 12
"""So often are phrasings changed for others before a story is given up."""

_SLOT, _FORM, _WORD = re.compile(r"\{\w+(?:'s)?\}"), re.compile(r"\{\w+:([^{}|]*)[^{}]*\}"), re.compile(r"\w+")


_OWN: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))


class Lessons(Lexicon):
    """The phrasings that training may show (or, with `held_out`, those that it may not), with words of one story.

    base: the phrasings of dataset/worlds. rng: draws the words.
    """

    def __init__(self, base: Lexicon, rng: random.Random, *, held_out: bool = False) -> None:
        self.base, self.held_out = base, held_out
        self.words = drawn_words(rng, held_out)

    def phrasings(self, family: str, role: str, part: str = "roles") -> tuple[str, ...]:
        """The phrasings of a role, as far as they may be shown; see the module."""
        every = self.base.phrasings(family, role, part)
        kept = [text for text in every if not repeats(text)]
        short = [text for text in kept if not repeats(text, END)]  # with a neighbour, a long end soon makes a run
        kept = short if len(short) > 3 else kept
        kept += [text for one in _OWN.get(family, {}).get(part, {}).get(role, ()) for text in expand_phrasing(one)]
        split = [text for place, text in enumerate(kept) if (place % HELD_OUT_EVERY == 3) == self.held_out]
        return tuple(split or kept)

    def extra(self, family: str, name: str) -> object:
        """What a family has besides roles and questions, in words of training. Raises KeyError for what has none, since
        a family that needs it must not be in FAMILIES."""
        return EXTRAS[family, name](self.words)


@cache
def repeats(phrasing: str, end: int = RUN) -> bool:
    """Whether a phrasing has so many words in a row outside its slots that those of the release would be the same, or
    at one of its ends as many as `end`."""
    counts = [len(_WORD.findall(_FORM.sub(r"\1", piece))) for piece in _SLOT.split(phrasing)]
    return any(count >= RUN for count in counts) or counts[0] >= end or counts[-1] >= end


def runs(texts: Iterable[str]) -> set[str]:
    """All runs of RUN words in each of these texts, in small letters."""
    found = set()
    for text in texts:
        listed = _WORD.findall(text.casefold())
        found |= {" ".join(listed[place : place + RUN]) for place in range(len(listed) - RUN + 1)}
    return found


@cache
def released_runs() -> frozenset[str]:
    """The runs of words in all stories and questions of the release, which no training story may have."""
    texts = {text for item in load() for text in (" ".join(item.story), item.question)}
    return frozenset(runs(texts))


ASIDE = ("for", "theme", "culture")
"""Parts of words.yaml that are neither names nor labels."""


@cache
def released_words() -> frozenset[str]:
    """Every word of dataset/worlds/words.yaml in small letters, which no invented word may be."""

    def texts(part: Any) -> Iterable[str]:
        if isinstance(part, Mapping):
            part = [one for key, one in part.items() if key not in ASIDE]
        if isinstance(part, str):
            yield from _WORD.findall(part.casefold())
        elif isinstance(part, Iterable):
            for one in part:
                yield from texts(one)

    return frozenset(texts(built_in().words))


def drawn_words(rng: random.Random, held_out: bool) -> dict[str, Any]:
    """Words for one story, in the form of dataset/worlds/words.yaml: seen or invented ones, or those held out."""

    def word(pool: Sequence[str]) -> str:
        if held_out or rng.random() >= 0.5:
            return rng.choice(words.split(list(pool), held_out))
        while (made := words.invent(rng)) in released_words():
            pass
        return made

    def several(draw: Callable[[], str], count: int) -> list[str]:
        found: list[str] = []
        while len(found) < count:
            one = draw()
            if not any(one in other or other in one for other in found):
                found.append(one)
        return found

    def place() -> str:
        return f"{word(words.OBJECTS)} {word(words.PLACES)}" if rng.random() < 0.5 else word(words.PLACES)

    def names(pool: Sequence[str]) -> list[str]:
        return [word(pool).capitalize() for _ in range(12)]

    things = several(lambda: word(words.OBJECTS), 8)
    purposes = [f"to {rng.choice(PURPOSES)} the {thing}" for thing in several(lambda: word(words.OBJECTS), 4)]
    contents = [one if one.endswith("s") else f"{one}s" for one in several(lambda: word(words.CONTENTS), 8)]
    containers = several(lambda: word(words.CLOSED), 4)
    return {
        "names": [{"culture": "", "women": names(words.WOMEN), "men": names(words.MEN)}],
        "surroundings": [{"in": word(words.ROOMS), "places": several(place, 6)} for _ in range(2)],
        "objects": [{"name": thing, "for": purposes} for thing in things],
        "containers": containers,
        "contents": [{"theme": "any", "containers": containers, "contents": contents}],
        "occupations": rng.sample(jobs := words.split(words.JOBS, held_out), len(jobs)),
        "relations": words.split(words.JOBS, held_out),
    }


HINTED = ("reality", "belief", "action")
"""Kinds of questions whose answer is a label that one sentence of the story lets the asked person know."""

PURPOSES = ("mend", "clean", "measure", "decorate", "sell", "draw")
"""What somebody may want to do with a thing, in training."""


Words = Mapping[str, Any]


def _rooms(found: Words) -> list[str]:
    return [place["in"] for place in found["surroundings"]]


def _plans(found: Words) -> list[list[str]]:
    thing = found["objects"][0]["name"]
    return [
        ["keep the {box}", "sell the {box}"],
        ["wash the {box}", f"wash the {thing}"],
        ["paint the {box}", "sit down"],
    ]


def _place(found: Words) -> dict[str, Any]:
    boss = [f"the {job}" for job in found["occupations"]]
    words_of_place = {"sub": "the {o}", "in": "in the", "which": "in which place", "at": "in the {room}"}
    return {**words_of_place, "boss": boss, "does": ["works there", "is busy"], "look": "{E:looks|look} everywhere"}


def _matters(found: Words) -> list[dict[str, Any]]:
    job, values = found["occupations"][0], found["contents"][0]["contents"]
    told = {"sub": f"the {found['objects'][0]['name']}", "in": "with", "which": "with what"}
    told["at"] = f"in the {found['surroundings'][0]['in']}"
    look = f"{{E:reads|read}} what the {job} wrote"
    return [{**told, "boss": f"the {job}", "does": ["works on it", "is busy"], "look": look, "values": values}]


def _decisions(found: Words) -> list[dict[str, Any]]:
    job, things = found["occupations"][-1], [thing["name"] for thing in found["objects"]]
    return [{"boss": f"the {job}", "sub": f"the {things[0]}", "go": "show", "the": "the", "values": things[1:]}]


def _works(found: Words) -> list[dict[str, str]]:
    return [{"work": found["objects"][0]["name"], "spoils": "{U:ruins|ruin} the {work}", "spoilt": "ruined"}]


EXTRAS: Mapping[tuple[str, str], Callable[[Words], object]] = {
    ("contents", "rooms"): _rooms,
    ("contents", "plans"): _plans,
    ("testimony", "place"): _place,
    ("testimony", "matters"): _matters,
    ("appearance", "decisions"): _decisions,
    ("appearance", "works"): _works,
}
"""What families have besides roles and questions, made of the words of one story."""


def tell(rng: random.Random, name: str, *, held_out: bool = False) -> AnnotatedStory:
    """One random world story with its questions, and what each sentence lets whom know; it depends on `rng` alone."""
    family = rng.choice(FAMILIES)
    while (told := _tell(rng, name, family, held_out)) is None:
        pass
    return told


def _tell(rng: random.Random, name: str, chosen: str, held_out: bool) -> AnnotatedStory | None:
    """A world story of the chosen family; None where it could not be told without a run of the release."""
    family = BY_NAME[chosen]
    lexicon = Lessons(built_in(), rng, held_out=held_out)
    draft = Draft(lexicon, family.name, f"{name}/{rng.random()}")
    world = family.draw(draft, rng.choice(family.scenarios))
    if rng.random() < 0.1:
        world = world.model_copy(update={"second": family.protagonist})
    mended = world if held_out else _mended(world, lexicon)  # what is only measured may share words with the release
    if mended is None:
        return None
    world, made = mended, [_shaped(item, held_out) for item in items(mended, lexicon)]
    hinted = [item for item in made if item.factors["order"] in (0, 1) and item.factors["kind"] in HINTED]
    return AnnotatedStory(
        made, learned(world, next(iter(world.facts))), {item.id: _asked(item, world) for item in hinted}
    )


def _mended(world: World, lexicon: Lexicon) -> World | None:
    """The world with other phrasings where words of the release would stand in a row, and without questions that have
    such in every phrasing; None where its story cannot be mended."""
    released = released_runs()
    for _ in range(MOST):
        story = sentences(world, lexicon)
        if released.isdisjoint(runs([" ".join(story)])):
            break
        scenes = list(world.scenes)
        for place in range(len(story)):
            if not released.isdisjoint(runs([" ".join(story[place : place + 3])])):
                chosen = min(place + 1, len(story) - 1)
                scenes[chosen] = scenes[chosen].model_copy(update={"phrasing": scenes[chosen].phrasing + 1})
        world = world.model_copy(update={"scenes": tuple(scenes)})
    else:
        return None
    kept = []
    for question in world.questions:
        for more in range(MOST):
            other = question.model_copy(update={"phrasing": question.phrasing + more})
            if released.isdisjoint(runs([question_text(world, other, lexicon)])):
                kept.append(other)
                break
    return world.model_copy(update={"questions": tuple(kept)}) if kept else None


def _asked(item: Item, world: World) -> str:
    """The name of whose mind an item asks about, the innermost; "" for the world."""
    who = str(item.factors["asked"] or "").split(">")[-1]
    return _named(world, who) if who else ""


def _named(world: World, key: str) -> str:
    return "you" if key == world.second else world.people[key].name


def _shaped(item: Item, held_out: bool) -> Item:
    """The item with the factors by which lessons weigh and measure (see packing.kind_of)."""
    condition = item.factors["condition"]
    role = "protagonist" if condition == "false_belief" or item.factors["asked"] is None else "informed_other"
    if item.answer == UNKNOWN:
        role = "uninformed_other"
    shaped = {
        **item.factors,
        "question_kind": "reality" if item.factors["asked"] is None else "belief",
        "asked_role": role,
        "belief_is_false": condition == "false_belief",
        "held_out": held_out,
    }
    return item.model_copy(update={"factors": shaped, "world": None})


def learned(world: World, fact: str) -> tuple[Learned, ...]:
    """What each sentence lets people know about a fact: who learns it, "" standing for the world, and which label."""
    trace = read_world(world).traces[fact]
    found, mixed = [Learned((), None)] * trace.lines, set[int]()
    for update in trace.updates:
        who = tuple(_named(world, key) for key, bit in trace.bits.items() if update.audience.takes((bit,)))
        if update.audience.takes(()):
            who = ("", *who)
        what = label(world, update.labels[0]) if update.labels[0] != UNKNOWN else None
        before = found[update.line]
        if before.who and before.what != what:  # several things at once: no hint can say who learns which
            mixed.add(update.line)
        found[update.line] = Learned(tuple(dict.fromkeys((*before.who, *who))), what)
    return tuple(Learned((), None) if line in mixed else one for line, one in enumerate(found))


def asked_in(made: Sequence[Item], form: str, *, chained: bool) -> list[Item]:
    """The items of a story that a form of lessons.FORMS can ask.

    chained: whether the reply has a chain, for which an item needs a gold rationale. Otherwise the bare form takes all,
    the form without "unknown" those whose choices lack it, and the rest those whose choices have it.
    """
    if chained:
        return [item for item in made if item.gold is not None]
    if form == "bare":
        return list(made)
    return [item for item in made if (UNKNOWN in item.choices) == (form != "vanilla, no unknown")]
