"""Simulates what a draw of a perturbed benchmark tells of all its questions: by tasks and stories, and as it was.

python bench/draw.py [--benchmark perturbed] [--limit 176] [--replications 400] [--seed 0]

Model: right/wrong of a question is Bernoulli(expit(m + stage + task + class x stage + scenario x question x stage)).
All effects are normal and independent; a false-belief question is harder by 1 logit. Draws that are compared:

  stories   tomserve's: whole stories, all tasks in turn, the same scenarios for all tasks of a stage
  classes   single questions, all classes in turn (tomserve's up to version 0.2)

For each class against the unperturbed tasks:

  gap     mean over classes of |difference of the two shares of all drawn questions - the mean over stages of their
          difference|: how far two shares in one table are from the difference beside them
  error   root of the mean square of (that mean over stages - the same from all questions' probabilities)

Of the second edition (perturbed-2) it also prints how many minimal pairs are drawn whole, and how the drawn questions
of the false-belief subset are spread over the roles of their answers.

Exits with 1 unless both are smaller for stories.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from _figures import figure
from scipy.special import expit, logit

from tomserve import benchmarks
from tomserve.items import Item
from tomserve.items.draw import describe, draw_from_strata, limit_items

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

BASE, STAGE, TASK, EFFECT, SCENARIO = 0.85, 0.6, 0.6, 0.4, 0.8
"""Share of right answers in the middle, and the standard deviations of the random effects, in logits."""


def codes(items: Sequence[Item], *factors: str) -> npt.NDArray[np.intp]:
    """For each item a number from 0 that tells its values of these factors [items]."""
    return np.unique([repr([item.factors[name] for name in factors]) for item in items], return_inverse=True)[1]


class Design:
    """The place of every question in the design."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.stage, self.name = codes(items, "stage"), np.array([str(item.factors["perturbation"]) for item in items])
        self.task, self.scenario = (
            codes(items, "stage", "perturbation"),
            codes(items, "stage", "scenario", "question_kind"),
        )
        self.hard = np.array(
            [item.factors["scenario"] == "false_belief" and item.factors["question_kind"] == "belief" for item in items]
        )
        self.classes = sorted(set(self.name) - {"none"})

    def probabilities(self, random: np.random.Generator) -> Floats:
        """The probability of a right answer to each question in one world [items]."""
        stage = random.normal(0, STAGE, self.stage.max() + 1)[self.stage]
        task = random.normal(0, TASK, self.task.max() + 1)[self.task]
        effect = random.normal(0, EFFECT, self.task.max() + 1)[self.task] * (self.name != "none")
        scenario = random.normal(0, SCENARIO, self.scenario.max() + 1)[self.scenario]
        p: Floats = expit(logit(BASE) + stage + task + effect + scenario - self.hard)
        return p

    def by_stage(self, values: Floats, drawn: Mask) -> Floats:
        """For each class the mean over stages of its mean less that of the unperturbed task [classes]."""
        found = []
        for name in self.classes:
            differences = []
            for stage in range(self.stage.max() + 1):
                here = drawn & (self.stage == stage)
                treated, control = values[here & (self.name == name)], values[here & (self.name == "none")]
                if treated.size and control.size:
                    differences.append(treated.mean() - control.mean())
            found.append(np.mean(differences) if differences else np.nan)
        return np.array(found)

    def by_share(self, values: Floats, drawn: Mask) -> Floats:
        """For each class its share less that of all unperturbed tasks [classes]."""
        control = values[drawn & (self.name == "none")].mean()
        shares = [values[drawn & (self.name == name)].mean() - control for name in self.classes]
        return np.array(shares)


def spreads(items: Sequence[Item], draws: Mapping[str, Mask]) -> Iterator[str]:
    """For each draw a line: whole minimal pairs of those drawn at all, and the roles of answers. None where items have
    no pairs."""
    if "slot" not in items[0].factors:
        return
    for name, drawn in draws.items():
        pairs: dict[tuple[object, ...], list[bool]] = defaultdict(list)
        roles: Counter[str] = Counter()
        for item, taken in zip(items, drawn, strict=True):
            factors = item.factors
            if factors["slot"] == "pair":
                pairs[item.cluster, factors["swapped"]].append(bool(taken))
            if taken and factors["scenario"] == "false_belief" and factors["question_kind"] == "belief":
                roles[str(factors["belief_role"])] += 1
        whole, begun = sum(map(all, pairs.values())), sum(map(any, pairs.values()))
        spread_over = ", ".join(f"{role} {count}" for role, count in sorted(roles.items()))
        yield f"{name}: {whole} of {begun} pairs whole; answers of the false-belief subset: {spread_over}"


def main() -> int:
    """Print gap and error of both draws; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmark", default="perturbed", choices=["perturbed", "perturbed-2"])
    parser.add_argument("--limit", type=int, default=176)
    parser.add_argument("--replications", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    benchmark = benchmarks.get(options.benchmark)
    items = list(benchmark.items())
    design, every = Design(items), np.ones(len(items), dtype=bool)
    part = limit_items(items, options.limit, benchmark.draw)
    single = draw_from_strata([(item.id, item.factors["perturbation"]) for item in items], options.limit)
    draws = {
        "stories": np.isin([item.id for item in items], [item.id for item in part]),
        "classes": np.array([item.id in single for item in items]),
    }
    print(f"{describe(part, items, benchmark.draw)}; {options.replications} replications")
    for line in spreads(items, draws):
        print(f"  {line}")
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in draws}
    random = np.random.default_rng(options.seed)
    for _ in range(options.replications):
        p = design.probabilities(random)
        right = (random.random(len(items)) < p).astype(float)
        truth = design.by_stage(p, every)
        for name, drawn in draws.items():
            effects = design.by_stage(right, drawn)
            gap = np.nanmean(abs(design.by_share(right, drawn) - effects))
            found[name].append((float(gap), float(np.nanmean((effects - truth) ** 2))))
    means = {name: np.mean(values, axis=0) for name, values in found.items()}
    print(f"  {'draw':8s} {'gap':>6s} {'error':>6s}")
    for name, (gap, squared) in means.items():
        print(f"  {name:8s} {gap:6.3f} {squared**0.5:6.3f}")
        figure(f"limit {options.limit}, gap, {name}", float(gap), rounds=options.replications)
        figure(f"limit {options.limit}, error, {name}", float(squared**0.5), rounds=options.replications)
    return int(not (means["stories"] < means["classes"]).all())


if __name__ == "__main__":
    sys.exit(main())
