"""The table of means of the metrics that a benchmark computes from replies: the columns of a score table whose names
begin with ``metric_``.

>>> rows = pl.DataFrame({"model": ["m"] * 3, "strategy": ["s"] * 3, "cluster": list("abc"), "metric_words": [2, 4, 6]})
>>> means(rows).select("metric", "answers", "mean").rows()
[('metric_words', 3, 4.0)]
"""

from __future__ import annotations

import polars as pl

from tomserve.scoring.metric import BEGINNING
from tomserve.stats.clustered import clustered_mean

TABLE = "metrics"
NOTE = (
    "The mean over the replies that have a value (answers, of the total that were asked for), with its 95% t "
    "interval (the mean, give or take the spread of the clusters): what to expect of further clusters (stories, "
    "tasks) like these. A reply that did not come has no value."
)


def means(rows: pl.DataFrame) -> pl.DataFrame:
    """A row for each model, strategy and metric: total, answers (replies with a value), mean, ci_low, ci_high,
    clusters.

    rows: with `model`, `strategy` and `cluster`; every column of numbers or of true and false that begins with metric_
    is a metric. The mean is over answers, with the 95 % interval of stats.clustered.clustered_mean; its bounds are null
    where they are undefined. The frame has neither rows nor columns where there is no metric.
    """
    names = [name for name, kind in rows.schema.items() if name.startswith(BEGINNING) and _countable(kind)]
    records = []
    for (model, strategy), part in rows.group_by(["model", "strategy"], maintain_order=True):
        for name in names:
            values = part.select("cluster", value=pl.col(name).cast(pl.Float64)).drop_nulls("value")
            interval = clustered_mean(values["value"].to_numpy(), values["cluster"].to_numpy())
            records.append(
                {
                    "model": model,
                    "strategy": strategy,
                    "metric": name,
                    "total": part.height,
                    "answers": values.height,
                    "mean": interval.estimate,
                    "ci_low": interval.low,
                    "ci_high": interval.high,
                    "clusters": values["cluster"].n_unique(),
                }
            )
    return pl.DataFrame(records, infer_schema_length=None).fill_nan(None) if records else pl.DataFrame()


def _countable(kind: pl.DataType) -> bool:
    return kind.is_numeric() or kind == pl.Boolean
