"""The study of DynToM: which states are understood, and whether their changes are followed from scene to scene.

    tomserve analyze dyntom-mymodel --study dyntom

Two ways to count, by `--intervals`: *recommended* (the default) has intervals over stories, and a failure counts as
wrong; *published* takes every question as independent of the others.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl

from tomserve.reporting.html.charts import Axis, Draw, chance_lines, draw_figures, rows_of, small_multiples
from tomserve.stats.accuracy import correct_for_chance
from tomserve.studies import Excerpt, Figure, Study, baselines
from tomserve.studies.contrasts import Record, matched_contrast, prompting_effects, share
from tomserve.studies.presentation import (
    BAD,
    GOOD,
    OPEN,
    Card,
    Context,
    Row,
    Tables,
    Verdict,
    interval,
    percent,
    readable_name,
)
from tomserve.studies.study import frames_of, has_rows, model_verdicts
from tomserve.studies.texts import Texts

TEXTS = Texts(__file__)


def verdicts(tables: Tables, context: Context) -> Sequence[Verdict]:
    """For each model: its shares beside chance and the best rule, whether changes are told by more than their words,
    and whether step-by-step reasoning helps."""
    return model_verdicts(tables, context, _follows, "form")


_ANSWERS: dict[int | None, tuple[str, str]] = {
    1: ("Yes, above word overlap", GOOD),
    -1: ("No: word overlap scores higher", BAD),
    0: ("Not shown: word overlap scores as high", OPEN),
    None: ("Not tested: word overlap has no interval", OPEN),
}


def _follows(own: dict[str, pl.DataFrame]) -> Iterator[Card]:
    """Whether changes are told better than by the best shortcut baseline."""
    if not has_rows(own, "forms", "strategy form accuracy chance best_rule best_rule_accuracy"):
        return
    grounds, places = [], set[int | None]()
    ends = own.get("changes", pl.DataFrame())
    for row in own["forms"].filter(form="whether").iter_rows(named=True):
        if not (beside := baselines.compare_with_rule(row)):
            continue
        places.add(baselines.place_against_rule(row))
        text = f"{percent(row['accuracy'])}{interval(row)} right, {beside}; a blind guess has {percent(row['chance'])}"
        both = ends.filter(strategy=row["strategy"], ends_right=2) if ends.height else ends
        if both.height:
            text += f"; where it has the states before and after right: {percent(both['accuracy'][0])}"
        grounds.append((readable_name(row["strategy"]), f"{text}."))
    if not grounds:
        return
    verdict, tone = _ANSWERS[places.pop()] if len(places) == 1 else ("Depends on the strategy", OPEN)
    yield Card("Are changes of mind tracked?", verdict, tone, tuple(grounds), TEXTS["follows"])


STATES = ("belief", "emotion", "intention", "action")

# Percent right: for each of STATES the understanding (U) and the transformation (T), then the printed average
PRINTED: dict[str, tuple[float, ...]] = {
    "human": (83.8, 77.6, 89.5, 78.7, 79.0, 73.8, 76.7, 76.3, 77.7),
    "GPT-4o": (80.9, 44.5, 91.7, 45.8, 87.5, 51.9, 95.1, 55.6, 64.0),
    "GPT-4o with CoT": (79.2, 44.5, 88.0, 47.6, 82.1, 46.6, 90.4, 49.6, 61.1),
}


def published_states() -> pl.DataFrame:
    """The table `published_states`: the printed cells as shares, and the weight of U that the average would need."""
    rows = []
    for who, cells in PRINTED.items():
        shares = {
            f"{state}_{part}": round(cell / 100, 3)
            for (state, part), cell in zip([(s, p) for s in STATES for p in ("u", "t")], cells[:8], strict=True)
        }
        known, changed = sum(cells[0:8:2]) / 4, sum(cells[1:8:2]) / 4
        rows.append(
            {
                **{"who": who, "quoted": True, **shares},
                **{"understanding": round(known / 100, 3), "transformation": round(changed / 100, 3)},
                **{"average": round(cells[8] / 100, 3)},
                "weight_of_u": round((cells[8] - changed) / (known - changed), 2),
            }
        )
    return pl.DataFrame(rows)


# The factors of the design that the tables need, with their types
FACTORS: Mapping[str, Any] = {
    **dict.fromkeys(("task", "form", "state", "cause"), pl.String),
    **dict.fromkeys(("scene", "until_scene", "scenes", "options"), pl.Int64),
}

ALL = "all"
CONTROLS = ("dyntom_vanilla", "vanilla")  # what other strategies are compared with: the first of these that was asked


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """Every table of the study that has rows, by name. Raises ConfigError for a table that lacks a column."""
    rows, kinds = baselines.rows_with_rules(scores, FACTORS)
    every = rows.with_columns(state=pl.lit(ALL))
    shares = partial(baselines.shares_by, kinds=kinds, intervals=intervals, chance=True)
    made: dict[str, Iterable[Record]] = {
        "accuracy": shares(rows, (), brief=False),
        baselines.TABLE: baselines.records_by(rows, kinds, "form"),
        "states": [*shares(every, ("state", "task")), *shares(rows, ("state", "task"))],
        "forms": shares(rows, ("task", "form"), brief=False),
        "scenes": shares(rows.drop_nulls("scene"), ("form", "scene")),
        "options": (
            {**row, "corrected": correct_for_chance(row["accuracy"], row["chance"])}
            for row in shares(rows, ("options",))
        ),
    }
    if intervals == "recommended":
        made |= {
            "consistency": _consistency(rows),
            "changes": shares(_with_ends(rows), ("ends_right",)),
            "understanding_minus_transformation": _understanding_minus_transformation(rows),
            "prompting_effects": _prompting_effects(rows),
        }
    return {**frames_of(made), "published_states": published_states()}


def _consistency(rows: pl.DataFrame) -> Iterator[Record]:
    """By model, strategy and form, how many states of a story are right in all scenes, or at all changes."""
    units = (
        rows.drop_nulls("scene")
        .with_columns(due=pl.col("scenes") - pl.col("until_scene").is_not_null().cast(pl.Int64))
        .group_by("model", "strategy", "form", "cluster", "state", maintain_order=True)
        .agg(
            correct=pl.col("correct").all(),
            faulty=(pl.col("faulty") & ~pl.col("correct")).any(),
            mean=pl.col("correct").mean(),
            chance=(1 / pl.col("options")).product(),
            whole=pl.len() == pl.col("due").first(),
        )
        .filter("whole")
    )
    keys = ("model", "strategy", "form")
    scenes = rows.drop_nulls("scene").group_by(*keys, "scene").agg(pl.col("correct").mean()).sort(*keys, "scene")
    product = scenes.group_by(*keys, maintain_order=True).agg(pl.col("correct").product().alias("product"))
    products = {(m, s, f): value for m, s, f, value in product.iter_rows()}
    for key, part in units.group_by(["model", "strategy", "form"], maintain_order=True):
        found = share(part)
        yield {
            **dict(zip(("model", "strategy", "form"), key, strict=True)),
            **{"states": part.height, "all_right": found["accuracy"]},
            **{"all_low": found["ci_low"], "all_high": found["ci_high"], "mean": part["mean"].mean()},
            **{"product": products[key], "chance": part["chance"].mean(), "stories": found["tasks"]},
        }


def _with_ends(rows: pl.DataFrame) -> pl.DataFrame:
    """Questions whether a state changes, with the number of its two ends that are right as questions of their own."""
    keys = ["model", "strategy", "cluster", "state"]
    known = rows.filter(form="what").select(*keys, "scene", pl.col("correct").cast(pl.Int64).alias("end"))
    asked = rows.filter(form="whether").join(known, on=[*keys, "scene"], how="inner", maintain_order="left")
    until = known.rename({"scene": "until_scene", "end": "other"})
    both = asked.join(until, on=[*keys, "until_scene"], how="inner", maintain_order="left")
    return both.with_columns(ends_right=pl.col("end") + pl.col("other"))


def _understanding_minus_transformation(rows: pl.DataFrame) -> Iterator[Record]:
    """By model, strategy and state, the difference between the two tasks within the same stories."""
    two = rows.filter(pl.col("task").is_in(["understanding", "transformation"]))
    told = two.with_columns(story=pl.col("cluster"), cluster=pl.format("{}/{}", "cluster", "task"))
    for frame in (told.with_columns(state=pl.lit(ALL)), told):
        for key, part in frame.group_by(["model", "strategy", "state"], maintain_order=True):
            if part["task"].n_unique() == 2:
                found = matched_contrast(part, part["task"] == "understanding", stratum="story")
                shown = ("share_treated", "share_control", "risk_difference", "rd_low", "rd_high", "p", "units")
                named = dict(zip(("model", "strategy", "state"), key, strict=True))
                yield {**named, **{name: found[name] for name in shown}}


def _prompting_effects(rows: pl.DataFrame) -> Iterator[Record]:
    """Each strategy against the one that asks for the answer alone, on the same questions."""
    for _, part in rows.group_by(["model"], maintain_order=True):
        if (control := next((name for name in CONTROLS if name in part["strategy"]), None)) is not None:
            yield from prompting_effects(part, control)


def summary(tables: Tables) -> list[Excerpt]:
    """What the terminal prints: of each table the columns that a reader needs first."""
    first, *others = TEXTS.excerpts(tables)
    return [first, *baselines.excerpts(tables["accuracy"], ("strategy",)), *others]


def _forms(tables: Tables) -> list[Row]:
    order = ("what", "how", "whether", "how_change", "why")
    rows = rows_of(tables, "forms", "model strategy form accuracy ci_low ci_high")
    return [
        {**row, "named": readable_name(row["form"])}
        for row in sorted(rows, key=lambda row: order.index(row["form"]) if row["form"] in order else len(order))
    ]


def _states(tables: Tables) -> list[Row]:
    rows = rows_of(tables, "states", "model strategy state task accuracy ci_low ci_high")
    return [{**row, "named": f"{row['state']}, {row['task']}"} for row in rows if row["state"] != "all"]


def _draw(
    figure: Figure, tables: Tables, chance: Mapping[str, float], *, make: Callable[[Tables], list[Row]]
) -> Figure:
    """A figure of shares. make: gives its rows, each `named`."""
    figure, rows = baselines.mark_best_rule(figure, make(tables))
    axis = Axis("share right", (0, 1), lambda part: chance_lines(chance, part))
    return small_multiples(figure, rows, ("named", "strategy", "accuracy", "ci_low", "ci_high"), axis)


MAKERS: Mapping[str, Draw] = {"forms": partial(_draw, make=_forms), "states": partial(_draw, make=_states)}

STUDY = Study(
    name="dyntom",
    tables=tables,
    notes=TEXTS.notes,
    warnings=baselines.missing_warnings,
    summary=summary,
    figures=partial(draw_figures, TEXTS.figure, MAKERS),
    verdicts=verdicts,
    strata=("form", "state"),
    labels={"task": "task", "form": "form of the question", "state": "state", "scene": "scene"},
)
