"""Simulates the coverage and width of tomserve's intervals, and the type I error and power of its tests.

python bench/coverage.py [--replications 300] [--seed 0]

Model: right/wrong of a subtask is Bernoulli(expit(m + stage + task)), stage ~ N(0, S^2), task ~ N(0, T^2), independent;
m is solved so that the marginal probability (over stages and tasks) is the stated rate. 7 stages; the eleven classes
have the paper's numbers of tasks; 2 or 16 subtasks a task.

What each interval is asked to cover:
  class share          the marginal probability over stages and tasks (the task is the unit, one a stage)
  new stages           the marginal probability, or difference of marginal probabilities, over stages and tasks
  these stages         the same given the drawn stage effects: over tasks only, mean over the drawn stages
  prompting            difference of marginal probabilities of two strategies on the same items: over tasks given the
                       drawn stages (unit task), or over stages too (unit stage)
  ratio                ratio of the two marginal probabilities
  association          the coefficient in an endless sample of stages
Targets: pooled .93 to .97; a class: mean over rates >= .94, lowest >= .91; tests <= .05. A row that misses is marked.
The published intervals are printed beside and are marked too, and so, in brackets, are methods that were tried and
left; nothing was tuned to these figures. Each coverage has a
Monte Carlo standard error of about sqrt(.05 * .95 / trials), so the *lowest* rate is biased down by 1.5 of them.
"lowest" is over rates, with the six pairs of SDs pooled in A and B; "cell" over rates and SDs, each of few trials.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import expit

from tomserve.stats import association, clustered, marginal, paired, proportions, published
from tomserve.stats import pooled as pooling

Floats = npt.NDArray[np.float64]
STAGES, CONTENTS = 7, 4
CLASSES = (7, 7, 5, 4, 7, 7, 5, 7, 6, 6, 7)  # tasks; the first is `none`, the one of 4 exists for contents stages only
RATES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95)
PAIRS = ((0.05, 0.05), (0.2, 0.2), (0.5, 0.5), (0.8, 0.8), (0.95, 0.95), (0.5, 0.25), (0.8, 0.5), (0.95, 0.65))
SPREADS = ((0.0, 0.5), (0.0, 1.0), (0.5, 0.5), (0.5, 1.0), (1.0, 0.5), (1.0, 1.0))  # (stage SD, task SD), logits
SUBTASKS = (2, 16)
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)


def marginal_rate(mean: Floats | float, sd: float) -> Floats:
    """The expected value of expit(mean + sd * Z) for a standard normal Z, by Gauss-Hermite quadrature."""
    found: Floats = (expit(np.add.outer(np.asarray(mean), sd * NODES)) * (WEIGHTS / WEIGHTS.sum())).sum(axis=-1)
    return found


def logit_of(rate: float, sd: float) -> float:
    """The mean on the logit scale for which the marginal probability is `rate`."""
    return float(brentq(lambda m: float(marginal_rate(m, sd)) - rate, -40, 40))


@dataclass
class Tally:
    """Counts coverage and rejections by method and group of scenarios, separately for each rate within a group."""

    cover: dict[tuple[str, str], dict[str, list[tuple[bool, float]]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    reject: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))

    def interval(self, method: str, group: str, rate: str, bounds: tuple[float, float], truth: float) -> None:
        """Count whether an interval covers the truth; one with undefined bounds does not."""
        low, high = bounds
        self.cover[method, group][rate].append((bool(low - 1e-12 <= truth <= high + 1e-12), high - low))

    def test(self, method: str, group: str, p: float) -> None:
        """Count whether a p-value rejects at .05; an undefined one does not."""
        self.reject[method, group].append(float(p <= 0.05))

    def print_cover(self, title: str, pooled: bool) -> None:
        """Print a line a method and group: mean and lowest coverage over rates, lowest of a cell, mean finite width."""
        print(f"\n{title}\n{'method':44s} {'design':24s} {'mean':>5s} {'lowest':>6s} {'cell':>5s} {'width':>6s}")
        for (method, group), cells in self.cover.items():
            rates: dict[str, list[bool]] = defaultdict(list)
            for key, found in cells.items():
                rates[key.split("|")[0]].extend(hit for hit, _ in found)
            each = [float(np.mean(hits)) for hits in rates.values()]
            worst = min(float(np.mean([hit for hit, _ in found])) for found in cells.values())
            wide = [w for found in cells.values() for _, w in found if math.isfinite(w)]
            mean, lowest = float(np.mean(each)), min(each)
            missed = mean < 0.93 if pooled else mean < 0.94 or lowest < 0.91
            mark = "  BELOW" if missed else "  above" if mean > 0.97 else ""
            width = f"{np.mean(wide):6.3f}" if wide else "   inf"
            print(f"{method:44s} {group:24s} {mean:5.3f} {lowest:6.3f} {worst:5.3f} {width}{mark}")

    def print_tests(self, title: str) -> None:
        """Print a line for each test: its share of rejections at .05, which under the null is the type I error."""
        print(f"\n{title}\n{'test':44s} {'design':30s} {'rejects':>7s}")
        for (method, group), found in self.reject.items():
            rate = float(np.mean(found))
            limit = 0.05 + 2 * math.sqrt(0.05 * 0.95 / len(found))
            print(f"{method:44s} {group:30s} {rate:7.3f}{'  ABOVE' if 'null' in group and rate > limit else ''}")


def design(rng: np.random.Generator) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Draw the stage and the class of each of the 68 tasks; classes of 5 or 6 tasks leave out random stages."""
    stages: list[int] = []
    classes: list[int] = []
    for index, tasks in enumerate(CLASSES):
        chosen = np.arange(CONTENTS) if tasks == CONTENTS else rng.choice(STAGES, tasks, replace=False)
        stages.extend(chosen)
        classes.extend([index] * tasks)
    return np.array(stages), np.array(classes)


def class_shares(replications: int, rng: np.random.Generator) -> None:
    """Count coverage for the accuracy of a class, with all outputs and with a tenth of them missing at random."""
    tally = Tally()
    for tasks in (4, 5, 6, 7):
        for sub in SUBTASKS:
            for stage_sd, task_sd in SPREADS:
                sd, cluster = math.hypot(stage_sd, task_sd), np.repeat(np.arange(tasks), sub)
                group = f"{tasks} tasks x {sub}"
                for rate in RATES:
                    m, key = logit_of(rate, sd), f"{rate}|{stage_sd} {task_sd}"
                    for _ in range(max(1, replications // 2)):
                        p = np.repeat(expit(m + rng.normal(0, sd, tasks)), sub)
                        y = (rng.random(p.size) < p).astype(float)
                        found = clustered.clustered_share(y, cluster)
                        tally.interval("Wilson, n = tasks", group, key, (found.low, found.high), rate)
                        bounds = published.accuracy_interval(int(y.sum()), y.size)
                        tally.interval("published accuracy", group, key, bounds, rate)
                        y[rng.random(y.size) < 0.1] = np.nan
                        found = clustered.clustered_share(y, cluster)
                        if not math.isnan(found.estimate):
                            tally.interval("Wilson, n = tasks, 10 % missing", group, key, (found.low, found.high), rate)
    tally.print_cover("A. Accuracy of one class (new tasks)", pooled=False)


def class_effects(replications: int, rng: np.random.Generator) -> None:
    """Count coverage and rejections for a class compared with class `none` of the same stages."""
    tally = Tally()
    for stages in (4, 5, 6, 7):
        for sub in SUBTASKS:
            for stage_sd, task_sd in SPREADS:
                sd, group = math.hypot(stage_sd, task_sd), f"{stages} tasks x {sub}"
                arm = np.repeat([0, 1], stages * sub)
                stage = np.tile(np.repeat(np.arange(stages), sub), 2)
                cluster = np.repeat(np.arange(2 * stages), sub)
                for base, rate in PAIRS:
                    means, key = (logit_of(base, sd), logit_of(rate, sd)), f"{base} {rate}|{stage_sd} {task_sd}"
                    for _ in range(max(1, replications // 4)):
                        shared = rng.normal(0, stage_sd, stages)
                        p = np.concatenate([expit(m + shared + rng.normal(0, task_sd, stages)) for m in means])
                        y = (rng.random(p.size * sub) < np.repeat(p, sub)).astype(float)
                        _class_effect(tally, y, arm, cluster, stage, (group, key, base, rate))
    tally.print_cover("B. Effect of one class, matched by stage (new stages)", pooled=False)
    tally.print_tests("B. Tests of one class's effect (null: equal rates; power: .8 to .5)")


def _class_effect(
    tally: Tally,
    y: Floats,
    arm: npt.NDArray[np.intp],
    cluster: npt.NDArray[np.intp],
    stage: npt.NDArray[np.intp],
    scenario: tuple[str, str, float, float],
) -> None:
    group, key, base, rate = scenario
    truth, n = rate - base, len(np.unique(cluster)) // 2
    k1, k0, items = int(y[arm == 1].sum()), int(y[arm == 0].sum()), y.size // 2
    effect = clustered.matched_effect(y, arm, cluster, stage)
    tally.interval("matched by stage, t", group, key, (effect.low, effect.high), truth)
    unmatched = proportions.newcombe(k1 / items * n, n, k0 / items * n, n)
    tally.interval("Newcombe, n = tasks", group, key, (unmatched.low, unmatched.high), truth)
    _, low, high = published.risk_difference(k1, items, k0, items)
    tally.interval("published difference", group, key, (low, high), truth)
    ratio = proportions.risk_ratio(k1 / items * n, n, k0 / items * n, n)
    # 0 of n in both arms excludes no ratio: the undefined interval is the whole line
    bounds = (0.0, math.inf) if math.isnan(ratio.low) else (ratio.low, ratio.high)
    tally.interval("ratio, score, n = tasks", group, key, bounds, rate / base)
    _, low_r, high_r = published.risk_ratio(k1, items, k0, items)
    tally.interval("published ratio", group, key, (low_r, high_r), rate / base)
    kind = "null" if base == rate else "power" if (base, rate) == (0.8, 0.5) else ""
    if kind:
        tally.test("sign flips over stages", f"{kind}, {group}", effect.p_sign_flip)
        tally.test("t over stages", f"{kind}, {group}", effect.p)
        tally.test("published interval without 0", f"{kind}, {group}", 0.0 if low > 0 or high < 0 else 1.0)


def pooled(replications: int, rng: np.random.Generator) -> None:
    """Count coverage for all tasks: accuracy and perturbation effect, for new stages and for these stages."""
    tally = Tally()
    for sub in SUBTASKS:
        for stage_sd, task_sd in SPREADS:
            sd, group = math.hypot(stage_sd, task_sd), f"SD {stage_sd}, {task_sd}; x {sub}"
            for rate in RATES:
                m = logit_of(rate, sd)
                for _ in range(max(1, replications // 2)):
                    y, _, cluster, stage, _ = _study(rng, (m, m), stage_sd, task_sd, sub)
                    share = clustered.new_units_share(y, cluster, stage)
                    tally.interval("share, new stages, t on logits", group, str(rate), (share.low, share.high), rate)
                    means = np.array([y[stage == s].mean() for s in range(STAGES)])
                    simple = paired.mean_interval(means)
                    tally.interval("(share, new stages, plain t)", group, str(rate), (simple.low, simple.high), rate)
                    known = published.accuracy_interval(int(y.sum()), y.size)
                    tally.interval("published accuracy", group, str(rate), known, rate)
            for base, rate in PAIRS:
                logits = (logit_of(base, sd), logit_of(rate, sd))
                for index in range(max(1, replications // 4)):
                    y, arm, cluster, stage, drawn = _study(rng, logits, stage_sd, task_sd, sub)
                    new, plain = (f(y, arm, cluster, stage) for f in (pooling.pooled_effect, clustered.matched_effect))
                    truth, key = rate - base, f"{base} {rate}"
                    tally.interval("effect, new stages, square-and-add", group, key, (new.low, new.high), truth)
                    tally.interval("(effect, new stages, plain t)", group, key, (plain.low, plain.high), truth)
                    k1, n1, k0, n0 = (int(x) for x in (y[arm].sum(), arm.sum(), y[~arm].sum(), (~arm).sum()))
                    _, low, high = published.risk_difference(k1, n1, k0, n0)
                    tally.interval("published difference", group, key, (low, high), truth)
                    kind = "null" if base == rate else "power" if (base, rate) == (0.8, 0.5) else ""
                    if kind:
                        moved = pooling.permutation_p(y, arm, cluster, stage, draws=999, seed=index)
                        tally.test("tasks permuted within stages", f"{kind}, {group}", moved)
                        tally.test("square-and-add, inverted", f"{kind}, {group}", new.p)
                        tally.test("(sign flips over stages)", f"{kind}, {group}", new.p_sign_flip)
                        tally.test("(plain t over stages)", f"{kind}, {group}", plain.p)
                    if index % 2 == 0:  # a GEE costs more than all the rest
                        these = marginal.these_strata_effect(y, arm, cluster, stage)
                        local = float(np.mean(marginal_rate(logits[1] + drawn, task_sd)))
                        local -= float(np.mean(marginal_rate(logits[0] + drawn, task_sd)))
                        tally.interval("effect, these stages, GEE", group, key, (these.low, these.high), local)
                        if kind:
                            tally.test("GEE, these stages", f"{kind}, {group}", these.p)
    tally.print_cover("C. All tasks pooled", pooled=True)
    tally.print_tests("C. Tests of the pooled effect (null: equal rates; power: .8 to .5)")


def _study(
    rng: np.random.Generator, means: tuple[float, float], stage_sd: float, task_sd: float, sub: int
) -> tuple[Floats, npt.NDArray[np.bool_], npt.NDArray[np.intp], npt.NDArray[np.intp], Floats]:
    """Outcomes, perturbed?, task and stage of all items, and the drawn stage effects."""
    stage, kind = design(rng)
    drawn = rng.normal(0, stage_sd, STAGES)
    p = expit(np.where(kind > 0, means[1], means[0]) + drawn[stage] + rng.normal(0, task_sd, stage.size))
    y = (rng.random(stage.size * sub) < np.repeat(p, sub)).astype(float)
    return y, np.repeat(kind > 0, sub), np.repeat(np.arange(stage.size), sub), np.repeat(stage, sub), drawn


def prompting(replications: int, rng: np.random.Generator) -> None:
    """Count coverage for two strategies on the same items, each with its own task and stage effects."""
    tally = Tally()
    for sub in SUBTASKS:
        for stage_sd, own_sd in ((0.5, 0.0), (1.0, 0.0), (1.0, 0.5)):
            sd = math.sqrt(stage_sd**2 + 1 + own_sd**2 + 0.25)
            for base, rate in PAIRS:
                means = (logit_of(base, sd), logit_of(rate, sd))
                group, key = f"SD {stage_sd}, own {own_sd}; x {sub}", f"{base} {rate}"
                for _ in range(max(1, replications // 4)):
                    _prompting_once(tally, rng, means, (stage_sd, own_sd, sub), (group, key, base, rate))
    tally.print_cover(
        "D. Prompting effect, the same 68 tasks (`own`: SD of a stage's own response to a strategy)", True
    )
    tally.print_tests("D. Tests of the prompting effect, and of differential failure (20 % of outputs, clustered)")


def _prompting_once(
    tally: Tally,
    rng: np.random.Generator,
    means: tuple[float, float],
    spread: tuple[float, float, int],
    scenario: tuple[str, str, float, float],
) -> None:
    (stage_sd, own_sd, sub), (group, key, base, rate) = spread, scenario
    stage, _ = design(rng)
    drawn, task = rng.normal(0, stage_sd, STAGES), rng.normal(0, 1, stage.size)
    own = rng.normal(0, own_sd, (2, STAGES))
    given = [m + drawn + o for m, o in zip(means, own, strict=True)]
    p = [expit(g[stage] + task + rng.normal(0, 0.5, stage.size)) for g in given]
    c, t = ((rng.random(stage.size * sub) < np.repeat(q, sub)).astype(float) for q in p)
    cluster, strata = np.repeat(np.arange(stage.size), sub), np.repeat(stage, sub)
    local = float(
        np.mean(marginal_rate(given[1], math.sqrt(1.25))[stage] - marginal_rate(given[0], math.sqrt(1.25))[stage])
    )
    by_task, by_stage = clustered.paired_effect(t, c, cluster), clustered.paired_effect(t, c, cluster, strata)
    tally.interval("paired, unit task (these stages), t", group, key, (by_task.low, by_task.high), local)
    tally.interval("paired, unit stage (new stages), t", group, key, (by_stage.low, by_stage.high), rate - base)
    table = paired.mcnemar(t, c)
    found = proportions.tango(table.gained, table.lost, t.size)
    tally.interval("Tango, n = items (these stages)", group, key, (found.low, found.high), local)
    found = proportions.tango(table.gained / sub, table.lost / sub, stage.size)
    tally.interval("Tango, n = tasks (these stages)", group, key, (found.low, found.high), local)
    found = proportions.newcombe_paired(table.both, table.gained, table.lost, table.neither)
    tally.interval("Newcombe paired, n = items (these stages)", group, key, (found.low, found.high), local)
    _, low, high = published.risk_difference(int(t.sum()), t.size, int(c.sum()), c.size)
    tally.interval("published difference", group, key, (low, high), local)
    kind = "null" if base == rate else "power" if (base, rate) == (0.8, 0.5) else ""
    if not kind:
        return
    if not own_sd:  # with an own response of the stages "no effect in these stages" is not true
        tally.test("sign flips over tasks", f"{kind}, {group}", by_task.p_sign_flip)
        tally.test("McNemar exact (items)", f"{kind}, {group}", table.p_exact)
        tally.test("McNemar mid-p (items)", f"{kind}, {group}", table.p_mid)
        tally.test("Cochran's Q (items)", f"{kind}, {group}", paired.cochrans_q(np.column_stack([t, c])).p)
    tally.test("sign flips over stages", f"{kind}, {group}", by_stage.p_sign_flip)
    if kind == "null" and base == 0.5:
        lost = [np.repeat(expit(-2 + rng.normal(0, 1.5, stage.size)), sub) for _ in range(2)]
        failed = [rng.random(q.size) < q for q in lost]
        different = paired.differential_failure(failed[0], failed[1], [int(name) for name in cluster])
        tally.test("differential failure, McNemar (items)", f"null, {group}", different.p_exact)
        tally.test("differential failure, sign flips over tasks", f"null, {group}", different.p_clustered)
        low, high = paired.missing_bounds(np.where(failed[0], np.nan, t), np.where(failed[1], np.nan, c))
        full = float(t.mean() - c.mean())
        tally.interval("missing-output bounds hold the full contrast", group, key, (low, high), full)


def other(replications: int, rng: np.random.Generator) -> None:
    """Count coverage for unmatched stories of five questions, and for the association of chain and answer."""
    tally = Tally()
    for clusters in (7, 30):
        for base, rate in PAIRS:
            for _ in range(replications):
                p = expit(
                    np.repeat([logit_of(base, 1.0), logit_of(rate, 1.0)], clusters) + rng.normal(0, 1, 2 * clusters)
                )
                y, cluster = (rng.random(p.size * 5) < np.repeat(p, 5)).astype(float), np.repeat(np.arange(p.size), 5)
                found = clustered.unmatched_effect(y, cluster >= clusters, cluster)
                group, key = f"{clusters} stories an arm", f"{base} {rate}"
                tally.interval("unmatched clusters, Welch t", group, key, (found.low, found.high), rate - base)
                if base == rate:
                    tally.test("unmatched clusters, Welch t", f"null, {group}", found.p)
    for strength in (0.0, 1.0, 2.5):
        truth = [
            statistic(*columns) for columns in (_chains(rng, 4000, strength),) for statistic in STATISTICS.values()
        ]
        for _ in range(replications):
            columns = _chains(rng, STAGES, strength)
            for (name, statistic), target in zip(STATISTICS.items(), truth, strict=True):
                scale = (0.0, 1.0) if "AUC" in name else (-1.0, 1.0)
                estimate = association.jackknife(statistic, columns, columns[3], scale=scale)
                tally.interval(
                    f"{name}, stage jackknife",
                    "7 stages x 10 tasks x 2",
                    str(strength),
                    (estimate.low, estimate.high),
                    target,
                )
    tally.print_cover("E. Unmatched clusters; association of chain and answer (stage SD 1)", pooled=True)
    tally.print_tests("E. Tests")


STATISTICS: dict[str, Callable[..., float]] = {
    "phi": lambda score, right, kind, stage: association.phi(score > 0.5, right).phi,
    "phi within class": lambda score, right, kind, stage: association.within_correlation(score > 0.5, right, kind),
    "AUC": lambda score, right, kind, stage: association.separation(score, right).auc,
    "AUC within class": lambda score, right, kind, stage: association.within_auc(score, right, kind),
    "point-biserial": lambda score, right, kind, stage: association.separation(score, right).point_biserial,
}


def _chains(rng: np.random.Generator, stages: int, strength: float) -> tuple[Floats, ...]:
    """Draw chain scores in [0, 1], correctness, class and stage for 10 tasks a stage of 2 items each."""
    shape = (stages, 10, 2)
    hard = np.linspace(-1, 1, 10)[None, :, None]
    right = (rng.random(shape) < expit(0.3 + hard + rng.normal(0, 1, (stages, 1, 1)))).astype(float)
    score = expit(strength * (right - 0.5) + hard + rng.normal(0, 1, (stages, 1, 1)) + rng.normal(0, 1, shape))
    kind, stage = (
        np.broadcast_to(np.arange(10.0)[None, :, None], shape),
        np.broadcast_to(np.arange(stages)[:, None, None], shape),
    )
    return score.ravel(), right.ravel(), kind.ravel(), stage.ravel().astype(float)


def main() -> None:
    """Run all sections, which takes about seven minutes on one core with the default number of replications."""
    parser = argparse.ArgumentParser(description="coverage and error rates of tomserve's intervals and tests")
    parser.add_argument("--replications", type=int, default=300, help="per rate; slower sections use 1/2 or 1/4")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for index, section in enumerate((class_shares, class_effects, pooled, prompting, other)):
        section(given.replications, np.random.default_rng([given.seed, index]))


if __name__ == "__main__":
    main()
