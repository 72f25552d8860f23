"""What files for other tools must not hold, and what they must give again."""

from pathlib import Path

import polars as pl

SECRETS = ("hunter2", "sk-very-secret", "letmein")
"""What must be in no file that is handed on."""


def same_scores(ours: Path | str, theirs: Path | str, thoughts: bool = True) -> None:
    """Hold the scores of a run against those of the run that its export became, which may have some of its strategies.
    All columns are the same but that addresses in a failure's reason have lost their passwords. thoughts: whether the
    export has them, so that a reply which ended within them is told from one without a text."""
    from tomserve.engine.redact import redact_settings
    from tomserve.runs.scores import load_scores

    left, right = load_scores(str(ours)), load_scores(str(theirs))
    left = left.filter(pl.col("strategy").is_in(right["strategy"].unique().to_list()))
    masked = pl.col("reason").map_elements(redact_settings, return_dtype=pl.String)
    left = left.with_columns(reason=pl.when(status="connection").then(masked).otherwise("reason"))
    if not thoughts:
        left = left.with_columns(pl.col("reason").replace("the thinking was cut off before an answer", "empty text"))
    own = {name for name in right.columns if name.startswith("graded_")}
    assert set(left.columns) == set(right.columns) - own, set(left.columns) ^ set(right.columns)
    columns = [name for name in left.columns if name != "run"]
    assert left.height == right.height
    assert left.select(columns).equals(right.select(columns)), [
        name for name in columns if not left[name].equals(right[name])
    ]
