"""Shares of right answers and differences between them, from sums over the clusters of the answers.

A cluster (a task, a story) is what counts as independent, so that no estimate here needs more of its answers than a few
counts: how many there are, how many are right, how many failed. `of_answers` and `of_pairs` count them from rows, and
`add` puts the counts of several files together, so that answers of any number give the very same records, whether their
rows are in memory or were counted file by file.

>>> rows = pl.DataFrame({"correct": [True, True, False], "faulty": [False] * 3, "cluster": ["a", "b", "b"]})
>>> of_answers(rows).select("cluster", "answers", "right").rows()
[('a', 1, 1.0), ('b', 2, 1.0)]
>>> halves = [of_answers(rows[:2]), of_answers(rows[2:])]
>>> share(add(halves)) == share(of_answers(rows))
True
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tomserve.stats import clustered, failures, paired, proportions
from tomserve.stats.clusters import cells_of, means_of_units
from tomserve.stats.effects import FEW, Effect
from tomserve.stats.power import minimum_detectable_effect, units_needed
from tomserve.stats.proportions import Interval
from tomserve.studies import sides
from tomserve.studies.families import WORTH

Record = dict[str, Any]
NEW, THESE, NEW_TASKS = "new stages", "these stages", "new tasks"
"""Whom an interval speaks for (column `target`): stages that are not yet written, of which those at hand are taken to
be a sample; further tasks of the very stages at hand, and no others; or further tasks like these."""

NOISE = ("re_asked", "changed")
"""Columns of rows that say what a noise check found."""

UNREAD = "unread"

SQUARES = ("right_squares", "products", "squares")
"""Sums over clusters of squares and products of their numbers of right answers and of answers (designed.Summed)."""


def of_answers(rows: pl.DataFrame, keys: Sequence[str] = ()) -> pl.DataFrame:
    """The sums of answers by the keys and cluster: `answers`, `right`, `failed`, `unread` and those of NOISE, the last
    three where the rows say so; `kept`: the sum of what is right and has not failed.

    rows: one row for each answer (see rows.prepared). keys: further columns, such as a stage. Sorted by the keys, then
    the cluster.
    """
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


def of_pairs(rows: pl.DataFrame, keys: Sequence[str] = ()) -> pl.DataFrame:
    """The sums of pairs (see contrasts.pair) by the keys and cluster.

    They are `items`; `treated` and `control`: what is right; `kept`, `control_kept`: what of that has not failed;
    `moved`: the differences without their signs; `both`, `gained`, `lost`: how many are right under both conditions, or
    one; `failed`, `control_failed`; and those of NOISE, also with control_ before them, where the pairs have them.
    Sorted by the keys, then the cluster.
    """
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


def add(sums: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The sums of several sets of rows, which may have clusters in common, as those of all these rows.

    sums: at least one frame of `of_answers` or of `of_pairs`, all by the same keys.
    """
    counted = [name for name in sums[0].columns if name in _SUMS]
    keys = [name for name in sums[0].columns if name not in _SUMS]
    return pl.concat(sums).group_by(keys).agg(pl.col(counted).sum()).sort(keys).select(sums[0].columns)


_SUMS = frozenset(
    (
        *("answers", "right", "kept", "failed", "unread", "re_asked", "changed"),
        *("items", "treated", "control", "control_kept", "moved", "both", "gained", "lost"),
        *("control_failed", "control_re_asked", "control_changed"),
    )
)
"""The columns that hold sums."""


def share(sums: pl.DataFrame, stratum: str | None = None, icc: float | None = None) -> Record:
    """The record of contrasts.share from the sums `of_answers`, by that stratum where one is given."""
    if stratum is None and icc is None:
        counted = counts_of(sums)
        return share_of({**sums.select(pl.col(counted).sum()).row(0, named=True), "clusters": sums.height})
    answers, right = sums["answers"].to_numpy(), sums["right"].to_numpy()
    if stratum is not None:
        unit = _codes(sums[stratum])
        means = means_of_units(right / answers, unit, int(unit.max()) + 1) if unit.size else np.empty(0)
        found = clustered.units_share(means)
    else:
        found = clustered.sizes_share(float(right.sum()), answers, icc)
    counts = {name: sums[name].sum() for name in counts_of(sums)}
    return _share({**counts, "clusters": sums["cluster"].n_unique()}, found, NEW if stratum else NEW_TASKS)


def share_of(counts: Mapping[str, Any]) -> Record:
    """The record of `share` from counts over all clusters: `answers`, `right`, `failed`, `unread` where it is known,
    and the number of `clusters`."""
    found = clustered.counted_share(float(counts["right"]), int(counts["answers"]), int(counts["clusters"]))
    return _share(counts, found, NEW_TASKS)


def effective_share(sums: pl.DataFrame) -> Record:
    """The record of `effective_share_of` from the sums `of_answers`."""
    counted = counts_of(sums)
    counts = sums.select(pl.col(counted).sum(), *squares()).row(0, named=True)
    return effective_share_of({**counts, "clusters": sums.height})


def counts_of(sums: pl.DataFrame) -> list[str]:
    """The columns of the sums `of_answers` from which a share is made: `unread` only where it is known."""
    return [name for name in ("answers", "right", "failed", UNREAD) if name in sums.columns]


def squares() -> list[pl.Expr]:
    """The columns of SQUARES from the sums `of_answers`."""
    right, answers = pl.col("right"), pl.col("answers").cast(pl.Float64)
    products = (right * right, right * answers, answers * answers)
    return [one.sum().alias(name) for name, one in zip(SQUARES, products, strict=True)]


def effective_share_of(counts: Mapping[str, Any]) -> Record:
    """The record of `share_of` with the interval of designed.designed_share, from the same counts and those of
    SQUARES."""
    sums = (float(counts[name]) for name in ("answers", "right", *SQUARES))
    return _share(counts, clustered.summed_share(clustered.ClusterSums(int(counts["clusters"]), *sums)), NEW_TASKS)


def _share(counts: Mapping[str, Any], found: Interval, target: str) -> Record:
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


def contrast(sums: pl.DataFrame, stratum: str | None = None, target: str | None = None) -> Record:
    """The record of contrasts.contrast from the sums `of_pairs`, by that stratum where one is given."""
    columns = {name: sums[name].to_numpy() for name in sums.columns if name in _SUMS}
    summed = pair_sums(sums, stratum)
    unit, items = summed.unit, summed.items
    effect = clustered.pairs_effect(summed, strata=stratum is not None)
    kept = clustered.PairSums(unit, items, *(columns[name] for name in ("kept", "control_kept", "moved")))
    failed = columns["failed"], columns["control_failed"]
    both, gained, lost = (int(columns[name].sum()) for name in ("both", "gained", "lost"))
    n = int(items.sum())
    mcnemar = paired.mcnemar_of(both, gained, lost, n - both - gained - lost)
    tango = proportions.tango(gained, lost, n)
    weight = sides.weights(unit, items)
    of_units = [np.bincount(unit, one, minlength=summed.units) for one in failed]

    def side(of: str) -> sides.Weighed:
        again, changed = (columns.get(f"{of}{name}") for name in NOISE)
        return sides.Weighed(columns[f"{of}failed"], weight, again, changed)

    return {
        **of_effect(effect, target or (NEW if stratum else NEW_TASKS)),
        **of_tests(effect, summed.by_unit(summed.treated) - summed.by_unit(summed.control)),
        "p_failure": failures.failures_of_units(of_units[0], of_units[1], summed.sizes()).p,
        **sides.beside(side(""), side("control_"), bool(n)),
        **of_rest(effect, clustered.bounds(kept, *failed)),
        "gained": gained,
        "lost": lost,
        "both": both,
        "neither": mcnemar.neither,
        "mcnemar_exact": mcnemar.p_exact,
        "mcnemar_mid_p": mcnemar.p_mid,
        "tango_low": tango.low,
        "tango_high": tango.high,
        "n": n,
    }


def pair_sums(sums: pl.DataFrame, stratum: str | None = None) -> clustered.PairSums:
    """The sums `of_pairs`, by that stratum where one is given, as the estimators take them."""
    unit = _codes(sums[stratum]) if stratum else np.arange(sums.height)
    columns = (sums[name].to_numpy() for name in ("items", "treated", "control", "moved"))
    return clustered.PairSums(unit, *columns)


def matched(sums: pl.DataFrame, treated: pl.Series, stratum: str) -> Record:
    """The record of contrasts.matched for one class, from the sums `of_answers` by stratum and arm.

    treated: for each row of the sums whether it is of the treated arm.
    """
    arm, unit = treated.to_numpy().astype(bool), _codes(sums[stratum])
    of_cell, answers = unit * 2 + arm, sums["answers"].to_numpy()
    cells = cells_of(sums["right"].to_numpy() / answers, of_cell, answers)
    effect = clustered.cells_effect(cells)
    failed = sums["failed"].to_numpy()
    failure = failures.failures_of_cells(failed / answers, of_cell, answers)
    both = np.isin(unit, np.intersect1d(unit[arm], unit[~arm]))
    again, changed = (sums[name].to_numpy() if name in sums.columns else None for name in NOISE)

    def side(chosen: npt.NDArray[np.bool_]) -> sides.Weighed:
        weight = sides.weights(unit[chosen], answers[chosen])
        more = (None if one is None else one[chosen] for one in (again, changed))
        return sides.Weighed(failed[chosen], weight, *more)

    kept = sums["kept"].to_numpy()

    def estimate(right: npt.NDArray[np.float64]) -> float:
        means = cells_of(right / answers, of_cell, answers).means
        return float((means[:, 1] - means[:, 0]).mean()) if len(means) else math.nan

    worst = estimate(kept + failed * ~arm), estimate(kept + failed * arm)
    return {
        **of_effect(effect, NEW),
        **of_tests(effect, cells.means[:, 1] - cells.means[:, 0]),
        "p_failure": failure.p,
        "failure_mean": failure.mean,
        "failure_sd": failure.sd,
        **sides.beside(side(both & arm), side(both & ~arm), bool(both.any())),
        **of_rest(effect, worst),
    }


def _codes(names: pl.Series) -> npt.NDArray[np.intp]:
    """Whole numbers from 0 that stand for the names, in their order."""
    return (names.rank("dense").cast(pl.Int64) - 1).to_numpy()


def of_effect(effect: Effect, target: str) -> Record:
    """The difference, the two shares whose difference it is, and their ratio with an interval over the same units."""
    found: Record = {"risk_difference": effect.estimate, "rd_low": effect.low, "rd_high": effect.high}
    shares = {"share_treated": effect.share_treated, "share_control": effect.share_control}
    ratio = effect.ratio
    found |= {**shares, "target": target, "relative_risk": ratio.estimate, "rr_low": ratio.low, "rr_high": ratio.high}
    none = [name.removeprefix("share_") for name, share in shares.items() if share == 0]
    return {**found, "zeros": f"none right: {' and '.join(none)}" if none else None}


def of_tests(effect: Effect, differences: Any) -> Record:
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
        "units_needed": units_needed(WORTH, spread),
    }


def of_rest(effect: Effect, worst: tuple[float, float]) -> Record:
    """What else a table says of an effect. worst: the least and the greatest effect that failures leave possible."""
    return {
        "worst_low": worst[0],
        "worst_high": worst[1],
        "units": effect.units,
        "tasks": effect.tasks,
        "few_tasks": effect.few_tasks,
        "method": effect.method,
    }
