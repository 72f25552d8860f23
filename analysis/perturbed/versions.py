"""What only stories that come in several versions can tell: tables that the perturbation study has for the second
edition, and one that it has for both (`awareness`).

All are about the false-belief subset. Intervals are over stages, and speak for stages not yet written, unless a note
says otherwise. All functions take rows as rows.prepared makes them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import polars as pl

from tomserve.stats import clustered
from tomserve.studies import baselines
from tomserve.studies.contrasts import NEW, Record, codes, share

from .rows import OVERALL, with_overall

KEYS = ("model", "strategy", "perturbation")
TOGETHER = ("model", "strategy", "stage", "perturbation", "swapped", "fresh")
"""What the two questions of a minimal pair have in common; `fresh` is empty where the stories are the released ones."""


def tables(rows: pl.DataFrame, kinds: baselines.Kinds) -> dict[str, Iterator[Record]]:
    """The records of those of these tables for which the rows say anything, by name."""
    belief = rows.filter("false_belief")
    found = {}
    if belief["belief_role"].is_not_null().any():
        found["roles"] = roles(belief, kinds)
    if belief["twin"].is_not_null().any():
        found["pairs"] = pairs(belief, kinds)
    if belief["ground"].is_not_null().any():
        found["ground"] = ground(belief)
    if belief["aware"].is_not_null().any():
        found["awareness"] = awareness(belief)
    return found


def roles(belief: pl.DataFrame, kinds: baselines.Kinds) -> Iterator[Record]:
    """The records of `roles`: accuracy by what the right answer is, seen from the cue."""
    every = with_overall(belief.drop_nulls("belief_role"))
    for key, part in every.group_by([*KEYS, "belief_role"], maintain_order=True):
        stratum = "stage" if key[2] == OVERALL else None
        named = dict(zip((*KEYS, "role"), key, strict=True))
        yield {**named, **share(part, stratum), **baselines.beside(part, kinds, stratum)}


def pairs(belief: pl.DataFrame, kinds: baselines.Kinds) -> Iterator[Record]:
    """The records of `pairs`: how many minimal pairs have both questions right, beside the rule that solves most."""
    other = belief.select(
        *TOGETHER,
        pl.col("version").alias("twin"),
        other="correct",
        other_faulty="faulty",
        other_role="belief_role",
        **{f"other_{name}": pl.col(name) for name in kinds.columns},
    )
    both = belief.drop_nulls("twin").join(
        other, on=[*TOGETHER, "twin"], how="inner", nulls_equal=True, maintain_order="left"
    )
    # Of both stories, the one in which the cue counts is named first, whichever edits the other.
    turned = (pl.col("belief_role") == "cue") | (pl.col("other_role") != "cue")
    both = both.with_columns(
        cue_right=pl.when(turned).then("correct").otherwise("other"),
        other_right=pl.when(turned).then("other").otherwise("correct"),
        faulty=pl.col("faulty") | pl.col("other_faulty"),
        correct=pl.col("correct") & pl.col("other"),
        **{name: pl.col(name) & pl.col(f"other_{name}") for name in kinds.columns},
    )
    for key, part in with_overall(both).group_by(KEYS, maintain_order=True):
        stratum = "stage" if key[2] == OVERALL else None
        counted = share(part, stratum)
        only_cue = part.filter(pl.col("cue_right") & ~pl.col("other_right")).height
        only_other = part.filter(pl.col("other_right") & ~pl.col("cue_right")).height
        yield {
            **dict(zip(KEYS, key, strict=True)),
            "solved": counted["correct"],
            "pairs": counted["total"],
            "share": counted["accuracy"],
            **counted,
            "only_cue": only_cue,
            "only_other": only_other,
            "neither": part.height - counted["correct"] - only_cue - only_other,
            **baselines.beside(part, kinds, stratum),
        }


def ground(belief: pl.DataFrame) -> Iterator[Record]:
    """The records of `ground`: stories that leave what settles the belief unstated, minus those that state it, of the
    same class and stage."""
    told = belief.drop_nulls("ground").with_columns(treated=pl.col("ground") == "unstated")
    for key, part in with_overall(told).group_by(KEYS, maintain_order=True):
        yield {**dict(zip(KEYS, key, strict=True)), **_within(part)}


def awareness(belief: pl.DataFrame) -> Iterator[Record]:
    """The records of `awareness`: stories in which the person knows of the mechanism that changes things, minus those
    in which she does not, in stages that have both."""
    told = belief.drop_nulls("aware").with_columns(treated=pl.col("aware") == "true")
    for (model, strategy), part in told.group_by(["model", "strategy"], maintain_order=True):
        yield {"model": model, "strategy": strategy, **_within(part)}


def _within(part: pl.DataFrame) -> Record:
    """Rows that are `treated` against the others of the same stage and class: counts over all, and the difference over
    the stages in which some class has both. All of these are undefined where there is no such stage."""
    cells = part.group_by("stage", "cluster", maintain_order=True).agg(
        pl.col("correct").filter("treated").mean().alias("on"),
        pl.col("correct").filter(~pl.col("treated")).mean().alias("off"),
    )
    both = cells.drop_nulls()
    on, off = part.filter("treated"), part.filter(~pl.col("treated"))
    found: Record = {
        "right_treated": int(on["correct"].sum()),
        "asked_treated": on.height,
        "right_control": int(off["correct"].sum()),
        "asked_control": off.height,
        "stages": both["stage"].n_unique(),
    }
    if both.is_empty():
        undefined = ("share_treated", "share_control", "risk_difference", "rd_low", "rd_high", "p")
        return {**found, **dict.fromkeys(undefined, math.nan), "target": None, "method": "no stage has both"}
    effect = clustered.paired_effect(
        both["on"].to_numpy(), both["off"].to_numpy(), codes(both["cluster"]), codes(both["stage"])
    )
    return {
        **found,
        "share_treated": effect.share_treated,
        "share_control": effect.share_control,
        "risk_difference": effect.estimate,
        "rd_low": effect.low,
        "rd_high": effect.high,
        "p": effect.p,
        "target": NEW,
        "method": effect.method,
    }
