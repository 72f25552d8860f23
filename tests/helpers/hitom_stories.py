"""Random Hi-ToM stories that can happen."""

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
