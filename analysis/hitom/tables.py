"""The tables of the Hi-ToM study: joint accuracy over orders, explanations of errors, belief chains, and stories
compared with their twins.

The paper counts a question of order k as right only where the story's questions of all lower orders are right too. An
error may have several explanations: each is counted wherever it holds, and where it is the only one. A twin differs
from its story only in lines that lie, tell the truth, or say nothing.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tomserve.errors import ConfigError
from tomserve.items import UNKNOWN
from tomserve.scoring.table import gold_column
from tomserve.stats import association
from tomserve.stats.clustered import units_share
from tomserve.stats.effects import FEW
from tomserve.stats.paired import mean_interval
from tomserve.studies.answer_rows import count_unread, drop_undefined, prepare_rows
from tomserve.studies.baselines import RuleKinds
from tomserve.studies.contrasts import Record, contrast, interval_columns, pair_rows, share

REQUIRED = ("model", "strategy", "item", "status", "correct", "order", "length", "deception")
# What the other strategies are compared with: the first of these that the model was asked with
CONTROLS = ("hitom_vanilla", "vanilla")
ALL, OVERALL = "all", "overall"
DECEPTION = {None: OVERALL, False: "without", True: "with"}
RULES = ("first_order", "lower_order", "reality", "joint_witness")
EXPLANATIONS = (
    *("lower_order", "reality", "initial_place", "claimed_place", "after_leaving", "untrusted_speaker"),
    *("distractor", "other_object"),
)
CHAIN_MEANS = ("lcs", "lcps", "transitions", "sentence_accuracy")
# Columns of a score table that this study reads beside the required ones; a foreign table may lack the later ones
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


def study_rows(scores: pl.LazyFrame) -> pl.DataFrame:
    """The rows that the study counts, one for each answer, with the columns of the rules beside. The columns made
    here are `faulty` (no answer came, or none that can be read), `story` (one telling under one set of semantics, by
    the item's id; each twin is a story), `cluster` (the unit of inference: a story with its twins), `question` (what is
    asked, whatever the story), `gold` (see gold_column), `gold_answer`, and the places as lists. Raises ConfigError,
    which names the column, for a table that does not fit."""
    _check(scores.collect_schema())
    rules = RuleKinds.of(scores).columns
    one_telling = pl.coalesce(pl.col("item").str.extract(r"^(hitom/[^/]+)/"), "cluster")
    places = [name for name in TYPES if name.startswith("places_")]
    rows = (
        prepare_rows(scores, (*REQUIRED, *rules), TYPES)
        .with_columns(
            gold_column(TYPES),
            story=pl.concat_str(one_telling, "prompting_type", "semantics", separator="/", ignore_nulls=True),
            question=pl.col("item").str.extract(r"^hitom/[^/]+/(.+)$"),
            cluster=pl.coalesce(pl.lit("twins ") + pl.col("twin"), "cluster"),
            **{name: pl.col(name).replace("", None).str.split(" ") for name in places},
        )
        .with_columns(gold_answer=pl.col("places_offered").list.get(pl.col("answer_position") - 1, null_on_oob=True))
        .with_columns(  # a quarter of the memory of texts
            pl.col(pl.String).cast(pl.Categorical), pl.col(pl.List(pl.String)).cast(pl.List(pl.Categorical))
        )
        .collect(engine="streaming")
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


def arms(rows: pl.DataFrame) -> Iterator[tuple[dict[str, str], pl.DataFrame]]:
    """Each model and strategy with its rows: models by name, and first the strategy that others are compared with."""
    for (model,), part in rows.group_by(["model"], maintain_order=True):
        names = part["strategy"].unique().sort().to_list()
        for name in sorted(names, key=lambda name: (name != control_of(names), name)):
            yield {"model": str(model), "strategy": name}, part.filter(strategy=name)


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
        return {**counts, "ci_low": None, "ci_high": None, "unread": count_unread(rows)}
    counted = _by_story(share(rows))
    if counted["stories"] >= FEW:
        values = influences(rows["correct"].cast(pl.Float64).to_numpy(), rows["cluster"].to_numpy())
        interval = units_share(values)
        counted |= {"ci_low": interval.low, "ci_high": interval.high, "method": f"{interval.method}, stories"}
    return {**counted, "target": "new stories"}


def influences(values: npt.NDArray[np.float64], units: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """One number for each unit, whose mean is the mean of all values and whose spread is the uncertainty of that mean.
    They linearise the mean as a ratio of the units' sums to their sizes, which allows for units of unequal size; where
    all units have equally many values, they are the units' means. values, units: arrays of one length."""
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


def frame(records: Iterable[Record], columns: str) -> pl.DataFrame:
    """The records as a frame with those columns (names separated by spaces), which it has also without records. An
    undefined number is an empty cell."""
    listed, names = list(records), columns.split()
    if not listed:
        return pl.DataFrame(schema=dict.fromkeys(names, pl.String))
    made = pl.DataFrame(listed, infer_schema_length=None)
    made = made.with_columns(pl.lit(None).alias(name) for name in names if name not in made.columns).select(names)
    return drop_undefined(made)


def place_in(places: Sequence[str] | None, label: str | None) -> int | None:
    """The place of a label from 1, None where it has none."""
    return places.index(label) + 1 if places is not None and label in places and label != UNKNOWN else None


_SOMEWHERE = ("initial_place", "after_leaving")
# By explanation, the more general ones that it implies, which then do not count beside it: whoever believes that
# something is in a place, for example, believes it because it was there once
IMPLIED = {"lower_order": _SOMEWHERE, "reality": _SOMEWHERE, "untrusted_speaker": ("claimed_place",)}
NAMES = (*EXPLANATIONS, "unexplained", "not_in_story", UNKNOWN)
ERROR_COLUMNS = (
    "model strategy order explanation wrong alone share_alone expected_alone excess_alone excess_alone_low "
    "excess_alone_high flagged share expected excess excess_low excess_high possible stories few_stories"
)
_PLACES = tuple(f"places_{name}" for name in EXPLANATIONS)


def errors(rows: pl.DataFrame) -> Iterator[Record]:
    """The records of `errors`: for how many wrong answers each explanation holds, and holds alone, by model, strategy
    and order. rows: as study_rows makes them."""
    wrong = rows.filter(
        ~pl.col("faulty") & ~pl.col("correct"),
        pl.col("answer").is_not_null() & pl.col("gold_answer").is_not_null() & pl.col("places_mentioned").is_not_null(),
    )
    for arm, part in arms(wrong):
        for order, of_order in by(part, "order"):
            yield from _explanation_records({**arm, "order": order}, of_order)


def _explanation_records(key: Mapping[str, str], rows: pl.DataFrame) -> Iterator[Record]:
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
        for kind, (count, part, suffix) in enumerate((("flagged", "share", ""), ("alone", "share_alone", "_alone"))):
            own, by_chance = flags[:, kind, place], rates[known, kind, place]
            excess = _excess(own[known] - by_chance, units[known])
            record |= {count: int(own.sum()), part: float(own.mean())}
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
    (`others`). An array of shape (2, number of NAMES); nan where there is no wrong container."""
    if not others:
        return np.full((2, len(NAMES)), np.nan)
    return np.mean([_flags(place, mentioned, sets) for place in others], axis=0)


def _excess(differences: npt.NDArray[np.float64], units: npt.NDArray[Any]) -> tuple[float | None, ...]:
    """The mean difference and the ends of its 95% t interval by story; a story counts as often as it was answered
    wrongly (see influences). All are None where there are no differences."""
    if not differences.size:
        return None, None, None
    interval = mean_interval(influences(differences, units))
    return float(differences.mean()), interval.low, interval.high


def joint_accuracy(rows: pl.DataFrame, intervals: str) -> Iterator[Record]:
    """The records of `joint_accuracy`, by model, strategy, deception, length and order. rows: as study_rows makes them.
    intervals: the way to count, recommended or published."""
    for arm, part in arms(rows):
        for deception, some in by_deception(part):
            for length, of_length in by(some, "length"):
                for record in _cumulative(of_length, intervals):
                    yield {**arm, "deception": deception, "length": length, **record}


def _cumulative(rows: pl.DataFrame, intervals: str) -> Iterator[Record]:
    """A record for each order that was asked, from the lowest up. `accuracy` is that of all questions of the order. All
    else is over the stories that were asked every order up to this one (of the orders that any of these stories was
    asked). Of several questions of one order all have to be right."""
    columns = ["story", "cluster"]
    asked = rows.group_by(*columns, "order").agg(pl.col("correct").all(), pl.col("faulty").any()).sort("story", "order")
    stories = asked.select(columns).unique(maintain_order=True).with_columns(joint=pl.lit(True), product=pl.lit(1.0))
    total = stories.height
    orders = asked["order"].drop_nulls().unique().sort().to_list()
    for place, order in enumerate(orders):
        own = asked.filter(order=order).select("story", "correct", "faulty")
        stories = stories.join(own, on="story", maintain_order="left").with_columns(
            pl.col("joint") & pl.col("correct"), pl.col("correct").alias(f"right_{order}")
        )
        record: Record = {
            "order": str(order),
            "stories": stories.height,
            "accuracy": rows.filter(order=order)["correct"].mean(),
            "incomplete": total - stories.height,
        }
        if stories.height:
            share = share_of(stories.with_columns(pl.col("joint").alias("correct")), intervals)
            record |= {"joint": share["accuracy"], "joint_low": share["ci_low"], "joint_high": share["ci_high"]}
            record |= {"few_stories": share.get("few_stories"), "method": share.get("method")}
            marginals: list[float] = [stories.select(pl.col(f"right_{k}").mean()).item() for k in orders[: place + 1]]
            record["product"] = math.prod(marginals)
        if place:
            for value, name in ((True, "after_right"), (False, "after_wrong")):
                after = stories.filter(pl.col(f"right_{orders[place - 1]}") == value)
                record |= {name: after.select(pl.col("correct").mean()).item(), f"{name}_n": after.height}
        yield record
        stories = stories.drop("correct", "faulty")


CHAIN_COLUMNS = (
    f"model strategy order total proper proper_share {' '.join(CHAIN_MEANS)} path_phi path_phi_low path_phi_high "
    "wrong_last followed followed_share followed_low followed_high"
)


def chains(rows: pl.DataFrame, intervals: str) -> Iterator[Record]:
    """The records of `chains`: means over the questions with a gold chain, by order; a chain that is missing scores 0.
    rows: as study_rows makes them. intervals: the way to count, recommended or published."""
    for arm, part in arms(rows.filter(pl.col("chain_proper").is_not_null())):
        for order, some in by(part, "order"):
            means = {name: some[f"chain_{name}"].fill_null(0.0).mean() for name in CHAIN_MEANS}
            proper = int(some["chain_proper"].sum())
            counts = {"total": some.height, "proper": proper, "proper_share": proper / some.height, **means}
            yield {**arm, "order": order, **counts, **_path(some), **_follow_columns(some, intervals)}


def _path(rows: pl.DataFrame) -> Record:
    """Phi, the correlation of a right path with a right answer, with its interval from leaving out one story at a time.
    The last state is left aside, because a proper chain shares it with the answer."""
    known = rows.filter(~pl.col("faulty") & pl.col("chain_path_proper").is_not_null() & pl.col("chain_length").gt(0))
    path, right = (known[name].cast(pl.Float64).to_numpy() for name in ("chain_path_proper", "correct"))
    clusters = known["cluster"].to_numpy()
    interval = association.jackknife(
        lambda x, y: association.phi(x, y).phi, (path, right), clusters, without=association.correlations
    )
    return interval_columns("path_phi", interval)


def _follow_columns(rows: pl.DataFrame, intervals: str) -> Record:
    """How often the answer is the last belief of its chain, among chains that end in a wrong belief. Where it is, the
    answer follows what was written, even into an error."""
    wrong = rows.filter(pl.col("answer_matches_last").is_not_null() & ~pl.col("chain_last_correct"))
    if wrong.is_empty():
        return {"wrong_last": 0, "followed": 0}
    share = share_of(wrong.with_columns(pl.col("answer_matches_last").alias("correct")), intervals)
    counts = {"wrong_last": wrong.height, "followed": share["correct"], "followed_share": share["accuracy"]}
    return {**counts, "followed_low": share["ci_low"], "followed_high": share["ci_high"]}


# Pairs of treatment and control. The first is the primary comparison: lines that lie against lines that say nothing.
TWINS = (
    ("deceptive", "filler"),
    ("deceptive", "truthful"),
    ("deceptive", "none"),
    ("truthful", "filler"),
    ("filler", "none"),
)


def twins(rows: pl.DataFrame) -> Iterator[Record]:
    """The records of `twins`: each pair of TWINS compared on the same question of the same order in one group of twins.
    rows: as study_rows makes them. Both accuracies are means of the means of the groups, so that their difference is
    the risk difference. Whether the tells matter (tell_relevant) is read off the treated twin. Raises ValueError where
    two items of one kind of twin ask the same question."""
    stories = rows.filter(pl.col("twin").is_not_null() & pl.col("twin_kind").is_not_null())
    keys = ["twin", "order", "question"]
    stories = stories.with_columns(pl.col("question").fill_null(""))
    for arm, part in arms(stories):
        for place, (treatment, control) in enumerate(TWINS):
            treated, other = part.filter(twin_kind=treatment), part.filter(twin_kind=control)
            for name, side in ((treatment, treated), (control, other)):
                if (double := side.filter(pl.struct(keys).is_duplicated())).height:
                    raise ValueError(f"twins {double['twin'][0]!r}: two {name} items ask one question")
            pairs = pair_rows(treated, other, on=keys)
            chosen = [("all", order, some) for order, some in by(pairs, "order") if order == "all" or place == 0]
            chosen += [(str(on).lower(), "all", pairs.filter(tell_relevant=on)) for on in (True, False)]
            for relevant, order, some in chosen:
                if some.height:
                    by_family = some.group_by("cluster", maintain_order=True).agg(pl.col("correct", "control").mean())
                    key = {**arm, "treatment": treatment, "control": control}
                    means = {"accuracy": by_family["correct"].mean(), "control_accuracy": by_family["control"].mean()}
                    yield {**key, "tell_relevant": relevant, "order": order, **means, **effect_of(some)}
