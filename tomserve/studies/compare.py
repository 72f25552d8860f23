"""`tomserve compare A B`: two runs on the same questions: paired differences, flips both ways, what else differs.

    tomserve compare perturbed-base perturbed-tuned

B is compared with A: a positive difference means that B is right more often. Items that only one of them was asked are
refused, unless the caller asks for what both were asked (`common`); what is left out is then counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from tomserve.errors import ConfigError
from tomserve.runs.runfolder import existing_run, read_manifest
from tomserve.runs.scores import load_scores
from tomserve.scoring.table import TABLES, Note
from tomserve.studies.checking import check
from tomserve.studies.contrasts import Record, contrast, pair
from tomserve.studies.families import adjusted
from tomserve.studies.noise import line
from tomserve.studies.noise import shown as shown_noise
from tomserve.studies.rows import REQUIRED, prepared

SHOWN = 20
SKIPPED = frozenset(
    ("run", "sessions", "created", "endpoints", "complete", "limit", "content", "benchmark_path", "noise")
)
"""Manifest fields that differ between any two runs and explain nothing."""


@dataclass(frozen=True)
class Comparison:
    """What two runs differ in.

    `effects`: a row for each strategy and class of questions, all questions last. `flips`: items that one run has right
    and the other wrong. `differences`: fields of the manifests that differ, as (name, in A, in B). `left_out`: how many
    answers of A and of B the other run lacks. `noise`: the noise floor in words, None where neither run measured it.
    """

    effects: pl.DataFrame
    flips: pl.DataFrame
    differences: list[tuple[str, str, str]]
    left_out: tuple[int, int]
    noise: str | None


def compare(first: str, second: str, *, common: bool = False, note: Note | None = None) -> Comparison:
    """Compare two runs, or score tables, on the questions that both were asked.

    first, second: names or paths of runs, or files of score tables; a positive difference means that the second is
    right more often. common: leave out what only one of them was asked, rather than refuse. note: told which lines
    could not be read. Raises ConfigError where their questions differ and `common` is not set.
    """
    scores = [load_scores(source, note=note) for source in (first, second)]
    a, b = (_rows(source, table) for source, table in zip((first, second), scores, strict=True))
    keys = ["item", "strategy"]
    left_out = (a.join(b, on=keys, how="anti").height, b.join(a, on=keys, how="anti").height)
    if any(left_out) and not common:
        only = a.join(b, on=keys, how="anti") if left_out[0] else b.join(a, on=keys, how="anti")
        item, strategy = only.sort(keys).select("item", "strategy").row(0)
        raise ConfigError(
            f"{first} and {second} were not asked the same: {left_out[0]} and {left_out[1]} answers have no partner "
            f"(first: item {item!r}, strategy {strategy!r}); --common compares what both were asked"
        )
    pairs = pair(b, a, keys)
    if pairs.is_empty():
        raise ConfigError(f"{first} and {second} have no question in common")
    effects = pl.DataFrame(list(_effects(pairs)), infer_schema_length=None)
    floats = [name for name, kind in effects.schema.items() if kind.is_float()]
    effects = effects.with_columns(pl.when(pl.col(name).is_finite()).then(pl.col(name)).alias(name) for name in floats)
    return Comparison(effects, _flips(pairs, a), _differences(first, second), left_out, _noise(scores))


def _rows(source: str, scores: pl.DataFrame) -> pl.DataFrame:
    check(scores, REQUIRED, {})
    if scores["model"].n_unique() > 1:
        raise ConfigError(
            f"{source}: holds several models ({', '.join(sorted(scores['model'].unique()))}); compare runs"
        )
    wanted = dict.fromkeys(("answer", "cluster", "stage", "perturbation"), pl.String)
    return prepared(scores.lazy(), REQUIRED, wanted).collect()


def _effects(pairs: pl.DataFrame) -> Iterator[Record]:
    """The effects of each strategy: by class where the items have one, with p adjusted over the classes, then over all
    questions, where all items have a stage for stages not yet written."""
    for (strategy,), part in pairs.group_by(["strategy"], maintain_order=True):
        named = part.filter(pl.col("perturbation").is_not_null()).group_by(["perturbation"], maintain_order=True)
        classes = [{"strategy": strategy, "perturbation": name, **contrast(one)} for (name,), one in named]
        family = [record["perturbation"] for record in classes]
        staged = part["stage"].null_count() == 0
        whole = {"strategy": strategy, "perturbation": "overall", **contrast(part, "stage" if staged else None)}
        yield from adjusted([*classes, whole], family, words=("A is better", "B is better"), unit="task")


def _flips(pairs: pl.DataFrame, first: pl.DataFrame) -> pl.DataFrame:
    """The items that only one of the two has right, with both answers: "gained" where it is B, "lost" where it is A."""
    before = first.select("item", "strategy", pl.col("answer").alias("answer_a"), pl.col("status").alias("status_a"))
    flipped = pairs.filter(pl.col("correct") != pl.col("control")).join(before, on=["item", "strategy"], how="left")
    return flipped.select(
        "strategy",
        pl.when("correct").then(pl.lit("gained")).otherwise(pl.lit("lost")).alias("flip"),
        "perturbation",
        "item",
        "answer_a",
        pl.col("answer").alias("answer_b"),
        "status_a",
        pl.col("status").alias("status_b"),
    ).sort("strategy", "flip", "item")


def _differences(first: str, second: str) -> list[tuple[str, str, str]]:
    manifests = [read_manifest(existing_run(s)) if not s.endswith(TABLES) else None for s in (first, second)]
    a, b = (_flat(manifest) if manifest else {} for manifest in manifests)
    names = sorted(set(a) | set(b), key=lambda name: (name.count("."), name))
    return [(name, a.get(name, "-"), b.get(name, "-")) for name in names if a.get(name) != b.get(name)]


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested fields under names joined by dots, without what is SKIPPED."""
    fields: dict[str, str] = {}
    for name, inner in value.items():
        if isinstance(inner, dict):
            fields |= _flat(inner, f"{prefix}{name}.")
        elif prefix or name not in SKIPPED:
            fields[f"{prefix}{name}"] = " ".join(map(str, inner)) if isinstance(inner, list) else str(inner)
    return {name: text for name, text in fields.items() if name.partition(".")[0] not in SKIPPED}


def _noise(scores: Sequence[pl.DataFrame]) -> str | None:
    """How often the servers answered the same request differently, as far as the runs have measured it."""
    lines = {name: line(table) for name, table in zip("AB", scores, strict=True)}
    measured_lines = [f"{name}: {text.partition(': ')[2]}" for name, text in lines.items() if text]
    return "; ".join(measured_lines) or None


def summary(comparison: Comparison) -> dict[str, pl.DataFrame]:
    """What the terminal shows: differences a class, the first flips, the first differences of the manifests."""
    effects = comparison.effects.select(
        "strategy",
        "perturbation",
        pl.col("risk_difference").alias("B - A"),
        pl.col("rd_low").alias("low"),
        pl.col("rd_high").alias("high"),
        "p",
        "p_adjusted",
        "gained",
        "lost",
        "n",
        *shown_noise(comparison.effects),
    )
    frames = {"paired differences, with 95% intervals over tasks (overall: over stages)": effects}
    if not comparison.flips.is_empty():
        more = f", first {SHOWN} of {comparison.flips.height}" if comparison.flips.height > SHOWN else ""
        frames[f"flips{more}"] = comparison.flips.select("strategy", "flip", "item", "answer_a", "answer_b").head(SHOWN)
    rows = [{"field": name, "A": a[:60], "B": b[:60]} for name, a, b in comparison.differences[:SHOWN]]
    if rows:
        frames["what differs between the runs"] = pl.DataFrame(rows)
    return frames
