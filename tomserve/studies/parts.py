"""A study of a benchmark that falls into parts: accuracy by part, and what is right of a set of questions together.

>>> study = parted("demo", {"tasks": {"task": pl.String}}, {"tasks": "By task."}, baseline="letters")
>>> study.name, sorted(study.notes("recommended"))
('demo', ['accuracy', 'baselines', 'prompting_effects', 'tasks'])
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from tomserve.studies import baselines
from tomserve.studies.contrasts import Record, prompting_effects, share
from tomserve.studies.rows import BASELINE, REQUIRED, prepared, with_columns
from tomserve.studies.showing import Excerpt, Tables
from tomserve.studies.study import Study
from tomserve.studies.words import ABOUT_EFFECT, ABOUT_TESTS, ABOUT_WORST

Columns = Mapping[str, Any]
"""Factors of the design, each with its Polars type."""

ABOUT_SHARE = (
    "accuracy is the share of right answers, ci_low and ci_high the ends of its 95% interval over clusters (stories, "
    "scenes, passages), which says what to expect of further ones like these; a failure (no answer, or none that can "
    "be read) counts as wrong. chance is what a blind guess among the choices gets right, best_rule_accuracy what the "
    "best rule that follows nobody's mind has right of the same questions."
)
ABOUT_TOGETHER = (
    "all_right is the share of the sets of which every question is right, with its 95% interval over clusters; a "
    "failure counts as wrong. expected is what that share would be if the questions of a set were right independently "
    "of each other, each as often as all are; chance is that of blind guesses."
)
ABOUT_OFFICIAL = (
    "The authors' reading of the replies beside tomserve's, on the same replies in free text: official_accuracy is the "
    "share that is right by theirs, accuracy that by tomserve's, by which all other tables count; only_official and "
    "only_ours are how many replies are right by one of the two alone, unread how many tomserve could not read."
)
OFFICIAL = "metric_official"
"""The column that says of a reply whether it is right by the authors' reading; empty where that does not apply."""
_INDEPENDENT = (
    "The share of right answers; its 95% interval takes the questions as independent of each other: (k + 2)/(n + 4) "
    "with the normal distribution."
)
EXTRA = {"options": pl.Int64}
"""Further columns: how many choices the question has, where the score table says it."""


def parted(
    name: str,
    parts: Mapping[str, Columns],
    notes: Mapping[str, str],
    baseline: str = BASELINE,
    together: Mapping[str, tuple[str, Columns]] | None = None,
    quoted: Mapping[str, pl.DataFrame] | None = None,
    official: Columns | None = None,
) -> Study:
    """The study.

    parts: tables of accuracy by name, each with the factors by which it counts. notes: what each table of parts,
    together and quoted is about. baseline: the strategy with which the others are compared. together: tables of what is
    right together by name, each with the factor that names the sets and the factors by which it counts. quoted: tables
    as a paper printed them. official: the factors by which the authors' reading of replies (see `official_reading`)
    stands beside tomserve's; None where the authors read none. Its tables are `accuracy`, `baselines`, those,
    `official` and `prompting_effects`.
    """
    sets, printed = together or {}, quoted or {}
    columns: dict[str, Any] = {**EXTRA, OFFICIAL: pl.Boolean, **(official or {})}
    for factors in parts.values():
        columns |= factors
    for unit, factors in sets.values():
        columns |= {unit: pl.String, **factors}

    def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
        kinds = baselines.Kinds.of(scores)
        wanted = with_columns(scores, columns)
        rows = prepared(wanted, (*REQUIRED, *columns, *kinds.columns)).collect()
        made: dict[str, list[Record]] = {
            "accuracy": list(by_part(rows, (), kinds, intervals, brief=False)),
            baselines.TABLE: list(baselines.table(rows, kinds, ("model",))),
        }
        made |= {table: list(by_part(rows, tuple(keys), kinds, intervals)) for table, keys in parts.items()}
        if official is not None:
            made["official"] = list(official_reading(rows, tuple(official)))
        if intervals == "recommended":
            made |= {table: list(all_right(rows, unit, tuple(keys))) for table, (unit, keys) in sets.items()}
            made["prompting_effects"] = list(prompting_effects(rows, baseline))
        found = {table: pl.DataFrame(records, infer_schema_length=None) for table, records in made.items() if records}
        return {**found, **printed}

    def noted(intervals: str) -> Mapping[str, str]:
        of_parts = {table: f"{notes[table]} {_INDEPENDENT}" for table in parts}
        shared = {baselines.TABLE: baselines.NOTE, **{table: notes[table] for table in printed}}
        if official is not None:
            shared["official"] = ABOUT_OFFICIAL
        if intervals == "published":
            return {"accuracy": _INDEPENDENT, **of_parts, **shared}
        return {
            "accuracy": f"All questions: {ABOUT_SHARE} {baselines.ABOUT}",
            **{table: f"{notes[table]} {ABOUT_SHARE}" for table in parts},
            **{table: f"{notes[table]} {ABOUT_TOGETHER}" for table in sets},
            "prompting_effects": f"Each strategy (way of asking) against {baseline}, which asks for the answer alone, "
            f"on the same questions. {ABOUT_EFFECT} {ABOUT_TESTS} {ABOUT_WORST}",
            **shared,
        }

    def summary(made: Tables) -> list[Excerpt]:
        return list(
            _shown(made, {**parts, **{table: keys for table, (_, keys) in sets.items()}}, printed, official or {})
        )

    return Study(name=name, tables=tables, notes=noted, summary=summary, warnings=baselines.missing)


def by_part(
    rows: pl.DataFrame, keys: Sequence[str], kinds: baselines.Kinds, intervals: str, *, brief: bool = True
) -> Iterator[Record]:
    """A share for each model, strategy and value of the keys, with the chance of a blind guess.

    rows: prepared rows with the column `options`, without which chance is unknown. brief: whether the
    interval of the difference to the best rule is left out.
    """
    named = ["model", "strategy", *keys]
    for key, part in rows.sort(named, maintain_order=True).group_by(named, maintain_order=True):
        chance = part.select((1 / pl.col("options")).mean()).item()
        found = baselines.accuracy(part, kinds, intervals, brief=brief)
        yield {**dict(zip(named, key, strict=True)), **found, "chance": chance}


def all_right(rows: pl.DataFrame, unit: str, keys: Sequence[str]) -> Iterator[Record]:
    """For each model, strategy and value of the keys, the share of sets of which every question is right.

    rows: prepared rows with the column `options`. unit: the column that names the set; rows without one are left out.
    """
    named = ["model", "strategy", *keys]
    sets = rows.drop_nulls(unit).group_by([*named, unit], maintain_order=True)
    whole = sets.agg(
        pl.col("correct").all(),
        pl.col("faulty").any(),
        pl.col("unread").any(),
        pl.col("cluster").first(),
        pl.col("correct").sum().alias("right"),
        pl.len().cast(pl.Int64).alias("questions"),
        (1 / pl.col("options")).product().alias("chance"),
        pl.col("options").is_null().any().alias("open"),
    )
    for key, part in whole.sort(named, maintain_order=True).group_by(named, maintain_order=True):
        found, questions = share(part), int(part["questions"].sum())
        each = int(part["right"].sum()) / questions
        yield {
            **dict(zip(named, key, strict=True)),
            **{"sets": part.height, "questions": questions, "all_right": found["accuracy"]},
            **{"ci_low": found["ci_low"], "ci_high": found["ci_high"], "accuracy": each},
            "expected": part.select((pl.lit(each) ** pl.col("questions")).mean()).item(),
            "chance": None if part["open"].any() else part["chance"].mean(),
            **{"failed": found["failed"], "tasks": found["tasks"], "method": found["method"]},
        }


def official_reading(rows: pl.DataFrame, keys: Sequence[str]) -> Iterator[Record]:
    """For each model, strategy and value of the keys, how many replies are right by the authors' reading and by ours.

    rows: prepared rows with the column OFFICIAL. Those in which it is empty are left out, as are strategies that ask
    for JSON, of which most are empty and the rest no JSON.
    """
    named = ["model", "strategy", *keys]
    free = rows.filter(pl.col(OFFICIAL).is_not_null().mean().over("model", "strategy") > 0.5)
    read = free.drop_nulls(OFFICIAL).sort(named, maintain_order=True)
    for key, part in read.group_by(named, maintain_order=True):
        ours, theirs = part["correct"], part[OFFICIAL]
        yield {
            **dict(zip(named, key, strict=True)),
            **{"replies": part.height, "accuracy": ours.mean(), "official_accuracy": theirs.mean()},
            **{"only_ours": int((ours & ~theirs).sum()), "only_official": int((~ours & theirs).sum())},
            "unread": int(part["unread"].sum()),
        }


def _shown(
    made: Tables, keyed: Mapping[str, Columns], printed: Mapping[str, pl.DataFrame], official: Columns
) -> Iterator[Excerpt]:
    """What the terminal prints: of each table the columns that a reader needs first."""
    shares = "correct total accuracy ci_low ci_high unread"
    wanted = {"accuracy": f"model strategy {shares}"}
    first = "sets all_right total accuracy ci_low ci_high expected chance best_rule_accuracy"
    wanted |= {table: f"model strategy {' '.join(keys)} {first}" for table, keys in keyed.items()}
    compared = "replies accuracy official_accuracy only_ours only_official unread"
    wanted["official"] = f"model strategy {' '.join(official)} {compared}"
    wanted["prompting_effects"] = "model treatment share_treated share_control risk_difference rd_low rd_high p"
    for table, names in wanted.items():
        if table in made:
            frame = made[table]
            yield Excerpt(table, frame.select([name for name in names.split() if name in frame.columns]), (table,))
            if table == "accuracy":
                yield from baselines.excerpts(frame, ("strategy",))
    for table, frame in printed.items():
        yield Excerpt(table, frame, (table,))
