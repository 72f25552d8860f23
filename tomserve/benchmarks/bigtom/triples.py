"""False-belief stories of BigToM with two versions that take the person's place, for measures of perspective-taking.

All stories of a template share what comes before the event, so that the content of the versions is settled: p is the
story without the event and without who noticed it, p_twin the one in which the person noticed (the true belief). Both
are told to the reader as the person ("you"), and their choices are said by that person ("I believe ..."). The wording
is made by rules; where a rule is in doubt there is no triple, and the reason is given. Nor is there one where the
event itself says that the person knows nothing of it: "Unbeknownst to you, ... You notice ..." would contradict itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from tomserve.benchmarks.bigtom.conditions import Version, items, told
from tomserve.benchmarks.bigtom.template import Template
from tomserve.benchmarks.bigtom.you import YOU, I
from tomserve.benchmarks.bigtom.you import told as retold
from tomserve.benchmarks.case import Case, NoCase
from tomserve.benchmarks.cases import labelled
from tomserve.benchmarks.worlds.triples import Triple
from tomserve.items import Item
from tomserve.stability.pronouns import whose

TASKS = ("forward_belief", "forward_action")
BEFORE = 3
"""How many sentences of a story come before what its conditions differ in."""

_UNKNOWN = re.compile(r"\b(?:un(?:beknownst|known) to you|unnoticed by you|you unknowingly)\b", re.I)
"""Words by which an event says that the reader knows nothing of it."""


def triple(template: Template, task: str = TASKS[0]) -> Triple | str:
    """The triple of a template, or in a few words why there is none. task: one of TASKS."""
    false, true = (Version(task, condition, 0) for condition in ("false_belief", "true_belief"))
    (f,) = items(template, [false])
    noticed = told(template, true)
    texts = [*noticed.story, f.story[-1], f.question, *f.choices]
    gender = whose(texts, template.person)
    try:
        seen = retold(noticed.story, template.person, YOU, gender=gender)
        question = retold([f.question], template.person, YOU, gender=gender)[0]
        choices = retold(f.choices, template.person, I, gender=gender)
    except ValueError as error:
        return str(error)
    if any(map(_UNKNOWN.search, seen)):
        return "the event says that the person knows nothing of it"
    said = dict(zip(f.choices, choices, strict=True))
    p = _version(f, "ppt_p", seen[:BEFORE], question, (choices, said[f.answer]))
    p_twin = _version(f, "ppt_p_twin", seen, question, (choices, said[noticed.right.strip()]))
    return Triple(f, p, p_twin)


def triples(templates: Iterable[Template], task: str = TASKS[0]) -> Iterator[Triple]:
    """The triples of all templates that have one."""
    for template in templates:
        if isinstance(found := triple(template, task), Triple):
            yield found


def cases(templates: Iterable[Template]) -> Iterator[Case | NoCase]:
    """The cases of all templates, by each of TASKS, and the questions that make none with the reasons.

    The twin is the item of the true belief with the choices in the order of those of f. For probes, a question about
    the belief has what the person believes and what is so; of anybody else's belief the stories say nothing.
    """
    for template in templates:
        for task in TASKS:
            false, true = (next(items(template, [Version(task, told, 0)])) for told in ("false_belief", "true_belief"))
            if isinstance(found := triple(template, task), str):
                yield NoCase(false, found)
                continue
            f, own, own_twin = found
            twin = _version(f, "ppt_twin", true.story, true.question, (f.choices, true.answer))
            holders: dict[str, str | None] = {}
            if task == TASKS[0]:
                believed, real = f.answer, true.answer
                holders = {"protagonist": believed, "other": None, "reality": real}
                holders |= {"protagonist_in_twin": real, "other_in_twin": None, "reality_in_twin": real}
            yield Case(labelled(f, holders), own, own_twin, twin, holders=holders)


def _version(f: Item, variant: str, story: Sequence[str], question: str, answers: tuple[Sequence[str], str]) -> Item:
    """A version of f. answers: its choices, in the order of those of f, and the right one."""
    choices, answer = answers
    return Item(
        id=f"{f.id}/{variant}",
        benchmark=f.benchmark,
        story=story,
        question=question,
        choices=choices,
        answer=answer,
        factors={**f.factors, "variant": variant},
        cluster=f.cluster,
        base=f.id,
        meanings=f.choices,
    )
