"""The numbers of stability: how many answers survive each kind of variant, beside habit, noise and accuracy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from tomserve.stats.effects import FEW
from tomserve.stats.proportions import UNDEFINED, Interval
from tomserve.stats.stability import difference_to_floor, stability, weighted_share
from tomserve.studies import baselines
from tomserve.studies.contrasts import Record, codes, contrast, share
from tomserve.studies.pairs import ARM, SHORT, UNREADABLE, Asked, both, by_arm, in_order
from tomserve.variants import AGAIN

MEANS = {"T1-T4": ("T1", "T2", "T3", "T4"), "T1-T6": ("T1", "T2", "T3", "T4", "T5", "T6")}
"""The means that stand below the kinds, by their short names: the source's, and that of all kinds."""

COLUMNS = (
    *("model", "strategy", "benchmark", "variant", "short", "pairs", "same", "s", "s_low", "s_high", "d", "s0"),
    *("kappa", "kappa_low", "kappa_high", "floor", "floor_low", "floor_high", "minus_floor", "minus_low", "minus_high"),
    *("unreadable", "right", "s_right", "wrong", "s_wrong", "accuracy_original", "accuracy_variant"),
    *("difference", "difference_low", "difference_high", "p", "gained", "lost", "mcnemar_exact"),
    *("constant_accuracy", "above_constant", "left_out", "unpaired", "clusters", "few_clusters"),
)
"""The columns of the table `stability`, of which a table lacks those that nothing is known of."""

NOTHING = Interval(*UNDEFINED, method="not measured")


def by_kind(asked: Asked) -> Iterator[Record]:
    """The table `stability`: for each model, strategy and benchmark T0, then every kind, then the means of kinds."""
    pairs = {tuple(arm.values()): part for arm, part in by_arm(asked.pairs)}
    arms = pl.concat([asked.originals.select(ARM), asked.variants.select(ARM)]).unique(maintain_order=True)
    for arm, _ in by_arm(arms):
        own = asked.originals.filter(**arm)
        part = pairs.get(tuple(arm.values()), asked.pairs.clear())
        floor = floor_of(own)
        if not math.isnan(floor.estimate):
            yield {**arm, "variant": AGAIN.name, "short": AGAIN.short, **_again(own, floor)}
        kinds = in_order(asked.variants.filter(**arm)["variant"])
        records = [_kind(part.filter(variant=kind), asked, arm, kind, floor) for kind in kinds]
        yield from records
        before: list[Record] = []
        for short, members in MEANS.items():
            there = [record for record in records if record["short"] in members and record["pairs"]]
            if len(there) > max(1, len(before)):  # a mean of the same kinds would say the same once more
                before = there
                yield {**arm, **_mean(short, there, members, part, floor)}


def floor_of(originals: pl.DataFrame) -> Interval:
    """S of T0: the mean over originals that were asked again of the share of numbers of requests in flight at which the
    answer stayed the same; undefined where none was asked again. An original without a readable answer kept none."""
    again = originals.filter(pl.col("levels_compared") > 0)
    if again.is_empty():
        return NOTHING
    return weighted_share(_kept(again), codes(again["cluster"]), np.zeros(again.height, dtype=int))


def _kept(again: pl.DataFrame) -> Any:
    kept = 1 - pl.col("levels_answer") / pl.col("levels_compared")
    return again.select(pl.when(pl.col("said") == UNREADABLE).then(0.0).otherwise(kept)).to_series().to_numpy()


def _again(originals: pl.DataFrame, floor: Interval) -> Record:
    again = originals.filter(pl.col("levels_compared") > 0)
    kept, weight = _kept(again), again["levels_compared"].to_numpy()
    unread = again.filter(said=UNREADABLE)["levels_compared"].sum()
    return {
        **{"pairs": int(weight.sum()), "same": round(float(kept @ weight)), **_share(floor)},
        "unreadable": int(unread),
        **_by_outcome(kept, again["correct"].to_numpy()),
        "left_out": originals.height - again.height,
        **_clusters(again),
    }


def _kind(part: pl.DataFrame, asked: Asked, arm: dict[str, str], kind: str, floor: Interval) -> Record:
    """One kind of variant. part: its pairs, none perhaps."""
    everybody, told = asked.originals.filter(**arm), asked.variants.filter(**arm, variant=kind)
    record: Record = {**arm, "variant": kind, "short": SHORT.get(kind, ""), **surviving(part)}
    same = part["same"].cast(pl.Float64).to_numpy()
    gap = _gap(Interval(record["s"], record["s_low"], record["s_high"], ""), floor)
    record |= {**gap, **_by_outcome(same, part["control_correct"].to_numpy()), **_accuracy(part, asked)}
    covered = set(told["original_item"])
    return {
        **record,
        "left_out": everybody.filter(~pl.col("item").is_in(list(covered))).height,
        "unpaired": told.height - part.height,
        **_clusters(part),
    }


def surviving(part: pl.DataFrame) -> Record:
    """S with its interval, what habits alone would give, and kappa, of some pairs."""
    found = stability(*both(part), codes(part["cluster"]))
    kappa = found.kappa
    return {
        "pairs": part.height,
        "same": int(part["same"].sum()),
        **_share(found.share),
        **{"s0": found.expected, "kappa": kappa.estimate, "kappa_low": kappa.low, "kappa_high": kappa.high},
        "unreadable": part.filter((pl.col("said") == UNREADABLE) | (pl.col("control_said") == UNREADABLE)).height,
    }


def _share(found: Interval) -> Record:
    return {"s": found.estimate, "s_low": found.low, "s_high": found.high, "d": 1 - found.estimate}


def _gap(found: Interval, floor: Interval) -> Record:
    """S minus that of T0, whose share and interval stand beside it; empty where T0 was not asked."""
    if math.isnan(floor.estimate) or math.isnan(found.estimate):
        return {}
    gap = difference_to_floor(found, floor)
    return {
        **{"floor": floor.estimate, "floor_low": floor.low, "floor_high": floor.high},
        **{"minus_floor": gap.estimate, "minus_low": gap.low, "minus_high": gap.high},
    }


def _by_outcome(same: Any, right: Any) -> Record:
    """S among the originals that were right, and among the others."""
    found: Record = {}
    for name, chosen in (("right", right), ("wrong", ~right)):
        found |= {name: int(chosen.sum()), f"s_{name}": float(same[chosen].mean()) if chosen.any() else math.nan}
    return found


def _accuracy(part: pl.DataFrame, asked: Asked) -> Record:
    """Accuracy on originals and on variants, their paired difference, and the constant rules' share."""
    if part.is_empty():
        return {}
    found = contrast(part)
    names = {
        **{"share_control": "accuracy_original", "share_treated": "accuracy_variant", "risk_difference": "difference"},
        **{"rd_low": "difference_low", "rd_high": "difference_high", "p": "p"},
        **{name: name for name in ("gained", "lost", "mcnemar_exact")},
    }
    record: Record = {new: found[old] for old, new in names.items()}
    own = asked.originals.join(part.select("model", "strategy", item="original_item"), on=["model", "strategy", "item"],
                               how="semi")  # fmt: skip
    constant = [one for one in baselines.counted(own, asked.rules) if one["kind"] == "constant"]
    if constant:
        best = constant[0]["accuracy"]
        record |= {"constant_accuracy": best, "above_constant": share(own)["ci_low"] > best}
    return record


def _clusters(part: pl.DataFrame) -> Record:
    clusters = part["cluster"].n_unique()
    return {"clusters": clusters, "few_clusters": clusters < FEW}


def _mean(short: str, there: Sequence[Record], members: Sequence[str], part: pl.DataFrame, floor: Interval) -> Record:
    """The mean over the kinds that there are, each counted once. members: those that belong to the mean."""
    kinds = [record["variant"] for record in there]
    shorts = [record["short"] for record in there]
    own = part.filter(pl.col("variant").is_in(kinds))
    found = weighted_share(own["same"].cast(pl.Float64), codes(own["cluster"]), codes(own["variant"]))

    def mean(name: str) -> float:
        values = [record[name] for record in there if record.get(name) is not None and not math.isnan(record[name])]
        return sum(values) / len(values) if len(values) == len(there) else math.nan

    name = f"mean {short}" if len(there) == len(members) else f"mean of {' '.join(shorts)}"
    plain = ("s0", "kappa", "s_right", "s_wrong", "accuracy_original", "accuracy_variant", "difference")
    return {
        **{"variant": name, "short": short, "pairs": own.height, "same": int(own["same"].sum()), **_share(found)},
        **{column: mean(column) for column in plain},
        **_gap(found, floor),
        "unreadable": sum(record["unreadable"] for record in there),
        **_clusters(own),
    }


def by_factor(asked: Asked) -> Iterator[Record]:
    """The table `stability_by`: the same by each factor and value, for all kinds together and for each of them."""
    for arm, part in by_arm(asked.pairs):
        for factor in asked.factors:
            known = part.filter(pl.col(factor).is_not_null()).sort(factor, maintain_order=True)
            for (value,), own in known.group_by([factor], maintain_order=True):
                kinds = in_order(own["variant"])
                for kind in ("all kinds", *(kinds if len(kinds) > 1 else ())):
                    chosen = own if kind == "all kinds" else own.filter(variant=kind)
                    key = {"factor": factor, "value": str(value), "variant": kind}
                    found = surviving(chosen)
                    accuracy = chosen.select(
                        accuracy_original=pl.col("control_correct").mean(), accuracy_variant=pl.col("correct").mean()
                    )
                    yield {**arm, **key, **found, **accuracy.row(0, named=True), **_clusters(chosen)}
