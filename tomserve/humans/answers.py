"""Reads what people filled in: JSON files that the browser's form saved, and CSV files typed in from paper.

Each file comes from outside and is checked field by field against the plan; whatever does not fit is refused by one
line with file, line and field, so that nobody's answers are silently taken for somebody else's.
"""

import contextlib
import csv
import io
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from pydantic import AfterValidator, BaseModel, Field, StringConstraints, field_validator

from tomserve.content import files, validation
from tomserve.content.validation import show_value
from tomserve.errors import ConfigError, ContentError, nearest, one_of
from tomserve.humans.plan import LETTERS, Code, Form, FormQuestion, Plan
from tomserve.items import nfc

COLUMNS = ["participant", "question", "answer"]
LARGEST = 2_000_000
"""How many bytes a file of answers may have; a form's file has some thousand."""

LONGEST_WAIT = 30 * 24 * 3600.0
"""How many seconds an answer can have taken; a larger number is a mistake."""

Seconds = Annotated[float, Field(ge=0, le=LONGEST_WAIT, allow_inf_nan=False)]
LONGEST_DETAIL = 200
"""How many characters an optional detail may have; the form's field takes no more."""

CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that nobody types into a form, such as line ends; shown in a terminal they could do harm."""


def _plain(text: str) -> str:
    """The text. Raises ValueError where it is longer than a form's field takes, or holds control characters."""
    if len(text) > LONGEST_DETAIL or CONTROLS.search(text):
        raise ValueError(f"expected at most {LONGEST_DETAIL} characters in one line; found {show_value(text)}")
    return text


Detail = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1), AfterValidator(_plain)]


class Answer(BaseModel, extra="forbid", strict=True):
    """One answer. answer: the choice, None where the question was left out. seconds: how long the question stood there.
    reading: how long each sentence was the last one shown, in ms. resumed: whether the page had been closed meanwhile,
    so that the times are those since it was opened again."""

    answer: str | None
    seconds: Seconds | None = None
    reading: list[Annotated[int, Field(ge=0, le=int(LONGEST_WAIT * 1000))]] | None = None
    resumed: bool = False


class _Numbered(Answer):
    question: Annotated[int, Field(ge=1)]


class _File(BaseModel, extra="forbid", strict=True):
    schema_: Literal[1] = Field(alias="schema")
    questionnaire: str
    code: Code
    agreed: Annotated[bool, Field(description="true, which a form says once a person has agreed to take part")]
    finished: bool
    about: dict[str, Detail]
    answers: list[_Numbered]

    @field_validator("agreed")
    @classmethod
    def _with_consent(cls, agreed: bool) -> bool:
        if not agreed:
            raise ValueError(
                "is false: this person has not agreed to take part; leave the file out, and do not read it"
            )
        return agreed


@dataclass
class FilledForm:
    """A filled-in form: whose it is, the file it came in, how (`form` or `paper`), the answers by number of question,
    and the optional details."""

    code: str
    path: Path
    medium: Literal["form", "paper"]
    answers: dict[int, Answer] = field(default_factory=dict)
    about: dict[str, str] = field(default_factory=dict)

    def choices(self) -> dict[int, str]:
        """The choices by number of question, without what was left out."""
        return {number: one.answer for number, one in sorted(self.answers.items()) if one.answer is not None}


@dataclass(frozen=True)
class ReturnedForms:
    """All forms that came back, by code, and the files that only repeat what another one holds."""

    filled: dict[str, FilledForm]
    repeated: list[Path]


def read_answers(places: Iterable[Path], plan: Plan) -> ReturnedForms:
    """Read the answers of a questionnaire.

    places: JSON and CSV files, and folders of them. plan: of the questionnaire. The same answers in two files count
    once. Raises ConfigError where there is no file, ContentError for the first thing in one that does not fit: another
    questionnaire, an unknown participant, question or choice, or two different sets of answers under one code.
    """
    found: dict[str, FilledForm] = {}
    repeated: list[Path] = []
    for path in _list_files(places):
        for one in _read_json(path, plan) if path.suffix.lower() == ".json" else _read_csv(path, plan):
            other = found.setdefault(one.code, one)
            if other is one:
                continue
            if (other.choices(), other.about) != (one.choices(), one.about):
                raise ContentError(
                    f"{one.code} has answers in {other.path} already, and they differ; find out which file is right, "
                    "and leave the other one out",
                    path=path,
                    field="code" if one.medium == "form" else COLUMNS[0],
                )
            repeated.append(path)
    return ReturnedForms(found, repeated)


def _list_files(places: Iterable[Path]) -> list[Path]:
    found: dict[Path, None] = {}
    for place in places:
        if place.is_dir():
            inside = sorted(path for path in place.iterdir() if path.suffix.lower() in (".json", ".csv"))
            if not inside:
                raise ConfigError(f"{place}: holds no .json or .csv file with answers")
            found |= dict.fromkeys(inside)
        elif place.suffix.lower() in (".json", ".csv"):
            found[place] = None
        else:
            raise ConfigError(f"{place}: expected a .json file that a form saved, a .csv file, or a folder of them")
    return list(found)


def _read_bytes(path: Path) -> bytes:
    """The file's content. Raises ContentError where it cannot be read or is too large to be answers."""
    with files.refuse_os_errors(path), files.open_for_reading(path) as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ContentError(f"has more than {LARGEST:,} bytes, so it holds no form's answers", path=path)
    return data.removeprefix(b"\xef\xbb\xbf")


def _read_json(path: Path, plan: Plan) -> Iterator[FilledForm]:
    content = _read_bytes(path)
    try:
        data: Any = files.load_json(content)
    except orjson.JSONDecodeError as error:
        reason = f"not JSON ({error.msg}); the file may be cut off: ask for the form's text instead"
        raise ContentError(reason, path=path, line=error.lineno) from None
    _refuse_repeated_keys(content, path)

    def refuse(reason: str, *place: str | int) -> ContentError:
        return ContentError(reason, path=path, line=_key_lines(path).at(place), field=".".join(map(str, place)))

    if isinstance(data, dict) and data.get("questionnaire", plan.questionnaire) != plan.questionnaire:
        raise refuse(
            f"is {data['questionnaire']!r:.60}, but this folder's plan is of {plan.questionnaire!r}; name the folder "
            "that this form came from",
            "questionnaire",
        )
    try:
        file = validation.validate(data, _File, path=path)
    except ContentError:
        validation.validate(data, _File, path=path, lines=_key_lines(path))
        raise
    form = _find_form(plan, file.code, lambda reason: refuse(reason, "code"))
    one = FilledForm(file.code, path, "form", about=dict(file.about))
    for place, answer in enumerate(file.answers):
        question = _find_question(
            form, answer.question, lambda reason, at=place: refuse(reason, "answers", at, "question")
        )
        if answer.question in one.answers:
            raise refuse(f"question {answer.question} is answered twice", "answers", place, "question")
        if answer.answer is not None and answer.answer not in question.choices:
            raise refuse(
                f"is {answer.answer!r:.60}; question {answer.question} has the choices {', '.join(question.choices)}",
                *("answers", place, "answer"),
            )
        one.answers[answer.question] = Answer(**answer.model_dump(exclude={"question"}))
    for name in one.about:
        if name not in plan.about:
            raise refuse(one_of("detail", name, plan.about), "about", name)
    yield one


def _key_lines(path: Path) -> validation.YamlLines:
    """The lines of a JSON file's keys; none where it is no YAML, as JSON nearly always is. Slow: for messages alone."""
    with contextlib.suppress(ContentError):
        return validation.load_yaml(path)[1]
    return validation.YamlLines()


def _refuse_repeated_keys(content: bytes, path: Path) -> None:
    """Raise ContentError for a key that is given twice, of which a parser takes one and says nothing."""

    def pairs(found: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in found]
        if len(set(names)) < len(names):
            validation.load_yaml(path)  # says the same with line and field
            twice = next(name for place, name in enumerate(names) if name in names[:place])
            raise ContentError(f"the key {twice!r:.60} is given twice; use the file as the form saved it", path=path)

    with contextlib.suppress(ValueError, RecursionError):  # what orjson takes and this does not is no form's file
        json.loads(content, object_pairs_hook=pairs)


def _read_csv(path: Path, plan: Plan) -> Iterator[FilledForm]:
    """The forms of a CSV file that was typed in from paper, with commas or semicolons.

    It has a row for each question, such as ``4CWT,1,B``. The answer is the letter on the answer sheet, or the choice in
    full; an empty one was left out. Instead of a number, a question may be the name of an optional detail (``age``).
    """
    try:
        text = _read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise ContentError(f"is not UTF-8 (byte {error.start}); save it as UTF-8", path=path) from None
    first = text.partition("\n")[0]
    rows = csv.reader(io.StringIO(text), delimiter=";" if first.count(";") > first.count(",") else ",")
    found: dict[str, FilledForm] = {}
    try:
        head = [name.strip().lower() for name in next(rows, [])]
        if head != COLUMNS:
            raise ContentError(f"has the columns {head!r:.80}; expected {','.join(COLUMNS)}", path=path, line=1)
        for row in rows:
            if any(cell.strip() for cell in row):
                _add_row(row, rows.line_num, path, plan, found)
    except csv.Error as error:
        raise ContentError(f"broken CSV ({error})", path=path, line=rows.line_num) from None
    yield from (one for one in found.values() if one.answers or one.about)


def _add_row(row: list[str], line: int, path: Path, plan: Plan, found: dict[str, FilledForm]) -> None:
    def refuse(reason: str, column: int) -> ContentError:
        return ContentError(reason, path=path, line=line, field=COLUMNS[column])

    if len(row) != len(COLUMNS):
        raise ContentError(f"has {len(row)} columns, expected {len(COLUMNS)}", path=path, line=line)
    code, question, answer = (nfc(cell.strip()) for cell in row)
    code = code.upper()
    form = _find_form(plan, code, lambda reason: refuse(reason, 0))
    named = question in plan.about
    if not named and not (question.isascii() and question.isdecimal()):
        names = f", or {' or '.join(plan.about)}" if plan.about else ""
        known = f"the number of a question from 1 to {len(form.questions)}{names}"
        raise refuse(f"is {question!r:.60}; expected {known}", 1)
    number = 0 if named else int(question[:9])
    asked = None if named else _find_question(form, number, lambda reason: refuse(reason, 1))
    if not answer:  # the rows of forms that nobody handed in stay empty
        return
    one = found.setdefault(code, FilledForm(code, path, "paper"))
    if asked is None:
        if question in one.about:
            raise refuse(f"{question} of {code} is given twice", 1)
        try:
            one.about[question] = _plain(answer)
        except ValueError as error:
            raise refuse(str(error), 2) from None
        return
    if number in one.answers:
        raise refuse(f"question {number} of {code} is answered twice", 1)
    one.answers[number] = Answer(answer=_resolve_choice(answer, asked, lambda reason: refuse(reason, 2)))


def _resolve_choice(answer: str, question: FormQuestion, refuse: Any) -> str:
    lettered = dict(zip(LETTERS, question.choices, strict=False))
    listed = {f"{letter} ({choice})": choice for letter, choice in lettered.items()}
    if answer in listed:
        return listed[answer]
    meant = {one for one in (answer, lettered.get(answer.upper())) if one in question.choices}
    if len(meant) == 1:
        return meant.pop()
    said = f"{answer!r} is a letter of the answer sheet and another choice" if meant else f"is {answer!r:.60}"
    raise refuse(f"{said}; expected {', '.join(listed)}, or nothing where the question was left out")


def _find_form(plan: Plan, code: str, refuse: Any) -> Form:
    if (form := plan.form(code)) is None:
        known = [form.code for form in plan.forms]
        hint = nearest(code, known)
        raise refuse(f"{code!r:.20} is the code of none of the plan's {len(known)} forms{hint}")
    return form


def _find_question(form: Form, number: int, refuse: Any) -> FormQuestion:
    if not 1 <= number <= len(form.questions):
        raise refuse(f"question {number} is none of form {form.code}; expected 1 to {len(form.questions)}")
    return form.questions[number - 1]
