"""Means of the metrics that a benchmark computes from replies: any column of a score table that begins with
``metric_``.

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
    "The mean over the replies that came (answers, of all that were asked for: total) with its 95% t interval over "
    "clusters (stories, tasks), for further clusters like these. A reply that did not come has no value."
)


def means(rows: pl.DataFrame) -> pl.DataFrame:
    """A row a model, strategy and metric: total, answers (replies with a value), mean, ci_low, ci_high, clusters.

    rows: with `model`, `strategy` and `cluster`; every column of numbers or of true and false that begins with metric_
    is a metric. The mean is over answers, with the 95 % interval of stats.clustered.clustered_mean; its bounds are null
    where they are undefined. Without rows and columns where the table has no metric.
    """
    names = [name for name, kind in rows.schema.items() if name.startswith(BEGINNING) and _countable(kind)]
    found = []
    for (model, strategy), part in rows.group_by(["model", "strategy"], maintain_order=True):
        for name in names:
            values = part.select("cluster", value=pl.col(name).cast(pl.Float64)).drop_nulls("value")
            interval = clustered_mean(values["value"].to_numpy(), values["cluster"].to_numpy())
            found.append(
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
    return pl.DataFrame(found, infer_schema_length=None).fill_nan(None) if found else pl.DataFrame()


def _countable(kind: pl.DataType) -> bool:
    return kind.is_numeric() or kind == pl.Boolean
