"""Accuracy by model and strategy, for any items: the study of benchmarks that have none of their own.

    tomserve analyze items-mymodel --study accuracy

The table `accuracy` has the columns model, strategy, correct, total, accuracy, ci_low, ci_high and unread (replies that
could not be read and count as wrong); `prompting_effects` compares every strategy with vanilla on the same items;
`baselines` has what rules that follow nobody's belief score; `metrics` has the means of what the benchmark computes
from replies; `samples` compares majority, mean, any and all of the samples where each question was asked several times.
With recommended intervals the unit is the cluster (a story or a task; an item that names none is a cluster of its own)
and a failure counts as wrong; with effective ones an accuracy has the interval of as many independent items as have its
cluster-robust error (tomserve.stats.clustered), which is narrower where the items of a cluster are unlike each other and
needs a dozen clusters; with published ones every item counts as independent of the others.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from tomserve.scoring.metrics import BEGINNING
from tomserve.studies import Excerpt, Study, baselines, metrics, samples
from tomserve.studies.counting import ARM, Once, Rows, Tally, take
from tomserve.studies.noise import shown as shown_noise
from tomserve.studies.rows import BASELINE, REQUIRED, prepared
from tomserve.studies.ruled import EFFECTIVE as EFFECTIVE_WAY
from tomserve.studies.showing import Tables
from tomserve.studies.study import Counted
from tomserve.studies.unread import ABOUT as ABOUT_UNREAD
from tomserve.studies.words import ABOUT_EFFECT, ABOUT_TESTS, ABOUT_WORST, cell

NOTES = {
    "accuracy": "The share of right answers with its 95% interval (Wilson's, for shares; the rule that makes it "
    "covers the true share 19 times out of 20). It counts clusters (stories, tasks), not questions, because the "
    "questions of one cluster go together: it says what to expect of further clusters like these. A failure (no "
    f"answer, or none that can be read) counts as wrong. {baselines.ABOUT}",
    baselines.TABLE: baselines.NOTE,
    "prompting_effects": "Each strategy (way of asking) against vanilla, which asks for the answer alone, on the "
    f"same items. {ABOUT_EFFECT} Read this difference and its interval: whether the intervals of two accuracies "
    f"overlap is no test. {ABOUT_TESTS} {ABOUT_WORST}",
    metrics.TABLE: metrics.NOTE,
    samples.TABLE: samples.NOTE,
}
EFFECTIVE = {
    **NOTES,
    "accuracy": f"The share of right answers with its 95% interval, {baselines.ABOUT_EFFECTIVE} It says what to expect "
    "of further clusters like these, and needs a dozen of them. A failure (no answer, or none that can be read) counts "
    f"as wrong. {baselines.ABOUT}",
}
PUBLISHED = {
    "accuracy": "The share of right answers; its 95% interval takes the items as independent: (k + 2)/(n + 4) with the "
    "normal distribution.",
    baselines.TABLE: baselines.NOTE,
}


WAYS = {"recommended": NOTES, EFFECTIVE_WAY: EFFECTIVE, "published": PUBLISHED}
"""The ways to count, with what each table then means, by its name."""


def notes(intervals: str) -> Mapping[str, str]:
    """What each table means, by its name. intervals: one of WAYS."""
    return WAYS[intervals]


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """The tables by name: `accuracy`, and unless intervals are published ones `prompting_effects` where vanilla was
    asked too, `metrics` where the benchmark computes some, and `samples` where each question was asked several times.

    scores: a score table. intervals: one of WAYS. Raises ConfigError for a table that lacks a column.
    """
    rows = prepared(scores, columns(scores)).collect()
    return counted(lambda: [rows], baselines.Kinds.of(scores), intervals)


def columns(scores: pl.LazyFrame) -> tuple[str, ...]:
    """The columns of a score table that `counted` needs of its prepared rows."""
    computed = [name for name in scores.collect_schema().names() if name.startswith(BEGINNING)]
    return (*REQUIRED, *computed, *baselines.Kinds.of(scores).columns, *samples.columns(scores))


def counted(rows: Rows, kinds: baselines.Kinds, intervals: str) -> dict[str, pl.DataFrame]:
    """The same tables, counted file by file. rows: prepared rows of every file. kinds: the rules of all of them."""
    answers, once = Tally((), kinds, effects="baseline"), Once(kinds)
    means, repeated = metrics.Metrics(), samples.Samples()
    more = () if intervals == "published" else (means, repeated)
    take(rows, (answers, once, *more))
    shares = [dict(zip(ARM, key, strict=True)) | found for key, found in answers.shares(intervals)]
    rules = list(once.records())
    accuracy = baselines.dropped(pl.DataFrame(shares, infer_schema_length=None), kinds)
    made = {"accuracy": accuracy, baselines.TABLE: pl.DataFrame(rules)}
    if intervals != "published":
        effects = list(answers.effects())
        made["prompting_effects"] = pl.DataFrame(effects, infer_schema_length=None).fill_nan(None)
        made |= {metrics.TABLE: means.table(), samples.TABLE: repeated.table()}
    return {name: table for name, table in made.items() if table.height or name == "accuracy"}


_EFFECTS = (
    f"The difference is the strategy's share minus {BASELINE}'s, with its 95% interval; p is at most .05 exactly where "
    f"that does not hold 0. gained, lost: questions that only the strategy, or only {BASELINE}, has right. Whether the "
    "intervals of two accuracies overlap says little of this."
)


def _cell(name: str) -> pl.Expr:
    return pl.col(name).map_elements(cell, pl.String, skip_nulls=False)


def _reading(tables: Tables) -> str:
    """What a reader of the accuracies in the terminal must know of them."""
    if "method" not in tables["accuracy"].columns:
        return PUBLISHED["accuracy"]
    return (
        "accuracy: correct of total; ci_low and ci_high: the ends of its 95% interval, which says what to expect of "
        "further stories or tasks like these. A failure, that is no readable answer, counts as wrong."
    )


def summary(tables: Tables) -> list[Excerpt]:
    """What the terminal prints: the columns of each table that a reader needs first."""
    accuracy = tables["accuracy"]
    shown = accuracy.select(*accuracy.columns[:7], "unread")
    excerpts = [Excerpt("accuracy", shown, ("accuracy",), f"{_reading(tables)} {ABOUT_UNREAD}")]
    excerpts += baselines.excerpts(accuracy, ("strategy",))
    if (effects := tables.get("prompting_effects")) is not None:
        shares = (_cell("share_treated").alias("strategy's"), _cell("share_control").alias(f"{BASELINE}'s"))
        ends = map(_cell, ("risk_difference", "rd_low", "rd_high"))
        difference = pl.format("{} [{}, {}]", *ends).alias("difference [95%]")
        p = pl.col("p").round(3)
        named = ("model", pl.col("treatment").alias("strategy"))
        frame = effects.select(*named, *shares, difference, p, "gained", "lost", *shown_noise(effects))
        title = "effects: the strategy's share right minus vanilla's, on the same items"
        excerpts.append(Excerpt(title, frame, ("prompting_effects",), _EFFECTS))
    if metrics.TABLE in tables:
        excerpts.append(Excerpt("metrics of the replies", tables[metrics.TABLE], (metrics.TABLE,)))
    if (repeated := tables.get(samples.TABLE)) is not None:
        shown = repeated.drop("tasks", "method")
        excerpts.append(Excerpt("samples: what is right of several samples of a question", shown, (samples.TABLE,)))
    return excerpts


STUDY = Study(
    name="accuracy",
    intervals=tuple(WAYS),
    tables=tables,
    notes=notes,
    warnings=baselines.missing,
    summary=summary,
    counted=Counted(columns, counted),
)
