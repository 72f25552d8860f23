"""What may be done with a run in the queue, by where it stands: the words on the buttons of Queue and Live."""

from __future__ import annotations

from tomserve.web.cards import Card, State
from tomserve.web.people import Person

Action = tuple[str, str, bool]
"""The name of an action, as the queue calls it, the word on its button, and whether it ends something."""

PAUSE: Action = ("pause", "Pause", False)
RESUME: Action = ("resume", "Go on", False)
CANCEL: Action = ("cancel", "Cancel", True)
RETRY: Action = ("retry", "Try again", False)
MOVES: tuple[Action, ...] = (
    ("first", "First", False),
    ("up", "Up", False),
    ("down", "Down", False),
    ("last", "Last", False),
)

_OF: dict[State, tuple[Action, ...]] = {
    State.QUEUED: (PAUSE, CANCEL),
    State.WAITING: (PAUSE, CANCEL),
    State.RUNNING: (PAUSE, CANCEL),
    State.STOPPING: (),
    State.PAUSED: (RESUME, CANCEL),
    State.DONE: (),
    State.FAILED: (RETRY,),
    State.CANCELLED: (RETRY,),
}
MOVABLE = (State.QUEUED, State.WAITING, State.PAUSED)
"""States in which a run has a place in the order that can be changed."""


def actions(card: Card, person: Person) -> tuple[Action, ...]:
    """What that person may do with a run; nothing with one that was never in the queue, or is somebody else's."""
    if card.job is None or not person.may_change(card.owner):
        return ()
    return _OF[card.job.state]
