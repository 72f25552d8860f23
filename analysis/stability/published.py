"""The published table of stability, from its own printed cells, and our answers counted as its source counts them.

The source is Mohanty et al., "Functional Theory of Mind Evaluation in Large Language Models: A Behavioral and Causal
Stability Framework", table 5. Its items and answers are not public, so that its cells cannot be computed again; only
its last column, the average, follows from the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import ROUND_HALF_UP, Decimal

import polars as pl

from tomserve.stats.paper_formulas import accuracy_interval
from tomserve.studies.contrasts import Record
from tomserve.studies.pairs import SHORT, Asked, by_arm, in_order

PRINTED: Mapping[str, tuple[str, str, str, str, str]] = {
    "gpt-4o": ("0.74", "0.81", "0.78", "0.85", "0.80"),
    "claude-sonnet": ("0.71", "0.79", "0.76", "0.83", "0.77"),
    "llama3.1-70b": ("0.66", "0.74", "0.70", "0.79", "0.72"),
    "qwen2.5-72b": ("0.63", "0.71", "0.68", "0.76", "0.70"),
    "mistral-7b": ("0.52", "0.61", "0.55", "0.67", "0.59"),
}
"""The cells as printed, by model: T1 (object), T2 (person), T3 (truncation), T4 (order of choices), and the average."""

KINDS = ("T1", "T2", "T3", "T4")


def table() -> pl.DataFrame:
    """The table `published_stability`: the printed cells, the mean of the four, and whether it is the printed average.

    The mean is rounded half up to two decimals, as the source prints it."""
    rows = []
    for model, cells in PRINTED.items():
        four, printed = [Decimal(cell) for cell in cells[:4]], Decimal(cells[4])
        mean = sum(four, Decimal(0)) / 4
        agrees = mean.quantize(Decimal("0.01"), ROUND_HALF_UP) == printed
        shares = {kind: float(cell) for kind, cell in zip(KINDS, four, strict=True)}
        rows.append({"model": model, **shares, "mean": float(mean), "printed_average": float(printed), "same": agrees})
    return pl.DataFrame(rows)


def counted(asked: Asked) -> Iterator[Record]:
    """The table `stability` as the source counts: S of every kind and its plain mean over T1 to T4, without correction;
    the interval takes pairs as independent, since the source gives none."""
    for arm, part in by_arm(asked.pairs):
        shares = {}
        for kind in in_order(part["variant"]):
            own = part.filter(variant=kind)["same"]
            low, high = accuracy_interval(int(own.sum()), own.len())
            shares[SHORT.get(kind, "")] = own.sum() / own.len()
            yield {
                **{**arm, "variant": kind, "short": SHORT.get(kind, ""), "pairs": own.len(), "same": int(own.sum())},
                **{"s": own.sum() / own.len(), "s_low": low, "s_high": high, "d": 1 - own.sum() / own.len()},
            }
        if set(KINDS) <= set(shares):
            mean = sum(shares[kind] for kind in KINDS) / 4
            yield {**arm, "variant": "mean T1-T4", "short": "T1-T4", "s": mean, "d": 1 - mean}
