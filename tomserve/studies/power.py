"""Power and cost of a study before it is run, of models or of people: requests, tokens, and the smallest true
difference of shares that a t test over independent units (stages, tasks or stories) finds with the given power."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tomserve import benchmarks
from tomserve.benchmarks import Benchmark
from tomserve.errors import ConfigError
from tomserve.items import Item, where
from tomserve.items.draw import limit_items
from tomserve.prompting.strategy import Strategy
from tomserve.runs.cost import measure_prompts
from tomserve.stats.clusters import ArmSums, unit_means
from tomserve.stats.equivalence import ONE_SIDED, TOST, units_for_margin
from tomserve.stats.power import (
    ASSUMED,
    MOST,
    Spread,
    class_power,
    count_units,
    least_number,
    minimum_detectable_effect,
    model_power,
    spread_of,
)
from tomserve.studies.answer_rows import BASELINE, name_benchmarks, originals, prepare_rows
from tomserve.studies.contrasts import WORTH, integer_codes, pair_rows
from tomserve.studies.people import CLASS, NONE, people_answers
from tomserve.studies.phrases import PHRASES
from tomserve.studies.presentation import finite_or_none
from tomserve.studies.study import default_study

# Standard deviations that the units' differences are assumed to have, on the scale of a share (0 to 1), where no run
# tells.
SD = (0.2, 0.4)
NO_PERTURBATION, PROMPTING = "none", "prompting, "
UNITS, SMALLEST = "units", "minimum_detectable_effect"
ALL, OVERALL = "all perturbations against none", f"{PROMPTING}overall"


@dataclass(frozen=True)
class Plan:
    """What a study costs (a row a strategy) and what it can find (a row a comparison). tokens: of prompts, of first
    turns where the later ones follow from replies (`later`); requests are the fewest where a program decides (`open`).
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
        return f"{fewest}{self.requests:,} requests, about {self.tokens / 1e6:.1f} million prompt tokens{whose}"

    def effects(self) -> pl.DataFrame:
        """The smallest effects that would be found: a row for all classes that are alike in it."""
        cells = [name for name in self.comparisons.columns if name.startswith((UNITS, SMALLEST))]
        kinds = pl.Series("kind", [test_family(name) or name for name in self.comparisons["comparison"]])
        rows = self.comparisons.with_columns(kinds).group_by("kind", *cells, maintain_order=True)
        found = rows.agg(pl.col("comparison").first(), pl.len().alias("alike"))
        alike = {
            "against": f"each of {{}} classes against {NO_PERTURBATION}",
            PROMPTING: f"{PROMPTING}each of {{}} classes",
        }
        names = [
            alike[kind].format(count) if count > 1 else name
            for kind, name, count in found.select("kind", "comparison", "alike").iter_rows()
        ]
        shown = {
            name: name.removeprefix(f"{SMALLEST}, ").replace(SMALLEST, "smallest effect").replace("_", " ")
            for name in cells
        }
        return found.select(pl.Series("comparison", names), *cells).rename(shown)


def plan_study(
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

    path: the user's `--path`. strategies: their names. like: the score table of a run whose spread is taken
    (`known_spreads`); None for SD. items: those that are asked; None for all. Raises ConfigError or ContentError where
    items or strategies cannot be loaded."""
    items = list(benchmark.items(path) if items is None else items)
    cost, times = [], models * repeats
    strategies = list(dict.fromkeys(strategies))
    loaded = [Strategy.load(name) for name in strategies]
    later, free = any(one.is_multi_turn for one in loaded), any(one.turns is None for one in loaded)
    tokens_column = "first prompts' tokens (about)" if later else "prompt tokens (about)"
    for strategy in loaded:
        first = measure_prompts(items, strategy)
        equal, same = first.equal
        equal = 0 if strategy.turns is None else equal  # a program asks more after a turn that questions share
        cost.append(
            {
                "strategy": strategy.name,
                "requests": (max(first.requests, len(items) * (strategy.turns or 1)) - equal) * times,
                **({"requests at most": len(items) * strategy.calls * times} if free else {}),
                tokens_column: (first.tokens - same) * times,
                "longest prompt": first.longest,
                "answer tokens at most": strategy.max_tokens * strategy.calls * len(items) * times,
            }
        )
    frame = pl.DataFrame(cost)
    known = None if like is None else known_spreads(like)
    listed = _comparisons(_units(questions_of(items), len(strategies)), known, power, alpha)
    comparisons = pl.DataFrame(listed, infer_schema_length=None)
    requests, tokens = frame.select(pl.col("requests").sum(), pl.col(tokens_column).sum()).row(0)
    return Plan(frame, comparisons, len(items), requests, tokens, later, free)


def other_questions(like: pl.DataFrame, planned: Benchmark, items: Sequence[Item]) -> str:
    """The benchmarks of a score table, where the spread of its questions says little of that of the planned items; else
    "". Items may name a benchmark of their own."""
    asked = name_benchmarks(like)
    alike = asked in (planned.name, ", ".join(sorted({item.benchmark for item in items})))
    alike = alike or (planned.study != Benchmark.study and default_study(like) == planned.study)
    return "" if alike else asked


def draw_items(
    benchmark: Benchmark, path: Path | None, limit: int | None, conditions: Sequence[str] = ()
) -> list[Item]:
    """The items that a study would ask, as `eval` and `dataset questionnaire` draw them: the limit counts questions,
    beside which the variants that came with them are asked. conditions: ``factor=value``; the benchmark's own where
    none are given. Raises ConfigError or ContentError where items cannot be loaded, or none meets the conditions."""
    every = list(benchmark.items(path, where=benchmarks.ALL))
    draw = benchmarks.draw_of(benchmark, {item.benchmark for item in every})
    questions = where((item for item in every if item.base is None), benchmark.conditions(conditions))
    chosen = limit_items(list(questions), limit, draw)
    asked = {item.id for item in chosen}
    return [*chosen, *(item for item in every if item.base in asked)]


def questions_of(items: Sequence[Item]) -> list[Item]:
    """The items without variants, which are asked beside them and no analysis counts."""
    return [item for item in items if item.base is None]


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
    perturbed = [there for name, there in stages.items() if name != NO_PERTURBATION]
    found = []
    for name in tasks:
        if name not in ("", NO_PERTURBATION) and NO_PERTURBATION in stages:
            found.append((_against(name), "stages", len(stages[name] & stages[NO_PERTURBATION])))
    if NO_PERTURBATION in stages and len(tasks) > 1:
        found.append((ALL, "stages", len(stages[NO_PERTURBATION] & set().union(*perturbed))))
    if strategies > 1:
        unit, counted = ("stages", stages) if every else ("tasks", tasks)
        found += [(f"{PROMPTING}{name}", unit, len(counted[name])) for name in tasks if name]
        found.append((OVERALL, "stages" if every else "clusters", len(every) or clusters))
    return found or [("two models, overall", "clusters", clusters)]


def _against(name: str) -> str:
    return f"{name} against {NO_PERTURBATION}"


def test_family(comparison: str) -> str | None:
    """The family of classes in which a comparison is tested; None where it is tested alone."""
    if comparison in (ALL, OVERALL, f"{PROMPTING}{NO_PERTURBATION}"):
        return None
    return "against" if comparison.endswith(_against("")) else PROMPTING if comparison.startswith(PROMPTING) else None


def _comparisons(
    units: Sequence[tuple[str, str, int]], known: Mapping[str, float] | None, power: float, alpha: float
) -> list[dict[str, Any]]:
    """A row for each comparison, with each of the assumed spreads or with the one that a run has shown."""
    sizes = Counter(test_family(one[0]) for one in units)
    rows = []
    for name, unit, count in units:
        tested = sizes[test_family(name)] if test_family(name) else 1
        row: dict[str, Any] = {"comparison": name, UNITS: f"{count} {unit}"}
        given = {f", SD {sd:g}": sd for sd in SD}
        if known is not None:
            given = {"": known.get(test_family(name) or name, math.nan)}
            row["sd"] = finite_or_none(given[""])
        for label, sd in given.items():
            least = minimum_detectable_effect(count, sd, alpha, power, tested)
            row[f"{SMALLEST}{label}"] = finite_or_none(least)
            row[f"if all are affected{label}"] = finite_or_none(minimum_detectable_effect(count, sd, alpha, power))
        label, sd = next(iter(given.items()))
        rows.append({**row, f"units_needed for {WORTH:g}{label}": count_units(WORTH, sd, alpha, power, tested)})
    return rows


def margin_title(margin: float, power: float) -> str:
    return (
        f"how many units it takes to show, with power {power:g} and at the levels of compare ({ONE_SIDED:g} and "
        f"{TOST:g}), that of two runs on the same questions one is not worse by {100 * margin:g} points, and that both "
        "are equivalent up to that"
    )


def margin_units(
    items: Sequence[Item], margin: float, power: float = 0.8, like: pl.DataFrame | None = None
) -> pl.DataFrame:
    """How many units show that of two models or strategies one is not worse by the margin, and that both are the same
    up to it, if there is no difference (equivalence.units_for_margin). like: the score table of a run of several
    strategies, whose spread is taken; else SD."""
    stages = {str(item.factors["stage"]) for item in items if "stage" in item.factors}
    units = f"{len(stages)} stages" if stages else f"{len({item.cluster for item in items})} clusters"
    known = None if like is None else known_spreads(like).get(OVERALL)
    rows = []
    for sd in SD if known is None else (known,):
        not_inferior, equivalent = units_for_margin(margin, sd, power=power)
        needed = {"needed_not_inferior": not_inferior, "needed_equivalent": equivalent}
        rows.append({"units here": units, "SD": sd, **needed})
    return pl.DataFrame(rows, infer_schema_length=None)


def known_spreads(scores: pl.DataFrame) -> dict[str, float]:
    """The standard deviations of the units' differences that a run has shown, by family or comparison, pooled over
    classes, models and strategies; without those that do not vary."""
    wanted = dict.fromkeys(("stage", "perturbation"), pl.String)
    own = originals(scores).lazy()
    rows = prepare_rows(own, ("model", "strategy", "item", "status", "correct"), wanted).collect()
    found: dict[str, list[npt.NDArray[np.float64]]] = {}
    staged = rows.drop_nulls(["stage", "perturbation"])
    for _, part in staged.group_by(["model", "strategy"], maintain_order=True):
        for name in part["perturbation"].unique(maintain_order=True):
            if name != NO_PERTURBATION:
                two = part.filter(pl.col("perturbation").is_in([NO_PERTURBATION, name]))
                found.setdefault("against", []).append(_matched_differences(two))
        found.setdefault(ALL, []).append(_matched_differences(part))
    for (model, strategy), part in rows.group_by(["model", "strategy"], maintain_order=True):
        if strategy == BASELINE:
            continue
        pairs = pair_rows(part, rows.filter(model=model, strategy=BASELINE))
        unit = "stage" if pairs["stage"].null_count() == 0 else "cluster"
        found.setdefault(OVERALL, []).append(_paired_differences(pairs, unit))
        for (name,), one in pairs.drop_nulls("perturbation").group_by(["perturbation"], maintain_order=True):
            family = PROMPTING if name != NO_PERTURBATION else f"{PROMPTING}{NO_PERTURBATION}"
            found.setdefault(family, []).append(_paired_differences(one, unit))
    return {name: sd for name, listed in found.items() if (sd := _pool_spreads(listed)) > 0}


def _matched_differences(rows: pl.DataFrame) -> npt.NDArray[np.float64]:
    """By stage the share right of perturbed tasks minus that of unperturbed ones."""
    arm = (rows["perturbation"] != NO_PERTURBATION).to_numpy()
    outcome = rows["correct"].cast(pl.Float64).to_numpy()
    task = integer_codes(rows["cluster"] + "\n" + rows["perturbation"])
    means = ArmSums.of(outcome, arm, task, integer_codes(rows["stage"])).cells().means
    return np.asarray(means[:, 1] - means[:, 0], dtype=np.float64)


def _paired_differences(pairs: pl.DataFrame, unit: str) -> npt.NDArray[np.float64]:
    """By unit the share right of one strategy minus that of the other, on the same questions."""
    sides = (pairs[name].cast(pl.Float64).to_numpy() for name in ("correct", "control"))
    clusters, units = integer_codes(pairs["cluster"]), integer_codes(pairs[unit])
    treated, control = (unit_means(side, clusters, units)[0] for side in sides)
    return np.asarray(treated - control, dtype=np.float64)


def _pool_spreads(listed: Iterable[npt.NDArray[np.float64]]) -> float:
    """The root of the mean variance, weighted by degrees of freedom; nan where nothing has two units."""
    several = [one for one in listed if one.size > 1]
    freedom = sum(one.size - 1 for one in several)
    return math.sqrt(sum((one.size - 1) * float(one.var(ddof=1)) for one in several) / freedom) if freedom else math.nan


PEOPLE_EFFECTS = (0.1, 0.2)  # The differences of shares that are planned for

PeoplePower = Callable[..., float]  # The power with so many people, so many stories each, for an effect


def people_spread(scores: pl.DataFrame) -> Spread | None:
    """The spread of people's answers that a score table shows; None where it holds too few of them."""
    rows = people_answers(scores)
    if not rows.height:
        return None
    classes = rows[CLASS].fill_null("") if CLASS in rows.columns else pl.Series([""] * rows.height)
    return spread_of(*(one.to_numpy() for one in (rows["right"], rows["person"], rows["cluster"], classes)))


def spread_in_words(spread: Spread) -> str:
    """The spread in words.

    >>> spread_in_words(Spread())
    '80% right; of the variance of an answer 10% with the person, 5% with the person in a class, 15% with the task'
    """
    return (
        f"{spread.share:.0%} right; of the variance of an answer {spread.people:.0%} with the person, "
        f"{spread.people_by_class:.0%} with the person in a class, {spread.stories:.0%} with the task"
    )


def people_note(items: Sequence[Item], known: Spread | None, run: str | None) -> str:
    """What is to be said of the table. known: the spread that the run `run` showed; None where ASSUMED is taken."""
    why = "" if run is None else f" ({run} has too few answers of people)"
    return PHRASES["people_power"].format(
        most=MOST,
        source=f"Assumed{why}" if known is None else f"Measured in {run}",
        spread=spread_in_words(known or ASSUMED),
        questions=len(items),
        tasks=len({item.cluster for item in items}),
    )


def people_power_table(
    items: Sequence[Item],
    people: int,
    stories: int,
    *,
    power: float = 0.8,
    alpha: float = 0.05,
    spread: Spread = ASSUMED,
) -> pl.DataFrame:
    """A row for each kind of comparison: the power for each of PEOPLE_EFFECTS, and how many people, and how many
    stories each, reach `power`. Raises ConfigError for more stories than tasks, since nobody reads two versions of one.
    """
    tasks = len({item.cluster for item in items})
    if stories > tasks:
        raise ConfigError(
            f"--stories {stories}: there are {tasks} tasks to choose from, and nobody is to read two versions of one; "
            f"ask for at most {tasks} stories, or raise --limit"
        )
    rows = []
    for name, at in _people_comparisons(items, spread, alpha):
        row: dict[str, Any] = {"comparison": name}
        for effect in PEOPLE_EFFECTS:
            row[f"power for {effect:g}"] = at(people, stories, effect)
            by_people, by_stories = partial(at, stories=stories, effect=effect), partial(at, people, effect=effect)
            row[f"people for {effect:g}"] = least_number(by_people, power)
            row[f"stories for {effect:g}"] = least_number(by_stories, power, tasks) if tasks > 1 else None
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None).fill_nan(None)


def _people_comparisons(items: Sequence[Item], spread: Spread, alpha: float) -> Iterator[tuple[str, PeoplePower]]:
    """The comparisons that the items allow, each with its power."""
    clusters: dict[str, set[str]] = defaultdict(set)
    counts: dict[str, int] = defaultdict(int)
    for item in items:
        name = str(item.factors.get(CLASS, ""))
        clusters[name].add(item.cluster)
        counts[name] += 1
    every = len({item.cluster for item in items})
    others = [name for name in counts if name != NONE]
    if NONE in counts and others:
        share = counts[NONE] / len(items)
        typical = median(counts[name] for name in others) / len(items)
        size = median(len(clusters[name]) for name in others)
        rest = len(set().union(*(clusters[name] for name in others)))

        def one(people: int, stories: int, effect: float) -> float:
            sides = (stories * typical, stories * share)
            return class_power(people, sides, (size, len(clusters[NONE])), effect, spread, alpha)

        def all_(people: int, stories: int, effect: float) -> float:
            sides = (stories * (1 - share), stories * share)
            return class_power(people, sides, (rest, len(clusters[NONE])), effect, spread, alpha)

        def against(people: int, stories: int, effect: float) -> float:
            questions = typical * len(items)
            return model_power(people, stories * typical, size, questions, effect, spread, alpha)

        yield f"one class against {NONE}", one
        yield f"all classes against {NONE}", all_
        yield "people against a model, one class", against

    def overall(people: int, stories: int, effect: float) -> float:
        return model_power(people, stories, every, len(items), effect, spread, alpha)

    yield "people against a model, overall", overall
