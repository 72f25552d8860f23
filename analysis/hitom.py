"""The Hi-ToM study (arXiv 2310.16755): from a score table to the paper's tables, and to others that explain them.

    tomserve analyze hitom-mymodel --study hitom --out tables --format csv
    tomserve analyze theirs.parquet --study hitom --intervals published

Two ways to count, by `--intervals`. *recommended* (the default): shares over all questions with intervals by story,
strategies and twins compared on the same questions; a failure is a wrong answer. *published*: means over the cells of
length and order without intervals, as in the paper's Table 5. The notes say what each table means.

The paper counts a question of order k as right only where the story's questions of all lower orders are right too. An
error may have several explanations: each is counted wherever it holds, and where it is the only one. A twin differs
from its story only in lines that lie, tell the truth, or say nothing.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tomserve.errors import ConfigError
from tomserve.items import UNKNOWN
from tomserve.reporting.html import charts
from tomserve.scoring.table import gold_column
from tomserve.stats import association
from tomserve.stats.clustered import units_share
from tomserve.stats.effects import FEW
from tomserve.stats.paired import mean_interval
from tomserve.studies import (
    BAD,
    GOOD,
    OPEN,
    Card,
    Context,
    Excerpt,
    Figure,
    ItemOutline,
    Layout,
    Panel,
    Study,
    Verdict,
    baselines,
)
from tomserve.studies.answer_rows import count_unread, drop_undefined, prepare_rows
from tomserve.studies.baselines import RuleKinds
from tomserve.studies.breakdowns import Rows
from tomserve.studies.contrasts import Record, contrast, interval_columns, pair_rows, share
from tomserve.studies.missing_data import with_unread
from tomserve.studies.noise import noise_columns
from tomserve.studies.phrases import PHRASES
from tomserve.studies.presentation import (
    Chance,
    Mark,
    Row,
    Tables,
    cell_of,
    finite_or_none,
    interval,
    interval_cell,
    is_above,
    mark_of,
    mean_of,
    percent,
    readable_name,
    signed_points,
    worst_case,
)
from tomserve.studies.study import (
    EFFECT,
    FileCounting,
    accuracy_lines,
    accuracy_marks,
    effect_cards,
    has_rows,
    tables_by_model,
)
from tomserve.studies.texts import Texts

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


TEXTS = Texts(__file__)


def warnings(tables: Tables) -> Iterator[str]:
    """One line for each reason to doubt the numbers: right answers known to be wrong, several sets of right answers,
    and strategies that were asked different items or failed on different ones."""
    golds = tables["scorer"]["gold"].drop_nulls().unique().sort().to_list()
    if "released" in golds:
        yield "gold released: the file's own labels, stale in the VP half; see tomserve dataset audit hitom"
    if len(golds) > 1:
        yield f"answers were compared with several sets of labels: {', '.join(golds)}"
    overall = tables["accuracy"].filter(deception=OVERALL)
    asked = {(row["model"], row["strategy"]): row["total"] for row in overall.iter_rows(named=True)}
    effects = tables.get("prompting_effects", pl.DataFrame())
    if "prompting_effects" in tables:
        for model, strategy, control in (
            overall.filter(pl.col("control").is_not_null() & pl.col("minus_vanilla").is_null())
            .select("model", "strategy", "control")
            .iter_rows()
        ):
            yield f"{model}: {strategy} and {control} were asked no item in common, and are not compared"
    for row in effects.iter_rows(named=True):
        if row["deception"] == OVERALL:
            model, pairs = row["model"], f"{row['treatment']} and {row['control']}"
            most = max(asked.get((model, name), 0) for name in (row["treatment"], row["control"]))
            if row["n"] < most:
                yield f"{model}: {pairs} were asked different items: {row['n']} of {most} compare"
            if row["p_failure"] is not None and row["p_failure"] <= 0.05:
                failed = f"{percent(row['failed_treated'])} against {percent(row['failed_control'])}"
                yield (
                    f"{model}: {pairs} did not fail equally often ({failed}, p {row['p_failure']:.3f}), so that their "
                    f"difference, {signed_points(row['risk_difference'])} points, may be due to failures; "
                    f"{worst_case(row)}"
                )
    yield from baselines.missing_warnings(tables)


def summary(tables: Tables) -> list[Excerpt]:
    """The tables that the terminal prints: accuracy by deception (the paper's Table 5), effects of prompting, joint
    accuracy by order, the primary comparison of twins, and wrong answers with a single explanation."""
    right = pl.format("{}/{} {}", "correct", "total", interval_cell("accuracy", "ci_low", "ci_high"))
    excerpts = []
    for (model,), part in tables["accuracy"].group_by(["model"], maintain_order=True):
        wide = part.with_columns(right.alias("cell")).pivot("strategy", index="deception", values="cell")
        wide = with_unread(baselines.with_best_rule(wide, part, "deception"), part, "deception")
        reading = TEXTS["accuracy"] + (f" {PHRASES['about_unread']}" if "unread" in wide.columns else "")
        excerpts.append(Excerpt(f"{model}: accuracy by deception", wide, ("accuracy",), reading))
    excerpts += baselines.excerpts(tables["accuracy"].filter(deception=OVERALL), ("strategy",))
    if "prompting_effects" in tables and tables["prompting_effects"].height:
        effect = interval_cell("risk_difference", "rd_low", "rd_high", "difference [95%]")
        frame = tables["prompting_effects"]
        shares = (cell_of("share_treated", "strategy's"), cell_of("share_control", "control's"))
        named = ("model", "treatment", "control", "deception")
        effects = frame.select(*named, *shares, effect, "p", *noise_columns(frame))
        title = "prompting effects: the strategy's share right minus the control's, on the same questions"
        excerpts.append(Excerpt(title, effects, ("prompting_effects",), TEXTS["prompting_effects"]))
    joint = tables["joint_accuracy"].filter(deception=OVERALL, length=ALL)
    columns = ("model", "strategy", "order", "stories", "accuracy", "joint", "product", "after_right")
    title = "joint accuracy: this and all lower asked orders right; product: what it would be were orders independent"
    excerpts.append(Excerpt(title, joint.select(columns), ("joint_accuracy",), TEXTS["joint_accuracy"]))
    if tables["twins"].height:
        primary = tables["twins"].filter(treatment="deceptive", control="filler", order=ALL)
        effect = interval_cell("risk_difference", "rd_low", "rd_high", "difference [95%]")
        title = "twins: stories with lines that lie, against stories with as many lines that say nothing"
        shares = (cell_of("share_treated", "deceptive"), cell_of("share_control", "filler"))
        frame = primary.select("model", "strategy", "tell_relevant", *shares, effect, "p", *noise_columns(primary))
        excerpts.append(Excerpt(title, frame, ("twins",), TEXTS["twins"]))
    alone = tables["errors"].filter(pl.col("alone") > 0, order=ALL) if tables["errors"].height else tables["errors"]
    if tables["errors"].height:
        counted = ("model", "strategy", "explanation", "alone", "wrong", "share_alone", "expected_alone")
        title = "wrong answers with one explanation alone; expected_alone: the share a blind wrong guess would have"
        excerpts.append(Excerpt(title, alone.select(counted), ("errors",), TEXTS["errors"]))
    return excerpts


def verdicts(tables: Tables, context: Context) -> list[Verdict]:
    """A verdict for each model of the table `accuracy`. tables: by name. context: what a guesser scores."""
    found = []
    for model, own in tables_by_model(tables):
        effects = own.get("prompting_effects", pl.DataFrame())
        helps = effect_cards(effects) if has_rows(own, "prompting_effects", EFFECT) else None
        cards = tuple(card for card in (_nests(own), helps) if card is not None)
        rules = own.get(baselines.TABLE)
        if rules is not None:
            rules = rules.filter(pl.col("kind") != "guess", deception=OVERALL, order=ALL)
        lines = accuracy_lines(own["accuracy"], context.chance.get("all"), rules)
        found.append(Verdict(model, lines, cards, accuracy_marks(own["accuracy"])))
    return found


_NESTS = {
    "yes": ("Better than guessing", GOOD),
    "copies": ("No: it copies", BAD),
    "no": ("No: worse than guessing", BAD),
    "open": ("Not shown", OPEN),
}


def _nests(tables: Tables) -> Card | None:
    """Whether nested questions are answered also where copying a first-order answer fails."""
    if not has_rows(tables, "lower_order_match", "strategy rule order matches correct total accuracy"):
        return None
    grounds, outcomes = [], set()
    marks: list[Mark] = []
    rows = tables["lower_order_match"].filter(rule="first_order", order=ALL)
    copied = {row["strategy"] for row in rows.filter(matches=True).iter_rows(named=True) if _beats_guess(row)}
    for row in rows.filter(matches=False).iter_rows(named=True):
        high, guess = (finite_or_none(row.get(name)) for name in ("ci_high", "guess"))
        if guess is not None and high is not None:
            no = "copies" if row["strategy"] in copied else "no"
            outcomes.add("yes" if _beats_guess(row) else no if high < guess else "open")
        text = f"{row['correct']:,} of {row['total']:,} right ({percent(row['accuracy'])}{interval(row)})"
        guessing = "" if guess is None else f"; a guess among the containers mentioned gets {percent(guess)}"
        grounds.append((f"{readable_name(row['strategy'])}, the first-order answer is wrong", f"{text}{guessing}."))
        marks += mark_of(row["strategy"], row, "accuracy", _INTERVAL, "guess")
    if not grounds:
        return None
    grounds += _all_orders(tables)
    verdict, tone = _NESTS.get(outcomes.pop(), ("Not shown", OPEN)) if len(outcomes) == 1 else ("Undecided", OPEN)
    return Card("Does it nest beliefs?", verdict, tone, tuple(grounds), TEXTS["nests"], tuple(marks))


def _beats_guess(row: Row) -> bool:
    guess = finite_or_none(row.get("guess"))
    return guess is not None and is_above(row, "ci_low", guess)


def _all_orders(tables: Tables) -> Iterator[tuple[str, str]]:
    """For each strategy how many stories have all asked orders right, up to the highest order that can be told."""
    if not has_rows(tables, "joint_accuracy", "strategy deception length order joint stories product"):
        return
    joint = tables["joint_accuracy"].filter(deception=OVERALL, length=ALL).drop_nulls("joint")
    for row in joint.unique("strategy", keep="last", maintain_order=True).iter_rows(named=True):
        text = f"{percent(row['joint'])} of {row['stories']:,} stories; it would be {percent(row['product'])} if the"
        text += " orders were independent."
        yield f"{readable_name(row['strategy'])}, all asked orders up to {row['order']} right", text


LAYOUTS = {
    "accuracy": Layout("accuracy", ("ci_low", "ci_high"), "deception", "model"),
    "prompting_effects": Layout(
        "risk_difference", ("rd_low", "rd_high"), "deception", "model", columns=("model", "treatment")
    ),
}
SHARE = (
    "correct total accuracy ci_low ci_high failed unread accuracy_dropped accuracy_high stories few_stories estimate "
    "method"
)
EFFECT_COLUMNS = (
    "risk_difference rd_low rd_high share_treated share_control p p_sign_flip p_smallest p_failure failed_treated "
    "failed_control worst_low worst_high relative_risk rr_low rr_high noise noise_high minimum_detectable_effect "
    "units_needed sd units stories few_stories gained lost both neither mcnemar_exact mcnemar_mid_p tango_low "
    "tango_high n target method zeros"
)
# The name of the guesser in the table of baselines, whose `accuracy` is what he is expected to get right
GUESS = "a guess among the containers mentioned"

COLUMNS = {
    "accuracy": f"model strategy deception {SHARE} cells control minus_vanilla minus_low minus_high noise noise_high "
    f"{baselines.RULE_COLUMNS}",
    "prompting_effects": f"model deception treatment control {EFFECT_COLUMNS}",
    "joint_accuracy": "model strategy deception length order stories accuracy joint joint_low joint_high product "
    "after_right after_right_n after_wrong after_wrong_n incomplete few_stories method",
    "deception_count": f"model strategy counted order false_tells {SHARE}",
    "answer_position": f"model strategy counted position {SHARE} chosen chosen_share answer_share",
    "lower_order_match": f"model strategy rule order matches {SHARE} guess",
    "twins": f"model strategy treatment control tell_relevant order accuracy control_accuracy {EFFECT_COLUMNS}",
    baselines.TABLE: "model deception order rule kind right total accuracy said containers_mentioned",
    "errors": ERROR_COLUMNS,
    "chains": CHAIN_COLUMNS,
    "scorer": "model strategy gold status parse rows correct share",
}


def count_tables(files: Rows, kinds: baselines.RuleKinds, intervals: str) -> dict[str, pl.DataFrame]:
    """Every table of the study by name, from the rows of every file, of which one at a time is read with all its
    columns."""
    rows = pl.concat(files()).sort("model", "strategy", "item")
    effects = [] if intervals == "published" else list(_prompting(rows))
    made = {
        "accuracy": _accuracy(rows, effects, intervals, kinds),
        "prompting_effects": effects,
        "joint_accuracy": joint_accuracy(rows, intervals),
        "deception_count": _deception_count(rows, intervals),
        "answer_position": _positions(rows, intervals),
        "lower_order_match": _matches(rows, intervals),
        "twins": twins(rows),
        baselines.TABLE: list(_baselines(rows, kinds)),
        "errors": errors(rows),
        "chains": chains(rows, intervals),
        "scorer": _scorer(rows),
    }
    if intervals == "published":
        del made["prompting_effects"]
    return {name: frame(records, COLUMNS[name]) for name, records in made.items()}


def _prompting(rows: pl.DataFrame) -> Iterator[Record]:
    """Every strategy against its control, where one was asked, on the same items."""
    for (model,), part in rows.group_by(["model"], maintain_order=True):
        control = control_of(part["strategy"].unique())
        for arm, treated in arms(part):
            if control is None or arm["strategy"] == control:
                continue
            for name, pairs in by_deception(pair_rows(treated, part.filter(strategy=control))):
                key = {"model": model, "deception": name, "treatment": arm["strategy"], "control": control}
                yield {**key, **effect_of(pairs)}


def _accuracy(
    rows: pl.DataFrame, effects: list[Record], intervals: str, kinds: baselines.RuleKinds
) -> Iterator[Record]:
    paired = {(r["model"], r["treatment"], r["deception"]): r for r in effects}
    controls: dict[tuple[str, str], float] = {}
    for arm, part in arms(rows):
        model, strategy = arm.values()
        control = control_of(rows.filter(model=model)["strategy"].unique())
        means: dict[str, float] = {}
        records = []
        for name, some in by_deception(part):
            cells = some.group_by("length", "order", "deception").agg(pl.col("correct").mean())
            record = {**arm, "deception": name, **share_of(some, intervals)}
            if intervals != "published":
                record |= baselines.rule_columns(some, kinds)
            records.append({**record, "cells": cells.height, "control": control if strategy != control else None})
            means[name] = cells.sort("deception", "length", "order").select(pl.col("correct").mean()).item() or 0.0
        if intervals == "published":
            apart = [value for name, value in means.items() if name != OVERALL]
            means[OVERALL] = sum(apart) / len(apart)
        for record in records:
            name = record["deception"]
            if intervals == "published":
                record["accuracy"] = means[name]
                if strategy == control:
                    controls[model, name] = means[name]
                elif (model, name) in controls:
                    record["minus_vanilla"] = means[name] - controls[model, name]
            elif (effect := paired.get((model, strategy, name))) is not None:
                record["minus_vanilla"] = effect["risk_difference"]
                record |= {"minus_low": effect["rd_low"], "minus_high": effect["rd_high"]}
                record |= {name: effect[name] for name in ("noise", "noise_high")}
            yield record


def _deception_count(rows: pl.DataFrame, intervals: str) -> Iterator[Record]:
    for arm, part in arms(rows):
        for column, counted in (("tells_false", "in the story"), ("tells_false_asked", "about the object")):
            for order, of_order in by(part, "order"):
                for count in of_order[column].drop_nulls().unique().sort():
                    found = share_of(of_order.filter(pl.col(column) == count), intervals)
                    yield {**arm, "counted": counted, "order": order, "false_tells": count, **found}


def _positions(rows: pl.DataFrame, intervals: str) -> Iterator[Record]:
    for arm, part in arms(rows):
        for counted, column in (("choices", "places_offered"), ("mentions", "places_mentioned")):
            known = part.filter(pl.col(column).is_not_null() & pl.col("gold_answer").is_not_null())
            listed = known.select(column, "gold_answer", "answer").rows()
            known = known.with_columns(
                right=pl.Series([place_in(places, gold) for places, gold, _ in listed], dtype=pl.Int64),
                given=pl.Series([place_in(places, answer) for places, _, answer in listed], dtype=pl.Int64),
            )
            given = int(known["given"].is_not_null().sum())
            last = max((len(places) for places, _, _ in listed), default=0)
            for position in range(1, last + 1):
                chosen = int((known["given"] == position).sum())
                here = known.filter(right=position)
                shares = {"chosen_share": chosen / given if given else None, "answer_share": here.height / known.height}
                key = {**arm, "counted": counted, "position": position}
                yield {**key, **share_of(here, intervals), "chosen": chosen, **shares}


def _matches(rows: pl.DataFrame, intervals: str) -> Iterator[Record]:
    lower = pl.col("gold_answer").is_in(pl.col("places_lower_order").fill_null([]))
    rules = rows.with_columns(
        equals_lower_order=pl.when(pl.col("places_offered").is_not_null() & pl.col("gold_answer").is_not_null()).then(
            lower
        )
    )
    for arm, part in arms(rules):
        for rule in RULES:
            least = 2 if rule in ("first_order", "lower_order") else 1  # below, the rule is the question itself
            some = part.filter(pl.col("order") >= least)
            for order, of_order in by(some, "order"):
                for matches in (True, False):
                    here = of_order.filter(pl.col(f"equals_{rule}") == matches)
                    if here.height:
                        key = {**arm, "rule": rule, "order": order, "matches": matches}
                        guess = (1 / here["n_containers_mentioned"]).mean()
                        yield {**key, **share_of(here, intervals), "guess": guess}


def _baselines(rows: pl.DataFrame, kinds: baselines.RuleKinds) -> Iterator[Record]:
    """Every rule by deception and order, the best first, and last a guess among the containers that the story mentions,
    each question of a model counted once."""
    questions = rows.unique(["model", "item"], keep="first", maintain_order=True)
    for deception, part in by_deception(questions):
        for order, some in by(part, "order"):
            key: dict[str, Any] = {"deception": deception, "order": order}
            for record in baselines.rule_records(some, kinds, ("model",)):
                yield {**key, **record}
            for (model,), own in some.group_by(["model"], maintain_order=True):
                mentioned = own["n_containers_mentioned"]
                guess = {"rule": GUESS, "kind": "guess", "total": own.height, "said": mentioned.count()}
                chance = {"accuracy": (1 / mentioned).mean(), "containers_mentioned": mentioned.mean()}
                yield {**key, "model": model, **guess, **chance}


def _scorer(rows: pl.DataFrame) -> Iterator[Record]:
    keys = ["gold", "status", "parse"]
    for arm, part in arms(rows):
        counted = part.group_by(keys).agg(rows=pl.len().cast(pl.Int64), correct=pl.col("correct").sum().cast(pl.Int64))
        for record in counted.sort(*keys).iter_rows(named=True):
            yield {**arm, **record, "share": record["rows"] / part.height}


def chance(items: Iterable[ItemOutline]) -> Chance:
    """What a guesser scores who picks a container that the story mentions: the mean of 1 / their number. Many of the
    choices stand nowhere in the story, so that nobody who has read it would guess them."""
    told = ((item.factors.get("n_containers_mentioned"), item.choices) for item in items)
    share = mean_of([1 / (known if isinstance(known, int) and known > 0 else choices) for known, choices in told])
    return Chance({} if share is None else {"all": share}, "mean over questions of 1 / number of containers mentioned")


_MEASURES = {"accuracy": "right at this order", "joint": "right at this and all lower asked orders"}
_RULES = {
    "first_order": "first-order answer",
    "lower_order": "a lower order's answer",
    "reality": "reality",
    "joint_witness": "last seen together",
}
_RELEVANCE = {"all": "all questions", "true": "tells matter"}


def _by_order_and_length(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    """A panel for each model, kind of story and measure: a heat map a strategy, chapters down, orders across."""
    keys = "model strategy deception length order"
    rows = charts.rows_of(tables, "joint_accuracy", f"{keys} accuracy joint", keys)
    models = charts.short_names(charts.values_of(rows, "model"))
    by_kind = [row for row in rows if row["deception"] != OVERALL]
    panels: list[Panel] = []
    for model, short in models.items():
        for kind in charts.values_of(by_kind or rows, "deception"):
            part = [row for row in rows if row["model"] == model and row["deception"] == kind]
            stories = "all stories" if kind == OVERALL else f"{kind} deception"
            for measure, words in _MEASURES.items():
                title = ", ".join((*([short] if len(models) > 1 else []), stories, words))
                if any(finite_or_none(row[measure]) is not None for row in part):
                    at = chance.get("all") if measure == "accuracy" else None
                    panels.append(Panel(title, _maps(part, measure, title, at)))
    return replace(figure, panels=tuple(panels))


def _maps(rows: Sequence[Row], measure: str, title: str, chance: float | None) -> charts.Picture:
    lengths = sorted({_length(row) for row in rows}, key=lambda name: (name.startswith("all"), len(name), name))
    orders = sorted({str(row["order"]) for row in rows}, key=lambda name: (len(name), name))
    maps: list[charts.HeatMaps] = []
    all_cells: list[charts.Cell] = []
    for strategy in charts.values_of(rows, "strategy"):
        cells = []
        for row in rows:
            if row["strategy"] == strategy and (value := finite_or_none(row[measure])) is not None:
                down, across = _length(row), str(row["order"])
                cells.append(
                    charts.Cell(down, across, value, f"{readable_name(strategy)}, {down}, order {across}: {value:.2f}")
                )
        all_cells += cells
        if cells:
            maps.append(charts.heat_map(cells, lengths, orders, readable_name(strategy), chance=chance, names=not maps))
    label = f"Heat map, {title}. " + "; ".join(cell.words for cell in all_cells) + "."
    return charts.Picture(charts.side_by_side(maps), label)


def _length(row: Row) -> str:
    length = str(row["length"])
    return "all lengths" if length == ALL else f"{length} chapter{'' if length == '1' else 's'}"


def _kind(row: Row) -> Row:
    """The row with its kind of story said in full: with deception."""
    return {**row, "deception": f"{row['deception']} deception"} if row["deception"] in ("with", "without") else row


def _accuracy_figure(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    frame = tables.get("accuracy", pl.DataFrame())
    rows = charts.rows_of(tables, "accuracy", "model strategy deception accuracy", "model deception strategy")
    figure, rows = baselines.mark_best_rule(figure, rows)
    estimated = "estimate" in frame.columns and frame["estimate"].is_not_null().any()
    value = "estimate" if estimated else "accuracy"  # what the interval is about
    axis = charts.Axis("share right", (0, 1), lambda part: charts.chance_lines(chance, part))
    return charts.small_multiples(
        figure, [_kind(row) for row in rows], ("deception", "strategy", value, *_INTERVAL), axis
    )


_INTERVAL = ("ci_low", "ci_high")


def _twins_figure(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    """The effect of lines that lie or tell the truth on matched twins, all questions and those where tells matter."""
    needed = "model strategy treatment control tell_relevant order risk_difference rd_low rd_high"
    if tables["twins"].is_empty():
        return replace(figure, missing="Not drawn: these stories have no matched twins.")
    data: list[Row] = []
    for row in charts.rows_of(tables, "twins", needed):
        if row["order"] == ALL and (relevant := _RELEVANCE.get(str(row["tell_relevant"]))):
            data.append({**row, "contrast": f"{row['treatment']} − {row['control']}, {relevant}"})
    columns = ("contrast", "strategy", "risk_difference", "rd_low", "rd_high")
    return charts.small_multiples(
        figure, data, columns, charts.Axis("difference from the twin", (-1, 1), charts.zero_line)
    )


def _prompting_figure(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    keys = "model deception treatment"
    rows = charts.rows_of(tables, "prompting_effects", f"{keys} risk_difference rd_low rd_high", keys)
    columns = ("deception", "treatment", "risk_difference", "rd_low", "rd_high")
    axis = charts.Axis("difference from vanilla", (-1, 1), charts.zero_line, first=1)
    return charts.small_multiples(figure, [_kind(row) for row in rows], columns, axis)


def _by_rule(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    """Accuracy where the answer is that of a rule which nests nothing, and where it is not."""
    data: list[Row] = []
    for row in charts.rows_of(tables, "lower_order_match", "model strategy rule order matches accuracy"):
        if row["order"] == ALL:
            cell = f"{_RULES.get(str(row['rule']), row['rule'])}: {'yes' if row['matches'] else 'no'}"
            value = row["accuracy"] if row.get("estimate") is None else row["estimate"]  # what the interval is about
            data.append({**row, "cell": cell, "value": value})
    axis = charts.Axis("share right", (0, 1), lambda part: charts.chance_lines(chance, "all"))
    return charts.small_multiples(figure, data, ("cell", "strategy", "value", *_INTERVAL), axis)


_MAKERS: Mapping[str, charts.Draw] = {
    "heat": _by_order_and_length,
    "accuracy": _accuracy_figure,
    "perturbing": _twins_figure,
    "prompting": _prompting_figure,
    "controls": _by_rule,
}


def figures(tables: Tables, context: Context) -> list[Figure]:
    """Every figure in the order of the report, that of strategies where some can be compared."""
    kept = {name: make for name, make in _MAKERS.items() if name != "prompting" or "prompting_effects" in tables}
    return charts.draw_figures(TEXTS.figure, kept, tables, context)


COUNTED = FileCounting(study_rows, count_tables)

STUDY = Study(
    name="hitom",
    tables=COUNTED.of_one,
    counted=COUNTED,
    required=REQUIRED,
    intervals=("recommended", "published"),
    notes=TEXTS.notes,
    warnings=warnings,
    summary=summary,
    layouts=LAYOUTS,
    figures=figures,
    verdicts=verdicts,
    chance=chance,
    strata=("order",),
    labels={
        "order": "Order",
        "length": "Chapters",
        "deception": "Deception",
        "tell_relevant": "Tells matter",
        "equals_joint_witness": "Joint witness right",
        "twin_kind": "Twin",
    },
)
