"""Ullman's alterations of two false-belief stories (2023, arXiv 2302.08399), with "she has no guess" as a third choice.

    tomserve eval --benchmark ullman --path ullman.csv

Nine rows of five fields with ";" between them: story, question, right answer, wrong answer, and that the person has no
guess. The file holds one story of unexpected contents and one of an unexpected transfer, each altered four times, so
that a reader who knows the originals by heart is wrong: nine questions about two stories, which tell much of one answer
and little of an accuracy. The right answer always stands third in the file; here the choices stand in an order that is
drawn for each item by its id.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from tomserve.benchmarks.base import Benchmark, Findings, Say, outcome
from tomserve.benchmarks.published.base import Source, audit_items, read_digests, row_digest
from tomserve.errors import ContentError
from tomserve.items import Item
from tomserve.items.draw import seeded_order
from tomserve.scoring.baselines import Baseline

DESIGN = (
    ("original", "unexpected_contents", "false_belief"),
    ("transparent_bag", "unexpected_contents", "true_belief"),
    ("cannot_read", "unexpected_contents", "no_belief"),
    ("trusted_testimony", "unexpected_contents", "true_belief"),
    ("filled_it_herself", "unexpected_contents", "true_belief"),
    ("transparent_box", "unexpected_transfer", "true_belief"),
    ("on_top", "unexpected_transfer", "true_belief"),
    ("told_by_phone", "unexpected_transfer", "true_belief"),
    ("asked_about_the_first", "unexpected_transfer", "false_belief"),
)
"""What each of the known rows is: the alteration, which story it is made of, and what the person asked about believes.
The stories themselves are told apart from others by digests, in the same order."""

FIELDS = ("story", "question", "right answer", "wrong answer", "no guess")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[.!?]['’])\s+")
_CONTROL = re.compile(r"[\x00-\x1f]")
LONGEST = 200
NO_GUESS = "has no guess"
"""How the choice ends that says that the person has none, such as "she has no guess"; it may be the right one."""

SOURCE = Source(
    "ullman",
    "cicl-stanford/procedural-evals-tom",
    "data/expert_data/ullman.csv",
    "MIT",
    "fe647d6",
    read_digests("ullman"),
)


def rows(path: Path | None) -> list[list[str]]:
    """The rows of the user's file, checked. Raises ConfigError where there is none, ContentError by line and field."""
    text, path = SOURCE.text(path), path or Path(SOURCE.file)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=";", strict=True)
    found: list[list[str]] = []

    def refuse(reason: str, field: str = "") -> NoReturn:
        told = f"{reason}; take the official file, or mend this row"
        raise ContentError(told, path=path, line=reader.line_num, field=field)

    try:
        for row in filter(None, reader):
            if len(row) != len(FIELDS):
                refuse(f"has {len(row)} fields; expected {', '.join(FIELDS)} with ';' between them")
            for name, cell in zip(FIELDS, row, strict=True):
                if not cell.strip() or _CONTROL.search(cell):
                    refuse(f"is {cell!r:.60}; expected text on one line", name)
                if name not in FIELDS[:2] and len(cell.strip()) > LONGEST:
                    refuse(f"has {len(cell):,} characters; expected at most {LONGEST}", name)
            if len({cell.strip().casefold() for cell in row[2:]}) < len(row[2:]):
                refuse(f"has two choices that are the same: {', '.join(row[2:])!r:.90}")
            found.append(row)
    except csv.Error as error:
        refuse(f"is not CSV with ';' between fields ({error})")
    if not found:
        raise ContentError(f"holds no rows; expected {', '.join(FIELDS)} with ';' between them", path=path)
    return found


def row_bytes(row: list[str]) -> bytes:
    """A row as its digest is taken of it: its fields with a line each, however the file quotes them."""
    return "\n".join(row).encode()


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """The items of the user's file, one a row. A row that is none of the known ones has no alteration (null).

    gold: not used, as there is one set of right answers.
    """
    del gold
    for number, row in enumerate(rows(path), 1):
        story, question, right, *_ = row
        name = f"ullman/{number}"
        known = DESIGN[SOURCE.digests.index(found)] if (found := row_digest(row_bytes(row))) in SOURCE.digests else None
        alteration, task, condition = known or (None, "other", None)
        yield Item(
            id=name,
            benchmark="ullman",
            story=[part for part in _SENTENCE.split(story.strip()) if part],
            question=question,
            choices=seeded_order((one.strip() for one in row[2:]), name, separator=" "),
            answer=right.strip(),
            factors={
                "task": task,
                "dimension": "belief",
                "alteration": alteration,
                "condition": condition,
                "no_guess": next((one.strip() for one in row[2:] if one.strip().endswith(NO_GUESS)), None),
            },
            cluster=f"ullman/{task if known else number}",
        )


def validate(path: Path | None, say: Say) -> Findings:
    """Check that the file is the known one."""
    del say
    found = rows(path)
    differs = SOURCE.differences(map(row_bytes, found))
    problems = [differs] if differs else []
    return Findings.of_problems(problems, f"{len(found)} rows: {outcome(problems)}", under_heading=True)


def audit(path: Path | None, say: Say) -> Findings:
    """Count what the file holds and how far readers get who follow nobody's mind."""
    del say
    differs = SOURCE.differences(map(row_bytes, rows(path)))
    place = (
        "order: the right answer is the third field of every row; asked in the order of the file, it is always first."
    )
    return audit_items(list(load(path)), ("task",), RULES, (*([differs] if differs else []), place))


def _no_guess(item: Item) -> str | None:
    named = item.factors.get("no_guess")
    return named if isinstance(named, str) and named in item.choices else None


RULES = (Baseline("always no guess", _no_guess, "constant"),)

BENCHMARK = Benchmark(
    "ullman",
    load,
    papers=("Large Language Models Fail on Trivial Alterations to Theory-of-Mind Tasks (arXiv:2302.08399)",),
    terms=SOURCE.words,
    strategies=("vanilla", "cot"),
    rules=RULES,
    validate=validate,
    audit=audit,
)
"""The value by which tomserve knows the benchmark."""
