"""Shortcut baselines of Hi-ToM: rules that nest no beliefs, and the containers to which each known error would lead.

A container may have several explanations, and the right answer has some too. The metric PLACES gives them as columns
of the score table; `who_knows_what` shows in the report what the tracker derives.

    >>> item = Item(id="q", story=["Ann and Bo entered the den.", "The pen is in the red_box.", "Bo exited the den."],
    ...             question="Where does Ann think Bo thinks the pen is?", choices=["red_box", "unknown"],
    ...             answer="red_box")
    >>> dict(who_knows_what(item))["Ann › Bo"]
    ('unknown', 'red_box', 'red_box')
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import polars as pl

from tomserve.benchmarks.hitom.events import Claim, Distractor, Move, Place, Story, Tell, read_any_question, read_story
from tomserve.benchmarks.hitom.tracker import SEMANTICS, Semantics, Trace, find_mentioned, trace
from tomserve.items import UNKNOWN, Factor, Item
from tomserve.scoring.answers import Reading
from tomserve.scoring.baselines import Baseline
from tomserve.scoring.metrics import NO_REPLY, Metric

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
    """The containers that each of EXPLANATIONS leads to, each once, as far as they are among the choices. story,
    traced: the story and its trace for `obj`. asked: the agents asked about, the outermost first. choices: the labels
    to choose from. semantics: by which beliefs are derived."""
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
            m.container for m in traced.mentions if m.speaker and m.witnesses & ~m.speaker & ~m.trusting & mask
        ],
        "distractor": [event.thing for event in events if isinstance(event, Distractor)],
        "other_object": [event.container for event in places if event.object != obj],
    }
    known = set(choices) - {UNKNOWN}
    return {name: tuple(dict.fromkeys(place for place in listed if place in known)) for name, listed in found.items()}


def _after_leaving(traced: Trace, asked: int) -> list[str]:
    """The containers to which the object was moved while one of `asked` (as bits) who had seen it was away."""
    found, seen, now = [], 0, ""
    for mention in traced.mentions:
        if not mention.speaker:
            if mention.container != now and seen & ~mention.witnesses & asked:
                found.append(mention.container)
            seen, now = seen | mention.witnesses, mention.container
    return found


def false_tells(story: Story, obj: str) -> tuple[int, int]:
    """How many claims and private tells are false when they are made, and how many of these are about `obj`."""
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
    """The values of PLACES for an item; none where its story or question has another form. Beliefs are tracked under
    the item's factor `semantics` where it has one, else as released."""
    del reading  # these values do not depend on a reply
    try:
        asked, obj = read_any_question(item.question)
        story = parse_story(item.story)
    except ValueError:
        return {}
    choices = tuple(choice for choice in item.choices if choice != UNKNOWN)
    found = explanations(story, trace_story(item.story, obj), asked, obj, choices, semantics_of(item))
    false, about = false_tells(story, obj)
    return {
        "places_offered": " ".join(choices),
        "places_mentioned": " ".join(find_mentioned(item.story, choices)),
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
"""The metric of explanations: the containers of each, separated by spaces, and how many tells are false, in
all and about the object."""


def semantics_of(item: Item) -> Semantics:
    """The semantics by which an item was made: its factor `semantics`, or the released one where it has none."""
    return next((name for name in SEMANTICS if name == item.factors.get("semantics")), SEMANTICS[0])


parse_story = lru_cache(maxsize=64)(read_story)
"""`read_story`, of which a few results are remembered, because the questions of a story come one after another."""


@lru_cache(maxsize=64)
def trace_story(sentences: tuple[str, ...], obj: str) -> Trace:
    """The trace of such a story for an object. Raises ValueError as `parse_story` does."""
    return trace(parse_story(sentences), obj)


def answers(trace: Trace, asked: Sequence[str], semantics: Semantics = "released") -> dict[str, str]:
    """What each rule answers to a question: where the object is, what the innermost agent believes, and the container
    at the last sentence that all of `asked` saw together, in whatever order. trace: the story's trace for the object.
    asked: the agents asked about, the outermost first. semantics: by which beliefs are derived."""
    return {
        "always reality": trace.belief(),
        "first order": trace.belief(asked[-1:], semantics),
        "joint witness": trace.under(None).label(asked),
    }


@lru_cache(maxsize=16)
def _rule_answers(story: tuple[str, ...], question: str, semantics: Semantics) -> dict[str, str]:
    """The answers to a question, by the name of the rule; none where story or question has another form."""
    try:
        asked, obj = read_any_question(question)
        return answers(trace_story(story, obj), asked, semantics)
    except ValueError:
        return {}


def _of(name: str) -> Callable[[Item], str | None]:
    def answer(item: Item) -> str | None:
        """The rule's answer to an item; None where its story or question has another form, or lacks that choice."""
        found = _rule_answers(item.story, item.question, semantics_of(item)).get(name)
        return found if found in item.choices else None

    return answer


RULES = tuple(
    Baseline(name, _of(name), kind)
    for name, kind in (("always reality", "constant"), ("first order", "simpler"), ("joint witness", "simpler"))
)
"""The rules of the benchmark's field `rules`."""


Column = tuple[str, tuple[str, ...]]


def who_knows_what(item: Item) -> list[Column]:
    """Headings, each with a text a sentence: which asked agents are in the object's room, where it really is, what each
    of them believes, and the asked nesting where no gold chain says it. Nothing for items of another form."""
    try:
        asked, obj = read_any_question(item.question)
        story, trace = parse_story(item.story), trace_story(item.story, obj)
    except ValueError:
        return []
    semantics = semantics_of(item)
    columns: list[Column] = []
    if asked:
        rooms = zip(story.presence(), story.rooms(), strict=True)
        seen = [[name for name in asked if obj in lies and where.get(name) == lies[obj]] for where, lies in rooms]
        columns.append(("sees it", tuple(", ".join(names) or "–" for names in seen)))
    nestings: list[tuple[str, ...]] = [(), *((name,) for name in asked), asked]
    for nesting in dict.fromkeys(nestings):
        if nesting != asked or item.gold is None:
            columns.append((" › ".join(nesting) or "really", tuple(trace.chain(nesting, semantics))))
    return columns
