"""Random Hi-ToM stories that can happen, and a slow belief tracker to compare with, written from the description."""

from collections.abc import Sequence
from itertools import permutations

from hypothesis import strategies as st

from tomserve.benchmarks.hitom import events as said
from tomserve.benchmarks.hitom.events import WAITING_ROOM, Claim, Enter, Exit, Move, Place, Story, Tell

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
    events: list[said.Event] = [Enter(tuple(first), "den"), Place("pen", "red_box")]
    where, lies, entered = dict.fromkeys(first, "den"), {"pen": "den"}, "den"
    for kind in draw(st.lists(st.sampled_from(KINDS), min_size=draw(st.sampled_from((0, most // 2))), max_size=most)):
        inside = [name for name in where if where[name]]
        able = [(name, thing) for name in inside for thing in lies if lies[thing] == where[name]]
        thing, container = pick.choice(list(lies)), pick.choice(CONTAINERS)
        if kind == "enter":
            who = tuple(pick.sample(AGENTS, pick.randint(1, 3)))
            entered = pick.choice((*ROOMS, WAITING_ROOM))
            events.append(Enter(who, entered))
            where.update(dict.fromkeys(who, entered))
        elif kind == "place":
            thing = pick.choice(OBJECTS)
            events.append(Place(thing, container))
            lies[thing] = entered
        elif kind == "distractor":
            events.append(said.Distractor(pick.choice(AGENTS), "likes the", container))
        elif kind == "tell" and tells and len(where) > 1:
            speaker, hearer = pick.sample(list(where), 2)
            events.append(Tell(speaker, hearer, thing, container))
        elif kind == "claim" and tells:
            events.append(Claim(pick.choice(list(where)), thing, container))
        elif kind in ("exit", "stay") and inside:
            name = pick.choice(inside)
            events.append((Exit if kind == "exit" else said.Stay)(name, where[name]))
            where[name] = "" if kind == "exit" else where[name]
        elif kind == "move" and able:
            events.append(Move(*pick.choice(able), container))
    story = Story(tuple(events))
    story.check()
    return story


def last_seen_together(story: Story, asked: Sequence[str], obj: str) -> str:
    """The container at the last sentence that all of `asked` saw together, in whatever order; tells do not count."""
    label = container = "unknown"
    for event, where, rooms in zip(story.events, story.presence(), story.rooms(), strict=True):
        if isinstance(event, Place | Move) and event.object == obj:
            container = event.container
        elif not isinstance(event, Enter) or rooms.get(obj) != event.room:
            continue
        if obj in rooms and all(where.get(name) == rooms[obj] for name in asked):
            label = container
    return label


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
            leaves = isinstance(event, Exit) and event.agent == name
            if leaves or (room != WAITING_ROOM and where.get(name) == WAITING_ROOM):
                left[name] = line
        put = event.container if isinstance(event, Move | Place) and event.object == obj else ""
        if put or (isinstance(event, Enter) and rooms.get(obj) == event.room):
            beliefs[()] = put or beliefs[()]
            present = [name for name, room in where.items() if room == rooms[obj]]
            beliefs |= {who: beliefs[()] for order in range(1, orders + 1) for who in permutations(present, order)}
        if isinstance(event, Claim | Tell) and event.object == obj:
            s, c = event.speaker, event.container
            inside = {name: 10**6 for name, room in where.items() if room != WAITING_ROOM}
            time = {name: inside.get(name, left.get(name, -1)) for name in heard_of}
            hearers = [event.hearer] if isinstance(event, Tell) else [name for name in heard_of if name != s]
            for h in hearers:
                if semantics == "released":
                    beliefs[s, h] = c
                if time[s] > time[h] and semantics == "released":
                    beliefs[(h,)] = beliefs[h, s] = c
                elif time[s] > time[h]:
                    others = [s, *(x for x in hearers if x != h)]
                    beliefs |= {(*outer, h): c for order in range(orders) for outer in permutations(others, order)}
        before = dict(where)
        found.append(dict(beliefs))
    return found
