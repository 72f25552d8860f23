"""Rules of change, the second page of the rules (tomserve.benchmarks.worlds.rules): states of mind over the scenes.

A line with the event ``scene`` begins a scene; what somebody believes or feels "in" a scene is what they do at its end.
Each rule here is made from a rule for a state of mind, such as the belief:

    pair        Two states at one moment, of which one brings about the other, such as the belief and the feeling: since
                feelings and intentions are functions of belief and desire, the belief at that moment explains them.
    since       The state at the end of the scene before, and now: it changed if they differ (asked whether it changed).
    course      The state at the end of each scene so far, in order (asked how it changes).
    cause       The event that gave the belief its present content. Nothing else changed since then, so that without it
                belief, feeling and intention would be as before (the counterfactual reading of causes: Lewis 1973).
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
    """The rule whose answer is the event that changed the belief in the present scene: its source (see Happened) and
    the value; None where the state is as it was in the scene before, or where several events of one line changed it."""

    def rule(case: Case) -> Key | None:
        begins = [line for line in case.happened.scenes if line <= case.at]
        if len(begins) < 2 or state(case) == state(replace(case, at=begins[-1] - 1)):
            return None
        now = case.believed()
        turns = [line for line in range(begins[-1], case.at + 1) if case.believed(at=line - 1) != now]
        sources = case.happened.sources.get((turns[-1], case.question.fact), ()) if turns else ()
        return f"{sources[0]}_{now}" if len(sources) == 1 else None

    return rule


def _joined(states: list[Key | None]) -> Key | None:
    return None if None in states else "_".join(str(state) for state in states)
