"""The plan of a questionnaire, ``plan.json``: which form holds what. It stays with the researcher.

A form shows a participant's code and numbered questions and names no item, so that a filled-in form tells nothing to
whoever lacks the plan. The folder also keeps the items themselves (``items.jsonl``) and the same plan as a table
(``plan.csv``).
"""

from __future__ import annotations

import csv
import io
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import orjson
from pydantic import BaseModel, Field, StringConstraints, model_validator

from tomserve.content import digest, files
from tomserve.content.text import escape_formula
from tomserve.content.validation import validate
from tomserve.errors import ConfigError, ContentError
from tomserve.humans.texts import Check
from tomserve.items import Item, read_items, write_items
from tomserve.items.files import write_chunks
from tomserve.items.item import factor_text

PLAN, TABLE, ITEMS = "plan.json", "plan.csv", "items.jsonl"
"""The files of a questionnaire's folder that the researcher keeps: the plan, the same as a table, and the items."""

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""What the choices are called on paper."""

ALPHABET = "CDFGHJKLMNPRTVWXY34679"
"""Characters of participants' codes: those that are not mistaken for one another when they are read or written. Without
vowels they make no words, no months, and no powers of ten, all of which a spreadsheet would change (MAR4, 4E97)."""

LISTED = 12
"""How many values of a factor the balance lists."""

CODE = r"^[A-Z0-9]{4,8}$"

Mode = Literal["whole", "sentences"]
Code = Annotated[str, StringConstraints(pattern=CODE)]


class _Part(BaseModel, extra="forbid", strict=True):
    """A part of the plan."""


class FormQuestion(_Part):
    """A question of a form. page: the number of its page, from 1; questions about one story share one. item: the id of
    the item, or check: the name of the attention check. choices: in the order in which the form shows them."""

    page: Annotated[int, Field(ge=1)]
    item: str | None = None
    check: str | None = None
    choices: Annotated[list[str], Field(min_length=2, max_length=len(LETTERS))]

    @model_validator(mode="after")
    def _one(self) -> FormQuestion:
        if (self.item is None) == (self.check is None):
            raise ValueError("expected either `item` or `check`")
        return self


class Form(_Part):
    """The form of one participant: the code, and the questions in the order in which they are asked."""

    code: Code
    questions: Annotated[list[FormQuestion], Field(min_length=1)]

    def pages(self) -> Iterator[list[tuple[int, FormQuestion]]]:
        """The questions of each page with their numbers, which count from 1."""
        for page in dict.fromkeys(question.page for question in self.questions):
            yield [(number, question) for number, question in enumerate(self.questions, 1) if question.page == page]


class Attention(_Part):
    """How the attention checks are used: how many each form has, how many a person may get wrong, and the checks."""

    asked: Annotated[int, Field(ge=0)]
    wrong_at_most: Annotated[int, Field(ge=0)]
    checks: list[Check]


class Plan(_Part):
    """The plan. questionnaire: a digest that ties forms and plan together. mode: whether stories are read as a whole or
    by sentences. together: whether all questions about a story are asked. about: the optional details that the form
    asks for. words: a digest of all that the forms say, consent text included."""

    schema_: Literal[1] = Field(alias="schema")
    questionnaire: str
    benchmark: str
    benchmark_digest: str
    benchmark_items: int
    limit: int | None
    where: list[str]
    mode: Mode
    together: bool
    seed: int
    people: int
    stories: int
    attention: Attention
    about: list[str]
    words: str
    forms: list[Form]

    def form(self, code: str) -> Form | None:
        """The form with that code, or None."""
        return next((form for form in self.forms if form.code == code), None)

    def check(self, name: str | None) -> Check | None:
        """The attention check of that name, or None."""
        return next((check for check in self.attention.checks if check.name == name), None)

    def write(self, folder: Path, items: Sequence[Item]) -> None:
        """Write the plan, its table and the items into a folder. Raises JournalError where it cannot be written."""
        known = {item.id: item for item in items}
        data = self.model_dump(by_alias=True, exclude_none=True)
        data["limit"] = self.limit
        write_items(folder / ITEMS, items)
        write_chunks(folder / TABLE, [self.table(known).encode()])
        write_chunks(folder / PLAN, [orjson.dumps(data, option=orjson.OPT_INDENT_2) + b"\n"])

    def table(self, known: dict[str, Item]) -> str:
        """The plan as CSV with a row for each question, for people who read it or make tables of it."""
        names = list(dict.fromkeys(name for item in known.values() for name in item.factors))
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        shown = map(escape_formula, names)
        rows.writerow(["participant", "question", "page", "item", "check", "choices", "answer", *shown])
        for form in self.forms:
            for number, question in enumerate(form.questions, 1):
                item = known[question.item] if question.item is not None else None
                check = self.check(question.check)
                answer = item.answer if item is not None else check.answer if check is not None else ""
                values = [item.factors.get(name) if item is not None else None for name in names]
                choices = " | ".join(question.choices)
                told = [form.code, number, question.page, question.item, question.check, choices, answer, *values]
                rows.writerow([escape_formula(one) if isinstance(one, str) else one for one in told])
        return text.getvalue()


def read_plan(folder: Path) -> tuple[Plan, dict[str, Item]]:
    """The plan of a folder, and its items by id. Raises ConfigError where the folder holds no plan, ContentError where
    a file of it is broken or the two do not belong together."""
    path = folder / PLAN
    try:
        data = files.read_json(path, "restore the file")
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: is missing; name the folder that `tomserve dataset questionnaire --out FOLDER` wrote"
        ) from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    if not isinstance(data, dict) or data.get("schema") != 1:
        raise ContentError("schema is not 1; it was written by another version of tomserve", path=path)
    plan = validate(data, Plan, path=path)
    items = {item.id: item for item in read_items(folder / ITEMS)}
    for place, form in enumerate(plan.forms):
        for question in form.questions:
            item = items.get(question.item or "")
            known = question.check is not None and plan.check(question.check) is not None
            if not known and (item is None or sorted(item.choices) != sorted(question.choices)):
                reason = f"{question.item or question.check!r} is not in {ITEMS} with these choices; restore both files"
                raise ContentError(reason, path=path, field=f"forms.{place}")
    return plan, items


def draw_codes(count: int, rng: random.Random) -> list[str]:
    """That many codes of four characters, of which any two differ in two places or more, so that one slip of the pen
    makes no other participant's code. Raises ConfigError for more than 2000, which are not to be had."""
    if count > 2000:
        raise ConfigError(f"--people {count}: expected at most 2000 forms; make several questionnaires")
    found: list[str] = []
    taken: set[tuple[int, str]] = set()
    while len(found) < count:
        code = "".join(rng.choices(ALPHABET, k=4))
        if code.isdigit():  # it would be mistaken for the number of a question
            continue
        near = {(place, code[:place] + code[place + 1 :]) for place in range(4)}
        if not near & taken:
            taken |= near
            found.append(code)
    return found


def describe_balance(plan: Plan, items: dict[str, Item], factors: Sequence[str], total: int) -> list[str]:
    """How even the plan is, in a sentence for how often each question is asked and one for each factor. items: those
    that are asked, by id. factors: what is spread over each form. total: how many items there were to choose from."""
    forms = [[q.item for q in form.questions if q.item is not None] for form in plan.forms]
    used = Counter(name for one in forms for name in one)
    times = _range(list(used.values()))
    of = "" if len(used) == total else f" of {total:,}"
    lines = [f"{len(used):,}{of} questions are asked, each {'once' if times == '1' else f'{times} times'}"]
    unlisted = []
    for name in factors:
        given = ([items[one].factors.get(name) for one in form] for form in forms)
        counts = [Counter("(no value)" if one is None else factor_text(one) for one in form) for form in given]
        values = sorted({value for count in counts for value in count})
        if len(values) > LISTED:
            unlisted.append(name)
            continue
        spread = ", ".join(f"{value} {_range([count[value] for count in counts])}" for value in values)
        lines.append(f"{name}, in each form: {spread}")
    if unlisted:
        lines.append(f"also spread, with too many values to list here: {', '.join(unlisted)} ({TABLE} has all)")
    return lines


def _range(counts: Sequence[int]) -> str:
    low, high = min(counts, default=0), max(counts, default=0)
    return str(low) if low == high else f"{low} to {high}"


def digest_plan(*parts: bytes) -> str:
    """A short digest that ties the forms of a questionnaire to its plan."""
    return digest(*parts).removeprefix("sha256:")[:16]
