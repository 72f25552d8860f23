"""The published table of behaviour, from its own printed cells.

The source is Mohanty et al., "Functional Theory of Mind Evaluation in Large Language Models: A Behavioral and Causal
Stability Framework", table 3, in per cent. Its items and answers are not public, so that no cell can be computed again.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

COLUMNS = ("overall", "understanding", "influence", "transformation", "belief", "emotion")

PRINTED: Mapping[str, tuple[int, int, int, int, int, int]] = {
    "human": (78, 91, 84, 67, 76, 83),
    "gpt-4o": (67, 79, 71, 54, 58, 74),
    "claude-sonnet": (63, 75, 68, 49, 55, 71),
    "llama3.1-70b": (58, 70, 62, 44, 51, 65),
    "qwen2.5-72b": (53, 65, 57, 39, 46, 61),
    "mistral-7b": (41, 54, 45, 27, 34, 48),
}
"""The cells as printed, by model, in per cent, in the order of COLUMNS."""


def table() -> pl.DataFrame:
    """The table `published_behaviour`: the printed cells as shares, and the mean of the three types of task, from which
    the printed overall share differs in every row."""
    rows = []
    for model, cells in PRINTED.items():
        shares = {name: cell / 100 for name, cell in zip(COLUMNS, cells, strict=True)}
        rows.append({"model": model, **shares, "mean_of_tasks": round(sum(cells[1:4]) / 300, 3)})
    return pl.DataFrame(rows)
