"""A benchmark of one's own in one file: who has seen where the keys are?

    tomserve eval --benchmark docs/examples/own_benchmark.py --strategy vanilla
    tomserve items docs/examples/own_benchmark.py

Every story is told of two people; one of them leaves before the keys are moved. What the question asks about, and what
the right answer is after every sentence, is written down as the story is made, so that belief chains can be scored,
too.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import polars as pl

from tomserve import Gold, Item
from tomserve.benchmarks import Benchmark, Draw
from tomserve.scoring.answers import Reading
from tomserve.scoring.metrics import Metric

PEOPLE = (("Nadia", "Emil"), ("Tomas", "Ingrid"), ("Aiko", "Daniel"))
PLACES = (("drawer", "jacket"), ("bowl", "backpack"))


def load(path: Path | None, gold: str | None) -> Iterator[Item]:
    """Twelve items: every pair of people and of places, once with the leaver asked about and once with the stayer."""
    for leaver, stayer in PEOPLE:
        for before, after in PLACES:
            for asked in (leaver, stayer):
                now = before if asked == leaver else after
                yield Item(
                    id=f"keys/{leaver}/{before}/{asked}",
                    story=(
                        f"{leaver} and {stayer} see that the keys are in the {before}.",
                        f"{leaver} leaves the house.",
                        f"{stayer} moves the keys to the {after}.",
                    ),
                    question=f"Where does {asked} believe the keys are?",
                    choices=(before, after),
                    answer=now,
                    gold=Gold(sets=((before,), (before,), (now,))),
                    factors={"asked": "leaver" if asked == leaver else "stayer", "place": before},
                    cluster=f"keys/{leaver}/{before}",
                )


def hedging(item: Item, reading: Reading) -> Mapping[str, int]:
    """How many words of doubt a reply holds; the column begins with metric_, so that every study finds it."""
    words = reading.text.casefold().split()
    return {"metric_hedges": sum(word.strip(",.") in ("maybe", "perhaps", "probably") for word in words)}


BENCHMARK = Benchmark(
    "keys",
    load,
    draw=Draw(over=("place",), unit=("story", "stories")),
    metrics=(Metric({"metric_hedges": pl.Int64}, hedging),),
)
