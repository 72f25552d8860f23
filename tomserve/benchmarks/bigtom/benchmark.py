"""BigToM as a benchmark: false and true beliefs, and what people do by them (Gandhi et al. 2023, arXiv 2306.15448).

    tomserve eval --benchmark bigtom --path bigtom.csv
    tomserve eval --benchmark bigtom --path bigtom.csv --where condition=false_belief --where init_belief=1
    tomserve items bigtom --path bigtom.csv --where all

Asked by default is what the paper reports: belief and action asked forward from what the person perceives, and belief
backward from what she does, each with a true and a false belief, without the sentence on what she believed at first
(the factor `headline`: six questions a template). `--where` chooses others, or `all`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path

import polars as pl

from tomserve.benchmarks.benchmark import Benchmark
from tomserve.benchmarks.bigtom import conditions, triples
from tomserve.benchmarks.bigtom.official import SCORING
from tomserve.benchmarks.bigtom.rules import PLACES, RULES, named_first
from tomserve.benchmarks.bigtom.template import Template, read, row_bytes, rows
from tomserve.benchmarks.case import Case, NoCase
from tomserve.benchmarks.findings import Findings, Say, outcome
from tomserve.benchmarks.foreign.auditing import audited
from tomserve.benchmarks.foreign.source import Source, digest
from tomserve.items import Item
from tomserve.items.draw import Draw


def _known(kind: str) -> Iterator[list[str]]:
    """Lines of the shipped list of digests that begin with this word, without it."""
    listed = resources.files("tomserve.benchmarks.foreign").joinpath("bigtom.txt").read_text("utf-8")
    return (words[1:] for words in map(str.split, listed.splitlines()) if words and words[0] == kind)


SOURCE = Source(
    "bigtom",
    "cicl-stanford/procedural-evals-tom",
    "data/bigtom/bigtom.csv",
    "MIT",
    "fe647d6",
    tuple(found for (found,) in _known("row")),
)


def templates(path: Path | None) -> list[Template]:
    """The templates of the user's file. Raises ConfigError where there is none, ContentError for a row that is none."""
    text = SOURCE.text(path)
    return read(text, path or Path(SOURCE.file))


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """All items of all templates. gold: not used, as there is one set of right answers."""
    del gold
    for template in templates(path):
        yield from conditions.items(template)


def cases(path: Path | None = None, where: Sequence[str] = ()) -> Iterator[Case | NoCase]:
    """The cases of all templates, whatever the conditions; see tomserve.benchmarks.bigtom.triples."""
    del where
    return triples.cases(templates(path))


def validate(path: Path | None, say: Say) -> Findings:
    """Check that the file is the known one, and that the official files that are made of it are the published ones."""
    del say
    text = SOURCE.text(path)
    found = templates(path)
    differs = SOURCE.differences(row_bytes(row) for _, row in rows(text, path or Path(SOURCE.file)))
    made = conditions.official(found)
    published = dict(_known("file"))
    alike = [name for name in conditions.FILES if digest(made[name]) == published[name]]
    problems = [differs] if differs else []
    if len(alike) < len(conditions.FILES):
        problems.append(f"{len(conditions.FILES) - len(alike)} of the 25 files that the authors make of it are others")
    told = f"{len(found)} templates; {len(alike)} of 25 official files are made byte by byte: {outcome(problems)}"
    return Findings(sections={"problems": tuple(problems)} if problems else {}, lines=(told,), code=int(bool(problems)))


def audit(path: Path | None, say: Say) -> Findings:
    """Count what the file holds and how far readers get who follow nobody's mind, and say its known faults."""
    del say
    found = templates(path)
    every = [item for template in found for item in conditions.items(template)]
    asked = [item for item in every if item.factors["headline"]]
    differs = SOURCE.differences(row_bytes(row) for _, row in rows(SOURCE.text(path), path or Path(SOURCE.file)))
    made = audited(asked, ("task", "condition"), RULES, (*([differs] if differs else []), *_faults(found, asked)))
    by_part = pl.DataFrame([_part(items) for items in _parts(every)])
    return Findings(
        tables={"all items": by_part, **made.tables},
        notes={
            **made.notes,
            "all": "All items by task, condition and initial belief; `--where` chooses among them. The "
            "tables below are of those that are asked by default (headline=true).",
        },
        lines=made.lines,
    )


def _parts(items: list[Item]) -> Iterator[list[Item]]:
    names = ("task", "condition", "init_belief")
    kinds = dict.fromkeys(tuple(item.factors[name] for name in names) for item in items)
    for kind in kinds:
        yield [item for item in items if tuple(item.factors[name] for name in names) == kind]


def _part(items: list[Item]) -> dict[str, object]:
    first = items[0].factors
    names = ("task", "condition", "init_belief", "headline", "usable")
    return {**{name: first[name] for name in names}, "questions": len(items), "official_files": first["files"]}


def _faults(found: list[Template], asked: list[Item]) -> Iterator[str]:
    """What is known to be wrong with the file, each in a sentence with its count."""
    beliefs = [item for item in asked if item.factors["task"] == "forward_belief"]
    initial = [item for item in beliefs if item.factors["condition"] == "false_belief"]
    first = sum(named_first(item) == item.answer for item in initial)
    yield f"order: {first} of {len(initial)} belief questions name the state before the event first."
    same = sum(one.strip() == other.strip() for one, other in (template.answers("desire") for template in found))
    yield f"desire: {same} of {len(found)} templates have one answer twice, so backward_desire is usable=false."
    strange = [
        one.number for one in found if one.person not in one.cells["action aware"] + one.cells["action not aware"]
    ]
    if strange:
        yield f"names: somebody else acts than is asked about in template {', '.join(map(str, strange))}."


BENCHMARK = Benchmark(
    "bigtom",
    load,
    papers=("Understanding Social Reasoning in Language Models with Language Models (arXiv:2306.15448)",),
    terms=SOURCE.words,
    study="bigtom",
    strategies=("vanilla", "cot"),
    draw=Draw(unit=("template", "templates")),
    metrics=(PLACES, SCORING),
    rules=RULES,
    validate=validate,
    audit=audit,
    usual=("headline=true",),
    cases=cases,
    usual_cases=("task=forward_belief",),
)
"""The value by which tomserve knows the benchmark."""
