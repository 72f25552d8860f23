"""Shows which variants of a run's questions could not be made, and why."""

from __future__ import annotations

import polars as pl

from tomserve.runs.manifest import VariantsRecord

TITLE = "variants left out"


def left_out(record: VariantsRecord | None) -> pl.DataFrame:
    """A row for each kind and reason: how many variants of the kind were made, and how many left out for that reason,
    the most frequent first.

    record: what the run's manifest says of its variants, None where it says nothing.
    """
    known = record or VariantsRecord()
    rows = [
        {"variant": kind, "made": known.made.get(kind, 0), "left_out": count, "reason": reason}
        for kind, reasons in known.dropped.items()
        for reason, count in sorted(reasons.items(), key=lambda pair: -pair[1])
    ]
    kinds = {"variant": pl.String, "made": pl.Int64, "left_out": pl.Int64, "reason": pl.String}
    return pl.DataFrame(rows, schema=kinds)
