"""What the tables of the perturbation study have in common: the rows they count, the names of the design, and the order
of their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from tomserve.benchmarks.perturbed.stages_1 import PERTURBATIONS
from tomserve.studies.contrasts import pair
from tomserve.studies.rows import BASELINE, REQUIRED
from tomserve.studies.rows import prepared as prepared_rows

DESIGN = ("stage", "perturbation", "scenario", "question_kind")
"""Factors that the items of this benchmark have, and that the study needs."""
CONTROL, OVERALL, VANILLA = "none", "overall", BASELINE
"""The class of the unperturbed stories, that of all stories together, and what other strategies are compared with."""
SUBSETS = {"all": "all questions", "false_belief": "false-belief subset"}
"""The parts of the questions that the tables count, as readers know them."""
PERTURBED = tuple(name for name in PERTURBATIONS if name != CONTROL)
ORDER = {name: place for place, name in enumerate((*PERTURBATIONS, OVERALL, "overall_perturbed"))}
"""The classes of changed stories, and where a class stands in a table."""
METRICS = ("chain_proper", "chain_lcs", "chain_lcps", "chain_transitions")
MORE_METRICS = ("transitions_distinct", "sentence_accuracy", "change_f1", "length")


def prepared(scores: pl.LazyFrame, rules: Sequence[str] = ()) -> pl.DataFrame:
    """One row an answer (see tomserve.studies.rows.prepared); its cluster is the task, one class of one stage.

    rules: the columns of baselines to keep (see tomserve.studies.baselines.Kinds). `complete`: no strategy of the model
    failed on the item. `false_belief`: it belongs to the false-belief subset.
    """
    chain = dict.fromkeys((*METRICS, *(f"chain_{name}" for name in MORE_METRICS)), pl.Float64)
    extra = {**chain, **dict.fromkeys(("chain_proper", "chain_path_proper", "chain_last_correct"), pl.Boolean)}
    extra |= {"answer_matches_last": pl.Boolean, "chain_break": pl.Int64, "chain_break_kind": pl.String}
    extra |= dict.fromkeys(("swapped", "version", "twin", "ground", "belief_role", "aware", "fresh"), pl.String)
    extra |= {"task_questions": pl.Int64}
    floors = [name for name in scores.collect_schema().names() if name.startswith("floor_")]
    return (
        prepared_rows(scores, (*REQUIRED, *DESIGN, *floors, *rules), extra)
        .with_columns(
            cluster=pl.col("stage") + "/" + pl.col("perturbation"),
            false_belief=(pl.col("scenario") == "false_belief") & (pl.col("question_kind") == "belief"),
        )
        .with_columns(complete=~pl.col("faulty").any().over("model", "item"))
        .collect()
    )


def subsets(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows once for all questions and once for the false-belief subset, told apart by the column `subset`."""
    return pl.concat(
        [
            rows.with_columns(pl.lit("all").alias("subset")),
            rows.filter("false_belief").with_columns(pl.lit("false_belief").alias("subset")),
        ]
    )


def with_overall(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows twice: with their own class, and all of them as the class overall."""
    return pl.concat([rows, rows.with_columns(pl.lit(OVERALL).alias("perturbation"))])


def in_order(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame sorted: all questions before the false-belief subset, models by name, vanilla before other strategies,
    classes in the order of the paper, then by the remaining columns of the design."""
    keys: list[pl.Expr] = []
    for name in ("subset", "model", "strategy", "treatment", "sample", "perturbation", "stage", "scenario", "status"):
        if name in frame.columns:
            if name == "strategy":
                keys.append(pl.col(name) != VANILLA)  # what the others are compared with stands first
            placed = pl.col(name).replace_strict(ORDER, default=None, return_dtype=pl.Int64)
            keys.append(placed if name == "perturbation" else pl.col(name))
    return frame.sort(keys, maintain_order=True)


def ordered(records: Iterator[dict[str, Any]], columns: str) -> pl.DataFrame:
    """The records as a sorted frame with those columns (names separated by spaces).

    It has the columns also where there are no records; where vanilla was not asked, for example, there are no effects
    of prompting.
    """
    listed = list(records)
    if not listed:
        return pl.DataFrame(schema=dict.fromkeys(columns.split(), pl.String))
    frame = in_order(pl.DataFrame(listed, infer_schema_length=None))
    missing = [name for name in columns.split() if name not in frame.columns]
    return frame.with_columns(pl.lit(None).alias(name) for name in missing).select(*columns.split())


def with_chains(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of those models and strategies that write belief chains; a chain that is missing there scores 0."""
    asked = rows.filter(pl.col("chain_proper").is_not_null().any().over("model", "strategy"))
    numbers = [pl.col(f"chain_{name}").fill_null(0.0) for name in ("lcs", "lcps", "transitions", *MORE_METRICS)]
    return asked.with_columns(pl.col("chain_proper").fill_null(False), *numbers)


def pairs_of(rows: pl.DataFrame) -> Iterator[tuple[str, str, pl.DataFrame]]:
    """For each model and strategy but vanilla: both names, and its rows paired with vanilla's on the same items."""
    for (model, strategy), treated in rows.group_by(["model", "strategy"], maintain_order=True):
        control = rows.filter(model=model, strategy=VANILLA)
        if strategy != VANILLA and control.height:
            yield str(model), str(strategy), pair(treated, control)


def chained_pairs(rows: pl.DataFrame, sample: pl.DataFrame) -> Iterator[tuple[str, str, str, pl.DataFrame]]:
    """For each model, strategy that writes chains in `rows`, and class (and overall): these names and, of the rows of
    `sample`, its rows paired with vanilla's on the same items."""
    writes = set(with_chains(rows).select("model", "strategy").iter_rows())
    for model, strategy, pairs in pairs_of(sample):
        if (model, strategy) in writes:
            for (name,), part in with_overall(pairs).group_by(["perturbation"], maintain_order=True):
                yield model, strategy, str(name), part
