"""Shares of right answers, and contrasts between two conditions, with intervals over clusters and tests adjusted for
several classes. All are estimated from sums over clusters (tasks, stories), to which the rows of
answer_rows.prepare_rows are added up, in memory or file by file. A failure counts as wrong; how far failures could move
a number is given as bounds. A number that is undefined is nan.

>>> found = share(pl.DataFrame({"correct": [True, True, False], "faulty": [False] * 3, "cluster": ["a", "b", "c"]}))
>>> round(found["accuracy"], 3), found["tasks"], found["few_tasks"]
(0.667, 3, True)
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tomserve.stats import clustered, failures, paired, proportions, strata
from tomserve.stats.clusters import ArmSums, Codes, Floats, intraclass_of, means_of_units
from tomserve.stats.effects import FEW, Effect
from tomserve.stats.failures import Failures, family_p
from tomserve.stats.paired import moderate_tests
from tomserve.stats.power import count_units, minimum_detectable_effect
from tomserve.stats.proportions import Interval
from tomserve.studies import answer_rows
from tomserve.studies.answer_rows import BASELINE
from tomserve.studies.noise import noise_of_sums
from tomserve.studies.presentation import finite_or_none

Record = dict[str, Any]
LEVEL = 0.05  # An adjusted p up to this is clear
# The difference of shares that a study of classes is asked to find: twenty percentage points.
WORTH = 0.2
# With fewer units nothing is called clear.
FEWEST_UNITS = 4
LOWER, HIGHER = "lower", "higher"
NOT_SHOWN, UNDECIDED = "not shown", "cannot be decided"
# The words of a verdict, which follow each other in this order.
UNLESS_FAILURES, UNLESS_NOISE = ", unless failures explain it", ", as batching alone could move it so far"


def adjust_family(
    records: list[Record],
    family: Iterable[str],
    name: str = "perturbation",
    words: tuple[str, str] = (LOWER, HIGHER),
    unit: str = "stage",
) -> list[Record]:
    """The records of effects, those of the family with what testing them together adds: p_adjusted, p_moderated,
    p_moderated_adjusted, and verdict (see `class_verdict`); minimum_detectable_effect and units_needed with the SD
    pooled over the family and the level divided by its size. Outside the family these are nan and None.

    family: the values of column `name` that are tested together. words: what a clear effect below and above zero is
    called."""
    members = set(family)
    inside = [record for record in records if record[name] in members]
    for record in records:
        record |= dict.fromkeys(("p_adjusted", "p_moderated", "p_moderated_adjusted"), math.nan) | {"verdict": None}
    if not inside:
        return records
    means, sds, units = ([record[key] for record in inside] for key in ("risk_difference", "sd", "units"))
    sd, tested = pooled_sd(inside), sum(not math.isnan(record["p"]) for record in inside)
    plain = paired.adjust([record["p"] for record in inside])
    shared = paired.adjust(p_moderated := moderate_tests(means, sds, units).tolist())
    for record, p in zip(inside, _failure_p(inside), strict=True):
        record["p_failure"] = p
    for record, *tests in zip(inside, plain, p_moderated, shared, strict=True):
        record |= dict(zip(("p_adjusted", "p_moderated", "p_moderated_adjusted"), tests, strict=True))
        record["minimum_detectable_effect"] = minimum_detectable_effect(record["units"], sd, family=max(1, tested))
        record["units_needed"] = count_units(WORTH, sd, family=max(1, tested))
        record["verdict"] = class_verdict(record, words, unit)
    return records


def _failure_p(records: Sequence[Record]) -> list[float]:
    """p_failure of classes that share their control tasks, whose failures are known by stage (`contrasts.matched`),
    with the variances of all classes shared; of other effects, their own."""
    if not all("failure_sd" in record for record in records):
        return [record["p_failure"] for record in records]
    keys = ("p_failure", "units", "failure_mean", "failure_sd")
    return family_p([Failures(*(record[key] for key in keys)) for record in records])


def pooled_sd(records: Sequence[Record]) -> float:
    """The standard deviation of the units' differences, pooled over the effects by degrees of freedom; nan where no
    effect has two units, or none of them varies, which does not show that none would."""
    known = [(record["units"] - 1, record["sd"] ** 2) for record in records if not math.isnan(record["sd"])]
    freedom = sum(df for df, _ in known)
    pooled = math.sqrt(sum(df * variance for df, variance in known) / freedom) if freedom else math.nan
    return pooled or math.nan


def class_verdict(record: Record, words: tuple[str, str] = (LOWER, HIGHER), unit: str = "stage") -> str | None:
    """What the study shows of one class, in words: one of `words` where p_adjusted is at most LEVEL and the effect
    above noise_high, with a reservation where failures could explain its sign; "not shown" where the study was large
    enough to find an effect of WORTH with 80% power (or its interval holds none so large); else undecided, with the
    units needed. None where the effect is undefined."""
    effect = finite_or_none(record["risk_difference"])
    if effect is None:
        return None
    least, needed, units = (record[name] for name in ("minimum_detectable_effect", "units_needed", "units"))
    undecided = f"{UNDECIDED} with {units} {unit}{'s' * (units != 1)}"
    if units < FEWEST_UNITS:
        return f"{undecided} (needs {max(needed or 0, FEWEST_UNITS)})"
    p, noise = finite_or_none(record["p_adjusted"]), finite_or_none(record.get("noise_high"))
    if p is not None and p <= LEVEL and effect != 0:
        if noise is not None and abs(effect) <= noise:
            return NOT_SHOWN + UNLESS_NOISE
        return words[effect > 0] + (UNLESS_FAILURES if failures_may_explain(record) else "")
    low, high = finite_or_none(record["rd_low"]), finite_or_none(record["rd_high"])
    within = low is not None and high is not None and low > -WORTH and high < WORTH
    if within if math.isnan(least) else least <= WORTH:  # where no spread is known the interval decides
        return NOT_SHOWN
    return undecided if needed is None or needed <= units else f"{undecided} (needs {needed})"


def failures_may_explain(record: Record) -> bool:
    """Whether failures could explain the sign of an effect: they differ between its sides (p_failure at most LEVEL), or
    its worst bounds hold zero although its interval does not."""
    p, *bounds = (
        finite_or_none(record.get(name)) for name in ("p_failure", "rd_low", "rd_high", "worst_low", "worst_high")
    )
    if p is not None and p <= LEVEL:
        return True
    low, high, worst_low, worst_high = (math.nan if bound is None else bound for bound in bounds)
    return (low > 0 or high < 0) and worst_low <= 0 <= worst_high


# Whom an interval speaks for (column `target`): stages that are not yet written, of which those at hand are taken to be
# a sample; further tasks of the very stages at hand, and no others; or further tasks like these.
NEW, THESE, NEW_TASKS = "new stages", "these stages", "new tasks"
NOISE = ("re_asked", "changed")  # Columns of rows that say what a noise check found
UNREAD = "unread"
ARM = "treated arm"  # The column that says which sums are of the treated arm
# Sums over clusters of squares and products of their numbers of right answers and of answers (designed.Summed).
SQUARES = ("right_squares", "products", "squares")


def sums_of_answers(rows: pl.DataFrame, keys: Sequence[str] = ()) -> pl.DataFrame:
    """The sums of answers by the keys and cluster: `answers`, `right`, `failed`, `unread` and NOISE where the rows say
    so, and `kept`: what is right and has not failed. Sorted by the keys, then the cluster."""
    there = [name for name in (UNREAD, *NOISE) if name in rows.columns]
    right = pl.col("correct").cast(pl.Float64)
    found = rows.group_by(*keys, "cluster").agg(
        pl.len().cast(pl.Int64).alias("answers"),
        right.sum().alias("right"),
        right.filter(~pl.col("faulty")).sum().alias("kept"),
        pl.col("faulty").sum().cast(pl.Int64).alias("failed"),
        *(
            (pl.col(name) & pl.col(NOISE[0]) if name == NOISE[1] else pl.col(name)).sum().cast(pl.Int64)
            for name in there
        ),
    )
    return found.sort(*keys, "cluster")


def sums_of_pairs(rows: pl.DataFrame, keys: Sequence[str] = ()) -> pl.DataFrame:
    """The sums of pairs (see `pair_rows`) by the keys and cluster: `items`; `treated` and `control`: what is right;
    `kept`, `control_kept`: what of that has not failed; `moved`: differences without signs; `both`, `gained`, `lost`;
    `failed`, `control_failed`; and NOISE, also with control_. Sorted by the keys, then the cluster."""
    t, c = (pl.col(name).cast(pl.Float64) for name in ("correct", "control"))
    sums: list[pl.Expr] = [pl.len().cast(pl.Int64).alias("items"), t.sum().alias("treated"), c.sum().alias("control")]
    sums += [
        t.filter(~pl.col("faulty")).sum().alias("kept"),
        c.filter(~pl.col("control_faulty")).sum().alias("control_kept"),
        (t - c).abs().sum().alias("moved"),
        ((t > 0) & (c > 0)).sum().cast(pl.Int64).alias("both"),
        ((t > 0) & (c == 0)).sum().cast(pl.Int64).alias("gained"),
        ((t == 0) & (c > 0)).sum().cast(pl.Int64).alias("lost"),
        pl.col("faulty").sum().cast(pl.Int64).alias("failed"),
        pl.col("control_faulty").sum().cast(pl.Int64).alias("control_failed"),
    ]
    again, changed = ([f"{side}{name}" for side in ("", "control_")] for name in NOISE)
    if {*again, *changed} <= set(rows.columns):
        sums += [pl.col(name).sum().cast(pl.Int64) for name in again]
        sums += [
            (pl.col(one) & pl.col(two)).sum().cast(pl.Int64).alias(one) for one, two in zip(changed, again, strict=True)
        ]
    return rows.group_by(*keys, "cluster").agg(sums).sort(*keys, "cluster")


def add_sums(sums: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The sums of several sets of rows, at least one, which may have clusters in common, as those of all these rows."""
    counted = [name for name in sums[0].columns if name in _SUMS]
    keys = [name for name in sums[0].columns if name not in _SUMS]
    return pl.concat(sums).group_by(keys).agg(pl.col(counted).sum()).sort(keys).select(sums[0].columns)


# The columns that hold sums.
_SUMS = frozenset(
    (
        *("answers", "right", "kept", "failed", "unread", "re_asked", "changed"),
        *("items", "treated", "control", "control_kept", "moved", "both", "gained", "lost"),
        *("control_failed", "control_re_asked", "control_changed"),
    )
)


def share(data: pl.DataFrame, stratum: str | None = None, icc: float | None = None) -> Record:
    """The share of right answers with its 95% interval.

    data: one row for each answer, or `sums_of_answers`. stratum: a column such as "stage"; with it the interval speaks
    for strata not yet written and is a t interval over their means. Without it it speaks for further clusters and is
    Wilson's, with the number of clusters for that of questions or, with the correlation `icc` of the questions of one
    cluster (see `cluster_correlation`), that of independent questions. `estimate` is what the interval is about."""
    sums = _summed(data, sums_of_answers, stratum)
    answers, right = sums["answers"].to_numpy(), sums["right"].to_numpy()
    if stratum is not None:
        unit = integer_codes(sums[stratum]) - 1
        found = clustered.units_share(means_of_units(right / answers, unit, int(unit.max(initial=-1)) + 1))
    else:
        found = clustered.clustered_share(float(right.sum()), answers, icc)
    counts = {name: sums[name].sum() for name in counts_of(sums)} | {"clusters": sums["cluster"].n_unique()}
    return _share_record(counts, found, NEW if stratum else NEW_TASKS)


def cluster_correlation(data: pl.DataFrame, groups: str) -> float:
    """The intra-class correlation of right answers within clusters, pooled over groups such as classes, from 0 to 1;
    nan where it cannot be estimated. data: one row for each answer, or `sums_of_answers` by the groups."""
    sums = _summed(data, sums_of_answers, groups)
    right, answers = sums["right"].to_numpy(), sums["answers"].to_numpy()
    return intraclass_of(right, right * (1 - right / answers), answers, integer_codes(sums[groups]) - 1)


def _summed(data: pl.DataFrame, sum_up: Callable[..., pl.DataFrame], key: str | None) -> pl.DataFrame:
    return data if {"answers", "items"} & set(data.columns) else sum_up(data, [key] if key else [])


def share_of_counts(counts: Mapping[str, Any]) -> Record:
    """The record of `share` from counts over all clusters: `answers`, `right`, `failed`, `unread` where it is known,
    and the number of `clusters`."""
    found = clustered.counted_share(float(counts["right"]), int(counts["answers"]), int(counts["clusters"]))
    return _share_record(counts, found, NEW_TASKS)


def effective_share_of_sums(sums: pl.DataFrame) -> Record:
    """The record of `effective_share_of_counts` from `sums_of_answers`."""
    counts = sums.select(pl.col(counts_of(sums)).sum(), *square_sums()).row(0, named=True)
    return effective_share_of_counts({**counts, "clusters": sums.height})


def counts_of(sums: pl.DataFrame) -> list[str]:
    """The columns of `sums_of_answers` from which a share is made: `unread` only where it is known."""
    return [name for name in ("answers", "right", "failed", UNREAD) if name in sums.columns]


def square_sums() -> list[pl.Expr]:
    """The columns of SQUARES from `sums_of_answers`."""
    right, answers = pl.col("right"), pl.col("answers").cast(pl.Float64)
    products = (right * right, right * answers, answers * answers)
    return [one.sum().alias(name) for name, one in zip(SQUARES, products, strict=True)]


def effective_share_of_counts(counts: Mapping[str, Any]) -> Record:
    """The record of `share_of_counts` with the interval of clustered.designed_share, from the same and SQUARES."""
    sums = clustered.ClusterSums(
        int(counts["clusters"]), *(float(counts[name]) for name in ("answers", "right", *SQUARES))
    )
    return _share_record(counts, clustered.summed_share(sums), NEW_TASKS)


def _share_record(counts: Mapping[str, Any], found: Interval, target: str) -> Record:
    correct, total, failed, tasks = (int(counts[name]) for name in ("right", "answers", "failed", "clusters"))
    return {
        "correct": correct,
        "total": total,
        "accuracy": correct / total if total else math.nan,
        "ci_low": found.low,
        "ci_high": found.high,
        "failed": failed,
        "unread": int(counts[UNREAD]) if UNREAD in counts else None,
        "accuracy_dropped": correct / (total - failed) if total > failed else math.nan,
        "accuracy_high": (correct + failed) / total if total else math.nan,
        "tasks": tasks,
        "few_tasks": tasks < FEW,
        "estimate": found.estimate,
        "target": target,
        "method": found.method,
    }


def pair_rows(rows: pl.DataFrame, control: pl.DataFrame, on: Iterable[str] = ("item",)) -> pl.DataFrame:
    """The rows of one condition that have a partner in another, by the columns `on`, beside what the partner scored:
    its `correct` as `control`, its `faulty`, `re_asked` and `changed`, where it has them, with control_ before them."""
    keys = list(on)
    more = [name for name in ("faulty", *NOISE) if name in control.columns]
    other = control.select(*keys, pl.col("correct").alias("control"), pl.col(more).name.prefix("control_"))
    return rows.join(other, on=keys, how="inner", maintain_order="left")


def contrast(data: pl.DataFrame, stratum: str | None = None, target: str | None = None) -> Record:
    """The difference between two conditions that were asked the same items.

    data: what `pair_rows` makes, or `sums_of_pairs`. stratum: a column such as "stage", so that the interval speaks for
    strata not yet written; without it the interval is over clusters. target: whom it speaks for, in words. Both are t
    intervals, and p is that of the same t test. McNemar's tests, gained and lost, and Tango's interval take the items
    as independent, which they are not, and only describe."""
    sums = _summed(data, sums_of_pairs, stratum)
    columns = {name: sums[name].to_numpy() for name in sums.columns if name in _SUMS}
    summed = pair_sums(sums, stratum)
    unit, items = summed.unit, summed.items
    effect = clustered.pairs_effect(summed, strata=stratum is not None)
    kept = replace(summed, treated=columns["kept"], control=columns["control_kept"])
    failed = columns["failed"], columns["control_failed"]
    both, gained, lost = (int(columns[name].sum()) for name in ("both", "gained", "lost"))
    n = int(items.sum())
    exact, middle = paired.mcnemar(gained, lost, n)
    tango = proportions.tango(gained, lost, n)
    of_units = tuple(np.bincount(unit, one, minlength=summed.units) for one in failed)
    weight = _answer_weights(unit, items)
    sides = [tuple(columns.get(f"{of}{name}") for name in ("failed", *NOISE)) for of in ("", "control_")]
    return {
        **effect_columns(effect, target or (NEW if stratum else NEW_TASKS)),
        **_test_columns(effect, summed.by_unit(summed.treated) - summed.by_unit(summed.control)),
        "p_failure": failures.paired_failures(of_units[0], of_units[1], summed.sizes()).p,
        **_side_columns([(weight, *side) for side in sides], known=n > 0),
        **_bound_columns(effect, clustered.bounds(kept, *failed)),
        "gained": gained,
        "lost": lost,
        "both": both,
        "neither": n - both - gained - lost,
        "mcnemar_exact": exact,
        "mcnemar_mid_p": middle,
        "tango_low": tango.low,
        "tango_high": tango.high,
        "n": n,
    }


def pair_sums(sums: pl.DataFrame, stratum: str | None = None) -> clustered.PairSums:
    """The sums `sums_of_pairs`, by that stratum where one is given, as the estimators take them."""
    unit = integer_codes(sums[stratum]) - 1 if stratum else np.arange(sums.height)
    return clustered.PairSums(unit, *(sums[name].to_numpy() for name in ("items", "treated", "control", "moved")))


def matched_contrast(data: pl.DataFrame, treated: pl.Series, *, stratum: str, pool: str | None = None) -> Record:
    """Treated against control clusters that share a stratum, such as perturbed against unperturbed tasks of a stage.

    data: one row for each answer, or `sums_of_answers` by stratum and arm. treated: for each of these rows whether it
    is of the treated arm. pool: None for one class; NEW or THESE where all classes are pooled, and the interval is to
    speak for stages not yet written or for those at hand. All numbers are over the strata that have both arms, each
    counted once; with THESE both shares, and the bounds, are those of a fitted model."""
    sums, treated = data, treated.cast(pl.Boolean).alias(ARM)
    if "answers" not in data.columns:
        sums = sums_of_answers(data.with_columns(treated), [stratum, ARM])
        treated = sums[ARM]
    arm = treated.to_numpy()
    of_stratum, of_cluster = (integer_codes(sums[name]) - 1 for name in (stratum, "cluster"))
    order = np.lexsort((arm, of_cluster, of_stratum))  # so that sums do not depend on the order of the rows
    of_stratum, of_cluster, arm = of_stratum[order], of_cluster[order], arm[order]
    columns = {name: sums[name].to_numpy()[order] for name in sums.columns if name in _SUMS}
    right, kept, failed = (columns[name] for name in ("right", "kept", "failed"))
    arms = ArmSums(of_stratum, of_cluster, arm, columns["answers"], right)
    means = arms.cells().means
    extra: Record = {}
    if pool == THESE:
        effect = strata.these_strata_effect(arms)
        extra |= dict(zip(("mh_risk_difference", "mh_risk_ratio"), strata.mantel_haenszel(arms), strict=True))
    else:
        effect = clustered.cells_effect(arms.cells()) if pool is None else strata.pooled_effect(arms)
        extra |= {} if pool is None else {"p_permutation": strata.permutation_p(arms)}
    failure = failures.matched_failures(of_failed := arms.with_right(failed))

    def estimate(found: Floats) -> float:
        if pool == THESE:
            return strata.these_strata_effect(arms.with_right(found)).estimate if failed.any() else effect.estimate
        cells = arms.with_right(found).cells().means
        return float((cells[:, 1] - cells[:, 0]).mean()) if len(cells) else math.nan

    both = np.isin(arms.stratum, np.intersect1d(arms.stratum[arm], arms.stratum[~arm]))
    noise = [columns.get(name) for name in NOISE]
    sides = []
    for chosen in (both & arm, both & ~arm):
        weight = _answer_weights(arms.stratum[chosen], arms.answers[chosen])
        sides.append((weight, *(None if one is None else one[chosen] for one in (failed, *noise))))
    return {
        **effect_columns(effect, pool or NEW),
        **_test_columns(effect, means[:, 1] - means[:, 0] if pool != THESE else np.empty(0)),
        "p_failure": failure.p if pool is None else strata.permutation_p(of_failed),
        "failure_mean": failure.mean,
        "failure_sd": failure.sd,
        **_side_columns(sides, known=bool(both.any())),
        # A fitted share need not rise with what is right, and the estimate itself is possible.
        **_bound_columns(
            effect,
            (
                min(estimate(kept + failed * ~arm), effect.estimate),
                max(estimate(kept + failed * arm), effect.estimate),
            ),
        ),
        **extra,
    }


def _answer_weights(unit: Codes, answers: npt.NDArray[np.number]) -> Floats:
    """How much each answer of a cluster counts in a mean of the units' means of their clusters' means; they add up to
    1."""
    _, of_unit, clusters = np.unique(unit, return_inverse=True, return_counts=True)
    return np.asarray(1 / (clusters.size * clusters[of_unit] * answers), dtype=np.float64)


def _side_columns(sides: Sequence[tuple[Any, ...]], *, known: bool) -> Record:
    """What stands beside an effect: the share of each side's answers that failed, with the effect's weights, and the
    noise. sides: of each the weight of an answer, how many failed, were asked again, and changed [clusters]."""
    failed = [float(failed @ weight) if known else math.nan for weight, failed, *_ in sides]
    answers = [(again, changed, weight) for weight, _, again, changed in sides if again is not None]
    noise = noise_of_sums(answers if len(answers) == 2 else [(np.zeros(0),) * 3])
    return {"failed_treated": failed[0], "failed_control": failed[1], **noise}


def integer_codes(names: pl.Series) -> npt.NDArray[np.int64]:
    """Whole numbers from 1 that stand for the names, in their order: estimators sort their groups again and again. Of
    the few names that most tables have, a dictionary makes them sooner than a query of Polars."""
    if names.null_count():
        return names.rank("dense").cast(pl.Int64).to_numpy()
    values = names.to_list()
    codes = {name: code for code, name in enumerate(sorted(set(values)), 1)}
    return np.fromiter(map(codes.__getitem__, values), np.int64, len(values))


def effect_columns(effect: Effect, target: str) -> Record:
    """The difference, the two shares whose difference it is, and their ratio with an interval over the same units."""
    found: Record = {"risk_difference": effect.estimate, "rd_low": effect.low, "rd_high": effect.high}
    shares = {"share_treated": effect.share_treated, "share_control": effect.share_control}
    ratio = effect.ratio
    found |= {**shares, "target": target, "relative_risk": ratio.estimate, "rr_low": ratio.low, "rr_high": ratio.high}
    none = [name.removeprefix("share_") for name, share in shares.items() if share == 0]
    return {**found, "zeros": f"none right: {' and '.join(none)}" if none else None}


def interval_columns(name: str, found: Interval | None, stem: str = "") -> Record:
    """An estimate with its ends as the columns NAME, NAME_low and NAME_high, or STEM_low and STEM_high; None where it
    is undefined."""
    ends = (None,) * 3 if found is None else (found.estimate, found.low, found.high)
    names = (name, f"{stem or name}_low", f"{stem or name}_high")
    return {name: finite_or_none(value) for name, value in zip(names, ends, strict=True)}


def _test_columns(effect: Effect, differences: Any) -> Record:
    """The p values of one effect, and what so many units can find. differences: those of the units, where they are what
    the interval is made of."""
    known = np.asarray(differences, dtype=float)
    sd = float(known.std(ddof=1)) if known.size > 1 else math.nan
    spread = sd or math.nan  # units that happen to agree do not show that all would
    return {
        "p": effect.p,
        "p_sign_flip": effect.p_sign_flip,
        "p_smallest": effect.p_smallest,
        "sd": sd,
        "minimum_detectable_effect": minimum_detectable_effect(effect.units, spread),
        "units_needed": count_units(WORTH, spread),
    }


def _bound_columns(effect: Effect, worst: tuple[float, float]) -> Record:
    """What else a table says of an effect. worst: the least and the greatest effect that failures leave possible."""
    return {
        "worst_low": worst[0],
        "worst_high": worst[1],
        "units": effect.units,
        "tasks": effect.tasks,
        "few_tasks": effect.few_tasks,
        "method": effect.method,
    }


def controls_of(asked: Sequence[str], baseline: str | None = None) -> Iterator[tuple[str, list[str]]]:
    """Each strategy with those that it may be compared with, of which the first that was asked the same items counts.

    That is the baseline or, without one, what asks for the answer alone: of a strategy that reasons its partner, such
    as letters of letters_cot, otherwise vanilla or the next of answer_rows.plain_strategies."""
    if baseline is not None:
        yield from ((name, [baseline]) for name in asked if name != baseline)
        return
    named = sorted(asked, key=lambda name: (name != BASELINE, name))
    plain = answer_rows.plain_strategies(named)
    for name in named:
        controls = plain[: plain.index(name)] if name in plain else plain
        yield name, sorted(controls, key=lambda control: answer_rows.cot_partner(control) != name)


def prompting_effects(
    rows: pl.DataFrame, baseline: str | None = BASELINE, keys: Sequence[str] = ()
) -> Iterator[Record]:
    """By model and values of the keys, each strategy against another (see `controls_of`) on the items that both were
    asked: the `contrast` of the two after the columns model, keys, treatment and control. A strategy without an item in
    common with such a one is left out. rows: prepared rows, in the order in which the values shall stand."""
    for key, part in answer_rows.split_by(rows, ("model", *keys), sort=False):
        for treatment, controls in controls_of(part["strategy"].unique(maintain_order=True).to_list(), baseline):
            for control in controls:
                pairs = pair_rows(part.filter(strategy=treatment), part.filter(strategy=control))
                if pairs.height:
                    yield {**key, "treatment": treatment, "control": control, **contrast(pairs)}
                    break
