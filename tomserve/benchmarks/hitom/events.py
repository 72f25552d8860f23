"""The events and questions of Hi-ToM, written and read back exactly in the released or other wordings.

The released sentences are those of the generator of Hi-ToM (arXiv 2310.16755); other wordings are for variants alone.
A wording is a template: what cannot be written back as it stood is refused. Who perceives what follows from rooms
(tracker.py).

    >>> story = Story.parse(["Ann and Bo entered the den.", "The pen is in the red_box.", "Bo exited the den."])
    >>> story.events[1], story.events[1].text()
    (Place(object='pen', container='red_box'), 'The pen is in the red_box.')
    >>> write_question(("Ann", "Bo"), "pen")
    'Where does Ann think Bo thinks the pen is?'
    >>> [Move("Ann", "pen", "red_box").text(wording) for wording in other_wordings()["move"]]
    ['Ann put the pen into the red_box.', 'Ann transferred the pen to the red_box.']
    >>> read_any_question("Where does Ann believe that Bo believes that the pen is?")
    (('Ann', 'Bo'), 'pen')
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from itertools import chain
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from tomserve import content
from tomserve.content.validation import Strict, load_model
from tomserve.errors import ContentError

FILE = "dataset/hitom/words.yaml"
_List = Annotated[tuple[str, ...], Field(min_length=8)]
_Short = Literal["place", "stay", "exit", "claim", "tell"]
_Sort = _Short | Literal["enter", "move", "saw", "lost", "likes", "dislikes"]


class Words(Strict):
    """The words of generated stories and of variants, as FILE has them."""

    rooms: _List
    objects: _List
    containers: _List
    agents: _List
    animals: _List
    belongings: _List
    foods: _List
    other_agents: _List
    other_containers: _List
    released_colours: tuple[str, ...]
    other_colours: _List
    wordings: dict[_Sort, tuple[str, ...]] = Field(min_length=11)
    short_wordings: dict[_Short, str] = Field(min_length=5)


@cache
def words() -> Words:
    """The words. Raises ConfigError where the file is not installed, ContentError by line for a mistake in it."""
    return load_model(content.require(FILE), Words)


WAITING_ROOM = "waiting_room"
"""The room where agents wait between chapters. Nothing is seen there, and leaving it does not count as an exit."""


class _Told:
    """What all events can: say themselves."""

    __slots__ = ()

    @property
    def sort(self) -> str:
        """The sort of sentence that tells it: a key of RELEASED."""
        return type(self).__name__.lower()

    def text(self, wording: Wording | None = None) -> str:
        """The sentence in the released words, or in those of a wording of its sort."""
        blanks: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        if isinstance(self, Enter):
            *others, last = self.agents
            blanks["agents"] = f"{', '.join(others)}{' and ' if others else ''}{last}"
        elif isinstance(self, Claim | Tell):
            blanks |= {"now": " now" if self.now else "", "the": "the " if blanks.get("the") else ""}
        elif isinstance(self, Distractor):
            blanks["a"] = blanks["their"] = self.verb.split()[1]
        return (wording or RELEASED[self.sort]).template.format(**blanks)


@dataclass(frozen=True, slots=True)
class Enter(_Told):
    """One or several agents come into a room together and see every object in it."""

    agents: tuple[str, ...]
    room: str


@dataclass(frozen=True, slots=True)
class Place(_Told):
    """An object lies in a container of the room that was entered last; all in that room see it."""

    object: str
    container: str


@dataclass(frozen=True, slots=True)
class Move(_Told):
    """An agent moves an object to a container of the same room; all in that room see it."""

    agent: str
    object: str
    container: str


@dataclass(frozen=True, slots=True)
class Stay(_Told):
    """An agent does nothing."""

    agent: str
    room: str


@dataclass(frozen=True, slots=True)
class Exit(_Told):
    """An agent leaves a room."""

    agent: str
    room: str


@dataclass(frozen=True, slots=True)
class Claim(_Told):
    """An agent says before everybody where an object is. the, now: whether the sentence has that word, as some have."""

    speaker: str
    object: str
    container: str
    the: bool = False
    now: bool = False


@dataclass(frozen=True, slots=True)
class Tell(_Told):
    """An agent says to one other alone where an object is."""

    speaker: str
    hearer: str
    object: str
    container: str
    now: bool = False


@dataclass(frozen=True, slots=True)
class Distractor(_Told):
    """A line that has nothing to do with the object. verb: one of VERBS."""

    agent: str
    verb: str
    thing: str

    @property
    def sort(self) -> str:
        """The first word of its verb."""
        return self.verb.split()[0]


Event = Enter | Place | Move | Stay | Exit | Claim | Tell | Distractor
VERBS = ("saw a", "saw an", "lost his", "lost her", "lost their", "likes the", "dislikes the")
"""The verbs of distractors. The official file has "lost his" for every agent."""
KINDS: dict[str, type[Event]] = {kind.__name__.lower(): kind for kind in (Enter, Place, Move, Stay, Exit, Claim, Tell)}


def agents_of(event: Event) -> tuple[str, ...]:
    """Everybody who acts in an event, or is told something in it; nobody where an object is seen to lie somewhere."""
    match event:
        case Enter(agents):
            return agents
        case Place():
            return ()
        case Tell(speaker, hearer):
            return speaker, hearer
        case Claim(speaker):
            return (speaker,)
    return (event.agent,)


_BLANKS = dict.fromkeys(("agent", "hearer", "speaker"), r"[^\W\d_][\w'-]*") | {
    "agents": r"[\w', -]+",
    "the": "(?:the )?",
    "now": "(?: now)?",
    "a": "an?",
    "their": "his|her|their",
}
"""What fills each blank of a template, as a regular expression; a word without spaces where a blank is not here."""


@dataclass(frozen=True)
class Wording:
    """A way to tell the events of one sort. template: a sentence with a blank for each field of the event. {agents} are
    listed, {the} and {now} are there or not, as in the event; {a} and {their} are the article and the pronoun of a
    distractor. Without {room} the room is the one in which the agent is, which the sentences before it tell."""

    sort: str
    template: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """What matches its sentences, with a group for each blank."""
        filled = re.sub(
            r"\\{(\w+)\\}", lambda blank: f"(?P<{blank[1]}>{_BLANKS.get(blank[1], WORD)})", re.escape(self.template)
        )
        return re.compile(filled)

    def read(self, text: str, rooms: dict[str, str]) -> Event | None:
        """The event that a text tells; None where it is not of this wording. rooms: where each agent is."""
        if (match := self.pattern.fullmatch(text)) is None:
            return None
        blanks: dict[str, Any] = match.groupdict()
        if (kind := KINDS.get(self.sort)) is None:
            word = blanks.pop("a", None) or blanks.pop("their", None) or "the"
            return Distractor(**blanks, verb=f"{self.sort} {word}")
        if kind is Enter:
            event = Enter(tuple(re.split(", | and ", blanks["agents"])), blanks["room"])
            return event if event.text(self) == text else None  # the pattern is a little wider: "A, B entered"
        if kind is Claim or kind is Tell:
            blanks |= {name: bool(blanks[name]) for name in ("the", "now") if name in blanks}
        elif "room" not in blanks and kind in (Exit, Stay):
            if blanks["agent"] not in rooms:
                return None
            blanks["room"] = rooms[blanks["agent"]]
        return kind(**blanks)


WORD = r"[\w'-]+"
RELEASED = {
    sort: Wording(sort, template)
    for sort, template in {
        "move": "{agent} moved the {object} to the {container}.",
        "exit": "{agent} exited the {room}.",
        "stay": "{agent} made no movements and stayed in the {room} for 1 minute.",
        "enter": "{agents} entered the {room}.",
        "place": "The {object} is in the {container}.",
        "claim": "{speaker} publicly claimed that {the}{object} is in the {container}{now}.",
        "tell": "{speaker} privately told {hearer} that the {object} is in the {container}{now}.",
        "saw": "{agent} saw {a} {thing}.",
        "lost": "{agent} lost {their} {thing}.",
        "likes": "{agent} likes the {thing}.",
        "dislikes": "{agent} dislikes the {thing}.",
    }.items()
}
"""For each sort of sentence its released wording."""


@cache
def other_wordings() -> dict[str, tuple[Wording, ...]]:
    """For each sort of sentence the wordings of paraphrases."""
    return {sort: tuple([_wording("wordings", sort, one) for one in few]) for sort, few in words().wordings.items()}


@cache
def short_wordings() -> dict[str, Wording]:
    """For some sorts of sentence a wording with fewer words, for condensed stories."""
    return {sort: _wording("short_wordings", sort, text) for sort, text in words().short_wordings.items()}


def _wording(part: str, sort: str, text: str) -> Wording:
    """A wording of words.yaml. Raises ContentError where it has other blanks than the released one."""
    known = set(re.findall(r"{(\w+)}", RELEASED[sort].template))
    found = re.findall(r"{(\w+)}", text)
    braces = re.search("[{}]", re.sub(r"{\w+}", "", text))
    if braces or len(found) > len(set(found)) or not known - {"room", "the", "now"} <= set(found) <= known:
        listed = ", ".join(f"{{{one}}}" for one in sorted(known))
        raise ContentError(
            f"{text[:100]!r}: expected the blanks {listed}, of which {{room}}, {{the}} and {{now}} may be missing",
            path=content.require(FILE),
            field=f"{part}.{sort}",
        )
    return Wording(sort, text)


EXPECTED = (
    "'<A>, <B> and <C> entered the <room>.', 'The <object> is in the <container>.', '<A> moved the <object> to the "
    "<container>.', '<A> made no movements and stayed in the <room> for 1 minute.', '<A> exited the <room>.', '<A> "
    "publicly claimed that <object> is in the <container>.', '<A> privately told <B> that the <object> is in the "
    "<container>.' or a distractor ('<A> saw a <x>.', lost his, likes the, dislikes the)"
)


@dataclass(frozen=True)
class Story:
    """What happens in a story, one event for each sentence. Only `check` finds out whether it is possible."""

    events: tuple[Event, ...]

    @classmethod
    def parse(cls, sentences: Iterable[str], wordings: Sequence[Wording] = tuple(RELEASED.values())) -> Story:
        """Read sentences without numbers, each in one of these wordings. Raises ValueError naming the sentence (from 1)
        and what was expected."""
        events: list[Event] = []
        rooms: dict[str, str] = {}
        for number, text in enumerate(sentences, 1):
            for wording in wordings:
                if (event := wording.read(text, rooms)) is not None:
                    _walk(event, rooms)
                    events.append(event)
                    break
            else:
                raise ValueError(f"sentence {number}: unknown sentence {text!r}; expected {EXPECTED}")
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
        entered = [e for e in self.events if isinstance(e, Enter) and e.room != WAITING_ROOM]
        visits = [(name, event.room) for event in entered for name in dict.fromkeys(event.agents)]
        return len(set(visits)) < len(visits)

    def presence(self) -> list[dict[str, str]]:
        """The room of every agent after each sentence; an agent who left a room and entered no other is in none."""
        where: dict[str, str] = {}
        return [dict(_walk(event, where)) for event in self.events]

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
        """Refuse what cannot happen. Raises ValueError naming the first such sentence (from 1). An agent must be in the
        room that he leaves or stays in, and in the object's room to move it; an object must have been placed, and who
        speaks or is spoken to must have entered, and is not the same agent."""
        where: dict[str, str] = {}
        lies: dict[str, str] = {}
        entered: set[str] = set()
        for number, (event, after, then) in enumerate(zip(self.events, self.presence(), self.rooms(), strict=True), 1):
            if reason := _impossible(event, where, lies, entered):
                raise ValueError(f"sentence {number}: {event.text()!r}: {reason}")
            where, lies = after, then
            entered.update(event.agents if isinstance(event, Enter) else ())


def _walk(event: Event, where: dict[str, str]) -> dict[str, str]:
    """Note in `where`, and return, in which room everybody is after an event."""
    if isinstance(event, Enter):
        where.update(dict.fromkeys(event.agents, event.room))
    elif isinstance(event, Exit):
        where.pop(event.agent, None)
    return where


def _impossible(event: Event, where: dict[str, str], lies: dict[str, str], entered: set[str]) -> str:
    """Why the event cannot happen, or nothing; `where` and `lies` are the rooms of agents and objects before it."""

    def place(agent: str) -> str:
        return f"{agent} is in the {where[agent]}" if agent in where else f"{agent} is in no room"

    match event:
        case Enter(agents):
            return "an agent is named twice" if len(set(agents)) < len(agents) else ""
        case Place():
            return "" if entered else "no room has been entered before, so the object lies nowhere"
        case Stay(agent, room) | Exit(agent, room):
            return "" if where.get(agent) == room else place(agent)
        case Tell(speaker, hearer) if speaker == hearer:
            return "nobody tells himself; name another hearer"
        case Claim() | Tell():
            if absent := [name for name in agents_of(event) if name not in entered]:
                return f"{absent[0]} has not entered before"
        case Distractor():
            return ""
    if event.object not in lies:
        return f"{event.object!r} has not been placed before"
    if isinstance(event, Move) and where.get(event.agent) != lies[event.object]:
        return f"{place(event.agent)}, the {event.object} in the {lies[event.object]}"
    return ""


def read_story(sentences: Sequence[str]) -> Story:
    """The story that these sentences tell, in the released words or in others. Raises ValueError as `Story.parse`."""
    others = chain.from_iterable(other_wordings().values())
    return Story.parse(sentences, (*RELEASED.values(), *others, *short_wordings().values()))


class _QuestionWording(NamedTuple):
    """A way to ask: where the object really is, where one agent thinks it is, and for more of them the question, the
    verb after the first, and that after each other."""

    real: str
    first: str
    more: str
    inner: str


_ASKED = (
    _QuestionWording(
        "Where is the {} really?",
        "Where does {} really think the {} is?",
        "Where does {} think {}the {} is?",
        "thinks ",
    ),
    *(
        _QuestionWording(
            real,
            f"{opening} does {{}} {verb} that the {{}} is?",
            f"{opening} does {{}} {verb} that {{}}the {{}} is?",
            f"{verb}s that ",
        )
        for real, opening, verb in (
            ("Where is the {} in reality?", "Where", "believe"),
            ("In which container is the {} in fact?", "In which container", "think"),
        )
    ),
)
"""The released wording of questions, and the others."""

QUESTION_WORDINGS = len(_ASKED) - 1
"""How many other wordings each question has."""

_QUESTION = re.compile(
    rf"(?:Where|In which container) (?:is the (?P<real>{WORD}) (?:really|in reality|in fact)"
    rf"|does (?P<who>[\w' -]+?) (?:think|believe)s?(?: that)? the (?P<object>{WORD}) is)\?"
)
EXPECTED_QUESTION = (
    "'Where is the <object> really?', 'Where does <A> really think the <object> is?' or "
    "'Where does <A> think <B> thinks ... the <object> is?'"
)


def write_question(asked: Sequence[str], obj: str, wording: int | None = None) -> str:
    """The question where `asked[0]` thinks `asked[1]` thinks ... `obj` is; without agents where it really is. wording:
    None for the released words, or which of QUESTION_WORDINGS others, from 0."""
    real, first, more, inner = _ASKED[0 if wording is None else wording + 1]
    if not asked:
        return real.format(obj)
    if len(asked) == 1:
        return first.format(asked[0], obj)
    return more.format(asked[0], "".join([f"{name} {inner}" for name in asked[1:]]), obj)


def read_question(text: str, wordings: Iterable[int | None] = (None,)) -> tuple[tuple[str, ...], str]:
    """The agents asked about, the outermost first, and the object. Raises ValueError for a text of another form."""
    if (match := _QUESTION.fullmatch(text)) is not None:
        who = match["who"] and re.split(r"(?: really)? (?:think|believe)s?(?: that)? | really$", match["who"])
        asked, obj = tuple(filter(None, who or ())), match["real"] or match["object"]
        known = all(re.fullmatch(WORD, name) for name in asked)
        if known and any(write_question(asked, obj, wording) == text for wording in wordings):
            return asked, obj
    raise ValueError(f"unknown question {text!r}; expected {EXPECTED_QUESTION}")


def read_any_question(text: str) -> tuple[tuple[str, ...], str]:
    """The same of a question in the released words or in others. Raises ValueError for a text of another form."""
    return read_question(text, (None, *range(QUESTION_WORDINGS)))
