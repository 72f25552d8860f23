"""Audit of the official Hi-ToM file: every label against the tracker, where they disagree, and which sentences
decide.

    tomserve dataset audit hitom --path Hi-ToM_data.json

Baselines are scored against the corrected half: copying what the innermost agent believes, reality, the last thing
that all asked agents saw together, and a uniform guess among the containers that the story mentions.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

import polars as pl

from tomserve.benchmarks.base import Findings
from tomserve.benchmarks.hitom.baselines import answers
from tomserve.benchmarks.hitom.events import Claim, Move, Place, Story, Tell
from tomserve.benchmarks.hitom.items import CORRECTED, HALVES, STALE, Record
from tomserve.benchmarks.hitom.tracker import SEMANTICS, Trace, find_mentioned, trace

CAUSES = ("stale half", "room re-entry", "unexplained", "semantics")
"""Causes of a disagreement, of which the first that holds is named:

    stale half     a label of the VP half that is not the tracker's, nor the CoTP half's for the same question
    room re-entry  a label that is not the tracker's, in a story where agents come back into a room that they had left
    unexplained    any other label that is not the tracker's (none in the official file)
    semantics      the question's answer differs between the two semantics of the tracker; counted a question
"""


class Finding(NamedTuple):
    """One disagreement: a record with its label, both tracked answers, and the sentences that decided them."""

    record: Record
    cause: str
    released: str
    common_knowledge: str
    decided: tuple[str, ...]  # a phrase for each tracked answer, then one for a label that is neither

    def text(self) -> str:
        """One line of the listing."""
        record = self.record
        asked = " > ".join((*record.asked, record.object))
        answers = f"label {record.answer}, released {self.released}, common_knowledge {self.common_knowledge}"
        return f"{record.field} {record.half} sample {record.sample_id}: {asked}: {answers}; {'; '.join(self.decided)}"


class Audit:
    """All labels of a file, compared with the tracker. records: the records of the file."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records
        asked = {(record.story_id, record.object): record.story for record in records}  # by several questions each
        traces = {key: trace(story, key[1]) for key, story in asked.items()}
        self._traces = [traces[record.story_id, record.object] for record in records]
        self._labels = {(record.key, record.half): record.answer for record in records}

    @cached_property
    def rows(self) -> pl.DataFrame:
        """One row for each record: half, order, deception, label, both tracked answers, the twin's label, cause, the
        number of containers mentioned, and whether each baseline answers it right."""
        return pl.DataFrame(list(map(self._row, self.records, self._traces)), infer_schema_length=None)

    def _row(self, record: Record, traced: Trace) -> dict[str, Any]:
        released, common = (traced.belief(record.asked, name) for name in SEMANTICS)
        corrected = self._labels.get((record.key, CORRECTED), record.answer)
        cause = None
        if record.answer != released:
            cause = "room re-entry" if record.story.reentered else "unexplained"
            cause = "stale half" if record.half == STALE and record.answer != corrected else cause
        rules = answers(traced, record.asked)
        return {
            **{"key": record.key, "half": record.half, "order": record.order, "deception": record.deception},
            **{"label": record.answer, "released": released, "common_knowledge": common, "cause": cause},
            "twin": self._labels.get((record.key, STALE if record.half == CORRECTED else CORRECTED)),
            "mentioned": len(find_mentioned(record.story.sentences(), record.choices)),
            **{name: rules[rule] == record.answer for name, rule in BASELINES.items()},
        }

    def findings(self) -> Iterator[Finding]:
        """Disagreements by cause, then order, deception and place in the file."""
        found = []
        asked: set[str] = set()
        for record, traced, row in zip(self.records, self._traces, self.rows.iter_rows(named=True), strict=True):
            causes = [row["cause"]] if row["cause"] else []
            if row["released"] != row["common_knowledge"] and record.key not in asked:
                asked.add(record.key)
                causes.append("semantics")
            for cause in causes:
                decided = _explain_decision(record, traced, row)
                found.append(Finding(record, cause, row["released"], row["common_knowledge"], decided))
        yield from sorted(found, key=lambda f: (CAUSES.index(f.cause), f.record.order, f.record.deception))

    def agreement(self) -> pl.DataFrame:
        """How many labels are the tracker's, by half, semantics and order (with "all" for the total of a half)."""
        agree = self.rows.select(
            "half",
            pl.col("order").cast(pl.String),
            *((pl.col("label") == pl.col(name)).alias(name) for name in SEMANTICS),
        )
        both = pl.concat([agree, agree.with_columns(order=pl.lit("all"))]).unpivot(
            SEMANTICS, index=["half", "order"], variable_name="semantics", value_name="agree"
        )
        counts = both.group_by("half", "semantics", "order").agg(
            pl.col("agree").sum().cast(pl.Int64), total=pl.len().cast(pl.Int64)
        )
        rank = {name: place for place, name in enumerate((*HALVES, *SEMANTICS))}
        return counts.sort(*(pl.col(name).replace_strict(rank) for name in ("half", "semantics")), "order")

    def pairs(self) -> pl.DataFrame:
        """How many questions have different labels in the two halves, by order, and how often each half is right."""
        differ, label = pl.col("label") != pl.col("twin"), pl.col("released")
        return _count(
            self.rows.filter((pl.col("half") == CORRECTED) & pl.col("twin").is_not_null()),
            ["order"],
            pairs=pl.lit(value=True),
            differ=differ,
            corrected_tracked=differ & (pl.col("label") == label),
            stale_tracked=differ & (pl.col("twin") == label),
        )

    def causes(self) -> pl.DataFrame:
        """The number of disagreements by cause, order and deception."""
        rows = [(f.cause, f.record.order, f.record.deception) for f in self.findings()]
        schema = {"cause": pl.String, "order": pl.Int64, "deception": pl.Boolean}
        frame = pl.DataFrame(rows, schema=schema, orient="row")
        return frame.group_by(*schema, maintain_order=True).agg(count=pl.len().cast(pl.Int64))

    def semantics(self) -> pl.DataFrame:
        """How many distinct questions have another answer by the other semantics, by order and deception."""
        first = self.rows.unique("key", keep="first", maintain_order=True)
        differ = pl.col("released") != pl.col("common_knowledge")
        return _count(first, ["order", "deception"], differ=differ, questions=pl.lit(value=True))

    def baselines(self) -> pl.DataFrame:
        """How many answers of every baseline are the labels of the corrected half, by order, out of `questions`.
        `chance` is the mean of 1 / containers mentioned, `mentioned` their mean number."""
        rows = self.rows.filter(pl.col("half") == CORRECTED)
        right = _count(rows, ["order"], questions=pl.lit(value=True), **{name: pl.col(name) for name in BASELINES})
        means = rows.group_by("order").agg(
            chance=(1 / pl.col("mentioned")).mean(), mentioned=pl.col("mentioned").mean()
        )
        return right.join(means, on="order", maintain_order="left")


BASELINES = {"joint_witness": "joint witness", "first_order": "first order", "reality": "always reality"}
"""The columns of the baselines, and the rules of baselines.py that they are."""


def _count(rows: pl.DataFrame, by: list[str], **conditions: pl.Expr) -> pl.DataFrame:
    """How many rows meet each condition, by these columns."""
    each = rows.select(*by, **conditions)
    return each.group_by(by).agg(pl.col(name).sum().cast(pl.Int64) for name in conditions).sort(by)


def _explain_decision(record: Record, traced: Trace, row: dict[str, Any]) -> tuple[str, ...]:
    lines: dict[str, str] = {}
    for name in SEMANTICS:
        line = traced.deciding_line(record.asked, name)
        lines.setdefault(row[name], f"{row[name]} by {_sentence(record.story, line)}")
    if record.answer not in lines:
        line = _find_last_statement(record.story, record.object, record.answer)
        source = "last in" if line is not None else f"for the {record.object} in"
        lines[record.answer] = f"label {record.answer} {source} {_sentence(record.story, line)}"
    return tuple(lines.values())


def _sentence(story: Story, line: int | None) -> str:
    return "no sentence" if line is None else f"{line + 1} {story.events[line].text()!r}"


def _find_last_statement(story: Story, obj: str, container: str) -> int | None:
    """The last sentence (0-based) that puts `obj` into `container`, or says that it is there."""
    lines = [
        line
        for line, event in enumerate(story.events)
        if isinstance(event, Place | Move | Claim | Tell) and (event.object, event.container) == (obj, container)
    ]
    return lines[-1] if lines else None


NOTE = (
    "Disagreements count labels, under 'semantics' questions. Baselines: right/questions and share; chance is the mean "
    "of 1/containers that the story mentions."
)


def audit_tables(audit: Audit) -> dict[str, pl.DataFrame]:
    """Titled tables: counts as "right/total", with their share; chance is the mean of 1/containers mentioned."""
    agreement = audit.agreement().with_columns(cell=pl.format("{}/{}", "agree", "total"))
    shares = (
        pl.format("{}/{} {}", rule, "questions", (pl.col(rule) / pl.col("questions")).round(3)).alias(rule)
        for rule in BASELINES
    )
    found = {
        "labels that are the tracker's": agreement.pivot("order", index=["half", "semantics"], values="cell"),
        "questions labelled in two ways": audit.pairs(),
        "disagreements by cause": audit.causes(),
        "answers that differ by semantics": audit.semantics(),
        "baselines against the corrected half": audit.baselines().with_columns(shares).drop("questions"),
    }
    return {title: frame for title, frame in found.items() if frame.height}


def audit_findings(audit: Audit) -> Findings:
    """The audit; its exit code is 1 where a label is not the tracker's under the released semantics, else 0."""
    by_cause = groupby(audit.findings(), key=lambda finding: finding.cause)
    sections = {cause: tuple(finding.text() for finding in found) for cause, found in by_cause}
    stories = len({record.story_id for record in audit.records})
    wrong = audit.rows["cause"].drop_nulls().len()
    total = len(audit.records)
    outcome = f"{total} labels of {stories} stories: {total - wrong} are the tracker's (released), {wrong} are not"
    return Findings(sections=sections, tables=audit_tables(audit), lines=(NOTE, outcome), code=1 if wrong else 0)
