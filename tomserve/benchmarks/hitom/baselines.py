"""What a story says without nesting beliefs: what all asked agents saw together, and which containers it mentions.

>>> story = Story.parse(["Ann and Bo entered the den.", "The pen is in the red_box.", "Bo exited the den.",
...                      "Ann moved the pen to the blue_box."])
>>> joint_witness(story, ("Bo", "Ann"), "pen"), mentioned(story.sentences(), ("blue_box", "green_box", "red_box"))
('red_box', ['red_box', 'blue_box'])

`joint_witness` is written from the rooms (`Story.presence`), apart from the tracker, and is the oracle of its tests and
of the rule in rules.py, which asks the tracker.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tomserve.benchmarks.hitom.events import Enter, Move, Place, Story
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


def mentioned(sentences: Iterable[str], choices: Sequence[str]) -> list[str]:
    """The choices that occur in the story as a word, also in tells and distractors, in order of first mention.

    A guesser who looks at the story needs no more than these: chance is 1 / their number.
    """
    wanted = set(choices)
    words = (word for text in sentences for word in re.findall(r"[\w'-]+", text))
    return list(dict.fromkeys(word for word in words if word in wanted))
