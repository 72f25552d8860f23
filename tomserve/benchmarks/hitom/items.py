"""Items of Hi-ToM: the official file read sentence by sentence, and an Item made of each question.

The file is {"data": [record, ...]}; a record has prompting_type (CoTP or VP), deception, story_length (chapters),
question_order, sample_id, story (numbered sentences, one a line), question, choices ("A. x, B. y, ...") and answer (a
container). Two artefacts of the released file are stripped: VP stories begin with a stray line of instructions, and
some stories end in "***". Of both halves each question is a record: 1,200 records, 600 questions, 120 stories.

The choices of an item are the containers in their given order and then "unknown", the label of a belief before
anything was seen, which is never the answer of an official question.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

import orjson
from pydantic import BaseModel, Field, ValidationError

from tomserve.benchmarks.hitom.events import Claim, Distractor, Story, Tell, read_question, write_question
from tomserve.benchmarks.hitom.tracker import OTHER_SEMANTICS, Semantics, Trace, find_mentioned
from tomserve.content import digest, files
from tomserve.content.validation import choose_error, explain, place_of
from tomserve.errors import ContentError
from tomserve.items import UNKNOWN, Factor

CORRECTED, STALE = "CoTP", "VP"
"""The halves of the file. They ask the same questions; the labels of VP were made by an older generator."""
HALVES = (CORRECTED, STALE)
_INSTRUCTION = "Read the following story and answer the multiple-choice question."
_SENTENCE = re.compile(r"(\d+) (.+)")
_CHOICE = re.compile(r"([A-Z])\. ([\w'-]+)")


class _Row(BaseModel, extra="forbid", strict=True):
    """A record as the file has it."""

    prompting_type: Literal["CoTP", "VP"]
    deception: bool
    story_length: int = Field(ge=1)
    question_order: int
    sample_id: int
    story: str
    question: str
    choices: str
    answer: str


class _File(BaseModel, strict=True):
    data: list[_Row] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Record:
    """One checked record. asked: the agents asked about, the outermost first. choices: the containers in file order."""

    index: int
    half: str
    deception: bool
    length: int
    sample_id: int
    story: Story
    story_id: str
    asked: tuple[str, ...]
    object: str
    choices: tuple[str, ...]
    answer: str

    @property
    def order(self) -> int:
        """The order of the question: how many agents are asked about."""
        return len(self.asked)

    @property
    def key(self) -> str:
        """A name of the question by its content, the same in both halves of the file."""
        return "/".join((self.story_id, self.object, *self.asked))

    @property
    def field(self) -> str:
        """The place of the record in the file, for messages."""
        return f"data[{self.index}]"


def story_id(sentences: tuple[str, ...]) -> str:
    """Twelve hexadecimal digits that name a story by its content."""
    return digest(*[text.encode() for text in sentences]).removeprefix("sha256:")[:12]


def write_choices(choices: tuple[str, ...] | list[str]) -> str:
    """Choices in the form of the file: "A. x, B. y". There can be 26.

    >>> write_choices(("red_box", "blue_box"))
    'A. red_box, B. blue_box'
    """
    return ", ".join(f"{chr(ord('A') + place)}. {label}" for place, label in enumerate(choices))


def read_records(path: Path) -> list[Record]:
    """All records of an official file, in order. Raises ContentError with the record, the field and the way out."""
    try:
        data = orjson.loads(files.read_own(path))
        rows = _File.model_validate(data).data
    except OSError as error:
        raise ContentError(f"cannot be read ({error.strerror})", path=path) from None
    except orjson.JSONDecodeError as error:
        reason = f"not JSON: {error.msg} (column {error.colno}); expected the official file, {_EXPECTED}"
        raise ContentError(reason, path=path, line=error.lineno) from None
    except ValidationError as error:
        first = choose_error(error)
        place = place_of(first, data)
        if len(place) < 2:
            holds = f"an object with {sorted(data)[:5]}" if isinstance(data, dict) else f"a {type(data).__name__}"
            raise ContentError(f"holds {holds}; expected the official file, {_EXPECTED}", path=path) from None
        field = ".".join((f"data[{place[1]}]", *map(str, place[2:])))
        raise ContentError(explain(first, data, _File), path=path, field=field) from None
    reader = _Reader(path)
    return [reader.record(index, row) for index, row in enumerate(rows)]


_EXPECTED = '{"data": [{"story": ..., "question": ..., "choices": ..., "answer": ...}, ...]}'


class _Reader:
    """Reads records one by one, and remembers the stories (ten records share one) and what must not come twice."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stories: dict[str, Story] = {}
        self.seen: dict[object, int] = {}

    def record(self, index: int, row: _Row) -> Record:
        story = self._story(index, row.story)
        asked, obj = self._question(index, row, story)
        choices = self._choices(index, row.choices)
        if row.answer not in choices:
            reason = f"{row.answer!r} is not among the choices ({', '.join(choices)}); correct one of the two"
            self._refuse(index, "answer", reason)
        given, told = (row.prompting_type, row.deception, row.story_length, row.sample_id), story_id(story.sentences())
        record = Record(index, *given, story, told, asked, obj, choices, row.answer)
        self._once(index, "sample_id", row.sample_id, str(row.sample_id))
        self._once(index, "question", (record.half, record.key), "the same question about the same story")
        return record

    def _refuse(self, index: int, field: str, reason: str) -> NoReturn:
        raise ContentError(reason, path=self.path, field=f"data[{index}].{field}")

    def _once(self, index: int, field: str, value: object, shown: str) -> None:
        if (first := self.seen.setdefault((field, value), index)) != index:
            self._refuse(index, field, f"{shown} is already in data[{first}]; leave one of them out")

    def _story(self, index: int, text: str) -> Story:
        """The story, without the numbers of its sentences and without the two known artefacts."""
        if text in self.stories:
            return self.stories[text]
        lines = [line.strip() for line in text.split("\n") if line.strip()]
        lines = lines[bool(lines) and lines[0].startswith(_INSTRUCTION) :]
        lines = lines[: -1 if lines and lines[-1] == "***" else None]
        if not lines:
            self._refuse(index, "story", "has no sentences; expected numbered ones, a line each")
        sentences = []
        for number, line in enumerate(lines, 1):
            match = _SENTENCE.fullmatch(line)
            if match is None or int(match[1]) != number:
                reason = f"line {number} is {line!r}; expected '{number} <sentence>': sentences are numbered from 1"
                self._refuse(index, "story", reason)
            sentences.append(match[2])
        try:
            story = Story.parse(sentences)
            story.check()
        except ValueError as error:
            self._refuse(index, "story", str(error))
        self.stories[text] = story
        return story

    def _question(self, index: int, row: _Row, story: Story) -> tuple[tuple[str, ...], str]:
        """The agents asked about, and the object."""
        try:
            asked, obj = read_question(row.question)
        except ValueError as error:
            self._refuse(index, "question", str(error))
        order = row.question_order
        if order != len(asked):
            reason = f"is {order}, but the question names {len(asked)} agents; correct one of the two"
            self._refuse(index, "question_order", reason)
        if order > len(story.agents):
            self._refuse(index, "question", f"is of order {order}, but the story has {len(story.agents)} agents")
        if twice := [name for name in asked if asked.count(name) > 1]:
            self._refuse(index, "question", f"asks about {twice[0]} twice; name every agent once")
        if absent := [name for name in asked if name not in story.agents]:
            reason = f"asks about {absent[0]}, who never enters; the story has {', '.join(story.agents)}"
            self._refuse(index, "question", reason)
        if obj not in story.objects:
            self._refuse(index, "question", f"asks for {obj!r}; the story has {', '.join(story.objects)}")
        return asked, obj

    def _choices(self, index: int, text: str) -> tuple[str, ...]:
        labels = tuple(match[2] for part in text.split(", ") if (match := _CHOICE.fullmatch(part)))
        if write_choices(labels) != text:
            reason = f"are {text[:60]!r}; expected 'A. <container>, B. <container>, ...', lettered in order"
            self._refuse(index, "choices", reason)
        if twice := [label for label in labels if labels.count(label) > 1]:
            self._refuse(index, "choices", f"hold {twice[0]!r} twice; leave one of them out")
        return labels


def make_row(
    told: str,
    sentences: tuple[str, ...],
    ends: TrackedBeliefs,
    asked: Sequence[str],
    choices: Sequence[str],
    factors: Mapping[str, Factor],
    *,
    answer: str | None = None,
) -> dict[str, Any]:
    """The item of one question as JSON has it. told: the id of the story, which is its cluster. ends: what is believed
    at its end of the object in `factors`. asked: the agents asked about, the outermost first. choices: the containers
    to choose from. factors: those of the story (see `story_factors`), to which those of the question are added.
    answer: the right answer, None for the tracker's. The gold chain is left out where it does not end in the answer;
    then the factor `label_agrees` is false."""
    chain, obj = ends.traced.chain(asked, ends.semantics), str(factors["object"])
    answer = chain[-1] if answer is None else answer
    ending = () if ends.semantics == "released" else (ends.semantics,)  # so that no id stands for two answers
    return {
        "id": "/".join((told, obj, *(asked or ("really",)), *ending)),
        "benchmark": "hitom",
        "story": sentences,
        "question": write_question(asked, obj),
        "choices": (*(label for label in choices if label != UNKNOWN), UNKNOWN),
        "answer": answer,
        "gold": {"chains": (chain,)} if chain[-1] == answer and set(chain) <= {*choices, UNKNOWN} else None,
        "factors": {**factors, **ends.factors(asked, chain[-1], answer, number_choices(choices))},
        "cluster": told,
    }


def story_factors(story: Story, choices: Sequence[str]) -> dict[str, Factor]:
    """The factors that all questions of a story share: counts of its parts, and whether a room is entered again."""
    public = sum(isinstance(event, Claim) for event in story.events)
    private = sum(isinstance(event, Tell) for event in story.events)
    return {
        "n_lines": len(story.events),
        "n_agents": len(story.agents),
        "n_tells": public + private,
        "n_public": public,
        "n_private": private,
        "n_distractors": sum(isinstance(event, Distractor) for event in story.events),
        "n_containers_mentioned": len(find_mentioned(story.sentences(), choices)),
        "reentered": story.reentered,
    }


def number_choices(choices: Sequence[str]) -> dict[str, int]:
    """The place of each choice, from 1."""
    return {label: place for place, label in enumerate(choices, 1)}


class TrackedBeliefs:
    """What chains of agents believe at the end of a story, and the factors of questions that follow. told: whether
    anything is said about the object. reality: where it is. places: the containers in which it is seen or said to be,
    in order of their first mention."""

    def __init__(self, traced: Trace, semantics: Semantics = "released") -> None:
        self.traced, self.semantics, self.told = traced, semantics, traced.told
        self._heard, self._seen = traced.under(semantics), traced.under(None)
        self.reality = self._seen.label(())
        self.places = list(dict.fromkeys([mention.container for mention in traced.mentions]))

    def belief(self, chain: Sequence[str]) -> str:
        """Where the object is by that chain; by the empty one, really."""
        return self._heard.label(chain)

    def belief_by_sight(self, chain: Sequence[str]) -> str:
        """The same as if nothing were said."""
        return self._seen.label(chain)

    def depends_on_order(self, chain: Sequence[str], belief: str) -> bool:
        """Whether the same agents in some other order believe something else than `belief`, which is the chain's. Only
        a tell can make it so. Under either semantics the answer depends on which agents are asked and on which of them
        comes last (at order 2, released, that is the whole order; above it, released, not even that matters)."""
        for at in range(len(chain) - 1 if self.told else 0):
            if self.belief((*chain[:at], *chain[at + 1 :], chain[at])) != belief:
                return True
        return False

    def factors(
        self, asked: Sequence[str], belief: str, answer: str, positions: Mapping[str, int]
    ) -> dict[str, Factor]:
        """The factors of one question, by where the tracked belief ends, by its answer and the places of choices.
        tell_relevant: the tells change where the tracked belief ends; equals_first_order, equals_reality,
        equals_joint_witness: the answer is also that rule's (see baselines.py); answer_position: place among the
        choices, from 1; answer_place: place among the containers in which the object is seen or said to be, in order of
        their first mention, from 1; order_sensitive: naming the asked agents in some other order would change where the
        belief ends; semantics_differ: the two semantics end differently; label_agrees: the tracker ends in the
        answer."""
        told, order, places = self.told, len(asked), self.places
        witnessed = self.belief_by_sight(asked) if told else belief
        first = belief if order == 1 else self.belief(asked[-1:])
        return {
            "order": order,
            "tell_relevant": belief != witnessed,
            "equals_first_order": answer == first,
            "equals_reality": answer == self.reality,
            "equals_joint_witness": answer == witnessed,
            "answer_position": positions.get(answer),
            "answer_place": places.index(answer) + 1 if answer in places else None,
            "order_sensitive": told and order > 1 and self.depends_on_order(asked, belief),
            "semantics_differ": told and belief != self.traced.belief(asked, OTHER_SEMANTICS[self.semantics]),
            "label_agrees": belief == answer,
        }
