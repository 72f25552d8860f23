"""Make a questionnaire: draw who is asked what, and write the plan and the forms into a folder."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from tomserve import benchmarks
from tomserve.benchmarks import ALL, Benchmark
from tomserve.content import digest
from tomserve.errors import ConfigError
from tomserve.humans.design import assign, spread_over, units
from tomserve.humans.forms import online, printed
from tomserve.humans.plan import PLAN, Asked, Attention, Form, Mode, Plan, balance, codes, identity
from tomserve.humans.words import Words, consent, placeholders, words
from tomserve.items import Item, items_digest, where
from tomserve.items.draw import limit_items
from tomserve.items.files import write_chunks

FORMS, PRINTED, CONSENT, TYPED = "forms", "printed", "consent.txt", "typed.csv"
"""What goes into the folder besides the plan: the forms for a browser, those for paper, the consent text that they
show, and a table to type answers from paper into."""


@dataclass(frozen=True)
class Wishes:
    """What a questionnaire is to be like.

    people: how many participants. stories: how many stories each of them reads. mode: whether stories appear as a whole
    or by sentences. together: whether all questions about a story are asked, or one of them. seed: of all chance.
    attention: how many attention checks a form has. wrong_at_most: how many of them may be wrong before a person is
    left out. about: whether the form asks for optional details. consent: the file of the consent text, None for the
    draft. limit: draw at most so many items first. where: conditions ``factor=value`` that the items have to meet.
    """

    people: int = 40
    stories: int = 24
    mode: Mode = "whole"
    together: bool = False
    seed: int = 1
    attention: int = 2
    wrong_at_most: int = 0
    about: bool = True
    consent: Path | None = None
    limit: int | None = None
    where: tuple[str, ...] = ()


@dataclass(frozen=True)
class Made:
    """What was made: the plan, how even it is in sentences, and the consent text's placeholders that are not filled
    in."""

    plan: Plan
    balance: list[str]
    unfilled: list[str]


def make(benchmark: Benchmark, path: Path | None, folder: Path, wishes: Wishes, gold: str | None = None) -> Made:
    """Make a questionnaire.

    benchmark: whose items are asked. path, gold: the user's `--path` and `--gold`. folder: where to write it, which
    must be new or empty. wishes: what it is to be like. Raises ConfigError where that cannot be, ContentError for a
    mistake in a file.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        what = "holds a questionnaire already" if (folder / PLAN).exists() else "is there already"
        raise ConfigError(f"{folder}: {what}; give a new folder by --out, so that nothing is overwritten")
    said, agreed = words(), consent(wishes.consent)
    if wishes.attention > len(said.attention):
        raise ConfigError(
            f"--attention {wishes.attention}: there are {len(said.attention)} checks; write more into "
            "dataset/questionnaire/words.yaml, or ask for fewer"
        )
    if wishes.wrong_at_most > wishes.attention:
        raise ConfigError(f"--wrong-at-most {wishes.wrong_at_most}: a form has {wishes.attention} attention checks")
    every = list(benchmark.items(path, gold, ALL))
    if lone := next((item for item in every if len(item.choices) < 2), None):
        raise ConfigError(f"item {lone.id!r} has no choices; a questionnaire asks people to choose among labels")
    meeting = list(where(every, benchmark.conditions(wishes.where)))
    draw = benchmarks.draw_of(benchmark, {item.benchmark for item in every})
    chosen = limit_items(meeting, wishes.limit, draw)
    forms, factors = _forms(chosen, said, wishes)
    asked = {question.item for form in forms for question in form.questions}
    items = [item for item in chosen if item.id in asked]
    about = [field.name for field in said.about.fields] if wishes.about else []
    wording = digest(orjson.dumps(said.model_dump(by_alias=True)), agreed.encode())
    content = [orjson.dumps(form.model_dump()) for form in forms]
    plan = Plan(
        schema=1,
        questionnaire=identity(wording.encode(), wishes.mode.encode(), items_digest(items).encode(), *content),
        benchmark=benchmark.name,
        benchmark_digest=items_digest(every),
        benchmark_items=len(every),
        limit=wishes.limit,
        where=list(wishes.where),
        mode=wishes.mode,
        together=wishes.together,
        seed=wishes.seed,
        people=wishes.people,
        stories=wishes.stories,
        attention=Attention(asked=wishes.attention, wrong_at_most=wishes.wrong_at_most, checks=said.attention),
        about=about,
        words=wording,
        forms=forms,
    )
    _write(folder, plan, items, said, agreed)
    even = balance(plan, {item.id: item for item in items}, factors, len(chosen))
    return Made(plan, even, placeholders(agreed))


def _forms(items: Sequence[Item], said: Words, wishes: Wishes) -> tuple[list[Form], list[str]]:
    """The forms, and the factors that were spread over each of them."""
    listed = units(items, wishes.together)
    drawn = assign(listed, wishes.people, wishes.stories, wishes.seed)
    rng = random.Random(f"questionnaire {wishes.seed}")
    found = []
    for code, places in zip(codes(wishes.people, rng), drawn, strict=True):
        turned = [place % 2 for place in range(len(places))]  # half of the stories with their questions turned round
        rng.shuffle(turned)
        pages: list[list[tuple[str | None, str | None, list[str]]]] = []
        for place, turn in zip(places, turned, strict=True):
            group = listed[place].items
            pages.append([(item.id, None, list(item.choices)) for item in (group[::-1] if turn else group)])
        checks = rng.sample(said.attention, wishes.attention)
        for number, check in enumerate(checks, 1):  # evenly spread, and never first
            middle = number * len(places) // (wishes.attention + 1)
            at = max(1, middle + rng.choice((-1, 0, 1)) + number - 1)
            pages.insert(at, [(None, check.name, list(check.choices))])
        questions = []
        for page, listed_questions in enumerate(pages, 1):
            for item, name, choices in listed_questions:
                rng.shuffle(choices)
                questions.append(Asked(page=page, item=item, check=name, choices=choices))
        found.append(Form(code=code, questions=questions))
    return found, spread_over(listed)


def _write(folder: Path, plan: Plan, items: Sequence[Item], said: Words, agreed: str) -> None:
    """Write everything into the folder; the plan last, so that a folder with a plan is whole."""
    known = {item.id: item for item in items}
    rows = ["participant,question,answer\n"]
    for form in plan.forms:
        write_chunks(folder / FORMS / f"{form.code}.html", [online(plan, form, known, said, agreed).encode()])
        write_chunks(folder / PRINTED / f"{form.code}.html", [printed(plan, form, known, said, agreed).encode()])
        rows += [f"{form.code},{number},\n" for number in range(1, len(form.questions) + 1)]
    write_chunks(folder / TYPED, ["".join(rows).encode()])
    write_chunks(folder / CONSENT, [agreed.encode() + b"\n"])
    plan.write(folder, items)
