"""Studies turn the scores of runs into tables, figures and verdicts.

This package finds, checks and computes the studies of the folder analysis/, and holds what they share: comparisons of
two conditions, of two runs, and the planning of a study.

from tomserve.runs.scores import load_scores
from tomserve.studies import analyze

tables = analyze(load_scores("example"), "accuracy")
"""

from tomserve.studies.analysis import Analysis, analyze, compute, labelled
from tomserve.studies.loading import default_study, load_study, named_by, names
from tomserve.studies.showing import (
    BAD,
    GOOD,
    OPEN,
    Asked,
    Card,
    Chance,
    Context,
    Excerpt,
    Exhibit,
    Figure,
    Layout,
    Panel,
    Section,
    Verdict,
    Versions,
)
from tomserve.studies.study import Study

__all__ = [
    "BAD",
    "GOOD",
    "OPEN",
    "Analysis",
    "Asked",
    "Card",
    "Chance",
    "Context",
    "Excerpt",
    "Exhibit",
    "Figure",
    "Layout",
    "Panel",
    "Section",
    "Study",
    "Verdict",
    "Versions",
    "analyze",
    "compute",
    "default_study",
    "labelled",
    "load_study",
    "named_by",
    "names",
]
