"""The ways in which BigToM tells a template: for each a story, a question, the right answer and the wrong one.

The authors' generator writes 25 files of a row a template. `official` gives these files byte by byte. The items differ
from them in three ways: the file of percept_to_belief calls that answer right which is so only after an event that its
story does not tell, and the item has the other; the two controls of backward_belief are the same text, and make one
item; and backward_desire, which the authors' generator knows and leaves out, makes items that are asked only where they
are wanted, because in 93 of the 200 templates its two answers are the same.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tomserve.benchmarks.bigtom.template import Template
from tomserve.items import Item

BELIEFS, CONTROLS = ("true_belief", "false_belief"), ("true_control", "false_control")
CONTROL, NO_EVENT = "control", "no_event"
TASKS = ("forward_belief", "forward_action", "backward_belief", "percept_to_belief", "backward_desire")
PERCEPT, DESIRE = TASKS[3], TASKS[4]
HEADLINE = TASKS[:3]
"""The tasks whose accuracy the paper reports."""


class Version(NamedTuple):
    """One way to tell a template.

    task: what is asked (TASKS). condition: whether the person's belief is true or false, or a control of that. init:
    1 where the story says what the person believes at first, 0 where it does not. files: the official files in which
    the item stands.
    """

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

FILES = tuple(sorted(file for version in VERSIONS for file in version.files))
"""The names of the 25 official files, each a folder with one stories.csv."""


class Told(NamedTuple):
    """A template told in one way: the sentences of the story, the question, the right answer and the wrong one."""

    story: tuple[str, ...]
    question: str
    right: str
    wrong: str


def told(template: Template, version: Version) -> Told:
    """The template told in this way."""
    cells, sentences = template.cells, template.sentences
    context = [*sentences[:3]] if version.task != DESIRE else [sentences[0], sentences[2]]
    question = cells[f"{version.dimension} question"]
    aware, unaware = template.answers(version.dimension)
    if version.task == PERCEPT:
        return Told(tuple(context), question, unaware, aware)
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
    return Told(tuple(context), question, *((aware, unaware) if acts_aware else (unaware, aware)))


def official(templates: Iterable[Template]) -> dict[str, bytes]:
    """The content of the 25 official files, by name, as the authors' generator writes them."""
    listed = list(templates)
    made: dict[str, bytes] = {}
    for version in VERSIONS:
        out = io.StringIO(newline="")
        writer = csv.writer(out, delimiter=";")
        for template in listed if version.files else ():
            story, question, right, wrong = told(template, version)
            answers = (wrong, right) if version.task == PERCEPT else (right, wrong)
            writer.writerow([" ".join(story), question, *answers])
        made |= dict.fromkeys(version.files, out.getvalue().encode())
    return made


def items(template: Template, versions: Iterable[Version] = VERSIONS) -> Iterator[Item]:
    """The items of a template. The two answers stand in an order that follows from the item's id alone, so that it
    depends neither on the other rows nor on what else is asked; of two templates in a row, one has it the other way, so
    that over all rows each answer stands first equally often in every condition."""
    for version in versions:
        story, question, right, wrong = told(template, version)
        if right.strip().casefold() == wrong.strip().casefold():
            continue
        name = f"bigtom/{template.number:03d}/{version.name}"
        pair = f"bigtom/{(template.number + 1) // 2}/{version.name}"
        turned = (hashlib.sha256(pair.encode()).digest()[0] + template.number) % 2
        yield Item(
            id=name,
            benchmark="bigtom",
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
