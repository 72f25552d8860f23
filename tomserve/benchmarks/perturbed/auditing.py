"""The audit of the perturbed dataset as tables: what simple rules score, and whether gold and events agree."""

from __future__ import annotations

import polars as pl

from tomserve.benchmarks.findings import Findings
from tomserve.benchmarks.perturbed.learned import SHIPPED, fitted
from tomserve.benchmarks.perturbed.shortcuts import audit
from tomserve.benchmarks.perturbed.stagefile import PERTURBATIONS, Stage
from tomserve.benchmarks.perturbed.validate import cross_check

ORDER = {name: place for place, name in enumerate((*PERTURBATIONS, "overall"))}


def tables(stages: list[Stage], own: bool = False) -> tuple[dict[str, pl.DataFrame], list[str]]:
    """The tables of the audit by title, and its problems as sentences.

    A problem is a constant or positional rule that reaches "limited robust" Theory of Mind on the false-belief subset;
    and, where these are the dataset's own stages, a learned rule whose answers in the score tables are not those of a
    fit.
    """
    items = [item for stage in stages for item in stage.items("perturbed")]
    learned = fitted(items)
    accuracy, criteria, kinds = audit(items, learned)
    cell = pl.format("{}/{}", "right", "total").alias("cell")
    shown = {}
    for subset, title in (("false_belief", "false-belief subset"), ("all", "all questions")):
        part = accuracy.filter(pl.col("subset") == subset).sort(
            pl.col("perturbation").replace_strict(ORDER, return_dtype=pl.Int64), maintain_order=True
        )
        wide = part.with_columns(cell).pivot("perturbation", index="rule", values="cell")
        shown[f"shortcuts, {title}: right of all"] = wide.transpose(
            include_header=True, header_name="class", column_names="rule"
        )
    shown["shortcuts through the published robustness criteria"] = criteria.join(
        kinds, on="rule", how="left", maintain_order="left"
    )
    shown["hand-written gold against events: sets that agree"] = _agreement(stages)
    plain = kinds.filter(kind="constant")["rule"].to_list()
    bad = criteria.filter((pl.col("subset") == "false_belief") & pl.col("limited_robust") & pl.col("rule").is_in(plain))
    problems = [f"{rule!r} reaches limited robust ToM on the false-belief subset" for rule in bad["rule"]]
    if own:
        problems += SHIPPED.problems(items, learned)
    return shown, problems


def _agreement(stages: list[Stage]) -> pl.DataFrame:
    """How many hand-written sets of beliefs agree with those derived from events, with and without stated inference."""
    rows = [
        {"events": label, "of": layer.which, "same": layer.written == layer.derived}
        for label, inference in (("with inference", True), ("without inference", False))
        for layer in cross_check(stages, inference=inference)
    ]
    return (
        pl.DataFrame(rows)
        .group_by("events", "of", maintain_order=True)
        .agg(agree=pl.col("same").sum().cast(pl.Int64), total=pl.len().cast(pl.Int64))
    )


def findings(stages: list[Stage], own: bool = False) -> Findings:
    """The audit to print; its exit code is 1 where `tables` reports a problem, else 0."""
    shown, problems = tables(stages, own)
    return Findings(tables=shown, lines=tuple(f"problem: {one}" for one in problems), code=1 if problems else 0)
