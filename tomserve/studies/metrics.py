"""The table of means of the metrics that a benchmark computes from replies: the columns of a score table whose names
begin with ``metric_``.

>>> rows = pl.DataFrame({"model": ["m"] * 3, "strategy": ["s"] * 3, "cluster": list("abc"), "metric_words": [2, 4, 6]})
>>> means(rows).select("metric", "answers", "mean").rows()
[('metric_words', 3, 4.0)]
"""

from __future__ import annotations

import polars as pl

from tomserve.scoring.metrics import BEGINNING
from tomserve.stats.clustered import sums_mean

TABLE = "metrics"
NOTE = (
    "The mean over the replies that have a value (answers, of the total that were asked for), with its 95% t "
    "interval (the mean, give or take the spread of the clusters): what to expect of further clusters (stories, "
    "tasks) like these. A reply that did not come has no value."
)


class Metrics:
    """Sums of the metrics by cluster, counted file by file (see tomserve.studies.counting)."""

    def __init__(self) -> None:
        self._sums: list[pl.DataFrame] = []

    def first(self, rows: pl.DataFrame) -> None:
        """Add the sums of a file's rows."""
        names = [name for name, kind in rows.schema.items() if name.startswith(BEGINNING) and _countable(kind)]
        if names:
            rows = rows.with_columns(pl.col(name).cast(pl.Float64).fill_nan(None) for name in names)
            sums = [pl.col(name).sum() for name in names]
            known = [pl.col(name).count().cast(pl.Int64).alias(f"known {name}") for name in names]
            arms = rows.group_by("model", "strategy", "cluster")
            self._sums.append(arms.agg(pl.len().cast(pl.Int64).alias("total"), *sums, *known))

    def second(self, rows: pl.DataFrame, spanning: pl.Series) -> None:
        """Everything was counted at the first look."""

    def table(self) -> pl.DataFrame:
        """The table of `means`."""
        if not self._sums:
            return pl.DataFrame()
        keys = ["model", "strategy", "cluster"]
        whole = pl.concat(self._sums, how="diagonal").group_by(keys).agg(pl.all().sum()).sort(keys)
        names = [name for name in whole.columns if name.startswith(BEGINNING)]
        records = []
        for (model, strategy), part in whole.group_by("model", "strategy", maintain_order=True):
            for name in names:
                known = part.filter(pl.col(f"known {name}") > 0)
                interval = sums_mean(known[name].to_numpy(), known[f"known {name}"].to_numpy())
                records.append(
                    {
                        "model": model,
                        "strategy": strategy,
                        "metric": name,
                        "total": int(part["total"].sum()),
                        "answers": int(known[f"known {name}"].sum()),
                        "mean": interval.estimate,
                        "ci_low": interval.low,
                        "ci_high": interval.high,
                        "clusters": known.height,
                    }
                )
        return pl.DataFrame(records, infer_schema_length=None).fill_nan(None)


def means(rows: pl.DataFrame) -> pl.DataFrame:
    """A row for each model, strategy and metric: total, answers (replies with a value), mean, ci_low, ci_high,
    clusters.

    rows: with `model`, `strategy` and `cluster`; every column of numbers or of true and false that begins with metric_
    is a metric. The mean is over answers, with the 95 % interval of stats.clustered.clustered_mean; its bounds are null
    where they are undefined. The frame has neither rows nor columns where there is no metric.
    """
    counter = Metrics()
    counter.first(rows)
    return counter.table()


def _countable(kind: pl.DataType) -> bool:
    return kind.is_numeric() or kind == pl.Boolean
