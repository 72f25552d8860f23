"""What the tables of the perturbation study share: its rows, its names, the order in which things stand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from tomserve.benchmarks.perturbed.stagefile import PERTURBATIONS
from tomserve.studies.contrasts import pair
from tomserve.studies.study import answered, with_columns

REQUIRED = ("model", "strategy", "item", "status", "correct", "stage", "perturbation", "scenario", "question_kind")
CONTROL, VANILLA = "none", "vanilla"
PERTURBED = tuple(name for name in PERTURBATIONS if name != CONTROL)
ORDER = {name: place for place, name in enumerate((*PERTURBATIONS, "overall", "overall_perturbed"))}
METRICS = ("chain_proper", "chain_lcs", "chain_lcps", "chain_transitions")
MORE_METRICS = ("transitions_distinct", "sentence_accuracy", "change_f1", "length")


def prepared(scores: pl.LazyFrame) -> pl.DataFrame:
    """One row an answer, `faulty`, `complete` (no strategy of the model failed on the item), `false_belief`."""
    chain = dict.fromkeys((*METRICS, *(f"chain_{name}" for name in MORE_METRICS)), pl.Float64)
    extra = {**chain, **dict.fromkeys(("chain_proper", "chain_path_proper", "chain_last_correct"), pl.Boolean)}
    extra |= {"answer_matches_last": pl.Boolean, "chain_break": pl.Int64, "chain_break_kind": pl.String}
    extra |= {"answer": pl.String, "swapped": pl.String}
    floors = [name for name in scores.collect_schema().names() if name.startswith("floor_")]
    rows = with_columns(scores, extra).select(*REQUIRED, *extra, *floors)
    faulty = ~answered()
    return (
        rows.with_columns(
            correct=pl.col("correct").fill_null(False) & ~faulty,
            faulty=faulty,
            cluster=pl.col("stage") + "/" + pl.col("perturbation"),
            false_belief=(pl.col("scenario") == "false_belief") & (pl.col("question_kind") == "belief"),
        )
        .with_columns(complete=~pl.col("faulty").any().over("model", "item"))
        .sort("model", "strategy", "item")  # sums of floats, and so the bytes of the tables, follow the order of rows
        .collect()
    )


def subsets(rows: pl.DataFrame) -> pl.DataFrame:
    return pl.concat(
        [
            rows.with_columns(pl.lit("all").alias("subset")),
            rows.filter("false_belief").with_columns(pl.lit("false_belief").alias("subset")),
        ]
    )


def with_overall(rows: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([rows, rows.with_columns(pl.lit("overall").alias("perturbation"))])


def in_order(frame: pl.DataFrame) -> pl.DataFrame:
    """All before false_belief, models by name, vanilla first, classes as in the paper, then as the columns stand."""
    keys: list[pl.Expr] = []
    for name in ("subset", "model", "strategy", "treatment", "sample", "perturbation", "stage", "scenario", "status"):
        if name in frame.columns:
            if name == "strategy":
                keys.append(pl.col(name) != VANILLA)  # what the others are compared with stands first
            placed = pl.col(name).replace_strict(ORDER, default=None, return_dtype=pl.Int64)
            keys.append(placed if name == "perturbation" else pl.col(name))
    return frame.sort(keys, maintain_order=True)


def ordered(records: Iterator[dict[str, Any]], columns: str) -> pl.DataFrame:
    """A frame of the records; with those columns also where there are none, as without vanilla to compare with."""
    found = list(records)
    if not found:
        return pl.DataFrame(schema=dict.fromkeys(columns.split(), pl.String))
    frame = in_order(pl.DataFrame(found, infer_schema_length=None))
    missing = [name for name in columns.split() if name not in frame.columns]
    return frame.with_columns(pl.lit(None).alias(name) for name in missing).select(*columns.split())


def with_chains(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of the model and strategy pairs that write chains; a chain that is not there scores 0."""
    asked = rows.filter(pl.col("chain_proper").is_not_null().any().over("model", "strategy"))
    numbers = [pl.col(f"chain_{name}").fill_null(0.0) for name in ("lcs", "lcps", "transitions", *MORE_METRICS)]
    return asked.with_columns(pl.col("chain_proper").fill_null(False), *numbers)


def pairs_of(rows: pl.DataFrame) -> Iterator[tuple[str, str, pl.DataFrame]]:
    """(model, treatment, its rows paired with vanilla's on the same items)."""
    for (model, strategy), treated in rows.group_by(["model", "strategy"], maintain_order=True):
        control = rows.filter(model=model, strategy=VANILLA)
        if strategy != VANILLA and control.height:
            yield str(model), str(strategy), pair(treated, control)


def chained_pairs(rows: pl.DataFrame, sample: pl.DataFrame) -> Iterator[tuple[str, str, str, pl.DataFrame]]:
    """(model, treatment, class or overall, pairs in `sample`) of the treatments that write chains in `rows`."""
    writes = set(with_chains(rows).select("model", "strategy").iter_rows())
    for model, strategy, pairs in pairs_of(sample):
        if (model, strategy) in writes:
            for (name,), part in with_overall(pairs).group_by(["perturbation"], maintain_order=True):
                yield model, strategy, str(name), part
