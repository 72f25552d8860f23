"""The study of stability: does an answer survive changes that should not matter?

    tomserve stability --benchmark worlds --limit 200   # asks questions with their variants, and prints these tables
    tomserve analyze RUN --study stability              # the tables of a run that holds variants

Where a run holds variants these tables stand beside those of its benchmark's own study. Two ways to count, by
`--intervals`: *recommended* (the default) has S beside what habits alone would give and beside the noise floor, with
intervals over clusters; *published* counts as the framework's source does, and repeats its printed table
(tomserve.studies.published_tables), of which only the average can be computed again.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from tomserve.reporting.html import charts
from tomserve.scoring.baselines import baseline_name
from tomserve.stats.effects import FEW
from tomserve.stats.paired import mcnemar
from tomserve.stats.paper_formulas import accuracy_interval
from tomserve.stats.proportions import UNDEFINED, Interval
from tomserve.stats.stability import difference_to_floor, stability, weighted_share
from tomserve.studies import (
    BAD,
    GOOD,
    OPEN,
    Card,
    Context,
    Excerpt,
    Figure,
    Layout,
    Panel,
    Study,
    Verdict,
    baselines,
    published_tables,
)
from tomserve.studies.answer_rows import split_by
from tomserve.studies.contrasts import Record, contrast, integer_codes, interval_columns, share
from tomserve.studies.presentation import (
    Mark,
    Row,
    Tables,
    cell,
    cell_of,
    finite_or_none,
    first_names,
    interval_cell,
    mark_of,
    percent,
    readable_name,
    several,
    signed_interval,
)
from tomserve.studies.texts import Texts
from tomserve.studies.variant_pairs import (
    ARM,
    SHORT,
    UNREADABLE,
    VariantPairs,
    by_arm,
    order_kinds,
    pair_variants,
    paired_codes,
)
from tomserve.variants import AGAIN

# The means that stand below the kinds, by their short names: the source's, and that of all kinds
MEANS = {"T1-T4": ("T1", "T2", "T3", "T4"), "T1-T6": ("T1", "T2", "T3", "T4", "T5", "T6")}

# The columns of the table `stability`, of which a table lacks those that nothing is known of
COLUMNS = (
    *("model", "strategy", "benchmark", "variant", "short", "pairs", "same", "s", "s_low", "s_high", "d", "s0"),
    *("kappa", "kappa_low", "kappa_high", "floor", "floor_low", "floor_high", "minus_floor", "minus_low", "minus_high"),
    *("unreadable", "right", "s_right", "wrong", "s_wrong", "accuracy_original", "accuracy_variant"),
    *("difference", "difference_low", "difference_high", "p", "gained", "lost", "mcnemar_exact"),
    *("constant_accuracy", "above_constant", "originals", "left_out", "unpaired", "clusters", "few_clusters"),
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
        "originals": everybody.height,
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


# From which S on stable and wrong is worth a warning; below which share of the originals a kind is mostly left out;
# above which expected agreement the answers are hardly more than a habit
HIGH, MOSTLY, HABIT_AGREEMENT = 0.8, 0.5, 0.9


def summary(tables: Tables) -> Iterator[Excerpt]:
    """What the terminal prints: stability, what it does to accuracy, the rules beside, and how variants were made."""
    frame = tables.get("stability", pl.DataFrame())
    if "kappa" in frame.columns:
        yield Excerpt("stability: S by kind of variant", _shares(frame), ("stability",), TEXTS["reading"])
        if "difference" in frame.columns:
            kinds = frame.filter(pl.col("difference_low").is_not_null())
            yield Excerpt("accuracy on variants", _shown_accuracy(kinds), ("stability",), TEXTS["accuracy"])
    elif frame.height:
        shown = (interval_cell("s", "s_low", "s_high", "S [95%]"), cell_of("d", "D"))
        kept = frame.select("model", "strategy", *several(frame, "benchmark"), _shown_kind(), "pairs", *shown)
        yield Excerpt("stability as the source counts", kept, ("stability",))
    if "stability_controls" in tables:
        yield Excerpt(
            "S of shortcut baselines", _rules(tables["stability_controls"]), ("stability_controls",), TEXTS["rules"]
        )
    if "published_stability" in tables:
        name = "published_stability"
        yield Excerpt("published: table 5 of the source", tables[name], (name,), TEXTS["paper"])


def _shown_kind() -> pl.Expr:
    named = pl.when(pl.col("short").is_in(["", *MEANS])).then(pl.col("variant"))
    return named.otherwise(pl.format("{} {}", "short", "variant")).alias("kind")


def _shares(frame: pl.DataFrame) -> pl.DataFrame:
    again = pl.col("variant") == AGAIN.name
    kappa = pl.when(again).then(pl.lit("")).otherwise(interval_cell("kappa", "kappa_low", "kappa_high", "k"))
    columns = [interval_cell("s", "s_low", "s_high", "S [95%]"), kappa.alias("kappa [95%]")]
    if "minus_floor" in frame.columns:
        gap = pl.when(again).then(pl.lit("")).otherwise(interval_cell("minus_floor", "minus_low", "minus_high", "k"))
        columns.append(gap.alias("S - T0 [95%]"))
    left = [pl.col("left_out").alias("left")] if "left_out" in frame.columns else []
    return frame.select("model", "strategy", *several(frame, "benchmark"), _shown_kind(), "pairs", *columns, *left)


def _shown_accuracy(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(
        *("model", "strategy", *several(frame, "benchmark")),
        _shown_kind(),
        *(cell_of("accuracy_original", "before"), cell_of("accuracy_variant", "after")),
        interval_cell("difference", "difference_low", "difference_high", "difference [95%]"),
        *(cell_of("s_right", "S right"), cell_of("s_wrong", "S wrong")),
        *("gained", "lost"),
    )


def _rules(frame: pl.DataFrame) -> pl.DataFrame:
    """A row for each constant rule, and for the best other one by the mean over kinds, a column for each kind."""
    where = ["model", *several(frame, "benchmark")]
    means = frame.group_by([*where, "rule", "kind"], maintain_order=True).agg(mean=pl.col("s").mean())
    others = means.filter(pl.col("kind") != "constant").sort("mean", descending=True, maintain_order=True)
    best = others.unique(where, keep="first", maintain_order=True)
    chosen = pl.concat([means.filter(kind="constant"), best]).select(*where, "rule")
    shown = frame.join(chosen, on=[*where, "rule"], how="semi").with_columns(cell_of("s", "cell"))
    wide = shown.pivot("variant", index=[*where, "rule", "kind"], values="cell", maintain_order=True)
    kinds = wide.columns[len(where) + 2 :]
    shorts = {kind: SHORT[kind] for kind in kinds if kind in SHORT and SHORT[kind] not in kinds}
    wide = wide.sort(*where, pl.col("kind") != "constant", "rule").rename(shorts)
    return wide.select(*where, "rule", "kind", *sorted(shorts.get(kind, kind) for kind in kinds))


def warnings(tables: Tables) -> Iterator[str]:
    """One line for each reason to doubt the numbers: few stories, kinds that are mostly left out, habits, and answers
    that are stable and wrong."""
    frame = tables.get("stability", pl.DataFrame())
    if "kappa" not in frame.columns:
        return
    named = several(frame, "benchmark")
    for row in frame.iter_rows(named=True):
        if not _is_mean(row):
            where = f"{row['benchmark']}, " if named else ""
            yield from (f"{row['model']}, {row['strategy']}, {where}{row['variant']}: {said}" for said in _doubts(row))
    yield from _stable_and_wrong(frame)
    if AGAIN.name not in set(frame["variant"]):
        yield "T0 was not asked (--variants again), so that no S can be compared with what batching alone changes"


def _doubts(row: Row) -> Iterator[str]:
    pairs, left, unpaired, asked = (
        int(str(row.get(name) or 0)) for name in ("pairs", "left_out", "unpaired", "originals")
    )
    again = row["variant"] == AGAIN.name
    if pairs and row["few_clusters"]:
        few = f"{row['clusters']} stories or tasks" if row["clusters"] != 1 else "one story or task"
        yield f"only {few}; the interval is approximate"
    if not again and left > (1 - MOSTLY) * asked:
        yield f"{left} of {asked} originals have no such variant, so that S is that of the others"
    if unpaired:
        yield f"{unpaired} variants were answered whose originals were not; they are not counted"
    s0 = finite_or_none(row.get("s0"))
    if s0 is not None and s0 > HABIT_AGREEMENT:
        yield (
            f"nearly all answers name one place or unknown (S0 {percent(s0)}), so that S shows a habit rather than "
            "stability"
        )


def _stable_and_wrong(frame: pl.DataFrame) -> Iterator[str]:
    """A line for each model and strategy whose answers mostly survive although they are hardly ever right."""
    if "above_constant" not in frame.columns:  # a table of another tool, which knows no rules
        return
    stable = frame.filter(
        pl.col("variant") != AGAIN.name,
        ~pl.col("short").is_in(list(MEANS)),
        pl.col("s") >= HIGH,
        pl.col("s0").fill_null(0) <= HABIT_AGREEMENT,
        ~pl.col("above_constant"),
    )
    named = several(frame, "benchmark")
    for who, part in stable.group_by(["model", "strategy", *named], maintain_order=True):
        first = part.row(0, named=True)
        kinds, least = ", ".join(part["variant"]), percent(part["s"].min())
        right, constant = (percent(first[name]) for name in ("accuracy_original", "constant_accuracy"))
        yield (
            f"{', '.join(map(str, who))}: stable and wrong: S is {least} or more with {kinds}, but the originals are "
            f"not clearly more often right ({right}) than a rule that always gives one sort of answer ({constant})"
        )


# A kind is survived where the interval excludes that so large a share of answers or more is lost beyond noise
MARGIN = 0.1
TEXTS = Texts(__file__, margin=f"{100 * MARGIN:.0f}")

KEPT, LOST, HABIT, UNDECIDED = "kept", "lost", "habit", "undecided"
# The outcomes in the words of the report, in the order in which it names them
_OUTCOMES = {LOST: "does not survive", HABIT: "may be a habit", UNDECIDED: "not shown", KEPT: "survives"}


def verdicts(tables: Tables, context: Context) -> Sequence[Verdict]:
    """For each model whether its answers survive the variants."""
    frame = tables.get("stability", pl.DataFrame())
    if "kappa" not in frame.columns:
        return []
    models = frame["model"].unique(maintain_order=True)
    return [_verdict(str(model), frame.filter(model=model)) for model in models]


def outcome(row: Row) -> str:
    """What a row of the table says of its kind: KEPT, LOST, HABIT (agreement may be no more than habits would give) or
    UNDECIDED. Where T0 was not asked, S is compared with 1, and nothing is called lost, since noise is not known."""
    measured = finite_or_none(row.get("minus_floor")) is not None
    low, high = (
        finite_or_none(row.get(name)) for name in (("minus_low", "minus_high") if measured else ("s_low", "s_high"))
    )
    if low is None or high is None:
        return UNDECIDED
    if not measured:
        low, high = low - 1, high - 1
    if measured and high < 0 and low < -MARGIN:
        return LOST
    kappa = finite_or_none(row.get("kappa_low"))
    if kappa is None or kappa <= 0:
        return HABIT
    return KEPT if low >= -MARGIN else UNDECIDED


def _verdict(model: str, frame: pl.DataFrame) -> Verdict:
    lines: list[str] = []
    grounds: list[tuple[str, str]] = []
    found: dict[tuple[str, str], str] = {}
    marks: list[Mark] = []
    named = several(frame, "benchmark")
    for (strategy, benchmark), part in frame.group_by(["strategy", "benchmark"], maintain_order=True):
        who = readable_name(strategy) + (f", {readable_name(benchmark)}" if named else "")
        rows = part.to_dicts()
        kinds = [row for row in rows if row["pairs"] and row["variant"] != AGAIN.name and not _is_mean(row)]
        for row in kinds:
            found[who, _name(row)] = outcome(row)
        grounds += _grounds(who, kinds)
        again = [row for row in rows if row["variant"] == AGAIN.name]
        means = [row for row in rows if _is_mean(row)]
        lines.append(f"{who}: {_lead(again, means or kinds)}")
        for row in means or kinds:
            marks += mark_of(f"{who}, {row['variant']}", row, "s", ("s_low", "s_high"))
    verdict, tone = _whole(found)
    card = Card("Is it robust to irrelevant changes?", verdict, tone, tuple(grounds), TEXTS["survived"])
    return Verdict(model, tuple(lines), (card,), tuple(marks))


def _is_mean(row: Row) -> bool:
    return row["short"] in MEANS


def _name(row: Row) -> str:
    return readable_name(" ".join(filter(None, (str(row["short"] or ""), str(row["variant"])))))


def _lead(again: Sequence[Row], rows: Sequence[Row]) -> str:
    """S of the means (of the kinds where there are none), and of T0."""
    said = ", ".join(f"{row['variant']} {percent(row['s'])}" for row in rows) or "no variant was answered"
    if again:
        return f"answers that stayed the same: {said}; the same prompt again {percent(again[0]['s'])}"
    return f"answers that stayed the same: {said}; the same prompt was not asked again"


def _grounds(who: str, kinds: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """For each outcome the kinds that have it, with what it rests on."""
    for what, words in _OUTCOMES.items():
        told = [f"{_name(row)} {_describe_kind(row)}" for row in kinds if outcome(row) == what]
        if told:
            yield f"{who}, {words}", f"{'; '.join(told)}."


def _describe_kind(row: Row) -> str:
    """S, and S minus that of T0 with its interval, or else that of S; then kappa, with its interval if it decides."""
    text = percent(row["s"])
    if finite_or_none(row.get("minus_floor")) is not None:
        text += f", {signed_interval(row, 'minus_floor', 'minus_low', 'minus_high')} points"
    elif finite_or_none(row["s_low"]) is not None:
        text += f" [{percent(row['s_low'])} to {percent(row['s_high'])}]"
    kappa, least, most = (finite_or_none(row.get(name)) for name in ("kappa", "kappa_low", "kappa_high"))
    if kappa is None:
        return f"{text}, kappa undefined: all answers are one"
    bounds = f" [{cell(least)}, {cell(most)}]" if outcome(row) == HABIT else ""
    return f"{text}, kappa {cell(kappa)}{bounds}"


def _whole(found: dict[tuple[str, str], str]) -> tuple[str, str]:
    """The verdict of all kinds and strategies, and its tone."""
    outcomes = set(found.values())
    lost, habits, undecided = (
        list(dict.fromkeys(kind for (_, kind), said in found.items() if said == what))
        for what in (LOST, HABIT, UNDECIDED)
    )
    if not found:
        return "No variants were answered", OPEN
    if lost:
        everywhere = outcomes == {LOST}
        return f"No{', for no kind of change' if everywhere else f': {first_names(lost)}'}", BAD
    if habits:
        return f"Not distinguishable from a response habit ({first_names(habits)})", OPEN
    if undecided:
        return f"Not shown for {first_names(undecided)}" + ("; otherwise yes" if KEPT in outcomes else ""), OPEN
    return "Yes, for every kind of change asked", GOOD


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """Every table of the study that has rows, by name. Raises ConfigError for a table that lacks a column."""
    found = pair_variants(scores)
    if intervals == "published":
        listed = {"stability": list(stability_as_published(found))}
        frames = {"variants_made": count_variants(found), "published_stability": published_stability()}
    else:
        listed = {"stability": list(by_kind(found)), "stability_by": list(by_factor(found))}
        listed |= {"flips": list(flips(found)), "stability_controls": list(stability_controls(found))}
        frames = {
            **{"flip_answers": flip_answers(found), "flipped_questions": flipped_questions(found)},
            "variants_made": count_variants(found),
        }
    frames |= {name: pl.DataFrame(rows, infer_schema_length=None).fill_nan(None) for name, rows in listed.items()}
    whole = frames["stability"]  # the rows of T0 and of means lack some of the columns
    frames["stability"] = whole.select(name for name in COLUMNS if name in whole.columns)
    return {name: frames[name] for name in TEXTS.notes() if name in frames and frames[name].height}


def _drawn(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    """S and kappa by kind of variant, with two pictures for each model."""
    needed = "model strategy benchmark variant short s s_low s_high kappa kappa_low kappa_high"
    rows = charts.rows_of(tables, "stability", needed)
    series = [readable_name(name) for name in charts.values_of(rows, "strategy")]
    panels: list[Panel] = []
    for title, own in charts.rows_by_arm(rows):
        floors = [row for row in own if row["variant"] == AGAIN.name]
        kinds = [row for row in own if row["variant"] != AGAIN.name and not _is_mean(row)]
        panels += _panels(kinds, floors, (figure.title, title), series)
    return replace(figure, panels=tuple(panels))


def _panels(kinds: Sequence[Row], floors: Sequence[Row], titles: tuple[str, str], series: Sequence[str]) -> list[Panel]:
    """The picture of S with the bands of T0, and that of kappa. titles: the figure's, and that of whose answers these
    are."""
    found: list[Panel] = []
    for value, name, domain in (("s", "S, the share that survives", (0.0, 1.0)), ("kappa", "kappa", (-0.5, 1.0))):
        drawn = (charts.point_of(row, _name(row), readable_name(row["strategy"]), value) for row in kinds)
        if not (marks := [mark for mark in drawn if mark is not None]):
            continue
        names = list(dict.fromkeys(_name(row) for row in kinds))
        lines = [charts.Line(0, "")] if value == "kappa" else []
        bands = [] if value == "kappa" else _bands(floors)
        chart = charts.points(marks, names, series, domain, lines, name, width=300, bands=bands)
        label = f"{': '.join(titles)}, {name}. " + "; ".join(mark.in_words() for mark in marks) + "."
        if value == "s":
            label += "".join(f" {_in_words(row)}." for row in floors)
        found.append(Panel(f"{titles[1]}: {'S' if value == 's' else 'kappa'}", charts.Picture(chart, label)))
    return found


def _in_words(row: Row) -> str:
    return f"T0, {readable_name(row['strategy'])}: {row['s']:.2f} [{row['s_low']:.2f}, {row['s_high']:.2f}]"


def _bands(floors: Sequence[Row]) -> list[charts.Band]:
    """An upright band for T0 of each strategy, with a line at its estimate."""
    found = []
    for row in floors:
        low, high, at = (finite_or_none(row[name]) for name in ("s_low", "s_high", "s"))
        if low is not None and high is not None and at is not None:
            found.append(charts.Band(low, high, at, readable_name(row["strategy"]), _in_words(row)))
    return found


STUDY = Study(
    name="stability",
    tables=tables,
    notes=TEXTS.notes,
    warnings=warnings,
    summary=summary,
    layouts={"stability": Layout("s", ("s_low", "s_high"), rows="variant", by="benchmark")},
    figures=partial(charts.draw_figures, TEXTS.figure, {"stability": _drawn}),
    verdicts=verdicts,
    variants=True,
)
