"""Shares of right answers and differences between them, as the records that studies and comparisons print.

The rows are a Polars frame with one row for each answer (see rows.prepared): `correct`, which is false for a failure;
`faulty`, which says that no answer came or could be read; `unread`, where it is known, which says that a reply came and
could not be read; `cluster`, the task or story of the question; and, where the design has stages, `stage`. A failure
counts as wrong, and how far all failures could move a number is given as bounds. A number that is undefined is nan.

    >>> rows = pl.DataFrame({"correct": [True, True, False], "faulty": [False] * 3, "cluster": ["a", "b", "c"]})
    >>> found = share(rows)
    >>> round(found["accuracy"], 3), found["tasks"], found["few_tasks"]
    (0.667, 3, True)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tomserve.stats import paired, strata
from tomserve.stats.clusters import intraclass, matched_cells
from tomserve.studies import asking, summed
from tomserve.studies.rows import BASELINE
from tomserve.studies.summed import NEW, THESE, Record

__all__ = [
    "NEW",
    "THESE",
    "Record",
    "alike",
    "codes",
    "contrast",
    "effects_within",
    "matched",
    "pair",
    "prompting_effects",
    "share",
]

ARM = "treated arm"
"""The column that says, while rows are counted, which of them are of the treated arm."""


def codes(names: pl.Series) -> npt.NDArray[np.int64]:
    """Whole numbers that stand for the names, in the order of the names.

    The estimators sort their groups again and again, which takes minutes where a million names are texts.
    """
    return names.rank("dense").cast(pl.Int64).to_numpy()


def share(rows: pl.DataFrame, stratum: str | None = None, icc: float | None = None) -> Record:
    """The share of right answers with its 95% interval.

    rows: one row for each answer. stratum: a column such as "stage"; with it the interval speaks for strata not yet
    written and is a t interval over their means. Without it the interval speaks for further clusters like these and is
    Wilson's, with the number of clusters in place of the number of questions or, where the intra-class correlation
    `icc` of the questions of one cluster is given (see `alike`), with the number of independent questions for which
    they count. `estimate` in the record is the number that the interval is about: the mean of the strata's means, or
    the accuracy itself.
    """
    return summed.share(summed.of_answers(rows, [stratum] if stratum else []), stratum, icc)


def alike(rows: pl.DataFrame, groups: str) -> float:
    """The intra-class correlation of right answers within clusters, pooled over groups such as classes: from 0, where
    questions of one cluster are as unlike as any, to 1, where they are all right or all wrong together.

    rows: one row for each answer. groups: the column of the group. nan where it cannot be estimated.
    """
    outcome = rows["correct"].cast(pl.Float64).to_numpy()
    return intraclass(outcome, codes(rows["cluster"]), codes(rows[groups]))


def matched(rows: pl.DataFrame, treated: pl.Series, *, stratum: str, pool: str | None = None) -> Record:
    """Treated against control clusters that share a stratum, such as perturbed against unperturbed tasks of a stage.

    rows: one row for each answer, of both arms. treated: for each row whether it is of the treated arm. stratum: the
    column within which arms are compared. pool: None for the rows of one class; NEW or THESE where the rows of all
    classes are pooled, and the interval is to speak for stages not yet written or for the stages at hand.

    All numbers are over the strata that have both arms, each counted once: also the two shares, which therefore may
    differ from the accuracies over all strata. With THESE both shares, and the bounds, are those of a fitted model.
    """
    arm = treated.to_numpy().astype(bool)
    sums = summed.of_answers(rows.with_columns(pl.Series(ARM, arm)), [stratum, ARM])
    of_class = summed.matched(sums, sums[ARM], stratum)
    if pool is None:
        return of_class
    outcome = rows["correct"].cast(pl.Float64).to_numpy()
    columns = (outcome, arm, codes(rows["cluster"]), codes(rows[stratum]))
    extra: Record = {}
    if pool == NEW:
        effect = strata.pooled_effect(*columns)
        extra["p_permutation"] = strata.permutation_p(*columns)
    else:
        effect = strata.these_strata_effect(*columns)
        haenszel = strata.mantel_haenszel(outcome, arm, codes(rows[stratum]))
        extra |= {"mh_risk_difference": haenszel.risk_difference, "mh_risk_ratio": haenszel.risk_ratio}

    faulty = rows["faulty"].to_numpy()

    def estimate(t: Any, c: Any) -> float:
        whole = strata.these_strata_effect(np.where(arm, t, c), *columns[1:]) if faulty.any() else effect
        return whole.estimate

    worst = of_class["worst_low"], of_class["worst_high"]
    if pool == THESE:  # shares that a model fits, and not the means of the strata
        unknown = np.where(faulty, np.nan, outcome)
        worst = paired.missing_bounds(unknown, unknown, estimate)
    means = matched_cells(*columns).means
    return {
        **of_class,
        **summed.of_effect(effect, pool),
        **summed.of_tests(effect, means[:, 1] - means[:, 0] if pool != THESE else np.empty(0)),
        "p_failure": strata.permutation_p(faulty, *columns[1:]),
        **summed.of_rest(effect, worst),
        **extra,
    }


def pair(rows: pl.DataFrame, control: pl.DataFrame, on: Iterable[str] = ("item",)) -> pl.DataFrame:
    """The rows of one condition that have a partner in another, beside what the partner scored.

    on: the columns that make two rows partners. The partner's column `correct` is called `control`, its columns
    `faulty`, `re_asked` and `changed`, where it has them, the same with control_ before them.
    """
    keys = list(on)
    more = [name for name in ("faulty", "re_asked", "changed") if name in control.columns]
    other = control.select(*keys, pl.col("correct").alias("control"), pl.col(more).name.prefix("control_"))
    return rows.join(other, on=keys, how="inner", maintain_order="left")


def contrast(pairs: pl.DataFrame, stratum: str | None = None, target: str | None = None) -> Record:
    """The difference between two conditions that were asked the same items.

    pairs: what `pair` makes. stratum: a column such as "stage", so that the interval speaks for strata not yet written;
    without it the interval is over clusters. target: whom the interval speaks for, in words; by default the stages not
    yet written, or further tasks. Both are t intervals, and p is that of the same t test. McNemar's tests, the counts
    gained and lost, and Tango's interval take the items as independent, which they are not, and only describe.
    """
    return summed.contrast(summed.of_pairs(pairs, [stratum] if stratum else []), stratum, target)


def prompting_effects(rows: pl.DataFrame, baseline: str = BASELINE) -> Iterator[Record]:
    """By model, each strategy against the baseline on the items that both were asked: the `contrast` of the two with
    the columns model, treatment and control before it.

    rows: prepared rows with the columns model, strategy and item. baseline: the name of a strategy.
    Another strategy that has no item in common with it is left out.
    """
    for (model, strategy), treated in rows.group_by(["model", "strategy"], maintain_order=True):
        pairs = pair(treated, rows.filter(model=model, strategy=baseline))
        if strategy != baseline and pairs.height:
            yield {"model": model, "treatment": strategy, "control": baseline, **contrast(pairs)}


def effects_within(rows: pl.DataFrame, keys: Sequence[str]) -> Iterator[Record]:
    """By model and values of the keys, each strategy against the one that asks for the answer alone, on the items that
    both were asked: the `contrast` of the two after the columns model, keys, treatment and control.

    A strategy that reasons is held against its partner, such as letters_cot against letters; otherwise, or where the
    partner was not asked these items, the control is vanilla or the next of asking.plain that was. rows: prepared rows
    in the order in which the values shall stand. A strategy that has no item in common with such a one is left out.
    """
    names = ["model", *keys]
    for key, part in rows.group_by(names, maintain_order=True):
        asked = sorted(part["strategy"].unique(), key=lambda name: (name != BASELINE, name))
        plain = asking.plain(asked)
        for strategy in asked:
            treated = part.filter(strategy=strategy)
            controls = plain[: plain.index(strategy)] if strategy in plain else plain
            for control in sorted(controls, key=lambda name: asking.partner(name) != strategy):
                pairs = pair(treated, part.filter(strategy=control))
                if pairs.height:
                    yield {**dict(zip(names, key, strict=True)), "treatment": strategy, "control": control,
                           **contrast(pairs)}  # fmt: skip
                    break
