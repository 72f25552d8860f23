"""The Hi-ToM study (arXiv 2310.16755): from a score table to the paper's tables, and to others that explain them.

    tomserve analyze hitom-mymodel --study hitom --out tables --format csv
    tomserve analyze theirs.parquet --study hitom --intervals published

Two ways to count, by `--intervals`. *recommended* (the default): shares over all questions with intervals by story,
strategies and twins compared on the same questions; a failure is a wrong answer. *published*: means over the cells of
length and order without intervals, as in the paper's Table 5. `notes` says what each table means.

accuracy            without and with deception, overall; minus_vanilla: the strategy against vanilla
prompting_effects   the same differences with their tests (recommended)
joint_accuracy      by order, length and deception: accuracy of all questions of the order; joint: all asked orders of a
                    story up to this one right, beside the product of their marginals, and the share right at this
                    order where the asked one before it is right (after_right) or wrong
deception_count     by the number of false tells, in the story and about the object asked for
answer_position     by the place of the answer among the choices and among the containers mentioned, and how often each
                    place is chosen
lower_order_match   where the answer is that of the first-order question, of any lower order, of reality or of the last
                    thing that all asked agents saw together (joint witness), and where it is not
twins               matched twins: deceptive, truthful and filler lines against none and against each other
baselines           what rules that nest no beliefs, and a guess, score on the same questions
errors              wrong answers by explanation (see errors.py)
chains              belief chains by order: metrics, phi of a right path with a right answer, answers that follow a
                    chain which ends wrongly
scorer              which answers counted as right (tracked:SEMANTICS for generated items), and how replies were read
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from tomserve.studies import Asked, Context, Figure, Layout, Study, baselines
from tomserve.studies.contrasts import Record
from tomserve.studies.showing import Chance, Tables, mean_of

from . import notes
from .chains import COLUMNS as CHAINS
from .chains import chains
from .errors import COLUMNS as ERRORS
from .errors import errors
from .joint import joint_accuracy
from .rows import (
    OVERALL,
    REQUIRED,
    RULES,
    arms,
    by,
    by_deception,
    control_of,
    effect_of,
    frame,
    place_in,
    prepared,
    share_of,
    with_control,
)
from .summary import summary, warnings
from .twins import twins
from .verdicts import verdicts

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
EFFECT = (
    "risk_difference rd_low rd_high share_treated share_control p p_sign_flip p_smallest p_failure failed_treated "
    "failed_control worst_low worst_high relative_risk rr_low rr_high noise noise_high minimum_detectable_effect "
    "units_needed sd units stories few_stories gained lost both neither mcnemar_exact mcnemar_mid_p tango_low "
    "tango_high n target method zeros"
)
GUESS = "a guess among the containers mentioned"
"""The name of the guesser in the table of baselines, whose `accuracy` is what he is expected to get right."""

COLUMNS = {
    "accuracy": f"model strategy deception {SHARE} cells control minus_vanilla minus_low minus_high noise noise_high "
    f"{baselines.COLUMNS}",
    "prompting_effects": f"model deception treatment control {EFFECT}",
    "joint_accuracy": "model strategy deception length order stories accuracy joint joint_low joint_high product "
    "after_right after_right_n after_wrong after_wrong_n incomplete few_stories method",
    "deception_count": f"model strategy counted order false_tells {SHARE}",
    "answer_position": f"model strategy counted position {SHARE} chosen chosen_share answer_share",
    "lower_order_match": f"model strategy rule order matches {SHARE} guess",
    "twins": f"model strategy treatment control tell_relevant order accuracy control_accuracy {EFFECT}",
    baselines.TABLE: "model deception order rule kind right total accuracy said containers_mentioned",
    "errors": ERRORS,
    "chains": CHAINS,
    "scorer": "model strategy gold status parse rows correct share",
}


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """Every table of the study, by name. scores: a score table; intervals: the way to count."""
    kinds = baselines.Kinds.of(scores)
    rows = prepared(scores, kinds.columns)
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
    for model, strategy, control, pairs in with_control(rows):
        for name, part in by_deception(pairs):
            yield {"model": model, "deception": name, "treatment": strategy, "control": control, **effect_of(part)}


def _accuracy(rows: pl.DataFrame, effects: list[Record], intervals: str, kinds: baselines.Kinds) -> Iterator[Record]:
    paired = {(r["model"], r["treatment"], r["deception"]): r for r in effects}
    controls: dict[tuple[str, str], float] = {}
    for model, strategy, part in arms(rows):
        control = control_of(rows.filter(model=model)["strategy"].unique())
        means: dict[str, float] = {}
        records = []
        for name, some in by_deception(part):
            cells = some.group_by("length", "order", "deception").agg(pl.col("correct").mean())
            record = {"model": model, "strategy": strategy, "deception": name, **share_of(some, intervals)}
            if intervals != "published":
                record |= baselines.beside(some, kinds)
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
    for model, strategy, part in arms(rows):
        for column, counted in (("tells_false", "in the story"), ("tells_false_asked", "about the object")):
            for order, of_order in by(part, "order"):
                for count in of_order[column].drop_nulls().unique().sort():
                    key = {"model": model, "strategy": strategy, "counted": counted, "order": order}
                    stories = of_order.filter(pl.col(column) == count)
                    yield {**key, "false_tells": count, **share_of(stories, intervals)}


def _positions(rows: pl.DataFrame, intervals: str) -> Iterator[Record]:
    for model, strategy, part in arms(rows):
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
                key = {"model": model, "strategy": strategy, "counted": counted, "position": position}
                shares = {"chosen_share": chosen / given if given else None, "answer_share": here.height / known.height}
                yield {**key, **share_of(here, intervals), "chosen": chosen, **shares}


def _matches(rows: pl.DataFrame, intervals: str) -> Iterator[Record]:
    lower = pl.col("gold_answer").is_in(pl.col("places_lower_order").fill_null([]))
    rules = rows.with_columns(
        equals_lower_order=pl.when(pl.col("places_offered").is_not_null() & pl.col("gold_answer").is_not_null()).then(
            lower
        )
    )
    for model, strategy, part in arms(rules):
        for rule in RULES:
            least = 2 if rule in ("first_order", "lower_order") else 1  # below, the rule is the question itself
            some = part.filter(pl.col("order") >= least)
            for order, of_order in by(some, "order"):
                for matches in (True, False):
                    here = of_order.filter(pl.col(f"equals_{rule}") == matches)
                    if here.height:
                        key = {"model": model, "strategy": strategy, "rule": rule, "order": order, "matches": matches}
                        guess = (1 / here["n_containers_mentioned"]).mean()
                        yield {**key, **share_of(here, intervals), "guess": guess}


def _baselines(rows: pl.DataFrame, kinds: baselines.Kinds) -> Iterator[Record]:
    """Every rule by deception and order, the best first, and last a guess among the containers that the story mentions,
    each question of a model counted once."""
    questions = rows.unique(["model", "item"], keep="first", maintain_order=True)
    for deception, part in by_deception(questions):
        for order, some in by(part, "order"):
            key: dict[str, Any] = {"deception": deception, "order": order}
            for record in baselines.table(some, kinds, ("model",)):
                yield {**key, **record}
            for (model,), own in some.group_by(["model"], maintain_order=True):
                mentioned = own["n_containers_mentioned"]
                guess = {"rule": GUESS, "kind": "guess", "total": own.height, "said": mentioned.count()}
                chance = {"accuracy": (1 / mentioned).mean(), "containers_mentioned": mentioned.mean()}
                yield {**key, "model": model, **guess, **chance}


def _scorer(rows: pl.DataFrame) -> Iterator[Record]:
    keys = ["gold", "status", "parse"]
    for model, strategy, part in arms(rows):
        counted = part.group_by(keys).agg(rows=pl.len().cast(pl.Int64), correct=pl.col("correct").sum().cast(pl.Int64))
        for record in counted.sort(*keys).iter_rows(named=True):
            yield {"model": model, "strategy": strategy, **record, "share": record["rows"] / part.height}


# What belongs to the tables


def figures(tables: Tables, context: Context) -> Sequence[Figure]:
    """The figures of the report; drawing takes long to import, and only a report draws."""
    from .figures import figures as draw

    return draw(tables, context)


def chance(items: Iterable[Asked]) -> Chance:
    """What a guesser scores who picks a container that the story mentions: the mean of 1 / their number.

    Many of the choices stand nowhere in the story, so that nobody who has read it would guess them.
    """
    share = mean_of([1 / _guesses(item) for item in items])
    return Chance({} if share is None else {"all": share}, "mean over questions of 1 / number of containers mentioned")


def _guesses(item: Asked) -> int:
    mentioned = item.factors.get("n_containers_mentioned")
    return mentioned if isinstance(mentioned, int) and mentioned > 0 else item.choices


def notes_of(intervals: str) -> Mapping[str, str]:
    """What each table means, by its name. intervals: the way to count, recommended or published."""
    return notes.RECOMMENDED if intervals == "recommended" else notes.PUBLISHED


STUDY = Study(
    name="hitom",
    tables=tables,
    required=REQUIRED,
    intervals=("recommended", "published"),
    notes=notes_of,
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
