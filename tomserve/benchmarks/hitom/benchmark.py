"""Hi-ToM (arXiv 2310.16755): where does A think B thinks ... the object is, orders 0 to 4, with and without lies.

    tomserve items hitom --where order=3 --where deception=false
    tomserve items hitom --path Hi-ToM_data.json

Without `--path`: 120 stories of our own x orders 0 to 4 (3 lengths x with and without lies x 20, as in the paper),
generated from seed 0 when they are asked for (generator.py), with gold chains; BUILT_IN is the plan.
With it: a file that `tomserve generate hitom` wrote, or the official one; which of them, its content tells.

The official file holds every question twice, in a CoTP and a VP half whose labels differ in places, so the answer has
to be chosen by name (`--gold`):

    corrected   (default) one item a distinct question, with the label of the CoTP half, which the authors corrected.
                Where that label is not the tracker's (17 of 600, all in stories that enter a room again; see `dataset
                audit hitom`) the factor `label_agrees` is false and the item has no gold chain.
    tracked     one item a distinct question, with the tracker's answer under the `released` semantics.
    released    one item a record, with the file's own label, stale ones too; factor `prompting_type` tells the half.

The factor `gold` names the choice, so that every table can say what its answers were compared with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson

from tomserve.benchmarks.benchmark import Benchmark
from tomserve.benchmarks.findings import Findings, Say
from tomserve.benchmarks.hitom import explain, knowledge
from tomserve.benchmarks.hitom.generating import generate
from tomserve.benchmarks.hitom.generator import items
from tomserve.benchmarks.hitom.plan import Plan
from tomserve.benchmarks.hitom.question_item import make_item, story_factors
from tomserve.benchmarks.hitom.reader import CORRECTED, Record, read_records
from tomserve.benchmarks.hitom.retelling import retelling
from tomserve.benchmarks.hitom.rules import RULES
from tomserve.benchmarks.hitom.tracker import trace
from tomserve.errors import ConfigError, ContentError
from tomserve.items import Factor, Item, read_items
from tomserve.items.draw import Draw

GOLDS = ("corrected", "tracked", "released")
BUILT_IN = Plan(stories=120, seed=0)


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """The built-in items, those of a generated file, or those of the official one with answers as `gold` says (one of
    GOLDS, None for the first).

    Raises ContentError for what cannot be read, ConfigError for another gold than the default where there is one only.
    """
    gold = gold or GOLDS[0]
    if path is not None and not _is_items(path):
        records = read_records(path)
        for record in records if gold == "released" else _questions(records, path, gold):
            yield _item(record, gold)
        return
    if gold != GOLDS[0]:
        raise ConfigError(f"--gold {gold!r}: only the official file has several sets of answers; leave --gold out")
    for item in items(BUILT_IN) if path is None else read_items(path):
        if item.benchmark != "hitom":
            raise ContentError(
                f"item {item.id!r} is of benchmark {item.benchmark!r}; use --benchmark items", path=path or "built-in"
            )
        yield item


def _is_items(path: Path) -> bool:
    """Whether a file is JSONL of items; the official one is a single object with the field "data"."""
    try:
        with path.open("rb") as file:
            line = next((line for line in file if line.strip()), b"")
        first = orjson.loads(line)
    except (OSError, orjson.JSONDecodeError):
        return False
    return isinstance(first, dict) and "data" not in first and ("id" in first or "story" in first)


def _questions(records: Sequence[Record], path: Path, gold: str) -> list[Record]:
    """One record for each distinct question, that of the corrected half if there is one, in the order of the file."""
    found: dict[str, Record] = {}
    for record in records:
        if record.key not in found or record.half == CORRECTED:
            found[record.key] = record
    for record in found.values():
        if gold == "corrected" and record.half != CORRECTED:
            reason = (
                f"no {CORRECTED} record asks this, and labels of the {record.half} half may be stale; "
                "use --gold tracked, or --gold released for the file's own"
            )
            raise ContentError(reason, path=path, field=f"{record.field}.prompting_type")
    return list(found.values())


def _item(record: Record, gold: str) -> Item:
    factors: dict[str, Factor] = {
        "length": record.length,
        "deception": record.deception,
        "object": record.object,
        "gold": gold,
    }
    if gold == "released":
        factors["prompting_type"] = record.half
    return make_item(
        record.story,
        trace(record.story, record.object),
        record.asked,
        record.object,
        record.choices,
        {**factors, **story_factors(record.story, record.choices)},
        answer=None if gold == "tracked" else record.answer,
        suffix=f"/{record.half}" if gold == "released" else "",
    )


def audit(path: Path | None, say: Say) -> Findings:
    """Compare every label of the official file with the tracker (see tomserve.benchmarks.hitom.auditing).

    Raises ConfigError where no file is given.
    """
    from tomserve.benchmarks.hitom.audit import Audit  # imported here, because asking needs none of it
    from tomserve.benchmarks.hitom.auditing import findings

    del say
    if path is None:
        raise ConfigError("the audit of 'hitom' needs the official file: --path Hi-ToM_data.json")
    return findings(Audit(read_records(path)))


BENCHMARK = Benchmark(
    "hitom",
    load,
    papers=(
        "Hi-ToM: A Benchmark for Evaluating Higher-Order Theory of Mind Reasoning in Large "
        "Language Models (arXiv:2310.16755)",
    ),
    study="hitom",
    reasoned=("order=1,2,3,4",),
    strategies=("hitom_vanilla", "hitom_cot"),
    draw=Draw(over=("length", "deception"), unit=("story", "stories")),
    golds=GOLDS,
    lettered=True,
    metrics=(explain.PLACES,),
    rules=RULES,
    beliefs=knowledge.who_knows_what,
    audit=audit,
    generate=generate,
    retelling=retelling,
)
