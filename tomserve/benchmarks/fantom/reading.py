"""Read FANToM's multiple-choice belief questions from either of the two forms in which people have them.

The official file fantom_v1.json has the sets of questions about one piece of information; the CSV files that the
repository of AutoToM holds have a question a row, in eight files, whose names say what they ask.
"""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tomserve.benchmarks.foreign import Source
from tomserve.benchmarks.foreign.prose import lines
from tomserve.errors import ConfigError, ContentError

SOURCE = Source(
    "fantom",
    "SCAI-JHU/AutoToM",
    "benchmarks/full_data_formatted",
    "MIT for the data, for evaluation only; Apache-2.0 for that repository",
    "3f569b7",
    note="Give the folder with the files FANToM_*.csv, one of them, or fantom_v1.json, which the program of "
    "github.com/skywalker023/fantom fetches",
)
COLUMNS = ["context", "question", "answer_choices", "gt_answer"]
NAME = re.compile(r"(?<![a-z])(accessible|inaccessible)_(short|full)_context_(first|second)-order\.csv$")
"""What the name of a CSV file says: whether all persons could hear the information, how much of the conversation is
shown, and the order of the belief."""

LONGEST_OPTIONS = 20_000
"""Most characters of the options of a row; they are written as Python writes a list."""


@dataclass(frozen=True)
class Asked:
    """One question: where it stands (file, line and field), the lines of the conversation that are shown, and what is
    asked.

    context: "short" for the passage with the information alone, "full" for the conversation from its beginning.
    accessible: whether the person asked about heard the information. conversation, part, piece: the conversation, the
    passage and the piece of information by their numbers in the official file, and tom_type what that file calls the
    order of the belief (cyclic where one believes what another believes of oneself); None in the CSV files, which do
    not say them.
    """

    file: Path
    line: int | None
    place: str
    told: tuple[str, ...]
    question: str
    right: str
    wrong: str
    context: str
    accessible: bool
    order: int
    conversation: str | None = None
    part: str | None = None
    piece: str | None = None
    tom_type: str | None = None


def files(path: Path | None) -> list[Path]:
    """The files of the user's `path`: itself, or the CSV files of a folder. Raises ConfigError where there is none."""
    path = SOURCE.need(path)
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.iterdir() if NAME.search(file.name))
    if not found:
        raise ConfigError(f"{path}: holds no file FANToM_*_order.csv; expected {SOURCE.words}. {SOURCE.note}")
    return found


def read(path: Path | None) -> Iterator[Asked]:
    """The questions of all files, short contexts after full ones, each file in its order.

    Raises ConfigError where the file is missing, ContentError by line or field for what is no question.
    """
    for file in files(path):
        if file.suffix == ".json":
            yield from _official(file)
        elif NAME.search(file.name) is None:
            expected = (
                "a name such as FANToM_tom:belief:accessible_short_context_first-order.csv, which says what is asked"
            )
            raise ContentError(f"found {file.name!r}; expected {expected}, or fantom_v1.json", path=file)
        else:
            yield from _rows(file)


def _wrong(file: Path, line: int | None, field: str, found: object, expected: str) -> ContentError:
    return ContentError(f"found {found!r:.80}; expected {expected}", path=file, line=line, field=field)


def _text(file: Path) -> str:
    return SOURCE.text(file)


def _rows(file: Path) -> Iterator[Asked]:
    named = NAME.search(file.name)
    assert named is not None
    rows = csv.reader(_text(file).splitlines(keepends=True), strict=True)
    try:
        head = next(rows, [])
        if head != COLUMNS:
            raise _wrong(file, 1, "columns", ",".join(head), ",".join(COLUMNS))
        for row in rows:
            line = rows.line_num
            if len(row) != len(COLUMNS):
                raise _wrong(file, line, "row", f"{len(row)} cells", f"the {len(COLUMNS)} columns {', '.join(COLUMNS)}")
            told, question, options, right = row
            right, wrong = _options(file, line, options, right)
            if not lines(told) or not question.strip():
                raise _wrong(file, line, "question" if lines(told) else "context", "", "text")
            accessible = named[1] == "accessible"
            order = 1 if named[3] == "first" else 2
            question = " ".join(question.split())
            yield Asked(file, line, "row", lines(told), question, right, wrong, named[2], accessible, order)
    except csv.Error as error:
        raise _wrong(file, rows.line_num, "row", str(error), "comma-separated values") from None


def _options(file: Path, line: int, text: str, right: str) -> tuple[str, str]:
    """The right and the wrong option of a row, with single spaces."""
    try:
        found = ast.literal_eval(text) if len(text) <= LONGEST_OPTIONS else None
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        found = None
    if not isinstance(found, list) or len(found) != 2 or not all(isinstance(one, str) and one.strip() for one in found):
        raise _wrong(file, line, "answer_choices", text, "a list of two texts")
    first, second = (" ".join(one.split()) for one in found)
    right = " ".join(right.split())
    if right not in (first, second):
        raise _wrong(file, line, "gt_answer", right, "one of answer_choices")
    return right, second if right == first else first


def _official(file: Path) -> Iterator[Asked]:
    try:
        sets = orjson.loads(_text(file))
    except orjson.JSONDecodeError as error:
        raise ContentError(f"is no JSON ({error.msg}); expected fantom_v1.json", path=file, line=error.lineno) from None
    sets = _rowwise(sets)
    if not isinstance(sets, list):
        raise ContentError(f"found {str(sets)!r:.60}; expected a list of sets, as in fantom_v1.json", path=file)
    for number, one in enumerate(sets):
        if not isinstance(one, dict) or not isinstance(one.get("beliefQAs"), list):
            raise _wrong(file, None, f"{number}.beliefQAs", one, "a list of questions, as in fantom_v1.json")
        for place, asked in enumerate(one["beliefQAs"]):
            yield from _asked(file, f"{number}.beliefQAs.{place}", one, asked)


def _rowwise(found: Any) -> Any:
    """The sets of a file that has them column by column, `{"set_id": {"0": ...}, ...}`, which the authors' program
    (pandas.read_json) reads as well as a list of them; anything else as it is."""
    if not isinstance(found, dict) or not isinstance(found.get("beliefQAs"), dict):
        return found
    columns = {name: column for name, column in found.items() if isinstance(column, dict)}
    return [{name: column.get(row) for name, column in columns.items()} for row in columns["beliefQAs"]]


def _asked(file: Path, place: str, one: Mapping[str, Any], asked: Any) -> Iterator[Asked]:
    """A belief question of the official file, with the passage and with the whole conversation."""

    def text(of: Any, name: str, where: str) -> str:
        found = of.get(name) if isinstance(of, dict) else None
        if not isinstance(found, str) or not found.strip():
            raise _wrong(file, None, f"{where}.{name}", found, "text, as in fantom_v1.json")
        return found

    names = ("question", "correct_answer", "wrong_answer", "question_type", "tom_type")
    question, right, wrong, kind, order = (" ".join(text(asked, name, place).split()) for name in names)
    piece = text(one, "set_id", place.split(".")[0])
    conversation, part = piece.split("-")[0], "-".join(piece.split("-")[:2])
    if not kind.endswith((":accessible", ":inaccessible")):
        raise _wrong(file, None, f"{place}.question_type", kind, "tom:belief:accessible or tom:belief:inaccessible")
    if order.split(":")[0] not in ("first-order", "second-order"):
        raise _wrong(file, None, f"{place}.tom_type", order, "first-order, or second-order with what is behind a colon")
    numbers = (conversation, part, piece, order)
    for context in ("short", "full"):
        told = lines(text(one, f"{context}_context", place.split(".")[0]))
        accessible, level = kind.endswith(":accessible"), 2 if order.startswith("second") else 1
        yield Asked(file, None, place, told, question, right, wrong, context, accessible, level, *numbers)
