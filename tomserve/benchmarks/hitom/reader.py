"""Read the official Hi-ToM file: every sentence, question and choice of every record; a mistake is named in one line.

>>> records = read_records(Path("Hi-ToM_data.json"))                       # doctest: +SKIP
>>> records[0].order, records[0].object, records[0].answer                 # doctest: +SKIP
(0, 'lettuce', 'green_drawer')

The file is {"data": [record, ...]}; a record has prompting_type (CoTP or VP), deception, story_length (chapters),
question_order, sample_id, story (numbered sentences, one a line), question, choices ("A. x, B. y, ...") and answer (a
container). Two artefacts of the released file are stripped: VP stories begin with a stray line of instructions, and
some stories end in "***". Of both halves each question is a record: 1,200 records, 600 questions, 120 stories.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import orjson

from tomserve.benchmarks.hitom.events import Story
from tomserve.benchmarks.hitom.questions import read_question
from tomserve.content import digest
from tomserve.errors import ContentError, one_of

CORRECTED, STALE = "CoTP", "VP"
"""The halves of the file. They ask the same questions; the labels of VP were made by an older generator."""
HALVES = (CORRECTED, STALE)
FIELDS: dict[str, type] = {
    "prompting_type": str,
    "deception": bool,
    "story_length": int,
    "question_order": int,
    "sample_id": int,
    "story": str,
    "question": str,
    "choices": str,
    "answer": str,
}
_INSTRUCTION = "Read the following story and answer the multiple-choice question."
_SENTENCE = re.compile(r"(\d+) (.+)")
_CHOICE = re.compile(r"([A-Z])\. ([\w'-]+)")


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
        data = orjson.loads(path.read_bytes())
    except OSError as error:
        raise ContentError(f"cannot be read ({error.strerror})", path=path) from None
    except orjson.JSONDecodeError as error:
        raise ContentError(
            f"not JSON: {error.msg} (column {error.colno}); expected the official file, {_EXPECTED}",
            path=path,
            line=error.lineno,
        ) from None
    rows = data.get("data") if isinstance(data, dict) else None
    if not isinstance(rows, list) or not rows:
        found = f"an object with {sorted(data)[:5]}" if isinstance(data, dict) else f"a {type(data).__name__}"
        raise ContentError(f"holds {found}; expected the official file, {_EXPECTED}", path=path)
    reader = _Reader(path)
    return [reader.record(index, row) for index, row in enumerate(rows)]


_EXPECTED = '{"data": [{"story": ..., "question": ..., "choices": ..., "answer": ...}, ...]}'


class _Reader:
    """Reads records one by one, and remembers the stories (ten records share one) and what must not come twice."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stories: dict[str, tuple[Story, str]] = {}
        self.seen: dict[object, int] = {}

    def record(self, index: int, row: Any) -> Record:
        self._check_fields(index, row)
        story, identifier = self._story(index, row["story"])
        try:
            asked, obj = read_question(row["question"])
        except ValueError as error:
            self._refuse(index, "question", str(error))
        self._check_question(index, row["question_order"], story, asked, obj)
        choices = self._choices(index, row["choices"])
        if row["answer"] not in choices:
            reason = f"{row['answer']!r} is not among the choices ({', '.join(choices)}); correct one of the two"
            self._refuse(index, "answer", reason)
        record = Record(
            index=index,
            half=row["prompting_type"],
            deception=row["deception"],
            length=row["story_length"],
            sample_id=row["sample_id"],
            story=story,
            story_id=identifier,
            asked=asked,
            object=obj,
            choices=choices,
            answer=row["answer"],
        )
        self._once(index, "sample_id", record.sample_id)
        self._once(index, "question", (record.half, record.key))
        return record

    def _refuse(self, index: int, field: str, reason: str) -> NoReturn:
        raise ContentError(reason, path=self.path, field=f"data[{index}].{field}" if field else f"data[{index}]")

    def _once(self, index: int, field: str, value: object) -> None:
        first = self.seen.setdefault((field, value), index)
        if first != index:
            shown = value if field == "sample_id" else "the same question about the same story"
            self._refuse(index, field, f"{shown} is already in data[{first}]; leave one of them out")

    def _check_fields(self, index: int, row: Any) -> None:
        if not isinstance(row, dict):
            self._refuse(index, "", f"is a {type(row).__name__}; expected an object with {', '.join(FIELDS)}")
        for name, kind in FIELDS.items():
            if name not in row:
                self._refuse(index, name, f"is missing; a record has {', '.join(FIELDS)}")
            if type(row[name]) is not kind:  # in Python true is a number, too; here it is none
                self._refuse(index, name, f"is {row[name]!r}; expected {_KINDS[kind]}")
        for name in row:
            if name not in FIELDS:
                self._refuse(index, name, one_of("field", name, FIELDS))
        if row["prompting_type"] not in HALVES:
            self._refuse(index, "prompting_type", one_of("half", row["prompting_type"], HALVES))
        if row["story_length"] < 1:
            self._refuse(index, "story_length", f"is {row['story_length']}; expected the number of chapters, from 1")

    def _story(self, index: int, text: str) -> tuple[Story, str]:
        if text not in self.stories:
            sentences = self._sentences(index, text)
            try:
                story = Story.parse(sentences)
                story.check()
            except ValueError as error:
                self._refuse(index, "story", str(error))
            self.stories[text] = story, story_id(sentences)
        return self.stories[text]

    def _sentences(self, index: int, text: str) -> tuple[str, ...]:
        """The story's sentences without their numbers and without the two known artefacts."""
        lines = [line.strip() for line in text.split("\n") if line.strip()]
        if lines and lines[0].startswith(_INSTRUCTION):
            lines = lines[1:]
        if lines and lines[-1] == "***":
            lines = lines[:-1]
        if not lines:
            self._refuse(index, "story", "has no sentences; expected numbered ones, a line each")
        found = []
        for number, line in enumerate(lines, 1):
            match = _SENTENCE.fullmatch(line)
            if match is None or int(match[1]) != number:
                reason = f"line {number} is {line!r}; expected '{number} <sentence>': sentences are numbered from 1"
                self._refuse(index, "story", reason)
            found.append(match[2])
        return tuple(found)

    def _check_question(self, index: int, order: int, story: Story, asked: tuple[str, ...], obj: str) -> None:
        if order != len(asked):
            reason = f"is {order}, but the question names {len(asked)} agents; correct one of the two"
            self._refuse(index, "question_order", reason)
        if order > len(story.agents):
            self._refuse(index, "question", f"is of order {order}, but the story has {len(story.agents)} agents")
        if twice := [name for place, name in enumerate(asked) if name in asked[:place]]:
            self._refuse(index, "question", f"asks about {twice[0]} twice; name every agent once")
        if absent := [name for name in asked if name not in story.agents]:
            reason = f"asks about {absent[0]}, who never enters; the story has {', '.join(story.agents)}"
            self._refuse(index, "question", reason)
        if obj not in story.objects:
            self._refuse(index, "question", f"asks for {obj!r}; the story has {', '.join(story.objects)}")

    def _choices(self, index: int, text: str) -> tuple[str, ...]:
        found = [_CHOICE.fullmatch(part) for part in text.split(", ")]
        labels = tuple(match[2] for match in found if match is not None)
        if len(labels) < len(found) or write_choices(labels) != text:
            reason = f"are {text[:60]!r}; expected 'A. <container>, B. <container>, ...', lettered in order"
            self._refuse(index, "choices", reason)
        if twice := [label for place, label in enumerate(labels) if label in labels[:place]]:
            self._refuse(index, "choices", f"hold {twice[0]!r} twice; leave one of them out")
        return labels


_KINDS = {str: "text", int: "a whole number", bool: "true or false"}
