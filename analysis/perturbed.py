"""The perturbation study as published (arXiv 2602.22072), from a score table to every table of the paper.

    tomserve analyze perturbed-reference --study perturbed --intervals published --out tables --format csv

The sample, as published: an item is left out of a model's tables where the output of any of its strategies was faulty
(column `dropped` counts them); `tasks`, `chains` and `failures` keep every row, failures as wrong. Intervals take the
questions as independent, which they are not. Undefined values are nan; shares are compared with 1/2 as fractions.

accuracy              by class; `overall` pools all eleven classes
perturbation_effects  class against class "none", same model and strategy; overall = as published, its own control
                      included, which understates it; overall_perturbed = the ten classes only
prompting_effects     strategy against vanilla on the same items, the interval as if they were different ones
faithfulness          correlation of chain metrics with right answers on the false-belief subset; sample published =
                      all rows, faulty ones as wrong with chain metrics 0, which inflates phi
criteria              ostensible: class none above 1/2; limited_robust: five of the ten classes; robust: all ten
challenging           the classes among a model's five lowest effects (all that tie with the fifth are in), for at least
                      two thirds of the models
placebo               effect of the strategy where its chain was proper or not (false-belief subset); "placebo": a clear
                      gain with improper chains. Descriptive: chain correctness comes after the treatment
subtasks, tasks       accuracy by scenario and question; how many of a task's 16 questions are right
chains                means of the chain metrics; break_sentence, break_kind: where improper chains most often leave the
                      gold paths, `breaks`: how many do so there; floor_*: what knowing nothing scores
failures              by status, with the accuracy if all failures were wrong or all right
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import polars as pl

from tomserve.reporting.layout import Layout
from tomserve.stagefile import PERTURBATIONS, SCENARIOS
from tomserve.stats import published
from tomserve.studies import answered, with_columns

REQUIRED = ("model", "strategy", "item", "status", "correct", "stage", "perturbation", "scenario", "question_kind")
VALUES = {
    "perturbation": PERTURBATIONS,
    "scenario": tuple(dict.fromkeys(name for names in SCENARIOS.values() for name in names)),
    "question_kind": ("reality", "belief"),
}
INTERVALS = ("published",)
CONTROL, VANILLA = "none", "vanilla"
PERTURBED = tuple(name for name in PERTURBATIONS if name != CONTROL)
ORDER = {name: place for place, name in enumerate((*PERTURBATIONS, "overall", "overall_perturbed"))}
METRICS = ("chain_proper", "chain_lcs", "chain_lcps", "chain_transitions")
MORE_METRICS = ("transitions_distinct", "sentence_accuracy", "change_f1", "length")
SUBTASKS = 16
LAYOUTS = {
    "accuracy": Layout("accuracy", ("ci_low", "ci_high"), columns=("model", "strategy"), by="subset", above=0.5),
    "perturbation_effects": Layout(
        "risk_difference", ("rd_low", "rd_high"), columns=("model", "strategy"), by="subset"
    ),
    "prompting_effects": Layout("risk_difference", ("rd_low", "rd_high"), columns=("model", "treatment"), by="subset"),
}
Counts = dict[tuple[str, str, str, str], tuple[int, int]]


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """Every table of the study, by name. scores: a score table; intervals: "published"."""
    del intervals  # the published ones are all there is; the loader refuses others
    rows = _prepared(scores)
    accuracy = _accuracy(rows)
    keys = ("subset", "model", "strategy", "perturbation")
    counts: Counts = {tuple(row[:4]): tuple(row[4:]) for row in accuracy.select(*keys, "correct", "total").iter_rows()}  # type: ignore[misc]
    contrast = "risk_difference rd_low rd_high relative_risk rr_low rr_high"
    named = {
        "perturbation_effects": (_perturbation_effects(counts), f"subset model strategy perturbation {contrast} note"),
        "prompting_effects": (
            _prompting_effects(rows),
            f"subset model perturbation treatment control {contrast} n note",
        ),
        "faithfulness": (
            _faithfulness(rows),
            "model strategy sample metric coefficient value ci_low ci_high p_value n faithful",
        ),
        "criteria": (
            _criteria(counts),
            "subset model strategy rule ostensible classes_above limited_robust robust classes_tested",
        ),
        "challenging": (_challenging(counts), "subset strategy perturbation models_in_top_five models challenging"),
        "placebo": (
            _placebo(rows),
            "model strategy perturbation chain risk_difference rd_low rd_high n verdict subset",
        ),
    }
    return {
        "accuracy": accuracy,
        **{name: _ordered(records, columns) for name, (records, columns) in named.items()},
        "subtasks": _subtasks(rows),
        "tasks": _tasks(rows),
        "chains": _chains(rows),
        "failures": _failures(rows),
    }


def _prepared(scores: pl.LazyFrame) -> pl.DataFrame:
    """One row an answer, `faulty`, `complete` (no strategy of the model failed on the item), `false_belief`."""
    chain = dict.fromkeys((*METRICS, *(f"chain_{name}" for name in MORE_METRICS)), pl.Float64)
    extra = {**chain, "chain_proper": pl.Boolean, "answer_matches_last": pl.Boolean}
    extra |= {"chain_break": pl.Int64, "chain_break_kind": pl.String, "answer": pl.String}
    floors = [name for name in scores.collect_schema().names() if name.startswith("floor_")]
    rows = with_columns(scores, extra).select(*REQUIRED, *extra, *floors)
    faulty = ~answered()
    return (
        rows.with_columns(
            correct=pl.col("correct").fill_null(False) & ~faulty,
            faulty=faulty,
            false_belief=(pl.col("scenario") == "false_belief") & (pl.col("question_kind") == "belief"),
        )
        .with_columns(complete=~pl.col("faulty").any().over("model", "item"))
        .sort("model", "strategy", "item")  # sums of floats, and so the bytes of the tables, follow the order of rows
        .collect()
    )


def _subsets(rows: pl.DataFrame) -> pl.DataFrame:
    return pl.concat(
        [
            rows.with_columns(pl.lit("all").alias("subset")),
            rows.filter("false_belief").with_columns(pl.lit("false_belief").alias("subset")),
        ]
    )


def _with_overall(rows: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([rows, rows.with_columns(pl.lit("overall").alias("perturbation"))])


def _sorted(frame: pl.DataFrame) -> pl.DataFrame:
    """All before false_belief, models by name, vanilla first, classes as in the paper, then as the columns stand."""
    keys: list[pl.Expr] = []
    for name in ("subset", "model", "strategy", "treatment", "sample", "perturbation", "stage", "scenario", "status"):
        if name in frame.columns:
            if name == "strategy":
                keys.append(pl.col(name) != VANILLA)  # what the others are compared with stands first
            placed = pl.col(name).replace_strict(ORDER, default=None, return_dtype=pl.Int64)
            keys.append(placed if name == "perturbation" else pl.col(name))
    return frame.sort(keys, maintain_order=True)


def _ordered(records: Iterator[dict[str, Any]], columns: str) -> pl.DataFrame:
    """A frame of the records; with those columns also where there are none, as without vanilla to compare with."""
    found = list(records)
    if not found:
        return pl.DataFrame(schema=dict.fromkeys(columns.split(), pl.String))
    return _sorted(pl.DataFrame(found, infer_schema_length=None)).select(*columns.split())


def _accuracy(rows: pl.DataFrame) -> pl.DataFrame:
    keys = ["subset", "model", "strategy", "perturbation"]
    counted = (
        _with_overall(_subsets(rows))
        .group_by(keys, maintain_order=True)
        .agg(
            (pl.col("correct") & pl.col("complete")).sum().cast(pl.Int64).alias("correct"),
            pl.col("complete").sum().cast(pl.Int64).alias("total"),
            (~pl.col("complete")).sum().cast(pl.Int64).alias("dropped"),
        )
    )
    return _sorted(_shares(counted, "dropped"))


def _shares(counted: pl.DataFrame, *last: str) -> pl.DataFrame:
    """Add accuracy and its interval; nan where nothing was counted."""
    bounds = [published.accuracy_interval(*pair) for pair in counted.select("correct", "total").iter_rows()]
    return counted.with_columns(
        (pl.col("correct") / pl.col("total")).alias("accuracy"),
        pl.Series("ci_low", [low for low, _ in bounds], pl.Float64),
        pl.Series("ci_high", [high for _, high in bounds], pl.Float64),
    ).select(pl.exclude(last), *last)


def _arms(counts: Counts) -> Iterator[tuple[tuple[str, str, str], dict[str, tuple[int, int]]]]:
    found: dict[tuple[str, str, str], dict[str, tuple[int, int]]] = {}
    for (subset, model, strategy, name), pair in counts.items():
        found.setdefault((subset, model, strategy), {})[name] = pair
    yield from found.items()


def _contrast(treated: tuple[int, int], control: tuple[int, int]) -> dict[str, Any]:
    difference = published.risk_difference(*treated, *control)
    ratio = published.risk_ratio(*treated, *control)
    names = ("risk_difference", "rd_low", "rd_high", "relative_risk", "rr_low", "rr_high")
    return dict(zip(names, (*difference, *ratio), strict=True))


def _perturbation_effects(counts: Counts) -> Iterator[dict[str, Any]]:
    for (subset, model, strategy), cells in _arms(counts):
        none = cells.get(CONTROL, (0, 0))
        overall = cells["overall"]
        perturbed = overall[0] - none[0], overall[1] - none[1]
        for name, cell in {**cells, "overall_perturbed": perturbed}.items():
            if name != CONTROL:
                note = "its own control is among the treated" if name == "overall" else None
                key = {"subset": subset, "model": model, "strategy": strategy, "perturbation": name}
                yield {**key, **_contrast(cell, none), "note": note}


def _pairs(rows: pl.DataFrame) -> Iterator[tuple[str, str, pl.DataFrame]]:
    """(model, treatment, complete rows of the treatment with `control`: whether vanilla was right on that item)."""
    whole = rows.filter("complete")
    for (model, strategy), treated in whole.group_by(["model", "strategy"], maintain_order=True):
        control = whole.filter(model=model, strategy=VANILLA).select("item", pl.col("correct").alias("control"))
        if strategy != VANILLA and control.height:
            yield str(model), str(strategy), treated.join(control, on="item", how="inner")


def _pair_counts(part: pl.DataFrame) -> tuple[tuple[int, int], tuple[int, int]]:
    return (int(part["correct"].sum()), part.height), (int(part["control"].sum()), part.height)


def _prompting_effects(rows: pl.DataFrame) -> Iterator[dict[str, Any]]:
    for model, strategy, pairs in _pairs(rows):
        parts = _with_overall(_subsets(pairs)).group_by(["subset", "perturbation"], maintain_order=True)
        for (subset, name), part in parts:
            treated, control = _pair_counts(part)
            note = None
            if treated[0] == 0 < control[0]:
                note = "the paper's table prints 1 [0, inf] in such cells"
            elif control[0] == 0 < treated[0]:
                note = "the paper's table prints 1 [1, 1] in such cells"
            key = {"subset": subset, "model": model, "perturbation": name, "treatment": strategy, "control": VANILLA}
            yield {**key, **_contrast(treated, control), "n": part.height, "note": note}


def _with_chains(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of the model and strategy pairs that write chains; a chain that is not there scores 0."""
    asked = rows.filter(pl.col("chain_proper").is_not_null().any().over("model", "strategy"))
    numbers = [pl.col(f"chain_{name}").fill_null(0.0) for name in ("lcs", "lcps", "transitions", *MORE_METRICS)]
    return asked.with_columns(pl.col("chain_proper").fill_null(False), *numbers)


def _faithfulness(rows: pl.DataFrame) -> Iterator[dict[str, Any]]:
    chosen = _with_chains(rows.filter("false_belief"))
    for (model, strategy), every in chosen.group_by(["model", "strategy"], maintain_order=True):
        for sample, part in (("complete", every.filter("complete")), ("published", every)):
            for metric in METRICS:
                right, values = part["correct"].to_list(), part[metric].to_list()
                if metric == "chain_proper":
                    both = list(zip(right, values, strict=True))
                    kind, (value, p) = "phi", published.phi(*(both.count(cell) for cell in _CELLS))
                else:
                    kind, (value, p) = "point_biserial", published.point_biserial(right, values)
                low, high = published.correlation_interval(value, part.height)
                faithful = None if math.isnan(value) else value >= 0.4 and p <= 0.05
                key = {"model": model, "strategy": strategy, "sample": sample, "metric": metric, "coefficient": kind}
                found = {"value": value, "ci_low": low, "ci_high": high, "p_value": p, "n": part.height}
                yield {**key, **found, "faithful": faithful}


_CELLS = ((True, True), (True, False), (False, True), (False, False))


def _criteria(counts: Counts) -> Iterator[dict[str, Any]]:
    for (subset, model, strategy), cells in _arms(counts):
        for rule in ("strict", "lenient"):

            def above(name: str, cells: dict[str, tuple[int, int]] = cells, rule: str = rule) -> bool:
                correct, total = cells.get(name, (0, 0))
                return total > 0 and (2 * correct > total if rule == "strict" else 2 * correct >= total)

            passed = sum(map(above, PERTURBED))
            key = {"subset": subset, "model": model, "strategy": strategy, "rule": rule}
            verdicts = {"limited_robust": passed >= 5, "robust": passed == len(PERTURBED)}
            tested = sum(cells.get(name, (0, 0))[1] > 0 for name in PERTURBED)
            yield {**key, "ostensible": above(CONTROL), "classes_above": passed, **verdicts, "classes_tested": tested}


def _challenging(counts: Counts) -> Iterator[dict[str, Any]]:
    low: dict[tuple[str, str, str], int] = {}
    models: dict[tuple[str, str, str], int] = {}
    for (subset, _, strategy), cells in _arms(counts):
        k0, n0 = cells.get(CONTROL, (0, 0))
        counted = {name: cells[name] for name in PERTURBED if name in cells and cells[name][1] and n0}
        effects = {name: Fraction(k, n) - Fraction(k0, n0) for name, (k, n) in counted.items()}
        fifth = sorted(effects.values())[:5][-1] if effects else None
        for name, effect in effects.items():
            key = (subset, strategy, name)
            models[key] = models.get(key, 0) + 1
            low[key] = low.get(key, 0) + (fifth is not None and effect <= fifth)
    for (subset, strategy, name), total in models.items():
        count = low[subset, strategy, name]
        key = {"subset": subset, "strategy": strategy, "perturbation": name}
        yield {**key, "models_in_top_five": count, "models": total, "challenging": 3 * count >= 2 * total}


def _placebo(rows: pl.DataFrame) -> Iterator[dict[str, Any]]:
    chosen = rows.filter("false_belief")
    writes = set(_with_chains(chosen).select("model", "strategy").iter_rows())
    for model, strategy, pairs in _pairs(chosen):
        if (model, strategy) not in writes:
            continue
        for (name,), part in _with_overall(pairs).group_by(["perturbation"], maintain_order=True):
            for chain, wanted in (("proper", True), ("improper", False)):
                split = part.filter(pl.col("chain_proper").fill_null(False) == wanted)
                effect, low, high = published.risk_difference(*(v for pair in _pair_counts(split) for v in pair))
                verdict = "none"
                if not split.height:
                    verdict = "undefined"
                elif low > 0:
                    verdict = "gain" if wanted else "placebo"
                elif high < 0:
                    verdict = "loss"
                key = {"model": model, "strategy": strategy, "perturbation": name, "chain": chain}
                found = {"risk_difference": effect, "rd_low": low, "rd_high": high, "n": split.height}
                yield {**key, **found, "verdict": verdict, "subset": "false_belief"}


def _subtasks(rows: pl.DataFrame) -> pl.DataFrame:
    keys = ["model", "strategy", "perturbation", "scenario", "question_kind"]
    counted = rows.filter("complete").group_by(keys, maintain_order=True)
    counts = counted.agg(pl.col("correct").sum().cast(pl.Int64), pl.len().cast(pl.Int64).alias("total"))
    return _sorted(counts.sort("question_kind").with_columns((pl.col("correct") / pl.col("total")).alias("accuracy")))


def _tasks(rows: pl.DataFrame) -> pl.DataFrame:
    right, asked = pl.col("subtasks_right"), pl.col("subtasks")
    counted = rows.group_by("model", "strategy", "stage", "perturbation", maintain_order=True).agg(
        pl.col("correct").sum().cast(pl.Int64).alias("subtasks_right"), pl.len().cast(pl.Int64).alias("subtasks")
    )
    # All right but not all asked: nobody knows.
    solved = pl.when(right < asked).then(False).when(asked == SUBTASKS).then(True).otherwise(None)
    return _sorted(counted.with_columns(solved.alias("solved"))).select(pl.exclude("subtasks"), "subtasks")


def _chains(rows: pl.DataFrame) -> pl.DataFrame:
    keys = ["model", "strategy", "perturbation"]
    every = _with_overall(_with_chains(rows))
    means = [pl.col(f"chain_{name}").mean().alias(name) for name in ("lcs", "lcps", "transitions")]
    more = [pl.col(f"chain_{name}").mean().alias(name) for name in MORE_METRICS]
    floors = [pl.col(name).mean() for name in rows.columns if name.startswith("floor_")]
    proper = pl.col("chain_proper")
    summed = every.group_by(keys, maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("total"),
        proper.sum().cast(pl.Int64).alias("proper"),
        proper.mean().alias("proper_share"),
        *means,
        *more,
        pl.col("answer_matches_last").mean(),
        *floors,
    )
    places = every.filter(pl.col("chain_break_kind").is_not_null())
    breaks = (
        places.group_by(
            *keys, pl.col("chain_break").alias("break_sentence"), pl.col("chain_break_kind").alias("break_kind")
        )
        .agg(pl.len().cast(pl.Int64).alias("breaks"))
        .sort("breaks", "break_sentence", "break_kind", descending=[True, False, False])
        .unique(keys, keep="first", maintain_order=True)
    )
    joined = summed.join(breaks, on=keys, how="left").with_columns(pl.col("breaks").fill_null(0))
    first = [*keys, "total", "proper", "proper_share", "lcs", "lcps", "transitions"]
    return _sorted(joined).select(*first, "break_sentence", "break_kind", "breaks", pl.exclude(*first, *breaks.columns))


def _failures(rows: pl.DataFrame) -> pl.DataFrame:
    keys = ["model", "strategy", "perturbation"]
    every = _with_overall(rows)
    cells = every.group_by(keys, maintain_order=True).agg(
        pl.len().alias("asked"), pl.col("correct").sum().alias("right"), pl.col("faulty").sum().alias("failed")
    )
    counted = (
        every.filter("faulty")
        .group_by(*keys, "status", maintain_order=True)
        .agg(pl.len().cast(pl.Int64).alias("count"))
    )
    joined = counted.join(cells, on=keys).with_columns(
        (pl.col("count") / pl.col("asked")).alias("share"),
        (pl.col("right") / pl.col("asked")).alias("accuracy_low"),
        ((pl.col("right") + pl.col("failed")) / pl.col("asked")).alias("accuracy_high"),
    )
    return _sorted(joined.select(*keys, "status", "count", "share", "accuracy_low", "accuracy_high"))


def summary(found: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The tables to print: classes down, strategies across, ``k/n share [interval]``; two strategies fit 80 columns."""
    shares = (pl.col(name).map_elements(_share, pl.String) for name in ("accuracy", "ci_low", "ci_high"))
    cell = pl.format("{}/{} {} [{}, {}]", "correct", "total", *shares)
    shown = {}
    titles = {"all": "all questions", "false_belief": "false-belief subset"}
    for (subset, model), part in found["accuracy"].group_by(["subset", "model"], maintain_order=True):
        wide = part.with_columns(cell.alias("cell")).pivot("strategy", index="perturbation", values="cell")
        shown[f"{model}: accuracy, {titles[str(subset)]} (published intervals)"] = wide
    verdicts = found["criteria"].filter(rule="strict").drop("rule", "classes_tested")
    shown["theory of mind by the paper's criteria (more than half right)"] = verdicts
    return shown


def _share(value: float) -> str:
    return f"{value:.2f}".removeprefix("0")
