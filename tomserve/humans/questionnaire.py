"""Makes a questionnaire for people: draws who is asked which stories, and writes the plan and the forms.

A *unit* is what a participant is asked at once: one question, or all questions about one story. Every unit is asked
equally often or once more (as far as the sizes of clusters allow), no participant gets two units of one cluster (two
versions of one task's story), and the values of every factor of the design are spread over each participant as they
are spread over the units. A form is one HTML file: it keeps the answers in the browser's own storage and sends
nothing anywhere, or a page to print; it holds no right answers and no names of items.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
from jinja2 import Environment
from markupsafe import Markup, escape

from tomserve import benchmarks
from tomserve.benchmarks import ALL, Benchmark
from tomserve.content import digest, files, pages
from tomserve.errors import ConfigError
from tomserve.humans.plan import (
    LETTERS,
    PLAN,
    Attention,
    Form,
    FormQuestion,
    Mode,
    Plan,
    describe_balance,
    digest_plan,
    draw_codes,
)
from tomserve.humans.texts import PLACEHOLDER, FormTexts, find_placeholders, load_texts, read_consent, split_paragraphs
from tomserve.items import UNKNOWN, Item, items_digest, where
from tomserve.items.draw import limit_items
from tomserve.items.files import write_chunks

MOST_VALUES = 24
"""A factor with more values is a name (of a person, a label, a version) rather than a condition, and is not spread."""

TRIES = 30
"""How many exchanges between two participants are tried for each place of the forms."""


@dataclass(frozen=True)
class Unit:
    """What is asked at once: the questions (items) about one story. `values`: of the factors in which they agree."""

    items: tuple[Item, ...]
    cluster: str
    values: Mapping[str, str]


def make_units(items: Sequence[Item], together: bool = False) -> list[Unit]:
    """The units of these items, in their order. together: whether all questions about one story of one cluster are one
    unit; otherwise each question is one."""
    groups: dict[object, list[Item]] = defaultdict(list)
    for place, item in enumerate(items):
        groups[(item.cluster, item.story) if together else place].append(item)
    found = []
    for group in groups.values():
        values = {
            name: str(group[0].factors[name])
            for name in group[0].factors
            if len({str(item.factors.get(name)) for item in group}) == 1
        }
        found.append(Unit(tuple(group), group[0].cluster, values))
    return found


def spread_factors(units: Sequence[Unit]) -> list[str]:
    """The factors whose values are spread over each participant: those with 2 to MOST_VALUES values."""
    values: dict[str, set[str]] = defaultdict(set)
    for unit in units:
        for name, value in unit.values.items():
            values[name].add(value)
    return [name for name, found in values.items() if 2 <= len(found) <= MOST_VALUES]


def assign_units(units: Sequence[Unit], people: int, stories: int, seed: int) -> list[list[int]]:
    """The places of the units that each participant gets, in the order in which they are asked.

    people: how many participants. stories: how many units each of them gets. seed: of all chance.

    How often each unit is asked differs by at most one, where the sizes of the clusters allow it. Raises ConfigError
    where there are fewer clusters than stories for one participant, since nobody may see two versions of one story.
    """
    clusters = {name: code for code, name in enumerate(dict.fromkeys(unit.cluster for unit in units))}
    if stories > len(clusters):
        raise ConfigError(
            f"--stories {stories}: there are {len(clusters)} tasks to choose from, and nobody is to see two versions "
            f"of one; ask for at most {len(clusters)} stories, or raise --limit"
        )
    draw = _Draw(units, [clusters[unit.cluster] for unit in units], people, stories, np.random.default_rng(seed))
    draw.fill()
    draw.level()
    draw.improve()
    return [[int(place) for place in draw.rng.permutation(one)] for one in draw.given]


class _Draw:
    """The state of a draw. `given`: the units of each participant. `used`: how often each unit is asked. `counts`: how
    many units with each value of each factor a participant has; `codes`: these values of each unit."""

    def __init__(
        self, units: Sequence[Unit], cluster: Sequence[int], people: int, stories: int, rng: np.random.Generator
    ) -> None:
        self.rng, self.people, self.stories = rng, people, stories
        self.cluster = np.asarray(cluster)
        self.codes, share = _encode_factors(units)
        self.target = stories * share
        self.counts = np.zeros((people, share.size))
        self.used = np.zeros(len(units), dtype=int)
        self.of_cluster = np.zeros(self.cluster.max() + 1)
        self.blocked = np.zeros((people, self.of_cluster.size), dtype=bool)
        self.given: list[list[int]] = [[] for _ in range(people)]

    def cost(self, person: int) -> npt.NDArray[np.float64]:
        """How much worse spread the form of a participant would be with each unit [units]."""
        missing = self.counts[person] - self.target
        return np.asarray(missing[self.codes].sum(axis=1), dtype=np.float64)

    def give(self, person: int, unit: int, times: int = 1) -> None:
        """Give a unit to a participant, or take it back (times=-1)."""
        self.given[person].append(unit) if times > 0 else self.given[person].remove(unit)
        np.add.at(self.counts[person], self.codes[unit], times)
        self.used[unit] += times
        self.of_cluster[self.cluster[unit]] += times
        self.blocked[person, self.cluster[unit]] = times > 0

    def fill(self) -> None:
        """Give everybody one unit after another: of those asked least so far, the one that spreads best."""
        for _ in range(self.stories):
            for person in self.rng.permutation(self.people):
                free = ~self.blocked[person][self.cluster]
                worth = self.cost(person) + self.of_cluster[self.cluster] + self.rng.random(self.used.size) / 2
                least = self.used == self.used[free].min()
                self.give(int(person), int(np.where(free & least, worth, np.inf).argmin()))

    def level(self) -> None:
        """Exchange units that are asked too often for some that are asked too seldom."""
        while self.used.max() - self.used.min() > 1:
            many, few = (np.flatnonzero(self.used == end) for end in (self.used.max(), self.used.min()))
            found = next(
                (
                    (person, int(old), int(new))
                    for old in many
                    for person in range(self.people)
                    if int(old) in self.given[person]
                    for new in few
                    if not self.blocked[person, self.cluster[new]] or self.cluster[new] == self.cluster[old]
                ),
                None,
            )
            if found is None:
                return
            person, old, new = found
            self.give(person, old, -1)
            self.give(person, new)

    def improve(self) -> None:
        """Let two participants exchange a unit each wherever both forms together are then better spread."""
        if self.people < 2 or not self.codes.size:
            return
        for _ in range(TRIES * self.people * self.stories):
            a, b = (int(one) for one in self.rng.choice(self.people, 2, replace=False))
            i, j = (self.given[one][int(self.rng.integers(self.stories))] for one in (a, b))
            if i == j or self._clash(a, i, j) or self._clash(b, j, i):
                continue
            before = self._spread(a) + self._spread(b)
            self._swap(a, b, i, j)
            if self._spread(a) + self._spread(b) > before:
                self._swap(a, b, j, i)

    def _clash(self, person: int, old: int, new: int) -> bool:
        return bool(self.blocked[person, self.cluster[new]]) and self.cluster[new] != self.cluster[old]

    def _swap(self, a: int, b: int, i: int, j: int) -> None:
        for person, old, new in ((a, i, j), (b, j, i)):
            self.give(person, old, -1)
            self.give(person, new)

    def _spread(self, person: int) -> float:
        missing = self.counts[person] - self.target
        return float(missing @ missing)


def _encode_factors(units: Sequence[Unit]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The values of the spread factors of each unit as numbers [units, factors], and the share of units that have each
    of these values [values of all factors]."""
    columns, shares, first = [], [], 0
    for name in spread_factors(units):
        values = [unit.values.get(name, "") for unit in units]
        found = Counter(values)
        code = {value: first + place for place, value in enumerate(sorted(found))}
        columns.append([code[value] for value in values])
        shares += [found[value] / len(units) for value in sorted(found)]
        first += len(found)
    codes = np.array(columns, dtype=np.int64).T if columns else np.zeros((len(units), 0), dtype=np.int64)
    return codes, np.array(shares)


ASSETS = Path(__file__).with_name("assets")


def render_online(plan: Plan, form: Form, items: Mapping[str, Item], texts: FormTexts, consent: str) -> str:
    """The form of a participant for the browser, as one HTML page. plan, form: what is asked. items: by their ids.
    texts: the words of the form."""
    data = {
        "schema": 1,
        "questionnaire": plan.questionnaire,
        "code": form.code,
        "mode": plan.mode,
        "canary": _canary(items),
        "consent": split_paragraphs(consent),
        "instructions": _instructions(plan, form, texts),
        "about": [field.model_dump() for field in texts.about.fields if field.name in plan.about],
        "words": texts.model_dump(by_alias=True, include={"title", "consent", "page", "end"})
        | {"about": {"heading": texts.about.heading, "text": texts.about.text}}
        | {"instructions": texts.instructions.heading},
        "pages": _pages(plan, form, items),
    }
    style, script = pages.asset(ASSETS / "form.css"), pages.asset(ASSETS / "form.js")
    text = orjson.dumps(data).decode().replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    inline = {"style": Markup(style), "script": Markup(script), "data": Markup(text)}
    policy = f"default-src 'none'; script-src '{pages.csp_digest(script)}'; style-src '{pages.csp_digest(style)}'"
    policy += "; base-uri 'none'; form-action 'none'"
    return _render("form.html.j2", policy=policy, said=texts, code=form.code, **inline)


def render_printed(plan: Plan, form: Form, items: Mapping[str, Item], texts: FormTexts, consent: str) -> str:
    """The same form for paper: an HTML page with page breaks, whose last sheet has a box for each answer."""
    # The code and the number of the page at the foot of each sheet, so that sheets which come apart are sorted again.
    style = (
        pages.asset(ASSETS / "printed.css")
        + f'@page {{ @bottom-right {{ content: "{form.code} \\00b7  " counter(page) }} }}\n'
    )
    return _render(
        "printed.html.j2",
        policy=f"default-src 'none'; style-src '{pages.csp_digest(style)}'; base-uri 'none'; form-action 'none'",
        style=Markup(style),
        said=texts,
        code=form.code,
        questionnaire=plan.questionnaire,
        canary=_canary(items),
        consent=split_paragraphs(consent),
        instructions=_instructions(plan, form, texts, paper=True),
        about=[field for field in texts.about.fields if field.name in plan.about],
        pages=_pages(plan, form, items),
        letters=LETTERS,
        questions=len(form.questions),
        most=max(len(question.choices) for question in form.questions),
    )


def _instructions(plan: Plan, form: Form, texts: FormTexts, paper: bool = False) -> list[str]:
    text = list(texts.instructions.text)
    if plan.mode == "sentences" and not paper:
        text.insert(1, texts.instructions.sentences)
    if not paper:
        text.append(texts.instructions.screen)
    if any(UNKNOWN in question.choices for question in form.questions if question.item is not None):
        text.append(texts.instructions.unknown)
    return text


def _pages(plan: Plan, form: Form, items: Mapping[str, Item]) -> list[dict[str, Any]]:
    found = []
    for page in form.pages():
        shown = [_story_and_question(plan, question, items) for _, question in page]
        questions = [
            {"number": number, "text": text, "choices": question.choices}
            for (number, question), (_, text) in zip(page, shown, strict=True)
        ]
        found.append({"story": shown[0][0], "questions": questions})
    return found


def _story_and_question(plan: Plan, question: FormQuestion, items: Mapping[str, Item]) -> tuple[list[str], str]:
    if (check := plan.check(question.check)) is not None:
        return check.story, check.question
    item = items[question.item or ""]
    return list(item.story), item.question


def _canary(items: Mapping[str, Item]) -> str:
    """The sentence by which those who collect texts for training recognize benchmark data; empty without one."""
    return next((item.canary for item in items.values() if item.canary), "") or ""


def _render(name: str, **values: Any) -> str:
    text: str = _environment().get_template(name).render(**values)
    return text


@cache
def _environment() -> Environment:
    found = pages.templates(ASSETS)
    found.filters["marked"] = lambda text: Markup(PLACEHOLDER.sub(r"<mark>\g<0></mark>", str(escape(text))))
    return found


FORMS, PRINTED, CONSENT, TYPED = "forms", "printed", "consent.txt", "typed.csv"
"""What goes into the folder besides the plan: the forms for a browser, those for paper, the consent text that they
show, and a table to type answers from paper into."""


@dataclass(frozen=True)
class QuestionnaireOptions:
    """What a questionnaire is to be like."""

    people: int = 40  # how many participants
    stories: int = 24  # how many stories each of them reads
    mode: Mode = "whole"  # whether stories appear as a whole or by sentences
    together: bool = False  # whether all questions about a story are asked, or one of them
    seed: int = 1  # of all chance
    attention: int = 2  # how many attention checks a form has
    wrong_at_most: int = 0  # how many of them may be wrong before a person is left out
    about: bool = True  # whether the form asks for optional details
    consent: Path | None = None  # the file of the consent text; None for the draft
    limit: int | None = None  # draw at most so many items first
    where: tuple[str, ...] = ()  # conditions ``factor=value`` that the items have to meet


@dataclass(frozen=True)
class Questionnaire:
    """What was made: the plan, how even it is in sentences, the consent text's placeholders that are not filled in,
    and how many variants of questions are left out."""

    plan: Plan
    balance: list[str]
    unfilled: list[str]
    variants: int = 0


def make_questionnaire(
    benchmark: Benchmark, path: Path | None, folder: Path, options: QuestionnaireOptions, gold: str | None = None
) -> Questionnaire:
    """Make a questionnaire.

    benchmark: whose items are asked. path, gold: the user's `--path` and `--gold`. folder: where to write it, which
    must be new or empty. options: what it is to be like. Raises ConfigError where that cannot be, ContentError for a
    mistake in a file.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        what = "holds a questionnaire already" if (folder / PLAN).exists() else "is there already"
        raise ConfigError(f"{folder}: {what}; give a new folder by --out, so that nothing is overwritten")
    texts, consent = load_texts(), read_consent(options.consent)
    if options.attention > len(texts.attention):
        raise ConfigError(
            f"--attention {options.attention}: there are {len(texts.attention)} checks; write more into "
            "dataset/questionnaire/words.yaml, or ask for fewer"
        )
    if options.wrong_at_most > options.attention:
        raise ConfigError(f"--wrong-at-most {options.wrong_at_most}: a form has {options.attention} attention checks")
    every = list(benchmark.items(path, gold, ALL))
    if lone := next((item for item in every if len(item.choices) < 2), None):
        raise ConfigError(f"item {lone.id!r} has no choices; a questionnaire asks people to choose among labels")
    # No analysis counts answers to variants as those to their questions, so that they are asked only where wanted.
    wanted = any(one.startswith("variant=") for one in options.where)
    asking = every if wanted else [item for item in every if item.base is None]
    meeting = list(where(asking, benchmark.conditions(options.where)))
    draw = benchmarks.draw_of(benchmark, {item.benchmark for item in every})
    chosen = limit_items(meeting, options.limit, draw)
    forms, factors = _forms(chosen, texts, options)
    asked = {question.item for form in forms for question in form.questions}
    items = [item for item in chosen if item.id in asked]
    about = [field.name for field in texts.about.fields] if options.about else []
    wording = digest(orjson.dumps(texts.model_dump(by_alias=True)), consent.encode())
    content = [orjson.dumps(form.model_dump()) for form in forms]
    plan = Plan(
        schema=1,
        questionnaire=digest_plan(wording.encode(), options.mode.encode(), items_digest(items).encode(), *content),
        benchmark=benchmark.name,
        benchmark_digest=items_digest(every),
        benchmark_items=len(every),
        limit=options.limit,
        where=list(options.where),
        mode=options.mode,
        together=options.together,
        seed=options.seed,
        people=options.people,
        stories=options.stories,
        attention=Attention(asked=options.attention, wrong_at_most=options.wrong_at_most, checks=texts.attention),
        about=about,
        words=wording,
        forms=forms,
    )
    _write(folder, plan, items, texts, consent)
    even = describe_balance(plan, {item.id: item for item in items}, factors, len(chosen))
    return Questionnaire(plan, even, find_placeholders(consent), len(every) - len(asking))


def _forms(items: Sequence[Item], texts: FormTexts, options: QuestionnaireOptions) -> tuple[list[Form], list[str]]:
    units = make_units(items, options.together)
    drawn = assign_units(units, options.people, options.stories, options.seed)
    rng = random.Random(f"questionnaire {options.seed}")
    found = []
    for code, places in zip(draw_codes(options.people, rng), drawn, strict=True):
        turned = [place % 2 for place in range(len(places))]  # half of the stories with their questions turned round
        rng.shuffle(turned)
        pages: list[list[tuple[str | None, str | None, list[str]]]] = []
        for place, turn in zip(places, turned, strict=True):
            group = units[place].items
            pages.append([(item.id, None, list(item.choices)) for item in (group[::-1] if turn else group)])
        checks = rng.sample(texts.attention, options.attention)
        for number, check in enumerate(checks, 1):  # evenly spread, and never first
            middle = number * len(places) // (options.attention + 1)
            at = max(1, middle + rng.choice((-1, 0, 1)) + number - 1)
            pages.insert(at, [(None, check.name, list(check.choices))])
        questions = []
        for page, listed_questions in enumerate(pages, 1):
            for item, name, choices in listed_questions:
                rng.shuffle(choices)
                if sorted(one.upper() for one in choices) == [*LETTERS[: len(choices)]]:
                    choices.sort(key=str.upper)  # on paper A is the letter of the first choice, whatever it says
                questions.append(FormQuestion(page=page, item=item, check=name, choices=choices))
        found.append(Form(code=code, questions=questions))
    return found, spread_factors(units)


def _write(folder: Path, plan: Plan, items: Sequence[Item], texts: FormTexts, consent: str) -> None:
    """Write everything into the folder; the plan last, so that a folder with a plan is whole. Raises ConfigError where
    another process writes into it."""
    folder.mkdir(parents=True, exist_ok=True)
    with files.lock_folder(folder) as alone:
        if not alone or any(folder.iterdir()):
            raise ConfigError(f"{folder}: another process writes there; give a new folder by --out")
        _write_files(folder, plan, items, texts, consent)


def _write_files(folder: Path, plan: Plan, items: Sequence[Item], texts: FormTexts, consent: str) -> None:
    known = {item.id: item for item in items}
    rows = ["participant,question,answer\n"]
    for form in plan.forms:
        write_chunks(folder / FORMS / f"{form.code}.html", [render_online(plan, form, known, texts, consent).encode()])
        write_chunks(
            folder / PRINTED / f"{form.code}.html", [render_printed(plan, form, known, texts, consent).encode()]
        )
        rows += [f"{form.code},{number},\n" for number in range(1, len(form.questions) + 1)]
    write_chunks(folder / TYPED, ["".join(rows).encode()])
    write_chunks(folder / CONSENT, [consent.encode() + b"\n"])
    plan.write(folder, items)
