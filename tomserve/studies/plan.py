"""`tomserve plan`: what a study will cost and what it can show, before any GPU time.

    tomserve plan --benchmark perturbed --models 6 --power 0.9

Requests are counted, and prompt tokens estimated from the rendered prompts at four characters a token, which the
model's own tokenizer may see otherwise. What can be found is stated in two ways: as the smallest true effect that a
paired t test over the independent units (stages, tasks or stories) detects with the given power, that is, in that share
of studies; and as the least p that a sign-flip test over so few units can give whatever the answers, before and after
it is corrected (by Benjamini and Yekutieli's method) for testing all classes at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tomserve.benchmarks import Benchmark
from tomserve.items import Item
from tomserve.prompting.strategy import Strategy
from tomserve.stats.paired import adjust, smallest_p
from tomserve.stats.planning import plan as planned

CHARACTERS_A_TOKEN = 4
SD = (0.15, 0.3)
"""Standard deviations that the differences of the units are assumed to have, on the scale of a share (0 to 1)."""


ALL = "all perturbations against none"


@dataclass(frozen=True)
class Plan:
    """What a study costs and what it can find.

    `cost` has a row for each strategy, `comparisons` one for each comparison. `items` are questions, `requests` all
    that is sent to all models, and `tokens` the prompt tokens of these.
    """

    cost: pl.DataFrame
    comparisons: pl.DataFrame
    items: int
    requests: int
    tokens: int


def plan(
    benchmark: Benchmark,
    path: Path | None,
    strategies: Sequence[str],
    models: int = 1,
    power: float = 0.8,
    alpha: float = 0.05,
) -> Plan:
    """Count what a study asks, and how small an effect its comparisons can detect.

    benchmark: whose items are asked. path: the user's `--path`, None for the benchmark's own items. strategies: their
    names. models: how many models are asked. power: the share of studies that are to detect the effect. alpha: the
    level of the tests. Raises ConfigError or ContentError where items or strategies cannot be loaded.
    """
    items = list(benchmark.items(path))
    cost = []
    strategies = list(dict.fromkeys(strategies))
    for name in strategies:
        strategy = Strategy.load(name)
        lengths = [sum(len(m["content"]) for m in strategy.turn(item).messages) for item in items]
        tokens = sum(lengths) // CHARACTERS_A_TOKEN
        cost.append(
            {
                "strategy": name,
                "requests": len(items) * strategy.turns * models,
                "prompt tokens (about)": tokens * models,
                "longest prompt": max(lengths) // CHARACTERS_A_TOKEN,
                "answer tokens at most": strategy.max_tokens * len(items) * models,
            }
        )
    frame = pl.DataFrame(cost)
    units = _units(items, len(strategies))
    floors = _adjusted_floors(units)
    comparisons = pl.DataFrame([_comparison(*unit, floors.get(unit[0]), power, alpha) for unit in units])
    totals = frame.select(pl.col("requests").sum(), pl.col("prompt tokens (about)").sum()).row(0)
    return Plan(frame, comparisons, len(items), *totals)


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
        if name not in ("", "none") and "none" in stages:
            found.append((f"{name} against none", "stages", len(stages[name] & stages["none"])))
    if "none" in stages and len(tasks) > 1:
        found.append((ALL, "stages", len(every)))
    if strategies > 1:
        found += [(f"prompting, {name}", "tasks", len(of)) for name, of in tasks.items() if name]
        found.append(("prompting, overall", "stages" if every else "clusters", len(every) or clusters))
    return found or [("two models, overall", "clusters", clusters)]


def _adjusted_floors(units: list[tuple[str, str, int]]) -> dict[str, float]:
    """The least adjusted p that each class could have, if all classes were as extreme as their few units allow."""
    found: dict[str, float] = {}
    for family in (
        [u for u in units if u[0].endswith("against none") and u[0] != ALL],
        [u for u in units if _class(u)],
    ):
        if family:
            floors = adjust([smallest_p(count) for _, _, count in family], "by")
            found |= {name: p for (name, _, _), p in zip(family, floors, strict=True)}
    return found


def _class(unit: tuple[str, str, int]) -> bool:
    return unit[0].startswith("prompting, ") and unit[0] not in ("prompting, none", "prompting, overall")


def _comparison(
    name: str, unit: str, units: int, adjusted: float | None, power: float, alpha: float
) -> dict[str, object]:
    found = [planned(units, sd, alpha, power) for sd in SD]
    return {
        "comparison": name,
        "units": f"{units} {unit}",
        "least p": found[0].p_smallest,
        "least adjusted p": adjusted,
        f"can reach {alpha:g}": (found[0].p_smallest if adjusted is None else adjusted) <= alpha,
        "detectable, in SD": _known(found[0].sd_units),
        **{
            f"in probability, SD {sd:g}": _known(one.minimum_detectable_effect)
            for sd, one in zip(SD, found, strict=True)
        },
    }


def _known(value: float) -> float | None:
    return None if value != value else value
