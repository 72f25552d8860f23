"""What single people get right, beside the tables that every study makes of what most of them answered: every person's
answer counts, and intervals speak for further people and further stories (tomserve.stats.crossed_random)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from tomserve.scoring.score import PEOPLE
from tomserve.scoring.table import COLUMNS
from tomserve.stats.crossed_random import (
    crossed_difference,
    crossed_groups,
    crossed_mean,
    crossed_share,
    p_value,
    shared_weights,
)
from tomserve.stats.proportions import Interval
from tomserve.studies.answer_rows import prepare_rows, split_by
from tomserve.studies.breakdowns import value_text
from tomserve.studies.phrases import PHRASES
from tomserve.studies.presentation import Excerpt

# The names of the tables: shares of right answers, and differences between classes.
TABLE, EFFECTS = "people", "people_effects"
TITLE = "people: what single people have right"
CLASS, NONE = "perturbation", "none"
OVERALL = "overall"
MOST_VALUES = 12  # A factor with more values is a name rather than a condition, and has no rows


def people_answers(scores: pl.DataFrame) -> pl.DataFrame:
    """One row for each answer of each person, with `person`, `right` (1 or 0), and the columns of the score table."""
    if not set(PEOPLE) <= set(scores.columns):
        return pl.DataFrame()
    rows = scores.filter(pl.col("people").list.len() > 0)
    rows = rows.filter(pl.col("people").list.len() == pl.col("people_right").list.len())
    cluster = pl.coalesce("cluster", "item") if "cluster" in rows.columns else pl.col("item")
    return rows.with_columns(cluster=cluster).explode("people", "people_right").rename(
        {"people": "person", "people_right": "right"}
    )  # fmt: skip


def with_people(tables: Mapping[str, pl.DataFrame], scores: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The tables and, where people answered, TABLE by factors and EFFECTS of classes against the class none."""
    rows = people_answers(scores)
    if not rows.height:
        return dict(tables)
    shares = pl.DataFrame(list(_shares(rows)), infer_schema_length=None).fill_nan(None)
    effects = list(_effects(rows))
    more = {EFFECTS: pl.DataFrame(effects, infer_schema_length=None).fill_nan(None)} if effects else {}
    return {**tables, TABLE: shares, **more}


def warnings(tables: Mapping[str, pl.DataFrame]) -> Iterator[str]:
    """A sentence for each group of people of whom several answered one question, since the other tables say what most
    of them answered."""
    if TABLE not in tables:
        return
    for row in tables[TABLE].filter(factor=OVERALL).iter_rows(named=True):
        if row["answers"] > row["questions"]:
            bounds = f" [{row['ci_low']:.0%}, {row['ci_high']:.0%}]" if row["ci_low"] is not None else ""
            yield (
                f"{row['model']}, {row['strategy']}: several people answered some of the questions, and the tables "
                f"count the answer of most of them; single people have {row['share']:.0%}{bounds} right (table {TABLE})"
            )


def notes(tables: Mapping[str, pl.DataFrame]) -> dict[str, str]:
    said = {TABLE: PHRASES["about_people"], EFFECTS: PHRASES["people_effects"]}
    return {name: note for name, note in said.items() if name in tables}


def excerpts(tables: Mapping[str, pl.DataFrame]) -> list[Excerpt]:
    """What the terminal prints of the tables of this module: the shares over all questions and by class."""
    if TABLE not in tables:
        return []
    shares = tables[TABLE].filter(pl.col("factor").is_in([OVERALL, CLASS]))
    named = pl.coalesce("value", "factor").alias("questions of")
    columns = ("share", "ci_low", "ci_high", "answers", "people", "tasks")
    return [Excerpt(TITLE, shares.select("model", "strategy", named, *columns), (TABLE,), PHRASES["about_people"])]


def _shares(rows: pl.DataFrame) -> Iterator[dict[str, Any]]:
    factors = [
        name
        for name, kind in rows.schema.items()
        if (kind in (pl.String, pl.Boolean)) and name not in {*COLUMNS, "person", "right"}
        if not name.startswith(("metric_", "rule_")) and 2 <= rows[name].drop_nulls().n_unique() <= MOST_VALUES
    ]
    for arm, part in split_by(rows, ("model", "strategy"), sort=False):
        yield {**arm, "factor": OVERALL, "value": None, **_share(part)}
        for name in factors:
            known = part.drop_nulls(name)
            for (value,), one in known.group_by([name], maintain_order=True):
                yield {**arm, "factor": name, "value": value_text(value), **_share(one)}


def _share(rows: pl.DataFrame) -> dict[str, Any]:
    found = crossed_share(rows["right"].to_numpy(), rows["person"].to_numpy(), rows["cluster"].to_numpy())
    counted = {"people": "person", "questions": "item", "tasks": "cluster"}
    return {
        **{"share": found.estimate, "ci_low": found.low, "ci_high": found.high, "answers": rows.height},
        **{name: rows[column].n_unique() for name, column in counted.items()},
        "method": found.method,
    }


def _effects(rows: pl.DataFrame) -> Iterator[dict[str, Any]]:
    if CLASS not in rows.columns or NONE not in rows[CLASS].to_list():
        return
    for arm, part in split_by(rows, ("model", "strategy"), sort=False):
        for name in part[CLASS].drop_nulls().unique(maintain_order=True):
            two = part.filter(pl.col(CLASS).is_in([name, NONE]))
            if name == NONE or two[CLASS].n_unique() < 2:
                continue
            treated = (two[CLASS] == name).to_numpy()
            right = two["right"].cast(pl.Float64).to_numpy()
            found = crossed_difference(right, treated, two["person"].to_numpy(), two["cluster"].to_numpy())
            sides = {"share_treated": right[treated].mean(), "share_control": right[~treated].mean()}
            yield {**arm, CLASS: name, **sides, **_difference(found, two)}


def _difference(found: Interval, rows: pl.DataFrame) -> dict[str, Any]:
    """A difference of shares as the columns of a table; its bounds end at -1 and 1, as no such difference is larger."""
    return {
        "difference": found.estimate,
        "low": max(found.low, -1.0) if found.low == found.low else found.low,
        "high": min(found.high, 1.0) if found.high == found.high else found.high,
        "p": p_value(found),
        "people": rows["person"].n_unique(),
        "tasks": rows["cluster"].n_unique(),
        "method": found.method,
    }


def compare_people(a: pl.DataFrame, b: pl.DataFrame, pairs: pl.DataFrame, classes: Sequence[str] = ()) -> pl.DataFrame:
    """How much more of the same questions B has right than A, by class and overall, with every person's answer counted;
    empty where neither side are people. a, b: score tables. pairs: the questions compared. classes: in order."""
    of_a, of_b = people_answers(a), people_answers(b)
    if not of_a.height and not of_b.height:
        return pl.DataFrame()
    of_class = pl.col(CLASS) if CLASS in pairs.columns else pl.lit(None, pl.String).alias(CLASS)
    asked = pairs.select("item", of_class).unique("item")
    both = bool(of_a.height and of_b.height)
    joined = _people_of_both(of_a, of_b) if both else _beside(of_b, a, 1.0) if of_b.height else _beside(of_a, b, -1.0)
    joined = joined.drop(CLASS, strict=False).join(asked, on="item", maintain_order="left")
    records = []
    for name in (*classes, OVERALL):
        part = joined if name == OVERALL else joined.filter(pl.col(CLASS) == name)
        if part.height:
            records.append({"class": name, **(_compare_groups_of_people(part) if both else _compare_with_model(part))})
    return pl.DataFrame(records, infer_schema_length=None).fill_nan(None)


def _people_of_both(of_a: pl.DataFrame, of_b: pl.DataFrame) -> pl.DataFrame:
    """The answers of people of both sides to the questions that both have, each question of the task that B names."""
    wanted = ("item", "person", "right")
    task = of_b.select("item", "cluster").unique("item", keep="first", maintain_order=True)
    sides = []
    for one, other, in_b in ((of_a, of_b, False), (of_b, of_a, True)):
        both = one.select(*wanted).join(other.select("item").unique(), on="item", maintain_order="left")
        sides.append(both.with_columns(pl.col("person").cast(pl.String), of_b=pl.lit(in_b)))
    return pl.concat(sides).join(task, on="item", maintain_order="left")


def _compare_groups_of_people(part: pl.DataFrame) -> dict[str, Any]:
    """People of A and of B: both are samples, and a question counts as its answers of both sides allow."""
    in_b = part["of_b"].to_numpy()
    right = part["right"].cast(pl.Float64).to_numpy()
    person, task, item = (part[name].to_numpy() for name in ("person", "cluster", "item"))
    found, weights = crossed_groups(right, in_b, person, task, item), shared_weights(in_b, item)
    shares = {"A": float(weights[~in_b] @ right[~in_b]), "B": float(weights[in_b] @ right[in_b])}
    named = part.with_columns(person=pl.format("{} {}", "of_b", "person"))
    return {**shares, **_difference(found, named)}


def _beside(people: pl.DataFrame, scores: pl.DataFrame, sign: float) -> pl.DataFrame:
    """People's answers beside a model's share right, of its strategies (usually one). sign: 1 where people are B."""
    rows = prepare_rows(scores.lazy()).collect()
    means = rows.group_by("item").agg(other=pl.col("correct").cast(pl.Float64).mean())
    return people.join(means, on="item", maintain_order="left").with_columns(sign=pl.lit(sign))


def _compare_with_model(part: pl.DataFrame) -> dict[str, Any]:
    own, theirs, sign = (part[column].cast(pl.Float64).to_numpy() for column in ("right", "other", "sign"))
    found = crossed_mean(sign * (own - theirs), part["person"].to_numpy(), part["cluster"].to_numpy())
    sides = (theirs.mean(), own.mean()) if sign[0] > 0 else (own.mean(), theirs.mean())
    return {"A": sides[0], "B": sides[1], **_difference(found, part)}
