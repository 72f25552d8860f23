"""ToMi (Le, Boureau and Nickel 2019) and the fixed ToMi: where somebody looks for an object that may have been moved.

    tomserve eval --benchmark tomi --path tomi_balanced_story_types --where split=fb_all_test
    tomserve eval --benchmark tomi --path test_balanced.jsonl
    tomserve items tomi --path tomi_balanced_story_types --gold released

Six questions a story: where the object was at first (memory), where it really is (reality), and where two people look
for it (first order) and think that the other looks (second order). In 1,468 of 17,982 questions of the original file
the label of a second-order question is not what follows from the story: it is the place where the object really is. In
the fixed file this holds of 1 of 1,000 (a first-order question). `--gold` chooses the right answers:

    tracked     (default) what follows from the story (tracker.py). The factor `label_agrees` is false where the file
                has another label, which stands in the factor `released`.
    released    the file's own labels, as the published scores count.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path

import polars as pl
from pydantic import ValidationError

from tomserve.benchmarks.benchmark import Benchmark
from tomserve.benchmarks.findings import Findings, Say, outcome
from tomserve.benchmarks.foreign.auditing import audited
from tomserve.benchmarks.foreign.source import Source, digest
from tomserve.benchmarks.tomi.reader import Record, read
from tomserve.benchmarks.tomi.rules import RULES
from tomserve.benchmarks.tomi.tracker import ORDERS, Asked, Told
from tomserve.items import Factor, Item
from tomserve.items.draw import Draw
from tomserve.scoring.answers import Reading
from tomserve.scoring.metrics import Metric

GOLDS = ("tracked", "released")
SOURCE = Source(
    "tomi",
    "facebookresearch/ToMi",
    "tomi_balanced_story_types.zip",
    "CC BY-NC 4.0",
    "dea2bca",
    note="Unpack it and name the folder. The fixed ToMi is data/fixedtomi/test_balanced.jsonl of "
    "github.com/shawnsihyunlee/simulatedtom (licence: MIT)",
)
FIXED = Source("tomi", "shawnsihyunlee/simulatedtom", "data/fixedtomi/test_balanced.jsonl", "MIT", "15cfd30")
KNOWN = "tomserve.benchmarks.foreign"
"""The package whose file tomi.txt has the digests of the known files: on each line a file's name and its stories'."""


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """The items of the user's file or folder, one a question; a question that comes twice is one item.

    gold: one of GOLDS, None for the first. Raises ConfigError where there is no file, ContentError by file and line.
    """
    seen: set[str] = set()
    for record in read(SOURCE, path):
        item = item_of(record, gold or GOLDS[0])
        if item.id not in seen:
            seen.add(item.id)
            yield item


def item_of(record: Record, gold: str) -> Item:
    """The item of a question. gold: one of GOLDS. Raises ContentError for a question that no item can be made of."""
    try:
        asked = Asked.of(record.question)
    except ValueError as error:
        raise record.refuse("question", str(error)) from None
    try:
        told = Told.of(record.story, asked.object)
        right, real = told.answer(asked), told.answer(Asked("reality", asked.object, ()))
    except ValueError as error:
        raise record.refuse("story", str(error)) from None
    if len(told.places) < 2:
        raise record.refuse("story", f"names one place of the {asked.object} only; expected two or more")
    if record.answer not in told.places:
        raise record.refuse("answer", f"is {record.answer!r:.60}; expected one of {', '.join(told.places)}")
    answer = record.answer if gold == "released" or right is None else right
    believed = asked.task in ("first_order", "second_order")
    story = hashlib.sha256("\n".join(record.story).encode()).hexdigest()[:16]
    name = f"tomi/{story}/{hashlib.sha256(record.question.encode()).hexdigest()[:8]}"
    factors: dict[str, Factor] = {
        "task": asked.task,
        "dimension": "belief" if believed else "reality",
        "order": ORDERS[asked.task],
        "condition": ("true_belief" if right == real else "false_belief") if believed and right else None,
        "question_type": record.question_type,
        "story_type": record.story_type,
        "version": "fixed" if told.roomed else "original",
        "split": record.path.stem[:100],
        "gold": gold,
        "label_agrees": None if right is None else right == record.answer,
        "released": record.answer,
        "tracked": right,
    }
    choices = sorted(told.places, key=lambda place: hashlib.sha256(f"{name} {place}".encode()).digest())
    try:
        return Item(
            id=name,
            benchmark="tomi",
            story=record.story,
            question=record.question,
            choices=choices,
            answer=answer,
            factors=factors,
            cluster=f"tomi/{story}",
        )
    except ValidationError as error:
        raise record.refuse("story", f"makes no item ({error.errors()[0]['msg']})") from None


def differences(path: Path | None) -> list[str]:
    """A sentence for each file at hand that differs from the known one that it shares the most stories with.

    The stories of a file are its rows: their digests are of all questions about them, in the order of the file.
    """
    known = dict(_known())
    stories: dict[Path, dict[tuple[str, ...], bytes]] = {}
    for record in read(SOURCE, path):
        rows = stories.setdefault(record.path, {})
        rows[record.story] = rows.get(record.story, b"") + record.row + b"\n"
    said = []
    for file, rows in stories.items():
        found = set(map(digest, rows.values()))
        shared = {name: len(found.intersection(digests)) for name, digests in known.items()}
        name = max(sorted(shared), key=lambda name: shared[name])
        if not shared[name]:
            said.append(f"{file.name} is none of the known files: {', '.join(sorted(known))}")
            continue
        of = FIXED if name == Path(FIXED.file).name else SOURCE
        source = Source("tomi", of.repository, name, of.licence, of.commit, known[name])
        if differs := source.differences(rows.values()):
            said.append(f"{file.name}: {differs}")
    return said


def _known() -> Iterator[tuple[str, tuple[str, ...]]]:
    for line in resources.files(KNOWN).joinpath("tomi.txt").read_text("utf-8").splitlines():
        name, *digests = line.split()
        yield name, tuple(digests)


def validate(path: Path | None, say: Say) -> Findings:
    """Check that the files are the known ones."""
    del say
    every = list(load(path))
    problems = differences(path)
    wrong = sum(item.factors["label_agrees"] is False for item in every)
    counted = f"{len(every):,} questions about {len({item.cluster for item in every}):,} stories: {outcome(problems)}"
    lines = (counted, f"labels that do not follow from their stories: {wrong:,} (see tomserve dataset audit).")
    return Findings(sections={"problems": tuple(problems)} if problems else {}, lines=lines, code=int(bool(problems)))


def audit(path: Path | None, say: Say) -> Findings:
    """Count what the file holds, how far readers get who follow nobody's mind, and which labels do not follow."""
    del say
    every = list(load(path))
    wrong = [item for item in every if item.factors["label_agrees"] is False]
    unknown = sum(item.factors["label_agrees"] is None for item in every)
    kinds = ("version", "question_type", "story_type")
    counts = Counter(tuple(item.factors[name] for name in kinds) for item in wrong)
    table = [{**dict(zip(kinds, key, strict=True)), "labels": count} for key, count in sorted(counts.items(), key=str)]
    roomless = len({item.cluster for item in every if item.factors["version"] == "original"})
    said = [
        *differences(path),
        f"labels: {len(wrong):,} of {len(every):,} are not what follows from the story, which is right by default.",
        *([f"nothing follows for {unknown:,}, and the file's label is taken for right."] if unknown else []),
        f"rooms: {roomless:,} of {len({item.cluster for item in every}):,} stories do not say in which room the "
        "containers are; it is taken to be that of whoever moves the object.",
    ]
    made = audited(every, ("version", "task", "condition"), RULES, said)
    tables: Mapping[str, pl.DataFrame] = {"labels": pl.DataFrame(table)} if table else {}
    note = "Labels of the file that do not follow from the story, by the file's own types of question and story."
    return Findings(tables={**made.tables, **tables}, notes={**made.notes, "labels": note}, lines=made.lines)


def _official(item: Item, reading: Reading) -> Mapping[str, bool]:
    """SimToM's grade: whether the released label stands anywhere in the reply, in small letters."""
    label = item.factors.get("released")
    if not reading.text or not isinstance(label, str):
        return {}
    said = reading.text.lower()
    return {
        "metric_official": label in said,
        "metric_both_places": all(choice.lower() in said for choice in item.choices),
    }


OFFICIAL = Metric(dict.fromkeys(("metric_official", "metric_both_places"), pl.Boolean), _official)
"""metric_official: the grade of SimToM's program (code/evaluate_tomi.py), which looks for the file's label anywhere in
the reply; metric_both_places: whether the reply names all places, so that this grade says nothing."""

BENCHMARK = Benchmark(
    "tomi",
    load,
    papers=("Revisiting the Evaluation of Theory of Mind through Question Answering (doi:10.18653/v1/D19-1598)",),
    terms=SOURCE.words,
    study="tomi",
    draw=Draw(over=("version", "story_type"), unit=("story", "stories")),
    golds=GOLDS,
    metrics=(OFFICIAL,),
    rules=RULES,
    validate=validate,
    audit=audit,
)
"""The value by which tomserve knows the benchmark."""
