"""Read ToMi: its own pairs of files (.txt and .trace), a folder of them, or a file of JSON lines made from them.

A story of the .txt file is a run of numbered lines, the last of which holds the question, the answer and the number of
a supporting line, with tabs between them; each story comes once for each of its questions. The .trace file has a line
for each question that ends with its type and the type of the story. A JSON line has story, question, answer,
question_type and story_type (simulatedtom's test_balanced.jsonl, a part of the fixed ToMi of SymbolicToM).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import orjson

from tomserve.benchmarks.foreign.source import Source
from tomserve.errors import ContentError

STORY_TYPES = ("true_belief", "false_belief", "second_order_false_belief")
QUESTION_TYPES = (
    *("memory", "reality"),
    *(
        f"{order}_order_{person}_{tom}"
        for order in ("first", "second")
        for person in (0, 1)
        for tom in ("tom", "no_tom")
    ),
)
FIELDS = ("story", "question", "answer", "question_type", "story_type")
"""The fields of a JSON line that are used, all of them text."""

_LINE = re.compile(r"(\d{1,4}) (\S.*)")
_QUESTION = re.compile(r"([^\t]+\?)\t([^\t]+)\t(\d+)")


class Record(NamedTuple):
    """One question as a file has it.

    story: its lines without their numbers. question_type, story_type: the file's, of QUESTION_TYPES and STORY_TYPES.
    path, line: where it stands, so that an error can say so.
    """

    story: tuple[str, ...]
    question: str
    answer: str
    question_type: str
    story_type: str
    path: Path
    line: int

    def refuse(self, field: str, reason: str) -> ContentError:
        """The error for something that is wrong with the question."""
        return ContentError(
            f"{reason}; take the official file, or mend this", path=self.path, line=self.line, field=field
        )

    @property
    def row(self) -> bytes:
        """What the digest of the question is taken of: the same in all forms of the file."""
        return "\n".join((*self.story, *self[1:5])).encode()


def read(source: Source, path: Path | None) -> Iterator[Record]:
    """The questions of a file, or of all files of a folder, in their order.

    source: where the file comes from. path: the user's. Raises ConfigError where nothing is there, ContentError by
    file, line and field for what cannot be read.
    """
    found = source.need(path)
    if found.is_dir():
        texts = sorted(one for one in found.glob("*.txt") if one.with_suffix(".trace").exists())
        if not texts:
            raise ContentError(f"holds no .txt file with its .trace file; expected {source.words}", path=found)
        for text in texts:
            yield from _pair(source, text)
    elif found.suffix in (".jsonl", ".json"):
        yield from _lines(source, found)
    elif found.suffix == ".txt":
        yield from _pair(source, found)
    else:
        reason = (
            f"ends in {found.suffix or 'nothing'!r}; expected a .txt file with its .trace, a folder of them, or .jsonl"
        )
        raise ContentError(f"{reason}; unpack a .zip file first", path=found)


def _pair(source: Source, path: Path) -> Iterator[Record]:
    """The questions of a .txt file and the .trace file beside it."""
    traces = path.with_suffix(".trace")
    if not traces.exists():
        raise ContentError(f"is not there; expected beside {path.name}, as in {source.words}", path=traces)
    kinds = [line for line in source.text(traces).split("\n") if line.strip()]
    story: list[str] = []
    count = 0
    for number, line in enumerate(source.text(path).split("\n"), 1):
        if not line.strip():
            continue
        if (told := _LINE.fullmatch(line.rstrip("\r"))) is None:
            raise ContentError(f"is {line!r:.60}; expected a number, a space and a sentence", path=path, line=number)
        if told[1] == "1":
            story = []
        if int(told[1]) != len(story) + 1:
            reason = f"has the number {told[1]}; expected {len(story) + 1}, or 1 where a story begins"
            raise ContentError(reason, path=path, line=number)
        if "\t" not in told[2]:
            story.append(told[2])
            continue
        if (asked := _QUESTION.fullmatch(told[2])) is None:
            reason = f"is {told[2]!r:.80}; expected question?, answer and a number with tabs between them"
            raise ContentError(reason, path=path, line=number)
        if count == len(kinds):
            reason = f"has {count} lines, fewer than {path.name} has questions; take both from one place"
            raise ContentError(reason, path=traces)
        *_, question_type, story_type = ["", *kinds[count].strip().split(",")]
        count += 1
        _known(question_type, story_type, traces, count)
        yield Record(tuple(story), asked[1], asked[2], question_type, story_type, path, number)
        story = []
    if count != len(kinds):
        reason = f"has {len(kinds)} lines; {path.name} has {count} questions; take both from one place"
        raise ContentError(reason, path=traces)
    if story or not count:
        raise ContentError("ends without a question" if story else "holds no questions", path=path)


def _lines(source: Source, path: Path) -> Iterator[Record]:
    """The questions of a file of JSON lines."""
    count = 0
    for number, line in enumerate(source.text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise ContentError(f"is no JSON ({error}); expected an object a line", path=path, line=number) from None
        if not isinstance(row, dict):
            raise ContentError(f"is {line!r:.60}; expected an object", path=path, line=number)
        for name in FIELDS:
            if not isinstance(row.get(name), str) or not row[name].strip():
                raise ContentError(f"is {row.get(name)!r:.60}; expected text", path=path, line=number, field=name)
        story, question, answer, question_type, story_type = (row[name].strip() for name in FIELDS)
        _known(question_type, story_type, path, number)
        told = tuple(re.sub(r"^\d{1,4} ", "", one.strip()) for one in story.split("\n") if one.strip())
        count += 1
        yield Record(told, question, answer, question_type, story_type, path, number)
    if not count:
        raise ContentError("holds no questions", path=path)


def _known(question_type: str, story_type: str, path: Path, line: int) -> None:
    for field, found, known in (
        ("question_type", question_type, QUESTION_TYPES),
        ("story_type", story_type, STORY_TYPES),
    ):
        if found not in known:
            raise ContentError(
                f"is {found!r:.60}; expected one of {', '.join(known)}", path=path, line=line, field=field
            )
