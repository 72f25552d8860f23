"""Accuracy by model and strategy, for any items: the study of benchmarks that have none of their own.

    tomserve analyze items-mymodel --study accuracy

With recommended intervals the unit is the cluster (a story or a task; an item that names none is a cluster of its own)
and a failure counts as wrong; with effective ones an accuracy has the interval of as many independent items as have its
cluster-robust error (tomserve.stats.clustered); with published ones every item counts as independent of the others.
"""

from collections.abc import Iterator
from typing import Any

import polars as pl

from tomserve.scoring.metrics import BEGINNING
from tomserve.scoring.score import SAMPLED
from tomserve.stats.clustered import repeated_share, sums_mean
from tomserve.studies import Excerpt, Study, baselines
from tomserve.studies.answer_rows import BASELINE, REQUIRED, name_apart, prepare_rows, split_by
from tomserve.studies.breakdowns import ARM, Counter, Rows, RuleCounter, Tally, count_files
from tomserve.studies.noise import noise_columns
from tomserve.studies.phrases import PHRASES
from tomserve.studies.presentation import Tables, cell_of
from tomserve.studies.study import FileCounting
from tomserve.studies.texts import Texts

TEXTS = Texts(__file__)

METRICS = "metrics"


class Metrics(Counter):
    """Sums of the metrics by cluster, counted file by file (see tomserve.studies.breakdowns)."""

    def __init__(self) -> None:
        self._sums: list[pl.DataFrame] = []

    def first(self, rows: pl.DataFrame) -> None:
        """Add the sums of a file's rows."""
        names = [
            name
            for name, kind in rows.schema.items()
            if name.startswith(BEGINNING) and (kind.is_numeric() or kind == pl.Boolean)
        ]
        if names:
            rows = rows.with_columns(pl.col(name).cast(pl.Float64).fill_nan(None) for name in names)
            sums = [pl.col(name).sum() for name in names]
            known = [pl.col(name).count().cast(pl.Int64).alias(f"known {name}") for name in names]
            arms = rows.group_by("model", "strategy", "cluster")
            self._sums.append(arms.agg(pl.len().cast(pl.Int64).alias("total"), *sums, *known))

    def table(self) -> pl.DataFrame:
        """A row for each model, strategy and metric: total, answers (replies with a value), mean, ci_low, ci_high,
        clusters; neither rows nor columns where there is no metric. Every column of numbers or of true and false that
        begins with metric_ is a metric. The mean is over answers, with the 95% interval of
        stats.clustered.clustered_mean; bounds are null where they are undefined."""
        if not self._sums:
            return pl.DataFrame()
        keys = ["model", "strategy", "cluster"]
        whole = pl.concat(self._sums, how="diagonal").group_by(keys).agg(pl.all().sum()).sort(keys)
        names = [name for name in whole.columns if name.startswith(BEGINNING)]
        records = []
        for arm, part in split_by(whole, ARM, sort=False):
            for name in names:
                known = part.filter(pl.col(f"known {name}") > 0)
                interval = sums_mean(known[name].to_numpy(), known[f"known {name}"].to_numpy())
                counts = {"total": int(part["total"].sum()), "answers": int(known[f"known {name}"].sum())}
                found = {"mean": interval.estimate, "ci_low": interval.low, "ci_high": interval.high}
                records.append({**arm, "metric": name, **counts, **found, "clusters": known.height})
        return pl.DataFrame(records, infer_schema_length=None).fill_nan(None)


SAMPLES = "samples"  # the name of the table

# What is right of a question that was asked several times, and the column that says so
MEASURES = {"majority": "correct", "mean": "correct_mean", "any": "correct_any", "all": "correct_all"}


def sample_columns(scores: pl.LazyFrame) -> list[str]:
    """The columns of a score table that this table is made from; none where every question was asked once."""
    there = set(scores.collect_schema().names())
    return [*SAMPLED, *{"people"} & there] if there.issuperset(SAMPLED) else []


class Samples(Counter):
    """Sums of samples by cluster, counted file by file (see tomserve.studies.breakdowns)."""

    def __init__(self) -> None:
        self._sums: list[pl.DataFrame] = []
        self._most = 1

    def first(self, rows: pl.DataFrame) -> None:
        """Add the sums of a file's rows; a question that was asked once counts by its one answer."""
        if "people" in rows.columns:  # answers of several people have a table of their own (tomserve.studies.people)
            rows = rows.filter(pl.col("people").is_null())
        if "samples" not in rows.columns:
            return
        self._most = max(self._most, int(rows["samples"].max() or 1))  # type: ignore[arg-type]  # a number
        right = pl.col("correct").cast(pl.Float64)
        shares = [pl.col(name).cast(pl.Float64).fill_null(right).sum().alias(what) for what, name in MEASURES.items()]
        asked = [pl.col(name).fill_null(1).sum().cast(pl.Int64) for name in ("samples", "samples_read")]
        arms = rows.group_by("model", "strategy", "cluster")
        self._sums.append(arms.agg(pl.len().cast(pl.Int64).alias("questions"), *asked, *shares))

    def table(self) -> pl.DataFrame:
        """The table `samples`: four rows (see MEASURES) for each model and strategy; empty where nothing was asked
        twice. samples: all together; unread: of these; tasks: clusters."""
        if self._most == 1:
            return pl.DataFrame()
        keys = ["model", "strategy", "cluster"]
        whole = pl.concat(self._sums).group_by(keys).agg(pl.all().sum()).sort(keys)
        arms = split_by(whole, ARM, sort=False)
        return pl.DataFrame([{**arm, **record} for arm, part in arms for record in _sample_records(part)])


def _sample_records(sums: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """The four rows of one model and strategy, from the sums of its clusters."""
    asked, read = int(sums["samples"].sum()), int(sums["samples_read"].sum())
    for measure in MEASURES:
        found = repeated_share(sums[measure].to_numpy(), sums["questions"].to_numpy())
        yield {
            **{"measure": measure, "share": found.estimate, "ci_low": found.low, "ci_high": found.high},
            **{"questions": int(sums["questions"].sum()), "samples": asked, "unread": asked - read},
            **{"tasks": sums.height, "method": found.method},
        }


WAYS = ("recommended", baselines.EFFECTIVE, "published")  # the ways to count


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """The tables by name: `accuracy`, and unless intervals are published ones `prompting_effects` where vanilla was
    asked too, `metrics` where the benchmark computes some, and `samples` where each question was asked several times.
    scores: a score table. intervals: one of WAYS. Raises ConfigError for a table that lacks a column."""
    rows = file_rows(scores)
    return count_tables(lambda: [rows], baselines.RuleKinds.of(scores), intervals)


def file_rows(scores: pl.LazyFrame) -> pl.DataFrame:
    """The prepared rows of a score table with the columns that `count_tables` needs."""
    computed = [name for name in scores.collect_schema().names() if name.startswith(BEGINNING)]
    columns = (*REQUIRED, *computed, *baselines.RuleKinds.of(scores).columns, *sample_columns(scores))
    return prepare_rows(name_apart(scores, ("item", "cluster")), columns).collect(engine="streaming")


def count_tables(rows: Rows, kinds: baselines.RuleKinds, intervals: str) -> dict[str, pl.DataFrame]:
    """The same tables, counted file by file. rows: prepared rows of every file. kinds: the rules of all of them."""
    answers, once = Tally((), kinds, effects="baseline"), RuleCounter(kinds)
    means, repeated = Metrics(), Samples()
    more = () if intervals == "published" else (means, repeated)
    count_files(rows, (answers, once, *more))
    shares = [dict(zip(ARM, key, strict=True)) | found for key, found in answers.shares(intervals)]
    rules = list(once.records())
    accuracy = baselines.drop_rule_columns(pl.DataFrame(shares, infer_schema_length=None), kinds)
    made = {"accuracy": accuracy, baselines.TABLE: pl.DataFrame(rules)}
    if intervals != "published":
        effects = list(answers.effects())
        made["prompting_effects"] = pl.DataFrame(effects, infer_schema_length=None).fill_nan(None)
        made |= {METRICS: means.table(), SAMPLES: repeated.table()}
    return {name: table for name, table in made.items() if table.height or name == "accuracy"}


def _reading(tables: Tables) -> str:
    """What a reader of the accuracies in the terminal must know of them."""
    if "method" not in tables["accuracy"].columns:
        return TEXTS.notes("published")["accuracy"]
    return (
        "accuracy: correct of total; ci_low and ci_high: the ends of its 95% interval, which generalises to "
        "further stories or tasks like these. A failed or unreadable answer counts as wrong."
    )


def summary(tables: Tables) -> list[Excerpt]:
    """What the terminal prints: the columns of each table that a reader needs first."""
    accuracy = tables["accuracy"]
    shown = accuracy.select(*accuracy.columns[:7], "unread")
    excerpts = [Excerpt("accuracy", shown, ("accuracy",), f"{_reading(tables)} {PHRASES['about_unread']}")]
    excerpts += baselines.excerpts(accuracy, ("strategy",))
    if (effects := tables.get("prompting_effects")) is not None:
        shares = (cell_of("share_treated", "strategy's"), cell_of("share_control", f"{BASELINE}'s"))
        ends = map(cell_of, ("risk_difference", "rd_low", "rd_high"))
        difference = pl.format("{} [{}, {}]", *ends).alias("difference [95%]")
        named = ("model", pl.col("treatment").alias("strategy"))
        frame = effects.select(*named, *shares, difference, "p", "gained", "lost", *noise_columns(effects))
        title = "effects: the strategy's share right minus vanilla's, on the same items"
        excerpts.append(Excerpt(title, frame, ("prompting_effects",), TEXTS["effects"]))
    if METRICS in tables:
        excerpts.append(Excerpt("metrics of the replies", tables[METRICS], (METRICS,)))
    if (repeated := tables.get(SAMPLES)) is not None:
        shown = repeated.drop("tasks", "method")
        excerpts.append(Excerpt("samples: what is right of several samples of a question", shown, (SAMPLES,)))
    return excerpts


STUDY = Study(
    name="accuracy",
    intervals=WAYS,
    tables=tables,
    notes=TEXTS.notes,
    warnings=baselines.missing_warnings,
    summary=summary,
    counted=FileCounting(file_rows, count_tables),
)
