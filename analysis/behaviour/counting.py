"""The tables of the study: what each benchmark, type of task and dimension shows, beside chance and simple rules."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from tomserve.scoring.baselines import baseline_name
from tomserve.stats.accuracy import TaskMean, correct_for_chance, mean_of, task_mean
from tomserve.studies import baselines
from tomserve.studies.contrasts import Record, codes, effects_within
from tomserve.studies.tasks import MACRO, Asked, in_order

from .humans import figure_of

CONSTANT = "constant"
"""The kind of rules that give one sort of answer, whatever the story tells."""

NOBODY: Mapping[str, None] = dict.fromkeys(
    (
        *("b", "b_low", "b_high", "constant_rule", "constant_b", "surface_rule", "surface_b"),
        *("over_rule", "over_low", "over_high", "method"),
    )
)


def by_benchmark(found: Asked) -> Iterator[Record]:
    """The table `behaviour`: a row for each model, strategy and benchmark, and their mean where there are several."""
    rows = found.rows.filter("mind")
    for (model, strategy), arm in rows.group_by(["model", "strategy"], maintain_order=True):
        parts: list[tuple[Record, TaskMean | None]] = []
        for (benchmark,), part in arm.sort("benchmark", maintain_order=True).group_by(
            ["benchmark"], maintain_order=True
        ):
            key: Record = {"model": model, "strategy": strategy, "benchmark": benchmark}
            record, mean = _benchmark(part, found.kinds)
            human = figure_of(str(benchmark))
            quoted = {"human": human and human.accuracy, "human_source": human and human.said}
            parts.append(({**key, **record, **quoted}, mean))
        yield from (record for record, _ in parts)
        means = [mean for _, mean in parts if mean is not None]
        if len(means) > 1 and len(means) == len(parts):
            yield {"model": model, "strategy": strategy, **_macro([record for record, _ in parts], means)}


def _benchmark(part: pl.DataFrame, kinds: baselines.Kinds) -> tuple[Record, TaskMean | None]:
    """The record of one model, strategy and benchmark, and its B with those of the best rules: the sides of the mean
    are the model, the best constant rule and the best other one, of those that there are."""
    counted = baselines.accuracy(part, kinds, "recommended", brief=True)
    names = ("correct", "total", "accuracy", "ci_low", "ci_high")
    record: Record = {name: counted[name] for name in names}
    record |= {"chance": part["chance"].mean(), "tasks": part["task"].n_unique(), "clusters": counted["tasks"]}
    record |= {"failed": counted["failed"], "unread": counted["unread"]}
    if part["chance"].null_count():
        return {**record, **NOBODY}, None
    said = [name for name in kinds.columns if part[name].null_count() < part.height]
    sides = np.column_stack(
        [part["correct"].to_numpy(), *(part[name].fill_null(False).to_numpy() for name in said)]
    ).astype(float)
    mean = task_mean(sides, part["chance"].to_numpy(), codes(part["task"]), codes(part["cluster"]))
    best = {
        kind: max(places, key=lambda place: (mean.estimate[place], -place), default=None)
        for kind, places in (
            ("constant", [p for p, name in enumerate(said, 1) if kinds.by_column[name] == CONSTANT]),
            ("surface", [p for p, name in enumerate(said, 1) if kinds.by_column[name] != CONSTANT]),
        )
    }
    own = mean.interval()
    record |= {"b": own.estimate, "b_low": own.low, "b_high": own.high}
    for kind, place in best.items():
        record[f"{kind}_rule"] = None if place is None else baseline_name(said[place - 1])
        record[f"{kind}_b"] = None if place is None else float(mean.estimate[place])
    places = [place for place in best.values() if place is not None]
    rival = max(places, key=lambda place: float(mean.estimate[place]), default=None)
    gap = None if rival is None else mean.difference(0, rival)
    record |= {
        "over_rule": gap and gap.estimate,
        "over_low": gap and gap.low,
        "over_high": gap and gap.high,
        "method": own.method,
    }
    return record, _sides(mean, [0, *([] if rival is None else [rival])])


def _sides(mean: TaskMean, places: Sequence[int]) -> TaskMean:
    chosen = list(places)
    return TaskMean(
        mean.estimate[chosen],
        mean.draws[:, chosen],
        mean.least[:, chosen],
        mean.beside[chosen],
        mean.tasks,
        mean.clusters,
    )


def _macro(records: Sequence[Record], means: Sequence[TaskMean]) -> Record:
    """The mean over benchmarks, each counted once; shares are means, and counts are sums."""
    own = mean_of(list(means))
    found: Record = {"benchmark": MACRO.format(len(records))}
    found |= {name: sum(record[name] for record in records) for name in ("correct", "total", "tasks", "clusters")}
    found |= {name: _mean([record[name] for record in records]) for name in ("accuracy", "chance")}
    found |= {"failed": sum(record["failed"] for record in records), "unread": _sum(records, "unread")}
    found |= {"b": own.estimate, "b_low": own.low, "b_high": own.high, "method": own.method}
    found |= {f"{kind}_b": _mean([record[f"{kind}_b"] for record in records]) for kind in ("constant", "surface")}
    if all(len(mean.estimate) > 1 for mean in means):
        gap = mean_of([_difference(mean) for mean in means])
        found |= {"over_rule": gap.estimate, "over_low": gap.low, "over_high": gap.high}
    return found


def _difference(mean: TaskMean) -> TaskMean:
    """The model minus the rule, as if it were one side."""
    low, high = mean.differences(0, 1)
    return TaskMean(
        mean.estimate[:1] - mean.estimate[1:],
        high[:, None],
        low[:, None],
        np.full((1, 2), np.nan),
        mean.tasks,
        mean.clusters,
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _sum(records: Sequence[Record], name: str) -> int | None:
    values = [record[name] for record in records]
    return None if None in values else sum(values)


def by_task(found: Asked, intervals: str) -> Iterator[Record]:
    """The table `task_types`: a row for each model, strategy, benchmark, task and dimension."""
    keys = ("model", "strategy", "benchmark", "task", "dimension")
    for key, part in found.rows.sort(*keys, maintain_order=True).group_by(keys, maintain_order=True):
        counted = bool(part["mind"].all())
        yield {**dict(zip(keys, key, strict=True)), **_cell(part, found.kinds, intervals), "in_b": counted}


def by_dimension(found: Asked, intervals: str) -> Iterator[Record]:
    """The table `dimensions`: a row for each model, strategy, dimension and benchmark, and the mean over benchmarks
    where several ask about a dimension."""
    for (model, strategy), arm in found.rows.group_by(["model", "strategy"], maintain_order=True):
        for dimension in in_order(arm["dimension"].unique().to_list()):
            part = arm.filter(dimension=dimension).sort("benchmark", maintain_order=True)
            records = [
                {"benchmark": name[0], **_cell(some, found.kinds, intervals)}
                for name, some in part.group_by(["benchmark"], maintain_order=True)
            ]
            if len(records) > 1:
                mean: Record = {"benchmark": MACRO.format(len(records)), "total": part.height}
                whole = ("accuracy", "chance", "corrected", "constant", "surface")
                shares = [name for name in whole if name in records[0]]  # as published nothing is corrected for chance
                records.append(mean | {name: _mean([record.get(name) for record in records]) for name in shares})
            for record in records:
                yield {"model": model, "strategy": strategy, "dimension": dimension, **record}


def effects(found: Asked) -> Iterator[Record]:
    """The table `prompting_effects`: by benchmark, task and dimension, each strategy against the one that asks for the
    answer alone, on the same questions; nothing where no question was asked in both ways."""
    keys = ("benchmark", "task", "dimension")
    yield from effects_within(found.rows.sort("model", *keys, maintain_order=True), keys)


def _cell(part: pl.DataFrame, kinds: baselines.Kinds, intervals: str) -> Record:
    """The share right of some questions with its interval, chance, the corrected share, and the best simple rules."""
    found = baselines.accuracy(part, kinds, intervals, brief=True)
    chance = None if part["chance"].null_count() else float(part["chance"].mean())  # type: ignore[arg-type]
    record: Record = {name: found[name] for name in ("correct", "total", "accuracy", "ci_low", "ci_high")}
    record["chance"] = chance
    if intervals == "published":
        return {**record, "unread": found["unread"]}
    for name, share in (("corrected", "accuracy"), ("corrected_low", "ci_low"), ("corrected_high", "ci_high")):
        record[name] = None if chance is None else _defined(correct_for_chance(float(found[share]), chance))
    best: dict[str, float] = {}
    for rule in baselines.counted(part, kinds):
        best.setdefault(CONSTANT if rule["kind"] == CONSTANT else "surface", rule["accuracy"])
    return {**record, CONSTANT: best.get(CONSTANT), "surface": best.get("surface"), "unread": found["unread"]}


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else value
