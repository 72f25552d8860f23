"""The tables of stability: how many answers survive each kind of variant, beside habit, noise and accuracy, and how
they flip.

Of the published table 5 (tomserve.studies.published_tables) only the average can be computed again.
"""

import math
from collections.abc import Iterator, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import polars as pl

from tomserve.scoring.baselines import baseline_name
from tomserve.stats.effects import FEW
from tomserve.stats.paired import mcnemar
from tomserve.stats.paper_formulas import accuracy_interval
from tomserve.stats.proportions import UNDEFINED, Interval
from tomserve.stats.stability import difference_to_floor, stability, weighted_share
from tomserve.studies import baselines, published_tables
from tomserve.studies.answer_rows import split_by
from tomserve.studies.contrasts import Record, contrast, integer_codes, interval_columns, share
from tomserve.studies.variant_pairs import ARM, SHORT, UNREADABLE, VariantPairs, by_arm, order_kinds, paired_codes
from tomserve.variants import AGAIN

# The means that stand below the kinds, by their short names: the source's, and that of all kinds
MEANS = {"T1-T4": ("T1", "T2", "T3", "T4"), "T1-T6": ("T1", "T2", "T3", "T4", "T5", "T6")}

# The columns of the table `stability`, of which a table lacks those that nothing is known of
COLUMNS = (
    *("model", "strategy", "benchmark", "variant", "short", "pairs", "same", "s", "s_low", "s_high", "d", "s0"),
    *("kappa", "kappa_low", "kappa_high", "floor", "floor_low", "floor_high", "minus_floor", "minus_low", "minus_high"),
    *("unreadable", "right", "s_right", "wrong", "s_wrong", "accuracy_original", "accuracy_variant"),
    *("difference", "difference_low", "difference_high", "p", "gained", "lost", "mcnemar_exact"),
    *("constant_accuracy", "above_constant", "left_out", "unpaired", "clusters", "few_clusters"),
)

NOTHING = Interval(*UNDEFINED, method="not measured")


def by_kind(asked: VariantPairs) -> Iterator[Record]:
    """The table `stability`: for each model, strategy and benchmark T0, then every kind, then the means of kinds."""
    pairs = {tuple(arm.values()): part for arm, part in by_arm(asked.pairs)}
    arms = pl.concat([asked.originals.select(ARM), asked.variants.select(ARM)]).unique(maintain_order=True)
    for arm, _ in by_arm(arms):
        own = asked.originals.filter(**arm)
        part = pairs.get(tuple(arm.values()), asked.pairs.clear())
        floor = floor_of(own)
        if not math.isnan(floor.estimate):
            yield {**arm, "variant": AGAIN.name, "short": AGAIN.short, **_again(own, floor)}
        kinds = order_kinds(asked.variants.filter(**arm)["variant"])
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
    return weighted_share(_kept_share(again), integer_codes(again["cluster"]), np.zeros(again.height, dtype=int))


def _kept_share(again: pl.DataFrame) -> Any:
    kept = 1 - pl.col("levels_answer") / pl.col("levels_compared")
    return again.select(pl.when(pl.col("said") == UNREADABLE).then(0.0).otherwise(kept)).to_series().to_numpy()


def _again(originals: pl.DataFrame, floor: Interval) -> Record:
    again = originals.filter(pl.col("levels_compared") > 0)
    kept, weight = _kept_share(again), again["levels_compared"].to_numpy()
    unread = again.filter(said=UNREADABLE)["levels_compared"].sum()
    return {
        **{"pairs": int(weight.sum()), "same": round(float(kept @ weight)), **_share(floor)},
        "unreadable": int(unread),
        **_by_outcome(kept, again["correct"].to_numpy()),
        "left_out": originals.height - again.height,
        **_clusters(again),
    }


def _kind(part: pl.DataFrame, asked: VariantPairs, arm: dict[str, str], kind: str, floor: Interval) -> Record:
    """One kind of variant. part: its pairs, none perhaps."""
    everybody, told = asked.originals.filter(**arm), asked.variants.filter(**arm, variant=kind)
    record: Record = {**arm, "variant": kind, "short": SHORT.get(kind, ""), **survival_columns(part)}
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


def survival_columns(part: pl.DataFrame) -> Record:
    """S with its interval, what habits alone would give, and kappa, of some pairs."""
    found = stability(*paired_codes(part), integer_codes(part["cluster"]))
    return {
        "pairs": part.height,
        "same": int(part["same"].sum()),
        **_share(found.share),
        **{"s0": found.expected, **interval_columns("kappa", found.kappa)},
        "unreadable": part.filter((pl.col("said") == UNREADABLE) | (pl.col("control_said") == UNREADABLE)).height,
    }


def _share(found: Interval) -> Record:
    return {"s": found.estimate, "s_low": found.low, "s_high": found.high, "d": 1 - found.estimate}


def _gap(found: Interval, floor: Interval) -> Record:
    """S minus that of T0, whose share and interval stand beside it; empty where T0 was not asked."""
    if math.isnan(floor.estimate) or math.isnan(found.estimate):
        return {}
    gap = difference_to_floor(found, floor)
    return {**interval_columns("floor", floor), **interval_columns("minus_floor", gap, "minus")}


def _by_outcome(same: Any, right: Any) -> Record:
    """S among the originals that were right, and among the others."""
    found: Record = {}
    for name, chosen in (("right", right), ("wrong", ~right)):
        found |= {name: int(chosen.sum()), f"s_{name}": float(same[chosen].mean()) if chosen.any() else math.nan}
    return found


def _accuracy(part: pl.DataFrame, asked: VariantPairs) -> Record:
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
    constant = [one for one in baselines.count_rules(own, asked.rules) if one["kind"] == "constant"]
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
    found = weighted_share(own["same"].cast(pl.Float64), integer_codes(own["cluster"]), integer_codes(own["variant"]))

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


def by_factor(asked: VariantPairs) -> Iterator[Record]:
    """The table `stability_by`: the same by each factor and value, for all kinds together and for each of them."""
    for arm, part in by_arm(asked.pairs):
        for factor in asked.factors:
            known = part.filter(pl.col(factor).is_not_null()).sort(factor, maintain_order=True)
            for (value,), own in known.group_by([factor], maintain_order=True):
                kinds = order_kinds(own["variant"])
                for kind in ("all kinds", *(kinds if len(kinds) > 1 else ())):
                    chosen = own if kind == "all kinds" else own.filter(variant=kind)
                    key = {"factor": factor, "value": str(value), "variant": kind}
                    found = survival_columns(chosen)
                    accuracy = chosen.select(
                        accuracy_original=pl.col("control_correct").mean(), accuracy_variant=pl.col("correct").mean()
                    )
                    yield {**arm, **key, **found, **accuracy.row(0, named=True), **_clusters(chosen)}


MOST = 200  # so many questions the table of those that change most often holds, of all models and strategies together


def _outcome(prefix: str) -> pl.Expr:
    unread = pl.col(f"{prefix}said") == UNREADABLE
    right = pl.when(pl.col(f"{prefix}correct")).then(pl.lit("right")).otherwise(pl.lit("wrong"))
    return pl.when(unread).then(pl.lit(UNREADABLE)).otherwise(right)


def flips(asked: VariantPairs) -> Iterator[Record]:
    """The table `flips`: for each kind how many answers went from right, wrong or unreadable to which of these, how
    many wrong ones became another wrong one, and McNemar's test of gained against lost."""
    told = asked.pairs.with_columns(before=_outcome("control_"), after=_outcome(""))
    for arm, part in by_arm(told):
        for kind in order_kinds(part["variant"]):
            own = part.filter(variant=kind)
            counted = {(a, b): n for a, b, n in own.group_by("before", "after").len().iter_rows()}
            gained, lost = (int((own[a] & ~own[b]).sum()) for a, b in (("correct", "control"), ("control", "correct")))
            stayed = own.filter(pl.col("same"), before="wrong", after="wrong").height
            yield {
                **arm,
                **{"variant": kind, "short": SHORT.get(kind, ""), "pairs": own.height},
                "flipped": own.filter(~pl.col("same")).height,
                **{
                    f"{before}_to_{after}": counted.get((before, after), 0)
                    for before in ("right", "wrong", UNREADABLE)
                    for after in ("right", "wrong", UNREADABLE)
                    if (before, after) != ("wrong", "wrong")
                },
                "wrong_to_same": stayed,
                "wrong_to_other": counted.get(("wrong", "wrong"), 0) - stayed,
                **{"gained": gained, "lost": lost, "mcnemar_exact": mcnemar(gained, lost, own.height)[0]},
            }


def flip_answers(asked: VariantPairs) -> pl.DataFrame:
    """The table `flip_answers`: for each kind from which answer to which, the most frequent change first."""
    flips = asked.pairs.filter(~pl.col("same"))
    if flips.is_empty():
        return pl.DataFrame()
    counted = (
        flips.group_by(*ARM, "variant", "from", "to")
        .agg(flips=pl.len().cast(pl.Int64), lost=(pl.col("control") & ~pl.col("correct")).sum().cast(pl.Int64),
             gained=(~pl.col("control") & pl.col("correct")).sum().cast(pl.Int64))
        .with_columns(share=pl.col("flips") / pl.col("flips").sum().over(*ARM, "variant"))
    )  # fmt: skip
    vanilla = pl.col("strategy") != "vanilla"
    return counted.sort("model", vanilla, "strategy", "benchmark", _PLACE, "variant", -pl.col("flips"), "from", "to")


# Where a kind of variant stands in a table: the known ones first, in their order
_PLACE = pl.col("variant").replace_strict({kind: place for place, kind in enumerate(SHORT)}, default=len(SHORT))


def flipped_questions(asked: VariantPairs) -> pl.DataFrame:
    """The table `flipped_questions`: the originals whose answer changes in most of their variants, at most MOST rows
    shared by the models and strategies."""
    if not asked.pairs["same"].len() or asked.pairs["same"].all():
        return pl.DataFrame()
    told = asked.pairs.sort(_PLACE, "variant").with_columns(
        short=pl.col("variant").replace(SHORT), change=pl.format("{}: {}", pl.col("variant").replace(SHORT), "to")
    )
    counted = (
        told.group_by(*ARM, "original_item", maintain_order=True)
        .agg(
            kinds=pl.len().cast(pl.Int64),
            flipped=(~pl.col("same")).sum().cast(pl.Int64),
            right=pl.col("control").first(),
            which=pl.col("short").filter(~pl.col("same")).str.join(" "),
            **{"from": pl.col("from").first(), "to": pl.col("change").filter(~pl.col("same")).str.join("; ")},
        )
        .filter(pl.col("flipped") > 0)
        .with_columns(share=pl.col("flipped") / pl.col("kinds"))
        .sort(-pl.col("share"), -pl.col("flipped"), "original_item")
    )
    room = max(1, MOST // counted.select(*ARM).n_unique())
    chosen = [part.head(room) for _, part in by_arm(counted)]
    columns = (*ARM, pl.col("original_item").alias("item"), "kinds", "flipped", "share", "which", "right", "from", "to")
    return pl.concat(chosen).select(*columns).head(MOST)


def stability_controls(asked: VariantPairs) -> Iterator[Record]:
    """The table `stability_controls`: of how many pairs each rule keeps its answer, the steadiest rule first. A model's
    pairs are counted once, whatever the strategies were."""
    unique = asked.pairs.unique(["model", "benchmark", "item"], keep="first", maintain_order=True)
    for key, part in split_by(unique, ("model", "benchmark")):
        for kind in order_kinds(part["variant"]):
            own = part.filter(variant=kind)
            same, other = (
                dict(own.select(pl.col(f"original_rules_{name}").explode().drop_nulls().value_counts()).unnest(
                    f"original_rules_{name}").iter_rows())
                for name in ("same", "other")
            )  # fmt: skip
            found = [(same.get(rule, 0), same.get(rule, 0) + other.get(rule, 0), rule) for rule in {*same, *other}]
            for kept, said, rule in sorted(found, key=lambda one: (-one[0] / one[1], one[2])):
                yield {
                    **{**key, "variant": kind, "short": SHORT.get(kind, "")},
                    **{"rule": baseline_name(rule), "kind": asked.rules.by_column.get(rule, "surface")},
                    **{"said": said, "same": kept, "s": kept / said},
                }


def count_variants(asked: VariantPairs) -> pl.DataFrame:
    """The table `variants_made`: for each kind and way of making how many variants there are, of how many originals."""
    if asked.variants.is_empty():
        return pl.DataFrame()
    originals = asked.originals.group_by("benchmark").agg(originals=pl.col("item").n_unique().cast(pl.Int64))
    items = asked.variants.unique(["benchmark", "item"], keep="first", maintain_order=True)
    return (
        items.group_by("benchmark", "variant", pl.col("variant_by").fill_null("not said").alias("made_by"))
        .agg(variants=pl.len().cast(pl.Int64), of_originals=pl.col("original_item").n_unique().cast(pl.Int64))
        .sort("benchmark", _PLACE, "variant", "made_by")
        .join(originals, on="benchmark", how="left", maintain_order="left")
        .with_columns(
            short=pl.col("variant").replace_strict(SHORT, default=""),
            share=pl.col("of_originals") / pl.col("originals"),
        )
        .select("benchmark", "variant", "short", "made_by", "variants", "of_originals", "originals", "share")
    )


def published_stability() -> pl.DataFrame:
    """The table `published_stability`: the printed cells, the mean of the four, and whether it is the printed average.
    The mean is rounded half up to two decimals, as the source prints it."""
    rows = []
    for model, cells in published_tables.TABLE_5.items():
        *four, average = (Decimal(str(cell)) for cell in cells)
        mean = sum(four, Decimal(0)) / 4
        agrees = mean.quantize(Decimal("0.01"), ROUND_HALF_UP) == average
        shares = dict(zip(published_tables.KINDS, cells[:4], strict=True))
        rows.append({"model": model, **shares, "mean": float(mean), "printed_average": cells[4], "same": agrees})
    return pl.DataFrame(rows)


def stability_as_published(asked: VariantPairs) -> Iterator[Record]:
    """The table `stability` as the source counts: S of every kind and its plain mean over T1 to T4, without correction;
    the interval takes pairs as independent, since the source gives none."""
    for arm, part in by_arm(asked.pairs):
        shares = {}
        for kind in order_kinds(part["variant"]):
            own = part.filter(variant=kind)["same"]
            low, high = accuracy_interval(int(own.sum()), own.len())
            shares[SHORT.get(kind, "")] = own.sum() / own.len()
            yield {
                **{**arm, "variant": kind, "short": SHORT.get(kind, ""), "pairs": own.len(), "same": int(own.sum())},
                **{"s": own.sum() / own.len(), "s_low": low, "s_high": high, "d": 1 - own.sum() / own.len()},
            }
        if set(published_tables.KINDS) <= set(shares):
            mean = sum(shares[kind] for kind in published_tables.KINDS) / 4
            yield {**arm, "variant": "mean T1-T4", "short": "T1-T4", "s": mean, "d": 1 - mean}
