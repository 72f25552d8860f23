"""Tables 3 to 6 of Mohanty et al., "Functional Theory of Mind Evaluation in Large Language Models: A Behavioral and
Causal Stability Framework", as they are printed: ``published_tables.yaml`` beside this module.

Their items and answers are not public, so that no cell can be computed again. Studies quote them beside their own.
"""

from pathlib import Path

import polars as pl

from tomserve.content.validation import load_yaml

BEHAVIOUR_COLUMNS = ("overall", "understanding", "influence", "transformation", "belief", "emotion")
KINDS = ("T1", "T2", "T3", "T4")
REFERENCE = "reference"  # What the row of people holds: no score, and an S that was not measured
# By model the cells of behaviour, in the order of BEHAVIOUR_COLUMNS, mechanism, stability, by KINDS, and scores.
TABLE_3, TABLE_4, TABLE_5, TABLE_6 = (
    {str(name): tuple(cells) for name, cells in table.items()}
    for table in load_yaml(Path(__file__).with_suffix(".yaml"))[0].values()
)


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
