"""The events and questions of Hi-ToM, written and read back exactly in the released or other wordings.

The released sentences are those of the generator of Hi-ToM (arXiv 2310.16755); other wordings are for variants alone.
A wording is a template: what cannot be written back as it stood is refused. Who perceives what follows from rooms
(tracker.py).

    >>> story = Story.parse(["Ann and Bo entered the den.", "The pen is in the red_box.", "Bo exited the den."])
    >>> story.events[1], story.events[1].text()
    (Place(object='pen', container='red_box'), 'The pen is in the red_box.')
    >>> write_question(("Ann", "Bo"), "pen")
    'Where does Ann think Bo thinks the pen is?'
    >>> [write_event(Move("Ann", "pen", "red_box"), wording) for wording in OTHER["move"]]
    ['Ann put the pen into the red_box.', 'Ann transferred the pen to the red_box.']
    >>> read_any_question("Where does Ann believe that Bo believes that the pen is?")
    (('Ann', 'Bo'), 'pen')
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal


def enter_sentence(agents: Sequence[str], room: str) -> str:
    """Agents come into a room together."""
    *others, last = agents
    return f"{', '.join(others)}{' and ' if others else ''}{last} entered the {room}."


def place_sentence(thing: str, container: str) -> str:
    """An object lies in a container."""
    return f"The {thing} is in the {container}."


def move_sentence(agent: str, thing: str, container: str) -> str:
    """An agent moves an object."""
    return f"{agent} moved the {thing} to the {container}."


def stay_sentence(agent: str, room: str) -> str:
    """An agent does nothing."""
    return f"{agent} made no movements and stayed in the {room} for 1 minute."


def exit_sentence(agent: str, room: str) -> str:
    """An agent leaves a room."""
    return f"{agent} exited the {room}."


def claim_sentence(speaker: str, thing: str, container: str, *, the: bool = False, now: bool = False) -> str:
    """An agent says before everybody where an object is."""
    return (
        f"{speaker} publicly claimed that {'the ' if the else ''}{thing} is in the {container}{' now' if now else ''}."
    )


def tell_sentence(speaker: str, hearer: str, thing: str, container: str, *, now: bool = False) -> str:
    """An agent says to one other alone where an object is."""
    return f"{speaker} privately told {hearer} that the {thing} is in the {container}{' now' if now else ''}."


def distractor_sentence(agent: str, verb: str, thing: str) -> str:
    """Something that has nothing to do with the object."""
    return f"{agent} {verb} {thing}."


WAITING_ROOM = "waiting_room"
"""The room where agents wait between chapters. Nothing is seen there, and leaving it does not count as an exit."""


@dataclass(frozen=True, slots=True)
class Enter:
    """One or several agents come into a room together and see every object in it."""

    agents: tuple[str, ...]
    room: str

    def text(self) -> str:
        """The sentence."""
        return enter_sentence(self.agents, self.room)


@dataclass(frozen=True, slots=True)
class Place:
    """An object lies in a container of the room that was entered last; all in that room see it."""

    object: str
    container: str

    def text(self) -> str:
        """The sentence."""
        return place_sentence(self.object, self.container)


@dataclass(frozen=True, slots=True)
class Move:
    """An agent moves an object to a container of the same room; all in that room see it."""

    agent: str
    object: str
    container: str

    def text(self) -> str:
        """The sentence."""
        return move_sentence(self.agent, self.object, self.container)


@dataclass(frozen=True, slots=True)
class Stay:
    """An agent does nothing."""

    agent: str
    room: str

    def text(self) -> str:
        """The sentence."""
        return stay_sentence(self.agent, self.room)


@dataclass(frozen=True, slots=True)
class Exit:
    """An agent leaves a room."""

    agent: str
    room: str

    def text(self) -> str:
        """The sentence."""
        return exit_sentence(self.agent, self.room)


@dataclass(frozen=True, slots=True)
class Claim:
    """An agent says before everybody where an object is. the, now: whether the sentence has that word, as some have."""

    speaker: str
    object: str
    container: str
    the: bool = False
    now: bool = False

    def text(self) -> str:
        """The sentence."""
        return claim_sentence(self.speaker, self.object, self.container, the=self.the, now=self.now)


@dataclass(frozen=True, slots=True)
class Tell:
    """An agent says to one other alone where an object is."""

    speaker: str
    hearer: str
    object: str
    container: str
    now: bool = False

    def text(self) -> str:
        """The sentence."""
        return tell_sentence(self.speaker, self.hearer, self.object, self.container, now=self.now)


@dataclass(frozen=True, slots=True)
class Distractor:
    """A line that has nothing to do with the object. verb: one of VERBS."""

    agent: str
    verb: str
    thing: str

    def text(self) -> str:
        """The sentence."""
        return distractor_sentence(self.agent, self.verb, self.thing)


Event = Enter | Place | Move | Stay | Exit | Claim | Tell | Distractor
VERBS = ("saw a", "saw an", "lost his", "lost her", "lost their", "likes the", "dislikes the")
"""The verbs of distractors. The official file has "lost his" for every agent."""


def agents_of(event: Event) -> tuple[str, ...]:
    """Everybody who acts in an event, or is told something in it; nobody where an object is seen to lie somewhere."""
    if isinstance(event, Enter):
        return event.agents
    if isinstance(event, Tell):
        return event.speaker, event.hearer
    if isinstance(event, Claim):
        return (event.speaker,)
    return () if isinstance(event, Place) else (event.agent,)


_AGENT, _WORD = r"[^\W\d_][\w'-]*", r"[\w'-]+"


def _form(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace("{agent}", f"({_AGENT})").replace("{word}", f"({_WORD})"))


_FORMS: tuple[tuple[re.Pattern[str], Callable[..., Event]], ...] = (
    (_form(r"{agent} moved the {word} to the {word}\."), Move),
    (_form(r"{agent} exited the {word}\."), Exit),
    (_form(r"{agent} made no movements and stayed in the {word} for 1 minute\."), Stay),
    (_form(r"([\w', -]+) entered the {word}\."), lambda who, room: Enter(tuple(re.split(", | and ", who)), room)),
    (_form(r"The {word} is in the {word}\."), Place),
    (
        _form(r"{agent} publicly claimed that (the )?{word} is in the {word}( now)?\."),
        lambda agent, the, thing, container, now: Claim(agent, thing, container, bool(the), bool(now)),
    ),
    (
        _form(r"{agent} privately told {agent} that the {word} is in the {word}( now)?\."),
        lambda agent, hearer, thing, container, now: Tell(agent, hearer, thing, container, bool(now)),
    ),
    (_form(rf"{{agent}} ({'|'.join(VERBS)}) {{word}}\."), Distractor),
)
EXPECTED = (
    "'<A>, <B> and <C> entered the <room>.', 'The <object> is in the <container>.', '<A> moved the <object> to the "
    "<container>.', '<A> made no movements and stayed in the <room> for 1 minute.', '<A> exited the <room>.', '<A> "
    "publicly claimed that <object> is in the <container>.', '<A> privately told <B> that the <object> is in the "
    "<container>.' or a distractor ('<A> saw a <x>.', lost his, likes the, dislikes the)"
)


def parse_sentence(text: str) -> Event:
    """The event that a sentence (without its number) tells. Raises ValueError with what was found and expected."""
    for form, build in _FORMS:
        if (match := form.fullmatch(text)) is not None:
            event = build(*match.groups())
            if event.text() == text:  # the expressions are a little wider ("A, B entered"); writing back decides
                return event
    raise ValueError(f"unknown sentence {text!r}; expected {EXPECTED}")


@dataclass(frozen=True)
class Story:
    """What happens in a story, one event for each sentence. Only `check` finds out whether it is possible."""

    events: tuple[Event, ...]

    @classmethod
    def parse(cls, sentences: Iterable[str]) -> Story:
        """Read sentences without numbers. Raises ValueError naming the sentence (from 1)."""
        events = []
        for number, text in enumerate(sentences, 1):
            try:
                events.append(parse_sentence(text))
            except ValueError as error:
                raise ValueError(f"sentence {number}: {error}") from None
        return cls(tuple(events))

    def sentences(self) -> tuple[str, ...]:
        """The story as text, one sentence for each event."""
        return tuple(event.text() for event in self.events)

    @cached_property
    def agents(self) -> tuple[str, ...]:
        """Everybody who enters, in order of first entrance."""
        return tuple(dict.fromkeys(name for e in self.events if isinstance(e, Enter) for name in e.agents))

    @cached_property
    def objects(self) -> tuple[str, ...]:
        """Every object that is placed, in order; questions of the official file ask for the first."""
        return tuple(dict.fromkeys(e.object for e in self.events if isinstance(e, Place)))

    @cached_property
    def reentered(self) -> bool:
        """Whether an agent comes back into a room, and so sees again what lies there."""
        been: set[tuple[str, str]] = set()
        for event in self.events:
            if isinstance(event, Enter) and event.room != WAITING_ROOM:
                if not been.isdisjoint((name, event.room) for name in event.agents):
                    return True
                been.update((name, event.room) for name in event.agents)
        return False

    def presence(self) -> list[dict[str, str]]:
        """The room of every agent after each sentence; an agent who left a room and entered no other is in none."""
        where: dict[str, str] = {}
        found = []
        for event in self.events:
            if isinstance(event, Enter):
                where.update(dict.fromkeys(event.agents, event.room))
            elif isinstance(event, Exit):
                where.pop(event.agent, None)
            found.append(dict(where))
        return found

    def rooms(self) -> list[dict[str, str]]:
        """The room of every object after each sentence: object -> room."""
        rooms: dict[str, str] = {}
        entered = ""
        found = []
        for event, where in zip(self.events, self.presence(), strict=True):
            if isinstance(event, Enter):
                entered = event.room
            elif isinstance(event, Place):
                rooms[event.object] = entered
            elif isinstance(event, Move) and event.agent in where:
                rooms[event.object] = where[event.agent]
            found.append(dict(rooms))
        return found

    def check(self) -> None:
        """Refuse what cannot happen. Raises ValueError naming the first such sentence (from 1).

        An agent must be in the room that he leaves or stays in, and in the object's room to move it; an object must
        have been placed, and who speaks or is spoken to must have entered, and is not the same agent.
        """
        presence, rooms = self.presence(), self.rooms()
        for at, event in enumerate(self.events):
            where = presence[at - 1] if at else {}
            lies = rooms[at - 1] if at else {}
            reason = _impossible(event, where, lies, self._entered_by(at))
            if reason:
                raise ValueError(f"sentence {at + 1}: {event.text()!r}: {reason}")

    def _entered_by(self, at: int) -> set[str]:
        return {name for e in self.events[:at] if isinstance(e, Enter) for name in e.agents}


def _impossible(event: Event, where: dict[str, str], lies: dict[str, str], entered: set[str]) -> str:
    """Why the event cannot happen, or nothing; `where` and `lies` are the rooms of agents and objects before it."""
    if isinstance(event, Enter):
        return "an agent is named twice" if len(set(event.agents)) < len(event.agents) else ""
    if isinstance(event, Place):
        return "" if entered else "no room has been entered before, so the object lies nowhere"
    if isinstance(event, Stay | Exit):
        return "" if where.get(event.agent) == event.room else f"{event.agent} is {_place(event.agent, where)}"
    if isinstance(event, Move):
        if event.object not in lies:
            return f"{event.object!r} has not been placed before"
        if where.get(event.agent) != lies[event.object]:
            return f"{event.agent} is {_place(event.agent, where)}, the {event.object} in the {lies[event.object]}"
    if isinstance(event, Claim | Tell):
        persons = (event.speaker, event.hearer) if isinstance(event, Tell) else (event.speaker,)
        if len(set(persons)) < len(persons):
            return "nobody tells himself; name another hearer"
        if absent := [name for name in persons if name not in entered]:
            return f"{absent[0]} has not entered before"
        if event.object not in lies:
            return f"{event.object!r} has not been placed before"
    return ""


def _place(agent: str, where: dict[str, str]) -> str:
    return f"in the {where[agent]}" if agent in where else "in no room"


_QUESTION = re.compile(
    r"Where (?:is the (?P<real>[\w'-]+) really"
    r"|does (?P<who>[\w'-]+(?: think [\w'-]+)?(?: thinks [\w'-]+)*)(?: really)? thinks? the (?P<object>[\w'-]+) is)\?"
)
EXPECTED_QUESTION = (
    "'Where is the <object> really?', 'Where does <A> really think the <object> is?' or "
    "'Where does <A> think <B> thinks ... the <object> is?'"
)


def write_question(asked: Sequence[str], obj: str) -> str:
    """The question where `asked[0]` thinks `asked[1]` thinks ... `obj` is; without agents where it really is."""
    if not asked:
        return f"Where is the {obj} really?"
    if len(asked) == 1:
        return f"Where does {asked[0]} really think the {obj} is?"
    inner = " ".join(f"{name} thinks" for name in asked[1:])
    return f"Where does {asked[0]} think {inner} the {obj} is?"


def read_question(text: str) -> tuple[tuple[str, ...], str]:
    """The agents asked about, the outermost first, and the object. Raises ValueError for a text of another form."""
    match = _QUESTION.fullmatch(text)
    if match is not None:
        asked = tuple(re.split(r" thinks? ", match["who"])) if match["who"] else ()
        obj = match["real"] or match["object"]
        if write_question(asked, obj) == text:
            return asked, obj
    raise ValueError(f"unknown question {text!r}; expected {EXPECTED_QUESTION}")


Sort = Literal["enter", "place", "move", "stay", "exit", "claim", "tell", "saw", "lost", "likes", "dislikes"]
"""The sorts of sentence that are worded apart: the kinds of event, and distractors by their verb."""

_KINDS: dict[Sort, type[Event]] = {
    "enter": Enter,
    "place": Place,
    "move": Move,
    "stay": Stay,
    "exit": Exit,
    "claim": Claim,
    "tell": Tell,
}
_BLANKS = {"agent": r"[^\W\d_][\w'-]*", "hearer": r"[^\W\d_][\w'-]*", "speaker": r"[^\W\d_][\w'-]*"} | {
    "agents": r"[\w', -]+",
    "the": "(?:the )?",
    "now": "(?: now)?",
    "a": "an?",
    "their": "his|her|their",
}
"""What fills each blank of a template, as a regular expression; a word without spaces where a blank is not here."""


@dataclass(frozen=True)
class Wording:
    """A way to tell the events of one sort.

    template: a sentence with a blank for each field of the event. {agents} are listed, {the} and {now} are there or
    not, as in the event; {a} and {their} are the article and the pronoun of a distractor. Without {room} the room is
    the one in which the agent is, which the sentences before it tell.
    """

    sort: Sort
    template: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """What matches its sentences, with a group for each blank."""
        return re.compile(re.sub(r"\\{(\w+)\\}", _blank, re.escape(self.template)))


def _blank(found: re.Match[str]) -> str:
    filled = _BLANKS.get(found[1], r"[\w'-]+")
    return f"(?P<{found[1]}>{filled})"


def _wordings(listed: Iterable[tuple[Sort, *tuple[str, ...]]]) -> dict[Sort, tuple[Wording, ...]]:
    return {sort: tuple([Wording(sort, template) for template in templates]) for sort, *templates in listed}


OTHER = _wordings(
    (
        ("enter", "{agents} went into the {room}.", "{agents} walked into the {room}."),
        ("place", "In the {container} lies the {object}.", "Inside the {container} is the {object}."),
        (
            "move",
            "{agent} put the {object} into the {container}.",
            "{agent} transferred the {object} to the {container}.",
        ),
        (
            "stay",
            "For 1 minute {agent} remained in the {room} and moved nothing.",
            "{agent} stood still in the {room} for 1 minute.",
        ),
        ("exit", "{agent} left the {room}.", "{agent} went out of the {room}."),
        (
            "claim",
            "{speaker} declared in public that {the}{object} is in the {container}{now}.",
            "In public, {speaker} asserted that {the}{object} is in the {container}{now}.",
        ),
        (
            "tell",
            "{speaker} told {hearer} in private that the {object} is in the {container}{now}.",
            "In private, {speaker} said to {hearer} that the {object} is in the {container}{now}.",
        ),
        ("saw", "{agent} noticed {a} {thing}.", "{agent} caught sight of {a} {thing}."),
        ("lost", "{agent} mislaid {their} {thing}.", "{agent} could not find {their} {thing}."),
        ("likes", "{agent} is fond of the {thing}.", "{agent} enjoys the {thing}."),
        ("dislikes", "{agent} has an aversion to the {thing}.", "{agent} finds the {thing} unpleasant."),
    )
)
"""For each sort of sentence the wordings of paraphrases."""

SHORT = {
    sort: listed[0]
    for sort, listed in _wordings(
        (
            ("exit", "{agent} left."),
            ("place", "The {container} holds the {object}."),
            ("claim", "{speaker} publicly claimed {the}{object} is in the {container}{now}."),
            ("tell", "{speaker} privately told {hearer} the {object} is in the {container}{now}."),
            ("stay", "{agent} stayed."),
        )
    ).items()
}
"""For some sorts of sentence a wording with fewer words, for condensed stories."""


def event_sort(event: Event) -> Sort:
    """The sort of sentence that tells an event."""
    if isinstance(event, Distractor):
        return next(sort for sort in ("saw", "lost", "likes", "dislikes") if event.verb.split()[0] == sort)
    return next(sort for sort, kind in _KINDS.items() if isinstance(event, kind))


def write_event(event: Event, wording: Wording) -> str:
    """The event in these words. The wording must be of its sort."""
    blanks: dict[str, Any] = {field.name: getattr(event, field.name) for field in fields(event)}
    if isinstance(event, Enter):
        *others, last = event.agents
        blanks["agents"] = f"{', '.join(others)}{' and ' if others else ''}{last}"
    elif isinstance(event, Claim | Tell):
        blanks |= {"now": " now" if event.now else "", "the": "the " if isinstance(event, Claim) and event.the else ""}
    elif isinstance(event, Distractor):
        blanks["a"] = blanks["their"] = event.verb.split()[1]
    return wording.template.format(**blanks)


def _read_event(text: str, wording: Wording, rooms: dict[str, str]) -> Event | None:
    """The event that these words tell; None where they are not of that wording. rooms: where each agent is."""
    match = wording.pattern.fullmatch(text)
    if match is None:
        return None
    blanks: dict[str, Any] = match.groupdict()
    kind = _KINDS.get(wording.sort)
    if kind is None:
        word = blanks.pop("a", None) or blanks.pop("their", None) or "the"
        return Distractor(**blanks, verb=f"{wording.sort} {word}")
    if kind is Enter:
        blanks["agents"] = tuple(re.split(", | and ", blanks["agents"]))
    elif kind in (Exit, Stay) and "room" not in blanks:
        if blanks["agent"] not in rooms:
            return None
        blanks["room"] = rooms[blanks["agent"]]
    return kind(**blanks | {name: bool(blanks[name]) for name in ("the", "now") if name in blanks})


_ALL = (*(wording for listed in OTHER.values() for wording in listed), *SHORT.values())


def _read_other(text: str, rooms: dict[str, str]) -> Event:
    for wording in _ALL:
        event = _read_event(text, wording, rooms)
        if event is not None and write_event(event, wording) == text:
            return event
    return parse_sentence(text)  # which says what was expected


def read_story(sentences: Sequence[str]) -> Story:
    """The story that these sentences tell, in the released words or in others. Raises ValueError naming the sentence
    (from 1) that neither tables know."""
    events: list[Event] = []
    rooms: dict[str, str] = {}
    for number, text in enumerate(sentences, 1):
        try:
            event = parse_sentence(text)
        except ValueError:
            try:
                event = _read_other(text, rooms)
            except ValueError as error:
                raise ValueError(f"sentence {number}: {error}") from None
        if isinstance(event, Enter):
            rooms.update(dict.fromkeys(event.agents, event.room))
        elif isinstance(event, Exit):
            rooms.pop(event.agent, None)
        events.append(event)
    return Story(tuple(events))


QUESTION_WORDINGS = 2
"""How many other wordings each question has."""

_REAL = ("Where is the {object} in reality?", "In which container is the {object} in fact?")
_MINDS = (("Where", "believe", "that "), ("In which container", "think", "that "))
_OTHER_REAL = tuple(
    re.compile(re.sub(r"\\{object\\}", r"([\\w'-]+)", re.escape(template)).replace(r"\ ", " ")) for template in _REAL
)
_OTHER_MINDS = re.compile(
    r"(?:Where|In which container) does (?P<who>[\w'-]+(?: (?:believe|think)s? that [\w'-]+)*?)"
    r" (?:believe|think)s? that the (?P<object>[\w'-]+) is\?"
)


def write_worded_question(asked: Sequence[str], obj: str, wording: int) -> str:
    """The question where `asked[0]` thinks `asked[1]` thinks ... `obj` is, in other words; without agents where it
    really is. wording: which of ASKED wordings, from 0."""
    if not asked:
        return _REAL[wording].format(object=obj)
    opening, verb, that = _MINDS[wording]
    first, *inner = asked
    return f"{opening} does {first} {verb} {that}{''.join(f'{name} {verb}s {that}' for name in inner)}the {obj} is?"


def read_any_question(text: str) -> tuple[tuple[str, ...], str]:
    """The agents asked about, the outermost first, and the object, of a question in the released words or in others.

    Raises ValueError for a text of another form.
    """
    try:
        return read_question(text)
    except ValueError:
        for wording in range(QUESTION_WORDINGS):
            if (match := _OTHER_REAL[wording].fullmatch(text)) is not None:
                return (), match[1]
        if (found := _OTHER_MINDS.fullmatch(text)) is not None:
            asked = tuple(re.split(r" (?:believe|think)s? that ", found["who"]))
            if any(
                write_worded_question(asked, found["object"], wording) == text for wording in range(QUESTION_WORDINGS)
            ):
                return asked, found["object"]
        raise
