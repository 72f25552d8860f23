"""Tables 3 to 6 of Mohanty et al., "Functional Theory of Mind Evaluation in Large Language Models: A Behavioral and
Causal Stability Framework", as they are printed.

Their items and answers are not public, so that no cell can be computed again. Studies quote them beside their own.
"""

from collections.abc import Mapping

import polars as pl

BEHAVIOUR_COLUMNS = ("overall", "understanding", "influence", "transformation", "belief", "emotion")
# Behaviour, raw accuracy in per cent, in the order of BEHAVIOUR_COLUMNS.
TABLE_3: Mapping[str, tuple[int, ...]] = {
    "human": (78, 91, 84, 67, 76, 83),
    "gpt-4o": (67, 79, 71, 54, 58, 74),
    "claude-sonnet": (63, 75, 68, 49, 55, 71),
    "llama3.1-70b": (58, 70, 62, 44, 51, 65),
    "qwen2.5-72b": (53, 65, 57, 39, 46, 61),
    "mistral-7b": (41, 54, 45, 27, 34, 48),
}

# Mechanism: peak net effect, which the source calls C, the layers of the peak, and the range of alpha.
TABLE_4: Mapping[str, tuple[float | None, str | None, str | None]] = {
    "llama3.1-70b": (0.23, "65-75", "1e-4..1e-2"),
    "qwen2.5-72b": (0.20, "70-80", "1e-4..1e-2"),
    "gpt-4o": (None, None, None),
    "mistral-7b": (0.11, "28-32", "1e-3..1e-2"),
}

KINDS = ("T1", "T2", "T3", "T4")
# Stability under the kinds of variants T1 (object), T2 (person), T3 (truncation) and T4 (order of choices), and the
# printed average.
TABLE_5: Mapping[str, tuple[float, ...]] = {
    "gpt-4o": (0.74, 0.81, 0.78, 0.85, 0.80),
    "claude-sonnet": (0.71, 0.79, 0.76, 0.83, 0.77),
    "llama3.1-70b": (0.66, 0.74, 0.70, 0.79, 0.72),
    "qwen2.5-72b": (0.63, 0.71, 0.68, 0.76, 0.70),
    "mistral-7b": (0.52, 0.61, 0.55, 0.67, 0.59),
}

REFERENCE = "reference"  # What the row of people holds: no score, and an S that was not measured
# B, C and S, the printed score, what it holds, and the printed rank.
TABLE_6: Mapping[str, tuple[float, float | None, float, float | None, str, int | None]] = {
    "human": (0.78, None, 0.97, None, REFERENCE, None),
    "gpt-4o": (0.67, None, 0.80, 0.50, "b_and_s_only", 1),
    "claude-sonnet": (0.63, None, 0.77, 0.47, "b_and_s_only", 2),
    "llama3.1-70b": (0.58, 0.23, 0.72, 0.58, "full", 1),
    "qwen2.5-72b": (0.53, 0.20, 0.70, 0.54, "full", 2),
    "mistral-7b": (0.41, 0.11, 0.59, 0.39, "full", 3),
}


def behaviour() -> pl.DataFrame:
    """Table 3 as shares."""
    rows = ((name, *(cell / 100 for cell in cells)) for name, cells in TABLE_3.items())
    return pl.DataFrame(list(rows), ("model", *BEHAVIOUR_COLUMNS), orient="row")


def causal() -> pl.DataFrame:
    """Table 4: net_effect, layers and alpha of each model, empty for a model that was not measured."""
    rows = [(name, *cells) for name, cells in TABLE_4.items()]
    return pl.DataFrame(rows, ("model", "net_effect", "layers", "alpha"), orient="row")


def stability() -> pl.DataFrame:
    """Table 5: S of each of KINDS and the printed average."""
    return pl.DataFrame([(name, *cells) for name, cells in TABLE_5.items()], ("model", *KINDS, "average"), orient="row")
