"""Shortcuts: how many questions of the perturbed benchmark are answered right by rules that follow nobody's belief.

    tomserve dataset audit

The rules are those that stand in every score table, the learned ones fitted anew. Each is scored for each class, over
all questions and over the false-belief subset, and by the robustness criteria of arXiv 2602.22072. Where a constant or
positional rule passes them on the false-belief subset, the dataset is broken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from tomserve.benchmarks.perturbed.rules import RULES
from tomserve.benchmarks.perturbed.stagefile import PERTURBATIONS, in_false_belief_subset
from tomserve.items import Item
from tomserve.scoring.baselines import GENERIC, Baseline


def audit(
    items: Sequence[Item], learned: Mapping[str, Mapping[str, str]], rules: Sequence[Baseline] = RULES
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """The accuracy of every rule by class, the robustness criteria that it meets, and its kind, as three tables.

    items: all items. learned: the answers of the learned rules, as learned.fitted gives them. rules: those of the
    benchmark, beside which the rules that every benchmark has are scored. The first two tables are over all questions
    and over the false-belief subset. The criteria are those of arXiv 2602.22072: "ostensible" is more than half right
    in the class `none`; "limited robust" also in at least five of the ten classes of perturbation; "robust" in all ten.
    A rule that says nothing of any item is left out.
    """
    frame = pl.DataFrame(_answers(items, learned, rules), infer_schema_length=None)
    both = pl.concat([frame.with_columns(subset=pl.lit("all")), frame.filter(pl.col("subset") == "false_belief")])
    table = (
        pl.concat([both, both.with_columns(perturbation=pl.lit("overall"))])
        .group_by("subset", "rule", "perturbation", maintain_order=True)
        .agg(right=pl.col("right").sum().cast(pl.Int64), total=pl.len().cast(pl.Int64))
    )
    over = pl.col("right") * 2 > pl.col("total")
    classes = pl.col("perturbation").is_in([name for name in PERTURBATIONS if name != "none"])
    criteria = table.group_by("subset", "rule", maintain_order=True).agg(
        ostensible=(over & (pl.col("perturbation") == "none")).any(),
        classes_above=(over & classes).sum().cast(pl.Int64),
    )
    criteria = criteria.with_columns(
        limited_robust=pl.col("ostensible") & (pl.col("classes_above") >= 5),
        robust=pl.col("ostensible") & (pl.col("classes_above") >= 10),
    )
    return table, criteria, frame.select("rule", "kind").unique(maintain_order=True)


def _answers(
    items: Sequence[Item], learned: Mapping[str, Mapping[str, str]], rules: Sequence[Baseline]
) -> Iterator[dict[str, object]]:
    for rule in (*rules, *GENERIC):
        given = {item.id: rule.answer(item) for item in items} if rule.kind != "learned" else learned[rule.name]
        for item in items:
            if given.get(item.id) is not None:
                yield {
                    "rule": rule.name,
                    "kind": rule.kind,
                    "perturbation": item.factors["perturbation"],
                    "subset": "false_belief" if in_false_belief_subset(item.factors) else "rest",
                    "right": given[item.id] == item.answer,
                }
