"""BigToM (Gandhi et al. 2023, arXiv 2306.15448): false and true beliefs, and what people do by them.

    tomserve eval --benchmark bigtom --path bigtom.csv
    tomserve eval --benchmark bigtom --path bigtom.csv --where condition=false_belief --where init_belief=1
    tomserve items bigtom --path bigtom.csv --where all

Asked by default is what the paper reports: belief and action asked forward from what the person perceives, and belief
backward from what she does, each with a true and a false belief, without the sentence on what she believed at first
(the factor `headline`: six questions a template). `--where` chooses others, or `all`.
"""

import csv
import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import polars as pl

from tomserve.benchmarks.base import Benchmark, Findings, Say, outcome
from tomserve.benchmarks.counterfactuals import Case, NoCase, add_factors
from tomserve.benchmarks.published.base import Record, Source, audit_items, read_digests, row_digest
from tomserve.content import files
from tomserve.items import Item
from tomserve.items.draw import Draw
from tomserve.scoring.answers import Reading
from tomserve.scoring.baselines import Baseline
from tomserve.scoring.metrics import Metric
from tomserve.variants.names import Gender
from tomserve.variants.pronouns import YOU, I, PersonForms, sole_gender
from tomserve.variants.pronouns import shift_person as retold

SOURCE = Source("bigtom", "cicl-stanford/procedural-evals-tom", "data/bigtom/bigtom.csv", "MIT", "fe647d6")
COLUMNS = (
    *("story", "aware", "not aware", "action aware", "action not aware"),
    *("belief question", "desire question", "action question"),
    *("belief answer aware", "desire answer aware", "action answer aware"),
    *("belief answer not aware", "desire answer not aware", "action answer not aware"),
    *("random event", "aware of random event", "not aware of random event"),
    *("who made the row", "number"),
)
"""What the columns are called, in their order. Nothing uses the last two."""

SENTENCES = 5
_ASKED = re.compile(r"Does (\w[\w'-]*) ")


@dataclass(frozen=True)
class Template:
    """One row. number: its place in the file, from 1. sentences: the five of the story (the place, the wish, what the
    person perceives, what the person believes of it, the event)."""

    number: int
    sentences: tuple[str, ...]
    row: Record

    @property
    def person(self) -> str:
        """The name of the person whose mind the questions are about, as the belief question says it."""
        found = _ASKED.match(self.row.data["belief question"])
        return found[1] if found else self.sentences[0].split()[0].strip(",")

    def answers(self, question: str) -> tuple[str, str]:
        """The answers to a question (belief, desire or action) if the person noticed the event, and if not."""
        return self.row.data[f"{question} answer aware"], self.row.data[f"{question} answer not aware"]


def read_templates(path: Path | None) -> list[Template]:
    """The templates of the user's file. Raises ConfigError where there is none, ContentError for a row that is none."""
    return [_template(number, row) for number, row in enumerate(SOURCE.csv(path, COLUMNS, ";"), 1)]


def _template(number: int, row: Record) -> Template:
    for name in COLUMNS[:-2]:
        row.line(name)
    parts = [part.strip() for part in row.data["story"].split(".")]
    if len(parts) != SENTENCES + 1 or not all(parts[:-1]) or parts[-1]:
        reason = f"has {len(parts) - 1} full stops; expected {SENTENCES} sentences with one at each end"
        raise row.place.at("story").error(reason)
    if not _ASKED.match(row.data["belief question"]):
        raise row.wrong("belief question", "'Does NAME ...'")
    found = Template(number, tuple(f"{part}." for part in parts[:-1]), row)
    for question in ("belief", "action"):
        one, other = (answer.strip().casefold() for answer in found.answers(question))
        if one == other:
            reason = "is the same as the answer of somebody who is not aware; expected two answers"
            raise row.place.at(f"{question} answer").error(reason)
    return found


BELIEFS, CONTROLS = ("true_belief", "false_belief"), ("true_control", "false_control")
CONTROL, NO_EVENT = "control", "no_event"
TASKS = ("forward_belief", "forward_action", "backward_belief", "percept_to_belief", "backward_desire")
PERCEPT, DESIRE = TASKS[3], TASKS[4]
HEADLINE = TASKS[:3]
"""The tasks whose accuracy the paper reports."""


class Version(NamedTuple):
    """One way to tell a template. task: what is asked (TASKS). condition: whether the person's belief is true or false,
    or a control of that. init: 1 where the story says what the person believes at first, 0 where it does not. files:
    the official files in which the item stands."""

    task: str
    condition: str
    init: int
    files: tuple[str, ...] = ()

    @property
    def dimension(self) -> str:
        """What the question is about: belief, action or desire."""
        return self.task.rpartition("_")[2]

    @property
    def headline(self) -> bool:
        """Whether it counts among the questions of the paper's main result, without the initial belief."""
        return self.task in HEADLINE and self.condition in BELIEFS and not self.init

    @property
    def name(self) -> str:
        """Its part of an item's id."""
        return f"{self.task}/{self.condition}/{self.init}"


def _versions() -> Iterator[Version]:
    for init in (0, 1):
        for task in (*HEADLINE, DESIRE):
            for condition in (*BELIEFS, *CONTROLS):
                file = f"{init}_{task}_{condition}"
                if task != "backward_belief" or condition in BELIEFS:
                    yield Version(task, condition, init, () if task == DESIRE else (file,))
            if task == "backward_belief":
                yield Version(task, CONTROL, init, tuple(f"{init}_{task}_{control}" for control in CONTROLS))
    yield Version(PERCEPT, NO_EVENT, 1, (f"1_{PERCEPT}_true_belief",))


VERSIONS = tuple(_versions())
"""All ways, in the order in which a template's items come."""


class Telling(NamedTuple):
    """A template told in one way: the sentences of the story, the question, the right answer and the wrong one."""

    story: tuple[str, ...]
    question: str
    right: str
    wrong: str


def tell(template: Template, version: Version) -> Telling:
    """The template told in this way."""
    cells, sentences = template.row.data, template.sentences
    context = [*sentences[:3]] if version.task != DESIRE else [sentences[0], sentences[2]]
    question = cells[f"{version.dimension} question"]
    aware, unaware = template.answers(version.dimension)
    if version.task == PERCEPT:
        return Telling(tuple(context), question, unaware, aware)
    if version.init:
        context.append(sentences[3])
    controlled = version.condition not in BELIEFS
    context.append(cells["random event"] if controlled else sentences[4])
    noticed = version.condition in ("true_belief", "true_control")
    backward = version.task in ("backward_belief", DESIRE)
    if version.task != "backward_belief":
        of_what = " of random event" if controlled else ""
        context.append(cells[f"{'aware' if noticed else 'not aware'}{of_what}"])
    acts_aware = noticed and not controlled
    if backward:
        context.append(cells["action aware" if acts_aware else "action not aware"])
    return Telling(tuple(context), question, *((aware, unaware) if acts_aware else (unaware, aware)))


def official_files(templates: Iterable[Template]) -> dict[str, bytes]:
    """The content of the 25 official files, by name, as the authors' generator writes them."""
    listed = list(templates)
    made: dict[str, bytes] = {}
    for version in VERSIONS:
        out = io.StringIO(newline="")
        writer = csv.writer(out, delimiter=";")
        for template in listed if version.files else ():
            story, question, right, wrong = tell(template, version)
            answers = (wrong, right) if version.task == PERCEPT else (right, wrong)
            writer.writerow([" ".join(story), question, *answers])
        made |= dict.fromkeys(version.files, out.getvalue().encode())
    return made


def make_items(template: Template, versions: Iterable[Version] = VERSIONS) -> Iterator[Item]:
    """The items of a template. The two answers stand in an order that follows from the item's id alone, so that it
    depends neither on the other rows nor on what else is asked; of two templates in a row, one has it the other way, so
    that over all rows each answer stands first equally often in every condition."""
    for version in versions:
        story, question, right, wrong = tell(template, version)
        if right.strip().casefold() == wrong.strip().casefold():
            continue
        name = f"bigtom/{template.number:03d}/{version.name}"
        pair = f"bigtom/{(template.number + 1) // 2}/{version.name}"
        turned = (hashlib.sha256(pair.encode()).digest()[0] + template.number) % 2
        yield template.row.place.item(
            id=name,
            story=story,
            question=question,
            choices=(wrong, right) if turned else (right, wrong),
            answer=right.strip(),
            factors={
                "task": version.task,
                "dimension": version.dimension,
                "condition": version.condition,
                "init_belief": version.init,
                "template": template.number,
                "headline": version.headline,
                "usable": version.task != DESIRE,
                "files": " ".join(version.files) or None,
            },
            cluster=f"bigtom/{template.number:03d}",
        )


CASE_TASKS = ("forward_belief", "forward_action")
BEFORE = 3
"""How many sentences of a story come before what its conditions differ in."""

_UNKNOWN = re.compile(
    r"^Unbeknownst to you, |,? un(?:beknownst|known) to you,|, which goes unnoticed by you|(?<=you) unknowingly"
)
"""Words by which an event says that the reader knows nothing of it, who knows it once it is told."""


def _without_secret(sentence: str) -> str:
    """The sentence without what it says of the reader's not knowing."""
    told = _UNKNOWN.sub("", sentence)
    return told[0].upper() + told[1:]


@dataclass(frozen=True)
class HandReading:
    """What somebody who read a story knows of it where rules are in doubt. gender: of the pronouns that mean the
    person. fragments: words that are retold as it stands here."""

    gender: Gender
    fragments: Mapping[str, str]

    def retell(self, texts: Sequence[str], name: str, person: PersonForms) -> list[str]:
        """The texts with the person in that grammatical person. Raises ValueError as `shift_person`."""
        marked = list(texts)
        for mark, old in enumerate(self.fragments, 0xE000):  # letters that no text has
            marked = [text.replace(old, chr(mark)) for text in marked]
        back = dict(enumerate(self.fragments.values(), 0xE000))
        return [text.translate(back) for text in retold(marked, name, person, gender=self.gender)]


@lru_cache(maxsize=1)
def _read_by_hand() -> dict[str, HandReading]:
    """The readings of bigtom_readings.txt by the digest of the row. A line holds the number of the template, the
    digest, a gender, and then "| old = new" for each fragment."""
    found = {}
    text = files.read_own_text(Path(__file__).with_name("bigtom_readings.txt"))
    for line in text.splitlines():
        head, *fragments = (part.strip() for part in line.split("|"))
        _, digest, gender = head.split()
        pairs = (fragment.split(" = ", 1) for fragment in fragments)
        found[digest] = HandReading(gender, dict(pairs))
    return found


def make_case(template: Template, task: str = CASE_TASKS[0]) -> Case | NoCase:
    """The case of a template, or why there is none. task: one of CASE_TASKS. The twin is the item of the true belief
    with the choices in the order of those of f. For probes, a question about the belief has what the person believes
    and what is so; of anybody else's belief the stories say nothing."""
    versions = [Version(task, condition, 0) for condition in ("false_belief", "true_belief")]
    f, true = make_items(template, versions)
    noticed = tell(template, versions[1])
    texts = [*noticed.story, f.story[-1], f.question, *f.choices]
    parts = ((noticed.story, YOU), ([f.question], YOU), (f.choices, I))
    try:
        gender = sole_gender(texts, template.person)
        seen, (question,), choices = (retold(part, template.person, who, gender=gender) for part, who in parts)
    except ValueError as error:
        if (known := _read_by_hand().get(row_digest(template.row.csv_bytes()))) is None:
            return NoCase(f, str(error))
        seen, (question,), choices = (known.retell(part, template.person, who) for part, who in parts)
    seen = [_without_secret(sentence) for sentence in seen]
    said = dict(zip(f.choices, choices, strict=True))
    own = _make_version(f, "ppt_p", seen[:BEFORE], question, (choices, said[f.answer]))
    own_twin = _make_version(f, "ppt_p_twin", seen, question, (choices, said[noticed.right.strip()]))
    twin = _make_version(f, "ppt_twin", true.story, true.question, (f.choices, true.answer))
    holders: dict[str, str | None] = {}
    if task == CASE_TASKS[0]:
        believed, real = f.answer, true.answer
        holders = {"protagonist": believed, "other": None, "reality": real}
        holders |= {"protagonist_in_twin": real, "other_in_twin": None, "reality_in_twin": real}
    return Case(add_factors(f, holders), own, own_twin, twin, holders=holders)


def _make_version(
    f: Item, variant: str, story: Sequence[str], question: str, answers: tuple[Sequence[str], str]
) -> Item:
    """A version of f. answers: its choices, in the order of those of f, and the right one."""
    told = {"story": tuple(story), "question": question, "choices": tuple(answers[0]), "answer": answers[1]}
    known = {"id": f"{f.id}/{variant}", "factors": {**f.factors, "variant": variant}}
    return f.model_copy(update={**told, **known, "base": f.id, "meanings": f.choices})


KEYS = ("a)", "b)")


def grade_reply(text: str, key: str) -> bool | None:
    """Whether the authors count a reply as right; None where they have a language model decide. key: that of the right
    answer, a) or b)."""
    said = text.strip().lower()
    if key in said:
        return True
    return False if any(other in said for other in KEYS) else None


def compute(item: Item, reading: Reading) -> Mapping[str, bool]:
    """The columns of SCORING for one reply; nothing for a reply without text, and for items with other than two
    choices."""
    if not reading.text or len(item.choices) != len(KEYS):
        return {}
    key = KEYS[item.choices.index(item.answer)]
    text = reading.text.strip().lower()
    found = {
        "metric_official": grade_reply(reading.text, key),
        "metric_official_after_answer": grade_reply(reading.text[reading.text.find("Answer:") + 8 :], key),
        "metric_both_keys": all(one in text for one in KEYS),
    }
    return {name: value for name, value in found.items() if value is not None}


SCORING = Metric(
    dict.fromkeys(("metric_official", "metric_official_after_answer", "metric_both_keys"), pl.Boolean), compute
)
"""metric_official: the authors' grade; metric_official_after_answer: that of the part after "Answer:", as for their
chat prompt with reasoning; metric_both_keys: whether the reply names both keys, so that their grade says little."""


_WORD = re.compile(r"[a-z0-9][\w'-]*")


def _other(item: Item, choice: str | None) -> str | None:
    """The other of two choices; None for none."""
    return None if choice is None else next(one for one in item.choices if one != choice)


def after_event(item: Item) -> str | None:
    """The answer that fits somebody who noticed the event; None for an item with other than two choices."""
    if len(item.choices) != 2:
        return None
    return item.answer if item.factors.get("condition") == "true_belief" else _other(item, item.answer)


def before_event(item: Item) -> str | None:
    """The answer that fits somebody who did not notice the event, or where there is none."""
    return _other(item, after_event(item))


def _reality(item: Item) -> str | None:
    """What is so at the end: the event where the story tells it, whoever noticed."""
    return (after_event if item.factors.get("condition") in BELIEFS else before_event)(item)


@lru_cache(maxsize=64)
def _first_choice_in(question: str, choices: tuple[str, ...]) -> str | None:
    words = [set(_WORD.findall(choice.casefold())) for choice in choices]
    asked = _WORD.findall(question.casefold())
    for word in asked:
        having = [choice for choice, own in zip(choices, words, strict=True) if word in own]
        if len(having) == 1:
            return having[0]
    return None


def name_first(item: Item) -> str | None:
    """The choice that the question names first: the first word of it that only one choice has, decides. None where
    there is no such word, as in a question that names no state."""
    return _first_choice_in(item.question, item.choices)


RULES = (
    Baseline("state after the event", _reality, "simpler"),
    Baseline("state before the event", before_event, "simpler"),
    Baseline("named first in the question", name_first, "surface"),
    Baseline("named last in the question", lambda item: _other(item, name_first(item)), "surface"),
)
"""The first two know which answer fits which state of the world, and nothing of who noticed; the others go by the
question alone."""


def _places(item: Item, reading: Reading) -> Mapping[str, object]:
    del reading
    first = name_first(item)
    return {
        "answer_place": item.choices.index(item.answer) + 1,
        "named_first": None if first is None else first == item.answer,
    }


PLACES = Metric({"answer_place": pl.Int64, "named_first": pl.Boolean}, _places, of_item=True)
"""answer_place: whether the right answer is shown as the first or second choice; named_first: whether the question
names it first."""


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """All items of all templates."""
    for template in read_templates(path):
        yield from make_items(template)


def cases(path: Path | None = None, where: Sequence[str] = ()) -> Iterator[Case | NoCase]:
    """The cases of all templates, by each of CASE_TASKS and whatever the conditions, and the questions that make none
    with the reasons."""
    return (make_case(template, task) for template in read_templates(path) for task in CASE_TASKS)


def differences(path: Path | None) -> list[str]:
    """How the file differs from the known one."""
    return SOURCE.differences(row.csv_bytes() for row in SOURCE.csv(path, COLUMNS, ";"))


def validate(path: Path | None, say: Say) -> Findings:
    """Check that the file is the known one, and that the official files that are made of it are the published ones."""
    found, problems = read_templates(path), differences(path)
    made = official_files(found)
    alike = sum(row_digest(made[name]) == digest for name, digest in read_digests("bigtom_files"))
    if alike < len(made):
        problems.append(f"{len(made) - alike} of the {len(made)} files that the authors make of it are others")
    told = f"{len(found)} templates; {alike} of {len(made)} official files are made byte by byte: {outcome(problems)}"
    return Findings.of_problems(problems, told, under_heading=True)


def audit(path: Path | None, say: Say) -> Findings:
    """Count what the file holds and how far readers get who follow nobody's mind, and say its known faults."""
    found = read_templates(path)
    every = [item for template in found for item in make_items(template)]
    asked = [item for item in every if item.factors["headline"]]
    made = audit_items(asked, ("task", "condition"), RULES, (*differences(path), *_faults(found, asked)))
    kinds = ("task", "condition", "init_belief", "headline", "usable", "files")
    counts = Counter(tuple(item.factors[name] for name in kinds) for item in every)
    whole = pl.DataFrame(
        [{**dict(zip(kinds, kind, strict=True)), "questions": count} for kind, count in counts.items()]
    )
    note = (
        "All items by task, condition and initial belief; `--where` chooses among them. The tables below are of those "
        "that are asked by default (headline=true)."
    )
    whole = whole.select(*kinds[:-1], "questions", official_files="files")
    return replace(made, tables={"all items": whole, **made.tables}, notes={**made.notes, "all": note})


def _faults(found: list[Template], asked: list[Item]) -> Iterator[str]:
    """What is known to be wrong with the file, each in a sentence with its count."""
    beliefs = [item for item in asked if item.factors["task"] == "forward_belief"]
    initial = [item for item in beliefs if item.factors["condition"] == "false_belief"]
    first = sum(name_first(item) == item.answer for item in initial)
    yield f"order: {first} of {len(initial)} belief questions name the state before the event first."
    same = sum(one.strip() == other.strip() for one, other in (template.answers("desire") for template in found))
    yield f"desire: {same} of {len(found)} templates have one answer twice, so backward_desire is usable=false."
    strange = [
        one.number for one in found if one.person not in one.row.data["action aware"] + one.row.data["action not aware"]
    ]
    if strange:
        yield f"names: somebody else acts than is asked about in template {', '.join(map(str, strange))}."


BENCHMARK = Benchmark(
    SOURCE.benchmark,
    load,
    rules=RULES,
    terms=SOURCE.words,
    papers=("Understanding Social Reasoning in Language Models with Language Models (arXiv:2306.15448)",),
    study="bigtom",
    draw=Draw(unit=("template", "templates")),
    metrics=(PLACES, SCORING),
    validate=validate,
    audit=audit,
    usual=("headline=true",),
    cases=cases,
    usual_cases=("task=forward_belief",),
)
