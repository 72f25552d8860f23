"""The replies that B and S count, and what of them failed or could not be read.

Each lacking answer counts as wrong, or as not kept. Where most are lacking, a score would say how well replies were
read and nothing of minds: B and S are then not computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import polars as pl

from tomserve.stats.functional import ModelLayers, ModelScore
from tomserve.studies.words import percent

from .rows import COUNTED, NAMES, Gathered, counted_rows

MOST_LACKING = 0.5
"""Where a larger share of the replies that a layer counts is lacking, the layer is not computed."""


def questions(found: Gathered, model: str) -> pl.DataFrame:
    """The rows of a model's answers that B counts; none where it was asked nothing."""
    if found.asked is None:
        return pl.DataFrame(schema=dict.fromkeys(("benchmark", "item", "chance", "task"), pl.String))
    return counted_rows(found.asked.rows.filter("mind"), found.plain, model)


def variants(found: Gathered, model: str) -> pl.DataFrame:
    """The rows of a model's answers to variants that S counts; none where it was asked none."""
    if found.pairs is None:
        names = ("benchmark", "original_item", "variant", "item")
        return pl.DataFrame(schema=dict.fromkeys(names, pl.String))
    kinds = [NAMES[short] for short in COUNTED]
    return counted_rows(found.pairs.variants.filter(pl.col("variant").is_in(kinds)), found.plain, model)


@dataclass(frozen=True)
class Replies:
    """How many replies there are, how many of them did not come (failed), and how many could not be read (unread)."""

    count: int = 0
    failed: int = 0
    unread: int = 0

    @classmethod
    def of(cls, rows: pl.DataFrame) -> Replies:
        """The replies of rows of answers."""
        if not rows.height or "faulty" not in rows.columns:
            return cls(rows.height)
        unread = int(rows["unread"].sum())
        return cls(rows.height, int(rows["faulty"].sum()) - unread, unread)

    def __add__(self, other: Replies) -> Replies:
        return Replies(self.count + other.count, self.failed + other.failed, self.unread + other.unread)

    def lacking(self) -> str:
        """Why a layer that counts these replies is not computed; empty where it is."""
        missing = self.failed + self.unread
        if not self.count or missing <= MOST_LACKING * self.count:
            return ""
        how = {(True, False): "failed", (False, True): "could not be read"}
        said = how.get((self.failed > 0, self.unread > 0), "failed or could not be read")
        return f"{percent(missing / self.count)} of the replies {said}"


def readable(found: Gathered) -> tuple[dict[str, ModelLayers], dict[str, dict[str, str]]]:
    """The layers of each model, less those most of whose replies are lacking, and why these are left out."""
    kept: dict[str, ModelLayers] = {}
    why: dict[str, dict[str, str]] = {}
    for model, layers in found.models.items():
        asked, changed = Replies.of(questions(found, model)), Replies.of(variants(found, model))
        lacking = {"b": asked.lacking(), "s": changed.lacking() or asked.lacking()}
        lacking = {name: said for name, said in lacking.items() if said and getattr(layers, name) is not None}
        kept[model] = replace(layers, **dict.fromkeys(lacking))
        why[model] = lacking
    return kept, why


def explained(scored: Mapping[str, ModelScore], why: Mapping[str, Mapping[str, str]]) -> dict[str, ModelScore]:
    """The scores, with the reasons why layers were left out."""
    return {model: replace(one, lacking={**one.lacking, **why[model]}) for model, one in scored.items()}
