"""Count how balanced a set of Hi-ToM items is, from the factors of its items, generated or official.

>>> from tomserve.benchmarks.hitom.generator import generate
>>> from tomserve.benchmarks.hitom.plan import Plan
>>> tally = Tally()
>>> for family in generate(Plan(stories=6).check()):
...     tally.add_family(family)
>>> tally.orders("ours")["items"].to_list(), tally.stories("ours")["chapters"].to_list()
([6, 6, 6, 6, 6], [1, 1, 2, 2, 3, 3])
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import polars as pl

from tomserve.benchmarks.hitom.generator import Family
from tomserve.items import Factor, Item

_QUESTION = (
    *("order", "equals_first_order", "equals_reality", "equals_joint_witness", "answer_place", "answer_position"),
    *("tell_relevant", "order_sensitive"),
)
_STORY = ("length", "deception", "n_lines", "n_agents", "n_containers_mentioned", "n_tells", "n_distractors")


class Tally:
    """Counts of questions and stories by the factors that have to be balanced."""

    def __init__(self) -> None:
        self._questions: Counter[tuple[Factor, ...]] = Counter()
        self._stories: Counter[tuple[Factor, ...]] = Counter()

    def add_family(self, family: Family) -> None:
        """Count a generated story with its twins, if it has any."""
        for story in family.stories:
            self._count(story.factors, (question.factors for question in story.questions))

    def add_items(self, items: Iterable[Item]) -> None:
        """Count items of any Hi-ToM set, each story once."""
        stories: dict[tuple[str, ...], list[Item]] = {}
        for item in items:
            stories.setdefault(item.story, []).append(item)
        for asked in stories.values():
            self._count(asked[0].factors, (item.factors for item in asked))

    def _count(self, story: Mapping[str, Factor], questions: Iterable[Mapping[str, Factor]]) -> None:
        self._stories[tuple([story[name] for name in _STORY])] += 1
        self._questions.update([tuple([factors[name] for name in _QUESTION]) for factors in questions])

    def orders(self, name: str) -> pl.DataFrame:
        """One row for each order: the number of items, and the share of them whose answer is of each kind.

        The column `letters` holds how often the rarest and the commonest place among the choices is right.

        `name` stands in the column `set`. place_1 to place_3: the answer is the first, second or a later container in
        which the object is seen or said to be.
        """
        frame = _frame(self._questions, _QUESTION)
        letters = frame.group_by("order", "answer_position").agg(pl.col("count").sum())
        spread = letters.group_by("order").agg(letters=pl.format("{}-{}", pl.col("count").min(), pl.col("count").max()))
        return (
            frame.group_by("order")
            .agg(
                pl.lit(name).alias("set"),
                pl.col("count").sum().alias("items"),
                _share(pl.col("equals_first_order")).alias("first_order"),
                _share(pl.col("equals_reality")).alias("reality"),
                _share(pl.col("equals_joint_witness")).alias("joint_witness"),
                *(_share(pl.col("answer_place") == place).alias(f"place_{place}") for place in (1, 2)),
                _share(pl.col("answer_place") > 2).alias("place_3+"),
                _share(pl.col("tell_relevant")).alias("tell_relevant"),
                _share(pl.col("order_sensitive")).alias("order_sensitive"),
            )
            .join(spread, on="order")
            .select("set", "order", pl.exclude("set", "order"))
            .sort("order")
        )

    def stories(self, name: str) -> pl.DataFrame:
        """One row for each number of chapters, with and without deception: the number of stories, and their means."""
        means = {"lines": "n_lines", "agents": "n_agents", "containers": "n_containers_mentioned", "tells": "n_tells"}
        means["distractors"] = "n_distractors"
        weight = pl.col("count")
        return (
            _frame(self._stories, _STORY)
            .group_by("length", "deception")
            .agg(
                pl.lit(name).alias("set"),
                weight.sum().alias("stories"),
                *((pl.col(source) * weight).sum().truediv(weight.sum()).alias(to) for to, source in means.items()),
            )
            .rename({"length": "chapters"})
            .select("set", "chapters", "deception", pl.exclude("set", "chapters", "deception"))
            .sort("chapters", "deception")
        )


def _frame(counts: Counter[tuple[Factor, ...]], names: tuple[str, ...]) -> pl.DataFrame:
    rows = [(*key, count) for key, count in counts.items()]
    return pl.DataFrame(rows, schema=[*names, "count"], orient="row", infer_schema_length=None)


def _share(condition: pl.Expr) -> pl.Expr:
    return condition.fill_null(value=False).cast(pl.Int64).dot("count").truediv(pl.col("count").sum())
