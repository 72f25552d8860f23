"""Reads foreign replies from spreadsheets (CSV) and JSON lines, whose columns the user maps to what they mean.

Columns that are called like a field (see FIELDS) are that field and need no map.

>>> mapping(["text=reply", "correct=mark"], ["id", "reply", "mark"], Path("answers.csv"))
{'id': 'id', 'text': 'reply', 'correct': 'mark'}
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import orjson

from tomserve.content import bounded, files
from tomserve.errors import ConfigError, one_of
from tomserve.interop.foreign import About, Grade, Origin, Sample
from tomserve.items.item import Factor
from tomserve.status import FINAL, OK, known

FIELDS = {
    "id": "what the question is called; if it is left out, the number of the row",
    "text": "the reply, as it came",
    "asked": "all that the model was shown; if it is left out, story and question",
    "story": "what is told before the question",
    "question": "the question alone",
    "choices": "the labels that could be answered, as a JSON list or with | between them",
    "target": "the right answer",
    "correct": "whether the reply is right: true, false, 1, 0, yes, no, C or I",
    "score": "the grade as a number, usually from 0 to 1",
    "answer": "what was read of the reply as its answer",
    "model": "who answered",
    "strategy": "the way of asking",
    "task": "what the questions are called together",
    "repeat": "which of several replies to one question it is, from 0",
    "cluster": "which questions belong together, such as those about one text",
    "status": "ok, or why there is no reply",
    "item": "the id of an item of a benchmark of ours",
}
"""What a column may mean."""

_TRUE, _FALSE = ("true", "1", "1.0", "yes", "c", "correct"), ("false", "0", "0.0", "no", "i", "incorrect")

TASK = "questions"
"""What the questions are called together where neither the file nor the user says it: not like the file, since the
answers of two models to the same questions lie in two files."""

MOST_COLUMNS = 2000
"""A spreadsheet with more columns is taken for something else."""


def mapping(given: Sequence[str], columns: Sequence[str], path: Path) -> dict[str, str]:
    """The column of each field. given: texts FIELD=COLUMN. columns: those that the file has; one that is called
    like a field is that field unless a text says otherwise. Raises ConfigError for what is neither, and for a field
    that is given twice."""
    found: dict[str, str] = {}
    for text in given:
        one, equals, other = text.partition("=")
        if not equals:
            raise ConfigError(f"--map {text!r:.80}: expected FIELD=COLUMN, such as text=reply")
        if one not in FIELDS:
            raise ConfigError(f"--map {text!r:.80}: {one_of('field', one, FIELDS)}")
        if other not in columns:
            listed = ", ".join(columns)
            raise ConfigError(f"--map {text!r:.80}: {path} has no column {other!r:.80}; it has: {listed[:500]}")
        if one in found:
            raise ConfigError(f"--map: {one} is given twice ({found[one]!r:.60} and {other!r:.60})")
        found[one] = other
    return {name: name for name in FIELDS if name in columns and name not in found} | found


@dataclass
class Mapped:
    """The replies of a CSV or JSONL file. path: the file. kind: which of the two. given: the user's map (see
    `mapping`). model, task: where the file names none; the task is TASK where nobody says it. separator:
    what stands between the fields of a CSV file, None to find out of ``,``, ``;`` and tab."""

    path: Path
    kind: Literal["csv", "jsonl"]
    given: Sequence[str] = ()
    model: str | None = None
    task: str | None = None
    separator: str | None = None
    _left: dict[str, list[Any]] = field(default_factory=dict)
    _origin: Origin | None = None

    def about(self) -> About:
        """The kind of file alone; it says nothing else of itself."""
        return About(self.kind)

    def origins(self) -> tuple[Origin, ...]:
        """The file with its digest, after all samples were read."""
        return (self._origin,) if self._origin is not None else ()

    @property
    def left_out(self) -> dict[str, tuple[int, str]]:
        """For each reason how many rows were not read, and where the first stands."""
        return {reason: (count, place) for reason, (count, place) in self._left.items()}

    def samples(self) -> Iterator[Sample]:
        """The replies, one for each row. Raises ConfigError by file and line where the file is none of this kind, or
        its columns do not say what was replied or whether it is right."""
        columns: dict[str, str] | None = None
        for line, row in self._rows():
            if columns is None:
                columns = mapping(self.given, list(row), self.path)
                self._check(columns, list(row))
            try:
                yield self._sample(line, row, columns)
            except ValueError as error:
                self._leave(str(error), line)
        if columns is None:
            raise ConfigError(f"{self.path}: holds no rows; expected a line for each reply")

    def _check(self, columns: Mapping[str, str], there: Sequence[str]) -> None:
        shown = ", ".join(there)[:500]
        if not {"text", "correct", "score", "answer"} & set(columns):
            raise ConfigError(
                f"{self.path}: no column says what was replied, or whether it is right; it has: {shown}. Name one by "
                "--map text=COLUMN or --map correct=COLUMN"
            )
        if not {"asked", "question", "story", "id", "item"} & set(columns):
            raise ConfigError(
                f"{self.path}: no column says which question a row answers; it has: {shown}. Name one by --map "
                "id=COLUMN or --map question=COLUMN"
            )
        if self.model is None and "model" not in columns:
            raise ConfigError(
                f"{self.path}: no column says who answered; say it by --model NAME, or --map model=COLUMN"
            )

    def _leave(self, reason: str, line: int) -> None:
        self._left.setdefault(reason, [0, f"{self.path.name}, line {line}"])[0] += 1

    def _sample(self, line: int, row: Mapping[str, Any], columns: Mapping[str, str]) -> Sample:
        """The sample of a row. Raises ValueError that says what is wrong with it."""

        def told(name: str) -> str | None:
            value = row.get(columns[name]) if name in columns else None
            if value is None or value == "":
                return None
            return value if isinstance(value, str) else orjson.dumps(value).decode()

        story, question = told("story"), told("question")
        asked = (
            told("asked") or "\n\n".join(one for one in (story, question) if one) or told("item") or told("id") or ""
        )
        status = (told("status") or OK).strip()
        text = told("text")
        if status not in FINAL and not known(status):
            raise ValueError("has a status that nobody knows")
        if status == OK and "text" in columns and text is None:
            raise ValueError("has no reply")
        right = _right(told("correct"))
        score = _number(told("score"), "score")
        answer = told("answer")
        grade = Grade(columns.get("correct", columns.get("score", "grade")), right, answer, score)
        graded = right is not None or score is not None
        used = set(columns.values())
        facts: dict[str, Factor] = {
            name: value
            for name, value in row.items()
            if name not in used and (value is None or isinstance(value, str | bool | int | float))
        }
        model = told("model") or self.model
        if model is None:
            raise ValueError("names no model")
        repeat = _number(told("repeat"), "repeat")
        return Sample(
            id=told("id") or told("item") or str(line),
            task=told("task") or self.task or TASK,
            model=model,
            asked=asked,
            text=text if text is not None else (answer or "") if status == OK else None,
            target=told("target"),
            choices=_listed(told("choices")),
            story=tuple(one for part in (story or "").split("\n") if (one := part.strip())),
            question=question or "",
            repeat=int(repeat) if repeat is not None else 0,
            strategy=told("strategy"),
            item=told("item"),
            status=status,
            grade=grade if graded else None,
            facts=facts,
            cluster=told("cluster"),
            place=f"{self.path.name}, line {line}",
        )

    def _rows(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Each row with the line where it begins."""
        bounded.refuse_hole(self.path)
        try:
            with files.reading(self.path) as file:
                sha, size = hashlib.sha256(), 0

                def lines() -> Iterator[bytes]:
                    nonlocal size
                    for line in bounded.lines(file, self.path):
                        sha.update(line)
                        size += len(line)
                        yield line

                yield from self._csv(lines()) if self.kind == "csv" else self._json(lines())
                self._origin = Origin(self.path.name, size, f"sha256:{sha.hexdigest()}")
        except FileNotFoundError:
            raise ConfigError(f"{self.path}: no such file") from None
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be read ({error.strerror})") from None

    def _json(self, lines: Iterator[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = orjson.loads(line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line)
            except orjson.JSONDecodeError as error:
                if number == 1:
                    raise ConfigError(f"{self.path}:1: not JSON ({error.msg}); expected a JSON object a line") from None
                self._leave("is no JSON", number)
                continue
            if not isinstance(row, dict):
                self._leave("is no JSON object", number)
                continue
            yield number, row

    def _csv(self, lines: Iterator[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
        number = 0

        def texts() -> Iterator[str]:
            nonlocal number
            for number, line in enumerate(lines, 1):
                try:
                    yield line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise ConfigError(
                        f"{self.path}:{number}: not UTF-8 (byte {error.start + 1} of the line); save the file as UTF-8"
                    ) from None

        given = texts()
        head = next(given, "")
        separator = self.separator or max((",", ";", "\t"), key=head.count)

        def whole() -> Iterator[str]:
            yield head
            yield from given

        with _long_fields():
            rows = csv.reader(whole(), delimiter=separator, strict=True)
            names: list[str] = []
            while True:
                begin = number + 1 if names else 1
                try:
                    row = next(rows, None)
                except csv.Error as error:
                    reason = f"{error}; the field begins at line {begin} or after it"
                    raise ConfigError(f"{self.path}:{number}: not a CSV file ({reason})") from None
                if row is None:
                    return
                if not names:
                    names = self._names(row, separator)
                elif len(row) == len(names):
                    yield begin, dict(zip(names, row, strict=True))
                elif row:
                    self._leave(f"has {len(row)} fields instead of {len(names)}", begin)

    def _names(self, row: Sequence[str], separator: str) -> list[str]:
        names = [name.strip() for name in row]
        if len(names) > MOST_COLUMNS:
            raise ConfigError(f"{self.path}:1: has {len(names):,} columns; expected at most {MOST_COLUMNS:,}")
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigError(f"{self.path}:1: two columns are called {twice[0]!r:.80}; rename one")
        if len(names) < 2:
            shown = {",": "commas", ";": "semicolons", "\t": "tabs"}.get(separator, repr(separator))
            raise ConfigError(
                f"{self.path}:1: has one column ({names[0]!r:.80}) between {shown}; expected a head of several"
            )
        return names


@contextlib.contextmanager
def _long_fields() -> Iterator[None]:
    """Let fields of a CSV file be as long as a line may be."""
    before = csv.field_size_limit(min(bounded.LONGEST, sys.maxsize))
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _right(text: str | None) -> bool | None:
    if text is None:
        return None
    word = text.strip().casefold()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise ValueError("has another mark than true, false, 1, 0, yes, no, C or I")


def _number(text: str | None, name: str) -> float | None:
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or (name == "repeat" and (value < 0 or value != int(value))):
        raise ValueError(f"has a {name} that is no number")
    return value


def _listed(text: str | None) -> tuple[str, ...]:
    """Choices as a JSON list, or with | between them."""
    if text is None:
        return ()
    if text.lstrip().startswith("["):
        with contextlib.suppress(orjson.JSONDecodeError):
            found = orjson.loads(text)
            return tuple(one if isinstance(one, str) else orjson.dumps(one).decode() for one in found)
    return tuple(part.strip() for part in text.split("|"))
