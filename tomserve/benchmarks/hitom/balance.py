"""Tables of how balanced a generated Hi-ToM set is, beside the official file where that is at hand.

The paper's own figures are not copied here: what it prints could not all be reproduced from its data, so the file
itself is counted.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tomserve import content
from tomserve.benchmarks.hitom.tally import Tally

OFFICIAL = "Hi-ToM_data.json"
NOTES = {
    "answers": (
        "share of items whose answer is also that of the rule (innermost agent's belief, reality, what all asked "
        "agents saw together last), is the first, second or a later container of the object, hangs on a tell, would be "
        "another for another order of the asked agents; letters: how often the rarest and the commonest place is right"
    ),
    "stories": "means a story; containers are the choices that it mentions",
}


def tables(tally: Tally, official: Path | None = None) -> dict[str, pl.DataFrame]:
    """Two titled tables, by order and by chapters; with the official file's rows below where `official` is given."""
    from tomserve.benchmarks.hitom.benchmark import load  # imported here, because the benchmark imports this module

    sets = {"generated": tally}
    if official is not None:
        sets["official"] = Tally()
        sets["official"].add_items(load(official))
    return {
        "answers by order": pl.concat([found.orders(name) for name, found in sets.items()]),
        "stories by chapters": pl.concat([found.stories(name) for name, found in sets.items()]),
    }


def official_file() -> Path | None:
    """The official file in the data folder (TOMSERVE_DATA), or None."""
    return content.data_file(OFFICIAL)
