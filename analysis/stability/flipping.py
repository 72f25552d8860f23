"""Which answers change, and to what; which rules would keep theirs; and how the variants were made."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tomserve.scoring.baselines import baseline_name
from tomserve.stats.paired import mcnemar
from tomserve.studies.contrasts import Record
from tomserve.studies.pairs import ARM, SHORT, UNREADABLE, Asked, by_arm, in_order

MOST = 200
"""So many questions the table of those that change most often holds, of all models and strategies together."""


def _outcome(prefix: str) -> pl.Expr:
    unread = pl.col(f"{prefix}said") == UNREADABLE
    right = pl.when(pl.col(f"{prefix}correct")).then(pl.lit("right")).otherwise(pl.lit("wrong"))
    return pl.when(unread).then(pl.lit(UNREADABLE)).otherwise(right)


def outcomes(asked: Asked) -> Iterator[Record]:
    """The table `flips`: for each kind how many answers went from right, wrong or unreadable to which of these, how
    many wrong ones became another wrong one, and McNemar's test of gained against lost."""
    told = asked.pairs.with_columns(before=_outcome("control_"), after=_outcome(""))
    for arm, part in by_arm(told):
        for kind in in_order(part["variant"]):
            own = part.filter(variant=kind)
            counted = {(a, b): n for a, b, n in own.group_by("before", "after").len().iter_rows()}
            tested = mcnemar(own["correct"].cast(pl.Float64), own["control"].cast(pl.Float64))
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
                **{"gained": tested.gained, "lost": tested.lost, "mcnemar_exact": tested.p_exact},
            }


def answers(asked: Asked) -> pl.DataFrame:
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
    place = pl.col("variant").replace_strict({kind: place for place, kind in enumerate(SHORT)}, default=len(SHORT))
    vanilla = pl.col("strategy") != "vanilla"
    return counted.sort("model", vanilla, "strategy", "benchmark", place, "variant", -pl.col("flips"), "from", "to")


def questions(asked: Asked) -> pl.DataFrame:
    """The table `flipped_questions`: the originals whose answer changes in most of their variants, at most MOST rows
    shared by the models and strategies."""
    if not asked.pairs["same"].len() or asked.pairs["same"].all():
        return pl.DataFrame()
    place = pl.col("variant").replace_strict({kind: place for place, kind in enumerate(SHORT)}, default=len(SHORT))
    told = asked.pairs.sort(place, "variant").with_columns(
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


def controls(asked: Asked) -> Iterator[Record]:
    """The table `stability_controls`: of how many pairs each rule keeps its answer, the steadiest rule first.

    A model's pairs are counted once, whatever the strategies were."""
    unique = asked.pairs.unique(["model", "benchmark", "item"], keep="first", maintain_order=True)
    for (model, benchmark), part in unique.sort("model", "benchmark", maintain_order=True).group_by(
        ["model", "benchmark"], maintain_order=True
    ):
        for kind in in_order(part["variant"]):
            own = part.filter(variant=kind)
            same, other = (
                dict(own.select(pl.col(f"original_rules_{name}").explode().drop_nulls().value_counts()).unnest(
                    f"original_rules_{name}").iter_rows())
                for name in ("same", "other")
            )  # fmt: skip
            found = [(same.get(rule, 0), same.get(rule, 0) + other.get(rule, 0), rule) for rule in {*same, *other}]
            for kept, said, rule in sorted(found, key=lambda one: (-one[0] / one[1], one[2])):
                yield {
                    **{"model": model, "benchmark": benchmark, "variant": kind, "short": SHORT.get(kind, "")},
                    **{"rule": baseline_name(rule), "kind": asked.rules.by_column.get(rule, "surface")},
                    **{"said": said, "same": kept, "s": kept / said},
                }


def made(asked: Asked) -> pl.DataFrame:
    """The table `variants_made`: for each kind and way of making how many variants there are, of how many originals."""
    if asked.variants.is_empty():
        return pl.DataFrame()
    originals = asked.originals.group_by("benchmark").agg(originals=pl.col("item").n_unique().cast(pl.Int64))
    items = asked.variants.unique(["benchmark", "item"], keep="first", maintain_order=True)
    place = pl.col("variant").replace_strict({kind: place for place, kind in enumerate(SHORT)}, default=len(SHORT))
    return (
        items.group_by("benchmark", "variant", pl.col("variant_by").fill_null("not said").alias("made_by"))
        .agg(variants=pl.len().cast(pl.Int64), of_originals=pl.col("original_item").n_unique().cast(pl.Int64))
        .sort("benchmark", place, "variant", "made_by")
        .join(originals, on="benchmark", how="left", maintain_order="left")
        .with_columns(
            short=pl.col("variant").replace_strict(SHORT, default=""),
            share=pl.col("of_originals") / pl.col("originals"),
        )
        .select("benchmark", "variant", "short", "made_by", "variants", "of_originals", "originals", "share")
    )
