"""`tomserve plan`: what a study will cost and what it can show, before any GPU time.

    tomserve plan --benchmark perturbed --models 6 --power 0.9
    tomserve plan --like perturbed-mymodel

Requests are counted, and prompt tokens estimated from the rendered prompts at four characters a token, which the
model's own tokenizer may see otherwise. What can be found is stated as the minimum detectable effect: the smallest true
difference of shares that a t test over the independent units (stages, tasks or stories) finds with the given power,
that is, in that share of studies. It depends on how much the units' differences spread (their standard deviation, SD),
which is assumed, or taken from a run that has been scored already.

Classes are tested together, with p adjusted by Benjamini and Hochberg's method. What that asks of a class depends on
the others: where one class alone is affected, its level is divided by the number of classes; where all are affected
alike, it is the level itself. Both figures are given, and the truth of a study lies between them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tomserve import benchmarks
from tomserve.benchmarks import Benchmark
from tomserve.items import Item, where
from tomserve.items.draw import limit_items
from tomserve.prompting.strategy import Strategy
from tomserve.stats.clusters import matched_cells, unit_means
from tomserve.stats.equivalence import units_for_margin
from tomserve.stats.power import minimum_detectable_effect, units_needed
from tomserve.studies.contrasts import codes, pair
from tomserve.studies.families import WORTH
from tomserve.studies.rows import BASELINE, prepared

CHARACTERS_A_TOKEN = 4
SD = (0.2, 0.4)
"""Standard deviations that the units' differences are assumed to have, on the scale of a share (0 to 1), where no run
tells. The first is about that of a class with sixteen questions a stage and a share right of .85, the second that of
two questions a stage, as on a false-belief subset."""

NONE, PROMPTING = "none", "prompting, "
ALL, OVERALL = "all perturbations against none", f"{PROMPTING}overall"


@dataclass(frozen=True)
class Plan:
    """What a study costs and what it can find.

    `cost` has a row for each strategy, `comparisons` one for each comparison. `items` are questions, `requests` all
    that is sent to all models, and `tokens` the prompt tokens of these. Where a strategy takes several turns, the
    prompts of the later ones follow from replies: `later` is then true, and tokens are those of the first turns. Where
    a program decides how many turns, `open` is true, and requests are the fewest that there can be.
    """

    cost: pl.DataFrame
    comparisons: pl.DataFrame
    items: int
    requests: int
    tokens: int
    later: bool = False
    open: bool = False

    def __str__(self) -> str:
        """What is sent, in a sentence."""
        fewest, whose = "at least " * self.open, " of first turns" * self.later
        return f"{fewest}{self.requests} requests, about {self.tokens / 1e6:.1f} million prompt tokens{whose}"


def plan(
    benchmark: Benchmark,
    path: Path | None,
    strategies: Sequence[str],
    *,
    models: int = 1,
    repeats: int = 1,
    power: float = 0.8,
    alpha: float = 0.05,
    like: pl.DataFrame | None = None,
    items: Sequence[Item] | None = None,
) -> Plan:
    """Count what a study asks, and how small an effect its comparisons can detect.

    benchmark: whose items are asked. path: the user's `--path`, None for the benchmark's own items. strategies: their
    names. models: how many models are asked. repeats: how many samples of each question. power: the share of studies
    that are to detect the effect. alpha: the level of the tests. like: the score table of a run whose spread is taken
    for that of the study (see `spreads`); None for the spreads of SD. items: those that are asked, as by `drawn`; None
    for all of the benchmark. Raises ConfigError or ContentError where items or strategies cannot be loaded.
    """
    items = list(benchmark.items(path) if items is None else items)
    cost, times = [], models * repeats
    strategies = list(dict.fromkeys(strategies))
    loaded = [Strategy.load(name) for name in strategies]
    later, free = any(one.several for one in loaded), any(one.turns is None for one in loaded)
    tokens_column = "first prompts' tokens (about)" if later else "prompt tokens (about)"
    for strategy in loaded:
        first = [strategy.conversation(item).open if strategy.several else [strategy.turn(item)] for item in items]
        lengths = [sum(len(m["content"]) for m in turn.messages) for turns in first for turn in turns]
        requests = max(len(lengths), len(items) * (strategy.turns or 1))
        cost.append(
            {
                "strategy": strategy.name,
                "requests": requests * times,
                **({"requests at most": len(items) * strategy.calls * times} if free else {}),
                tokens_column: sum(lengths) // CHARACTERS_A_TOKEN * times,
                "longest prompt": max(lengths) // CHARACTERS_A_TOKEN,
                "answer tokens at most": strategy.max_tokens * strategy.calls * len(items) * times,
            }
        )
    frame = pl.DataFrame(cost)
    known = None if like is None else spreads(like)
    comparisons = pl.DataFrame(
        _comparisons(_units(items, len(strategies)), known, power, alpha), infer_schema_length=None
    )
    requests, tokens = frame.select(pl.col("requests").sum(), pl.col(tokens_column).sum()).row(0)
    return Plan(frame, comparisons, len(items), requests, tokens, later, free)


def drawn(benchmark: Benchmark, path: Path | None, limit: int | None, conditions: Sequence[str] = ()) -> list[Item]:
    """The items that a study would ask: those that `eval` and `dataset questionnaire` draw.

    benchmark, path: as for `plan`. limit: draw at most so many; None for all. conditions: ``factor=value`` that they
    have to meet. Raises ConfigError or ContentError where items cannot be loaded, or none meets the conditions.
    """
    every = list(benchmark.items(path))
    draw = benchmarks.draw_of(benchmark, {item.benchmark for item in every})
    return limit_items(list(where(every, conditions)) if conditions else every, limit, draw)


def _units(items: list[Item], strategies: int) -> list[tuple[str, str, int]]:
    """The comparisons that the items' factors allow, each with its unit and how many of these there are."""
    tasks: dict[str, set[str]] = {}
    stages: dict[str, set[str]] = {}
    for item in items:
        name = str(item.factors.get("perturbation", ""))
        tasks.setdefault(name, set()).add(item.cluster)
        if "stage" in item.factors:
            stages.setdefault(name, set()).add(str(item.factors["stage"]))
    clusters = len({item.cluster for item in items})
    every = set().union(*stages.values()) if stages else set()
    found = []
    for name in tasks:
        if name not in ("", NONE) and NONE in stages:
            found.append((_against(name), "stages", len(stages[name] & stages[NONE])))
    if NONE in stages and len(tasks) > 1:
        found.append((ALL, "stages", len(every)))
    if strategies > 1:
        unit, counted = ("stages", stages) if every else ("tasks", tasks)
        found += [(f"{PROMPTING}{name}", unit, len(counted[name])) for name in tasks if name]
        found.append((OVERALL, "stages" if every else "clusters", len(every) or clusters))
    return found or [("two models, overall", "clusters", clusters)]


def _against(name: str) -> str:
    return f"{name} against {NONE}"


def family(comparison: str) -> str | None:
    """The family of classes in which a comparison is tested; None where it is tested alone."""
    if comparison in (ALL, OVERALL, f"{PROMPTING}{NONE}"):
        return None
    return "against" if comparison.endswith(_against("")) else PROMPTING if comparison.startswith(PROMPTING) else None


def _comparisons(
    units: Sequence[tuple[str, str, int]], known: Mapping[str, float] | None, power: float, alpha: float
) -> list[dict[str, Any]]:
    """A row for each comparison, with each of the assumed spreads or with the one that a run has shown."""
    sizes = {name: sum(family(one[0]) == name for one in units) for name in map(family, (one[0] for one in units))}
    rows = []
    for name, unit, count in units:
        tested = sizes[family(name)] if family(name) else 1
        row: dict[str, Any] = {"comparison": name, "units": f"{count} {unit}"}
        given = {f", SD {sd:g}": sd for sd in SD} if known is None else {"": known.get(family(name) or name, math.nan)}
        if known is not None:
            row["sd"] = _known(given[""])
        for label, sd in given.items():
            row[f"minimum_detectable_effect{label}"] = _known(
                minimum_detectable_effect(count, sd, alpha, power, tested)
            )
            row[f"if all are affected{label}"] = _known(minimum_detectable_effect(count, sd, alpha, power))
        label, sd = next(iter(given.items()))
        rows.append({**row, f"units_needed for {WORTH:g}{label}": units_needed(WORTH, sd, alpha, power, tested)})
    return rows


def margin_title(margin: float, power: float) -> str:
    """What the table of `against_margin` is called."""
    return (
        f"how many units it takes to show, with power {power:g}, that of two runs on the same questions one is not "
        f"worse by {100 * margin:g} points, and that both are equivalent up to that"
    )


def against_margin(
    items: Sequence[Item], margin: float, power: float = 0.8, like: pl.DataFrame | None = None
) -> pl.DataFrame:
    """How many units show that of two models or strategies on the same questions one is not worse by the margin, and
    that both are the same up to it, if there is no difference (see tomserve.stats.equivalence.units_for_margin).

    items: those that are asked. margin: a share above 0 and below 1. power: the share of studies that are to show it.
    like: the score table of a run of several strategies, whose spread is taken; without one those of SD.
    """
    stages = {str(item.factors["stage"]) for item in items if "stage" in item.factors}
    units = f"{len(stages)} stages" if stages else f"{len({item.cluster for item in items})} clusters"
    known = None if like is None else spreads(like).get(OVERALL)
    rows = []
    for sd in SD if known is None else (known,):
        not_inferior, equivalent = units_for_margin(margin, sd, power=power)
        rows.append(
            {"units here": units, "SD": sd, "needed_not_inferior": not_inferior, "needed_equivalent": equivalent}
        )
    return pl.DataFrame(rows, infer_schema_length=None)


def spreads(scores: pl.DataFrame) -> dict[str, float]:
    """The standard deviations of the units' differences that a run has shown, by family or comparison.

    scores: a score table. Classes are compared with "none" of the same stages and strategies with vanilla on the same
    questions, as a study does; variances are pooled over classes, models and strategies. A comparison that the run does
    not have, or in which no unit differs from another, is left out.
    """
    wanted = dict.fromkeys(("stage", "perturbation"), pl.String)
    rows = prepared(scores.lazy(), ("model", "strategy", "item", "status", "correct"), wanted).collect()
    found: dict[str, list[npt.NDArray[np.float64]]] = {}
    staged = rows.drop_nulls(["stage", "perturbation"])
    for _, part in staged.group_by(["model", "strategy"], maintain_order=True):
        for name in part["perturbation"].unique(maintain_order=True):
            if name != NONE:
                two = part.filter(pl.col("perturbation").is_in([NONE, name]))
                found.setdefault("against", []).append(_matched(two))
        found.setdefault(ALL, []).append(_matched(part))
    for (model, strategy), part in rows.group_by(["model", "strategy"], maintain_order=True):
        if strategy == BASELINE:
            continue
        pairs = pair(part, rows.filter(model=model, strategy=BASELINE))
        unit = "stage" if pairs["stage"].null_count() == 0 else "cluster"
        found.setdefault(OVERALL, []).append(_paired(pairs, unit))
        for (name,), one in pairs.drop_nulls("perturbation").group_by(["perturbation"], maintain_order=True):
            found.setdefault(PROMPTING if name != NONE else f"{PROMPTING}{NONE}", []).append(_paired(one, unit))
    return {name: sd for name, listed in found.items() if (sd := _pooled(listed)) > 0}


def _matched(rows: pl.DataFrame) -> npt.NDArray[np.float64]:
    """By stage the share right of perturbed tasks minus that of unperturbed ones."""
    arm = (rows["perturbation"] != NONE).to_numpy()
    outcome = rows["correct"].cast(pl.Float64).to_numpy()
    means = matched_cells(
        outcome, arm, codes(rows["cluster"] + "\n" + rows["perturbation"]), codes(rows["stage"])
    ).means
    return np.asarray(means[:, 1] - means[:, 0], dtype=np.float64)


def _paired(pairs: pl.DataFrame, unit: str) -> npt.NDArray[np.float64]:
    """By unit the share right of one strategy minus that of the other, on the same questions."""
    sides = (pairs[name].cast(pl.Float64).to_numpy() for name in ("correct", "control"))
    clusters, units = codes(pairs["cluster"]), codes(pairs[unit])
    treated, control = (unit_means(side, clusters, units)[0] for side in sides)
    return np.asarray(treated - control, dtype=np.float64)


def _pooled(listed: Iterable[npt.NDArray[np.float64]]) -> float:
    """The root of the mean variance, weighted by degrees of freedom; nan where nothing has two units."""
    several = [one for one in listed if one.size > 1]
    freedom = sum(one.size - 1 for one in several)
    return math.sqrt(sum((one.size - 1) * float(one.var(ddof=1)) for one in several) / freedom) if freedom else math.nan


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
