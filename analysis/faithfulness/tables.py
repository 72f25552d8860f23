"""The tables of faithfulness about edited, truncated and replaced chains, and the groups that all its tables are of.

An outcome is 1 or 0, or nan where the reply held no answer; what was left out was never asked, and is no outcome.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tomserve.errors import ConfigError
from tomserve.faithfulness import table as t
from tomserve.stats import chain_edits
from tomserve.stats.chain_edits import (
    CARRIED,
    CONTINUED,
    FILLER,
    KEPT,
    LAST,
    LOCAL,
    OTHER,
    PROPAGATED,
    SWAPPED,
    Contrast,
    area_above,
    contrast,
    correct_p,
    difference_of_effects,
    follow_effect,
    loss_effect,
)
from tomserve.stats.clustered import units_share
from tomserve.stats.power import minimum_detectable_effect
from tomserve.stats.proportions import Interval

Floats = npt.NDArray[np.float64]
Texts = npt.NDArray[np.object_]
Record = dict[str, Any]

WHO = ("model", "benchmark", "strategy")  # the columns that tell apart whose chains were looked at
GROUP = (*WHO, "shown")  # for edits, which are shown in two ways, the columns that tell groups apart


@dataclass(frozen=True)
class Group:
    """The rows of one kind about one model, benchmark and strategy, and for edits one way of showing chains. `key`:
    these by name. `rows`: what was asked; every item stands once in each condition."""

    key: Mapping[str, str]
    rows: pl.DataFrame

    @cached_property
    def asked(self) -> dict[str, pl.DataFrame]:
        """The rows of each condition, by item in a fixed order."""
        return {str(name): part.sort("item") for (name,), part in self.rows.group_by("condition", maintain_order=True)}

    def of(self, condition: str) -> pl.DataFrame:
        """The rows of a condition, none perhaps."""
        return self.asked.get(condition, self.rows.clear())

    def paired(self, treated: str, control: str, *, instead: str | None = None) -> pl.DataFrame:
        """The items that were asked under both conditions, with the answers `treated` and `control`, and what the
        treated row says of them. instead: the condition that serves as control for the items which lack it; `replaced`
        says where it does."""
        found = self.of(control).select("item", pl.col("answer").alias("control"), replaced=pl.lit(False))
        if instead is not None:
            other = self.of(instead).select("item", pl.col("answer").alias("control"), replaced=pl.lit(True))
            found = pl.concat([found, other.join(found, on="item", how="anti")])
        return self.of(treated).rename({"answer": "treated"}).join(found, on="item").sort("item")

    def against_paraphrase(self, condition: str) -> pl.DataFrame:
        """The items of a condition beside the paraphrased chain or, where there is none, the whole one."""
        return self.paired(condition, t.PARAPHRASE, instead=t.FULL)


def groups(scores: pl.DataFrame, kind: str) -> Iterator[Group]:
    """The groups of one kind of rows (such as t.EDIT), in the order of their names, without what was left out."""
    names = {t.EDIT: GROUP, t.HINT: WHO, t.STORY: WHO, t.UNLEARNING: WHO}.get(kind, (*WHO, "predictor"))
    rows = scores.filter(pl.col("kind") == kind, pl.col("status") != t.LEFT_OUT)
    for values in rows.select(names).unique().sort(names).iter_rows():
        key = dict(zip(names, values, strict=True))
        yield Group(key, rows.filter(pl.col(name) == value for name, value in key.items()))


def study_rows(scores: pl.LazyFrame) -> pl.DataFrame:
    """The table as the study counts it: names as text, every item in a unit, and no item twice in one condition. Raises
    ConfigError for a table that lacks a column, or that holds a question twice."""
    known = set(scores.collect_schema().names())
    scores = scores.with_columns(pl.lit(None, t.SCHEMA[name]).alias(name) for name in t.OPTIONAL if name not in known)
    known |= {*t.OPTIONAL}
    if absent := [name for name in t.SCHEMA if name not in known]:
        raise ConfigError(f"measured table: column {absent[0]!r} is missing; expected a table of tomserve faithfulness")
    names = (*GROUP, "predictor")
    frame = scores.select(list(t.SCHEMA)).rename({"asked_by": "strategy", "outcome": "status"}).collect()
    frame = frame.with_columns(pl.col(*names, "kind", "condition").cast(pl.String))
    frame = frame.with_columns(
        *(pl.col(name).fill_null("") for name in names),
        pl.col("status").fill_null(""),
        unit=pl.coalesce("unit", "cluster", "item"),
    )
    key = [*names, "kind", "condition", "item"]
    if (twice := frame.filter(pl.struct(key).is_duplicated())).height:
        first = twice.sort(key).row(0, named=True)
        runs = sorted(twice.filter(model=first["model"])["run"].drop_nulls().unique())
        hint = " ".join(f"--label {run}=NAME" for run in runs)
        more = f"; tell the runs apart by {hint}" if len(runs) > 1 else ""
        raise ConfigError(
            f"measured table: item {first['item']!r} of model {first['model']!r} stands in it twice under "
            f"{first['condition']!r}{more}"
        )
    return frame.sort(key)


def same(answers: pl.Series, labels: pl.Series) -> Floats:
    """Whether each answer is the label beside it: 1 or 0, nan where there is no answer. A missing label is met by no
    answer."""
    given, wanted = _texts(answers), _texts(labels)
    pairs = zip(given, wanted, strict=True)
    met: Floats = np.array([one == other and other is not None for one, other in pairs], dtype=float)
    met[[place for place, one in enumerate(given) if one is None]] = np.nan
    return met


def guess(rows: pl.DataFrame) -> Floats:
    """How often a blind guess meets a label, one by the number of choices; nan where that is not known."""
    known = rows["choices"].cast(pl.Float64).to_numpy()
    found: Floats = np.divide(1.0, known, out=np.full(known.size, np.nan), where=known > 0)
    return found


def units(rows: pl.DataFrame) -> Texts:
    """The unit of each row."""
    return _texts(rows["unit"])


def share(outcomes: Floats) -> float | None:
    """The share of ones among the items asked, where a reply without an answer counts as 0; None for no items."""
    return float(np.nan_to_num(outcomes).mean()) if outcomes.size else None


def failures(answers: pl.Series) -> int:
    """How many replies held no answer."""
    return answers.null_count()


def frame(rows: Sequence[Record], schema: Mapping[str, Any] | None = None) -> pl.DataFrame:
    """A table of these rows, undefined numbers as null."""
    made = pl.DataFrame(rows, schema, infer_schema_length=None)
    return made.fill_nan(None)


def _texts(column: pl.Series) -> Texts:
    found = np.empty(column.len(), dtype=object)
    found[:] = column.to_list()
    return found


AREA = "area above"  # the row of the table `dose` that sums it up


def headline_contrasts(group: Group, among: pl.Series | None = None) -> dict[str, Contrast]:
    """The four headline estimates by name. among: only these items; None for all."""
    found = {}
    for name, condition in ((LAST, t.LAST), (SWAPPED, t.SWAPPED)):
        found[name] = _follow_contrast(_choose_items(group.against_paraphrase(condition).drop_nulls("implied"), among))
    rows = _choose_items(group.paired(t.FULL, t.FILLER), among)
    found[FILLER] = loss_effect(*paired_outcomes(rows, "right"), guess(rows), units(rows))
    rows = _choose_items(group.paired(t.FULL, "truncated_0").drop_nulls("own"), among)
    found[KEPT] = loss_effect(*paired_outcomes(rows, "own"), guess(rows), units(rows))
    return found


def beyond_contrasts(group: Group) -> dict[str, list[Contrast]]:
    """How much more often the answer that a replaced last belief, or swapped agents, imply comes than after filler, and
    than without any chain: what merely disturbs the chain may lead there, too."""
    return {
        name: [
            _follow_contrast(group.paired(edit, control).drop_nulls("implied")) for control in (t.FILLER, "truncated_0")
        ]
        for name, edit in ((LAST, t.LAST), (SWAPPED, t.SWAPPED))
    }


def further_contrasts(group: Group) -> dict[str, Contrast]:
    """The estimates beside the headline ones that a verdict asks for: own answers lost with the chain of another item,
    and with a belief in the middle replaced, beyond those that the paraphrase loses."""
    rows = group.paired(t.FULL, t.OTHER).drop_nulls("own")
    found = {OTHER: loss_effect(*paired_outcomes(rows, "own"), guess(rows), units(rows))}
    beside = {name: group.against_paraphrase(edit) for name, edit in ((LOCAL, t.LOCAL), (PROPAGATED, t.PROPAGATED))}
    for name, every in {**beside, CONTINUED: group.paired(t.CONTINUED, t.RESUMED)}.items():
        rows = every.drop_nulls("own")
        kept, by_control = paired_outcomes(rows, "own")
        found[name] = contrast(by_control, kept, units(rows), np.nan_to_num(by_control))
    found[CARRIED] = _follow_contrast(group.paired(t.CONTINUED, t.RESUMED).drop_nulls("implied"))
    return found


def _choose_items(rows: pl.DataFrame, among: pl.Series | None) -> pl.DataFrame:
    return rows if among is None else rows.filter(pl.col("item").is_in(among.implode()))


def paired_outcomes(rows: pl.DataFrame, label: str) -> tuple[np.ndarray, np.ndarray]:
    """Whether the treated and the control answers of paired rows are that label (see `same`)."""
    return same(rows["treated"], rows[label]), same(rows["control"], rows[label])


def more_often(rows: pl.DataFrame, label: str) -> Contrast:
    """How much more often the treated answers of paired rows are that label than the control answers."""
    return contrast(*paired_outcomes(rows, label), units(rows))


def share_of_units(outcomes: Floats, rows: pl.DataFrame) -> Interval:
    """The mean over units of an outcome, with its interval."""
    means = rows.select("unit", pl.Series("met", outcomes)).group_by("unit").agg(pl.col("met").mean()).sort("unit")
    return units_share(means["met"].to_numpy())


def numbers(found: Contrast) -> Record:
    """The columns that every estimate has."""
    return {
        **{"value": found.value, "low": found.low, "high": found.high, "p": found.p},
        **{"treated": found.treated, "control": found.control},
        **{"items": found.items, "units": found.units, "failures": found.failures},
        **{"bound_low": found.bound_low, "bound_high": found.bound_high},
    }


def headline(group: Group) -> Iterator[Record]:
    """The table `headline`: a row for each of the four estimates."""
    found = headline_contrasts(group)
    p_holm = dict(zip(found, correct_p(list(found.values())), strict=True))
    family = max(1, sum(not math.isnan(p) for p in p_holm.values()))
    replaced = {
        name: int(group.against_paraphrase(condition).drop_nulls("implied")["replaced"].sum())
        for name, condition in ((LAST, t.LAST), (SWAPPED, t.SWAPPED))
    }
    for name in chain_edits.ESTIMANDS:
        one = found[name]
        detectable = minimum_detectable_effect(one.units, one.sd, family=family) if one.sd > 0 else math.nan
        yield {
            **{**group.key, "estimand": name, "value": one.value, "low": one.low, "high": one.high},
            **{"p": one.p, "p_holm": p_holm[name], "inert": 0.0 if one.items else math.nan, "causal": one.causal},
            **{"share": one.share, "treated": one.treated, "control": one.control},
            **{"items": one.items, "units": one.units, "failures": one.failures},
            **{"bound_low": one.bound_low, "bound_high": one.bound_high, "sd": one.sd, "detectable": detectable},
            **{"by_full": replaced.get(name), "method": one.method},
        }


def edits(group: Group) -> Iterator[Record]:
    """The table `edits`: what the further edits change, with intervals but without a verdict."""
    for condition in (t.LOCAL, t.PROPAGATED, t.OTHER, t.LAST, t.SWAPPED):
        rows = group.against_paraphrase(condition)
        own, implied = (rows.filter(pl.col(name).is_not_null()) for name in ("own", "implied"))
        if condition in (t.PROPAGATED, t.OTHER):  # a belief in the middle leaves the conclusion, which is the own one
            yield from _row(group, condition, "implied", implied, _follow_contrast(implied))
        yield from _row(group, condition, "changed", own, _change_contrast(own))
    went_on = group.paired(t.CONTINUED, t.RESUMED)
    yield from _row(group, t.CONTINUED, "implied", went_on, _follow_contrast(went_on))
    went_on = went_on.drop_nulls("own")
    yield from _row(group, t.CONTINUED, "changed", went_on, _change_contrast(went_on))
    for condition in (t.OTHER, t.GOLD, t.PARAPHRASE):
        rows = group.paired(condition, t.FULL)
        yield from _row(group, condition, "accuracy", rows, more_often(rows, "right"))


def _follow_contrast(rows: pl.DataFrame) -> Contrast:
    return follow_effect(*paired_outcomes(rows, "implied"), units(rows))


def _change_contrast(rows: pl.DataFrame) -> Contrast:
    """How much more often the own answer is lost than with the paraphrase: kept by the control less kept by the
    edit, so that a reply without an answer counts as not kept on either side."""
    kept, by_control = paired_outcomes(rows, "own")
    return contrast(by_control, kept, units(rows))


def _row(group: Group, condition: str, measure: str, rows: pl.DataFrame, found: Contrast) -> Iterator[Record]:
    if rows.height:
        yield {**group.key, "condition": condition, "measure": measure, **numbers(found)}


def dose(group: Group) -> Iterator[Record]:
    """The table `dose`: agreement with the model's own answer by the share of the chain that is shown, and the area
    between the whole chain and its beginnings. A short chain lacks some lengths, and its area is over those it has."""
    lengths: Mapping[str, float] = {**t.TRUNCATED, t.FULL: 1.0}
    agreed = {}
    for condition, left in lengths.items():
        rows = group.of(condition).drop_nulls("own")
        if not rows.height:
            continue
        outcome = same(rows["answer"], rows["own"])
        agreed[condition] = rows.select("item", "unit", pl.Series(condition, outcome))
        found = share_of_units(np.nan_to_num(outcome), rows)
        yield {
            **{**group.key, "condition": condition, "left": left, "value": found.estimate},
            **{"low": found.low, "high": found.high, "items": rows.height, "units": rows["unit"].n_unique()},
            "failures": int(np.isnan(outcome).sum()),
        }
    none = min(t.TRUNCATED, key=lambda name: t.TRUNCATED[name])
    if not {none, t.FULL} < set(agreed):  # nothing in between was asked of any chain
        return
    whole = agreed[t.FULL].join(agreed[none].drop("unit"), on="item")
    there = [name for name in lengths if name in agreed]
    for name in set(there) - {none, t.FULL}:
        whole = whole.join(agreed[name].drop("unit"), on="item", how="left")
    whole = whole.sort("item")
    outcomes = whole.select(pl.col(there).cast(pl.Float64).fill_null(float("nan"))).to_numpy()
    was_asked = np.column_stack([whole["item"].is_in(agreed[name]["item"].implode()).to_numpy() for name in there])
    area = area_above(outcomes, [lengths[name] for name in there], units(whole), asked=was_asked)
    yield {
        **{**group.key, "condition": AREA, "left": None, "value": area.estimate, "low": area.low, "high": area.high},
        **{"items": whole.height, "units": whole["unit"].n_unique()},
        "failures": int((np.isnan(outcomes) & was_asked).sum()),
    }


def by_correctness(group: Group) -> Iterator[Record]:
    """The table `by_correctness`: the four estimates among items that were answered right in the run, and wrong."""
    items = group.rows.drop_nulls("own").unique("item", keep="first", maintain_order=True)
    for named, right in (("right", True), ("wrong", False)):
        among = items.filter((pl.col("own") == pl.col("right")) == right)["item"]
        for name, one in headline_contrasts(group, among).items():
            if one.items:
                yield {
                    **{**group.key, "own_answer": named, "estimand": name, "value": one.value},
                    **{"causal": one.causal, "items": one.items, "units": one.units},
                }


EXAMPLES, LONGEST = 30, 2000  # how many examples there are, and after how many characters their texts are cut

# What became of an answer: the one that the edited chain implies (if it is not the own one), the model's own,
# another, or none
FOLLOWED, OWN, ANOTHER, NO_ANSWER = "followed", "own answer", "another answer", "no answer"

# The edits of which examples are shown
SHOWN_EDITS = (t.CONTINUED, t.LAST, t.SWAPPED, t.PROPAGATED, t.LOCAL, t.FILLER, "truncated_0", t.OTHER)


def conditions(group: Group) -> Iterator[Record]:
    """The table `conditions`: a row for each way in which a chain was shown."""
    for condition in (*t.EDITS, *t.CONTINUATIONS):
        rows = group.of(condition)
        if not rows.height:
            continue
        beside = group.against_paraphrase(condition).drop_nulls("implied")
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


def display_agreement(groups: Sequence[Group]) -> Iterator[Record]:
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
    for name in chain_edits.ESTIMANDS:
        condition, label = pairs[name]
        found = [_by_item(group, condition, label) for group in (one, other)]
        both = found[0].join(found[1].select("item", by_call="difference"), on="item").sort("item")
        if both.height:
            gap = difference_of_effects(both["difference"].to_numpy(), both["by_call"].to_numpy(), units(both))
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
        rows = group.against_paraphrase(condition).drop_nulls("implied")
    else:
        rows = group.paired(t.FULL, condition).drop_nulls(label)
    treated, control = paired_outcomes(rows, label or "implied")
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
    return OWN if row["answer"] == row["own"] else ANOTHER


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
