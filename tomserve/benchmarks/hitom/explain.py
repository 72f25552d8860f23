"""What a wrong answer to a Hi-ToM question may come from: for every explanation that can be proved, its containers.

>>> story = Story.parse(["Ann and Bo entered the den.", "The pen is in the red_box.", "Bo exited the den.",
...                      "Ann moved the pen to the blue_box.", "Ann likes the green_box."])
>>> found = explanations(story, trace(story, "pen"), ("Ann", "Bo"), "pen", ("blue_box", "green_box", "red_box"))
>>> found["reality"], found["after_leaving"], found["distractor"], found["lower_order"]
(('blue_box',), ('blue_box',), ('green_box',), ('red_box',))

A container may have several explanations, and the right answer has some too: a study compares what a model chose with
all that it could have chosen instead. The metric PLACES gives them as columns of the score table, where it is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import polars as pl

from tomserve.benchmarks.hitom.baselines import mentioned
from tomserve.benchmarks.hitom.events import Claim, Distractor, Move, Place, Story, Tell
from tomserve.benchmarks.hitom.questions import read_question
from tomserve.benchmarks.hitom.tracker import SEMANTICS, Semantics, Trace, trace
from tomserve.items import UNKNOWN, Factor, Item
from tomserve.scoring.answers import Reading
from tomserve.scoring.metric import NO_REPLY, Metric

EXPLANATIONS = (
    "lower_order",  # the answer of a lower-order question of the same nesting (the inner agents' belief)
    "reality",  # where the object is
    "initial_place",  # where it was first
    "claimed_place",  # where somebody said that it is
    "after_leaving",  # where it was put when an asked agent, who had seen it before, was away
    "untrusted_speaker",  # where somebody said that it is to an asked agent who does not trust him
    "distractor",  # a container that somebody likes or dislikes
    "other_object",  # a container of another object
)


def explanations(
    story: Story,
    traced: Trace,
    asked: Sequence[str],
    obj: str,
    choices: Sequence[str],
    semantics: Semantics = "released",
) -> dict[str, tuple[str, ...]]:
    """The containers of every explanation (EXPLANATIONS), each once, those among the choices."""
    events = story.events
    places = [event for event in events if isinstance(event, Place | Move)]
    own = [event.container for event in places if event.object == obj]
    mask = 0
    for name in asked:
        mask |= traced.bits.get(name, 0)
    found: dict[str, Iterable[str]] = {
        "lower_order": [traced.belief(asked[inner:], semantics) for inner in range(1, len(asked))],
        "reality": own[-1:],
        "initial_place": own[:1],
        "claimed_place": [e.container for e in events if isinstance(e, Claim | Tell) and e.object == obj],
        "after_leaving": _after_leaving(traced, mask),
        "untrusted_speaker": [
            u.container for u in traced.updates if u.speaker and u.witnesses & ~u.speaker & ~u.trusting & mask
        ],
        "distractor": [event.thing for event in events if isinstance(event, Distractor)],
        "other_object": [event.container for event in places if event.object != obj],
    }
    known = set(choices) - {UNKNOWN}
    return {name: tuple(dict.fromkeys(place for place in listed if place in known)) for name, listed in found.items()}


def _after_leaving(traced: Trace, asked: int) -> list[str]:
    """Where the object was put, from elsewhere, while somebody of `asked` (bits) who had seen it was away."""
    found, seen, now = [], 0, ""
    for update in traced.updates:
        if not update.speaker:
            if update.container != now and seen & ~update.witnesses & asked:
                found.append(update.container)
            seen, now = seen | update.witnesses, update.container
    return found


def false_tells(story: Story, obj: str) -> tuple[int, int]:
    """How many claims and private tells are false when they are made, and how many of these about `obj`."""
    where: dict[str, str] = {}
    false = about = 0
    for event in story.events:
        if isinstance(event, Place | Move):
            where[event.object] = event.container
        elif isinstance(event, Claim | Tell) and where.get(event.object) != event.container:
            false += 1
            about += event.object == obj
    return false, about


def places(item: Item, reading: Reading = NO_REPLY) -> dict[str, Factor]:
    """The columns of an item by its story, question and choices; none where these are not of the known forms.

    Beliefs are tracked under the item's factor `semantics` where it has one, else as released.
    """
    del reading  # they belong to the item, whatever was answered
    try:
        asked, obj = read_question(item.question)
        story = parsed(item.story)
    except ValueError:
        return {}
    choices = tuple(choice for choice in item.choices if choice != UNKNOWN)
    found = explanations(story, traced(item.story, obj), asked, obj, choices, semantics_of(item))
    false, about = false_tells(story, obj)
    return {
        "places_offered": " ".join(choices),
        "places_mentioned": " ".join(mentioned(item.story, choices)),
        **{f"places_{name}": " ".join(listed) for name, listed in found.items()},
        "tells_false": false,
        "tells_false_asked": about,
    }


PLACES = Metric(
    {
        "places_offered": pl.String,
        "places_mentioned": pl.String,
        **{f"places_{name}": pl.String for name in EXPLANATIONS},
        "tells_false": pl.Int64,
        "tells_false_asked": pl.Int64,
    },
    places,
    of_item=True,
)
"""Containers in words; false tells of the story, and about the object."""


def semantics_of(item: Item) -> Semantics:
    """The semantics under which an item was made, by its factor of that name; the released one where it has none."""
    return next((name for name in SEMANTICS if name == item.factors.get("semantics")), SEMANTICS[0])


@lru_cache(maxsize=64)
def parsed(sentences: tuple[str, ...]) -> Story:
    """The story of an item; its questions stand together, so a few are kept. Raises ValueError."""
    return Story.parse(sentences)


@lru_cache(maxsize=64)
def traced(sentences: tuple[str, ...], obj: str) -> Trace:
    """Its trace for an object. Raises ValueError."""
    return trace(parsed(sentences), obj)
