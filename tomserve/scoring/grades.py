"""Grades of replies by another reader than our parser: a grader model or another tool, and how far they agree with our
own reading.

Where the grade of another tool *counts*, it is the score, because only that tool can read the reply; elsewhere it
stands beside our reading.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import polars as pl

from tomserve.content import files
from tomserve.content.files import FileSnapshot
from tomserve.content.text import count_noun
from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.scoring.labels import LetteredChoices, find_shown_order
from tomserve.scoring.metrics import Kind
from tomserve.scoring.thoughts import split_thoughts
from tomserve.status import ANSWERS, INVALID, OK

PARSE_CHOICE = "reader"  # the value of the column `parse` of an answer that a model has read
JOURNAL, RECORD = "reader.jsonl", "reader.json"  # the names of the two files in a run folder

MARK = "reader"
"""The field of a row, and of the record, that tells one reader (model, prompt and sampling) from another."""

NOTHING, NONSENSE, MISSING = "none", "nonsense", "missing"
"""What may come of a reply instead of a choice: the reader found no answer in it; the reader's own reply was no choice;
the reader was not asked, or has not replied."""


class GradeFiles(NamedTuple):
    """Where a reader's choices are kept. A choice belongs to what was read (question, choices and text): equal replies
    are read once, and it is never used for a reply that has changed, nor where the rules find an answer."""

    journal: Path  # the rows
    record: Path  # which reader's rows count

    @classmethod
    def of_run(cls, folder: Path) -> GradeFiles:
        """The place in a run folder."""
        return cls(folder / JOURNAL, folder / RECORD)

    @classmethod
    def next_to(cls, table: Path) -> GradeFiles:
        """The place of replies without a run folder: beside the score table that is made of them."""
        return cls(table.with_name(f"{table.name}.{JOURNAL}"), table.with_name(f"{table.name}.{RECORD}"))


def digest_question(item: Item, row: Mapping[str, Any]) -> str:
    """A digest of what is read: the question, its choices, in which other order they were shown as A, B, C, and what
    the reply says; 32 hexadecimal digits."""
    shown = find_shown_order(item, row)
    order = [shown] if shown and shown != LetteredChoices(item.choices).offered else []
    parts = orjson.dumps([item.question, item.choices, split_thoughts(row.get("text") or "").text, *order])
    return hashlib.blake2b(parts, digest_size=16).hexdigest()


def none_label(choices: Sequence[str]) -> str:
    """The word for "none of them", which is none of the choices themselves.

    >>> none_label(("tea", "None"))
    '(none)'
    """
    taken, word = {choice.casefold() for choice in choices}, NOTHING
    while word in taken:
        word = f"({word})"
    return word


class GraderChoices:
    """The choices of the reader that the record names. place: the files. Raises ConfigError where one of them cannot be
    read, or is not what it should be. Lines of the journal that are no rows of this reader are left out."""

    def __init__(self, place: GradeFiles) -> None:
        for path in place:
            files.check_regular(path)
        try:
            self.files = (FileSnapshot(place.journal), FileSnapshot(place.record))
        except OSError as error:
            raise ConfigError(f"{error.filename}: cannot be read ({error.strerror}); {_way_out(place)}") from None
        self.record = _record(place, self.files[1])
        self._texts: dict[str, str] = {}
        for _, _, line in self.files[0].lines():
            self._add(line)

    def _add(self, line: bytes) -> None:
        try:
            row = orjson.loads(line) if line.endswith(b"\n") else None
        except orjson.JSONDecodeError:
            return
        if isinstance(row, dict) and row.get(MARK) == self.record[MARK] and row.get("status") == OK:
            name, text = row.get("item"), row.get("text")
            if isinstance(name, str) and isinstance(text, str):
                self._texts[name] = text

    def outcome(self, item: Item, row: Mapping[str, Any]) -> tuple[str | None, str]:
        """What the reader made of a reply to an item: the choice and "", or None and one of NOTHING, NONSENSE, MISSING.
        A choice that is none of the item's choices is nonsense, whoever wrote it into the file."""
        if (reply := self._texts.get(digest_question(item, row))) is None:
            return None, MISSING
        chosen = _parse_choice(split_thoughts(reply).text)
        if chosen in item.choices:
            return chosen, ""
        return None, NOTHING if chosen == none_label(item.choices) else NONSENSE

    def choice(self, item: Item, row: Mapping[str, Any]) -> str | None:
        """The choice that the reader found in a reply to an item; None where it found none, or was not asked."""
        return self.outcome(item, row)[0]


def _parse_choice(reply: str) -> str | None:
    """The member "choice" of the JSON object that the reader replied with; None where it is no such object."""
    try:
        found = orjson.loads(reply)
    except orjson.JSONDecodeError:
        return None
    chosen = found.get("choice") if isinstance(found, dict) else None
    return chosen if isinstance(chosen, str) else None


def _record(place: GradeFiles, file: FileSnapshot) -> dict[str, Any]:
    for _ in file.lines():
        pass  # so that its digest is known
    with files.refuse_os_errors(place.record, way_out=_way_out(place)):
        record = files.read_json(place.record, _way_out(place))
    if not isinstance(record, dict) or not isinstance(record.get(MARK), str):
        raise ConfigError(f"{place.record}: field {MARK!r} is missing or no text; {_way_out(place)}")
    return record


def _way_out(place: GradeFiles) -> str:
    return f"`score --reader` makes both files again; without {place.record.name} the rules alone read"


FIELD = "graded"
"""The field of a row that holds the grade: by, correct, answer, value, counts and, where it is so, unread."""

UNREAD_EMPTY = "the reply is empty"  # why a reply without a text has no answer that a tool could have graded
PARSE_GRADE = "graded"  # how a row was read whose grade counts (column `parse`)

GRADED: dict[str, Kind] = {
    "graded_by": pl.String,
    "graded_correct": pl.Boolean,
    "graded_answer": pl.String,
    "graded_value": pl.Float64,
}
"""Columns that a score table has only where another tool graded some of the replies.

graded_by: the name of its scorer or metric. graded_correct: whether it counts the reply as right; null where it does
not say. graded_answer: what it read as the answer. graded_value: its score as a number; of a question that was asked
several times the mean over its samples."""


class ExternalGrade(NamedTuple):
    """A grade as a row holds it."""

    by: str
    correct: bool | None
    answer: str | None
    value: float | None
    counts: bool  # whether it is the score
    unread: str | None = None  # why the reply holds no answer that the tool could have graded, None where it may


def grade_of(row: Mapping[str, Any]) -> ExternalGrade | None:
    """The grade that a row carries, None where it carries none. What is of another type than it should be is left out,
    since run folders come from anybody."""
    found = row.get(FIELD)
    if type(found) is not dict:
        return None
    by, correct, answer, value, unread = (found.get(name) for name in ("by", "correct", "answer", "value", "unread"))
    number = float(value) if isinstance(value, int | float) and type(value) is not bool else None
    return ExternalGrade(
        by if type(by) is str else "",
        correct if type(correct) is bool else None,
        answer if type(answer) is str else None,
        number if number is not None and math.isfinite(number) else None,
        found.get("counts") is True,
        unread if type(unread) is str else None,
    )


def grade_fields(row: Mapping[str, Any], samples: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """The columns of GRADED for one row; all null where it carries no grade. samples: the rows of all samples of its
    question; where they are several, the value is the mean of theirs."""
    if (grade := grade_of(row)) is None:
        return dict.fromkeys(GRADED)
    value = grade.value
    if len(samples) > 1:
        given = (grade_of(one) for one in samples)
        values = [one.value for one in given if one is not None and one.value is not None]
        value = sum(values) / len(values) if values else None
    return dict(zip(GRADED, (grade.by, grade.correct, grade.answer, value), strict=True))


GRADE = "graded_correct"  # the column of a score table that says whether the tool counts a reply as right
FEW, FEW_SHARE = 3, 0.02  # so many replies, and this share of all, may be read otherwise without a word


@dataclass(slots=True)
class Agreement:
    """What was compared. ours, theirs: how many are right by our reading alone, and by the tool's grade alone."""

    compared: int = 0  # how many replies
    ours: int = 0
    theirs: int = 0
    first: str = ""  # the first reply that they differ about, in words

    def add(self, item: str, answer: str | None, *, graded: bool, right: bool) -> None:
        """Note a reply. item: the question. answer: what we have read. graded: whether the tool counts the reply as
        right; right: whether we do."""
        self.compared += 1
        self.ours += right and not graded
        self.theirs += graded and not right
        if graded != right and not self.first:
            self.first = describe_difference(item, answer, graded=graded)

    def line(self, grade: str) -> str:
        """In how many replies both agree; empty where nothing was compared. grade: as in `sentence`."""
        alike = self.compared - self.ours - self.theirs
        replies = count_noun(self.compared, "reply", "replies")
        return f"tomserve's reading and {grade} agree in {alike:,} of {replies}" if self.compared else ""

    def sentence(self, grade: str, before: str = "") -> str:
        """What a user must know where they differ in more than a few replies; empty elsewhere. grade: what the tool's
        grade is called, in words. before: what the sentence begins with."""
        differ = self.ours + self.theirs
        if differ <= max(FEW, FEW_SHARE * self.compared):
            return ""
        alone = f"{self.theirs:,} right by the tool alone, {self.ours:,} by tomserve alone; first: {self.first}"
        return (
            f"{before}tomserve's reading and {grade} differ in {differ:,} of "
            f"{count_noun(self.compared, 'reply', 'replies')} ({alone}), so that one of them is not what was said: "
            "look at some of them; where choices were named by letter, bring the prompts or the choices in the order "
            "that was shown (--map asked=COLUMN, --map choices=COLUMN), or let the tool's grade count by --counts "
            "tool, in a new run"
        )


def describe_difference(item: str, answer: str | None, *, graded: bool) -> str:
    """A reply that we read otherwise than the tool, in words; item, answer, graded: as in Agreement.add."""
    read = "could not be read" if answer is None else f"was read as {answer!r:.60}"
    return f"{item} {read}, which the tool counts as {'right' if graded else 'wrong'}"


def compare_table(scores: pl.DataFrame) -> Agreement:
    """The comparison of a score table, which may come from anybody, in the replies whose grade does not count."""
    kinds = {"item": pl.String, "status": pl.String, "answer": pl.String, "correct": pl.Boolean}
    kinds[GRADE] = pl.Boolean
    if any(scores.schema.get(name) != kind for name, kind in kinds.items()):
        return Agreement()
    ours = pl.col("parse").ne_missing(PARSE_GRADE) if scores.schema.get("parse") == pl.String else True
    rows = scores.filter(pl.col(GRADE).is_not_null() & pl.col("status").is_in([*ANSWERS, INVALID]) & ours)
    table = rows.select("item", "answer", right=pl.col("correct").fill_null(False), graded=GRADE)
    differing = table.filter(pl.col("right") != pl.col("graded"))
    found = Agreement(table.height, int(differing["right"].sum()), int(differing["graded"].sum()))
    for item, answer, _, graded in differing.head(1).iter_rows():
        found.first = describe_difference(files.one_line(item or ""), answer, graded=graded)
    return found


def sum_agreements(some: Sequence[Agreement]) -> Agreement:
    """Several comparisons of different replies as one."""
    compared, ours, theirs = (sum(getattr(one, name) for one in some) for name in ("compared", "ours", "theirs"))
    return Agreement(compared, ours, theirs, next((one.first for one in some if one.first), ""))
