"""OpenToM (Xu et al. 2024): 23 questions about each of 596 narratives and of 100 longer tellings.

    tomserve eval --benchmark opentom --path opentom_data
    tomserve items opentom --path opentom_data --where task=attitude --where length=normal

One person moves a thing, for a reason of her own; another sees it or does not. Asked is where each of them takes the
thing to be (location, coarse: is it where it was; fine: in which place), how full and how accessible things have become
to them (multihop), and what the other feels about it (attitude). The factor `label` is the class of the right answer,
by which the study counts the macro-averaged F1; `label_agrees` is false where a label contradicts the plot or what the
same person is said to believe (labels.py). The labels are asked as they are: which of two is meant is not known.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path

import polars as pl
from pydantic import ValidationError

from tomserve.benchmarks.benchmark import Benchmark
from tomserve.benchmarks.findings import Findings, Say, outcome
from tomserve.benchmarks.foreign.auditing import audited
from tomserve.benchmarks.foreign.source import Source
from tomserve.benchmarks.opentom import official
from tomserve.benchmarks.opentom.labels import CLASSES, Question, agreement, places, questions
from tomserve.benchmarks.opentom.reader import Narrative, plain, read
from tomserve.benchmarks.opentom.rules import RULES, class_of
from tomserve.errors import ContentError
from tomserve.items import Factor, Item
from tomserve.items.draw import Draw
from tomserve.scoring.answers import Reading
from tomserve.scoring.metrics import Metric

SOURCE = Source(
    "opentom",
    "seacowx/OpenToM",
    "data/opentom_data",
    "CC BY-NC 4.0",
    "3f22b66",
    tuple(resources.files("tomserve.benchmarks.foreign").joinpath("opentom.txt").read_text("utf-8").split()),
    "It must not be used for training, nor be sent where it may be",
)
DIMENSIONS = {"attitude": "emotion"}
"""What a task asks about where it is no belief."""
JSON = ("json", "fenced", "embedded", "unclosed")
"""How the ways are called in which a reply was read that is, or holds, a JSON object."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[.!?][\"'”’])\s+|\n+")


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """The items of the user's folder, narrative by narrative. gold: not used, as there is one set of right answers.

    Raises ConfigError where there is no folder, ContentError by file and field for what cannot be read.
    """
    del gold
    folder = SOURCE.need(path)
    for told in read(SOURCE, path):
        try:
            asked = questions(told)
        except ValueError as error:
            file, field, reason = error.args
            told_to = f"{reason}; take the official file, or mend this"
            raise ContentError(told_to, path=folder / file, field=field) from None
        for question, agrees in zip(asked, agreement(told, asked), strict=True):
            try:
                yield _item(told, question, agrees)
            except ValidationError as error:
                reason = f"makes no item ({error.errors()[0]['msg']}); take the official file, or mend this"
                field = f"{told.key}[{question.number}]"
                raise ContentError(reason, path=folder / f"{question.part}.json", field=field) from None


def _item(told: Narrative, asked: Question, agrees: bool | None) -> Item:
    named = places(told)
    offered = list(named.values()) if asked.task == "location_fine" else CLASSES[asked.task]
    part = asked.part.removesuffix("_new")
    name = f"opentom/{told.key}{'/long' if told.length == 'long' else ''}/{part}/{asked.number + 1}"
    unseen = asked.perspective == "observer" and not told.observed
    condition = ("false_belief" if unseen else "true_belief") if asked.order == 1 else None
    factors: dict[str, Factor] = {
        "task": asked.task,
        "dimension": "reality" if asked.order == 0 else DIMENSIONS.get(asked.task, "belief"),
        "order": asked.order,
        "perspective": asked.perspective,
        "condition": condition,
        "observed": told.observed,
        "length": told.length,
        "container": asked.place,
        "label": asked.right,
        "label_agrees": agrees,
        **{f"place_{kind}": place for kind, place in named.items()},
    }
    return Item(
        id=name,
        benchmark="opentom",
        story=[part for part in _SENTENCE.split(told.text) if part.strip()],
        question=asked.question,
        choices=sorted(offered, key=lambda one: hashlib.sha256(f"{name} {one}".encode()).digest()),
        answer=named.get(asked.right, asked.right),
        factors=factors,
        cluster=f"opentom/{told.key}",
    )


def validate(path: Path | None, say: Say) -> Findings:
    """Check that the folder is the known one."""
    del say
    every = list(read(SOURCE, path))
    asked = sum(len(part) for told in every for part in told.questions.values())
    problems = [found] if (found := _differs(every)) else []
    lines = (f"{asked:,} questions about {len(every):,} narratives: {outcome(problems)}",)
    return Findings(sections={"problems": tuple(problems)} if problems else {}, lines=lines, code=int(bool(problems)))


def _differs(every: list[Narrative]) -> str | None:
    """How the narratives differ from the known ones; each, normal or long, is a row with its questions."""
    return SOURCE.differences(told.row for told in every)


def audit(path: Path | None, say: Say) -> Findings:
    """Count what the folder holds, how far readers get who follow nobody's mind, and which labels contradict others."""
    del say
    told = list(read(SOURCE, path))
    every = list(load(path))
    wrong = [item for item in every if item.factors["label_agrees"] is False]
    kinds = ("length", "task", "order", "perspective", "observed", "label")
    counts = Counter(tuple(item.factors[name] for name in kinds) for item in wrong)
    table = [{**dict(zip(kinds, key, strict=True)), "labels": count} for key, count in sorted(counts.items(), key=str)]
    lengths = Counter(one.length for one in told)
    differs = _differs(told)
    said = [
        *([differs] if differs else []),
        *([] if lengths["long"] else ["long: meta_data_long.json is not there, so no long narratives are asked."]),
        f"labels: {len(wrong):,} of {sum(item.factors['label_agrees'] is not None for item in every):,} that can be "
        "checked contradict the plot or another label; they are asked as they are (factor label_agrees).",
        f"places: {_unnamed(every):,} of {len(told):,} narratives do not name both places in the words of the answers.",
    ]
    made = audited(every, ("length", "task", "order"), RULES, said)
    tables: Mapping[str, pl.DataFrame] = {"labels": pl.DataFrame(table)} if table else {}
    note = "Labels that contradict the plot, or what the same person is said to believe in the coarse questions."
    return Findings(tables={**made.tables, **tables}, notes={**made.notes, "labels": note}, lines=made.lines)


def _unnamed(every: list[Item]) -> int:
    """How many narratives lack the words of one of their two places."""
    told = {(item.cluster, item.factors["length"]): item for item in every if item.factors["task"] == "location_fine"}
    words = [(" ".join(item.story).casefold(), item.choices) for item in told.values()]
    return sum(not all(plain(choice) in text for choice in choices) for text, choices in words)


def _official(item: Item, reading: Reading) -> Mapping[str, str]:
    """The class of a reply by the authors' reading; of a reply in JSON, that of its answer."""
    if not reading.text:
        return {}
    inner = reading.answer is not None and (reading.parse or "").split("+")[0] in JSON
    text = str(reading.answer) if inner else reading.text
    task = str(item.factors.get("task"))
    if task == "location_fine":
        first, second = (str(item.factors.get(f"place_{kind}")) for kind in CLASSES[task])
        return {"metric_official": official.fine(text, first, second)}
    return {"metric_official": official.stated(task, text)} if task in CLASSES else {}


def _class(item: Item, reading: Reading) -> Mapping[str, str]:
    return {} if reading.answer is None else {"metric_class": class_of(item, reading.answer)}


METRICS = (
    Metric({"metric_class": pl.String}, _class),
    Metric({"metric_official": pl.String}, _official),
)
"""metric_class: the class of the answer that was read; metric_official: the class by the authors' reading."""

BENCHMARK = Benchmark(
    "opentom",
    load,
    papers=(
        "OpenToM: A Comprehensive Benchmark for Evaluating Theory-of-Mind Reasoning "
        "Capabilities of Large Language Models (arXiv:2402.06044)",
    ),
    terms=SOURCE.words,
    study="opentom",
    draw=Draw(whole=("length",), unit=("narrative", "narratives")),
    metrics=METRICS,
    rules=RULES,
    validate=validate,
    audit=audit,
)
"""The value by which tomserve knows the benchmark."""
