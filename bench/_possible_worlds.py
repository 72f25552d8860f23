"""The rules of worlds once more, by brute force over possible worlds: what the first implementation is checked against.

It shares no code with tomserve and reads nothing but the `world` of an item (JSON). A *history* is a list of
occurrences. Who believes something goes through all histories that agree with what they perceived (what they saw,
what they were told by somebody whom they do not distrust) and keeps those with the fewest changes that they would have
missed. What is so in all of these, they believe; where they differ, nothing. What Ann thinks that Ben believes is found
by going through Ben's histories in each history that Ann keeps. Every other question is answered by trying all choices:
the right one is the only one that fits the rule as the docstring of tomserve/benchmarks/worlds/rules.py states it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

UNKNOWN = "unknown"
"""What is believed where several values are possible, and the choice that says so."""


class Occurrence(NamedTuple):
    """What happens, by its kind. change: the world becomes `value`, the witnesses see it and one another. look: they
    find out together that it holds. glance: each of them does, and thinks nothing of the others. saying: the speaker
    says so to the witnesses, some of whom distrust. said: that to the speaker: each hearer is told that it holds."""

    kind: str
    value: str
    witnesses: frozenset[str] = frozenset()
    speaker: str = ""
    distrusting: frozenset[str] = frozenset()


History = tuple[Occurrence, ...]
Percept = tuple[Occurrence | None, str | None]
"""What somebody makes of an occurrence, None for nothing, and which value must hold by then, None for any."""


def perceived(occurrence: Occurrence, person: str) -> Percept:
    """What an occurrence is to a person."""
    kind, value, witnesses, speaker, distrusting = occurrence
    if kind == "saying" and person == speaker:
        return Occurrence("said", value, witnesses - {speaker}), None
    if person not in witnesses - distrusting:
        return None, None
    if kind == "said":
        return None, value
    if kind in ("glance", "saying"):  # who is believed is taken to know what they say
        return Occurrence("look", value, frozenset({person if kind == "glance" else speaker})), value
    return occurrence, value


def holds(history: History) -> str:
    """What is really so at the end of a history."""
    return next((one.value for one in reversed(history) if one.kind == "change"), UNKNOWN)


@lru_cache(maxsize=200_000)
def believed(history: History, who: tuple[str, ...], values: tuple[str, ...]) -> str:
    """What the chain of people believes at the end of a history; for nobody, what is really so."""
    if not who:
        return holds(history)
    percepts = [perceived(occurrence, who[0]) for occurrence in history]
    found = {believed(possible, who[1:], values) for possible in most_plausible(percepts, values)}
    return found.pop() if len(found) == 1 else UNKNOWN


def most_plausible(percepts: Sequence[Percept], values: Sequence[str]) -> list[History]:
    """All histories that agree with the percepts and have the fewest changes that went unperceived."""
    for missed in range(len(percepts) + 1):
        starts = ((Occurrence("change", start),) for start in values)
        if found := [history for start in starts for history in _agreeing(percepts, values, start, missed)]:
            return found
    raise AssertionError("a change before every percept explains any percepts")


def _agreeing(percepts: Sequence[Percept], values: Sequence[str], so_far: History, missed: int) -> Iterator[History]:
    """All ways in which a history goes on that agree with the percepts and have exactly so many missed changes."""
    if not percepts:
        yield from [] if missed else [so_far]
        return
    occurrence, claim = percepts[0]
    unseen = [(Occurrence("change", value),) for value in values if missed and value != holds(so_far)]
    for changes in ((), *unseen):
        history = so_far + changes + ((occurrence,) if occurrence is not None else ())
        if claim is None or holds(history) == claim:
            yield from _agreeing(percepts[1:], values, history, missed - len(changes))


Events = tuple[tuple[int, tuple[str, ...]], ...]
"""The words of each event of a story, with their lines."""


@dataclass(frozen=True)
class QuestionAt:
    """A question after a line of a story, with what the rules speak of; all is worked out anew each time."""

    world: Mapping[str, Any]
    events: Events
    question: Mapping[str, Any]
    line: int

    who = property(lambda self: tuple(self.question.get("who", ())))
    person = property(lambda self: self.who[-1])
    fact = property(lambda self: self.question["fact"])
    values = property(lambda self: (*self.world["facts"][self.fact], UNKNOWN))

    def history(self, events: Events) -> History:
        """What really happened to the fact."""
        history: History = ()
        distrust: set[tuple[str, str]] = set()
        for _, (verb, *words) in events:
            if verb == "distrust":
                distrust |= {(person, words[-1]) for person in words[:-1]}
            elif verb == "fact" and words[0] == self.fact:
                history += (Occurrence("change", words[1], frozenset(words[3:])),)
            elif verb in ("see", "alone") and words[-1] == self.fact:
                kind = "look" if verb == "see" else "glance"
                history += (Occurrence(kind, holds(history), frozenset(words[:-1])),)
            elif verb == "tell" and words[-2] == self.fact:
                speaker, hearers = words[0], frozenset(words[1:-2])
                doubting = frozenset(person for person in hearers if (person, speaker) in distrust)
                history += (Occurrence("saying", words[-1], hearers, speaker, doubting),)
        return history

    def without_one(self, after: int) -> Iterator[tuple[str, QuestionAt]]:
        """For each event after the line by which people may come to know something about the fact: who said it ("fact"
        where nobody did) and the value, and the question where all but this one happened."""
        for place, (line, (verb, *words)) in enumerate(self.events):
            if line > after and verb in ("fact", "see", "alone", "tell"):
                before = self.history(self.events[: place + 1])
                if before and self.fact in (words[0], words[-1], words[-2]):
                    speaker = before[-1].speaker.replace("-", "voice") or "fact"
                    events = self.events[:place] + self.events[place + 1 :]
                    yield f"{speaker}_{before[-1].value}", replace(self, events=events)

    def belief(self, who: tuple[str, ...] | None = None, line: int | None = None) -> str:
        events = tuple(event for event in self.events if event[0] <= (self.line if line is None else line))
        return believed(self.history(events), self.who if who is None else who, self.values)

    def before(self) -> set[str]:
        """What was believed after any earlier line, for certain."""
        return {self.belief(line=line) for line in range(self.line)} - {UNKNOWN}

    def ends(self) -> list[QuestionAt]:
        """The question at the end of each scene that has begun, the present one as far as it goes."""
        begins = sorted({line for line, (verb, *_) in self.events if verb == "scene" and line <= self.line})
        return [replace(self, line=line) for line in (*(line - 1 for line in begins[1:]), self.line)]

    def wish(self) -> str | None:
        """The value that the person wants; "" for a thing that is wanted wherever it is; None where nothing is said."""
        found = None
        for line, (verb, *words) in self.events:
            if line <= self.line and verb == "want" and words[-2] == self.fact and self.person in words[:-2]:
                found = words[-1]
            elif line <= self.line and verb == "seek" and words[-1] == self.fact and self.person in words[:-1]:
                found = ""
        return found

    def shown(self, verb: str, onlookers: tuple[str, ...] = ()) -> str | None:
        """What the person did last ("act"), or what their face last showed to all of these others ("show")."""
        own = [words for line, (one, *words) in self.events if line <= self.line and one == verb]
        fitting = [words[1] for words in own if words[0] == self.person and {*onlookers} <= {*words[3:]}]
        return fitting[-1] if fitting else None

    def would(self, act: str, belief: str, wish: str | None) -> bool:
        """Whether somebody with this belief and wish would do the act."""
        plan = self.world.get("plans", {}).get(self.fact, {})
        if wish is None:
            return False
        if belief == UNKNOWN:
            return act == UNKNOWN
        if "match" in plan:
            return wish != "" and act == plan["match" if belief == wish else "mismatch"]
        return bool(act == plan.get(belief))


Fits = Callable[[QuestionAt, str], bool]


def _backward(asked: QuestionAt, believed: str | None) -> list[str]:
    """The values of the fact, as a belief or, given the belief, as a wish, that would lead to what was done."""
    done, wish = asked.shown("act"), asked.wish()
    if done is None or believed == UNKNOWN:
        return []
    ways = ((value, (value, wish) if believed is None else (believed, value)) for value in asked.values[:-1])
    return [value for value, (belief, wanted) in ways if asked.would(done, belief, wanted)]


def _feeling(asked: QuestionAt, choice: str) -> bool:
    """Whether the person feels this about how the fact is believed to be."""
    wish, now = asked.wish(), asked.belief()
    if not wish:
        return False
    ahead = asked.fact in asked.world.get("prospects", ())
    known, well, before = now != UNKNOWN, now == wish, asked.before()
    return {
        "indifferent": not known,
        "glad": well and not ahead,
        "hopeful": well and ahead,
        "relieved": well and bool(before - {wish}),
        "sad": known and not well and not ahead,
        "afraid": known and not well and ahead,
        "disappointed": known and not well and not ahead and wish in before,
    }.get(choice, False)


def _seen_feeling(asked: QuestionAt, choice: str) -> bool:
    """The feeling, where the onlooker knows how it stands for the person; else the face; else nobody can tell."""
    if asked.belief() != UNKNOWN:
        return _feeling(asked, choice)
    return choice == (asked.shown("show", asked.who[:-1]) or UNKNOWN)


def _surprise(asked: QuestionAt, choice: str) -> bool:
    now, real = asked.belief(), asked.belief(asked.who[:-1])
    return UNKNOWN not in (now, real) and choice == ("not_surprised" if now == real else "surprised")


def _reply(asked: QuestionAt, choice: str) -> bool:
    """One reply where it is believed to be as wanted, the other where it is not."""
    wish, now = asked.wish(), asked.belief()
    return bool(wish) and now != UNKNOWN and choice == ("match" if now == wish else "mismatch")


def _states(asked: QuestionAt, fits: Fits) -> set[str]:
    """All states of mind that fit."""
    return {state for state in (*asked.values, "glad", "sad", "match", "mismatch") if fits(asked, state)}


def _joined(choice: str, *states: set[str]) -> bool:
    """Whether the choice stands for one of the first states, one of the second, and so on."""
    return choice in {"_".join(some) for some in product(*states)}


def _pair(first: Fits, second: Fits) -> Fits:
    return lambda asked, choice: _joined(choice, _states(asked, first), _states(asked, second))


def _course(fits: Fits, scenes: int = 0) -> Fits:
    """The choice names the state at the end of every scene, or of the last `scenes` of them where there are so many."""

    def rule(asked: QuestionAt, choice: str) -> bool:
        ends = asked.ends()[-scenes:]
        return len(ends) >= scenes and _joined(choice, *(_states(end, fits) for end in ends))

    return rule


def _cause(fits: Fits) -> Fits:
    """The choice names an event of the present scene without which the state would be that of the scene before."""

    def rule(asked: QuestionAt, choice: str) -> bool:
        *_, before, now = [None, *asked.ends()]
        if before is None or not _states(now, fits) or _states(before, fits) == _states(now, fits):
            return False
        others = [other for name, other in asked.without_one(after=before.line) if name == choice]
        return any(_states(other, fits) == _states(before, fits) for other in others)

    return rule


_belief: Fits = lambda asked, choice: choice == asked.belief()  # noqa: E731
_action: Fits = lambda asked, choice: asked.would(choice, asked.belief(), asked.wish())  # noqa: E731
_mood: Fits = lambda asked, choice: choice in ("glad", "sad") and _feeling(asked, choice)  # noqa: E731
FITS: Mapping[str, Fits] = {
    "reality": lambda asked, choice: choice == asked.belief(()),
    "desire": lambda asked, choice: choice == asked.wish(),
    "belief_from_act": lambda asked, choice: _backward(asked, None) == [choice],
    "desire_from_act": lambda asked, choice: _backward(asked, asked.belief()) == [choice],
    "face": lambda asked, choice: choice == asked.shown("show", asked.who[:-1]),
    **{"feeling": _feeling, "seen_feeling": _seen_feeling, "surprise": _surprise, "intention": _action},
    **{"belief": _belief, "blame": _belief, "action": _action, "feeling_about": _pair(_mood, _belief)},
    **{"reply_about": _pair(_reply, _belief), "belief_then_feeling": _pair(_belief, _mood)},
    **{"belief_then_reply": _pair(_belief, _reply), "belief_since": _course(_belief, 2)},
    **{"feeling_since": _course(_mood, 2), "reply_since": _course(_reply, 2), "belief_course": _course(_belief)},
    **{"feeling_course": _course(_mood), "belief_cause": _cause(_belief), "feeling_cause": _cause(_mood)},
}
"""For each kind of question, whether a choice fits."""


def answer(world: Mapping[str, Any], question: Mapping[str, Any], line: int | None = None) -> str | None:
    """The key of the only choice that fits, None where none or several do. line: 0-based, the asked one by default."""
    if line is None:
        line = len(world["scenes"]) - 1 if question.get("at") is None else question["at"]
    told = [(place, text) for place, scene in enumerate(world["scenes"]) for text in scene.get("events", ())]
    events = tuple((place, tuple(text.replace(",", " ").replace("=", " ").split())) for place, text in told)
    asked = QuestionAt(world, events, question, line)
    fitting = [choice for choice in question["choices"] if FITS[question["kind"]](asked, choice)]
    return fitting[0] if len(fitting) == 1 else None


def disagreements(item: Mapping[str, Any]) -> Iterator[str]:
    """What of an item (a line of a file of items) differs from what its world gives; nothing where all is as it is."""
    world = item["world"]
    (question,) = world["questions"]
    labels = dict(zip(question["choices"], item["choices"], strict=True))
    found = labels.get(answer(world, question) or "")
    if found is None or found != item["answer"]:
        yield f"{item['id']}: answer {item['answer']!r}, by possible worlds {found!r}"
    if item.get("gold"):
        lines = range(len(world["scenes"]) if question.get("at") is None else question["at"] + 1)
        chain = [labels.get(answer(world, question, line) or "") for line in lines]
        if item["gold"]["sets"] != [[label] for label in chain]:
            yield f"{item['id']}: gold {item['gold']['sets']}, by possible worlds {chain}"
