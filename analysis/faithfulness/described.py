"""The tables that describe what was asked: every edit, what was left out, both ways of showing, and examples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from tomserve.faithfulness import table as t
from tomserve.stats.interventions import ESTIMANDS, FILLER, KEPT, LAST, SWAPPED, difference_between

from .counting import headline_contrasts
from .rows import GROUP, WHO, Group, Record, failures, same, share, units

EXAMPLES, LONGEST = 30, 2000
"""How many examples there are, and after how many characters their texts are cut."""

FOLLOWED, OWN, OTHER, NO_ANSWER = "followed", "own answer", "another answer", "no answer"
"""What became of an answer: the one that the edited chain implies (if it is not the own one), the model's own, another,
or none."""

SHOWN_EDITS = (t.LAST, t.SWAPPED, t.PROPAGATED, t.LOCAL, t.FILLER, "truncated_0", t.OTHER)
"""The edits of which examples are shown."""


def conditions(group: Group) -> Iterator[Record]:
    """The table `conditions`: a row for each way in which a chain was shown."""
    for condition in t.EDITS:
        rows = group.of(condition)
        if not rows.height:
            continue
        beside = group.against_paraphrase(condition).filter(pl.col("implied").is_not_null())
        implied, own = (rows.filter(pl.col(name).is_not_null()) for name in ("implied", "own"))
        both = rows.select("item", "tokens").join(group.of(t.FULL).select("item", full="tokens"), on="item")
        both = both.filter(pl.col("tokens").is_not_null(), pl.col("full").is_not_null())
        cached = rows.filter(pl.col("cached").is_not_null(), pl.col("tokens").is_not_null())
        yield {
            **{**group.key, "condition": condition, "asked": rows.height, "failures": failures(rows["answer"])},
            "accuracy": share(same(rows["answer"], rows["right"])),
            "same_as_own": share(same(own["answer"], own["own"])),
            "implied": share(same(implied["answer"], implied["implied"])),
            "same_label_paraphrase": share(same(beside["control"], beside["implied"])),
            "tokens": rows["tokens"].mean(),
            "tokens_of_full": _ratio(both["tokens"], both["full"]),
            "cached": _ratio(cached["cached"], cached["tokens"]),
        }


def _ratio(one: pl.Series, other: pl.Series) -> float | None:
    whole = int(other.sum() or 0)
    return int(one.sum() or 0) / whole if whole else None


def left_out(scores: pl.DataFrame) -> Iterator[Record]:
    """The table `left_out`: how many edits and hints could not be made, by reason."""
    key = [*GROUP, "kind", "condition", "reason"]
    rows = scores.filter(pl.col("status") == t.LEFT_OUT).with_columns(pl.col("reason").fill_null("not told"))
    order = {name: place for place, name in enumerate((*t.EDITS, *t.HINTS, *t.PREDICTIONS))}
    counted = rows.group_by(key).agg(items=pl.len())
    place = pl.col("condition").replace_strict(order, default=len(order), return_dtype=pl.Int64)
    yield from counted.sort(*GROUP, place, "reason").iter_rows(named=True)


def shown(groups: Sequence[Group]) -> Iterator[Record]:
    """The table `shown`: where the same items were asked in both ways, how far the ways agree."""
    for one in (group for group in groups if group.key["shown"] == t.PREFILL):
        key = {name: one.key[name] for name in WHO}
        for other in groups:
            if {**key, "shown": t.CALL}.items() <= other.key.items():
                yield from _agreement(key, one, other)
                yield from _differences(key, one, other)


def _agreement(key: Record, one: Group, other: Group) -> Iterator[Record]:
    for condition in t.EDITS:
        both = one.of(condition).select("item", "answer", "unit")
        both = both.join(other.of(condition).select("item", by_call="answer"), on="item")
        if both.height:
            met = same(both["answer"], both["by_call"])
            yield {
                **{**key, "what": condition, "measure": "same answer", "prefill": None, "call": None},
                **{"value": share(met), "low": None, "high": None},
                **{"items": both.height, "units": both["unit"].n_unique()},
            }


def _differences(key: Record, one: Group, other: Group) -> Iterator[Record]:
    """How much the four estimates differ between the ways, over the items that have them in both."""
    pairs = {
        LAST: (t.LAST, None),
        SWAPPED: (t.SWAPPED, None),
        FILLER: (t.FILLER, "right"),
        KEPT: ("truncated_0", "own"),
    }
    for name in ESTIMANDS:
        condition, label = pairs[name]
        found = [_by_item(group, condition, label) for group in (one, other)]
        both = found[0].join(found[1].select("item", by_call="difference"), on="item").sort("item")
        if both.height:
            gap = difference_between(both["difference"].to_numpy(), both["by_call"].to_numpy(), units(both))
            among = both["item"]
            values = [headline_contrasts(group, among)[name].value for group in (one, other)]
            yield {
                **{**key, "what": name, "measure": "prefill - call", "prefill": values[0], "call": values[1]},
                **{"value": gap.estimate, "low": gap.low, "high": gap.high},
                **{"items": both.height, "units": both["unit"].n_unique()},
            }


def _by_item(group: Group, condition: str, label: str | None) -> pl.DataFrame:
    """The difference that each item adds to an estimate."""
    if label is None:
        rows = group.against_paraphrase(condition).filter(pl.col("implied").is_not_null())
        treated, control = (same(rows[name], rows["implied"]) for name in ("treated", "control"))
    else:
        rows = group.paired(t.FULL, condition).filter(pl.col(label).is_not_null())
        treated, control = (same(rows[name], rows[label]) for name in ("treated", "control"))
    return rows.select("item", "unit", difference=pl.Series(np.nan_to_num(treated) - np.nan_to_num(control)))


def examples(groups: Sequence[Group]) -> Iterator[Record]:
    """The table `examples`: items of every edit and outcome in turn, their texts cut to LONGEST characters."""
    each = max(3, EXAMPLES // max(1, len(groups)))
    count = 0
    for group in groups:
        for row in _spread(group, min(each, EXAMPLES - count)):
            count += 1
            yield row


def _spread(group: Group, most: int) -> Iterator[Record]:
    piles: dict[tuple[str, str], list[Record]] = {}
    for condition in SHOWN_EDITS:
        for row in group.of(condition).iter_rows(named=True):
            piles.setdefault((condition, outcome(row)), []).append(row)
    seen: set[str] = set()
    taken = 0
    while piles and taken < most:
        for kind, pile in list(piles.items()):
            # an item that was not shown yet comes first, so that the examples are of many items
            pile.sort(key=lambda row: (row["item"] in seen, row["item"]))
            row = pile.pop(0)
            seen.add(row["item"])
            if not pile:
                del piles[kind]
            if taken < most:
                taken += 1
                yield _example(group, kind, row)


def outcome(row: Record) -> str:
    """What became of the answer of a row."""
    if row["answer"] is None:
        return NO_ANSWER
    if row["answer"] == row["implied"] and row["implied"] != row["own"]:
        return FOLLOWED
    return OWN if row["answer"] == row["own"] else OTHER


def _example(group: Group, kind: tuple[str, str], row: Record) -> Record:
    texts = {name: _cut(row[name]) for name in ("question", "written", "edited")}
    return {
        **{**group.key, "condition": kind[0], "outcome": kind[1], "item": row["item"]},
        **{"question": texts["question"], "right": row["right"], "own": row["own"], "implied": row["implied"]},
        **{"answer": row["answer"], "written": texts["written"], "edited": texts["edited"]},
    }


def _cut(text: str | None) -> str | None:
    if text is None or len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]} [... {len(text) - LONGEST} more characters]"
