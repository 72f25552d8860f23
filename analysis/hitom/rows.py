"""What the tables of the Hi-ToM study have in common: the rows they count, and how shares and comparisons are
counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tomserve.errors import ConfigError
from tomserve.items import UNKNOWN
from tomserve.scoring.table import named_gold
from tomserve.stats.clustered import units_share
from tomserve.stats.effects import FEW
from tomserve.studies.contrasts import Record, contrast, pair, share
from tomserve.studies.rows import counted_unread
from tomserve.studies.rows import prepared as prepared_rows

REQUIRED = ("model", "strategy", "item", "status", "correct", "order", "length", "deception")
CONTROLS = ("hitom_vanilla", "vanilla")
"""What the other strategies are compared with: the first of these that the model was asked with."""
ALL, OVERALL = "all", "overall"
DECEPTION = {None: OVERALL, False: "without", True: "with"}
RULES = ("first_order", "lower_order", "reality", "joint_witness")
EXPLANATIONS = (
    *("lower_order", "reality", "initial_place", "claimed_place", "after_leaving", "untrusted_speaker"),
    *("distractor", "other_object"),
)
CHAIN_MEANS = ("lcs", "lcps", "transitions", "sentence_accuracy")
TYPES: dict[str, Any] = {
    **dict.fromkeys(("order", "length"), pl.Int64),
    "deception": pl.Boolean,
    **dict.fromkeys(("cluster", "parse", "answer", "gold", "semantics"), pl.String),
    **dict.fromkeys(("prompting_type", "twin", "twin_kind"), pl.String),
    "tell_relevant": pl.Boolean,
    **dict.fromkeys(("answer_position", "n_containers_mentioned", "tells_false", "tells_false_asked"), pl.Int64),
    **dict.fromkeys(("equals_first_order", "equals_reality", "equals_joint_witness"), pl.Boolean),
    **dict.fromkeys(("chain_proper", "chain_path_proper", "chain_last_correct", "answer_matches_last"), pl.Boolean),
    **{f"chain_{name}": pl.Float64 for name in CHAIN_MEANS},
    "chain_length": pl.Int64,
    **dict.fromkeys((f"places_{name}" for name in ("offered", "mentioned", *EXPLANATIONS)), pl.String),
}
"""Columns of a score table that this study reads beside the required ones; a foreign table may lack the later ones."""


def prepared(scores: pl.LazyFrame, rules: Sequence[str] = ()) -> pl.DataFrame:
    """The rows that the study counts, one for each answer. rules: the columns of baselines to keep.

    The columns made here are `faulty` (no answer came, or none that can be read), `story` (one telling under one set of
    semantics, by the item's id; each twin is a story), `cluster` (the unit of inference: a story with its twins),
    `question` (what is asked, whatever the story), `gold` (see named_gold), `gold_answer`, and the places as lists.
    Raises ConfigError, which names the column, for a table that does not fit.
    """
    _check(scores.collect_schema())
    one_telling = pl.coalesce(pl.col("item").str.extract(r"^(hitom/[^/]+)/"), "cluster")
    places = [name for name in TYPES if name.startswith("places_")]
    rows = (
        prepared_rows(scores, (*REQUIRED, *rules), TYPES)
        .with_columns(
            named_gold(TYPES),
            story=pl.concat_str(one_telling, "prompting_type", "semantics", separator="/", ignore_nulls=True),
            question=pl.col("item").str.extract(r"^hitom/[^/]+/(.+)$"),
            cluster=pl.coalesce(pl.lit("twins ") + pl.col("twin"), "cluster"),
            **{name: pl.col(name).replace("", None).str.split(" ") for name in places},
        )
        .with_columns(gold_answer=pl.col("places_offered").list.get(pl.col("answer_position") - 1, null_on_oob=True))
        .collect()
    )
    if (strange := rows.filter((pl.col("order") < 0) | (pl.col("length") < 1))).height:
        item, order, length = strange.select("item", "order", "length").row(0)
        raise ConfigError(f"item {item!r}: order {order} and length {length}; expected 0 or more, and 1 or more")
    return rows


def _check(schema: pl.Schema) -> None:
    for name, kind in TYPES.items():
        found = schema.get(name)
        if found is None or found == pl.Null:
            continue
        if kind == pl.Int64 and not found.is_integer():
            raise ConfigError(f"column {name!r} is {found}; expected whole numbers")
        if kind == pl.Boolean and found != pl.Boolean:
            raise ConfigError(f"column {name!r} is {found}; expected true or false")


def control_of(strategies: Iterable[str]) -> str | None:
    """What the others of these strategies are compared with, None where nothing like it was asked."""
    return next((name for name in CONTROLS if name in set(strategies)), None)


def arms(rows: pl.DataFrame) -> Iterator[tuple[str, str, pl.DataFrame]]:
    """Each model and strategy with its rows: models by name, and first the strategy that others are compared with."""
    for (model,), part in rows.group_by(["model"], maintain_order=True):
        names = part["strategy"].unique().sort().to_list()
        for name in sorted(names, key=lambda name: (name != control_of(names), name)):
            yield str(model), name, part.filter(strategy=name)


def by_deception(rows: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """All rows, then those of stories without deception and with it; only where there are some."""
    for value, name in DECEPTION.items():
        part = rows if value is None else rows.filter(deception=value)
        if part.height:
            yield name, part


def by(rows: pl.DataFrame, column: str) -> Iterator[tuple[str, pl.DataFrame]]:
    """All rows as "all", then those of each value of a column, in order."""
    yield ALL, rows
    for value in rows[column].drop_nulls().unique().sort():
        yield str(value), rows.filter(pl.col(column) == value)


def share_of(rows: pl.DataFrame, intervals: str) -> Record:
    """The share of right answers with its 95% interval by story (see notes); without one where intervals is
    "published", as the paper prints none."""
    if intervals == "published":
        right = int(rows["correct"].sum())
        counts = {"correct": right, "total": rows.height, "accuracy": right / rows.height if rows.height else None}
        return {**counts, "ci_low": None, "ci_high": None, "unread": counted_unread(rows)}
    counted = _by_story(share(rows))
    if counted["stories"] >= FEW:
        values = influences(rows["correct"].cast(pl.Float64).to_numpy(), rows["cluster"].to_numpy())
        interval = units_share(values)
        counted |= {"ci_low": interval.low, "ci_high": interval.high, "method": f"{interval.method}, stories"}
    return {**counted, "target": "new stories"}


def influences(values: npt.NDArray[np.float64], units: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """One number for each unit, whose mean is the mean of all values and whose spread is the uncertainty of that mean.

    They linearise the mean as a ratio of the units' sums to their sizes, which allows for units of unequal size; where
    all units have equally many values, they are the units' means. values, units: arrays of one length.
    """
    _, codes = np.unique(units, return_inverse=True)
    sizes, sums = np.bincount(codes), np.bincount(codes, weights=values)
    mean = values.mean()
    return np.asarray(mean + (sums - mean * sizes) * len(sizes) / values.size)


def effect_of(pairs: pl.DataFrame) -> Record:
    """The effect of one condition against another on the same questions, counted by story (see contrasts.contrast)."""
    return _by_story(contrast(pairs, target="new stories"))


def _by_story(found: Record) -> Record:
    names = {"tasks": "stories", "few_tasks": "few_stories"}
    return {names.get(name, name): value for name, value in found.items()}


def with_control(rows: pl.DataFrame) -> Iterator[tuple[str, str, str, pl.DataFrame]]:
    """Model, strategy, control and their pairs on the same items, for every strategy that has a control to compare
    with."""
    for (model,), part in rows.group_by(["model"], maintain_order=True):
        control = control_of(part["strategy"].unique())
        for _, strategy, treated in arms(part):
            if control is not None and strategy != control:
                pairs = pair(treated, part.filter(strategy=control))
                if pairs.height:
                    yield str(model), strategy, control, pairs


def frame(records: Iterable[Record], columns: str) -> pl.DataFrame:
    """The records as a frame with those columns (names separated by spaces), which it has also without records.

    An undefined number is an empty cell.
    """
    listed, names = list(records), columns.split()
    if not listed:
        return pl.DataFrame(schema=dict.fromkeys(names, pl.String))
    made = pl.DataFrame(listed, infer_schema_length=None)
    made = made.with_columns(pl.lit(None).alias(name) for name in names if name not in made.columns).select(names)
    floats = [name for name, kind in made.schema.items() if kind.is_float()]
    return made.with_columns(pl.when(pl.col(name).is_finite()).then(pl.col(name)).alias(name) for name in floats)


def place_in(places: Sequence[str] | None, label: str | None) -> int | None:
    """The place of a label from 1, None where it has none."""
    return places.index(label) + 1 if places is not None and label in places and label != UNKNOWN else None
