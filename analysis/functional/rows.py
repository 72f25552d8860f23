"""What is counted: for each model the answers, pairs and net effects of its three layers, with their scenarios.

Each layer counts, of every benchmark, the answers of the strategy that asks for the answer alone (see
tomserve.studies.asking), as measurements do unless somebody chose otherwise; the rows of a measurement say by which
strategy they were asked (`asked_by`). S counts the variants of those questions that B counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tomserve.causal.table import (
    CONTROLS,
    HELD_OUT,
    NO_OP,
    PATCH,
    PPT,
    Outcomes,
    find_complete,
    find_incomplete,
    net_effects,
    read_outcomes,
)
from tomserve.stats.functional import Behaviour, Mechanism, ModelLayers, Stability
from tomserve.studies import asking, load_study, pairs, tasks
from tomserve.studies.contrasts import Record
from tomserve.studies.rows import ORIGINAL, has_variants, originals
from tomserve.studies.together import split
from tomserve.variants import KINDS

from . import digests
from .digests import ITEMS
from .whole import with_whole_tasks

COUNTED = ("T1", "T2", "T3", "T4")
"""The kinds of variants that S counts, by their short names."""
NAMES = {kind.short: kind.name for kind in KINDS}
B_NAME, C_NAME, S_NAME = "behaviour", "causal", "stability"
"""The studies of single layers, whose tables this one sets side by side."""

Tables = Mapping[str, pl.DataFrame]


@dataclass(frozen=True)
class Gathered:
    """What was given, by model.

    models: the layers of each. plain: the strategy that is counted, by model and benchmark. told: the tables of the
    studies of single layers, by the study's name; those of stability are of the questions that B counts. measured: by
    model, what of its measurements counts; further: those that do not. asked: the originals; pairs: those that B counts
    with their variants. people: rows that people answered. inputs: the table `inputs`.
    """

    models: Mapping[str, ModelLayers]
    plain: Mapping[tuple[str, str], str]
    told: Mapping[str, Tables]
    measured: Mapping[str, Outcomes]
    further: tuple[Mapping[str, str], ...]
    asked: tasks.Asked | None
    pairs: pairs.Asked | None
    people: pl.DataFrame
    inputs: tuple[Record, ...] = field(default_factory=tuple)


def gathered(scores: pl.LazyFrame) -> Gathered:
    """Everything that the tables count. scores: answers, measurements, or both (see tomserve.studies.together)."""
    answers, moved = split(scores.collect())
    people, answers = _of_people(answers)
    plain = dict(_plain(answers))
    asked = tasks.asked(originals(answers).lazy()) if answers.height else None
    counted = _in_b(answers, asked) if asked is not None else answers
    paired = pairs.asked(counted.lazy()) if counted.height and _paired(counted) else None
    arms = read_outcomes(moved.lazy()) if moved.height else []
    known, further = _chosen(arms, set(answers["benchmark"]) if "benchmark" in answers.columns else set())
    names = [*answers["model"].unique(maintain_order=True)] if answers.height else []
    models = {
        str(name): ModelLayers(
            _behaviour(asked, plain, name), _mechanism(known.get(name)), _stability(paired, plain, name)
        )
        for name in sorted(dict.fromkeys([*names, *known]))
    }
    told: dict[str, Tables] = {}
    if asked is not None:
        told[B_NAME] = with_whole_tasks(load_study(B_NAME).tables(originals(answers).lazy(), "recommended"), asked)
    if paired is not None:
        told[S_NAME] = load_study(S_NAME).tables(counted.lazy(), "recommended")
    if moved.height:
        told[C_NAME] = load_study(C_NAME).tables(moved.lazy(), "recommended")
    benchmarks = {model: one.arm["benchmark"] for model, one in known.items()}
    inputs = tuple(digests.inputs(answers, moved, people, plain, benchmarks))
    return Gathered(models, plain, told, known, further, asked, paired, people, inputs)


def _of_people(answers: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows of runs that people answered, with the questions that they left open, and those of models."""
    if "people" not in answers.columns:
        return answers.clear(), answers
    run = pl.col("run").fill_null("") if "run" in answers.columns else pl.lit("")
    told = answers.with_columns(_run=run)
    theirs = told.filter(pl.col("people").list.len() > 0).select("model", "_run").unique()
    parts = (told.join(theirs, on=["model", "_run"], how=how, maintain_order="left") for how in ("semi", "anti"))
    people, models = (part.drop("_run") for part in parts)
    return people, models


def _in_b(answers: pl.DataFrame, asked: tasks.Asked) -> pl.DataFrame:
    """The answers without the originals that B leaves out, and without their variants: questions about the world, and
    those that their benchmark marks as unusable."""
    key = ("model", "strategy", "_benchmark", "_of")
    original = pl.col(ORIGINAL).cast(pl.String) if ORIGINAL in answers.columns else pl.lit(None, pl.String)
    told = answers.with_columns(_benchmark=digests.benchmark_of(answers), _of=pl.coalesce(original, "item"))
    mind = asked.rows.filter("mind").select("model", "strategy", _benchmark="benchmark", _of="item")
    left = told.filter(original.is_null()).select(key).join(mind, on=key, how="anti")
    return told.join(left, on=key, how="anti", maintain_order="left").drop("_benchmark", "_of")


def _plain(answers: pl.DataFrame) -> Iterator[tuple[tuple[str, str], str]]:
    """The strategy that counts, by model and benchmark: the one that asks for the answer alone."""
    if not answers.height:
        return
    keys = ("model", "benchmark")
    frame = answers.with_columns(benchmark=digests.benchmark_of(answers)).select(*keys, "strategy").unique()
    for (model, benchmark), part in frame.sort(keys).group_by(keys, maintain_order=True):
        for chosen in asking.plain(part["strategy"])[:1]:
            yield (str(model), str(benchmark)), chosen


def _paired(answers: pl.DataFrame) -> bool:
    again = "noise_compared" in answers.columns and bool((answers["noise_compared"].list.len() > 0).any())
    return has_variants(answers) or again


def counted_rows(frame: pl.DataFrame, plain: Mapping[tuple[str, str], str], model: str) -> pl.DataFrame:
    """The rows of a model by the strategy that counts, with the column `scenario`."""
    of = {benchmark: name for (who, benchmark), name in plain.items() if who == model}
    benchmark = pl.when(pl.col("benchmark") == "").then(pl.lit(ITEMS)).otherwise(pl.col("benchmark"))
    own = frame.filter(pl.col("model") == model).with_columns(benchmark=benchmark)
    wanted = pl.col("benchmark").replace_strict(of, default=None, return_dtype=pl.String)
    return own.filter(pl.col("strategy") == wanted).with_columns(scenario=_scenario())


def _scenario() -> pl.Expr:
    """The name of a scenario, by which layers share it: its benchmark and its cluster."""
    return pl.format("{}: {}", "benchmark", "cluster")


def _behaviour(asked: tasks.Asked | None, plain: Mapping[tuple[str, str], str], model: str) -> Behaviour | None:
    if asked is None:
        return None
    rows = counted_rows(asked.rows.filter("mind"), plain, model)
    if not rows.height:
        return None
    chance = rows["chance"].cast(pl.Float64).to_numpy()
    task = rows.select(pl.format("{}: {}", "benchmark", "task")).to_series().to_numpy()
    return Behaviour(rows["correct"].to_numpy(), chance, task, rows["scenario"].to_numpy())


def _stability(found: pairs.Asked | None, plain: Mapping[tuple[str, str], str], model: str) -> Stability | None:
    if found is None:
        return None
    named = pl.col("variant").replace_strict({name: short for short, name in NAMES.items()}, default=None,
                                             return_dtype=pl.String)  # fmt: skip
    rows = counted_rows(found.pairs, plain, model).with_columns(short=named).filter(pl.col("short").is_in(COUNTED))
    if not rows.height:
        return None
    return Stability(rows["same"].to_numpy(), rows["short"].to_numpy(), rows["scenario"].to_numpy(), COUNTED)


def _chosen(arms: list[Outcomes], benchmarks: set[str]) -> tuple[dict[str, Outcomes], tuple[Mapping[str, str], ...]]:
    """The measurement of each model that counts, and those that do not: first one on a benchmark that was asked, too,
    then that with most eligible items."""
    found: dict[str, Outcomes] = {}
    further = []
    ordered = sorted(arms, key=lambda one: (one.arm["benchmark"] not in benchmarks, -one.chosen().height,
                                            one.arm["benchmark"]))  # fmt: skip
    for one in ordered:
        if one.arm["model"] in found:
            further.append(one.arm)
        found.setdefault(one.arm["model"], one)
    return found, tuple(further)


def _mechanism(found: Outcomes | None) -> Mechanism | None:
    if found is None:
        return None
    items = found.chosen()
    own, patch = net_effects(found, PPT, fitted=HELD_OUT, items=items), net_effects(found, PATCH, items=items)
    controls = {name: net_effects(found, name, fitted=HELD_OUT, items=items) for name in CONTROLS}
    lacking = find_incomplete(own, controls) if own.cells else []
    kept = find_complete(own, patch, *controls.values())
    named = items.with_columns(benchmark=pl.lit(found.arm["benchmark"])).select(_scenario()).to_series().to_numpy()
    changed = found.moves.filter(pl.col("map") == NO_OP)["changed_true"].drop_nulls()
    return Mechanism(
        own.values[kept],
        {name: effects.values[kept] for name, effects in controls.items()},
        patch.values[kept],
        named[kept],
        items=int(kept.sum()),
        broken=float(np.mean(np.sort(changed.to_numpy()))) if changed.len() else None,
        lacking=_lacking(lacking),
    )


def _lacking(controls: Sequence[str]) -> str:
    """Why C cannot be counted where controls lack cells; empty where none does."""
    if not controls:
        return ""
    if len(controls) == len(CONTROLS):
        return "no control was measured in every cell of the map"
    named = ", ".join(name.replace("_", " ") for name in controls)
    of, were = ("control", "was") if len(controls) == 1 else ("controls", "were")
    return f"the {of} {named} {were} not measured in every cell of the map"


def again(found: Gathered, model: str) -> bool:
    """Whether originals of a model were asked again, so that T0 stands beside S."""
    if found.pairs is None:
        return False
    return bool(counted_rows(found.pairs.originals, found.plain, model)["levels_compared"].sum())


_SIZE = re.compile(r"(?<![\w.])(?:(\d+)x)?(\d+(?:\.\d+)?)\s?([bm])(?![a-z])", re.IGNORECASE)


def size_of(model: str) -> float | None:
    """How many billions of parameters a model's name says it has; None where it says nothing.

    >>> size_of("Llama-3.1-70B-Instruct"), size_of("mixtral-8x7b"), size_of("smol-135M"), size_of("gpt-4o")
    (70.0, 56.0, 0.135, None)
    """
    found = _SIZE.search(re.sub(r"[-_/]", " ", model))
    if found is None:
        return None
    return int(found[1] or 1) * float(found[2]) * (1.0 if found[3].lower() == "b" else 0.001)
