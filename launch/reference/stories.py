"""Generate stories of unexpected contents and unexpected transfer, first as events and then as sentences.

    python launch/reference/stories.py --stories 200 --seed 7 --held-out --out items.jsonl

A plot (plots.py) is a list of scenes: a role, who acts, and what happens, in the events of
tomserve.benchmarks.perturbed.stages. The gold beliefs are derived from the events; the sentences only put them
into words. Each story is asked about the world, about its protagonist, and about every other person whose belief the
events settle. None of it is taken from dataset/.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import phrases
import words
from plots import (
    CONTENTS_OTHERS,
    CONTENTS_SCENARIOS,
    PERTURBATIONS,
    TRANSFER_OTHERS,
    TRANSFER_SCENARIOS,
    Plot,
    bare,
    contents_plot,
    relay_plot,
    transfer_plot,
)

from tomserve.benchmarks.perturbed.stages import derive
from tomserve.items import UNKNOWN, Gold, Item, write_items

PLACED = (
    *("find", "label", "read", "read_label", "holds", "fills", "opens", "peeks", "setting", "put", "looks_on", "move"),
    *("watches", "away", "back", "stays"),
)
"""Roles whose sentence may end in a place that does not matter. With the roles left out here such an ending would
change what the sentence says.
"""
Short = tuple[list[str], list[str]]
"""Names, and words for everything else, of one token each: the words of the first lesson."""


@dataclass(frozen=True)
class Learned:
    """What a sentence lets people know.

    `who`: their names, with "" for the world itself, which the sentence changes or shows. `what`: the label that they
    learn. Both are empty (nobody and None) where the sentence tells nobody anything.
    """

    who: tuple[str, ...]
    what: str | None


@dataclass(frozen=True)
class AnnotatedStory:
    """A story with its questions, what each sentence lets whom know, and by item id whom it asks about ("" is the
    world).
    """

    items: list[Item]
    learned: tuple[Learned, ...]
    asked: dict[str, str]


def tell(
    rng: random.Random,
    name: str,
    *,
    held_out: bool = False,
    perturbed: bool = False,
    most: int | None = None,
    short: Short | None = None,
    relay: bool = False,
) -> AnnotatedStory:
    """One random story with all its questions, each with its choices in another order; it depends on `rng` alone.

    rng: the source of all random choices. name: of the story, with which the items' ids begin.
    held_out: use the words and phrasings that training never shows.
    perturbed: use a perturbation that training leaves out.
    most: tell a first lesson's story, only of the sentences that matter, with so many phrasings a role.
    short: the only names and the only other words, for the very first stories.
    relay: use the plot `plots.relay_plot`.
    """
    kind = "contents" if perturbed else rng.choice(("contents", "transfer"))
    scenario = rng.choice(("false_belief", *(CONTENTS_SCENARIOS if kind == "contents" else TRANSFER_SCENARIOS)))
    other = rng.choice(CONTENTS_OTHERS if kind == "contents" else TRANSFER_OTHERS)
    perturbation = rng.choice(PERTURBATIONS) if perturbed else "none"
    if kind == "contents":
        plot = contents_plot(rng, scenario, other, perturbation)
    else:
        plot = transfer_plot(rng, scenario, other)
    if relay:
        kind, scenario, other, plot = "transfer", "relay", "none", relay_plot(rng)
    elif most is not None:
        bare(plot)
    plot.factors = {"kind": f"unexpected_{kind}", "scenario": scenario, "other": other, "perturbation": perturbation}
    slots, people = _cast(rng, kind, held_out, short)
    past, whole = rng.random() < 0.35, most is None and not short

    used: set[str] = set()

    def render(role: str, own: dict[str, str]) -> str:
        filled = dict(slots)
        for key, value in own.items():
            filled[key] = slots[value] if key in "lnx" else people[value][0]
            if key in "AIM" and filled[key] != "you" and not short and rng.random() < 0.08:
                job, name = rng.choice(words.split(words.JOBS, held_out)), filled[key]
                filled[key] = rng.choice((f"the {job} {name}", f"{name} the {job}", f"{name}, a {job},"))
        filled |= dict(zip(("he", "him", "his"), people[own["A"]][1], strict=True)) if "A" in own else {}
        filled.setdefault("P", people["P"][0])
        offered = phrases.phrasings(role, kind, held_out, most)
        choice = rng.choice([phrasing for phrasing in offered if phrasing not in used] or offered)
        used.add(choice)
        if whole:  # add what does not matter: a quality here, a circumstance there
            for key in "cxyo":
                if rng.random() < 0.12 and f"the {{{key}}}" in choice:
                    filled[key] = f"{rng.choice(words.split(words.ADJECTIVES, held_out))} {filled[key]}"
            if role in PLACED and rng.random() < 0.15 and re.search(r"[\w)}]\.$", choice):
                choice = f"{choice[:-1]} {rng.choice(phrases.phrasings('tail', kind, held_out))}."
                pool = words.split(rng.choice((words.OBJECTS, words.ROOMS)), held_out)
                filled["w"] = words.invent(rng) if not held_out and rng.random() < 0.3 else rng.choice(pool)
        return phrases.say(choice, rng, filled, past=past, protagonist_is_you=filled["P"] == "you")

    story = tuple(render(scene.role, scene.slots) for scene in plot.scenes)
    events = [list(scene.events) for scene in plot.scenes]
    questions = [("reality", "P"), *(("belief", person) for person in plot.asked)]
    items = [_item(rng, name, plot, story, events, slots, people, question, held_out, most) for question in questions]
    names = {key: person[0] for key, person in people.items()}
    asked = {
        item.id: "" if kind == "reality" else names[key] for item, (kind, key) in zip(items, questions, strict=True)
    }
    return AnnotatedStory(items, _learned(events, slots, names), asked)


def _learned(events: list[list[str]], slots: dict[str, str], names: dict[str, str]) -> tuple[Learned, ...]:
    """What each sentence lets people know, derived from its events."""
    world, learned = "", []
    for sentence in events:
        who: list[str] = []
        what = None
        for event in sentence:
            verb, *arguments = event.replace(",", "").split()
            if verb == "world":
                what = world = arguments[0]
                who += ["", *(names[key] for key in arguments[2:])]
            else:
                who.append(names[arguments[0]])
                what = world if verb == "see" else arguments[1]
        learned.append(Learned(tuple(who), slots[what] if what else None))
    return tuple(learned)


def _cast(
    rng: random.Random, kind: str, held_out: bool, short: Short | None
) -> tuple[dict[str, str], dict[str, tuple[str, tuple[str, ...]]]]:
    """Words for the slots by key; and by key each person's name with its pronouns."""
    people: dict[str, tuple[str, tuple[str, ...]]] = {}
    for key in "PMWIJDKLN":
        female = rng.random() < 0.5
        while True:
            name = rng.choice(short[0] if short else words.split(words.WOMEN if female else words.MEN, held_out))
            if not short and not held_out and rng.random() < 0.55:
                name = words.invent(rng).capitalize()
            # A hint (hints.py) names a person by the first token, so that mostly no two names may begin alike.
            taken = {other if rng.random() < 0.05 else other[:1] for other, _ in people.values()}
            if name not in taken and name[:1] not in taken:
                break
        people[key] = (name, ("she", "her", "her") if female else ("he", "him", "his"))
    if rng.random() < 0.08:
        people["P"] = ("you", ("you", "you", "your"))
    labels = words.CONTENTS if kind == "contents" else words.PLACES
    made_up = not held_out and rng.random() < 0.6

    def label() -> str:
        if short:
            return rng.choice(short[1])
        if made_up:
            return words.invent(rng) + ("s" if kind == "contents" else "")
        return rng.choice(words.split(labels, held_out))

    def thing(pool: list[str]) -> str:
        if short:
            return rng.choice(short[1])
        return words.invent(rng) if not held_out and rng.random() < 0.5 else rng.choice(words.split(pool, held_out))

    x = label()
    while (y := label()).startswith(x) or x.startswith(y):
        pass
    slots = {
        "x": x,
        "y": y,
        "o": thing(words.OBJECTS),
        "c": thing(words.CLOSED),
        "r": thing(words.ROOMS),
        "article": "the "
        if kind == "transfer" and not short and rng.random() < 0.1
        else "",  # a label "the attic", not "attic"
    }
    return slots, people


def _item(
    rng: random.Random,
    name: str,
    plot: Plot,
    story: tuple[str, ...],
    events: list[list[str]],
    slots: dict[str, str],
    people: dict[str, tuple[str, tuple[str, ...]]],
    question: tuple[str, str],
    held_out: bool,
    most: int | None,
) -> Item:
    """The item of one question about a story.

    plot, story, events: the plot, its sentences, and the events of each sentence.
    slots, people: the words for the slots, and the persons by key.
    question: its kind ("reality" or "belief") and the key of the person whom it asks about.
    held_out, most: as in `tell`.
    """
    question_kind, person = question
    text = {UNKNOWN: UNKNOWN, "x": slots["article"] + slots["x"], "y": slots["article"] + slots["y"]}
    lines = derive(events, person)
    sets = tuple((text[(line.world if question_kind == "reality" else line.belief).labels[0]],) for line in lines)
    asked = people[person][0]
    wording = phrases.say(
        rng.choice(phrases.phrasings(question_kind, plot.kind, held_out, most)),
        rng,
        {**slots, "A": asked},
        past=False,
        protagonist_is_you=asked == "you",
    )
    choices = list(text.values())
    rng.shuffle(choices)
    agree = lines[-1].belief.labels == lines[-1].world.labels
    role = "protagonist" if person == "P" else "informed_other" if agree else "uninformed_other"
    factors = {
        **plot.factors,
        "question_kind": question_kind,
        "asked_role": None if question_kind == "reality" else role,
        "belief_is_false": None if question_kind == "reality" else not agree,
        "held_out": held_out,
    }
    return Item(
        id=f"{name}/{question_kind}/{person}",
        benchmark="generated",
        story=story,
        question=wording,
        choices=tuple(choices),
        answer=sets[-1][0],
        gold=Gold(sets=sets),
        factors=factors,
        cluster=name,
    )


def generate(stories: int, seed: int, *, held_out: bool, perturbed: bool = False) -> Iterator[Item]:
    """Yield all items of `stories` stories; the same arguments give the same items everywhere.

    held_out, perturbed: as in `tell`.
    """
    for number in range(stories):
        rng = random.Random(f"{seed}/{number}/{held_out}/{perturbed}")
        yield from tell(rng, f"generated-{seed}-{number}", held_out=held_out, perturbed=perturbed).items


def positive(text: str) -> int:
    """The value of an option that counts something. Raises ValueError, for which argparse has a message of its own."""
    if (value := int(text)) < 1:
        raise ValueError(text)
    return value


def main() -> None:
    """Write generated items as JSONL, which `tomserve eval --benchmark items --path` reads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stories", type=positive, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--held-out", action="store_true", help="words and phrasings that training never shows")
    parser.add_argument("--perturbed", action="store_true", help="perturbations that training leaves out")
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    write_items(chosen.out, generate(chosen.stories, chosen.seed, held_out=chosen.held_out, perturbed=chosen.perturbed))
    print(f"{chosen.out}: {chosen.stories} stories")


if __name__ == "__main__":
    main()
