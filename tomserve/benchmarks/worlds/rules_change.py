"""Rules of change, the second page of the rules (tomserve.benchmarks.worlds.rules): states of mind over the scenes.

A line with the event ``scene`` begins a scene; what somebody believes or feels "in" a scene is what they do at its end.
Each rule here is made from a rule for a state of mind, such as the belief:

    pair        Two states at one moment, of which one brings about the other, such as the belief and the feeling: since
                feelings and intentions are functions of belief and desire, the belief at that moment explains them.
    since       The state at the end of the scene before, and now: it changed if they differ (asked whether it changed).
    course      The state at the end of each scene so far, in order (asked how it changes).
    cause       The event that gave the belief its present content. Nothing else changed since then, so that without it
                belief, feeling and intention would be as before (the counterfactual reading of causes: Lewis 1973).
                So there is a cause only where one event of the scene bears on that belief, and the desire is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from tomserve.benchmarks.worlds.record import Key

if TYPE_CHECKING:
    from tomserve.benchmarks.worlds.rules import Case

Rule = Callable[["Case"], Key | None]
"""A rule: a function that gives the key of the right choice, or None."""


def pair(first: Rule, second: Rule) -> Rule:
    """The rule whose answer is the keys of both states, joined by an underscore."""
    return lambda case: _joined([first(case), second(case)])


def since(state: Rule) -> Rule:
    """The rule whose answer is the state at the end of the scene before and now, joined by an underscore; None in the
    first scene."""

    def rule(case: Case) -> Key | None:
        begins = [line for line in case.happened.scenes if line <= case.at]
        return _joined([state(replace(case, at=begins[-1] - 1)), state(case)]) if len(begins) > 1 else None

    return rule


def course(state: Rule) -> Rule:
    """The rule whose answer is the state at the end of each scene up to now, joined by underscores."""

    def rule(case: Case) -> Key | None:
        begins = [line for line in case.happened.scenes if line <= case.at]
        return _joined([state(replace(case, at=line)) for line in (*(line - 1 for line in begins[1:]), case.at)])

    return rule


def cause(state: Rule) -> Rule:
    """The rule whose answer is the event that changed the belief in the present scene: who said it ("fact" where it was
    no telling, "voice" for one without a name) and the value; None where the state is that of the scene before, there
    is none, or several events bear on it."""

    def rule(case: Case) -> Key | None:
        begins = [line for line in case.happened.scenes if line <= case.at]
        if len(begins) < 2:
            return None
        before, trace = replace(case, at=begins[-1] - 1), case.happened.traces[case.question.fact]
        if state(case) in (None, state(before)) or case.wanted != before.wanted:
            return None
        events = [update for update in trace.taken(case.question.who) if begins[-1] <= update.line <= case.at]
        if len(events) != 1:
            return None
        place = next(place for place, update in enumerate(trace.updates) if update is events[0])
        return f"{case.happened.speakers.get((case.question.fact, place), 'fact')}_{case.believed()}"

    return rule


def _joined(states: list[Key | None]) -> Key | None:
    return None if None in states else "_".join(str(state) for state in states)
