"""The audit of a Hi-ToM file as lines and tables: every disagreement, their counts, and the baselines."""

from __future__ import annotations

from itertools import groupby

import polars as pl

from tomserve.benchmarks.findings import Findings
from tomserve.benchmarks.hitom.audit import Audit

NOTE = (
    "Disagreements count labels, under 'semantics' questions. Baselines: right/questions and share; chance is the mean "
    "of 1/containers that the story mentions."
)


def tables(audit: Audit) -> dict[str, pl.DataFrame]:
    """Titled tables: counts as "right/total", with their share; chance is the mean of 1/containers mentioned."""
    agreement = audit.agreement().with_columns(cell=pl.format("{}/{}", "agree", "total"))
    baselines = audit.baselines()
    rules = [name for name in ("joint_witness", "first_order", "reality") if name in baselines.columns]
    found = {
        "labels that are the tracker's": agreement.pivot("order", index=["half", "semantics"], values="cell"),
        "questions labelled in two ways": audit.pairs(),
        "disagreements by cause": audit.causes(),
        "answers that differ by semantics": audit.semantics(),
        "baselines against the corrected half": (
            baselines.with_columns(
                pl.format("{}/{} {}", rule, "questions", (pl.col(rule) / pl.col("questions")).round(3)).alias(rule)
                for rule in rules
            ).drop("questions", strict=False)
        ),
    }
    return {title: frame for title, frame in found.items() if frame.height}


def findings(audit: Audit) -> Findings:
    """The audit; its exit code is 1 where a label is not the tracker's under the released semantics, else 0."""
    by_cause = groupby(audit.findings(), key=lambda finding: finding.cause)
    sections = {cause: tuple(finding.text() for finding in found) for cause, found in by_cause}
    stories = len({record.story_id for record in audit.records})
    wrong = audit.rows["cause"].drop_nulls().len()
    total = len(audit.records)
    outcome = f"{total} labels of {stories} stories: {total - wrong} are the tracker's (released), {wrong} are not"
    return Findings(sections=sections, tables=tables(audit), lines=(NOTE, outcome), code=1 if wrong else 0)
