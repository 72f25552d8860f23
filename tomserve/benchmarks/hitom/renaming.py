"""Give the things, or the people, of a Hi-ToM story other names.

>>> story = Story.parse(["Ann and Bo entered the den.", "The pen is in the red_box.", "Ann saw a cat."])
>>> names = other_things(story, ("red_box", "blue_box"), Dice("1"))
>>> sorted(names), names["red_box"].endswith("_box"), "red" in names["red_box"]
(['blue_box', 'cat', 'pen', 'red_box'], True, False)
>>> renamed(story, {"Ann": "Meera", "pen": "flute", "cat": "owl"}).sentences()
('Meera and Bo entered the den.', 'The flute is in the red_box.', 'Meera saw an owl.')

No two names become one, none becomes a word that the story or its choices have. A container that is called by a colour
gets another colour and keeps its noun, as "red_box"; any other becomes one of other_words.py. What is told of the story
does not depend on which containers are merely offered, and twins of a story are renamed alike (see `Dice`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from tomserve.benchmarks.hitom import other_words, words
from tomserve.benchmarks.hitom.dice import Dice
from tomserve.benchmarks.hitom.events import (
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
)
from tomserve.errors import InapplicableError
from tomserve.items import UNKNOWN

Names = Mapping[str, str]
"""The new name of each old one; what is not here keeps its name."""

TOO_MANY = "more names than there are other words for"
_COLOURED = re.compile(rf"({'|'.join((*other_words.RELEASED_COLOURS, *other_words.COLOURS))})_(.+)")


def renamed(story: Story, names: Names) -> Story:
    """The story with other names for agents, objects, containers and whatever else distractors speak of."""
    return Story(tuple(_renamed(event, names) for event in story.events))


def _renamed(event: Event, names: Names) -> Event:
    def of(name: str) -> str:
        return names.get(name, name)

    match event:
        case Enter(agents, room):
            return Enter(tuple(map(of, agents)), room)
        case Place(thing, container):
            return Place(of(thing), of(container))
        case Move(agent, thing, container):
            return Move(of(agent), of(thing), of(container))
        case Stay(agent, room):
            return Stay(of(agent), room)
        case Exit(agent, room):
            return Exit(of(agent), room)
        case Claim(speaker, thing, container, the, now):
            return Claim(of(speaker), of(thing), of(container), the, now)
        case Tell(speaker, hearer, thing, container, now):
            return Tell(of(speaker), of(hearer), of(thing), of(container), now)
        case Distractor(agent, verb, thing):
            return Distractor(of(agent), _verb(verb, event, of(agent), of(thing)), of(thing))


def _verb(verb: str, event: Distractor, agent: str, thing: str) -> str:
    """The distractor's verb for another agent and thing: "a" or "an", and no pronoun that says the agent's gender."""
    if verb.startswith("saw") and thing != event.thing:
        return "saw an" if thing[0] in "aeiou" else "saw a"
    return "lost their" if verb.startswith("lost") and agent != event.agent else verb


def other_things(story: Story, choices: Iterable[str], dice: Dice) -> dict[str, str]:
    """Other names for all objects, containers and things of distractors, and for the choices but "unknown".

    Raises InapplicableError where there are not enough words for them.
    """
    offered = [choice for choice in choices if choice != UNKNOWN]
    holders, objects, seen, lost, liked = _things(story, offered)
    used = {word.casefold() for word in (*story.agents, *holders, *objects, *seen, *lost, *liked)}
    used.update(event.room.casefold() for event in story.events if isinstance(event, Enter))
    names = _other_containers(holders, used, dice)
    for old, lists in (
        (objects, words.OBJECTS),
        (liked, (*words.FOODS, *words.OBJECTS)),
        (seen, words.ANIMALS),
        (lost, words.BELONGINGS),
    ):
        fresh = _fresh(dice, lists, used)
        names |= {name: next(fresh) for name in old if name not in names}
    return names


def other_agents(story: Story, dice: Dice) -> dict[str, str]:
    """Other names for everybody. Raises InapplicableError where there are not enough of them."""
    agents = dict.fromkeys(name for event in story.events for name in agents_of(event))
    used = {word.casefold() for word in re.findall(r"[\w'-]+", " ".join(story.sentences()))}
    fresh = _fresh(dice, (*other_words.OTHER_AGENTS, *words.AGENTS), used)
    return {name: next(fresh) for name in agents}


def _things(story: Story, offered: list[str]) -> tuple[list[str], ...]:
    """What is named in the story, each once: containers and then those that are merely offered, objects, and what is
    seen, lost and liked. What is liked may be a container that nothing lies in."""
    holders: dict[str, None] = {}
    objects: dict[str, None] = {}
    others: dict[str, dict[str, None]] = {"saw": {}, "lost": {}, "likes": {}, "dislikes": {}}
    for event in story.events:
        if isinstance(event, Place | Move | Claim | Tell):
            objects[event.object] = holders[event.container] = None
        elif isinstance(event, Distractor):
            others[event.verb.split()[0]][event.thing] = None
    liked = {**others["likes"], **others["dislikes"]}
    known = {*holders, *offered, *words.CONTAINERS}
    nouns = {_noun(name) for name in (*holders, *offered)} - {""}
    for thing in liked:
        if thing not in objects and (thing in known or _noun(thing) in nouns):
            holders[thing] = None
    holders |= dict.fromkeys(sorted(offered))
    plain = [name for name in objects if name not in holders]
    return list(holders), plain, list(others["saw"]), list(others["lost"]), list(liked)


def _noun(name: str) -> str:
    """The noun of a container that is called by its colour; nothing for any other name."""
    match = _COLOURED.fullmatch(name)
    return "" if match is None else match[2]


def _other_containers(holders: list[str], used: set[str], dice: Dice) -> dict[str, str]:
    colours: dict[str, str] = {}
    palette = _fresh(dice, other_words.COLOURS, {name.split("_")[0] for name in holders})
    shelf = _fresh(dice, other_words.OTHER_CONTAINERS, used)
    names: dict[str, str] = {}
    for name in holders:
        match = _COLOURED.fullmatch(name)
        if match is None:
            names[name] = next(shelf)
            continue
        if match[1] not in colours:
            colours[match[1]] = next(palette)
        names[name] = f"{colours[match[1]]}_{match[2]}"
    return names


def _fresh(dice: Dice, listed: Iterable[str], used: set[str]) -> Iterator[str]:
    """The words of a list in random order, without those that are used; each is used from then on. Raises
    InapplicableError at the end of the list."""
    left = [word for word in listed if word.casefold() not in used]
    for word in dice.sample(left, len(left)):
        if word not in used:
            used.add(word)
            yield word
    raise InapplicableError(TOO_MANY)
