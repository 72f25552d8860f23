"""Rules that nest no beliefs: how far they get is what accuracy on Hi-ToM has to be read against.

>>> story = Story.parse(["Ann and Bo entered the den.", "The pen is in the red_box.", "Bo exited the den.",
...                      "Ann moved the pen to the blue_box."])
>>> joint_witness(story, ("Bo", "Ann"), "pen"), first_order(story, ("Bo", "Ann"), "pen"), reality(story, "pen")
('red_box', 'blue_box', 'blue_box')

Without tells a nested belief *is* the joint-witness answer, so on such items a right answer shows no recursion.
`joint_witness` is written from the rooms (`Story.presence`), apart from the tracker, and is the oracle of its tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tomserve.benchmarks.hitom.events import Enter, Move, Place, Story
from tomserve.benchmarks.hitom.tracker import belief
from tomserve.items import UNKNOWN


def joint_witness(story: Story, asked: Sequence[str], obj: str) -> str:
    """The container at the last sentence that all of `asked` saw together, in whatever order; tells do not count."""
    label = container = UNKNOWN
    for event, where, rooms in zip(story.events, story.presence(), story.rooms(), strict=True):
        if isinstance(event, Place | Move) and event.object == obj:
            container = event.container
        elif not isinstance(event, Enter) or rooms.get(obj) != event.room:
            continue
        if obj in rooms and all(where.get(name) == rooms[obj] for name in asked):
            label = container
    return label


def first_order(story: Story, asked: Sequence[str], obj: str) -> str:
    """What the innermost agent believes: the answer of the same story's first-order question, copied."""
    return belief(story, asked[-1:], obj)


def reality(story: Story, obj: str) -> str:
    """Where the object is."""
    return belief(story, (), obj)


def mentioned(sentences: Iterable[str], choices: Sequence[str]) -> list[str]:
    """The choices that occur in the story as a word, also in tells and distractors, in order of first mention.

    A guesser who looks at the story needs no more than these: chance is 1 / their number.
    """
    wanted = set(choices)
    words = (word for text in sentences for word in re.findall(r"[\w'-]+", text))
    return list(dict.fromkeys(word for word in words if word in wanted))
