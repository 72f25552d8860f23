"""Other wordings of the events of a Hi-ToM story and of its questions: for variants alone, each read back exactly.

>>> event = Move("Ann", "pen", "red_box")
>>> [write(event, wording) for wording in OTHER["move"]]
['Ann put the pen into the red_box.', 'Ann transferred the pen to the red_box.']
>>> write(Exit("Ann", "den"), SHORT["exit"])
'Ann left.'
>>> read_story(["Ann and Bo went into the den.", "In the red_box lies the pen.", "Ann left."]).events[2]
Exit(agent='Ann', room='den')
>>> read_asked("Where does Ann believe that Bo believes that the pen is?")
(('Ann', 'Bo'), 'pen')

A wording is a template: an event is written by filling it in, and read by matching the sentence against it, which also
has to give the same sentence back. `read_story` and `read_asked` read the released sentences (events.py, questions.py)
first and by these tables what is none of them, so that whatever needs the events of an item reads its variants, too.
The words of the benchmark's assumptions stay: what is told in private is "in private", what is claimed is "in public".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal

from tomserve.benchmarks.hitom.events import (
    Claim,
    Distractor,
    Enter,
    Event,
    Exit,
    Move,
    Place,
    Stay,
    Story,
    Tell,
    parse_sentence,
)
from tomserve.benchmarks.hitom.questions import read_question

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


def sort_of(event: Event) -> Sort:
    """The sort of sentence that tells an event."""
    if isinstance(event, Distractor):
        return next(sort for sort in ("saw", "lost", "likes", "dislikes") if event.verb.split()[0] == sort)
    return next(sort for sort, kind in _KINDS.items() if isinstance(event, kind))


def write(event: Event, wording: Wording) -> str:
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


def _read(text: str, wording: Wording, rooms: dict[str, str]) -> Event | None:
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
        event = _read(text, wording, rooms)
        if event is not None and write(event, wording) == text:
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


ASKED = 2
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


def write_asked(asked: Sequence[str], obj: str, wording: int) -> str:
    """The question where `asked[0]` thinks `asked[1]` thinks ... `obj` is, in other words; without agents where it
    really is. wording: which of ASKED wordings, from 0."""
    if not asked:
        return _REAL[wording].format(object=obj)
    opening, verb, that = _MINDS[wording]
    first, *inner = asked
    return f"{opening} does {first} {verb} {that}{''.join(f'{name} {verb}s {that}' for name in inner)}the {obj} is?"


def read_asked(text: str) -> tuple[tuple[str, ...], str]:
    """The agents asked about, the outermost first, and the object, of a question in the released words or in others.

    Raises ValueError for a text of another form.
    """
    try:
        return read_question(text)
    except ValueError:
        for wording in range(ASKED):
            if (match := _OTHER_REAL[wording].fullmatch(text)) is not None:
                return (), match[1]
        if (found := _OTHER_MINDS.fullmatch(text)) is not None:
            asked = tuple(re.split(r" (?:believe|think)s? that ", found["who"]))
            if any(write_asked(asked, found["object"], wording) == text for wording in range(ASKED)):
                return asked, found["object"]
        raise
