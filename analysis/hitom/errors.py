"""The table `errors` of the Hi-ToM study: what may explain wrong answers, by what the belief tracker can prove of the
container that was chosen.

An answer may have several explanations, so that each is counted twice: wherever it holds (`share`), and where it is the
only one besides those that it implies (`alone`), which says more. Beside both stands the rate that somebody would get
who knows the story and picks one of its wrong containers blindly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tomserve.items import UNKNOWN
from tomserve.stats.effects import FEW
from tomserve.stats.paired import mean_interval
from tomserve.studies.contrasts import Record

from .rows import EXPLANATIONS, arms, by, influences

_SOMEWHERE = ("initial_place", "after_leaving")
IMPLIED = {"lower_order": _SOMEWHERE, "reality": _SOMEWHERE, "untrusted_speaker": ("claimed_place",)}
"""By explanation, the more general ones that it implies, which then do not count beside it: whoever believes that
something is in a place, for example, believes it because it was there once."""
NAMES = (*EXPLANATIONS, "unexplained", "not_in_story", UNKNOWN)
COLUMNS = (
    "model strategy order explanation wrong alone share_alone expected_alone excess_alone excess_alone_low "
    "excess_alone_high flagged share expected excess excess_low excess_high possible stories few_stories"
)
_PLACES = tuple(f"places_{name}" for name in EXPLANATIONS)


def errors(rows: pl.DataFrame) -> Iterator[Record]:
    """The records of `errors`: for how many wrong answers each explanation holds, and holds alone, by model, strategy
    and order.

    rows: as rows.prepared makes them.
    """
    wrong = rows.filter(
        ~pl.col("faulty") & ~pl.col("correct"),
        pl.col("answer").is_not_null() & pl.col("gold_answer").is_not_null() & pl.col("places_mentioned").is_not_null(),
    )
    for model, strategy, part in arms(wrong):
        for order, of_order in by(part, "order"):
            yield from _explained({"model": model, "strategy": strategy, "order": order}, of_order)


def _explained(key: Mapping[str, str], rows: pl.DataFrame) -> Iterator[Record]:
    chosen, drawn = [], []
    for answer, gold, mentioned, *places in rows.select(
        "answer", "gold_answer", "places_mentioned", *_PLACES
    ).iter_rows():
        sets = [frozenset(listed or ()) for listed in places]
        chosen.append(_flags(answer, mentioned, sets))
        drawn.append(_drawn([place for place in mentioned if place != gold], mentioned, sets))
    flags, rates = np.array(chosen), np.array(drawn)  # rows x (holds, holds alone) x explanations
    units = rows["cluster"].to_numpy()
    known = ~np.isnan(rates[:, 0, 0])
    for place, name in enumerate(NAMES):
        record: Record = {**key, "explanation": name, "wrong": rows.height}
        for kind, (count, share, suffix) in enumerate((("flagged", "share", ""), ("alone", "share_alone", "_alone"))):
            own, by_chance = flags[:, kind, place], rates[known, kind, place]
            excess = _excess(own[known] - by_chance, units[known])
            record |= {count: int(own.sum()), share: float(own.mean())}
            record[f"expected{suffix}"] = float(by_chance.mean()) if known.any() else None
            for bound, value in zip(("", "_low", "_high"), excess, strict=True):
                record[f"excess{suffix}{bound}"] = value
        stories = len(np.unique(units))
        possible = int((rates[known, 0, place] > 0).sum())
        yield {**record, "possible": possible, "stories": stories, "few_stories": stories < FEW}


def _flags(place: str, mentioned: Sequence[str], sets: Sequence[frozenset[str]]) -> tuple[list[bool], list[bool]]:
    """Which of NAMES hold for a container, and which of them alone."""
    holds = [place in listed for listed in sets]
    outside = place not in mentioned
    holds += [not outside and not any(holds), outside and place != UNKNOWN, outside and place == UNKNOWN]
    implied = {name for special, names in IMPLIED.items() if holds[NAMES.index(special)] for name in names}
    left = [flag and name not in implied for name, flag in zip(NAMES, holds, strict=True)]
    return holds, [flag and sum(left) == 1 for flag in left]


def _drawn(others: Sequence[str], mentioned: Sequence[str], sets: Sequence[frozenset[str]]) -> Any:
    """How often each of NAMES would hold, and hold alone, for a container drawn blindly among the wrong ones
    (`others`).

    An array of shape (2, number of NAMES); nan where there is no wrong container.
    """
    if not others:
        return np.full((2, len(NAMES)), np.nan)
    return np.mean([_flags(place, mentioned, sets) for place in others], axis=0)


def _excess(differences: npt.NDArray[np.float64], units: npt.NDArray[Any]) -> tuple[float | None, ...]:
    """The mean difference and the ends of its 95% t interval by story; a story counts as often as it was answered
    wrongly (see rows.influences). All are None where there are no differences."""
    if not differences.size:
        return None, None, None
    interval = mean_interval(influences(differences, units))
    return float(differences.mean()), interval.low, interval.high
