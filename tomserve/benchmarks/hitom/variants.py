"""Variants of Hi-ToM questions: the story is read as events, changed, told again, and its beliefs are tracked again.

Agents, things and containers get other names, the story fewer words, other wordings, or another order of sentences
that do not depend on each other. A container is closed and cannot be seen through, and each has a noun of its own.

What goes where a story is condensed, one after the other until it is short enough: what distractors tell and that
somebody stays, then the longer of two wordings, at last that somebody moves another object than the one asked about.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tomserve import variants
from tomserve.benchmarks.hitom.baselines import parse_story, semantics_of, trace_story
from tomserve.benchmarks.hitom.events import (
    QUESTION_WORDINGS,
    Claim,
    Distractor,
    Enter,
    Event,
    Exit,
    Move,
    Place,
    Stay,
    Story,
    Tell,
    agents_of,
    other_wordings,
    read_question,
    short_wordings,
    words,
    write_question,
)
from tomserve.benchmarks.hitom.items import TrackedBeliefs, number_choices, story_factors
from tomserve.benchmarks.hitom.sampler import Dice
from tomserve.benchmarks.hitom.tracker import Semantics, trace
from tomserve.errors import InapplicableError
from tomserve.items import UNKNOWN, Factor, Gold, Item

Names = Mapping[str, str]
"""The new name of each old one; what is not here keeps its name."""

TOO_MANY = "more names than there are other words for"


@cache
def _coloured() -> re.Pattern[str]:
    """What matches the name of a container that is called by its colour, such as red_box."""
    return re.compile(rf"({'|'.join((*words().released_colours, *words().other_colours))})_(.+)")


def _rename_event(event: Event, names: Names) -> Event:
    """The event with other names; a distractor's verb gets "a" or "an", and no pronoun that says the agent's gender."""
    old = {field.name: getattr(event, field.name) for field in fields(event)}
    new: dict[str, Any] = {
        field: tuple(names.get(name, name) for name in value) if field == "agents" else names.get(value, value)
        for field, value in old.items()
        if field not in ("room", "verb", "the", "now")
    }
    if isinstance(event, Distractor) and event.sort == "saw" and new["thing"] != old["thing"]:
        new["verb"] = "saw an" if str(new["thing"])[0] in "aeiou" else "saw a"
    elif isinstance(event, Distractor) and event.sort == "lost" and new["agent"] != old["agent"]:
        new["verb"] = "lost their"
    return replace(event, **new)


def other_things(story: Story, choices: Iterable[str], dice: Dice) -> dict[str, str]:
    """Other names for all objects, containers and things of distractors, and for the choices but "unknown". Raises
    InapplicableError where there are not enough words for them."""
    objects: dict[str, None] = {}
    holders: dict[str, None] = {}
    others: dict[str, dict[str, None]] = defaultdict(dict)
    for event in story.events:
        if isinstance(event, Place | Move | Claim | Tell):
            objects[event.object] = holders[event.container] = None
        elif isinstance(event, Distractor):
            others[event.sort][event.thing] = None
    liked = {**others["likes"], **others["dislikes"]}
    offered = [choice for choice in choices if choice != UNKNOWN]
    known = {*holders, *offered, *words().containers}
    nouns = {_noun(name) for name in (*holders, *offered)} - {""}
    for thing in liked:  # which may be a container that nothing lies in
        if thing not in objects and (thing in known or _noun(thing) in nouns):
            holders[thing] = None
    holders |= dict.fromkeys(sorted(offered))
    used = {word.casefold() for word in (*story.agents, *holders, *objects, *others["saw"], *others["lost"], *liked)}
    used.update(event.room.casefold() for event in story.events if isinstance(event, Enter))
    names = _other_containers(list(holders), used, dice)
    for old, listed in (
        (objects, words().objects),
        (liked, (*words().foods, *words().objects)),
        (others["saw"], words().animals),
        (others["lost"], words().belongings),
    ):
        fresh = _pick_new(dice, listed, used)
        names |= {name: next(fresh) for name in old if name not in names}
    return names


def other_agents(story: Story, dice: Dice) -> dict[str, str]:
    """Other names for everybody. Raises InapplicableError where there are not enough of them."""
    agents = dict.fromkeys(name for event in story.events for name in agents_of(event))
    used = {word.casefold() for word in re.findall(r"[\w'-]+", " ".join(story.sentences()))}
    fresh = _pick_new(dice, (*words().other_agents, *words().agents), used)
    return {name: next(fresh) for name in agents}


def _noun(name: str) -> str:
    """The noun of a container that is called by its colour; nothing for any other name."""
    match = _coloured().fullmatch(name)
    return "" if match is None else match[2]


def _other_containers(holders: list[str], used: set[str], dice: Dice) -> dict[str, str]:
    """Other names for containers: those called by a colour keep their noun, and get another colour."""
    palette = _pick_new(dice, words().other_colours, {name.split("_")[0] for name in holders})
    shelf = _pick_new(dice, words().other_containers, used)
    colours: dict[str, str] = {}
    names: dict[str, str] = {}
    for name in holders:
        if (match := _coloured().fullmatch(name)) is None:
            names[name] = next(shelf)
            continue
        if match[1] not in colours:
            colours[match[1]] = next(palette)
        names[name] = f"{colours[match[1]]}_{match[2]}"
    return names


def _pick_new(dice: Dice, listed: Iterable[str], used: set[str]) -> Iterator[str]:
    """The words of a list in random order, without those that are used; each is used from then on. Raises
    InapplicableError at the end of the list."""
    left = [word for word in listed if word.casefold() not in used]
    for word in dice.sample(left, len(left)):
        if word not in used:
            used.add(word)
            yield word
    raise InapplicableError(TOO_MANY)


FIXED = "no sentence can change its place"
_TRIES = 8
"""How often an order is drawn before the story counts as one that has no other."""


def reorder(story: Story, dice: Dice) -> Story:
    """The story in another order, with the same beliefs of everybody about everything at its end. Raises
    InapplicableError where there is none."""
    events = [event for event in story.events if not isinstance(event, Distractor)]
    others = [event for event in story.events if isinstance(event, Distractor)]
    for _ in range(_TRIES):
        found = Story(tuple(_scatter(_draw_order(events, dice), others, dice)))
        if found.events != story.events:
            if not same_beliefs(story, found):
                raise InapplicableError(variants.CHANGES_TRUTH)
            return found
    raise InapplicableError(FIXED)


def same_beliefs(one: Story, other: Story) -> bool:
    """Whether everything is seen and said of every object in the same order by and to the same agents, with the same
    trust, so that all beliefs of any order end alike under either semantics."""
    for obj in one.objects:
        first, second = trace(one, obj), trace(other, obj)
        if first.bits != second.bits or [m[1:] for m in first.mentions] != [m[1:] for m in second.mentions]:
            return False
    return True


def _may_swap(one: Event, other: Event, tells: bool) -> bool:
    """Whether two events may change places. tells: whether anything is told in the story."""
    if not isinstance(one, Stay):
        one, other = other, one
    if isinstance(one, Stay):
        return not isinstance(other, Enter | Place) and one.agent not in agents_of(other)
    return isinstance(one, Exit) and isinstance(other, Exit) and one.agent != other.agent and not tells


def _draw_order(events: Sequence[Event], dice: Dice) -> list[Event]:
    """An order of the events in which each follows those that it has to follow, drawn step by step."""
    tells = any(isinstance(event, Claim | Tell) for event in events)
    after = [
        {at for at, earlier in enumerate(events[:place]) if not _may_swap(earlier, event, tells)}
        for place, event in enumerate(events)
    ]
    ready = [place for place, before in enumerate(after) if not before]
    found = []
    while ready:
        done = ready.pop(dice.below(len(ready)))
        found.append(events[done])
        for place, before in enumerate(after):
            if done in before:
                before.remove(done)
                if not before:
                    ready.append(place)
    return found


def _scatter(events: list[Event], others: Sequence[Event], dice: Dice) -> list[Event]:
    """The events with the others among them, each in a gap drawn for it."""
    gaps = [
        place
        for place in range(1, len(events) + 1)
        if not (isinstance(events[place - 1], Enter) and isinstance((*events, None)[place], Place))
    ] or [len(events)]
    drawn = sorted((dice.pick(gaps), at) for at in range(len(others)))
    found: list[Event] = []
    for place in range(len(events) + 1):
        found += [others[at] for gap, at in drawn if gap == place]
        found += events[place : place + 1]
    return found


Step = dict[int, str]
"""Lines (from 0) and what they become; nothing where they are left out."""

NOT_ENOUGH = "too little can be left out"


def condense(story: Story, obj: str) -> tuple[Story, tuple[str, ...]]:
    """The events that are left, and the sentences that tell them. obj: the object asked about. Raises InapplicableError
    where no part of the steps makes the story shorter by such a share."""
    texts = story.sentences()
    total = sum(len(text.split()) for text in texts)
    steps = list(_steps(story, obj))
    for first in range(len(steps)):
        told = _drop_words(texts, steps[first:] + steps[:first], variants.LEAST * total, variants.MOST * total)
        if told is not None:
            return Story(tuple(story.events[line] for line in told)), tuple(told.values())
    raise InapplicableError(NOT_ENOUGH)


def _drop_words(texts: tuple[str, ...], steps: list[Step], least: float, most: float) -> dict[int, str] | None:
    """The lines that are left when the steps are taken one after the other until `least` words are saved, without those
    that would save more than `most`; None where that is not reached."""
    told = dict(enumerate(texts))
    saved = 0
    for step in steps:
        gains = [len(told[line].split()) - len(text.split()) for line, text in step.items() if line in told]
        if 0 < sum(gains) <= most - saved:
            saved += sum(gains)
            told.update((line, text) for line, text in step.items() if line in told)
            told = {line: text for line, text in told.items() if text}
        if saved >= least:
            return told
    return None


def _steps(story: Story, obj: str) -> Iterator[Step]:
    """What can be done, the mildest first. Sentences of one sort are shortened all at once, or else one by one."""
    lines = list(enumerate(story.events))
    for kind in (Distractor, Stay):
        yield from ({line: ""} for line, event in lines if isinstance(event, kind))
    where = [{}, *story.presence()]
    for sort in (Exit, Place, Claim | Tell, Stay):
        shorter = {
            line: event.text(short_wordings()[event.sort])
            for line, event in lines
            if isinstance(event, sort)
            and (not isinstance(event, Exit | Stay) or where[line].get(event.agent) == event.room)
        }
        yield shorter
        yield from ({line: text} for line, text in shorter.items())
    yield from ({line: ""} for line, event in lines if isinstance(event, Move) and event.object != obj)


OTHER_FORM = "the story or the question has another form"
NEITHER = "no rule for this kind"
"""Reasons for which a variant cannot be had, besides those of the modules that change stories."""


class Retold(NamedTuple):
    """A story in a variant."""

    sentences: tuple[str, ...]
    ends: TrackedBeliefs
    names: Names  # what agents and things are called now
    asked: int | None  # in which wording its questions are asked, None for the released one
    counted: Mapping[str, Factor]  # the factors of the story


def make_retell(path: Path | None) -> variants.Retell:
    """The function that retells the items of the benchmark; every item holds its whole story, so no file is needed."""
    del path
    return retell


def retell(item: Item, kind: variants.Kind) -> Item:
    """The variant of that kind. Raises InapplicableError where the kind cannot be had of the story, and for an item
    whose sentences or question are not the benchmark's."""
    try:
        asked, obj = read_question(item.question)
        semantics = semantics_of(item)
        tracked = trace_story(item.story, obj).belief(asked, semantics)
    except ValueError:
        raise InapplicableError(OTHER_FORM) from None
    found = _retell_story(item.story, kind, item.cluster, obj, item.choices, semantics)
    names = found.names
    people, thing = tuple(names.get(name, name) for name in asked), names.get(obj, obj)
    chain = found.ends.traced.chain(people, semantics)
    if chain[-1] != names.get(tracked, tracked):
        raise InapplicableError(variants.CHANGES_TRUTH)
    choices = tuple(names.get(choice, choice) for choice in item.choices)
    answer = names.get(item.answer, item.answer)
    proper = item.gold is not None and item.answer == tracked and {*chain} <= {*choices}
    shown = number_choices([choice for choice in choices if choice != UNKNOWN])
    facts = {**found.counted, **found.ends.factors(people, chain[-1], answer, shown), "object": thing}
    made = variants.make_variant(
        item,
        kind,
        by=variants.RECORD,
        story=found.sentences,
        question=write_question(people, thing, found.asked),
        choices=choices,
        answer=answer,
        gold=Gold(chains=(tuple(chain),)) if proper else None,
    )
    own = {name: facts[name] for name in item.factors if name in facts}
    return made.model_copy(update={"factors": {**made.factors, **own}, **({} if proper else {"gold": None})})


@variants.remember_reasons(256)
def _retell_story(
    sentences: tuple[str, ...],
    kind: variants.Kind,
    cluster: str,
    obj: str,
    choices: tuple[str, ...],
    semantics: Semantics,
) -> Retold:
    """The story in a variant of that kind. Raises InapplicableError where there is none."""
    story = parse_story(sentences)
    if story.sentences() != sentences:
        raise InapplicableError(OTHER_FORM)
    dice = Dice(f"{cluster}:{kind.name}")
    names: dict[str, str] = {}
    asked, told = None, None
    if kind in (variants.OBJECT, variants.PERSON):
        names = other_things(story, choices, dice) if kind is variants.OBJECT else other_agents(story, dice)
        story = Story(tuple(_rename_event(event, names) for event in story.events))
    elif kind is variants.CONDENSED:
        story, told = condense(story, obj)
    elif kind is variants.PARAPHRASE:
        told = paraphrase(story, dice)
        asked = dice.below(QUESTION_WORDINGS)
    elif kind is variants.ORDER:
        story = reorder(story, dice)
    else:
        raise InapplicableError(NEITHER)
    shown = tuple(names.get(choice, choice) for choice in choices if choice != UNKNOWN)
    ends = TrackedBeliefs(trace(story, names.get(obj, obj)), semantics)
    return Retold(told or story.sentences(), ends, names, asked, story_factors(story, shown))


def paraphrase(story: Story, dice: Dice) -> tuple[str, ...]:
    """The sentences of a story in other words: one wording for each sort of sentence, drawn for the story."""
    wordings = {sort: dice.pick(listed) for sort, listed in other_wordings().items()}
    return tuple(event.text(wordings[event.sort]) for event in story.events)
