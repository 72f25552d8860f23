"""Random Hi-ToM stories that can happen, and a slow belief tracker to compare with, written from the description."""

from __future__ import annotations

from itertools import permutations

from hypothesis import strategies as st

from tomserve.benchmarks.hitom.events import (
    WAITING_ROOM,
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
)

AGENTS = ("Ada", "Bo", "Cleo", "Dov", "Eve")
ROOMS = ("den", "loft")
OBJECTS = ("pen", "cup")
CONTAINERS = ("red_box", "blue_box", "old_tin", "new_tin")
KINDS = ("enter", "exit", "move", "move", "place", "stay", "distractor", "claim", "tell")


@st.composite
def stories(draw: st.DrawFn, *, tells: bool = True, most: int = 24) -> Story:
    """Draw a story that passes `Story.check`, in which agents enter and leave at random and some never leave."""
    pick = draw(st.randoms(use_true_random=False))
    first = draw(st.lists(st.sampled_from(AGENTS), min_size=2, unique=True))
    events: list[Event] = [Enter(tuple(first), "den"), Place("pen", "red_box")]
    where, lies, entered = dict.fromkeys(first, "den"), {"pen": "den"}, "den"
    for kind in draw(st.lists(st.sampled_from(KINDS), min_size=draw(st.sampled_from((0, most // 2))), max_size=most)):
        inside = [name for name in where if where[name]]
        if kind == "enter":
            who = tuple(pick.sample(AGENTS, pick.randint(1, 3)))
            entered = pick.choice((*ROOMS, WAITING_ROOM))
            events.append(Enter(who, entered))
            where.update(dict.fromkeys(who, entered))
        elif kind == "place":
            thing = pick.choice(OBJECTS)
            events.append(Place(thing, pick.choice(CONTAINERS)))
            lies[thing] = entered
        elif kind == "distractor":
            events.append(Distractor(pick.choice(AGENTS), "likes the", pick.choice(CONTAINERS)))
        elif kind == "tell" and tells and len(where) > 1:
            speaker, hearer = pick.sample(list(where), 2)
            events.append(Tell(speaker, hearer, pick.choice(list(lies)), pick.choice(CONTAINERS)))
        elif kind == "claim" and tells:
            events.append(Claim(pick.choice(list(where)), pick.choice(list(lies)), pick.choice(CONTAINERS)))
        elif kind == "exit" and inside:
            name = pick.choice(inside)
            events.append(Exit(name, where[name]))
            where[name] = ""
        elif kind == "stay" and inside:
            name = pick.choice(inside)
            events.append(Stay(name, where[name]))
        elif kind == "move" and (able := [(n, o) for n in inside for o in lies if lies[o] == where[n]]):
            name, thing = pick.choice(able)
            events.append(Move(name, thing, pick.choice(CONTAINERS)))
    story = Story(tuple(events))
    story.check()
    return story


def all_beliefs(story: Story, obj: str, semantics: str, orders: int = 4) -> list[dict[tuple[str, ...], str]]:
    """Every belief chain up to `orders` after each sentence, worked out slowly from a table of all ordered tuples."""
    beliefs: dict[tuple[str, ...], str] = {}
    left: dict[str, int] = {}
    heard_of: list[str] = []
    before: dict[str, str] = {}
    found = []
    for line, (event, where, rooms) in enumerate(zip(story.events, story.presence(), story.rooms(), strict=True)):
        if isinstance(event, Enter):
            heard_of += [name for name in event.agents if name not in heard_of]
        for name, room in before.items():  # leaving a room, by a sentence or by going to wait
            said = isinstance(event, Exit) and event.agent == name
            if said or (room != WAITING_ROOM and where.get(name) == WAITING_ROOM):
                left[name] = line
        sees = isinstance(event, Move | Place) and event.object == obj
        sees = sees or (isinstance(event, Enter) and obj in rooms and rooms[obj] == event.room)
        if sees:
            present = [name for name, room in where.items() if room == rooms[obj]]
            if isinstance(event, Move | Place):
                beliefs[()] = event.container
            for order in range(1, orders + 1):
                for who in permutations(present, order):
                    beliefs[who] = beliefs[()]
        if isinstance(event, Claim | Tell) and event.object == obj:
            s, c = event.speaker, event.container
            hearers = [event.hearer] if isinstance(event, Tell) else [name for name in heard_of if name != s]

            def time(name: str, where: dict[str, str] = where) -> int:
                inside = where.get(name, WAITING_ROOM) != WAITING_ROOM
                return 10**6 if inside else left.get(name, -1)

            for h in hearers:
                trusts = time(s) > time(h)
                if semantics == "released":
                    beliefs[s, h] = c
                    if trusts:
                        beliefs[(h,)] = beliefs[h, s] = c
                elif trusts:
                    for order in range(orders):
                        for outer in permutations([s, *(x for x in hearers if x != h)], order):
                            beliefs[*outer, h] = c
        before = dict(where)
        found.append(dict(beliefs))
    return found
