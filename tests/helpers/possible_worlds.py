"""The rules of worlds once more, by brute force over possible worlds: what the first implementation is checked against.

It shares no code with tomserve and reads nothing but the `world` of an item (JSON). A *history* is a list of
occurrences. Who believes something goes through all histories that agree with what they perceived (what they saw,
what they were told by somebody whom they do not distrust) and keeps those with the fewest changes that they would have
missed. What is so in all of these, they believe; where they differ, nothing. What Ann thinks that Ben believes is found
by going through Ben's histories in each history that Ann keeps. Every other question is answered by trying all choices:
the right one is the only one that fits the rule as the docstring of tomserve/benchmarks/worlds/rules.py states it.

>>> world = {"people": {"P": {}, "Q": {}}, "facts": {"place": ["x", "y"]},
...          "scenes": [{"events": ["fact place=x seen P, Q"]}, {"events": ["fact place=y seen Q"]}]}
>>> question = {"kind": "belief", "who": ["Q", "P"], "fact": "place", "choices": ["x", "y", "unknown"]}
>>> answer(world, question), answers(world, {**question, "kind": "reality", "who": []})
('x', ['x', 'y'])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any

UNKNOWN = "unknown"
"""What is believed where several values are possible, and the choice that says so."""

People = frozenset[str]


@dataclass(frozen=True)
class Change:
    """The world changes to `value`; the witnesses see it and one another."""

    value: str
    witnesses: People = frozenset()


@dataclass(frozen=True)
class Look:
    """The witnesses find out together that `value` holds; nothing changes."""

    value: str
    witnesses: People


@dataclass(frozen=True)
class Glances:
    """Each of the witnesses finds out that `value` holds and thinks nothing of anybody else."""

    value: str
    witnesses: People


@dataclass(frozen=True)
class Saying:
    """The speaker says to the hearers that `value` holds; `distrusting` are those who do not believe the speaker."""

    value: str
    speaker: str
    hearers: People
    distrusting: People


@dataclass(frozen=True)
class Said:
    """What a saying is to the speaker: the hearers, each by themselves, are told that `value` holds."""

    value: str
    hearers: People


Occurrence = Change | Look | Glances | Saying | Said
History = tuple[Occurrence, ...]
Percept = tuple[Occurrence | None, str | None]
"""What somebody makes of an occurrence, None for nothing, and which value must hold by then, None for any."""

NOTHING: Percept = (None, None)


def perceived(occurrence: Occurrence, person: str) -> Percept:
    """What an occurrence is to a person."""
    match occurrence:
        case Change(value, witnesses) | Look(value, witnesses) if person in witnesses:
            return occurrence, value
        case Glances(value, witnesses) if person in witnesses:
            return Look(value, frozenset({person})), value
        case Saying(value, speaker, hearers) if person == speaker:
            return Said(value, hearers - {speaker}), None
        case Saying(value, speaker, hearers, distrusting) if person in hearers - distrusting:
            # Who is believed is taken to know what they say.
            return Look(value, frozenset({speaker})), value
        case Said(value, hearers) if person in hearers:
            return None, value
    return NOTHING


def holds(history: History) -> str:
    """What is really so at the end of a history."""
    return next((one.value for one in reversed(history) if isinstance(one, Change)), UNKNOWN)


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
        found = [history for start in values for history in _agreeing(percepts, values, (Change(start),), missed)]
        if found:
            return found
    raise AssertionError("a change before every percept explains any percepts")


def _agreeing(percepts: Sequence[Percept], values: Sequence[str], so_far: History, missed: int) -> Iterator[History]:
    """All ways in which a history goes on that agree with the percepts and have exactly so many missed changes."""
    if not percepts:
        if not missed:
            yield so_far
        return
    occurrence, claim = percepts[0]
    unseen: list[History] = [()]
    if missed:
        unseen += [(Change(value),) for value in values if value != holds(so_far)]
    for changes in unseen:
        history = so_far + changes + ((occurrence,) if occurrence is not None else ())
        if claim is None or holds(history) == claim:
            yield from _agreeing(percepts[1:], values, history, missed - len(changes))


@dataclass(frozen=True)
class Story:
    """The events of a world up to a line, read anew for every question: words of each event, with their lines."""

    world: Mapping[str, Any]
    events: tuple[tuple[int, tuple[str, ...]], ...]

    @classmethod
    def of(cls, world: Mapping[str, Any]) -> Story:
        return cls(
            world,
            tuple(
                (line, tuple(text.replace(",", " ").replace("=", " ").split()))
                for line, scene in enumerate(world["scenes"])
                for text in scene.get("events", ())
            ),
        )

    def until(self, line: int) -> Story:
        return Story(self.world, tuple(event for event in self.events if event[0] <= line))

    def history(self, fact: str) -> History:
        """What really happened to a fact."""
        history: list[Occurrence] = []
        distrust: set[tuple[str, str]] = set()
        for _, (verb, *words) in self.events:
            if verb == "distrust":
                distrust |= {(person, words[-1]) for person in words[:-1]}
            elif verb == "fact" and words[0] == fact:
                history.append(Change(words[1], frozenset(words[3:])))
            elif verb in ("see", "alone") and words[-1] == fact:
                witnesses, value = frozenset(words[:-1]), holds(tuple(history))
                history.append(Look(value, witnesses) if verb == "see" else Glances(value, witnesses))
            elif verb == "tell" and words[-2] == fact:
                speaker, hearers = words[0], frozenset(words[1:-2])
                doubting = frozenset(person for person in hearers if (person, speaker) in distrust)
                history.append(Saying(words[-1], speaker, hearers, doubting))
        return tuple(history)

    def without_one(self, fact: str, after: int) -> Iterator[tuple[str, tuple[tuple[int, tuple[str, ...]], ...]]]:
        """For each event after the line by which people may come to know something about the fact: who said it ("fact"
        where nobody did) and the value, and all events but this one."""
        for place, (line, (verb, *words)) in enumerate(self.events):
            if line > after and verb in ("fact", "see", "alone", "tell"):
                before = replace(self, events=self.events[: place + 1]).history(fact)
                known = before[-1] if before else None
                if known is not None and fact in (words[0], words[-1], words[-2]):
                    speaker = known.speaker.replace("-", "voice") if isinstance(known, Saying) else "fact"
                    yield f"{speaker}_{known.value}", self.events[:place] + self.events[place + 1 :]

    def last(self, fits: Callable[[str, list[str]], str | None]) -> str | None:
        """What the function gives for the last event for which it gives something."""
        found = [given for _, (verb, *words) in self.events if (given := fits(verb, words)) is not None]
        return found[-1] if found else None


@dataclass(frozen=True)
class Asked:
    """A question after a line of a story, with what the rules speak of."""

    story: Story
    question: Mapping[str, Any]
    line: int

    who = property(lambda self: tuple(self.question.get("who", ())))
    person = property(lambda self: self.who[-1])
    fact = property(lambda self: self.question["fact"])
    values = property(lambda self: (*self.story.world["facts"][self.fact], UNKNOWN))

    def belief(self, who: tuple[str, ...] | None = None, line: int | None = None) -> str:
        story = self.story.until(self.line if line is None else line)
        return believed(story.history(self.fact), self.who if who is None else who, self.values)

    def before(self) -> set[str]:
        """What was believed after any earlier line, for certain."""
        return {self.belief(line=line) for line in range(self.line)} - {UNKNOWN}

    def ends(self) -> list[Asked]:
        """The question at the end of each scene that has begun, the present one as far as it goes."""
        begins = sorted({line for line, (verb, *_) in self.story.events if verb == "scene" and line <= self.line})
        return [replace(self, line=line) for line in (*(line - 1 for line in begins[1:]), self.line)]

    def wish(self) -> str | None:
        """The value that the person wants; "" for a thing that is wanted wherever it is; None where nothing is said."""

        def fits(verb: str, words: list[str]) -> str | None:
            if verb == "want" and words[-2] == self.fact and self.person in words[:-2]:
                return words[-1]
            return "" if verb == "seek" and words[-1] == self.fact and self.person in words[:-1] else None

        return self.story.until(self.line).last(fits)

    def done(self) -> str | None:
        return self.story.until(self.line).last(
            lambda verb, words: words[1] if verb == "act" and words[0] == self.person else None
        )

    def face(self, onlookers: tuple[str, ...]) -> str | None:
        """What the person's face last showed to all of these others."""
        return self.story.until(self.line).last(
            lambda verb, words: (
                words[1] if verb == "show" and words[0] == self.person and {*onlookers} <= {*words[3:]} else None
            )
        )

    def would(self, act: str, belief: str, wish: str | None) -> bool:
        """Whether somebody with this belief and wish would do the act."""
        plan = self.story.world.get("plans", {}).get(self.fact, {})
        if wish is None:
            return False
        if belief == UNKNOWN:
            return act == UNKNOWN
        if "match" in plan:
            return wish != "" and act == plan["match" if belief == wish else "mismatch"]
        return bool(act == plan.get(belief))


Fits = Callable[[Asked, str], bool]


def _backward(asked: Asked, believed: str | None) -> list[str]:
    """The values of the fact, as a belief or, given the belief, as a wish, that would lead to what was done."""
    done, wish = asked.done(), asked.wish()
    if done is None or believed == UNKNOWN:
        return []
    ways = ((value, (value, wish) if believed is None else (believed, value)) for value in asked.values[:-1])
    return [value for value, (belief, wanted) in ways if asked.would(done, belief, wanted)]


def _feeling(asked: Asked, choice: str) -> bool:
    """Whether the person feels this about how the fact is believed to be."""
    wish, now = asked.wish(), asked.belief()
    if not wish:
        return False
    ahead = asked.fact in asked.story.world.get("prospects", ())
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


def _seen_feeling(asked: Asked, choice: str) -> bool:
    """The feeling, where the onlooker knows how it stands for the person; else the face; else nobody can tell."""
    if asked.belief() != UNKNOWN:
        return _feeling(asked, choice)
    return choice == (asked.face(asked.who[:-1]) or UNKNOWN)


def _surprise(asked: Asked, choice: str) -> bool:
    now, real = asked.belief(), asked.belief(asked.who[:-1])
    return UNKNOWN not in (now, real) and choice == ("not_surprised" if now == real else "surprised")


def _reply(asked: Asked, choice: str) -> bool:
    """One reply where it is believed to be as wanted, the other where it is not."""
    wish, now = asked.wish(), asked.belief()
    return bool(wish) and now != UNKNOWN and choice == ("match" if now == wish else "mismatch")


def _states(asked: Asked, fits: Fits) -> set[str]:
    """All states of mind that fit."""
    return {state for state in (*asked.values, "glad", "sad", "match", "mismatch") if fits(asked, state)}


def _joined(*states: set[str]) -> set[str]:
    """The keys that stand for one of the first states, one of the second, and so on."""
    return {"_".join(some) for some in product(*states)}


def _pair(first: Fits, second: Fits) -> Fits:
    return lambda asked, choice: choice in _joined(_states(asked, first), _states(asked, second))


def _since(fits: Fits) -> Fits:
    """The choice names the state at the end of the scene before, and the present one."""
    return lambda asked, choice: (
        choice in _joined(*(_states(end, fits) for end in asked.ends()[-2:])) and (len(asked.ends()) > 1)
    )


def _course(fits: Fits) -> Fits:
    """The choice names the state at the end of every scene."""
    return lambda asked, choice: choice in _joined(*(_states(end, fits) for end in asked.ends()))


def _cause(fits: Fits) -> Fits:
    """The choice names an event of the present scene without which the state would be that of the scene before."""

    def rule(asked: Asked, choice: str) -> bool:
        *_, before, now = [None, *asked.ends()]
        if before is None or not _states(now, fits) or _states(before, fits) == _states(now, fits):
            return False
        events = [some for name, some in asked.story.without_one(asked.fact, after=before.line) if name == choice]
        others = [replace(asked, story=replace(asked.story, events=some)) for some in events]
        return any(_states(other, fits) == _states(before, fits) for other in others)

    return rule


_belief: Fits = lambda asked, choice: choice == asked.belief()  # noqa: E731
_action: Fits = lambda asked, choice: asked.would(choice, asked.belief(), asked.wish())  # noqa: E731
_mood: Fits = lambda asked, choice: choice in ("glad", "sad") and _feeling(asked, choice)  # noqa: E731

FITS: Mapping[str, Fits] = {
    "reality": lambda asked, choice: choice == asked.belief(()),
    "belief": _belief,
    "desire": lambda asked, choice: choice == asked.wish(),
    "intention": _action,
    "action": _action,
    "belief_from_act": lambda asked, choice: _backward(asked, None) == [choice],
    "desire_from_act": lambda asked, choice: _backward(asked, asked.belief()) == [choice],
    "feeling": _feeling,
    "seen_feeling": _seen_feeling,
    "face": lambda asked, choice: choice == asked.face(asked.who[:-1]),
    "blame": _belief,
    "surprise": _surprise,
    "feeling_about": _pair(_mood, _belief),
    "reply_about": _pair(_reply, _belief),
    "belief_then_feeling": _pair(_belief, _mood),
    "belief_then_reply": _pair(_belief, _reply),
    "belief_since": _since(_belief),
    "feeling_since": _since(_mood),
    "reply_since": _since(_reply),
    "belief_course": _course(_belief),
    "feeling_course": _course(_mood),
    "belief_cause": _cause(_belief),
    "feeling_cause": _cause(_mood),
}
"""For each kind of question, whether a choice fits."""


def _last(world: Mapping[str, Any], question: Mapping[str, Any]) -> int:
    """The line that is asked about."""
    return len(world["scenes"]) - 1 if question.get("at") is None else int(question["at"])


def answer(world: Mapping[str, Any], question: Mapping[str, Any], line: int | None = None) -> str | None:
    """The key of the only choice that fits, None where none or several do. line: 0-based, the asked one by default."""
    asked = Asked(Story.of(world), question, _last(world, question) if line is None else line)
    fitting = [choice for choice in question["choices"] if FITS[question["kind"]](asked, choice)]
    return fitting[0] if len(fitting) == 1 else None


def answers(world: Mapping[str, Any], question: Mapping[str, Any]) -> list[str | None]:
    """The answer after every line, up to the one that is asked about."""
    return [answer(world, question, line) for line in range(_last(world, question) + 1)]


def disagreements(item: Mapping[str, Any]) -> Iterator[str]:
    """What of an item (a line of a file of items) differs from what its world gives; nothing where all is as it is."""
    world = item["world"]
    (question,) = world["questions"]
    labels = dict(zip(question["choices"], item["choices"], strict=True))
    found = answer(world, question)
    if found is None or labels[found] != item["answer"]:
        yield f"{item['id']}: answer {item['answer']!r}, by possible worlds {labels.get(found or '')!r}"
    if item.get("gold"):
        chain = [labels.get(key or "") for key in answers(world, question)]
        if item["gold"]["sets"] != [[label] for label in chain]:
            yield f"{item['id']}: gold {item['gold']['sets']}, by possible worlds {chain}"
