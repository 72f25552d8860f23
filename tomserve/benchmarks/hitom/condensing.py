"""Tell a Hi-ToM story in 30 to 40% fewer words: without its fillers, then in fewer words, with the same beliefs.

>>> lines = ["Ann and Bo entered the den.", "The pen is in the red_box.", "Ann likes the blue_box.",
...          "Ann moved the pen to the blue_box.", "Ann exited the den.", "Bo moved the pen to the red_box.",
...          "Bo made no movements and stayed in the den for 1 minute.", "Bo exited the den."]
>>> for sentence in condensed(Story.parse(lines), "pen")[1]:
...     print(sentence)
Ann and Bo entered the den.
The pen is in the red_box.
Ann moved the pen to the blue_box.
Ann exited the den.
Bo moved the pen to the red_box.
Bo exited the den.

What goes, one after the other until the story is short enough, and only where it does not become too short: first what
distractors tell and that somebody stays, then the longer of two wordings, at last that somebody moves another object
than the one asked about. Entering, leaving, and all that shows or says where the object is remain. Where these steps
jump over the wanted length, the first of them are left for last.
"""

from __future__ import annotations

from collections.abc import Iterator

from tomserve.benchmarks.hitom.events import Claim, Distractor, Exit, Move, Place, Stay, Story, Tell
from tomserve.benchmarks.hitom.wordings import SHORT, sort_of, write
from tomserve.errors import InapplicableError
from tomserve.stability import kinds

Step = dict[int, str]
"""Lines (from 0) and what they become; nothing where they are left out."""

NOT_ENOUGH = "too little can be left out"


def condensed(story: Story, obj: str) -> tuple[Story, tuple[str, ...]]:
    """The events that are left, and the sentences that tell them. obj: the object asked about.

    Raises InapplicableError where no part of the steps makes the story shorter by such a share.
    """
    texts = story.sentences()
    words = sum(len(text.split()) for text in texts)
    steps = list(_steps(story, obj))
    for first in range(len(steps)):
        told = _shortened(texts, steps[first:] + steps[:first], kinds.LEAST * words, kinds.MOST * words)
        if told is not None:
            return Story(tuple(story.events[line] for line in told)), tuple(told.values())
    raise InapplicableError(NOT_ENOUGH)


def _shortened(texts: tuple[str, ...], steps: list[Step], least: float, most: float) -> dict[int, str] | None:
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
            line: write(event, SHORT[sort_of(event)])
            for line, event in lines
            if isinstance(event, sort)
            and (not isinstance(event, Exit | Stay) or where[line].get(event.agent) == event.room)
        }
        yield shorter
        yield from ({line: text} for line, text in shorter.items())
    yield from ({line: ""} for line, event in lines if isinstance(event, Move) and event.object != obj)
