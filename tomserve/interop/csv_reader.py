"""Reads foreign replies from spreadsheets (CSV) and JSON lines, whose columns the user maps to what they mean.

Columns that are called like a field (see FIELDS) are that field and need no map.

>>> parse_mapping(["text=reply", "correct=mark"])["text"], parse_mapping(["text=reply"])["id"]
('reply', 'id')
>>> grade_of(None, "0,5", None, {"score": "points"}, comma=True).value
0.5
"""

import contextlib
import hashlib
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import orjson

from tomserve.content import files
from tomserve.content.rows import Rows, Sheet, json_rows
from tomserve.errors import ConfigError, one_of
from tomserve.interop.samples import MOST_REPEATS, Grade, Sample, Source, SourceAbout, is_fact, open_source
from tomserve.items import nfc
from tomserve.items.item import MOST_TEXT
from tomserve.status import KNOWN, OK, known

_TRUE = ("true", "1", "1.0", "yes", "y", "c", "correct", "right")
_FALSE = ("false", "0", "0.0", "no", "n", "i", "incorrect", "wrong")

_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+\s*")


class UnreadableError(ValueError):
    """A value cannot be read. The message says what is wrong with rows like this, `found` what stands in this one."""

    def __init__(self, reason: str, found: str) -> None:
        super().__init__(reason)
        self.found = found


def grade_of(
    right: str | None, score: str | None, answer: str | None, columns: Mapping[str, str], *, comma: bool = False
) -> Grade | None:
    """The grade of a row; None where it has none. Raises UnreadableError for one that cannot be read.

    right: the mark. score: the number. answer: what was read of the reply. columns: the column of each field. comma:
    whether numbers may have a decimal comma.
    """
    value = None if score is None else _number(score, comma=comma)
    if score is not None and value is None:
        raise UnreadableError(
            "has a score that is no number such as 0.85; write it so (a decimal comma is read only where semicolons "
            "separate the columns)",
            score,
        )
    if right is None:
        return None if value is None else Grade(columns["score"], None, answer, value)
    word = _with_point(right, comma=comma).strip().casefold()
    if word not in _TRUE and word not in _FALSE:
        raise UnreadableError(
            "has a mark other than true, false, 1, 0, yes, no, right, wrong, correct, incorrect, C or I; write one of "
            "these, or name numbers by --map score=COLUMN",
            right,
        )
    return Grade(columns["correct"], word in _TRUE, answer, value)


def _number(text: str, *, comma: bool) -> float | None:
    with contextlib.suppress(ValueError):
        value = float(_with_point(text, comma=comma))
        return value if math.isfinite(value) else None
    return None


def _with_point(text: str, *, comma: bool) -> str:
    return text.replace(",", ".") if comma and _DECIMAL_COMMA.fullmatch(text) else text


FIELDS = {
    "id": "what the question is called; if it is left out, questions of one text are one",
    "text": "the reply, as it came",
    "asked": "all that the model was shown; if it is left out, story and question",
    "story": "what is told before the question",
    "question": "the question alone",
    "choices": "the labels that could be answered, as a JSON list or with | between them",
    "target": "the right answer",
    "correct": "whether the reply is right: true, false, 1, 0, yes, no, right, wrong, correct, incorrect, C or I",
    "score": "the grade as a number, usually from 0 to 1",
    "answer": "what was read of the reply as its answer",
    "model": "who answered",
    "strategy": "the way of asking",
    "task": "what the questions are called together",
    "repeat": "which of several replies to one question it is, from 0; if it is left out, they are counted",
    "cluster": "which questions belong together, such as those about one text",
    "status": "ok, or why there is no reply",
    "item": "the id of an item of a benchmark of ours",
}
"""What a column may mean."""

TASK = "questions"
"""What the questions are called together where neither the file nor the user says it: not like the file, since the
answers of two models to the same questions lie in two files."""


def parse_mapping(given: Sequence[str]) -> dict[str, str]:
    """The column of each field. given: texts FIELD=COLUMN; a field that none of them names has the column of its own
    name. Raises ConfigError for what is no such text, and for a field that is given twice."""
    found: dict[str, str] = {}
    for text in given:
        one, equals, other = text.partition("=")
        if not equals or not other:
            raise ConfigError(f"--map {text!r:.80}: expected FIELD=COLUMN, such as text=reply")
        if one not in FIELDS:
            raise ConfigError(f"--map {text!r:.80}: {one_of('field', one, FIELDS)}")
        if one in found:
            raise ConfigError(f"--map: {one} is given twice ({found[one]!r:.60} and {other!r:.60})")
        found[one] = other
    return {name: name for name in FIELDS if name not in found and name not in found.values()} | found


class MappedFile(Source):
    """The replies of a CSV or JSONL file. given: the user's map (see `parse_mapping`). model, task: where the file
    names none; the task is TASK where nobody says it. What separates the fields of a CSV file is found out."""

    def __init__(
        self,
        path: Path,
        kind: Literal["csv", "jsonl"],
        given: Sequence[str] = (),
        model: str | None = None,
        task: str | None = None,
    ) -> None:
        super().__init__(path)
        self.kind, self.given, self.model, self.task = kind, given, model, task
        self._separator: str | None = None
        self._counts: Counter[tuple[str | None, ...]] = Counter()  # replies to a question that names no repeat

    def about(self) -> SourceAbout:
        """The kind of file alone; it says nothing else of itself. Raises ConfigError for a map that is none."""
        parse_mapping(self.given)
        return SourceAbout(self.kind)

    def samples(self) -> Iterator[Sample]:
        """The replies, one for each row. Raises ConfigError by file and line where the file is none of this kind, or
        its columns do not say what was replied, to which question, and by whom."""
        columns = parse_mapping(self.given)
        seen: dict[str, None] = {}
        for line, row in self._rows():
            if not row.keys() <= seen.keys():
                seen |= dict.fromkeys(row)
                if len(seen) > 100 * len(FIELDS):
                    raise ConfigError(f"{self.path}:{line}: more than {100 * len(FIELDS):,} names; expected columns")
                if self.kind == "csv":  # its head says all of them
                    self._check(columns, seen)
            try:
                yield self._sample(line, row, columns)
            except ValueError as error:
                self._leave_row(f"{error}", line, getattr(error, "found", None))
        if not seen:
            left = f" ({self.left_out})" if self.left_out else ""
            raise ConfigError(f"{self.path}: holds no rows{left}; expected a line for each reply")
        self._check(columns, seen)

    def _check(self, columns: Mapping[str, str], there: Collection[str]) -> None:
        """Raise ConfigError where a column is missing."""
        shown = ", ".join(there)[:500]
        for text in self.given:
            if (other := text.partition("=")[2]) not in there:
                raise ConfigError(f"--map {text!r:.80}: {self.path} has no column {other!r:.80}; it has: {shown}")
        named = {name for name, column in columns.items() if column in there}
        if not {"text", "correct", "score", "answer"} & named:
            raise ConfigError(
                f"{self.path}: no column says what was replied, or whether it is right; it has: {shown}. Name one by "
                "--map text=COLUMN or --map correct=COLUMN"
            )
        if not {"asked", "question", "story", "id", "item"} & named:
            raise ConfigError(
                f"{self.path}: no column says which question a row answers; it has: {shown}. Name one by --map "
                "id=COLUMN or --map question=COLUMN"
            )
        if self.model is None and "model" not in named:
            raise ConfigError(
                f"{self.path}: no column says who answered; say it by --model NAME, or --map model=COLUMN"
            )

    def _leave_row(self, reason: str, line: int, found: str | None = None) -> None:
        self.leave(reason, f"line {line}" if found is None else f"line {line}: {found!r:.80}")

    def _sample(self, line: int, row: Mapping[str, Any], columns: Mapping[str, str]) -> Sample:
        """The sample of a row. Raises ValueError that says what is wrong with it."""

        def cell(name: str) -> str | None:
            value = row.get(columns[name]) if name in columns else None
            if value is None or value == "":
                return None
            return value if isinstance(value, str) else orjson.dumps(value).decode()

        model = cell("model") or self.model
        if model is None:
            raise ValueError("names no model")
        status, text, answer = (cell("status") or OK).strip(), cell("text"), cell("answer")
        if not known(status):
            raise ValueError(f"has a status that nobody knows (known: {KNOWN})")
        if status == OK and text is None and columns.get("text") in row:
            raise ValueError("has no reply")
        story, question, task = cell("story"), cell("question"), cell("task") or self.task or TASK
        identity = cell("id") or cell("item")
        shown = cell("asked") or "\n\n".join(one for one in (story, question) if one)
        if identity is None and not shown:
            raise ValueError("does not say which question it answers")
        choices = _parse_choices(cell("choices"))
        # Without an id a row is of the question that it tells, so that two files agree whatever their order, and that
        # of the choices.
        told = "\n".join((shown, *sorted(choices)))
        identity = nfc(identity or hashlib.sha256(nfc(told).encode("utf-8", "replace")).hexdigest()[:12])
        strategy = cell("strategy")
        return Sample(
            id=identity,
            task=task,
            model=model,
            asked=shown or identity,
            text=text if text is not None or status != OK else answer,
            target=cell("target"),
            choices=choices,
            story=tuple(one for part in (story or "").split("\n") if (one := part.strip())),
            question=question or "",
            repeat=self._repeat(cell("repeat"), (model, task, identity, strategy), columns["repeat"] in row),
            strategy=strategy,
            item=cell("item"),
            status=status,
            grade=grade_of(cell("correct"), cell("score"), answer, columns, comma=self._separator == ";"),
            facts={
                name: one for name, one in row.items() if name not in columns.values() and (one is None or is_fact(one))
            },
            cluster=cell("cluster"),
            place=f"{self.path.name}, line {line}",
        )

    def _repeat(self, given: str | None, question: tuple[str | None, ...], named: bool) -> int:
        """Which of several replies to a question a row is: as it says, else how many came before."""
        if given is not None:
            with contextlib.suppress(ValueError, OverflowError):
                value = float(given)
                if 0 <= value < MOST_REPEATS and value == int(value):
                    return int(value)
            raise ValueError(f"has a repeat that is no whole number from 0 to {MOST_REPEATS - 1:,}")
        if named:
            return 0
        self._counts[question] += 1
        if self._counts[question] > MOST_REPEATS:
            raise ValueError(f"is more than the {MOST_REPEATS:,}th reply to its question")
        return self._counts[question] - 1

    def _rows(self) -> Rows:
        """Each row with the line where it begins."""
        with open_source(self.path) as file:
            lines = files.read_lines(file, self.path)
            if self.kind == "csv":
                sheet = Sheet(self.path, lines, self._leave_row)
                self._separator = sheet.separator
                yield from sheet.rows()
            else:
                yield from json_rows(self.path, lines, self._leave_row)


LONGEST_CHOICES = 10 * MOST_TEXT
"""Characters of a text that lists choices; written as JSON, a character may take six."""


def _parse_choices(text: str | None) -> tuple[str, ...]:
    """Choices as a JSON list, or with | between them; none where they are more than a question can have."""
    if text is None or len(text) > LONGEST_CHOICES:
        return ()
    if text.lstrip().startswith("["):
        with contextlib.suppress(orjson.JSONDecodeError):
            found = files.load_json(text)
            return tuple(one if isinstance(one, str) else orjson.dumps(one).decode() for one in found)
    return tuple(part.strip() for part in text.split("|"))
