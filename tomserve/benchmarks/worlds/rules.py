"""The rules that give every right answer, on one page. Where they settle no answer, the question is never asked.

Beliefs of any order follow from who perceives what and who tells whom (tomserve.beliefs): people believe what they last
saw, or were last told by somebody whom they do not distrust, and that nothing has changed since. Who tells something
expects to be believed; who believes it takes the speaker to believe it, too.

From beliefs and desires follow the rest:

    desire      what the story says that somebody wants.
    intention   Who wants something intends the act that would bring it about if what they believe were true, whatever
    and action  is really so, and does it unless prevented (belief-desire psychology: Davidson 1963; Wellman 1990; in
                models of others' actions Baker, Saxe and Tenenbaum 2009). What somebody will do who believes nothing
                of the matter is unknown.
    backward    Of who acts, the same rule read backwards gives the belief (the desire being known) or the desire (the
                belief being known), where only one fits.
    feelings    Joy and distress are about what is believed to have come about, hope and fear about what is believed to
                lie ahead, each by whether it is what was wanted; relief is joy or hope where the contrary was believed
                before, disappointment distress where it was; anger is distress at what somebody is believed to have
                done on purpose (appraisal: Roseman 1984; Ortony, Clore and Collins 1988). Who believes nothing of the
                matter feels neither.
    surprise    Finding out is surprising where it differs from what was believed, and not where it agrees (Meyer,
                Reisenzein and Schuetzwohl 1997). Who believed nothing had nothing to be surprised about: not asked. Ann
                thinks that Ben will be surprised where what she believes differs from what she thinks he believes.
    faces       A face may show another feeling than the one that is felt (display rules: Ekman and Friesen 1969). Who
                knows how the matter stands for somebody goes by that; who does not goes by the face, and who does
                not see that, either, cannot tell (Harris, Donnelly, Guz and Pitt-Watson 1986).
    replies     Where a story says how people mean to reply to a matter, they mean the one reply ("match") if they
                believe that it is as they want, and the other ("mismatch") if not.
    changes     How these states go through the scenes of a story, and why, says the second page:
                tomserve.benchmarks.worlds.rules_change.

>>> from tomserve.benchmarks.worlds.record import Question
>>> sorted(KINDS)[:4]
['action', 'belief', 'belief_cause', 'belief_course']
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tomserve.benchmarks.worlds.events import Happened, read
from tomserve.benchmarks.worlds.record import Key, Question, World
from tomserve.benchmarks.worlds.rules_change import cause, course, pair, since
from tomserve.errors import one_of
from tomserve.items import UNKNOWN

GLAD, SAD, ANGRY, RELIEVED, DISAPPOINTED = "glad", "sad", "angry", "relieved", "disappointed"
AFRAID, HOPEFUL, SURPRISED, UNSURPRISED, INDIFFERENT = "afraid", "hopeful", "surprised", "not_surprised", "indifferent"
FEELINGS: Mapping[Key, str] = {
    **{name: name for name in (GLAD, SAD, ANGRY, RELIEVED, DISAPPOINTED, AFRAID, HOPEFUL, SURPRISED)},
    UNSURPRISED: "not surprised",
    INDIFFERENT: "neither glad nor sad",
}
"""The feelings of the rules, by their keys in every world, with the words that name them."""


@dataclass(frozen=True, slots=True)
class Case:
    """A question about a world with all that happened in it. at: the 0-based line after which the answer is wanted."""

    world: World
    happened: Happened
    question: Question
    at: int

    def believed(self, who: tuple[Key, ...] | None = None, at: int | None = None) -> Key:
        """What the fact is by the people asked about, or by `who`, after the line `at`; UNKNOWN where they cannot tell
        or several values are possible."""
        people = self.question.who if who is None else who
        belief = self.happened.beliefs(self.question.fact, people)[self.at if at is None else at]
        return belief.labels[0] if len(belief.labels) == 1 else UNKNOWN

    @property
    def wanted(self) -> Key | None:
        """What the innermost person asked about wants the fact to be; None where the story does not say."""
        return self.happened.wanted(self.question.who[-1], self.question.fact, self.at)

    def believed_before(self) -> set[Key]:
        """All values that the people asked about believed at some time before, UNKNOWN left out."""
        return {self.believed(at=line) for line in range(self.at)} - {UNKNOWN, self.believed()}

    def act(self, belief: Key, wanted: Key | None) -> Key | None:
        """The act of somebody with this belief and desire, by the world's plan; None where the plan says nothing."""
        plan = self.world.plans.get(self.question.fact, {})
        if wanted is None:
            return None
        if belief == UNKNOWN:
            return UNKNOWN
        if "match" in plan:
            return plan["match" if belief == wanted else "mismatch"] if wanted else None
        return plan.get(belief)

    def acted(self) -> Key | None:
        """What the innermost person asked about last did; None for nothing."""
        found = [act for line, act in self.happened.acts.get(self.question.who[-1], ()) if line <= self.at]
        return found[-1] if found else None


def _belief(case: Case) -> Key | None:
    return case.believed()


def _desire(case: Case) -> Key | None:
    return case.wanted or None


def _action(case: Case) -> Key | None:
    return case.act(case.believed(), case.wanted)


def _belief_from_act(case: Case) -> Key | None:
    acted, values = case.acted(), case.world.facts[case.question.fact]
    return _only({value for value in values if acted and case.act(value, case.wanted) == acted})


def _desire_from_act(case: Case) -> Key | None:
    acted, values, belief = case.acted(), case.world.facts[case.question.fact], case.believed()
    if belief == UNKNOWN:
        return None
    return _only({value for value in values if acted and case.act(belief, value) == acted})


def feelings(case: Case) -> set[Key]:
    """The feelings that the people asked about have about the fact (the outer ones: think that the innermost has)."""
    wanted, now = case.wanted, case.believed()
    if not wanted:
        return set()
    if now == UNKNOWN:
        return {INDIFFERENT}
    ahead = case.question.fact in case.world.prospects
    if now == wanted:
        relief = {RELIEVED} if case.believed_before() else set()
        return relief | {HOPEFUL if ahead else GLAD}
    lost = {DISAPPOINTED} if wanted in case.believed_before() else set()
    return {AFRAID} if ahead else {SAD} | lost


def _feeling(case: Case) -> Key | None:
    return _only(feelings(case) & set(case.question.choices))


def _seen_feeling(case: Case) -> Key | None:
    """What an onlooker thinks that somebody feels: by how the matter stands for them, else by the face they saw;
    UNKNOWN where they saw none."""
    if case.believed() != UNKNOWN:
        return _feeling(case)
    return _face(case) or UNKNOWN


def _face(case: Case) -> Key | None:
    """What the face of the innermost person showed last, to the outer ones where there are any."""
    *onlookers, person = case.question.who
    shown = case.happened.shown.get(person, ())
    seen = [value for line, value, people in shown if line <= case.at and set(onlookers) <= set(people)]
    return seen[-1] if seen else None


def _blame(case: Case) -> Key | None:
    """At whom the person is angry: whoever they believe to have done on purpose what they did not want."""
    return case.believed()


def _surprise(case: Case) -> Key | None:
    """Whether finding out will surprise the innermost person, by what is so, or what the outer ones believe is so."""
    believed, real = case.believed(), case.believed(case.question.who[:-1])
    if UNKNOWN in (believed, real):
        return None
    return UNSURPRISED if believed == real else SURPRISED


def _mood(case: Case) -> Key | None:
    """Whether the person is glad or sad, whatever finer feelings apply."""
    return _only(feelings(case) & {GLAD, SAD})


def _reply(case: Case) -> Key | None:
    """Which of two replies the person intends: "match" or "mismatch"."""
    believed = case.believed()
    if believed == UNKNOWN or not case.wanted:
        return None
    return "match" if believed == case.wanted else "mismatch"


def _only(found: set[Key]) -> Key | None:
    return next(iter(found)) if len(found) == 1 else None


KINDS: Mapping[str, Callable[[Case], Key | None]] = {
    "reality": lambda case: case.believed(()),
    "belief": _belief,
    "desire": _desire,
    "intention": _action,
    "action": _action,
    "belief_from_act": _belief_from_act,
    "desire_from_act": _desire_from_act,
    "feeling": _feeling,
    "seen_feeling": _seen_feeling,
    "face": _face,
    "blame": _blame,
    "surprise": _surprise,
    "feeling_about": pair(_mood, _belief),
    "reply_about": pair(_reply, _belief),
    "belief_then_feeling": pair(_belief, _mood),
    "belief_then_reply": pair(_belief, _reply),
    "belief_since": since(_belief),
    "feeling_since": since(_mood),
    "reply_since": since(_reply),
    "belief_course": course(_belief),
    "feeling_course": course(_mood),
    "belief_cause": cause(_belief),
    "feeling_cause": cause(_mood),
}
"""The rule that answers each kind of question: a function that gives the key of the right choice, or None."""


def happened(world: World) -> Happened:
    """What happened in a world. Raises ValueError by line for an event that makes no sense."""
    return read([scene.events for scene in world.scenes], world.facts, world.people)


def answer(
    world: World,
    question: Question,
    known: Happened | None = None,
    at: int | None = None,
    *,
    case: type[Case] = Case,
) -> Key | None:
    """The key of the right choice, or None where the rules do not settle the question or its answer is no choice.

    known: what happened, where it was read before. at: the 0-based line after which the answer is wanted; by default
    that of the question, or the end. case: who reads the world; another reader overrides what people believe in it.
    Raises ValueError for an event that makes no sense, and for an unknown kind.
    """
    known = known or happened(world)
    if at is None:
        at = question.at if question.at is not None else known.lines - 1
    if question.kind not in KINDS:
        raise ValueError(one_of("kind of question", question.kind, KINDS))
    found = KINDS[question.kind](case(world, known, question, at))
    return found if found in question.choices else None


def answers(world: World, question: Question, known: Happened | None = None) -> list[Key] | None:
    """The right answer after every line, up to the line that is asked about; None where some line has none."""
    known = known or happened(world)
    last = question.at if question.at is not None else known.lines - 1
    found = [answer(world, question, known, at) for at in range(last + 1)]
    return [key for key in found if key is not None] if None not in found else None
