"""A run of what people answered: a folder that score, analyze, report and compare read like any model's.

The run's model is "human", its strategy the way of reading (`whole` or `sentences`). Each participant is one sample
of every question that he or she was asked, numbered as in the plan, and the field `person` holds the code. A question
that somebody left out is a row of status "unanswered", which is counted and is no wrong answer. Who fails the
attention checks is left out as declared when the forms were made; the answers are kept in ``excluded.jsonl``, and
everybody stands in ``people.csv``.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tomserve.content import digest, files
from tomserve.content.text import escape_formula
from tomserve.engine.records import utc_now
from tomserve.errors import ConfigError
from tomserve.humans.answers import Answer, FilledForm, ReturnedForms
from tomserve.humans.plan import Form, Plan
from tomserve.items import Item, write_items
from tomserve.items.files import write_chunks
from tomserve.runs.manifest import Manifest
from tomserve.runs.runfolder import RunFolder
from tomserve.status import OK, UNANSWERED

MODEL = "human"
PEOPLE, EXCLUDED = "people.csv", "excluded.jsonl"
"""Files of the run folder besides those of every run: who took part, and the rows of those who were left out."""


@dataclass(frozen=True)
class Person:
    """A participant whose form came back. number: the place of the form in the plan, from 1. wrong: how many attention
    checks were wrong. answered, left_out: how many questions, without the checks. reason: why the answers do not count;
    empty where they do."""

    number: int
    form: Form
    filled: FilledForm
    wrong: int
    answered: int
    left_out: int
    reason: str


@dataclass(frozen=True)
class FormOutcome:
    """What became of the forms: everybody whose form came back, how many forms did not, and the files that only
    repeated others."""

    people: list[Person]
    missing: int
    repeated: list[Path]

    @property
    def counted(self) -> list[Person]:
        """Those whose answers count."""
        return [one for one in self.people if not one.reason]

    @property
    def excluded(self) -> list[Person]:
        """Those whose answers do not."""
        return [one for one in self.people if one.reason]


def judge_forms(reading: ReturnedForms, plan: Plan) -> FormOutcome:
    """Apply the attention checks as the plan declares them."""
    people = [
        _judge_form(number, form, reading.filled[form.code], plan)
        for number, form in enumerate(plan.forms, 1)
        if form.code in reading.filled
    ]
    return FormOutcome(people, len(plan.forms) - len(people), reading.repeated)


def _judge_form(number: int, form: Form, filled: FilledForm, plan: Plan) -> Person:
    given = filled.choices()
    last = max(given, default=0)
    wrong = answered = left_out = 0
    for place, question in enumerate(form.questions, 1):
        check = plan.check(question.check)
        if check is None:
            answered += place in given
            left_out += place not in given
        elif place in given or place < last:  # a check that nobody came to is not failed
            wrong += given.get(place) != check.answer
    allowed = plan.attention.wrong_at_most
    reason = ""
    if not answered:
        reason = "no question answered"
    elif wrong > allowed:
        reason = f"{wrong} of {plan.attention.asked} attention checks wrong, {allowed} allowed"
    return Person(number, form, filled, wrong, answered, left_out, reason)


def write_run(folder: Path, plan: Plan, items: dict[str, Item], outcome: FormOutcome, model: str = MODEL) -> None:
    """Write the run.

    folder: the run's folder, in which nothing was asked yet. plan, items: of the questionnaire. outcome: whose answers
    count. model: what the run calls these people. Raises ConfigError where the folder holds a run already or nobody's
    answers count, MachineError and JournalError where it cannot be written.
    """
    if not outcome.people:
        raise ConfigError("the files hold nobody's answers; nothing was written")
    if not outcome.counted:
        raise ConfigError(
            f"none of the {len(outcome.people)} forms that came back counts"
            f" (first: {outcome.excluded[0].form.code}, {outcome.excluded[0].reason}); nothing was written"
        )
    rows = list(_rows(outcome.counted, plan, model))
    made = b"".join(map(_line, rows))
    _refuse_run(folder, made)
    with RunFolder(folder) as run:
        _refuse_run(folder, made)  # another process may have been quicker
        asked = {row["item"] for row in rows}
        write_items(folder / "items.jsonl", [items[name] for name in sorted(asked)])
        write_chunks(folder / "responses.jsonl", [made])
        write_chunks(folder / EXCLUDED, map(_line, _rows(outcome.excluded, plan, model)))
        write_chunks(folder / PEOPLE, [_table(outcome.people, plan).encode()])
        run.write_manifest(_manifest(folder, plan, outcome, model))


def _refuse_run(folder: Path, rows: bytes) -> None:
    """Raise ConfigError where a folder holds a run, or other rows than those that a command which ended has left."""
    journal = folder / "responses.jsonl"
    known = any((folder / name).exists() for name in ("manifest.json", "responses.parquet"))
    if known or (journal.exists() and files.read_bytes(journal) != rows):
        raise ConfigError(f"{folder}: holds a run already; read all answers into a new run by --run NEW")


def _rows(people: Iterable[Person], plan: Plan, model: str) -> Iterator[dict[str, Any]]:
    for person in people:
        for number, question in enumerate(person.form.questions, 1):
            if question.item is not None:
                yield _row(person, number, question.item, plan, model)


def _row(person: Person, number: int, item: str, plan: Plan, model: str) -> dict[str, Any]:
    answer = person.filled.answers.get(number, Answer(answer=None))
    status = OK if answer.answer is not None else UNANSWERED
    return {
        "schema": 1,
        "item": item,
        "strategy": plan.mode,
        "turn": 0,
        "sample": person.number,
        "key": digest(plan.questionnaire.encode(), person.form.code.encode(), str(number).encode())[7:39],
        "status": status,
        "text": orjson.dumps({"answer": answer.answer}).decode() if status == OK else None,
        "reasoning": None,
        "finish_reason": None,
        "usage": None,
        "error": None,
        "timings": {} if answer.seconds is None else {"total_s": answer.seconds},
        "attempts": 1,
        "endpoint": person.filled.medium,
        "served_model": model,
        "reused": False,
        "person": person.form.code,
        "place": number,
        **({"reading_ms": answer.reading} if answer.reading else {}),
        **({"resumed": True} if answer.resumed else {}),
    }


def _line(row: dict[str, Any]) -> bytes:
    return orjson.dumps(row) + b"\n"


def _table(people: Sequence[Person], plan: Plan) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["person", "counted", "reason", "medium", "answered", "left_out", "checks_wrong", *plan.about])
    for one in people:
        details = [escape_formula(one.filled.about.get(name, "")) for name in plan.about]
        counted = "no" if one.reason else "yes"
        rows.writerow(
            [one.form.code, counted, one.reason, one.filled.medium, one.answered, one.left_out, one.wrong, *details]
        )
    return text.getvalue()


def _manifest(folder: Path, plan: Plan, outcome: FormOutcome, model: str) -> Manifest:
    fields = {
        "benchmark": plan.benchmark,
        "benchmark_digest": plan.benchmark_digest,
        "benchmark_items": plan.benchmark_items,
        "model": model,
        "revision": None,
        "sampling": {},
    }
    made = Manifest.new(folder, (), **fields).to_dict()
    made["strategies"] = {plan.mode: {"digest": plan.words, "max_tokens": None, "chain": False}}
    made["people"] = {
        "questionnaire": plan.questionnaire,
        "forms": len(plan.forms),
        "counted": len(outcome.counted),
        "excluded": {one.form.code: one.reason for one in outcome.excluded},
        "not_returned": outcome.missing,
        "mode": plan.mode,
        "together": plan.together,
        "seed": plan.seed,
        "attention": {"asked": plan.attention.asked, "wrong_at_most": plan.attention.wrong_at_most},
        "read": utc_now(),
    }
    made["limit"] = plan.limit
    made["complete"] = True
    return Manifest.model_validate(made)
